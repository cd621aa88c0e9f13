"""The native engine does what the NumPy reference does: each solve under a prior, and whole sweeps."""

from dataclasses import replace

import numpy as np
import pytest

from ahofm import Categorical, Spline, _native
from ahofm.backends import CpuBackend
from ahofm.backends.cpu import engine_prior
from ahofm.columns import Encoder, SplineIID
from ahofm.columns.table import read_table
from ahofm.families import Bernoulli, Family, Gamma, Gaussian, Huber, Multinomial, NegativeBinomial, Poisson, Tweedie
from ahofm.fit.solvers.variational.coordinate_ascent import VariationalState
from ahofm.fit.stacking.candidates import Candidate
from ahofm.fit.stacking.problem import TrainingProblem
from ahofm.kernels import INSTRUCTION_SETS
from ahofm.kernels.blas import one_blas_thread
from ahofm.kernels.native_engine import ThreadBudget
from ahofm.orders import PRODUCT
from ahofm.priors.arrays import coordinate_count, prior_arrays
from ahofm.priors.iid import IIDPrior, SplineIIDPrior
from ahofm.priors.random_walk import RandomWalkPrior
from ahofm.priors.spline import SplinePrior
from ahofm.rows import ThreadExecutor
from ahofm.training.data import counted_rows, prepare
from ahofm.training.settings import Settings
from tests.fit.solvers.variational.samples import KINDS


def priors_of(codes, mass, rng):
    """One of each kind, with some codes that occur once and an interrupted random walk."""
    m = min(13, codes - 1)
    powers = np.vander(np.linspace(-1, 1, codes), m + 1, increasing=True)
    values = np.linalg.qr(powers)[0][:, 1:] * np.sqrt(codes)
    group = (np.arange(m) == 0).astype(int) if m > 1 else np.zeros(m, int)
    weight = np.where(group == 0, np.arange(m) ** 2 / 10 + 0.1, 1.0)
    spline, repeated = SplinePrior(values, group, weight), rng.random(codes) < 0.7
    edges = np.ones(codes - 1)
    edges[-1] = 0.0
    return [spline, RandomWalkPrior(edges, mass), IIDPrior(mass, repeated), SplineIIDPrior(spline, mass, repeated)]


@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("K", [1, 2, 4, 5, 8, 12, 13, 17])
@pytest.mark.parametrize("codes", [2, 5, 40, 284])
def test_solves_under_priors(codes, K, centred, isa):
    rng = np.random.default_rng([codes, K, centred])
    mass = rng.uniform(0.1, 1, codes)
    half = rng.normal(size=(codes, K, K + 2))
    gram = half @ half.transpose(0, 2, 1) * rng.uniform(0.1, 30, codes)[:, np.newaxis, np.newaxis]
    gram[rng.random(codes) < 0.1] = 0.0
    gram += 1e-6 * np.eye(K)
    rhs = 5 * rng.normal(size=(codes, K))
    for prior in priors_of(codes, mass / mass.sum() if centred else None, rng):
        lam = np.exp(rng.normal(size=(prior.n_groups, K)))
        shapes = [(codes, K), (codes, K), (coordinate_count(prior), K), (codes, K), lam.shape, lam.shape]
        found = [np.zeros(shape) for shape in shapes]
        assert _native.solve_prior(isa, engine_prior(prior_arrays(prior)), gram, rhs, lam, found)
        expected = prior.solve(gram, rhs, lam)
        parts = ["mean", "variance", "smooth", "per_code", "edf", "quadratic_form"]
        for part, own in zip(parts, found, strict=True):
            other = getattr(expected, part)
            if other is not None:
                np.testing.assert_allclose(
                    own, other, rtol=1e-9, atol=1e-9 * np.abs(other).max(), err_msg=f"{prior} {part}"
                )


@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
def test_what_is_not_positive_definite_is_told(isa):
    rng = np.random.default_rng(0)
    for prior in priors_of(5, None, rng):
        shapes = [(5, 2), (5, 2), (coordinate_count(prior), 2), (5, 2), (prior.n_groups, 2), (prior.n_groups, 2)]
        lam, gram = np.ones((prior.n_groups, 2)), np.tile(-100.0 * np.eye(2), (5, 1, 1))
        assert not _native.solve_prior(
            isa, engine_prior(prior_arrays(prior)), gram, np.ones((5, 2)), lam, [np.zeros(shape) for shape in shapes]
        )


FAMILIES = {
    "gaussian": (Gaussian(), lambda eta, rng: eta + 0.3 * rng.normal(size=len(eta))),
    "bernoulli": (Bernoulli(), lambda eta, rng: (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(float)),
    "poisson": (Poisson(), lambda eta, rng: rng.poisson(np.exp(eta)).astype(float)),
    "gamma": (Gamma(), lambda eta, rng: np.exp(eta) * rng.gamma(3.0, 1 / 3, size=len(eta))),
    "negative_binomial": (
        NegativeBinomial(2.0),
        lambda eta, rng: rng.negative_binomial(2.0, 2.0 / (2.0 + np.exp(eta))).astype(float),
    ),
    "tweedie": (Tweedie(1.5), lambda eta, rng: rng.poisson(np.exp(eta)) * rng.gamma(2.0, size=len(eta))),
    "multinomial": (
        Multinomial(3),
        lambda eta, rng: (eta[:, None] * [1, 0, -1] + rng.gumbel(size=(len(eta), 3))).argmax(axis=1).astype(float),
    ),
    "separated": (Bernoulli(), lambda eta, rng: (eta > 0).astype(float)),
    "huber": (Huber(), lambda eta, rng: eta + 0.3 * rng.standard_t(2, size=len(eta))),
}


def fit_of(family, factor_prior, order, n=400, threads=1, kinds=KINDS, **constraints):
    """A fit that has not begun, in double precision."""
    family, targets = FAMILIES[family]
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 4, n), rng.integers(0, 9, n), rng.normal(size=(n, 2)).round(1)])
    y = targets(0.5 * np.sin(X[:, 1]) * X[:, 2] + 0.3 * X[:, 3], rng)
    settings = Settings(columns=kinds, factor_prior=factor_prior, solver="variational", n_threads=1, **constraints)
    table, rows = counted_rows(read_table(X), y, rng.exponential(size=n), None, family)
    encoder = Encoder.learn(table, kinds, default=SplineIID(n_basis=6), max_codes=30)
    data = prepare(table, rows, encoder, family, all_raw=True, n_threads=1)
    ranks = {PRODUCT: 5} if order == PRODUCT else {2: 2, 3: 1} if order > 2 else {2: 5}
    problem = TrainingProblem.of(data, ranks, settings)
    fit = problem.staged_fit(Candidate(factor_prior, 0.7, 0.7, product=order == PRODUCT), 0, 0)
    return replace(fit, precision="float64", executor=ThreadExecutor(threads))


@one_blas_thread()  # the same start for both, to the last bit
def swept(fit, sweeps, engine):
    """The state after so many sweeps of the last stage; those before it are the reference's, the same for both."""
    fit._state = VariationalState.start(fit._rows(), fit.response, fit.additive, fit.columns)
    for order in (1, *fit.ranks):
        last = order == max(fit.ranks)
        if order > 1:
            fit._add_factors(order)
        fit.backend = CpuBackend(compiled_sweeps=last and engine)
        fit._new_stage()._build(0.5)
        assert fit._state.has_sweeper == (last and engine)
        for number in range(sweeps if last else 2):
            fit._state.sweep(update_lam=number > 0, backwards=number % 2 == 1, floor=0.0)
    fit._state.sync_posteriors()
    return fit._state


def assert_same(found, expected, within):
    assert found.dispersion == pytest.approx(expected.dispersion, rel=within)
    assert found.damped == expected.damped
    for one, other in zip(found.linear_predictors, expected.linear_predictors, strict=True):
        own, reference = one.frozen(), other.frozen()
        assert own.intercept == pytest.approx(reference.intercept, abs=within)
        for part in ("coef", "lam"):
            np.testing.assert_allclose(
                getattr(own.smooth, part), getattr(reference.smooth, part), atol=within, rtol=within, err_msg=part
            )
        np.testing.assert_allclose(own.loadings, reference.loadings, atol=within, rtol=within)
        for block, partner in zip(own.blocks, reference.blocks, strict=True):
            for part in ("mean", "variance", "lam", "main_lam", "constants"):
                np.testing.assert_allclose(
                    getattr(block, part), getattr(partner, part), atol=within, rtol=within, err_msg=part
                )


@pytest.mark.parametrize("order", [2, 3, PRODUCT])
@pytest.mark.parametrize("factor_prior", ["spline", "random_walk", "spline_iid"])
@pytest.mark.parametrize("family", FAMILIES)
def test_sweeps(family, factor_prior, order):
    for sweeps in (1, 3):
        states = [swept(fit_of(family, factor_prior, order), sweeps, engine) for engine in (True, False)]
        assert_same(*states, 1e-7)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "multinomial"])
def test_sweeps_with_tensor_products(family):
    kinds = {0: Categorical(), 1: Spline(n_basis=5), 2: Spline(n_basis=6), 3: Spline(n_basis=5)}
    fits = [fit_of(family, "spline", 3, kinds=kinds) for _ in range(2)]
    states = [swept(fit, 4, engine) for fit, engine in zip(fits, (True, False), strict=True)]
    assert_same(*states, 1e-7)
    for one, other in zip(*(state.linear_predictors for state in states), strict=True):
        own, reference = one.posterior.tensor_smoothing, other.posterior.tensor_smoothing
        assert own is not None
        assert own.age == reference.age
        assert own.edf == pytest.approx(reference.edf, rel=1e-7)
        np.testing.assert_allclose(own.margin_lam, reference.margin_lam, rtol=1e-7)
        np.testing.assert_allclose(own.null_lam, reference.null_lam, rtol=1e-7)


@pytest.mark.parametrize("order", [2, 3, PRODUCT])
@pytest.mark.parametrize("factor_prior", ["spline", "random_walk", "spline_iid"])
@pytest.mark.parametrize("family", ["gaussian", "poisson", "multinomial"])
def test_sweeps_of_chosen_interactions(family, factor_prior, order):
    given = {"exclude": [(1, 2), (0, 3)]}
    states = [swept(fit_of(family, factor_prior, order, **given), 3, engine) for engine in (True, False)]
    assert_same(*states, 1e-7)
    assert any(block.left_out is not None for block in states[0].linear_predictors[0].blocks)


def test_sweeps_of_chosen_interactions_with_tensor_products():
    kinds = {0: Categorical(), 1: Spline(n_basis=5), 2: Spline(n_basis=6), 3: Spline(n_basis=5)}
    fits = [fit_of("gaussian", "spline", 3, kinds=kinds, exclude=[(1, 2)]) for _ in range(2)]
    states = [swept(fit, 4, engine) for fit, engine in zip(fits, (True, False), strict=True)]
    assert states[0].linear_predictors[0].posterior.tensor_smoothing is not None
    assert_same(*states, 1e-7)


def test_steps_that_are_rejected_leave_smoothing_parameters():
    states = [swept(fit_of("separated", "random_walk", 2), 12, engine) for engine in (True, False)]
    assert states[0].damped > 0
    assert_same(*states, 1e-6)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "multinomial"])
@pytest.mark.parametrize("interactions", ["spline_iid", "spline", "random_walk"])
def test_threads_change_no_bit(family, interactions):
    if family != "gaussian" and interactions == "random_walk":
        pytest.skip("other families differ in what happens beside the solves")
    alone = fit_of(family, interactions, 3, n=10_000)
    fits = [alone, replace(fit_of(family, interactions, 3, n=10_000), executor=ThreadExecutor(1, ThreadBudget(4)))]
    one, four = (swept(fit, 2, True) for fit in fits)
    assert one.dispersion == four.dispersion
    np.testing.assert_array_equal(one.rows.derivatives.eta, four.rows.derivatives.eta)
    for own, other in zip(one.linear_predictors, four.linear_predictors, strict=True):
        assert own.posterior.intercept == other.posterior.intercept
        np.testing.assert_array_equal(own.posterior.smooth.coef, other.posterior.smooth.coef)
        for block, partner in zip(own.blocks, other.blocks, strict=True):
            np.testing.assert_array_equal(block.mean, partner.mean)
            np.testing.assert_array_equal(block.variance, partner.variance)


def test_helpers_are_given_back():
    budget = ThreadBudget(4)
    budget.occupy(1)
    swept(replace(fit_of("gaussian", "spline", 2, n=3_000), executor=ThreadExecutor(1, budget)), 1, True)
    assert budget.free == 3
    budget.occupy(5)  # more jobs than threads: there are no helpers
    swept(replace(fit_of("gaussian", "spline", 2, n=3_000), executor=ThreadExecutor(1, budget)), 1, True)
    assert budget.free == -2


@pytest.mark.parametrize("count", [0, -1, 2**40, 1.5, None])
def test_budgets_that_are_none(count):
    with pytest.raises((ValueError, TypeError)):
        ThreadBudget(count)


class Faint(Family):
    """A loss whose derivative is a subnormal number; it keeps what Python makes of such numbers meanwhile."""

    name = "faint"

    def __init__(self):
        """Nothing has been seen."""
        self.halves = []

    def loss(self, y, eta):
        self.halves.append(np.array([1e-310]) / 2)
        return np.zeros(len(y)), np.full(eta.shape, 1e-310), np.ones(eta.shape)

    def mean(self, eta):
        return eta[:, 0]

    def guess(self, y, weight):
        return np.zeros(1)

    @property
    def target(self):
        return Gaussian().target


def test_subnormal_numbers_are_zero_in_sweeps_and_not_in_python(monkeypatch):
    family = Faint()
    monkeypatch.setitem(FAMILIES, "faint", (family, lambda eta, rng: rng.normal(size=len(eta))))
    zero = []
    for engine in (True, False):
        fit = fit_of("faint", "spline_iid", 2)
        fit._state = VariationalState.start(fit._rows(), fit.response, fit.additive, fit.columns)
        fit.backend = CpuBackend(compiled_sweeps=engine)
        fit._new_stage()._build(0.5)
        assert fit._state.has_sweeper == engine
        family.halves.clear()
        fit._state.sweep(update_lam=False, backwards=False, floor=0.0)
        fit._state.sync_posteriors()
        blocks = fit._state.linear_predictors[0].frozen().blocks
        zero.append(all((block.mean == 0.0).all() for block in blocks))
        assert len(family.halves) > 0
        assert np.array(family.halves).min() > 0.0
    assert zero == [True, False]
    assert np.array([1e-310])[0] / 2 > 0.0
