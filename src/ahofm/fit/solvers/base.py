"""The penalised objective, through which alone penalised solvers use the data, and the one loop of such solvers.

    sum_i w_i loss(y_i, eta_i(theta)) + 1/2 sum_k lam_k theta_k^2

with one vector theta for all linear predictors. Solvers work on ``x = theta / scale``: penalised and unpenalised
coordinates then have about the same curvature, 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ahofm.backends import Rows, loss_of
from ahofm.columns.basis import Floats
from ahofm.families import Family
from ahofm.families.links import quiet
from ahofm.kernels import ColumnSums, Sums, Tables
from ahofm.model import Layout, Reason, Record, Trace
from ahofm.training.runner import Callback, Deadline, Saved
from ahofm.tuning.penalised import FLAT_SLOPE, GAIN_WINDOW

S = TypeVar("S")


@dataclass
class Meter:
    """Counts passes over the rows, and the seconds they took."""

    passes: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Objective:
    """Penalised loss of a model on a source of rows.

    Attributes
    ----------
    rows : Rows
        Loaded by a backend.
    family : Family
    layout : Layout
        Of each linear predictor.
    lam : array of shape (linear predictors * layout.size,)
        Penalty of each squared coefficient.
    total : float
        Sum of the rows' weights.
    left_out : array of bool of shape (columns, factors), or None
        Factors in which a column has no function.
    """

    rows: Rows
    family: Family
    layout: Layout
    lam: Floats
    total: float
    meter: Meter = field(default_factory=Meter)
    left_out: NDArray[np.bool_] | None = None

    @cached_property
    def estimated(self) -> NDArray[np.bool_]:
        """Whether each coefficient is estimated; the others stay zero."""
        return np.tile(self.layout.estimated(self.left_out), self.family.n_eta)

    @property
    def size(self) -> int:
        """Number of coefficients of all linear predictors."""
        return len(self.lam)

    @property
    def scale(self) -> Floats:
        """theta / x: the inverse root of the curvature that a unit of weight and the penalty give a coefficient."""
        return 1.0 / np.sqrt(self.total + self.lam)

    def split(self, theta: Floats) -> Floats:
        """One row per linear predictor: a view."""
        return theta.reshape(self.family.n_eta, self.layout.size)

    def tables(self, theta: Floats) -> tuple[Tables, ...]:
        """Each linear predictor at the codes."""
        return tuple(self.layout.tables(theta_k) for theta_k in self.split(theta))

    def penalty(self, theta: Floats) -> float:
        """Half the weighted sum of squares."""
        return 0.5 * float(self.lam @ theta**2)

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """The objective and its derivatives by theta; one pass."""
        sums = self._pass(lambda: self.rows.gradient(self.tables(theta), loss_of(self.family)))
        return self._penalised(sums, theta)

    def value(self, theta: Floats) -> float:
        """The objective alone; one pass."""
        return self.loss(theta) + self.penalty(theta)

    def loss(self, theta: Floats) -> float:
        """Without the penalty; one pass."""
        return self._pass(lambda: self.rows.value(self.tables(theta), loss_of(self.family)))

    def batches(self, rows: int, rng: np.random.Generator) -> Iterator[Callable[[Floats], Floats]]:
        """An epoch: gradients of the objective, each estimated from other rows; together one pass.

        Chunks come in random order and rows are shuffled within a chunk.
        """
        for batch, weight in self.rows.batches(rows, rng):
            yield partial(self._batch_gradient, batch, weight)

    def block(self, theta: Floats, linear_predictor: int, column: int) -> ColumnSums:
        """Slopes and curvatures of the loss by one column's functions, per code; one pass."""
        return self._pass(
            lambda: self.rows.column_gram(self.tables(theta), loss_of(self.family), linear_predictor, column)
        )

    def _penalised(self, sums: Sums, theta: Floats) -> tuple[float, Floats]:
        with quiet():  # far from the optimum an objective may be infinite, which solvers see
            shrinkage = self.lam * theta
            gradient = self._slopes(sums)
            return sums.value + 0.5 * float(shrinkage @ theta), gradient + shrinkage

    def _slopes(self, sums: Sums) -> Floats:
        """Gradient of the loss by the coefficients; zero for those that are not estimated."""
        slopes = np.concatenate([self.layout.gradient(tables) for tables in sums.gradient])
        return slopes if self.left_out is None else np.where(self.estimated, slopes, 0.0)

    def _batch_gradient(self, batch: Rows, weight: float, theta: Floats) -> Floats:
        begun = time.perf_counter()
        sums = batch.gradient(self.tables(theta), loss_of(self.family))
        gradient = self._slopes(sums)
        self.meter.seconds += time.perf_counter() - begun
        self.meter.passes += batch.n_rows / self.rows.n_rows
        if weight == 0.0:
            return self.lam * theta
        return gradient * (self.total / weight) + self.lam * theta

    def _pass(self, task: Callable[[], S]) -> S:
        begun = time.perf_counter()
        result = task()
        self.meter.seconds += time.perf_counter() - begun
        self.meter.passes += 1.0
        return result


@dataclass(frozen=True)
class State:
    """State of a solver after an iteration; solvers derive from it and add fields.

    Attributes
    ----------
    theta : array
    value : float
        The objective there.
    gradient : array
    validation : float or None
        Loss per unit of weight on validation rows.
    best : array
        The coefficients to keep if the fit ended now.
    reason : Reason or None
        Why the solver has finished; None while it has not.
    """

    theta: Floats
    value: float
    gradient: Floats
    best: Floats
    validation: float | None = None
    reason: Reason | None = None


StateT = TypeVar("StateT", bound=State)


@runtime_checkable
class Solver(Protocol[StateT]):
    """A minimiser of :class:`Objective`, iteration by iteration."""

    @property
    def name(self) -> str:
        """Name of the solver."""
        ...

    def init(self, objective: Objective, theta: Floats) -> StateT:
        """The state at the start."""
        ...

    def step(self, objective: Objective, state: StateT) -> StateT:
        """The state after one more iteration."""
        ...


def gradient_norm(objective: Objective, gradient: Floats) -> float:
    """Norm in the solvers' coordinates, per root of weight; half its square is about the decrease of a Newton step."""
    return float(np.linalg.norm(gradient * objective.scale) / np.sqrt(objective.total))


def has_converged(records: Sequence[Record], tol: float, reference: float | None = None) -> bool:
    """Whether the last ten iterations gained less than ``tol`` of the gain since the start, or the slope is flat.

    A start that is good already has little to gain: ``reference`` is then the objective where others start.

    Interactions have flat valleys in which a gradient never quite vanishes, hence the first; the second spares convex
    problems ten needless iterations.
    """
    last = records[-1]
    gain = tol * ((records[0].objective if reference is None else reference) - last.objective)
    if 0.5 * last.gradient_norm**2 <= FLAT_SLOPE * gain or last.gradient_norm == 0.0:
        return True
    return len(records) > GAIN_WINDOW and records[-GAIN_WINDOW - 1].objective - last.objective <= gain


def _stop_reason(record: Record, callbacks: Sequence[Callback], deadline: Deadline | None) -> Reason | None:
    """Reason to end after an iteration: a callback, or the deadline."""
    stops = [callback(record) for callback in callbacks]  # each of them is called
    if any(stops):
        return Reason.CALLBACK
    return Reason.TIME if deadline is not None and deadline.over else None


def minimise(
    solver: Solver[Any],
    objective: Objective,
    theta: Floats,
    *,
    max_iter: int,
    tol: float | None = None,
    callbacks: Sequence[Callback] = (),
    saved: Saved | None = None,
    reference: float | None = None,
    deadline: Deadline | None = None,
) -> tuple[Floats, Trace]:
    """Run a solver.

    Parameters
    ----------
    max_iter : int
    tol : float, optional
        See ``has_converged``; without it the solver decides.
    callbacks : functions of a Record
        Called after every iteration; the fit stops when one returns True.
    saved : Saved, optional
        Where the state is kept after every iteration, and where one may be already.
    reference : float, optional
        Objective per unit of weight at a random start, where this start is better than that; for ``tol``.
    deadline : Deadline, optional
        After which there is no further iteration.

    Returns
    -------
    theta : array
        The best coefficients seen, also when the fit diverged or was interrupted.
    trace : Trace
    """
    begun, rows_before, first = time.perf_counter(), objective.meter.seconds, 1

    def record(iteration: int, state: State) -> Record:
        norm = gradient_norm(objective, state.gradient)
        seconds = time.perf_counter() - begun
        value = state.value / objective.total
        return Record(iteration, value, norm, objective.meter.passes, seconds, state.validation)

    state: State = solver.init(objective, theta)
    if not np.isfinite(state.value):
        raise ValueError("the objective is not finite at the start; are targets, weights or offsets extremely large?")
    records = [record(0, state)]
    checkpoint = None if saved is None else saved.get("state", state, Record)
    if checkpoint is not None:
        state, records = checkpoint
        first, last = records[-1].iteration + 1, records[-1]
        begun, objective.meter.passes = begun - last.seconds, last.passes
    reason = Reason.MAX_ITER
    try:
        for iteration in range(first, max_iter + 1):
            new: State = solver.step(objective, state)
            if new.reason is Reason.DIVERGED or not np.isfinite(new.value):
                reason = Reason.DIVERGED
                break
            state = new
            records.append(record(iteration, state))
            if saved is not None:
                saved.put("state", (state, records))
            if state.reason is not None:
                reason = state.reason
                break
            if tol is not None and has_converged(records, tol, reference):
                reason = Reason.CONVERGED
                break
            if (stop := _stop_reason(records[-1], callbacks, deadline)) is not None:
                reason = stop
                break
    except KeyboardInterrupt:
        reason = Reason.INTERRUPTED
        if saved is not None:
            saved.put("state", (state, records), now=True)
    rows = objective.meter.seconds - rows_before
    seconds = {"rows": rows, "solve": time.perf_counter() - begun - rows}
    return state.best, Trace(solver.name, reason, tuple(records), seconds)
