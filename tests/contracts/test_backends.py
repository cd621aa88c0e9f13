"""Every backend computes the same on rows. A new backend is tested by its line in BACKENDS."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pytest

from ahofm.backends import (
    Backend,
    CpuBackend,
    DesignRows,
    ReferenceBackend,
    Response,
    SweepingBackend,
    loss_of,
)
from ahofm.families import (
    Bernoulli,
    Gamma,
    Gaussian,
    GaussianLocationScale,
    Multinomial,
    NegativeBinomial,
    Poisson,
)
from ahofm.kernels import LOSSES, ColumnMoments, Curves, LevelCurves, Tables
from ahofm.rows import ArraySource, MappedSource, SerialExecutor, ThreadExecutor
from tests import brute_force
from tests.problems import random_chunk, random_codes, random_loadings, random_tables, random_target

# backend, the precision that is asked of it, largest error relative to the largest entry of what is compared
BACKENDS = [
    pytest.param(ReferenceBackend(), "float64", 1e-11, id="reference"),
    pytest.param(CpuBackend(), "float64", 1e-11, id="cpu-float64"),
    pytest.param(CpuBackend(), "float32", 2e-5, id="cpu-float32"),
]
every_backend = pytest.mark.parametrize(("backend", "precision", "tolerance"), BACKENDS)
every_order = pytest.mark.parametrize("order", range(1, 6))

SIZES = (4, 3, 5, 2, 6, 3)


def ranks_up_to(order):
    """Ranks that differ, so that functions cannot be mistaken for each other."""
    return {d: 1 + d % 3 for d in range(2, order + 1)}


def assert_close(actual, expected, tolerance):
    scale = max(np.max(np.abs(expected), initial=0.0), 1e-300)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


# Rows


@dataclass
class Problem:
    """Rows, K linear predictors, and what backends are to find, by loops."""

    loss: str
    order: int
    seed: int = 0
    n: int = 23
    large: float = 1.0

    def __post_init__(self):
        rng = np.random.default_rng([self.order, self.seed])
        self.n_eta = 3 if self.loss == "multinomial" else 1
        given = {"loss": self.loss, "n_eta": self.n_eta, "weighted": True, "offset": True}
        self.chunk = random_chunk(rng, self.n, SIZES, **given)
        ranks = ranks_up_to(self.order)
        self.tables = [random_tables(rng, self.chunk.codes.n_codes, ranks, 0.3) for _ in range(self.n_eta)]
        if self.large != 1.0:
            for tables in self.tables:
                tables.factors[self.order][:] *= self.large
        self.rng = rng

    def load(self, backend, precision, executor=None, chunk_rows=9):
        source = ArraySource(self.chunk.codes, self.chunk.y, self.chunk.weight, self.chunk.offset, chunk_rows)
        return backend.load(source, executor or SerialExecutor(), precision)

    @cached_property
    def eta(self):
        return brute_force.eta(self.chunk.codes, self.tables) + self.chunk.offset

    @cached_property
    def losses(self):
        return brute_force.losses(self.loss, self.chunk.y, self.eta)

    def pulled_back(self, g, k):
        """Derivatives of sum(g * eta) by the intercept, and by every entry of a table, (codes, F)."""
        found = np.zeros((self.chunk.codes.n_codes, self.tables[k].width))
        for i, rows in enumerate(brute_force.table_rows(self.chunk.codes)):
            for j, row in enumerate(rows):
                found[row] += g[i, k] * brute_force.slopes_of_row(rows, self.tables[k], j)
        return g[:, k].sum(), found


def assert_tables_close(actual, expected, tolerance):
    intercept, values = expected
    assert_close(actual.intercept, intercept, tolerance)
    assert_close(np.column_stack([actual.main, *actual.factors.values()]), values, tolerance)


@every_backend
def test_is_a_backend(backend, precision, tolerance):
    assert isinstance(backend, Backend)


@every_backend
@every_order
@pytest.mark.parametrize("loss", LOSSES)
def test_values_and_gradients(backend, precision, tolerance, order, loss):
    problem = Problem(loss, order)
    rows = problem.load(backend, precision)
    value, g, _ = problem.losses
    weight = problem.chunk.weight
    assert rows.n_rows == problem.n
    assert_close(rows.eta(problem.tables), problem.eta, tolerance)
    assert_close(rows.value(problem.tables, loss), weight @ value, 10 * tolerance)
    sums = rows.gradient(problem.tables, loss)
    assert_close(sums.value, weight @ value, 10 * tolerance)
    for k, own in enumerate(sums.gradient):
        assert_tables_close(own, problem.pulled_back(weight[:, None] * g, k), 10 * tolerance)


@every_backend
@every_order
@pytest.mark.parametrize("loss", ["poisson", "multinomial"])
def test_column_sums(backend, precision, tolerance, order, loss):
    problem = Problem(loss, order)
    rows, codes = problem.load(backend, precision), problem.chunk.codes
    _, g, h = problem.losses
    for k in range(problem.n_eta):
        for column in (0, 4):
            width = problem.tables[k].width
            slopes, curvatures = np.zeros((SIZES[column], width)), np.zeros((SIZES[column], width, width))
            u = np.array(
                [brute_force.slopes_of_row(at, problem.tables[k], column) for at in brute_force.table_rows(codes)]
            )
            for i, code in enumerate(codes.columns[column]):
                slopes[code] += problem.chunk.weight[i] * g[i, k] * u[i]
                curvatures[code] += problem.chunk.weight[i] * h[i, k] * np.outer(u[i], u[i])
            sums = rows.column_gram(problem.tables, loss, k, column)
            assert_close(sums.g, slopes, 10 * tolerance)
            assert_close(sums.h, curvatures, 10 * tolerance)
            assert_close(rows.leave_one_out(problem.tables[k], column), u, tolerance)


@every_backend
@pytest.mark.parametrize("order", range(2, 6))
def test_large_values_of_the_highest_order(backend, precision, tolerance, order):
    """It dominates: an error there cannot hide behind lower orders."""
    problem = Problem("gaussian", order, large=30.0)
    rows = problem.load(backend, precision)
    lower = [
        Tables(
            one.intercept,
            one.main,
            {d: one.factors[d] for d in range(2, order)},
            {d: one.loadings[d] for d in range(2, order)},
        )
        for one in problem.tables
    ]
    rest = brute_force.eta(problem.chunk.codes, lower) + problem.chunk.offset
    assert np.linalg.norm(problem.eta - rest) > 0.9 * np.linalg.norm(problem.eta)
    assert_close(rows.eta(problem.tables), problem.eta, tolerance)
    value, g, _ = problem.losses
    sums = rows.gradient(problem.tables, "gaussian")
    assert_close(sums.value, problem.chunk.weight @ value, 10 * tolerance)
    assert_tables_close(sums.gradient[0], problem.pulled_back(problem.chunk.weight[:, None] * g, 0), 10 * tolerance)


@every_backend
def test_a_loss_of_ones_own(backend, precision, tolerance):
    problem = Problem("poisson", 3)
    rows = problem.load(backend, precision)

    def own(y, eta):
        mu = np.exp(eta[:, 0])
        return mu - y * eta[:, 0], (mu - y)[:, None], mu[:, None]

    assert_close(rows.value(problem.tables, own), rows.value(problem.tables, "poisson"), tolerance)
    mine, named = rows.gradient(problem.tables, own), rows.gradient(problem.tables, "poisson")
    assert_close(mine.value, named.value, tolerance)
    for part in ("main", "intercept"):
        assert_close(getattr(mine.gradient[0], part), getattr(named.gradient[0], part), 10 * tolerance)
    one, other = (rows.column_gram(problem.tables, loss, 0, 1) for loss in (own, "poisson"))
    assert_close(one.h, other.h, 10 * tolerance)
    assert loss_of(Poisson()) == "poisson"
    assert callable(loss_of(Gaussian("log")))


@every_backend
def test_pulling_back(backend, precision, tolerance):
    problem = Problem("multinomial", 3)
    g = problem.rng.normal(size=(problem.n, 3))
    found = problem.load(backend, precision).pull_back(problem.tables, g)
    for k, own in enumerate(found):
        assert_tables_close(own, problem.pulled_back(g, k), 10 * tolerance)
    with pytest.raises(ValueError, match=r"g has shape \(22, 3\), expected \(23, 3\)"):
        problem.load(backend, precision).pull_back(problem.tables, g[1:])


@every_backend
@pytest.mark.parametrize("executor", [SerialExecutor(), ThreadExecutor(3)], ids=["serial", "threads"])
def test_whoever_visits_the_chunks(backend, precision, tolerance, executor):
    problem = Problem("bernoulli", 3)
    expected = problem.load(backend, precision).gradient(problem.tables, "bernoulli")
    sums = problem.load(backend, precision, executor).gradient(problem.tables, "bernoulli")
    assert sums.value == expected.value
    np.testing.assert_array_equal(sums.gradient[0].main, expected.gradient[0].main)


@every_backend
def test_sources_that_are_streamed(backend, precision, tolerance):
    problem = Problem("gamma", 2)
    whole = ArraySource(problem.chunk.codes, problem.chunk.y, problem.chunk.weight, problem.chunk.offset, 5)
    rows = backend.load(MappedSource(whole, lambda chunk, _: chunk), SerialExecutor(), precision)
    assert_close(rows.eta(problem.tables), problem.eta, tolerance)
    assert_close(rows.value(problem.tables, "gamma"), problem.chunk.weight @ problem.losses[0], 10 * tolerance)


@every_backend
def test_batches_are_all_rows_once(backend, precision, tolerance):
    problem = Problem("gaussian", 2)
    rows = problem.load(backend, precision)
    batches = list(rows.batches(4, np.random.default_rng(0)))
    assert len(batches) > 4
    assert sum(batch.n_rows for batch, _ in batches) == problem.n
    assert sum(weight for _, weight in batches) == pytest.approx(problem.chunk.weight.sum())
    whole = rows.gradient(problem.tables, "gaussian")
    parts = [batch.gradient(problem.tables, "gaussian") for batch, _ in batches]
    assert_close(sum(part.value for part in parts), whole.value, 10 * tolerance)
    assert_close(sum(part.gradient[0].main for part in parts), whole.gradient[0].main, 10 * tolerance)


@every_backend
def test_what_is_wrong_has_a_name(backend, precision, tolerance):
    problem = Problem("gaussian", 2)
    rows = problem.load(backend, precision)
    for ask in (rows.value, rows.gradient):
        with pytest.raises(ValueError, match="loss 'cauchy' is not built in"):
            ask(problem.tables, "cauchy")
    blank = backend.load(ArraySource(problem.chunk.codes), SerialExecutor(), precision)
    with pytest.raises(ValueError, match="target"):
        blank.value(problem.tables, "gaussian")


@every_backend
def test_curves(backend, precision, tolerance):
    """At codes of levels, curves are tables."""
    rng = np.random.default_rng(0)
    codes, ranks = random_codes(rng, 30, SIZES), {2: 3, 3: 2}
    values = [rng.normal(size=(size, 6)) for size in SIZES]
    loadings = random_loadings(rng, ranks)
    prediction = backend.curves([Curves(0.7, ranks, tuple(LevelCurves(own) for own in values), loadings)])
    stacked = np.vstack(values)
    tables = Tables(0.7, stacked[:, 0], {2: stacked[:, 1:4], 3: stacked[:, 4:]}, loadings)
    eta = prediction.eta(codes.columns, 1)
    assert_close(eta, brute_force.eta(codes, [tables]), 1e-11)
    assert len(prediction.linear_predictors) == 1
    contributions = prediction.contributions(codes.columns, 1)
    assert_close(0.7 + contributions.sum(axis=2), eta, 1e-11)  # a pair has two columns, a triple three


# Working rows


FAMILIES = {
    "gaussian": Gaussian(),
    "bernoulli": Bernoulli(),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "multinomial": Multinomial(3),
}


class Working:
    """Working rows with all columns in, and what they are to say, by loops."""

    def __init__(self, backend, precision, family="poisson", order=2, n=17, executor=None, scale=0.4):
        rng = np.random.default_rng([order, n])
        self.family, self.loss, self.rng = FAMILIES[family], family, rng
        self.codes, self.ranks, self.n_eta = random_codes(rng, n, SIZES), ranks_up_to(order), self.family.n_eta
        self.weight, self.offset = rng.uniform(0.2, 2.0, n), 0.3 * rng.normal(size=(n, self.n_eta))
        self.response = Response(self.family, random_target(rng, family, n, self.n_eta), self.weight, self.offset)
        self.moments = [[self.random_moments(j, scale) for j in range(len(SIZES))] for _ in range(self.n_eta)]
        design = rng.normal(size=(n, 2))
        self.design = DesignRows.dense(design, self.weight)
        self.intercept, self.coef = 0.2 * rng.normal(size=self.n_eta), 0.2 * rng.normal(size=(self.n_eta, 2))
        source = ArraySource(self.codes, chunk_rows=7)
        loaded = backend.load(source, executor or SerialExecutor(), precision)
        self.rows = loaded.working(self.response, self.design)
        for k in range(self.n_eta):
            self.rows.set_main_effects(k, float(self.intercept[k]), self.coef[k])
            self.rows.set_columns(k, self.ranks, self.moments[k])
        self.rows.evaluate()
        self.nothing = np.zeros(self.n_eta)

    def random_moments(self, column, scale=0.4):
        shape = SIZES[column], 1 + sum(self.ranks.values())
        mean = scale * self.rng.choice([-1.0, 1.0], shape) * self.rng.uniform(0.5, 1.0, shape)
        return ColumnMoments(column, mean, scale**2 * self.rng.uniform(0.0, 0.25, shape))

    def main(self, k):
        return self.intercept[k] + self.design.matrix @ self.coef[k]

    @property
    def eta(self):
        """Without the offset: (n, K)."""
        parts = [brute_force.RowMoments(self.codes, own, self.ranks).rest.sum(axis=1) for own in self.moments]
        return np.stack([part + self.main(k) for k, part in enumerate(parts)], axis=1)

    @property
    def losses(self):
        return brute_force.losses(self.loss, self.response.y, self.eta + self.offset)

    @property
    def mean_loss(self):
        return self.weight @ self.losses[0] / self.weight.sum()

    def working(self, k):
        """Working weights, and weighted working responses without main effects."""
        _, g, h = self.losses
        weight = self.weight * h[:, k]
        return weight, weight * (self.eta[:, k] - self.main(k)) - self.weight * g[:, k]

    def block_sums(self, k, column):
        return brute_force.block_sums(self.codes, self.moments[k], self.ranks, *self.working(k), column)


every_family = pytest.mark.parametrize("family", FAMILIES)


@every_backend
@every_family
def test_losses_at_linear_predictors(backend, precision, tolerance, family):
    working = Working(backend, precision, family, 3)
    rows, weight = working.rows, working.weight
    _, g, h = working.losses
    assert_close(rows.loss(), working.mean_loss, 10 * tolerance)
    for k in range(working.n_eta):
        information = weight @ h[:, k]
        assert_close(rows.information(k), information, 10 * tolerance)
        assert_close(rows.gradient(k), -weight * g[:, k] / information, 10 * tolerance)
        mean = weight @ working.eta[:, k] / weight.sum()
        std = np.sqrt(weight @ (working.eta[:, k] - mean) ** 2 / weight.sum())
        assert_close(rows.eta_std(k), std, 10 * tolerance)


@every_backend
@every_order
def test_sums_of_a_block(backend, precision, tolerance, order):
    working = Working(backend, precision, "poisson", order)
    rows, (moments,) = working.rows, working.moments
    assert rows.linearise(0)
    for column in (0, 4):
        gram, rhs = working.block_sums(0, column)
        sums = rows.swap(0, None, moments[column])
        assert_close(sums.gram, gram, 10 * tolerance)
        assert_close(sums.rhs, rhs, 10 * tolerance)
        assert rows.swap(0, moments[column], None) is None
    rows.swap(0, None, moments[2])
    expected = working.block_sums(0, 5)
    sums = rows.swap(0, moments[2], moments[5])  # one enters, then another leaves
    assert_close(sums.gram, expected[0], 10 * tolerance)
    assert_close(sums.rhs, expected[1], 10 * tolerance)


@every_backend
@every_family
def test_sums_of_every_linear_predictor(backend, precision, tolerance, family):
    working = Working(backend, precision, family, 3)
    for k in range(working.n_eta):
        working.rows.linearise(k)
        gram, rhs = working.block_sums(k, 1)
        sums = working.rows.swap(k, None, working.moments[k][1])
        assert_close(sums.gram, gram, 10 * tolerance)
        assert_close(sums.rhs, rhs, 10 * tolerance)
        working.rows.swap(k, working.moments[k][1], None)


@every_backend
@pytest.mark.parametrize("order", [2, 3, 4])
def test_sums_of_large_values(backend, precision, tolerance, order):
    working = Working(backend, precision, "gaussian", order, scale=5.0)
    working.rows.linearise(0)
    gram, rhs = working.block_sums(0, 3)
    sums = working.rows.swap(0, None, working.moments[0][3])
    assert_close(sums.gram, gram, 100 * tolerance)
    assert_close(sums.rhs, rhs, 100 * tolerance)


@every_backend
@every_family
def test_sums_of_main_effects(backend, precision, tolerance, family):
    working = Working(backend, precision, family)
    for k in range(working.n_eta):
        weight, target = working.working(k)
        state = working.eta[:, k] - working.main(k)
        wide = np.column_stack([np.ones(len(weight)), working.design.matrix])
        rest = target + weight * (working.main(k) - state)  # the response counts from the state on
        expected = np.linalg.solve(wide.T @ (weight[:, None] * wide), wide.T @ rest)
        sums = working.rows.main_sums(k)
        coef = np.linalg.solve(sums.gram, sums.rhs)
        assert_close(coef, expected[1:], 1e4 * tolerance)
        assert_close(sums.total_response / sums.total - sums.middle @ coef, expected[0], 1e4 * tolerance)


@every_backend
@every_family
@pytest.mark.parametrize("taken", [True, False], ids=["accept", "reject"])
def test_trials(backend, precision, tolerance, family, taken):
    """A column changes; nothing else does before the change is accepted, and nothing at all if it is rejected."""
    working = Working(backend, precision, family, 3)
    rows, k = working.rows, working.n_eta - 1
    weight, before, eta = working.weight, working.losses, working.eta
    mean = working.mean_loss
    rows.linearise(k)
    old, new = working.moments[k][2], working.random_moments(2)
    rows.swap(k, None, old)
    rows.swap(k, new, None)
    trial = rows.trial(k)
    assert_close(rows.loss(), mean, 10 * tolerance)
    working.moments[k][2] = new
    step = working.eta[:, k] - eta[:, k]
    curved = before[2][:, k] * step**2
    assert_close(trial.before, mean, 10 * tolerance)
    assert_close(trial.loss, working.mean_loss, 10 * tolerance)
    assert_close(trial.curved, weight @ curved, 100 * tolerance)
    assert_close(trial.largest_change, np.abs(step).max(), 100 * tolerance)
    excess = weight @ (working.losses[0] - before[0] - before[1][:, k] * step - curved / 2.0)
    np.testing.assert_allclose(trial.excess, excess, atol=100 * tolerance * (weight @ curved))
    assert trial.finite
    if taken:
        rows.accept(working.nothing)
    else:
        rows.reject()
        rows.swap(k, None, new)
        rows.swap(k, old, None)
        working.moments[k][2] = old
    assert_close(rows.loss(), working.mean_loss, 10 * tolerance)
    rows.linearise(k)
    gram, rhs = working.block_sums(k, 0)
    sums = rows.swap(k, None, working.moments[k][0])
    assert_close(sums.gram, gram, 100 * tolerance)
    assert_close(sums.rhs, rhs, 100 * tolerance)
    with pytest.raises(RuntimeError, match="nothing was tried"):
        rows.accept(working.nothing)


@every_backend
def test_trials_of_main_effects(backend, precision, tolerance):
    working = Working(backend, precision, "bernoulli")
    working.rows.set_main_effects(0, 1.5, np.array([0.3, -0.2]))
    trial = working.rows.trial(0)
    working.intercept, working.coef = np.array([1.5]), np.array([[0.3, -0.2]])
    assert_close(trial.loss, working.mean_loss, 10 * tolerance)
    working.rows.accept(working.nothing)
    assert_close(working.rows.loss(), working.mean_loss, 10 * tolerance)


@every_backend
def test_a_step_to_infinity_is_told(backend, precision, tolerance):
    working = Working(backend, precision, "poisson")
    working.rows.set_main_effects(0, 1e4, np.zeros(2))
    trial = working.rows.trial(0)
    assert not trial.finite
    assert not np.isfinite(trial.excess)


@every_backend
@pytest.mark.parametrize("family", ["gaussian", "gamma"])
def test_dispersion(backend, precision, tolerance, family):
    """Also after a step: variances are accepted with the means."""
    working = Working(backend, precision, family, 3)
    rows, y = working.rows, working.response.y
    for stepped in (False, True):
        if stepped:
            rows.swap(0, None, working.moments[0][2])
            working.moments[0][2] = working.random_moments(2)
            rows.swap(0, working.moments[0][2], None)
            rows.trial(0)
            rows.accept(working.nothing)
        moments = brute_force.RowMoments(working.codes, working.moments[0], working.ranks)
        mu = working.eta[:, 0] + working.offset[:, 0]
        squares = (y - mu) ** 2 if family == "gaussian" else (y * np.exp(-mu) - 1.0) ** 2
        expected = squares + working.losses[2][:, 0] * moments.variance.sum(axis=1)
        assert_close(rows.dispersion(), working.weight @ expected / working.weight.sum(), 100 * tolerance)


@every_backend
def test_states_from_scratch(backend, precision, tolerance):
    """Other ranks, other columns."""
    working = Working(backend, precision, "poisson", 2)
    working.ranks = ranks_up_to(3)
    working.moments = [[working.random_moments(j) for j in range(len(SIZES))]]
    working.rows.set_columns(0, working.ranks, working.moments[0])
    working.rows.evaluate(working.nothing)
    assert_close(working.rows.loss(), working.mean_loss, 10 * tolerance)


@every_backend
def test_copies_go_their_own_way(backend, precision, tolerance):
    working = Working(backend, precision)
    loss, other = working.rows.loss(), working.rows.copy()
    with pytest.raises(RuntimeError, match="linear predictor 0 has no state"):
        other.swap(0, None, working.moments[0][0])
    working.rows.set_main_effects(0, 2.0, np.zeros(2))
    working.rows.evaluate(working.nothing)
    assert working.rows.loss() != loss
    assert other.loss() == loss
    other.set_columns(0, working.ranks, working.moments[0])
    other.evaluate(working.nothing)
    assert_close(other.loss(), loss, 10 * tolerance)


@every_backend
def test_changes_since_a_mark(backend, precision, tolerance):
    working = Working(backend, precision, "gaussian")
    working.rows.keep_eta()
    assert working.rows.mean_squared_change() == 0.0
    working.rows.set_main_effects(0, float(working.intercept[0]) + 0.5, working.coef[0])
    working.rows.evaluate(working.nothing)
    assert working.rows.mean_squared_change() == pytest.approx(0.25, rel=1e-5)


@every_backend
@pytest.mark.parametrize("order", [2, 3])
def test_losses_along_new_factors(backend, precision, tolerance, order):
    working = Working(backend, precision, "poisson", order)
    factors = [working.rng.normal(size=(size, 2)) for size in SIZES]
    loss = working.rows.loss_along(0, order, factors)
    tables = Tables(0.0, np.zeros(sum(SIZES)), {order: np.vstack(factors)})
    terms = brute_force.eta(working.codes, [tables])
    for times in (0.0, 0.1, -0.05):
        eta = working.eta + times * terms + working.offset
        value = brute_force.losses("poisson", working.response.y, eta)[0]
        assert_close(loss(times), working.weight @ value / working.weight.sum(), 100 * tolerance)


@every_backend
def test_majorants(backend, precision, tolerance):
    """Curvatures that bound the logistic loss; a Poisson loss has no bound."""
    working = Working(backend, precision, "bernoulli")
    rows, (moments,) = working.rows, working.moments
    assert rows.linearise(0, majorant=True)
    state = brute_force.RowMoments(working.codes, moments, working.ranks)
    xi = np.sqrt((working.eta + working.offset)[:, 0] ** 2 + state.variance.sum(axis=1))
    curvature = working.weight * np.tanh(xi / 2.0) / (2.0 * xi)
    target = curvature * (working.eta[:, 0] - working.main(0)) - working.weight * working.losses[1][:, 0]
    gram, rhs = brute_force.block_sums(working.codes, moments, working.ranks, curvature, target, 1)
    sums = rows.swap(0, None, moments[1])
    assert_close(sums.gram, gram, 10 * tolerance)
    assert_close(sums.rhs, rhs, 10 * tolerance)
    assert not rows.use_majorant
    assert not Working(backend, precision, "poisson").rows.linearise(0, majorant=True)


@every_backend
def test_large_linear_predictors_use_the_majorant_from_then_on(backend, precision, tolerance):
    working = Working(backend, precision, "bernoulli")
    working.rows.set_main_effects(0, 500.0, np.zeros(2))
    working.rows.evaluate(working.nothing)
    assert working.rows.use_majorant
    assert working.rows.information(0) > 1e-4  # the logistic loss is flat there


@every_backend
def test_families_learn_their_parameters(backend, precision, tolerance):
    working = Working(backend, precision, "poisson")
    rng, eta = np.random.default_rng(1), working.eta + working.offset
    y = rng.negative_binomial(2.0, 2.0 / (2.0 + np.exp(eta[:, 0]))).astype(float)
    family = NegativeBinomial().filled(y, working.weight)
    source = ArraySource(working.codes)
    response = replace(working.response, family=family, y=y)
    rows = backend.load(source, SerialExecutor(), precision).working(response, working.design)
    rows.set_main_effects(0, float(working.intercept[0]), working.coef[0])
    rows.set_columns(0, working.ranks, working.moments[0])
    rows.evaluate()
    rows.learn_parameters(working.nothing)
    expected = family.learned(y, eta, working.weight)
    assert rows.response.family.size == pytest.approx(expected.size, rel=1e-3)
    assert_close(rows.loss(), response.mean_of(rows.response.family.loss(y, eta)[0]), 1e-3)


@every_backend
def test_losses_that_depend_on_variances(backend, precision, tolerance):
    """The expected loss of a Gaussian whose standard deviation is uncertain; ``others`` is variance in no state."""
    working = Working(backend, precision, "multinomial")
    family = GaussianLocationScale()
    response = replace(working.response, family=family, offset=None)
    source = ArraySource(working.codes, chunk_rows=5)
    rows = backend.load(source, SerialExecutor(), precision).working(response, working.design)
    for k in range(2):
        rows.set_main_effects(k, float(working.intercept[k]), working.coef[k])
        rows.set_columns(k, working.ranks, working.moments[k])
    rows.evaluate()
    eta, curvature = working.eta[:, :2], family.loss(response.y, working.eta[:, :2])[2]
    assert_close(rows.loss(), response.mean_of(family.loss(response.y, eta)[0]), 10 * tolerance)
    rows.evaluate(np.array([0.1, 0.0]))
    moments = [brute_force.RowMoments(working.codes, own, working.ranks) for own in working.moments[:2]]
    variance = np.stack([own.variance.sum(axis=1) for own in moments], axis=1)
    variance[:, 0] += 0.1 / curvature[:, 0]
    assert_close(rows.loss(), response.mean_of(family.expected(response.y, eta, variance)[0]), 100 * tolerance)


@every_backend
def test_threads_change_no_bit(backend, precision, tolerance):
    one, other = (Working(backend, precision, "poisson", 3, executor=ThreadExecutor(n)) for n in (1, 4))
    found = []
    for working in (one, other):
        working.rows.linearise(0)
        found.append(working.rows.swap(0, None, working.moments[0][0]))
    assert one.rows.loss() == other.rows.loss()
    np.testing.assert_array_equal(found[0].gram, found[1].gram)


@every_backend
def test_whole_sweeps_are_an_offer(backend, precision, tolerance):
    """Made for priors that the backend has, and losses without variances; tests/contracts/test_engine.py tests them."""
    if not isinstance(backend, SweepingBackend):
        return
    response = Working(backend, precision).response
    assert backend.sweeps(response, ["spline", "iid"])
    assert not backend.sweeps(response, ["spline", None])
    assert not backend.sweeps(response, [])
    scaled = replace(response, family=GaussianLocationScale(), offset=None)
    assert not backend.sweeps(scaled, ["spline"])
