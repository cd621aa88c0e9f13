"""A member's stages."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from ahofm import AHOFMRegressor, Spline
from ahofm.backends import CpuBackend, DesignRows, Response
from ahofm.columns import Codes
from ahofm.families import Gaussian, Huber, Poisson
from ahofm.fit.solvers.variational import init, stage, staged_fit
from ahofm.fit.solvers.variational.coordinate_ascent import VariationalState
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign
from ahofm.fit.solvers.variational.posterior import LinearPredictor
from ahofm.fit.stacking.candidates import Candidate
from ahofm.fit.stacking.runner import StagedRunner
from ahofm.orders import PRODUCT
from ahofm.priors import column
from ahofm.rows import ArraySource, SerialExecutor
from tests.fit.solvers.variational.samples import small_problem

NO_COLUMNS = AdditiveDesign((), DesignRows.of([], np.ones(4)))


def started(response):
    """The state of a fit to four rows without columns."""
    rows = CpuBackend().load(ArraySource(Codes((np.zeros(4, np.uint8),), (1,))), SerialExecutor())
    return VariationalState.start(rows, response, NO_COLUMNS, [])


def repeated_values(seed):
    """Five columns that are functions of one of twelve shapes, and three with few values; hardly any noise."""
    rng = np.random.default_rng(seed)
    shape = rng.integers(0, 12, 400)
    looks = rng.normal(size=(12, 5))[shape]
    X = np.column_stack([looks, rng.integers(0, 4, 400), rng.integers(0, 4, 400) / 10, rng.integers(0, 6, 400)])
    mean = 2 * np.sin(X[:, 0]) + 3 * X[:, 1] * X[:, 6] + X[:, 0] * X[:, 5] * X[:, 6] + 5 * X[:, 6] * (X[:, 7] > 0)
    return X, mean + 0.02 * rng.normal(size=400), mean


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_stage_that_diverges_leaves_the_one_below_it(monkeypatch):
    X, y, mean = repeated_values(3)

    def fitted():
        model = AHOFMRegressor(order=4, factor_prior="spline_iid", n_members=1, random_state=0, n_jobs=1)
        return model.fit(X[:300], y[:300])

    assert np.sqrt(np.mean((fitted().predict(X[300:]) - mean[300:]) ** 2)) < 0.2  # was a million
    monkeypatch.setattr(stage, "DIVERGED_RATIO", 0.0)
    assert fitted().model_.order == 1


@pytest.mark.parametrize("bound", ["DIVERGED_RATIO", "FAILED_RATIO", "LARGEST_FUNCTION_VALUE"])
@pytest.mark.parametrize("family", ["poisson", "huber", "gaussian_location_scale"])
def test_stages_are_judged_whatever_the_losses(monkeypatch, family, bound):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 3))
    y = rng.poisson(np.exp(X[:, 0] + 2 * X[:, 1] * X[:, 2])).astype(float)

    def fitted():
        return AHOFMRegressor(family=family, order=2, n_members=1, random_state=0, max_iter=15).fit(X, y).model_.order

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert fitted() == 2
        monkeypatch.setattr(stage, bound, 0.0)
        assert fitted() == 1


@pytest.mark.parametrize(
    ("family", "level", "noise", "risen"),
    [
        (Poisson(), 3.0, 1.0, 3.0),
        (Poisson(), 0.5, 1.0, 1.0),
        (Poisson(), np.inf, 1.0, np.inf),
        (Huber(), 0.5, 7.0, 7.0),
    ],
    ids=str,
)
def test_what_stages_are_judged_by(monkeypatch, family, level, noise, risen):
    response = Response(family.filled(np.arange(4.0), np.ones(4)), np.arange(4.0), np.ones(4), None)
    state = started(response)
    monkeypatch.setattr(VariationalState, "objective", lambda _: 0.2)
    state.dispersion = 1.0
    reference = state.reference()
    assert reference == (1.0, 1.0), "losses count from those of constants on"
    monkeypatch.setattr(VariationalState, "objective", lambda _: level)
    state.dispersion = noise
    assert state.objective_ratio(reference) == risen
    assert state.objective_ratio(reference, ends=True) == level


def test_rows_that_say_nothing_move_nothing():
    y = np.arange(4.0)
    state = started(Response(Poisson(), y, np.ones(4), None))
    state.rows.derivatives = state.response.derivatives(np.full((4, 1), -800.0))
    before = state.linear_predictors[0].posterior.intercept
    state.step_main_effects(0)
    assert state.linear_predictors[0].posterior.intercept == before


def test_a_step_that_is_taken_back_leaves_no_rounding():
    _, fit = small_problem(Poisson(), "spline_iid")
    fit.run(lambda _: False)
    (posterior,), rows = fit.posteriors[-1], fit._rows().working(fit.response, fit.additive.rows)
    linear_predictor = LinearPredictor(posterior)
    state = replace(fit._state, rows=rows, linear_predictors=[linear_predictor])

    def fitted():
        rows.evaluate()
        return rows.derivatives.eta, rows.variance

    rows.set_main_effects(0, posterior.intercept, posterior.smooth.coef)
    state.set_columns(0, 1.0)
    before, old = fitted(), linear_predictor.blocks[1]
    for times in (2.0, 1e12):
        rows.swap(0, None, linear_predictor.moments(1))
        linear_predictor.blocks[1] = replace(old, mean=times * old.mean)
        rows.swap(0, linear_predictor.moments(1), None)
        state._undo_solve(0, 1, old)
        rows.swap(0, linear_predictor.moments(1), None)
        np.testing.assert_allclose(fitted(), before, atol=1e-9)


def test_sufficient_decrease():
    """A Newton step of a Poisson mean has it, a wild one has not."""
    y = np.array([0.0, 1.0, 2.0, 5.0])
    state = started(Response(Poisson(), y, np.ones(4), None))
    intercept = state.linear_predictors[0].posterior.intercept

    def tried(before, after):
        state.rows.set_main_effects(0, before, np.zeros(0))
        state.rows.evaluate()
        state.rows.set_main_effects(0, after, np.zeros(0))
        return state._sufficient_decrease(state.rows.trial(0))

    newton = intercept + 0.3 - (1.0 - np.exp(-0.3))
    assert tried(intercept + 0.3, newton)
    assert not tried(intercept + 0.3, intercept + 3.2)
    assert not tried(intercept + 0.3, intercept + 800.0)
    assert not tried(intercept + 0.3, intercept - 3.1)


def test_sufficient_decrease_of_an_exact_step_lowers_the_loss():
    """For steps that minimise the quadratic approximations along a random direction, over many of them."""
    rng = np.random.default_rng(1)
    state = started(Response(Poisson(), np.array([0.0, 1.0, 2.0, 5.0]), np.ones(4), None))
    response, seen = state.response, set()
    before = response.derivatives(3.0 * rng.normal(size=(4, 1)))
    for _ in range(200):
        direction = rng.normal(size=4) * np.exp(2.0 * rng.normal())
        slope, curvature = before.slope[:, 0], before.curvature[:, 0]
        step = -(slope @ direction) / (curvature @ direction**2) * direction
        trial = response.trial(before, response.derivatives(before.eta + step[:, None]), 0)
        seen.add(state._sufficient_decrease(trial))
        assert trial.loss < trial.before or not state._sufficient_decrease(trial)
    assert seen == {True, False}


def test_steps_that_losses_never_bear_out_leave_constants(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(200, 2))
    y = rng.poisson(np.exp(X[:, 0])).astype(float)
    monkeypatch.setattr(VariationalState, "_sufficient_decrease", lambda *_: False)
    settings = {"factor_prior": "spline", "n_members": 1, "device": CpuBackend(compiled_sweeps=False)}
    model = AHOFMRegressor(family="poisson", order=2, **settings).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y.mean(), rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", ["variational", "subsample"])
def test_factors_whose_steps_losses_never_bear_out_are_left_out(monkeypatch, solver):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 3))
    y = rng.poisson(np.exp(X[:, 0] + X[:, 1] * X[:, 2])).astype(float)
    sufficient_decrease = VariationalState._sufficient_decrease
    monkeypatch.setattr(
        VariationalState,
        "_sufficient_decrease",
        lambda self, trial: not self.linear_predictors[0].posterior.ranks and sufficient_decrease(self, trial),
    )
    settings = {"family": "poisson", "factor_prior": "spline", "n_members": 1, "random_state": 0, "solver": solver}
    settings["device"] = CpuBackend(compiled_sweeps=False)
    both = AHOFMRegressor(order=2, **settings).fit(X, y)
    np.testing.assert_allclose(both.predict(X), both.model_.at_order(1).predict(X), rtol=1e-3)


def ring_of_pairs(n, seed, p=12):
    """A pair for every two neighbours: as many directions as columns."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, p))
    mean = sum(np.sin(2 * X[:, j] + j) * np.cos(2 * X[:, (j + 1) % p] - j) for j in range(p))
    return X, mean + 0.1 * rng.normal(size=n), mean


def missed(model):
    X, _, mean = ring_of_pairs(1000, 1)
    return np.mean((model.predict(X) - mean) ** 2) / mean.var()


@pytest.mark.slow
def test_pairs_get_more_factors_while_they_leave_something_to_explain():
    X, y, _ = ring_of_pairs(1500, 0)
    settings = {"order": 2, "columns": Spline(n_basis=6), "n_members": 1, "random_state": 2}
    shares = []
    found = AHOFMRegressor(**settings, callbacks=[lambda record: shares.append(record.fraction)]).fit(X, y)
    given = AHOFMRegressor(**settings, rank=4).fit(X, y)
    assert given.model_.ranks == {2: 4}
    more = found.model_.ranks[2]
    assert more > 4
    assert missed(given) > 0.1
    assert missed(found) < 0.6 * missed(given)
    rank = next(choice for choice in found.model_.choices if choice.name == "rank")
    assert rank.value == f"{more} at order 2"
    assert "4 at order 2 left something to explain" in rank.reason
    assert shares == sorted(shares)
    assert 0.7 < shares[-1] <= 1.0


@pytest.mark.slow
def test_factors_that_were_added_in_vain_are_taken_back(monkeypatch):
    X, y, _ = ring_of_pairs(1500, 0)
    stage = staged_fit.StagedFit._stage

    def failing(self, order, report, grown=0):
        if grown:
            raise staged_fit.FailedError
        return stage(self, order, report, grown)

    monkeypatch.setattr(staged_fit.StagedFit, "_stage", failing)
    model = AHOFMRegressor(order=3, columns=Spline(n_basis=6), n_members=1, random_state=0).fit(X, y)
    assert model.model_.at_order(2).ranks == {2: 4}
    assert 0.1 < missed(model) < 0.5


def test_pairs_that_leave_nothing_get_no_more_factors():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (1500, 8))
    y = np.sin(3 * X[:, 0]) + 2 * X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=1500)
    model = AHOFMRegressor(order=2, columns=Spline(n_basis=6), n_members=1, random_state=0).fit(X, y)
    assert model.model_.ranks[2] <= 4


@pytest.mark.slow
def test_functions_that_nothing_needs_vanish_where_rows_are_many(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (22_000, 6))
    mean = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 1.5 * np.sin(2 * X[:, 2]) * X[:, 3]
    y = mean + rng.normal(size=len(mean))

    def fitted():
        settings = {"solver": "subsample", "factor_prior": "spline", "n_members": 1, "random_state": 0}
        model = AHOFMRegressor(order=2, rank=6, **settings)
        model.fit(X[:20_000], y[:20_000])
        return model, np.sqrt(np.mean((model.predict(X[20_000:]) - mean[20_000:]) ** 2))

    model, error = fitted()
    assert (model.model_.smoothing_parameters[2][[0, 1, 4, 5]] > 1e7).all()
    monkeypatch.setattr(column, "LARGEST_LAM", (1e6, 1e6))
    assert error < 0.8 * fitted()[1]


@pytest.mark.slow
def test_members_end_at_the_order_that_counts(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (300, 4))
    y = np.sin(3 * X[:, 0]) + X[:, 1] + rng.normal(size=300)
    run, orders, shares = StagedRunner.__call__, {}, []

    def listening(self, staged_fits, name=None, *given, **named):
        orders.setdefault(name, [max(one.ranks, default=1) for one in staged_fits])
        return run(self, staged_fits, name, *given, **named)

    monkeypatch.setattr(StagedRunner, "__call__", listening)
    model = AHOFMRegressor(random_state=0, callbacks=[lambda record: shares.append(record.fraction)]).fit(X, y)
    assert set(orders["search"]) == {3, PRODUCT}
    assert set(orders["member"]) == {1}
    assert model.model_.order == 1
    assert next(choice for choice in model.model_.choices if choice.name == "rank").value == "none"
    assert shares == sorted(shares)
    assert 0.7 < shares[-1] <= 1.0


def assert_equal_fits(fits, others):
    for fit, other in zip(fits, others, strict=True):
        for one, partner in zip(fit, other, strict=True):
            assert one.predictor.intercept == partner.predictor.intercept
            assert one.dispersion == partner.dispersion
            for part in ("coef", "centring"):
                for own, theirs in zip(getattr(one.predictor, part), getattr(partner.predictor, part), strict=True):
                    np.testing.assert_array_equal(own, theirs)
            for own, theirs in zip(one.values, partner.values, strict=True):
                np.testing.assert_array_equal(own, theirs)


@pytest.mark.parametrize("family", [Gaussian(), Poisson()])
def test_main_effects_of_another_candidate_are_taken_over(family):
    found = []
    for first in ("random_walk", "spline"):
        problem, _ = small_problem(family, "spline")
        for wanted in dict.fromkeys((first, "spline")):
            staged = problem.staged_fit(Candidate(wanted, 0.7, 0.7), 0, 0)
            seen = []
            staged.run(lambda sweep, seen=seen: bool(seen.append(sweep.order)))
        found.append((staged.fits, 1 in seen))
    (shared, swept_again), (own, swept) = found
    assert swept
    assert not swept_again
    assert_equal_fits(shared, own)


def test_a_fit_goes_on_from_an_order():
    _, whole = small_problem(Poisson(), "spline_iid")
    _, parts = small_problem(Poisson(), "spline_iid")
    assert len(parts.run(lambda _: False, 2)) == 2
    assert_equal_fits(parts.run(lambda _: False), whole.run(lambda _: False))


def test_no_more_factors_while_some_are_idle(monkeypatch):
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (800, 4))
    y = X[:, 0] + np.sin(3 * X[:, 1]) * X[:, 2] + np.cos(3 * X[:, 2]) * X[:, 3] + 0.1 * rng.normal(size=800)
    monkeypatch.setattr(staged_fit, "FEWEST_GROWTH_EIGENVALUES", 0)
    ranks = []
    for idle in (0.0, np.inf):
        monkeypatch.setattr(init, "IDLE_FACTOR_VARIANCE", idle)
        model = AHOFMRegressor(order=2, columns=Spline(n_basis=6), n_members=1, random_state=0).fit(X, y)
        ranks.append(next(choice.value for choice in model.model_.choices if choice.name == "rank"))
    assert ranks == ["12 at order 2", "4 at order 2"]
