"""What a fit will cost, before it is begun: its plan, times what a few sweeps over a few rows have cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from ahofm.columns.table import Table
from ahofm.cost.class_forecast import class_costs
from ahofm.cost.probes import Memory, Speed, crowding, pass_times, timed, traced
from ahofm.families import Family, Gaussian
from ahofm.fit.api import estimates_smoothing, in_folds, prepared, ranks_for, shares_curves
from ahofm.fit.solvers.variational.schedule import Job
from ahofm.fit.stacking.candidates import candidates_for
from ahofm.fit.stacking.problem import TrainingProblem, uses_subsample
from ahofm.fit.stacking.runner import Plan
from ahofm.kernels.blas import one_blas_thread
from ahofm.threads import thread_count
from ahofm.training.data import Data, Rows, counted_rows
from ahofm.training.settings import Settings, check_settings
from ahofm.training.splits import given_splits
from ahofm.training.validation import Split
from ahofm.tuning import FLOAT64_STATE_ROWS
from ahofm.tuning.forecasts import (
    FEWEST_ROWS_FOR_THREADS,
    OVERHEAD_BYTES,
    PROBED_PASS_ROWS,
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
    groups: ArrayLike | None = None,
    cv: int | Sequence[Split] | None = None,
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
    splits = None if isinstance(cv, int) else cv
    table, rows = counted_rows(table, y, weight, offset, family, groups=groups, splits=splits)
    divided = in_folds(rows, cv if isinstance(cv, int) else None, family, settings)
    rows = replace(rows, groups=None, roles=None)
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
    n_fitted = problem.response.n_rows if n <= PROBED_PASS_ROWS else n  # equal rows may have become one
    plan = Plan.of(problem, candidates, n_fitted, _fitted_rows(divided, problem))
    single = (
        max(job.n_rows for job in (*plan.search, *plan.members)) > FLOAT64_STATE_ROWS
        and max(problem.ranks, default=1) < 4
    )
    first = Speed.of(problem, candidates[0], single=single)
    known = {(candidates[0].factor_prior, candidates[0].rank_factor): first}
    for candidate in candidates[1:]:
        place = candidate.factor_prior, candidate.rank_factor  # weights of rows cost nothing
        if place not in known:
            known[place] = first.like(problem, candidate, single=single)
    speeds = [known[candidate.factor_prior, candidate.rank_factor] for candidate in candidates]
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


def _fitted_rows(rows: Rows, problem: TrainingProblem) -> list[int] | None:
    """Rows to fit of every split that groups or ``cv`` give; None where there are neither."""
    if rows.roles is None:
        return None
    response = problem.response
    parts = given_splits(rows, problem.settings.seed, dispersed=response.family.dispersed, rare=response.rare)
    return [len(fitted) for fitted, _ in parts]


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
