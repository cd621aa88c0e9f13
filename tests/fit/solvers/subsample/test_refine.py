"""Coefficients of a sample, refined on all rows by gradient passes."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ahofm import AHOFMRegressor
from ahofm.families import Gaussian, Multinomial, Poisson
from ahofm.fit.solvers.subsample import refine
from ahofm.fit.solvers.subsample.objective import RefinementObjective, tables_of
from ahofm.fit.solvers.subsample.refine import all_rows, posteriors_of, refined_fits
from ahofm.fit.stacking import problem
from ahofm.fit.stacking.runner import StagedRunner
from ahofm.fit.stacking.weights import predict
from ahofm.model import Reason
from ahofm.priors.base import Coefficients
from tests.fit.solvers.variational.samples import simulated, small_problem


def problem_of(family, factor_prior, times=None):
    """``times``: other bounds of factors, in units of their root mean square."""
    problem, staged = small_problem(family, factor_prior)
    StagedRunner(1, problem.response.n_rows, ())([staged])
    if times is not None:
        for block in staged.posteriors[-1][0].blocks:
            block.relative_bounds[:] = times
    posteriors, rows = staged.posteriors[-1], all_rows(problem, staged)
    return RefinementObjective(posteriors, staged.additive, rows, rows, staged.expected_sums(posteriors), 0.7), staged


@pytest.mark.parametrize("factor_prior", ["spline", "random_walk", "spline_iid"])
@pytest.mark.parametrize("family", [Gaussian(), Poisson(), Multinomial(3)], ids=str)
def test_slopes_are_those_of_the_objective(family, factor_prior):
    objective, _ = problem_of(family, factor_prior)
    rng = np.random.default_rng(1)
    u = objective.start + 0.05 * rng.normal(size=len(objective.start))
    value, _, gradient = objective.value_and_gradient(u)
    assert np.isfinite(value)
    for _ in range(5):
        direction = rng.normal(size=len(u))
        up, down = (objective.value_and_gradient(u + step * direction)[0] for step in (1e-5, -1e-5))
        assert gradient @ direction == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("factor_prior", ["spline", "random_walk", "spline_iid"])
def test_the_start_is_what_the_sample_found(factor_prior):
    objective, staged = problem_of(Gaussian(), factor_prior)
    (table,) = objective.linear_predictors(objective.start)
    expected = tables_of(staged.posteriors[-1][0], staged.additive)
    assert table.intercept == expected.intercept
    np.testing.assert_allclose(table.main, expected.main, atol=1e-12)
    for order, values in expected.factors.items():
        np.testing.assert_allclose(table.factors[order], values, atol=1e-12)


@pytest.mark.parametrize("factor_prior", ["spline", "random_walk", "spline_iid"])
def test_what_is_found_is_what_beliefs_hold(factor_prior):
    """Also the smooth main effects, which are centred on rows and not on codes."""
    objective, staged = problem_of(Gaussian(), factor_prior)
    u = objective.start + 0.01 * np.random.default_rng(3).normal(size=len(objective.start))
    (posterior,) = posteriors_of(staged.posteriors[-1], staged.additive, objective, u)
    new, (table,) = tables_of(posterior, staged.additive), objective.linear_predictors(u)
    eta = [objective.rows.rows.eta([part])[:, 0] for part in (new, table)]
    np.testing.assert_allclose(eta[0], eta[1], atol=1e-10)


@pytest.mark.parametrize("factor_prior", ["spline", "random_walk", "spline_iid"])
@pytest.mark.parametrize("family", [Gaussian(), Poisson()], ids=str)
def test_the_descent_knows_the_bounds_of_factors(family, factor_prior):
    """What it minimises is what the posterior predicts, also where values are beyond their bounds; slopes too."""
    objective, staged = problem_of(family, factor_prior, times=1.5)
    rng = np.random.default_rng(4)
    u = objective.start + 0.05 * rng.normal(size=len(objective.start))
    beyond = sum(
        int((block.bounded_values(coef) != block.values(coef)).sum())
        for (_, block, _), coef in zip(objective.blocks(), objective.coefficients(u), strict=True)
    )
    assert beyond > 20
    (posterior,) = posteriors_of(staged.posteriors[-1], staged.additive, objective, u)
    new, (table,) = tables_of(posterior, staged.additive), objective.linear_predictors(u)
    eta = [objective.rows.rows.eta([part])[:, 0] for part in (new, table)]
    np.testing.assert_allclose(eta[0], eta[1], atol=1e-10)
    _, _, gradient = objective.value_and_gradient(u)
    for _ in range(5):
        direction = rng.normal(size=len(u))
        up, down = (objective.value_and_gradient(u + step * direction)[0] for step in (1e-6, -1e-6))
        assert gradient @ direction == pytest.approx((up - down) / 2e-6, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("factor_prior", ["spline", "random_walk", "spline_iid"])
def test_block_solves_invert_the_blocks(factor_prior):
    """For a slope of any form: (curvature + Q) times what comes out is the slope, on functions of mean zero."""
    objective, _ = problem_of(Gaussian(), factor_prior)
    rng = np.random.default_rng(2)
    for _, block, _ in objective.blocks():
        part = block.coef.like(rng.normal(size=len(block.coef.flat())))
        at_codes = rng.normal(size=block.sample_values.shape)
        found = block.coef.like(block.precondition(at_codes, part))
        back = np.einsum("bfg,bg->bf", block.gram, block.values(found))
        residual = block.coef.like(block.gradient(back - at_codes, _minus(found, part)))
        mass = getattr(block.prior, "mass", None)
        flat = residual.flat()
        if mass is None:
            penalty = np.abs(block.prior.penalty_gradient(part, block.lam).flat()).max()
            assert np.abs(flat).max() < 1e-8 * max(np.abs(at_codes).max(), penalty)
        else:  # what is left is a multiple of the constraint's normal, per block
            per_code = residual.per_code / mass[:, np.newaxis]
            np.testing.assert_allclose(per_code - per_code[0], 0.0, atol=1e-5 * np.abs(per_code).max() + 1e-6)


@pytest.mark.parametrize("factor_prior", ["spline", "random_walk", "spline_iid"])
@pytest.mark.parametrize("family", [Gaussian(), Multinomial(3)], ids=str)
def test_learning_smoothing_parameters_needs_no_pass(family, factor_prior):
    """The objective and its slopes with the new smoothing parameters are those that a pass over the rows finds."""
    objective, _ = problem_of(family, factor_prior)
    u = objective.start + 0.05 * np.random.default_rng(1).normal(size=len(objective.start))
    before, smoothing_parameters = objective.value_and_gradient(u), objective.smoothing_parameters
    value, gradient = objective.update_lam(u, before[0], before[1])
    again = objective.value_and_gradient(u)
    assert value == pytest.approx(again[0], rel=1e-12)
    np.testing.assert_allclose(gradient, again[2], rtol=1e-9, atol=1e-9)
    changed = [
        not np.array_equal(a, b) for a, b in zip(smoothing_parameters, objective.smoothing_parameters, strict=True)
    ]
    learns = [block.estimates_lam for _, block, _ in objective.blocks()]
    assert sum(changed) > 0.5 * sum(learns)  # others are at their bounds
    assert not any(change and not may for change, may in zip(changed, learns, strict=True))


@pytest.mark.parametrize("factor_prior", ["spline", "random_walk", "spline_iid"])
def test_block_solves_move_no_factor_by_much_more_than_its_size(factor_prior):
    objective, _ = problem_of(Gaussian(), factor_prior)
    u = objective.start.copy()
    for _, block, at in objective.blocks():
        if block.columns.start == 1:
            u[at] *= 0.002  # where partners are nearly zero, the solve of one column alone is far away

    def times():
        _, slopes, _ = objective.value_and_gradient(u)
        step = objective.precondition(slopes, u)
        given = zip(objective.blocks(), objective.coefficients(u), objective.coefficients(step), strict=True)
        sizes = [
            [np.sqrt(block.mass @ block.values(part) ** 2) for part in parts]
            for (_, block, _), *parts in given
            if block.columns.start == 1
        ]
        return np.max([step / np.maximum(own, 1e-3) for own, step in sizes])

    before = times()
    objective.damp(u, objective.value_and_gradient(u)[1])
    assert before > 20.0
    assert times() < 0.1 * before
    learned, again = objective.lam_and_damping, problem_of(Gaussian(), factor_prior)[0]
    again.restore(learned)
    for new, old in zip(again.lam_and_damping, learned, strict=True):
        np.testing.assert_array_equal(new[0], old[0])
        np.testing.assert_array_equal(new[1], old[1])


@pytest.mark.slow
def test_a_refinement_of_many_weak_factors_ends(monkeypatch):
    X, truth = simulated(150_000)
    y = truth + np.random.default_rng(1).normal(size=len(truth))
    monkeypatch.setattr(refine, "SAMPLE_ROWS", 5_000)
    monkeypatch.setattr(refine, "pruned", lambda posteriors, _: posteriors)
    model = AHOFMRegressor(order=2, factor_prior="spline", solver="subsample", rank=10, random_state=0).fit(X, y)
    new, mean = simulated(20_000, seed=5)
    assert np.sqrt(np.mean((model.predict(new) - mean) ** 2)) < 0.04


@pytest.mark.slow
def test_strengths_are_those_of_all_rows(monkeypatch):
    X, truth = simulated(40_000)
    y = truth + np.random.default_rng(1).normal(size=len(truth))
    monkeypatch.setattr(refine, "SAMPLE_ROWS", 2_000)
    settings = {"order": 2, "factor_prior": "random_walk", "n_members": 1, "random_state": 0}
    new, mean = simulated(20_000, seed=5)

    def fitted():
        model = AHOFMRegressor(solver="subsample", **settings).fit(X, y).model_
        return np.sqrt(np.mean((model.predict(new) - mean) ** 2)), model.smoothing_parameters[2].copy()

    error, smoothing_parameters = fitted()
    monkeypatch.setattr(refine, "DESCENTS", 1)  # those of the sample
    plain, before = fitted()
    assert error < 0.95 * plain
    assert not np.allclose(smoothing_parameters, before)


def _minus(a, b):
    return Coefficients(
        None if a.smooth is None else a.smooth - b.smooth,
        None if a.per_code is None else a.per_code - b.per_code,
    )


@pytest.mark.parametrize("family", [Gaussian(), Poisson()], ids=str)
def test_withall_rows_in_the_sample_little_changes(family):
    problem, staged = small_problem(family, "spline", n=1500)
    runner = StagedRunner(1, problem.response.n_rows, ())
    runner([staged])
    fits = refined_fits(staged, problem, problem, runner)
    before, after = (predict(fit, problem.books, problem.table) for fit in (staged.fits[-1], fits[-1]))
    assert np.corrcoef(before.ravel(), after.ravel())[0, 1] > 0.95
    assert np.std(after) == pytest.approx(np.std(before), rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_more_rows_than_the_sample(family, monkeypatch):
    monkeypatch.setattr(refine, "SAMPLE_ROWS", 15_000)
    X, truth = simulated(36_000)
    rng = np.random.default_rng(1)
    y = truth + rng.normal(size=len(truth)) if family == "gaussian" else rng.poisson(np.exp(truth)).astype(float)
    settings = {"order": 2, "factor_prior": "spline", "random_state": 0, "family": family}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AHOFMRegressor(solver="subsample", **settings).fit(X, y)
    assert model.trace_.solver == "subsample"
    assert model.trace_.records[-1].passes < 60
    part = AHOFMRegressor(**settings).fit(X[:15_000], y[:15_000])
    assert part.trace_.solver == "variational"
    new, truth = simulated(20_000, seed=5)
    own, sample = (np.sqrt(np.mean((one.predict_eta(new) - truth) ** 2)) for one in (model, part))
    assert own < 0.96 * sample
    assert model.model_.at_order(1).eta(new).shape == (20_000, 1)


@pytest.mark.slow
def test_callbacks_stop_it():
    X, truth = simulated(60_000)
    stop = AHOFMRegressor(
        order=2,
        solver="subsample",
        factor_prior="spline",
        callbacks=[lambda record: record.passes > 20],
        random_state=0,
    )
    stop.fit(X, truth)
    assert stop.trace_.reason is Reason.CALLBACK
    assert np.isfinite(stop.predict(X[:10])).all()


@pytest.mark.slow
def test_the_default_changes_with_the_rows(monkeypatch):
    X, truth = simulated(3_000)
    settings = {"order": 2, "factor_prior": "spline", "random_state": 0}
    assert AHOFMRegressor(**settings).fit(X, truth).trace_.solver == "variational"
    monkeypatch.setattr(problem, "SUBSAMPLE_ROWS", 2_000)
    assert AHOFMRegressor(**settings).fit(X, truth).trace_.solver == "subsample"


def test_refined_fits_that_are_worse_than_constants_are_not_used(monkeypatch):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({name: rng.choice(list("abcdef"), 3000) for name in ("town", "tree")})
    y = rng.poisson(np.exp(0.5 * (X["town"] < "d") * (X["tree"] < "c")))

    def much_larger(posterior, *_):
        return replace(posterior, mean=100.0 * posterior.mean, per_code=100.0 * posterior.per_code)

    monkeypatch.setattr(refine, "bounded", much_larger)
    options = {"order": 2, "rank": 2, "family": "poisson", "solver": "subsample", "random_state": 0}
    model = AHOFMRegressor(**options).fit(X, y)
    assert model.model_.ranks
    assert model.score(X, y) > 0.0


@pytest.mark.slow
def test_orders_that_predict_all_rows_worse_than_the_order_below_are_not_used(monkeypatch):
    X, truth = simulated(3_000)
    found = refine.refined

    def worse(posteriors, *arguments, **options):
        new, loss = found(posteriors, *arguments, **options)
        return new, loss if not posteriors[0].ranks else 1e9

    options = {"order": 2, "solver": "subsample", "factor_prior": "spline", "random_state": 0}
    assert AHOFMRegressor(**options).fit(X, truth).model_.ranks
    monkeypatch.setattr(refine, "refined", worse)
    assert not AHOFMRegressor(**options).fit(X, truth).model_.ranks


def test_coefficients_that_bounds_left_behind_are_not_where_a_descent_starts():
    """What bounds cut off at a rare code costs a large penalty; the start has nearly the same values without it."""
    objective, _ = problem_of(Poisson(), "spline_iid")
    (block, *_) = [block for _, block, _ in objective.blocks() if block.columns.start == 1]
    assert block.with_likely_start() is block
    lam = block.lam.copy()
    lam[-1] = 1e6
    per_code = np.zeros_like(block.coef.per_code)
    per_code[0] = 2.0
    left = replace(block, lam=lam, coef=Coefficients(block.coef.smooth, per_code))
    start = left.with_likely_start()
    assert left.penalty(left.coef) > 1e6
    assert start.penalty(start.coef) < 1e-3 * left.penalty(left.coef)
    change = start.values(start.coef) - left.values(left.coef)
    assert np.sqrt(block.mass[1:] @ change[1:] ** 2).max() < 0.2


def test_block_solves_move_main_effects_by_about_one_at_codes_without_curvature():
    """A code without events in the sample has hardly any curvature there, and a slope from all rows."""
    objective, _ = problem_of(Poisson(), "random_walk")
    (block, *_) = [block for _, block, _ in objective.blocks() if block.columns.start == 0]
    gram, slope = block.gram.copy(), np.zeros(block.sample_values.shape)
    gram[0], slope[0] = 1e-3, 1.0
    free = replace(block.prior, mass=None)  # as a rare code nearly is
    block = replace(block, prior=free, gram=gram, lam=1e-9 * np.ones_like(block.lam))

    def longest(block):
        return np.abs(block.values(block.coef.like(block.precondition(slope, block.coef)))).max()

    start = replace(block, coef=Coefficients(None, np.zeros_like(block.coef.per_code)))
    assert longest(start) > 50.0
    assert longest(start.damped(slope, start.coef)) < 3.0
