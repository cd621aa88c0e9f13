"""A whole fit: stacking weights of candidates by validation rows, fits to all rows, and their merger into one model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.fit.cost.plan import Plan
from ahofm.fit.cost.runner import Runner
from ahofm.fit.cost.schedule import up_to
from ahofm.fit.data import Data
from ahofm.fit.settings import Settings
from ahofm.fit.solvers.base import Saved
from ahofm.fit.solvers.subsample.sampling import refined_fits, subsample_of, uses_subsample
from ahofm.fit.solvers.variational.stages import Fit, StageResult
from ahofm.fit.stacking.candidates import CANDIDATES, Candidate, candidates_for
from ahofm.fit.stacking.cross_validate import search
from ahofm.fit.stacking.merge import merged
from ahofm.fit.stacking.problem import TrainingProblem
from ahofm.fit.stacking.variance_model import counted_alike
from ahofm.fit.stacking.weights import LEAST, Scores
from ahofm.model import Choice, Lower, Model, Reason, Trace

_FAR, _SILENT = 20.0, 1e-8
"""Linear predictors on a logarithmic scale, and weights of the mean curvature, that are worth a warning."""

_MUCH_WORSE = 1.25
"""Times the least noise among fits by the same candidate."""

StackingWeights: TypeAlias = Mapping[tuple[int, int], float]
"""Of (candidate, order), in a weighted mean; what they lack to 1 is the weight of a constant."""


def fit_variational(
    data: Data, ranks: dict[int, int], settings: Settings, classes: tuple[Any, ...] | None, saved: Saved | None = None
) -> Model:
    """A model whose smoothing parameters are estimated."""
    begun = time.perf_counter()
    many = uses_subsample(settings, data.n_rows)
    problem = replace(TrainingProblem.of(data, ranks, settings), refined=many)
    if not many and not data.all_raw:
        raise ValueError(
            f"solver='variational' needs true values of all {data.n_rows} rows, and has {len(data.rows.y)}; "
            "use 'subsample' or 'auto'"
        )
    candidates = candidates_for(problem, settings)
    plan = Plan.of(problem, len(candidates), data.n_rows)
    runner = Runner(settings.n_threads, data.n_rows, settings.callbacks, plan.total, saved)
    count = len(plan.members)
    precise = problem
    if plan.search:
        scores, first, precise = search(problem, candidates, runner)
        if settings.order == "auto" and scores is not None:
            ranks = up_to(scores.pruned(max(ranks)), ranks)
            problem = replace(problem, ranks=ranks)
        weights = {order: _stacking_weights(scores, order, count, judged=bool(first)) for order in (1, *ranks)}
    else:
        scores, first = None, []
        weights = {order: {(0, order): 1.0} for order in (1, *ranks)}
    searched = time.perf_counter()
    wanted = sorted({candidate for by_order in weights.values() for candidate, _ in by_order})
    copies = _copies(wanted, weights[max(ranks, default=1)], count)
    jobs = [(candidate, copy) for candidate in wanted for copy in range(copies[candidate])]
    found, settled = list[list[Fit]](), False
    if runner.reason is None:
        try:
            tops = [
                max(below for part in weights.values() for other, below in part if other == candidate)
                for candidate, _ in jobs
            ]
            runner.expect(-plan.spared(tops))
            found, settled = _fit_members(problem, precise, candidates, jobs, tops, runner)
        except KeyboardInterrupt:  # not within sweeps, where the runner sees to it
            runner.reason = Reason.INTERRUPTED
    if not any(found):  # interrupted: what the search has found is all there is
        jobs, found, settled = [(candidate, 0) for candidate in range(len(first))], first, False
    fitted = [(candidate, fits) for (candidate, _), fits in zip(jobs, found, strict=True) if fits]
    if not fitted:
        raise KeyboardInterrupt("the fit was interrupted before anything was fitted")
    ended = Reason.ENOUGH if settings.max_iter is None else Reason.MAX_ITER
    reason = runner.reason or (Reason.CONVERGED if settled else ended)
    seconds = {"search": searched - begun, "fit": time.perf_counter() - searched}
    trace = Trace("subsample" if many else "variational", reason, tuple(runner.records), seconds, runner.damped)
    choices = (
        _interactions(candidates, weights, scores, max(ranks, default=1), data.units.scale),
        _rank(ranks, fitted),
    )
    try:
        model = _assemble(problem, fitted, weights, trace, choices, classes)
    except KeyboardInterrupt:  # what is fitted is not given up, unless there is another one
        model = _assemble(problem, fitted, weights, replace(trace, reason=Reason.INTERRUPTED), choices, classes)
    return model if scores is None else replace(model, gains=scores.gains())


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


def _stacking_weights(scores: Scores | None, order: int, count: int, *, judged: bool) -> StackingWeights:
    """Stacking weights at an order: one candidate when there is to be one ensemble member, else their best mixture."""
    if scores is None and not judged:  # a single event: main effects, shrunk as far as any are
        return {(0, 1): LEAST}
    if scores is None:
        return {(candidate, order): 1.0 / len(CANDIDATES) for candidate in range(len(CANDIDATES))}
    if count == 1:  # the same for all orders: an ensemble member has them all
        losses = scores.losses()
        candidate = int(losses.min(axis=1).argmin())
        below = int(losses[candidate, : scores.orders.index(scores.supported(order)) + 1].argmin())
        return {(candidate, scores.orders[below]): 1.0}
    return scores.stacking_weights(order)


def _copies(wanted: Sequence[int], weights: StackingWeights, count: int) -> dict[int, int]:
    """Ensemble members of each candidate, at least one: more where the weight of each is larger."""
    total = {
        candidate: sum(weight for (other, _), weight in weights.items() if other == candidate) for candidate in wanted
    }
    copies = dict.fromkeys(wanted, 1)
    while sum(copies.values()) < count:
        copies[max(wanted, key=lambda candidate: total[candidate] / copies[candidate])] += 1
    return copies


def _assemble(
    problem: TrainingProblem,
    fitted: Sequence[tuple[int, list[Fit]]],
    weights: Mapping[int, StackingWeights],
    trace: Trace,
    choices: tuple[Choice, ...],
    classes: tuple[Any, ...] | None,
) -> Model:
    """The weighted mean of the fits at every order."""
    data = problem.data
    orders = [1, *problem.ranks]

    def at_order(order: int) -> list[tuple[float, Fit]]:
        parts = []
        for (candidate, below), weight in weights[order].items():
            own = _good([_of_order(fits, orders.index(below)) for other, fits in fitted if other == candidate])
            parts += [(weight / len(own), fit) for fit in own]
        parts = parts or [(1.0, _of_order(fits, orders.index(order))) for _, fits in fitted]
        scale = min(sum(weights[order].values()), 1.0) / sum(weight for weight, _ in parts)
        return [(scale * weight, fit) for weight, fit in parts]

    books = data.encoder.codebooks
    constants = problem.response.constants
    models = [merged(at_order(order), books, problem.columns, data.units, constants) for order in orders]
    lower = tuple(Lower(order, ranks, terms) for order, (ranks, terms) in zip(orders, models, strict=True))[:-1]
    ranks, terms = models[-1]
    last = at_order(orders[-1])
    best = max(last, key=lambda part: part[0])[1][0]
    noise = sum(weight * fit[0].noise for weight, fit in last) / sum(weight for weight, _ in last)
    model = Model(
        data.encoder,
        data.family,
        ranks,
        terms,
        classes,
        _smoothing_parameters(best, problem, ranks),
        data.total,
        trace,
        lower,
        choices,
        noise * _dispersion_unit(problem) if data.family.dispersed else None,
    )
    return model if problem.response.quadratic else _checked(model, data)


def _of_order(fits: Sequence[Fit], at: int) -> Fit:
    """The fit after a stage; the last there is, if it was interrupted."""
    return fits[min(at, len(fits) - 1)]


def _good(copies: Sequence[Fit]) -> list[Fit]:
    """Fits by one candidate without those that ended much worse than the best: a start may lead nowhere."""
    least = min((copy[0].noise for copy in copies), default=0.0)
    return [copy for copy in copies if copy[0].noise <= _MUCH_WORSE * least]


def _checked(model: Model, data: Data) -> Model:
    """With the family's open parameters estimated on the raw sample; warns where linear predictors are extreme."""
    rows, units, family = data.rows, data.units, data.family
    y = units.centre + units.scale * rows.y
    eta = model.eta(data.table)
    eta = eta if rows.offset is None else eta + rows.offset * np.asarray(units.factor)
    loss, _, curvature = family.loss(y, eta)
    curvature = (curvature * np.square(units.factor)).max(axis=1)
    outside = int((~np.isfinite(loss)).sum())
    far = int((np.abs(eta).max(axis=1) > _FAR).sum()) if family.logarithmic else 0
    silent = int((curvature <= _SILENT * np.average(curvature, weights=rows.weight)).sum())
    trouble = ""
    if outside:
        trouble = (
            f"linear predictors leave the range of the link in {outside} row(s) of training; the log link has none"
        )
    elif far:
        trouble = (
            f"linear predictors are beyond {_FAR:g} in {far} row(s) of training: columns may separate the classes, "
            "or leave regions without events; probabilities there are 0 or 1 to rounding, "
            "and how far is the prior's choice"
        )
    elif silent:
        trouble = (
            f"{silent} row(s) of training tell next to nothing about their linear predictors, e.g. in a region without "
            "events; how far linear predictors go there is the prior's choice"
        )
    if trouble:
        warnings.warn(trouble, RuntimeWarning, stacklevel=2)
    return replace(model, family=family.learned(y, eta, rows.weight))


def _dispersion_unit(problem: TrainingProblem) -> float:
    """The dispersion of the target as it is, for one of 1 of the standardised target."""
    data, response = problem.data, problem.response
    if response.quadratic:
        return data.units.scale**2
    inner = response.shifted(np.tile(response.constants, (response.n_rows, 1)))
    outer = np.asarray(data.units.shift) + np.asarray(data.units.factor) * inner
    y = data.units.centre + data.units.scale * response.y
    unit = response.mean_of(data.inner.pearson(response.y, inner))
    return response.mean_of(data.family.pearson(y, outer)) / unit if unit > 0.0 else 1.0


def _smoothing_parameters(
    stage_result: StageResult, problem: TrainingProblem, ranks: Mapping[int, int]
) -> dict[int, Floats]:
    """First smoothing parameter of each column and order in the fit that counts most; 0 for constant columns."""
    out = {order: np.zeros(len(problem.data.encoder.codebooks)) for order in (1, *ranks)}
    ends = np.cumsum([0, *stage_result.ranks.values()])
    for j, (main, factors) in zip(problem.columns, stage_result.smoothing_parameters, strict=True):
        out[1][j] = main[0, 0]
        for order, start in zip(stage_result.ranks, ends[:-1], strict=True):
            if order in out:
                out[order][j] = factors[0, start]
    return out


def _interactions(
    candidates: Sequence[Candidate],
    weights: Mapping[int, StackingWeights],
    scores: Scores | None,
    top: int,
    spread: float,
) -> Choice:
    """Which candidates were mixed at the highest order, and why, for people."""
    parts = [
        f"{weight:.0%} {candidates[candidate].name} at order {below}"
        for (candidate, below), weight in sorted(weights[top].items(), key=lambda item: -item[1])
        if candidate < len(candidates)
    ]
    rest = 1.0 - sum(weights[top].values())
    mix = ", ".join([*parts, *([f"{rest:.0%} constant"] if rest > 1e-9 else [])])
    if scores is None:
        alone = len(candidates) > 1 and weights[top] == {(0, 1): LEAST}
        why = "a single target differs from the others: no validation rows can judge effects" if alone else "given"
    else:
        deviances = 2.0 * scores.losses()[:, scores.orders.index(top)]
        square = scores.response.quadratic
        errors = spread * np.sqrt(deviances) if square else deviances
        why = f"{'errors' if square else 'deviances'} on {scores.response.n_rows} validation rows: " + ", ".join(
            f"{candidate.name} {error:.4g}"
            for candidate, error in zip(candidates, errors, strict=False)  # the last ones need not have been tried
        )
    return Choice("interactions", mix, why)


def _rank(first: Mapping[int, int], fitted: Sequence[tuple[int, list[Fit]]]) -> Choice:
    """How many factors there were, and why more than at first."""
    grown = max(fits[-1][0].ranks.get(2, 0) for _, fits in fitted)
    highest = max(max(fits[-1][0].ranks, default=1) for _, fits in fitted)
    ranks = {order: max(rank, grown) if order == 2 else rank for order, rank in up_to(highest, first).items()}
    why = "of each ensemble member, before factors were dropped"
    if grown > first.get(2, grown):
        why += f"; {first[2]} at order 2 left something to explain"
    return Choice("rank", ", ".join(f"{rank} at order {order}" for order, rank in ranks.items()) or "none", why)
