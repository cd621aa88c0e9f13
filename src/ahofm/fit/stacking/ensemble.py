"""The default fit: candidates, cross-validation, stacking weights, fits of ensemble members, and their merger.

The merger is the model: a weighted sum of linear predictors, in which main effects add up and factors stand side by
side with their weights in the loadings.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.families import Units
from ahofm.fit.solvers.variational.posterior import Fit, StageResult
from ahofm.fit.stacking.candidates import Candidate, candidates_for
from ahofm.fit.stacking.cross_validate import CrossValidation, cross_validate, validated
from ahofm.fit.stacking.members import FirstFit, Members, fit_first, fit_members
from ahofm.fit.stacking.problem import TrainingProblem, uses_subsample
from ahofm.fit.stacking.runner import Plan, StagedRunner
from ahofm.fit.stacking.variance import Noise, noise_of, validated_family, variance_components
from ahofm.fit.stacking.weights import Scores, StackingWeights, stacking_weights
from ahofm.kernels.symmetric import terms
from ahofm.model import Choice, Lower, Model, Predictor, Reason, Trace
from ahofm.model.mixture import MixturePart, mixture
from ahofm.orders import PRODUCT, Orders
from ahofm.training.data import Data
from ahofm.training.members import interactions_choice, on_validation_rows, rank_choice
from ahofm.training.repeated import judged_copies
from ahofm.training.runner import Deadline, Saved
from ahofm.training.settings import Settings
from ahofm.tuning import (
    LEAST_VARIANCE,
    LEAST_VARIANCE_RATIO,
    LEAST_WEIGHT,
    MOST_MEMBER_DISPERSION_RATIO,
    WARNED_CURVATURE_RATIO,
    WARNED_ETA,
)


def fit_variational(
    data: Data,
    ranks: dict[int, int],
    settings: Settings,
    classes: tuple[Any, ...] | None,
    saved: Saved | None = None,
    deadline: Deadline | None = None,
) -> Model:
    """A stack of variational fits, whose smoothing parameters are estimated: :func:`stacked_fit` without its scores."""
    return stacked_fit(data, ranks, settings, classes, saved, deadline)[0]


def stacked_fit(
    data: Data,
    ranks: dict[int, int],
    settings: Settings,
    classes: tuple[Any, ...] | None,
    saved: Saved | None = None,
    deadline: Deadline | None = None,
) -> tuple[Model, Scores | None]:
    """A stack of variational fits, whose smoothing parameters are estimated, and its scores on validation rows.

    1. Candidates are priors of factors that may suit the columns.
    2. Cross-validation fits each of them to a part of the rows, and predicts the others.
    3. Stacking weights minimise the loss of the weighted mean of these predictions.
    4. Ensemble members are fits to all rows, of the candidates that have weight.
    5. Their merger, the weighted mean of the members, is the model.

    Where time is limited, one member comes first of all, and steps 2 to 4 are done as far as there is time.

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
    deadline : Deadline, optional
        When the best model so far is to be returned.
    """
    begun, deadline = time.perf_counter(), deadline or Deadline()
    problem = _training_problem(data, ranks, settings)
    candidates = candidates_for(problem, settings)
    problem = problem.of_candidates(candidates)
    plan = Plan.of(problem, candidates, data.n_rows)
    runner = StagedRunner(settings.n_threads, data.n_rows, settings.callbacks, plan.total, saved, deadline)

    first = fit_first(problem, candidates, plan, runner) if deadline.limited else FirstFit()
    validation = CrossValidation(problem, skipped=True)
    if plan.search and first.leaves_time(plan, deadline):
        validation = cross_validate(problem, candidates, runner)
    scores = validation.scores
    problem = _of_supported_order(problem, scores)
    weights = _weights(plan, validation, problem, candidates)
    searched = time.perf_counter() - first.seconds
    members = fit_members(problem, validation, candidates, weights, plan, runner, first)
    if not members.fits:  # stopped before: what has been fitted so far is all there is
        fitted = [(first.candidate, first.fits), *enumerate(validation.fits)][: 1 if first.fits else None]
        members = Members([(candidate, fits) for candidate, fits in fitted if fits])
    if not members.fits:
        raise KeyboardInterrupt("the fit was interrupted before anything was fitted")
    if plan.search and validation.skipped:
        runner.reason = runner.reason or Reason.TIME
    trace = _trace(problem, members, runner, {"search": searched - begun, "fit": time.perf_counter() - searched})
    used_weights = members.weights(weights) if scores is None else weights
    choices = (_interactions(candidates, used_weights, scores, problem), _rank(problem.ranks, members))
    predicted = None if scores is None else scores.stacked_eta()
    copies = None
    if scores is not None and predicted is not None:
        copies = judged_copies(data, settings, scores.rows, scores.response.weight, predicted)
    predicted, noise = predicted if copies is None else copies.eta, Noise()
    with runner.interruptible():
        noise = _noise(problem, validation, predicted, deadline) if runner.reason is None else noise
    gains, score = () if scores is None else scores.gains(), validated(problem, scores, classes)

    def finished(trace: Trace) -> Model:
        model = merge(problem, candidates, members, weights, trace, choices, classes)
        model = replace(model, family=validated_family(model.family, scores))
        model = noise.added_to(replace(model, gains=gains, validated=score))
        return model if copies is None else copies.added_to(model, data)

    with runner.interruptible():
        return finished(trace), scores
    # Ctrl-C while merging: merge again, so that what was fitted is not lost
    return finished(replace(trace, reason=Reason.INTERRUPTED)), scores


def _noise(
    problem: TrainingProblem, validation: CrossValidation, predicted: Floats | None, deadline: Deadline
) -> Noise:
    """Noise of new rows, from errors on validation rows; the trace does not record the fits of its gamma models."""
    runner = StagedRunner(problem.settings.n_threads, problem.data.n_rows, (), deadline=deadline)
    return noise_of(problem, validation.scores, predicted, validation.n_fitted, runner)


def _training_problem(data: Data, ranks: Mapping[int, int], settings: Settings) -> TrainingProblem:
    """The problem to fit; its rows are the raw sample, which is all rows unless fits are refined on more."""
    refined = uses_subsample(settings, data.n_rows)
    if not refined and not data.all_raw:
        raise ValueError(
            f"solver='variational' needs true values of all {data.n_rows} rows, and has {len(data.rows.y)}; "
            "use 'subsample' or 'auto'"
        )
    return replace(TrainingProblem.of(data, ranks, settings), refined=refined)


def _of_supported_order(problem: TrainingProblem, scores: Scores | None) -> TrainingProblem:
    """Without product factors that were not cross-validated to the end, where there are other factors.

    With ``order="auto"``: without orders that do not predict significantly better than those below.
    """
    ranks = Orders(problem.ranks)
    if ranks.symmetric and (scores is None or PRODUCT not in scores.orders):
        ranks = ranks.symmetric
    if scores is not None and problem.settings.order == "auto":
        ranks = ranks.up_to(scores.pruned(max(ranks)))
    return replace(problem, ranks=ranks)


def _weights(
    plan: Plan, validation: CrossValidation, problem: TrainingProblem, candidates: Sequence[Candidate]
) -> dict[int, StackingWeights]:
    """Stacking weights for every order; all to the one candidate where nothing was to be cross-validated.

    Equal ones where there was no time for it.
    """
    orders = (1, *problem.ranks)
    if not plan.search:
        return {order: {(0, order): 1.0} for order in orders}
    if validation.skipped:
        equal = [
            number
            for number, candidate in enumerate(candidates)
            if not candidate.validated_only and (not candidate.product or min(problem.ranks) == PRODUCT)
        ]
        return {order: {(number, order): 1.0 / len(equal) for number in equal} for order in orders}
    return stacking_weights(validation.scores, orders, len(plan.members), fitted=len(validation.fits))


def _trace(problem: TrainingProblem, members: Members, runner: StagedRunner, seconds: Mapping[str, float]) -> Trace:
    """The history of all sweeps, and the reason why the last ones ended."""
    reason = runner.ended(problem.settings.max_iter, converged=members.converged)
    solver = "subsample" if problem.refined else "variational"
    return Trace(solver, reason, tuple(runner.records), seconds, runner.damped)


def _interactions(
    candidates: Sequence[Candidate],
    weights: Mapping[int, StackingWeights],
    scores: Scores | None,
    problem: TrainingProblem,
) -> Choice:
    """Stacking weights at the highest order, and the validation errors behind them, as text."""
    top = max(problem.ranks, default=1)
    stack = [
        (weight, f"{candidates[candidate].name}{'' if below == PRODUCT else f' at order {below}'}")
        for (candidate, below), weight in weights[top].items()
    ]
    if scores is None and len(candidates) > 1 and weights[top] != {(0, 1): LEAST_WEIGHT}:
        why = "not compared: the fit ended before that"
    elif scores is None:
        alone = len(candidates) > 1 and weights[top] == {(0, 1): LEAST_WEIGHT}
        why = "a single target differs from the others: no validation rows can judge effects" if alone else "given"
    else:
        deviances = 2.0 * scores.losses()[:, scores.orders.index(top)]
        square = scores.response.quadratic
        errors = problem.data.units.scale * np.sqrt(deviances) if square else deviances
        names = [candidate.name for candidate in candidates]
        by_name = zip(names, errors, strict=False)  # the last candidates need not have been tried
        why = on_validation_rows("errors" if square else "deviances", scores.response.n_rows, by_name)
    return interactions_choice(stack, why)


def _rank(first: Mapping[int, int], members: Members) -> Choice:
    """Number of factors per order, and the reason for more of them than at the start, as text."""
    grown = max(fits[-1][0].orders.get(2, 0) for _, fits in members.fits)
    highest = max(fits[-1][0].orders.highest for _, fits in members.fits)
    ranks = {order: max(rank, grown) if order == 2 else rank for order, rank in Orders(first).up_to(highest).items()}
    why = "of each ensemble member, before factors were dropped"
    if grown > first.get(2, grown):
        why += f"; {first[2]} at order 2 left something to explain"
    return rank_choice([("", rank, order) for order, rank in ranks.items()], why)


def merge(
    problem: TrainingProblem,
    candidates: Sequence[Candidate],
    members: Members,
    weights: Mapping[int, StackingWeights],
    trace: Trace,
    choices: tuple[Choice, ...],
    classes: tuple[Any, ...] | None,
) -> Model:
    """The stacked model at every order: the mean of the members, by stacking weights.

    Parameters
    ----------
    problem : TrainingProblem
    candidates : sequence of Candidate
    members : Members
    weights : dict of order to stacking weights
        At each order d, the weight of every (candidate, order up to d). Members of one candidate share its weight.
    trace, choices, classes
        Go into the model as they are.

    Returns
    -------
    Model
        With the model of every lower order in ``lower``, and open parameters of the family estimated.
    """
    data, fitted = problem.data, members.fits
    orders = [1, *problem.ranks]

    def fit_at(candidate: int, fits: Sequence[Fit], order: int) -> Fit:
        """The fit after the candidate's last stage up to an order; the last there is, if it was interrupted."""
        stages = sum(d <= order for d in (1, *candidates[candidate].ranks(problem.ranks)))
        return fits[min(stages, len(fits)) - 1]

    def at_order(order: int) -> list[tuple[float, Fit]]:
        weighted_fits = []
        for (candidate, below), weight in weights[order].items():
            fits_below = _without_outlying_starts(
                [fit_at(candidate, fits, below) for other, fits in fitted if other == candidate]
            )
            weighted_fits += [(weight / len(fits_below), fit) for fit in fits_below]
        weighted_fits = weighted_fits or [(1.0, fit_at(candidate, fits, order)) for candidate, fits in fitted]
        scale = sum(weights[order].values()) / sum(weight for weight, _ in weighted_fits)
        return [(scale * weight, fit) for weight, fit in weighted_fits]

    books = data.encoder.codebooks
    constants = problem.response.constants
    models = [
        merged_linear_predictors(at_order(order), books, problem.columns, data.units, constants) for order in orders
    ]
    lower = tuple(Lower(order, predictors) for order, predictors in zip(orders[:-1], models[:-1], strict=True))
    last = at_order(orders[-1])
    best = max(last, key=lambda predictors: predictors[0])[1][0]
    dispersion = sum(weight * fit[0].dispersion for weight, fit in last) / sum(weight for weight, _ in last)
    model = Model(
        data.encoder,
        data.family,
        models[-1],
        classes,
        _smoothing_parameters(best, problem, models[-1][0].orders),
        data.total,
        trace,
        lower,
        choices,
        dispersion * problem.dispersion_unit if data.family.dispersed else None,
        variance_components=variance_components(best, problem),
    )
    model = replace(model, lower=tuple(one for one in model.lower if one.order < model.order))
    return model if problem.response.quadratic else _checked(model, data)


def _without_outlying_starts(starts: Sequence[Fit]) -> list[Fit]:
    """Fits of one candidate from several starts, without those whose dispersion is much higher than the least."""
    least = min((fit[0].dispersion for fit in starts), default=0.0)
    return [fit for fit in starts if fit[0].dispersion <= MOST_MEMBER_DISPERSION_RATIO * least]


def _checked(model: Model, data: Data) -> Model:
    """With the family's open parameters estimated on the raw sample; warns where linear predictors are extreme."""
    rows, units, family = data.rows, data.units, data.family
    y = units.centre + units.scale * rows.y
    eta = model.eta(data.table)
    eta = eta if rows.offset is None else eta + rows.offset * np.asarray(units.factor)
    loss, _, curvature = family.loss(y, eta)
    curvature = (curvature * np.square(units.factor)).max(axis=1)
    outside = int((~np.isfinite(loss)).sum())
    far = int((np.abs(eta).max(axis=1) > WARNED_ETA).sum()) if family.logarithmic else 0
    least = WARNED_CURVATURE_RATIO * np.average(curvature, weights=rows.weight)
    flat = 0 if family.censored else int((curvature <= least).sum())
    trouble = ""
    if outside:
        trouble = (
            f"linear predictors leave the range of the link in {outside} row(s) of training; the log link has none"
        )
    elif far:
        trouble = (
            f"linear predictors are beyond {WARNED_ETA:g} in {far} row(s) of training{_certain(model, eta)}: "
            "columns may separate the classes, or leave regions without events; probabilities there are 0 or 1 to "
            "rounding, and linear predictors are determined by the prior"
        )
    elif flat:
        trouble = (
            f"losses of {flat} row(s) of training are flat in their linear predictors, e.g. in a region without "
            "events; linear predictors there are determined by the prior"
        )
    if trouble:
        warnings.warn(trouble, RuntimeWarning, stacklevel=2)
    return replace(model, family=family.learned(y, eta, rows.weight))


def _certain(model: Model, eta: Floats) -> str:
    """Rows whose class is certain by their linear predictors, for each of two classes."""
    if model.classes is None or eta.shape[1] != 1:
        return ""
    rows = [int((sign * eta[:, 0] > WARNED_ETA).sum()) for sign in (-1.0, 1.0)]
    labels = [label.item() if isinstance(label, np.generic) else label for label in model.classes]
    counted = [f"class {label!r} in {count}" for label, count in zip(labels, rows, strict=True) if count]
    return f" ({', '.join(counted)})"


def _smoothing_parameters(stage_result: StageResult, problem: TrainingProblem, orders: Orders) -> dict[int, Floats]:
    """First smoothing parameter of each column and order in the fit with the largest weight; 0 for constant columns."""
    out = {order: np.zeros(len(problem.data.encoder.codebooks)) for order in orders.all}
    for j, (main, factors) in zip(problem.columns, stage_result.smoothing_parameters, strict=True):
        out[1][j] = main[0, 0]
        for order, columns in stage_result.orders.factor_slices.items():
            if order in out:
                out[order][j] = factors[0, columns.start]
    return out


def merged_linear_predictors(
    members: Sequence[tuple[float, Fit]],
    books: Sequence[Codebook],
    columns: Sequence[int],
    units: Units,
    constants: Floats,
) -> tuple[Predictor, ...]:
    """Linear predictors of the weighted mean of fits, without factors that have shrunk to nothing in all of them.

    ``columns`` are the positions of the fits' columns among the books; the others are constant.
    """
    masses = [books[j].distribution for j in columns]
    found = []
    for weight, fit in members:
        kept = {
            order: np.logical_or.reduce([_kept_factors(weight, stage_result, order, masses) for stage_result in fit])
            for order in fit[0].orders
        }
        found.append(MixturePart(weight, [stage_result.predictor for stage_result in fit], kept))
    return mixture(found, books, columns, constants, units)


def _kept_factors(weight: float, stage_result: StageResult, order: int, masses: Sequence[Floats]) -> NDArray[np.bool_]:
    """Which factors of an order are kept (rank,): those whose term's variance exceeds a fraction of the target's."""
    columns, loading = stage_result.orders.slices[order], stage_result.predictor.loadings[order]
    functions = [(mass, values[:, columns]) for mass, values in zip(masses, stage_result.values, strict=True)]
    size = terms(np.array([mass @ values**2 for mass, values in functions]), order)
    if order == PRODUCT:  # without the constant
        size -= np.prod([mass @ values for mass, values in functions], axis=0) ** 2
    least = min(LEAST_VARIANCE, LEAST_VARIANCE_RATIO * stage_result.dispersion)
    return np.asarray((weight * loading) ** 2 * size > least)
