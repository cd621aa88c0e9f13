"""Every solver keeps the same promises. A new solver is tested by its line in SOLVERS."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from ahofm.families import Bernoulli, Gaussian, Poisson
from ahofm.fit import Adam, Bcd, Lbfgs, Solver, State, minimise
from ahofm.model import Reason
from tests.fit.fits import objective_of, simulated, start_of

DETERMINISTIC = [
    pytest.param(Lbfgs(), id="lbfgs"),
    pytest.param(Bcd(), id="bcd-column"),
    pytest.param(Bcd(blocks="factor"), id="bcd-factor"),
]
SOLVERS = [*DETERMINISTIC, pytest.param(Adam(patience=40, batch_rows=50), id="adam")]
every_solver = pytest.mark.parametrize("solver", SOLVERS)

X, Y, _ = simulated(400)


def tolerance(solver):
    return None if isinstance(solver, Adam) else 1e-10


@every_solver
def test_is_a_solver_with_frozen_settings_and_states(solver):
    assert isinstance(solver, Solver)
    objective = objective_of(X, Y, {2: 2})
    state = solver.init(objective, start_of(objective, Y))
    assert isinstance(state, State)
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.value = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        solver.name = "other"


@every_solver
def test_step_is_pure(solver):
    objective = objective_of(X, Y, {2: 2})
    state = solver.init(objective, start_of(objective, Y))
    before = state.theta.copy()
    one, two = solver.step(objective, state), solver.step(objective, state)
    np.testing.assert_array_equal(state.theta, before)
    np.testing.assert_array_equal(one.theta, two.theta)
    assert one.value == two.value


@every_solver
@pytest.mark.parametrize(
    ("family", "y"),
    [(Gaussian(), Y), (Bernoulli(), (Y > 0.5).astype(float)), (Poisson(), np.round(np.exp(Y)))],
    ids=["gaussian", "bernoulli", "poisson"],
)
def test_all_reach_the_same_optimum_of_a_convex_problem(solver, family, y):
    objective = objective_of(X, y, {}, family=family)
    start = start_of(objective, y)
    scale = objective.scale

    def scaled(x):
        value, gradient = objective.value_and_gradient(scale * x)
        return value, scale * gradient

    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9}
    answer = minimize(scaled, start / scale, jac=True, method="L-BFGS-B", options=options)
    theta, trace = minimise(solver, objective, start, max_iter=2000, tol=tolerance(solver))
    null = objective.value(start)
    assert objective.value(theta) - answer.fun <= 1e-4 * abs(answer.fun)
    assert objective.value(theta) - answer.fun <= 1e-3 * (null - answer.fun)
    assert trace.reason.success


@pytest.fixture(scope="module")
def pairs():
    """An order-2 problem, where it starts, and the objective a long fit reaches."""
    objective = objective_of(X, Y, {2: 2})
    start = start_of(objective, Y)
    theta, _ = minimise(Lbfgs(), objective, start, max_iter=5000, tol=1e-9)
    return objective, start, objective.value(theta)


@pytest.mark.slow
@every_solver
def test_pairs_from_one_start_come_within_a_percent(solver, pairs):
    objective, start, value = pairs
    tol = None if isinstance(solver, Adam) else 1e-5
    theta, trace = minimise(solver, objective, start, max_iter=1000, tol=tol)
    assert objective.value(theta) == pytest.approx(value, rel=0.01)
    assert trace.reason.success


@every_solver
def test_reported_passes_are_the_real_ones(solver):
    """Counted where chunks are handed out."""
    objective = objective_of(X, Y, {2: 2}, chunk_rows=100)
    handed = []

    class Counting:
        n_rows, n_chunks = objective.rows.n_rows, objective.rows.source.n_chunks

        def chunk(self, index):
            handed.append(index)
            return objective.rows.source.chunk(index)

    counted = dataclasses.replace(objective, rows=dataclasses.replace(objective.rows, source=Counting()))
    _, trace = minimise(solver, counted, start_of(objective, Y), max_iter=7, tol=tolerance(solver))
    assert trace.passes == pytest.approx(len(handed) / 4)
    assert [record.iteration for record in trace.records] == list(range(8))
    assert all(a.passes < b.passes for a, b in pairwise(trace.records))
    assert trace.seconds["rows"] > 0
    assert trace.seconds["solve"] > 0


@pytest.mark.parametrize("solver", DETERMINISTIC)
@pytest.mark.parametrize("family", [Gaussian(), Poisson()], ids=["gaussian", "poisson"])
def test_objective_never_rises(solver, family):
    y = Y if family == Gaussian() else np.round(np.exp(2 * Y))
    objective = objective_of(X, y, {2: 2, 3: 1}, family=family)
    _, trace = minimise(solver, objective, start_of(objective, y), max_iter=15, tol=1e-12)
    values = [record.objective for record in trace.records]
    assert all(b <= a * (1 + 1e-12) + 1e-12 for a, b in pairwise(values))


@every_solver
def test_callbacks_see_every_record_and_stop_the_fit(solver):
    objective = objective_of(X, Y, {2: 1})
    seen = []
    _, trace = minimise(
        solver,
        objective,
        start_of(objective, Y),
        max_iter=50,
        callbacks=[seen.append, lambda record: record.iteration == 3],
    )
    assert trace.reason is Reason.CALLBACK
    assert seen == list(trace.records[1:])
    assert len(seen) == 3


class Breaking(Gaussian):
    """Least squares whose loss is not a number once the fit has moved far enough."""

    builtin = None

    def loss(self, y, eta):
        value, g, h = super().loss(y, eta)
        return (value if value.mean() > 0.2 else np.full_like(value, np.nan)), g, h


@every_solver
def test_divergence_keeps_the_best_state(solver):
    objective = objective_of(X, Y, {}, family=Breaking())
    theta, trace = minimise(solver, objective, start_of(objective, Y), max_iter=500, tol=tolerance(solver))
    assert np.isfinite(objective.value(theta))
    assert np.isfinite([record.objective for record in trace.records]).all()
    if isinstance(solver, Adam):
        assert trace.reason is Reason.DIVERGED  # the others do not take the step


def test_a_start_that_is_not_finite_is_an_error():
    objective = objective_of(X, Y, {})
    with pytest.raises(ValueError, match="not finite at the start"):
        minimise(Lbfgs(), objective, np.full(objective.size, np.nan), max_iter=5)


@every_solver
def test_interrupt_keeps_the_best_state(solver):
    objective = objective_of(X, Y, {2: 1})

    def interrupt(record):
        if record.iteration == 2:
            raise KeyboardInterrupt

    theta, trace = minimise(solver, objective, start_of(objective, Y), max_iter=50, callbacks=[interrupt])
    assert trace.reason is Reason.INTERRUPTED
    assert objective.value(theta) <= trace.records[0].objective * objective.total


@pytest.mark.parametrize("blocks", ["column", "factor"])
def test_a_block_step_solves_its_block_exactly(blocks):
    """Least squares: after a sweep, the gradient by the block updated last is zero."""
    objective = objective_of(X, Y, {2: 2})
    state = Bcd(blocks=blocks).step(objective, Bcd(blocks=blocks).init(objective, start_of(objective, Y)))
    layout = objective.layout
    last = layout.factor(np.arange(layout.size), 3)
    last = last.ravel() if blocks == "column" else last[:, -1]
    scale = np.abs(state.gradient * objective.scale).max()
    assert np.abs((state.gradient * objective.scale)[last]).max() < 1e-7 * max(scale, 1.0)
    assert scale > 1e-4, "blocks updated earlier are no longer at their optimum"
