"""Ensemble members: fits to all rows of the candidates that have weight.

Under a time budget one of them is fitted first, so that there is a model when the time is over. From the time that it
takes, that of cross-validation is predicted, which is left out if it is longer than what is left.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ahofm.fit.solvers.subsample.refine import refined_fits, subsample_of
from ahofm.fit.solvers.variational.posterior import Fit
from ahofm.fit.stacking.candidates import Candidate, random_stream
from ahofm.fit.stacking.cross_validate import CrossValidation
from ahofm.fit.stacking.problem import TrainingProblem
from ahofm.fit.stacking.runner import Plan, StagedRunner
from ahofm.fit.stacking.variance import with_original_weights
from ahofm.fit.stacking.weights import StackingWeights
from ahofm.training.members import members_per_candidate
from ahofm.training.runner import Deadline
from ahofm.tuning import (
    FAST_FACTOR_PRIOR,
    SEARCH_TIME_FRACTION,
)


@dataclass(frozen=True)
class Members:
    """Fits of the ensemble members to all rows.

    Attributes
    ----------
    fits : sequence of (candidate, fits)
        The number of the member's candidate, and its fit at the end of every stage that it has reached.
    converged : bool
        Whether the last sweeps of all members have converged.
    """

    fits: Sequence[tuple[int, list[Fit]]] = ()
    converged: bool = False

    def weights(self, given: Mapping[int, StackingWeights]) -> dict[int, StackingWeights]:
        """Stacking weights by order, of the candidates that have been fitted, with the same sums as those given."""
        fitted = {candidate for candidate, _ in self.fits}
        found: dict[int, StackingWeights] = {}
        for order, weights in given.items():
            kept = {member: weight for member, weight in weights.items() if member[0] in fitted}
            scale = sum(weights.values()) / sum(kept.values()) if kept else 1.0
            found[order] = {member: scale * weight for member, weight in kept.items()} or weights
        return found


@dataclass(frozen=True)
class FirstFit:
    """The first fit to all rows under a time budget, by the candidate of ``effort="fast"``.

    Attributes
    ----------
    candidate : int
        Number of the candidate.
    fits : list of Fit
        After each stage that it has reached.
    converged : bool
        Whether its last sweeps have converged.
    complete : bool
        Whether all stages came to their end.
    seconds : float
    """

    candidate: int = 0
    fits: list[Fit] = field(default_factory=list)
    converged: bool = False
    complete: bool = False
    seconds: float = 0.0

    def leaves_time(self, plan: Plan, deadline: Deadline) -> bool:
        """Whether the time left suffices for cross-validation and for fits of the candidates that it selects."""
        if not deadline.limited:
            return True
        search = sum(job.total for job in plan.search)
        return self.complete and search / plan.first_total * self.seconds <= SEARCH_TIME_FRACTION * deadline.left


def first_candidate(candidates: Sequence[Candidate]) -> int:
    """Number of the candidate that is fitted first."""
    wanted = (
        number
        for number, candidate in enumerate(candidates)
        if candidate.factor_prior == FAST_FACTOR_PRIOR and not candidate.product
    )
    return next(wanted, 0)


def fit_first(problem: TrainingProblem, candidates: Sequence[Candidate], plan: Plan, runner: StagedRunner) -> FirstFit:
    """One fit to all rows, with all orders: the cheapest model that has them."""
    begun, number = time.perf_counter(), first_candidate(candidates)
    runner.expect(plan.first.total)
    with runner.interruptible():
        tops = [max(problem.ranks, default=1)]
        (fits,), converged, complete = _fit_members(
            problem, CrossValidation(problem), candidates, [(number, 0)], tops, runner, "first"
        )
        return FirstFit(number, fits, converged, all(complete), time.perf_counter() - begun)
    return FirstFit()


def fit_members(
    problem: TrainingProblem,
    validation: CrossValidation,
    candidates: Sequence[Candidate],
    weights: Mapping[int, StackingWeights],
    plan: Plan,
    runner: StagedRunner,
    first: FirstFit,
) -> Members:
    """Fit the candidates that have weight to all rows, some of them from several starts.

    Parameters
    ----------
    problem : TrainingProblem
        All rows.
    validation : CrossValidation
        With the rows as they count in weighted candidates, and what members of a candidate start from: each from the
        fit to another part of the rows.
    candidates : sequence of Candidate
    weights : dict of order to stacking weights
    plan : Plan
        With the number of members, where there are not more candidates with weight.
    runner : StagedRunner
        Nothing is fitted if the fit is to stop already; nor is anything kept of fits that end early between
        sweeps. Within sweeps the stages so far are, unless another member is complete.
    first : FirstFit
        Not fitted again, if it is among them.
    """
    wanted = sorted({candidate for by_order in weights.values() for candidate, _ in by_order})
    of_candidate = {
        candidate: sum(weight for (other, _), weight in weights[max(weights)].items() if other == candidate)
        for candidate in wanted
    }
    counts = members_per_candidate(wanted, of_candidate, len(plan.members))
    highest = {
        candidate: max(below for by_order in weights.values() for other, below in by_order if other == candidate)
        for candidate in wanted
    }
    jobs = [  # main effects have one start
        (candidate, copy) for candidate in wanted for copy in range(counts[candidate] if highest[candidate] > 1 else 1)
    ]
    kept_first = [(first.candidate, first.fits)] if first.complete and (first.candidate, 0) in jobs else []
    if kept_first:
        jobs.remove((first.candidate, 0))
    if not jobs:
        return Members(kept_first, first.converged)
    if runner.reason is None:
        with runner.interruptible():
            tops = [highest[candidate] for candidate, _ in jobs]
            runner.expect(-plan.spared(tops))
            name = "member"
            if first.fits:  # members depend on the budget, and so do their names in a checkpoint
                name += "".join(f" {number}.{copy}.{top}" for (number, copy), top in zip(jobs, tops, strict=True))
            found, converged, complete = _fit_members(problem, validation, candidates, jobs, tops, runner, name)
            any_complete = any(complete) or first.complete
            fitted_jobs = zip(jobs, found, complete, strict=True)
            fitted = [
                (candidate, fits) for (candidate, _), fits, whole in fitted_jobs if fits and (whole or not any_complete)
            ]
            return Members([*kept_first, *fitted], converged and (first.converged or not kept_first))
    return Members(kept_first)


def _fit_members(
    problem: TrainingProblem,
    validation: CrossValidation,
    candidates: Sequence[Candidate],
    jobs: Sequence[tuple[int, int]],
    tops: Sequence[int],
    runner: StagedRunner,
    name: str,
) -> tuple[list[list[Fit]], bool, list[bool]]:
    """Fits to all rows of every (candidate, copy), up to its highest order.

    Returns
    -------
    fits : list of lists of Fit
        Of each job, at the end of every stage.
    converged : bool
        Whether the last sweeps of all of them have converged.
    complete : list of bool
        Whether all stages of a job came to their end.
    """
    rows, precision_weighted = subsample_of(problem) if problem.refined else problem, validation.problem
    staged_fits = [
        (precision_weighted if candidates[candidate].weighted else rows).staged_fit(
            candidates[candidate],
            random_stream(candidates, candidate),
            copy,
            growing=True,
            highest=top,
            warm_starts=validation.warm_start(candidate, copy),
        )
        for (candidate, copy), top in zip(jobs, tops, strict=True)
    ]
    # A checkpoint does not keep posteriors, from which a refinement starts
    found = runner(staged_fits, None if problem.refined else name)
    found = [
        with_original_weights(fits, precision_weighted, problem) if candidates[candidate].weighted else fits
        for (candidate, _), fits in zip(jobs, found, strict=True)
    ]
    converged = all(staged.converged for staged in staged_fits)
    if problem.refined:
        found = [refined_fits(staged, problem, rows, runner, f"{name} {k}") for k, staged in enumerate(staged_fits)]
    return found, converged, [staged.complete for staged in staged_fits]
