"""What a fit will cost, before it is begun: its plan, times what a few sweeps over a few rows have cost."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ahofm.backends import FailedError
from ahofm.columns.table import Table
from ahofm.families import Family, Gaussian
from ahofm.fit.api import estimates_smoothing, prepared, ranks_for, shares_curves
from ahofm.fit.classes.forecast import class_costs
from ahofm.fit.cost.schedule import Job, Line, Schedule
from ahofm.fit.data import Data, counted_rows
from ahofm.fit.settings import Settings, check_settings
from ahofm.fit.solvers.subsample.objective import RefinementObjective
from ahofm.fit.solvers.subsample.refine import rows_of
from ahofm.fit.solvers.variational.staged_fit import StagedFit, Sweep
from ahofm.fit.stacking.candidates import Candidate, candidates_for
from ahofm.fit.stacking.problem import Plan, TrainingProblem, uses_subsample
from ahofm.kernels.blas import one_blas_thread
from ahofm.orders import Orders
from ahofm.threads import thread_count
from ahofm.tuning import FEWEST_ROWS_FOR_THREADS, FLOAT64_STATE_ROWS, FUNCTIONS, GRAM_ROWS, MOST_DESIGN_CELLS
from ahofm.tuning.forecasts import (
    FIRST_SWEEPS,
    NOMINAL_SWEEP,
    OVERHEAD_BYTES,
    PROBED_LARGE,
    PROBED_PASS_ROWS,
    PROBED_SMALL,
    PROBED_SWEEPS,
    TRACED_ROWS,
)


@dataclass(frozen=True)
class Forecast:
    """What a fit will cost: good to a factor of two as a rule, on a machine that is as busy as during the forecast.

    Attributes
    ----------
    seconds : float
        No more than ``time_budget``, where there is one.
    memory : float
        Bytes at most, on top of what is there before the fit.
    parts : dict of phase to seconds
        "learn" the columns, "search" for the kind of interactions, "fit" the ensemble members, "passes" over all rows.
    n_rows, n_columns : int
    ranks : dict of order to rank
        Of each ensemble member.
    n_members : int
    """

    seconds: float
    memory: float
    parts: Mapping[str, float]
    n_rows: int
    n_columns: int
    ranks: Mapping[int, int]
    n_members: int

    def __str__(self) -> str:
        """A few lines for people."""
        ranks = ", ".join(f"{rank} at order {order}" for order, rank in self.ranks.items()) or "none"
        parts = ", ".join(f"{name} {_in_words(seconds)}" for name, seconds in self.parts.items() if seconds > 0.0)
        return (
            f"{self.n_rows:,} rows, {self.n_columns} columns; rank: {ranks}; ensemble members: {self.n_members}\n"
            f"time: about {_in_words(self.seconds)} ({parts})\n"
            f"memory: about {self.memory / 1e6:,.0f} MB on top of the data"
        )


@one_blas_thread()
def forecast_fit(
    table: Table,
    y: ArrayLike | None,
    *,
    weight: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    family: Family,
    settings: Settings,
) -> Forecast:
    """What :func:`ahofm.fit.fit_model` will cost. Without a target one is made up, for a Gaussian fit."""
    check_settings(settings)
    if not estimates_smoothing(settings):
        raise ValueError(
            f"smoothing={settings.smoothing!r}, solver={settings.solver!r}: iterations of a penalised fit "
            "are not known before it; "
            "a forecast needs smoothing='auto', and solver 'auto', 'variational' or 'subsample'"
        )
    if y is None:
        if not isinstance(family, Gaussian):
            raise ValueError(f"y is needed to forecast a fit of family {family.name}")
        y = np.random.default_rng(0).normal(size=table.n_rows)
    table, rows = counted_rows(table, y, weight, offset, family)
    n, threads = table.n_rows, thread_count(settings.n_threads)
    some = np.random.default_rng(settings.seed).permutation(n)[:PROBED_PASS_ROWS]
    few = table.take(some), rows.take(some)
    data, learning = timed(lambda: prepared(*few, family, settings, n))
    kept, peak = (size / len(some) * n for size in traced(lambda: prepared(*few, family, settings, n)))
    if shares_curves(data, settings, n):
        return _of_classes(data, settings, n, learning / len(some) * n, peak, kept, threads)
    problem = replace(
        TrainingProblem.of(data, ranks_for(data, settings, n), settings), refined=uses_subsample(settings, n)
    )
    candidates = candidates_for(problem, settings)
    problem = problem.of_candidates(candidates)
    plan = Plan.of(
        problem, candidates, problem.response.n_rows if n <= PROBED_PASS_ROWS else n
    )  # equal rows may have become one
    single = (
        max(job.n_rows for job in (*plan.search, *plan.members)) > FLOAT64_STATE_ROWS
        and max(problem.ranks, default=1) < 4
    )
    first = Speed.of(problem, candidates[0], single=single)
    known = {(candidates[0].interactions, candidates[0].times): first}
    for candidate in candidates[1:]:
        place = candidate.interactions, candidate.times  # weights of rows cost nothing
        if place not in known:
            known[place] = first.like(problem, candidate, single=single)
    speeds = [known[candidate.interactions, candidate.times] for candidate in candidates]
    beside = max(_side_by_side(jobs, threads) for jobs in (plan.search, plan.members))
    crowded = crowding(problem, candidates[0], beside) if beside > 1 else 1.0
    passes = pass_times(problem, candidates[0]) if plan.passes else {}
    each = sum(number * passes[order].at(n) for order, number in plan.passes.items())
    parts = {
        "learn": learning / len(some) * n,
        "search": _seconds(plan.search, speeds, threads, crowded),
        "fit": float(np.mean([_seconds(plan.members, [speed], threads, crowded) for speed in speeds])),
        "passes": len(plan.members) * each,
    }
    of_members = Memory.of(problem, candidates[0], single=single)
    memory = OVERHEAD_BYTES + max(peak, kept + _bytes(plan, len(candidates), of_members, threads))
    seconds = min(sum(parts.values()), settings.time_budget or np.inf)
    return Forecast(seconds, memory, parts, n, len(table.columns), problem.ranks, len(plan.members))


def _of_classes(
    data: Data, settings: Settings, n: int, learning: float, peak: float, kept: float, threads: int
) -> Forecast:
    """Of a fit to several classes with shared curves; fits are made side by side."""
    ranks = ranks_for(data, settings, n)
    costs = class_costs(data, ranks, settings, n)
    beside = min(threads, costs.n_members)
    parts = {"learn": learning, "search": costs.search / beside, "fit": costs.members / beside}
    memory = OVERHEAD_BYTES + max(peak, kept + beside * costs.memory)
    return Forecast(sum(parts.values()), memory, parts, n, len(data.encoder.codebooks), ranks, costs.n_members)


def _seconds(jobs: Sequence[Job], speeds: Sequence[Speed], threads: int, crowded: float) -> float:
    """Jobs, by one candidate after another, as a runner shares them out."""
    n_parallel = _side_by_side(jobs, threads)
    inside = threads if n_parallel == 1 and not _few(jobs) else 1
    each = [speeds[at % len(speeds)].seconds(job, inside) for at, job in enumerate(jobs)]
    if n_parallel == 1:
        return sum(each)
    return crowded * max(sum(each) / n_parallel, *each)


def _bytes(plan: Plan, n_candidates: int, memory: Memory, threads: int) -> float:
    """Of the search, or of the ensemble members after it: what it took is not given back to the machine."""
    most, done = 0.0, 0
    for jobs, candidates in ((plan.search, n_candidates), (plan.members, len(plan.members))):
        if jobs:
            beside, n = _side_by_side(jobs, threads), max(job.n_rows for job in jobs)
            before, parts = done + len(jobs) - beside, len(jobs) // candidates
            most, done = max(most, memory.at(n, beside=beside, before=before, parts=parts)), done + len(jobs)
    return most


def _side_by_side(jobs: Sequence[Job], threads: int) -> int:
    return 1 if _few(jobs) else min(threads, len(jobs))


def _few(jobs: Sequence[Job]) -> bool:
    return all(job.n_rows < FEWEST_ROWS_FOR_THREADS for job in jobs)


def _in_words(seconds: float) -> str:
    """Two digits are more than enough."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2.0 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10.0 else f"{seconds:.2g} s"


T = TypeVar("T")


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

        parts = [{order: scaled(line, order) for order, line in own.items()} for own in (self.first, self.later)]
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
        return cls(kept, own, 8.0 * problem.additive(candidate).size)

    def at(self, n_rows: int, *, beside: int, before: int, parts: int) -> float:
        """With so many fits side by side and so many done before them, on so many parts of the rows."""
        design = self.design if self.design * n_rows <= 8.0 * MOST_DESIGN_CELLS else 0.0
        own = max(self.own.at(n_rows), design * min(n_rows, GRAM_ROWS))
        return parts * design * n_rows + beside * own + before * self.kept.at(n_rows)


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
            task = partial(objective.value, objective.start)
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
        {order: (own[0], float(np.mean(own[1:] or own))) for order, own in times.items() if len(own) >= sweeps}, problem
    )


def _completed(times: dict[int, tuple[float, float]], problem: TrainingProblem) -> dict[int, tuple[float, float]]:
    """With orders whose sweeps failed, e.g. by sums that are not finite: as the last one below, by their functions."""
    times.setdefault(1, (NOMINAL_SWEEP * problem.response.n_rows,) * 2)
    for order in problem.ranks:
        if order not in times:
            below = max(other for other in times if other < order)
            factors = [Orders(problem.ranks).up_to(highest).n_factors for highest in (order, below)]
            more = (FUNCTIONS + factors[0]) / (FUNCTIONS + factors[1])
            times[order] = (more * times[below][0], more * times[below][1])
    return times


def _staged_fit(problem: TrainingProblem, candidate: Candidate, n_rows: int, sweeps: int) -> StagedFit:
    """To some of the rows, with so many sweeps in every stage."""
    return _short(_some(problem, n_rows).staged_fit(candidate, 0, 0), sweeps)


def _short(staged: StagedFit, sweeps: int) -> StagedFit:
    staged.schedule = Schedule(main=sweeps, inner=sweeps, last=sweeps, learning=sweeps, alone=0, warm=0, judged=False)
    return staged


def _some(problem: TrainingProblem, n_rows: int) -> TrainingProblem:
    return problem.take(np.arange(n_rows))


def _sizes(problem: TrainingProblem, small: int, large: int) -> list[int]:
    return [min(problem.response.n_rows, size) for size in (small, large)]
