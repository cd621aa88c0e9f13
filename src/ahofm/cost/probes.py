"""Seconds and bytes of a few sweeps over a few rows, as lines in the number of rows."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from ahofm.backends import CELL_BYTES, FailedError
from ahofm.fit.solvers.subsample.objective import RefinementObjective
from ahofm.fit.solvers.subsample.refine import rows_of
from ahofm.fit.solvers.variational.schedule import Job, Schedule
from ahofm.fit.solvers.variational.stage import Sweep
from ahofm.fit.solvers.variational.staged_fit import StagedFit
from ahofm.fit.stacking.candidates import Candidate
from ahofm.fit.stacking.problem import TrainingProblem
from ahofm.kernels.blas import one_blas_thread
from ahofm.orders import Orders
from ahofm.tuning import MOST_DESIGN_CELLS
from ahofm.tuning.forecasts import (
    BASE_COST_FUNCTIONS,
    FIRST_SWEEPS,
    NOMINAL_SWEEP,
    PROBED_LARGE,
    PROBED_PASS_ROWS,
    PROBED_SMALL,
    PROBED_SWEEPS,
    TRACED_ROWS,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Line:
    """A cost that grows with the rows."""

    fixed: float
    per_row: float

    @classmethod
    def through(cls, small: tuple[int, float], large: tuple[int, float]) -> Line:
        """Two measurements of (rows, cost)."""
        if large[0] < 2 * small[0]:  # all rows there are: nothing else will be asked for
            return cls(0.0, large[1] / large[0])
        slope = max(large[1] - small[1], 0.0) / (large[0] - small[0])
        return cls(max(small[1] - slope * small[0], 0.0), slope)

    def at(self, n_rows: float, threads: int = 1) -> float:
        """With so many rows, which threads share."""
        return self.fixed + self.per_row * n_rows / threads


@dataclass(frozen=True)
class Speed:
    """Seconds of a stage's first sweep, and of a later one, by order."""

    first: Mapping[int, Line]
    later: Mapping[int, Line]

    @classmethod
    def of(cls, problem: TrainingProblem, candidate: Candidate, *, single: bool) -> Speed:
        """Of staged fits of a candidate, with row states in single or double precision."""
        small, large = _sizes(problem, PROBED_SMALL, PROBED_LARGE)
        few, many = (_sweep_times(problem, candidate, size, single=single) for size in (small, large))
        lines = [
            {order: Line.through((small, few[order][at]), (large, many[order][at])) for order in few} for at in (0, 1)
        ]
        return cls(lines[0], lines[1])

    def like(self, problem: TrainingProblem, candidate: Candidate, *, single: bool) -> Speed:
        """Of another candidate, by a first sweep: a row costs the same, the rest so many times as much."""
        small, _ = _sizes(problem, PROBED_SMALL, PROBED_LARGE)
        few = _sweep_times(problem, candidate, small, single=single, sweeps=1)
        times = {
            order: max(few[order][0] - line.per_row * small, 0.0) / max(line.fixed, np.finfo(float).tiny)
            for order, line in self.first.items()
        }
        whole = {order: few[order][0] / line.at(small) for order, line in self.first.items()}

        def scaled(line: Line, order: int) -> Line:
            if self.first[order].fixed > 0.0:
                return Line(times[order] * line.fixed, line.per_row)
            return Line(whole[order] * line.fixed, whole[order] * line.per_row)

        parts = [{order: scaled(line, order) for order, line in lines.items()} for lines in (self.first, self.later)]
        return Speed(parts[0], parts[1])

    def seconds(self, job: Job, threads: int = 1) -> float:
        """Of a staged fit whose pairs need no more factors than they have at first."""
        return sum(
            FIRST_SWEEPS * self.first[order].at(job.n_rows, threads)
            + (job.sweeps(order) - FIRST_SWEEPS) * self.later[order].at(job.n_rows, threads)
            for order in (1, *job.ranks)
        )


@dataclass(frozen=True)
class Memory:
    """Bytes of staged fits.

    Attributes
    ----------
    kept, own : Line
        What is left of a fit, and what it takes at most while it runs.
    design : float
        What a row of the smooth main effects takes, which all fits to the same rows share.
    """

    kept: Line
    own: Line
    design: float

    @classmethod
    def of(cls, problem: TrainingProblem, candidate: Candidate, *, single: bool) -> Memory:
        """Of staged fits of a candidate, with row states in single or double precision."""
        sizes, found = _sizes(problem, *TRACED_ROWS), []
        for size in sizes:
            some = _some(problem, size)
            staged = _short(some.staged_fit(candidate, 0, 0), 1)
            if single:
                staged.precision = "float32"
            with one_blas_thread():
                _ = some.additive(candidate).rows.gram  # made untraced, as all fits share it
                found.append(traced(partial(staged.run, lambda _: False)))
        kept, own = (Line.through(*zip(sizes, costs, strict=True)) for costs in zip(*found, strict=True))
        return cls(kept, own, problem.additive(candidate).rows.nbytes / problem.response.n_rows)

    def at(self, n_rows: int, *, beside: int, before: int, parts: int) -> float:
        """With so many fits side by side and so many done before them, on so many parts of the rows."""
        design = self.design if self.design * n_rows <= CELL_BYTES * MOST_DESIGN_CELLS else 0.0
        return parts * design * n_rows + beside * self.own.at(n_rows) + before * self.kept.at(n_rows)


def crowding(problem: TrainingProblem, candidate: Candidate, threads: int) -> float:
    """How much longer fits take side by side than alone: they share memory, Python's lock, and a busy machine."""
    staged_fits = [
        _staged_fit(problem, candidate, _sizes(problem, PROBED_SMALL, PROBED_LARGE)[0], 1) for _ in range(1 + threads)
    ]

    def run(staged: StagedFit) -> None:
        staged.run(lambda _: False)

    def together() -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(run, staged_fits[1:]))

    with one_blas_thread():
        alone = timed(lambda: run(staged_fits[0]))[1]
        return max(timed(together)[1] / alone, 1.0)


def pass_times(problem: TrainingProblem, candidate: Candidate) -> dict[int, Line]:
    """Seconds of a pass over rows for gradients, by order."""
    staged = _staged_fit(problem, candidate, min(problem.response.n_rows, PROBED_SMALL), 1)
    with one_blas_thread():
        staged.run(lambda _: False)
    sizes, found = _sizes(problem, PROBED_SMALL, PROBED_PASS_ROWS), {}
    for order, posteriors in zip((1, *problem.ranks), staged.posteriors, strict=True):
        expected_sums, costs = staged.expected_sums(posteriors), []
        for size in sizes:
            rows = rows_of(_some(problem, size), staged)
            objective = RefinementObjective(posteriors, staged.additive, rows, rows, expected_sums, 1.0)
            task = partial(objective.value_and_gradient, objective.start)
            task()
            costs.append((size, timed(task)[1]))
        found[order] = Line.through(*costs)
    return found


def timed(task: Callable[[], T]) -> tuple[T, float]:
    """A result, and the seconds it took."""
    begun = time.perf_counter()
    return task(), time.perf_counter() - begun


def traced(task: Callable[[], T]) -> tuple[float, float]:
    """Bytes that a result keeps, and bytes that making it took at most."""
    ours = not tracemalloc.is_tracing()
    if ours:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        result = task()
        after, peak = tracemalloc.get_traced_memory()
        del result
        return after - before, peak - before
    finally:
        if ours:
            tracemalloc.stop()


def _sweep_times(
    problem: TrainingProblem, candidate: Candidate, n_rows: int, *, single: bool, sweeps: int = PROBED_SWEEPS
) -> dict[int, tuple[float, float]]:
    """Seconds of the first sweep, and of a later one where there are some, by order."""
    staged = _staged_fit(problem, candidate, n_rows, sweeps)
    if single:
        staged.precision = "float32"
    times: dict[int, list[float]] = {order: [] for order in (1, *problem.ranks)}
    last = time.perf_counter()

    def report(sweep: Sweep) -> bool:
        nonlocal last
        before, last = last, time.perf_counter()
        times[sweep.order].append(last - before)
        return False

    with one_blas_thread(), suppress(FailedError):  # what has been swept before is priced
        staged.run(report)
    return _completed(
        {
            order: (seconds[0], float(np.mean(seconds[1:] or seconds)))
            for order, seconds in times.items()
            if len(seconds) >= sweeps
        },
        problem,
    )


def _completed(times: dict[int, tuple[float, float]], problem: TrainingProblem) -> dict[int, tuple[float, float]]:
    """With orders whose sweeps failed, e.g. by sums that are not finite: as the last one below, by their functions."""
    times.setdefault(1, (NOMINAL_SWEEP * problem.response.n_rows,) * 2)
    for order in problem.ranks:
        if order not in times:
            below = max(other for other in times if other < order)
            factors = [Orders(problem.ranks).up_to(highest).n_factors for highest in (order, below)]
            more = (BASE_COST_FUNCTIONS + factors[0]) / (BASE_COST_FUNCTIONS + factors[1])
            times[order] = (more * times[below][0], more * times[below][1])
    return times


def _staged_fit(problem: TrainingProblem, candidate: Candidate, n_rows: int, sweeps: int) -> StagedFit:
    """To some of the rows, with so many sweeps in every stage."""
    return _short(_some(problem, n_rows).staged_fit(candidate, 0, 0), sweeps)


def _short(staged: StagedFit, sweeps: int) -> StagedFit:
    staged.schedule = Schedule(
        main=sweeps, inner=sweeps, last=sweeps, learning=sweeps, coefficients=0, warm=0, fails_on_increase=False
    )
    return staged


def _some(problem: TrainingProblem, n_rows: int) -> TrainingProblem:
    return problem.take(np.arange(n_rows))


def _sizes(problem: TrainingProblem, small: int, large: int) -> list[int]:
    return [min(problem.response.n_rows, size) for size in (small, large)]
