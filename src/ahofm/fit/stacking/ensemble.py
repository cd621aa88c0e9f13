"""The default fit: candidates, cross-validation, stacking weights, fits of ensemble members, and their merger."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ahofm.fit.cost.runner import Runner
from ahofm.fit.cost.schedule import up_to
from ahofm.fit.data import Data
from ahofm.fit.settings import Settings
from ahofm.fit.solvers.base import Saved
from ahofm.fit.solvers.subsample.refine import refined_fits, subsample_of
from ahofm.fit.solvers.variational.posterior import Fit
from ahofm.fit.stacking.candidates import Candidate, candidates_for
from ahofm.fit.stacking.cross_validate import CrossValidation, counted_alike, cross_validate
from ahofm.fit.stacking.merge import Members, merge
from ahofm.fit.stacking.problem import Plan, TrainingProblem, uses_subsample
from ahofm.fit.stacking.weights import Scores, StackingWeights, stacking_weights
from ahofm.model import Choice, Model, Reason, Trace
from ahofm.tuning import LEAST_WEIGHT


def fit_variational(
    data: Data, ranks: dict[int, int], settings: Settings, classes: tuple[Any, ...] | None, saved: Saved | None = None
) -> Model:
    """A stack of variational fits, whose smoothing parameters are estimated.

    1. Candidates are priors of interactions that may suit the columns.
    2. Cross-validation fits each of them to a part of the rows, and predicts the others.
    3. Stacking weights minimise the loss of the weighted mean of these predictions.
    4. Ensemble members are fits to all rows, of the candidates that have weight.
    5. Their merger, the weighted mean of the members, is the model.

    Parameters
    ----------
    data : Data
    ranks : dict of order to rank
        Of each ensemble member, before factors are added or dropped.
    settings : Settings
    classes : tuple or None
        Labels, for a classifier.
    saved : Saved, optional
        Where complete parts of the fit are kept, and taken from.
    """
    begun = time.perf_counter()
    problem = _training_problem(data, ranks, settings)
    candidates = candidates_for(problem, settings)
    plan = Plan.of(problem, len(candidates), data.n_rows)
    runner = Runner(settings.n_threads, data.n_rows, settings.callbacks, plan.total, saved)

    validation = cross_validate(problem, candidates, runner) if plan.search else CrossValidation(problem)
    scores = validation.scores
    problem = _of_supported_order(problem, scores)
    weights = _weights(plan, validation, problem)
    searched = time.perf_counter()
    members = fit_members(problem, validation.problem, candidates, weights, plan, runner)
    if not members.fits:  # interrupted: what cross-validation has fitted is all there is
        members = Members([(candidate, fits) for candidate, fits in enumerate(validation.fits) if fits])
    if not members.fits:
        raise KeyboardInterrupt("the fit was interrupted before anything was fitted")
    seconds = {"search": searched - begun, "fit": time.perf_counter() - searched}
    trace = _trace(problem, members, runner, seconds)
    choices = (_interactions(candidates, weights, scores, problem), _rank(problem.ranks, members))
    gains = () if scores is None else scores.gains()
    with runner.interruptible():
        return replace(merge(problem, members, weights, trace, choices, classes), gains=gains)
    trace = replace(trace, reason=Reason.INTERRUPTED)  # what is fitted is not given up, unless there is another one
    return replace(merge(problem, members, weights, trace, choices, classes), gains=gains)


def _training_problem(data: Data, ranks: Mapping[int, int], settings: Settings) -> TrainingProblem:
    """What is to be fitted; its rows are the raw sample, which is all rows unless fits are refined afterwards."""
    many = uses_subsample(settings, data.n_rows)
    if not many and not data.all_raw:
        raise ValueError(
            f"solver='variational' needs true values of all {data.n_rows} rows, and has {len(data.rows.y)}; "
            "use 'subsample' or 'auto'"
        )
    return replace(TrainingProblem.of(data, ranks, settings), refined=many)


def _of_supported_order(problem: TrainingProblem, scores: Scores | None) -> TrainingProblem:
    """Where the order is to be found: without orders that surely do not predict better than those below."""
    if scores is None or problem.settings.order != "auto":
        return problem
    return replace(problem, ranks=up_to(scores.pruned(max(problem.ranks)), problem.ranks))


def _weights(plan: Plan, validation: CrossValidation, problem: TrainingProblem) -> dict[int, StackingWeights]:
    """Stacking weights for every order; all to the one candidate where nothing was to be cross-validated."""
    orders = (1, *problem.ranks)
    if not plan.search:
        return {order: {(0, order): 1.0} for order in orders}
    return stacking_weights(validation.scores, orders, len(plan.members), judged=bool(validation.fits))


def fit_members(
    problem: TrainingProblem,
    precise: TrainingProblem,
    candidates: Sequence[Candidate],
    weights: Mapping[int, StackingWeights],
    plan: Plan,
    runner: Runner,
) -> Members:
    """Fit the candidates that have weight to all rows, some of them from several starts.

    Parameters
    ----------
    problem, precise : TrainingProblem
        All rows, and the same as they count in weighted candidates.
    candidates : sequence of Candidate
    weights : dict of order to stacking weights
    plan : Plan
        Says how many members there are, if candidates with weight are not more.
    runner : Runner
        Nothing is fitted if somebody has asked to stop already; nor is anything kept of fits that end early between
        sweeps. Within sweeps the stages so far are.
    """
    wanted = sorted({candidate for by_order in weights.values() for candidate, _ in by_order})
    copies = _copies(wanted, weights[max(weights)], len(plan.members))
    highest = {
        candidate: max(below for part in weights.values() for other, below in part if other == candidate)
        for candidate in wanted
    }
    jobs = [  # main effects have one start
        (candidate, copy) for candidate in wanted for copy in range(copies[candidate] if highest[candidate] > 1 else 1)
    ]
    if runner.reason is None:
        with runner.interruptible():
            tops = [highest[candidate] for candidate, _ in jobs]
            runner.expect(-plan.spared(tops))
            found, settled = _fit_members(problem, precise, candidates, jobs, tops, runner)
            fitted = [(candidate, fits) for (candidate, _), fits in zip(jobs, found, strict=True) if fits]
            return Members(fitted, settled)
    return Members()


def _fit_members(
    problem: TrainingProblem,
    precise: TrainingProblem,
    candidates: Sequence[Candidate],
    jobs: Sequence[tuple[int, int]],
    tops: Sequence[int],
    runner: Runner,
) -> tuple[list[list[Fit]], bool]:
    """Fits to all rows of every (candidate, copy), up to its highest order; whether all of them have settled."""
    rows = subsample_of(problem) if problem.refined else problem
    staged_fits = [
        (precise if candidates[candidate].weighted else rows).staged_fit(
            candidates[candidate], candidate, copy, growing=True, highest=top
        )
        for (candidate, copy), top in zip(jobs, tops, strict=True)
    ]
    found = runner(
        staged_fits, None if problem.refined else "member"
    )  # posteriors, from which a refinement starts, are not kept
    found = [
        counted_alike(fits, precise, problem) if candidates[candidate].weighted else fits
        for (candidate, _), fits in zip(jobs, found, strict=True)
    ]
    settled = all(staged.settled for staged in staged_fits)
    if problem.refined:
        found = [refined_fits(staged, problem, rows, runner, f"member {k}") for k, staged in enumerate(staged_fits)]
    return found, settled


def _copies(wanted: Sequence[int], weights: StackingWeights, count: int) -> dict[int, int]:
    """Ensemble members of each candidate, at least one: more where the weight of each is larger."""
    total = {
        candidate: sum(weight for (other, _), weight in weights.items() if other == candidate) for candidate in wanted
    }
    copies = dict.fromkeys(wanted, 1)
    while sum(copies.values()) < count:
        copies[max(wanted, key=lambda candidate: total[candidate] / copies[candidate])] += 1
    return copies


def _trace(problem: TrainingProblem, members: Members, runner: Runner, seconds: Mapping[str, float]) -> Trace:
    """The history of all sweeps, and why the last ones ended."""
    ended = Reason.ENOUGH if problem.settings.max_iter is None else Reason.MAX_ITER
    reason = runner.reason or (Reason.CONVERGED if members.settled else ended)
    solver = "subsample" if problem.refined else "variational"
    return Trace(solver, reason, tuple(runner.records), seconds, runner.damped)


def _interactions(
    candidates: Sequence[Candidate],
    weights: Mapping[int, StackingWeights],
    scores: Scores | None,
    problem: TrainingProblem,
) -> Choice:
    """Which candidates were mixed at the highest order, and why, for people."""
    top = max(problem.ranks, default=1)
    parts = [
        f"{weight:.0%} {candidates[candidate].name} at order {below}"
        for (candidate, below), weight in sorted(weights[top].items(), key=lambda item: -item[1])
        if candidate < len(candidates)
    ]
    rest = 1.0 - sum(weights[top].values())
    mix = ", ".join([*parts, *([f"{rest:.0%} constant"] if rest > 1e-9 else [])])
    if scores is None:
        alone = len(candidates) > 1 and weights[top] == {(0, 1): LEAST_WEIGHT}
        why = "a single target differs from the others: no validation rows can judge effects" if alone else "given"
    else:
        deviances = 2.0 * scores.losses()[:, scores.orders.index(top)]
        square = scores.response.quadratic
        errors = problem.data.units.scale * np.sqrt(deviances) if square else deviances
        why = f"{'errors' if square else 'deviances'} on {scores.response.n_rows} validation rows: " + ", ".join(
            f"{candidate.name} {error:.4g}"
            for candidate, error in zip(candidates, errors, strict=False)  # the last ones need not have been tried
        )
    return Choice("interactions", mix, why)


def _rank(first: Mapping[int, int], members: Members) -> Choice:
    """How many factors there were, and why more than at first."""
    grown = max(fits[-1][0].ranks.get(2, 0) for _, fits in members.fits)
    highest = max(max(fits[-1][0].ranks, default=1) for _, fits in members.fits)
    ranks = {order: max(rank, grown) if order == 2 else rank for order, rank in up_to(highest, first).items()}
    why = "of each ensemble member, before factors were dropped"
    if grown > first.get(2, grown):
        why += f"; {first[2]} at order 2 left something to explain"
    return Choice("rank", ", ".join(f"{rank} at order {order}" for order, rank in ranks.items()) or "none", why)
