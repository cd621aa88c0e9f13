"""The default fit of several classes, in its steps: candidates, cross-validation, members, and their merger."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ahofm.backends.cpu import CpuBackend
from ahofm.backends.device import backend_of
from ahofm.columns.encode import requested_kinds
from ahofm.families import Units
from ahofm.model import Choice, Gain, Lower, Model, Predictor, Trace, Validated
from ahofm.model.mixture import MixturePart, mixture
from ahofm.model.prediction_scores import scores_of_classes
from ahofm.orders import PRODUCT, Orders
from ahofm.priors.column import FactorPrior
from ahofm.shared_curves.candidates import ClassCandidate, class_candidates
from ahofm.shared_curves.class_fit import ClassFit
from ahofm.shared_curves.class_rows import ClassRows
from ahofm.shared_curves.columns import CodedColumn, class_columns, columns_in_ranks, scales_differ
from ahofm.shared_curves.main_effects import JointDesign
from ahofm.shared_curves.problem import ClassProblem, ClassState
from ahofm.shared_curves.search import Search, search
from ahofm.shared_curves.shared_fit import fit_factors, main_effects_job
from ahofm.training.data import Data
from ahofm.training.factor_groups import factor_groups
from ahofm.training.members import interactions_choice, members_per_candidate, on_validation_rows, rank_choice
from ahofm.training.parts import Part
from ahofm.training.runner import Deadline, Job, Report, Runner, Saved
from ahofm.training.settings import Settings
from ahofm.training.splits import given_splits
from ahofm.training.validation import gain_of
from ahofm.tuning import LEAST_VARIANCE
from ahofm.tuning.classes import FEWEST_CLASS_ROWS, FIXED_STARTS, LEARNED_STARTS

CandidateWeights = Sequence[tuple[float, ClassCandidate]]
"""Stacking weights of candidates; one minus their sum is the weight of constants."""


@dataclass(frozen=True)
class ClassProblems:
    """All rows, with priors on each scale.

    Attributes
    ----------
    columns : list of int
        Positions in the table of the columns that vary, in the order of everything that has an entry per column.
    by_scale : dict of bool to ClassProblem
        By whether curves are smooth in ranks.
    """

    columns: list[int]
    by_scale: Mapping[bool, ClassProblem]

    @classmethod
    def of(cls, data: Data, settings: Settings) -> ClassProblems:
        """With scales of values and, if any column allows it, of ranks."""
        books = data.encoder.codebooks
        rows = ClassRows(
            data.rows.y.astype(np.intp),
            data.rows.weight,
            None if data.rows.offset is None else np.ascontiguousarray(data.rows.offset.T),
            data.family.n_eta,
        )
        varying = [j for j in data.columns if books[j].size > 0]
        requested = requested_kinds(settings.columns, data.encoder.names)
        automatic, varying_books = [j not in requested for j in varying], [books[j] for j in varying]
        coded = [CodedColumn(data.codes.columns[j], data.codes.sizes[j]) for j in varying]
        counts = None
        if not data.counts_rows:
            counts = [np.bincount(column.codes, minlength=column.n_codes)[:-1].astype(np.float64) for column in coded]
        factor_prior: FactorPrior = "spline" if settings.factor_prior == "auto" else settings.factor_prior
        columns = {False: class_columns(varying_books, automatic, factor_prior, center=settings.center, counts=counts)}
        if factor_prior == "spline" and scales_differ(varying_books, automatic):
            columns[True] = columns_in_ranks(columns[False], automatic, center=settings.center)
        groups = factor_groups(settings, data.encoder.names, varying)
        backend = backend_of(settings.device)
        compiled = isinstance(backend, CpuBackend) and backend.compiled_sweeps
        return cls(
            varying,
            {in_ranks: ClassProblem(rows, priors, coded, groups, compiled) for in_ranks, priors in columns.items()},
        )


def fit_classes(
    data: Data,
    ranks: Mapping[int, int],
    settings: Settings,
    classes: tuple[Any, ...] | None,
    saved: Saved | None = None,
    deadline: Deadline | None = None,
) -> Model:
    """The default fit of several classes, with shared curves.

    1. Main effects are fitted to all rows: the model if the fit is stopped early.
    2. Candidates differ in their scale, their number of factors, and in early stopping or learned smoothing parameters.
    3. Cross-validation fits them to parts of the rows, and stacks them by their predictions of the others.
    4. Members are fits to all rows of the candidates that have weight, from several starts.
    5. Their weighted mean is the model, with a linear predictor per class and the same curves in all of them.

    Parameters
    ----------
    data : Data
        Of a multinomial family, all rows of it in memory.
    ranks : dict of order to rank
    settings : Settings
    classes : tuple or None
        Labels, for a classifier.
    saved : Saved, optional
        Where complete parts of the fit are kept, and taken from.
    deadline : Deadline, optional
        When the best model so far is to be returned.
    """
    begun = time.perf_counter()
    problems = ClassProblems.of(data, settings)
    groups = next(iter(problems.by_scale.values())).groups
    candidates = class_candidates(
        ranks,
        settings,
        groups,
        scales=list(problems.by_scale),
        n_rows=data.n_rows,
        n_columns=len(problems.columns),
    )
    runner = Runner(settings.n_threads, data.n_rows, settings.callbacks, saved=saved, deadline=deadline)
    scales = list(problems.by_scale)
    designs = {k: JointDesign.of(problem.columns, problem.coded) for k, problem in problems.by_scale.items()}
    mains = runner.run_jobs([main_effects_job(problems.by_scale[k], designs[k]) for k in scales], 1.0)
    states = {k: state for k, state in zip(scales, mains, strict=True) if state is not None}
    if not states:
        raise KeyboardInterrupt("the fit was interrupted before anything was fitted")
    fits = {
        candidate.name: [ClassFit.of(problems.by_scale[k], designs[k], states[k])]
        for candidate in candidates
        if candidate.curve_settings is None and (k := candidate.in_ranks) in states
    }
    validation = None
    if not runner.stopped() and len(candidates) > 1 and data.n_rows >= FEWEST_CLASS_ROWS and settings.effort != "fast":
        given = [] if data.rows.roles is None else given_splits(data.rows, settings.seed, dispersed=False)
        parts = [Part(*split) for split in given] or None
        validation = search(problems.by_scale, candidates, settings.seed, runner, parts, data.rows.groups)
    by_order = _weights_by_order(validation, candidates, ranks, stopped=runner.stopped())
    searched = time.perf_counter()
    if not runner.stopped():
        fits |= _members(problems, designs, states, by_order, settings, runner)
    by_order = {order: [member for member in weights if member[1].name in fits] for order, weights in by_order.items()}
    first = next(candidate for candidate in candidates if candidate.name in fits)
    by_order = {order: weights or [(1.0, first)] for order, weights in by_order.items()}
    seconds = {"search": searched - begun, "fit": time.perf_counter() - searched}
    return _model(data, problems, by_order, fits, validation, runner, seconds, settings, classes)


def _weights_by_order(
    validation: Search | None, candidates: Sequence[ClassCandidate], ranks: Mapping[int, int], *, stopped: bool
) -> dict[int, CandidateWeights]:
    """Weights of candidates for the model of every order."""
    orders = (1, *ranks)
    if validation is not None:
        products = [PRODUCT] if any(one.candidate.order == PRODUCT for one in validation.judged) else []
        by_order: dict[int, CandidateWeights] = {1: validation.weights(1)}
        for below, order in pairwise((*orders, *products)):
            weights = validation.weights(order)
            by_order[order] = (
                weights if _gain(validation, by_order[below], weights, below, order).gain > 0.0 else by_order[below]
            )
        if products and all(candidate.order != PRODUCT for _, candidate in by_order[PRODUCT]):
            del by_order[PRODUCT]
        return by_order
    if stopped:
        return {order: [] for order in orders}
    robust = [
        candidate for candidate in candidates if candidate.in_ranks == candidates[-1].in_ranks
    ]  # no validation rows: the robust scale
    learned = [
        candidate for candidate in robust if candidate.curve_settings is None or candidate.curve_settings.learned
    ]
    return {order: [(1.0, [candidate for candidate in learned if candidate.order <= order][-1])] for order in orders}


def _members(
    problems: ClassProblems,
    designs: Mapping[bool, JointDesign],
    states: Mapping[bool, ClassState],
    by_order: Mapping[int, CandidateWeights],
    settings: Settings,
    runner: Runner,
) -> dict[str, list[ClassFit]]:
    """Fits to all rows of every candidate with factors that has weight at any order, from several starts."""
    top = by_order[max(by_order)]
    weighted = {
        candidate.name: candidate
        for weights in by_order.values()
        for _, candidate in weights
        if candidate.curve_settings is not None
    }
    starts = _starts_per_candidate(weighted, {candidate.name: weight for weight, candidate in top}, settings)
    jobs = [
        (
            name,
            _member(
                problems.by_scale[candidate.in_ranks],
                designs[candidate.in_ranks],
                states[candidate.in_ranks],
                candidate,
                (settings.seed, k),
            ),
        )
        for name, candidate in weighted.items()
        for k in range(starts[name])
    ]
    done = runner.run_jobs([job for _, job in jobs], 1.0, "class member", ClassFit)
    fits: dict[str, list[ClassFit]] = {}
    for (name, _), fit in zip(jobs, done, strict=True):
        if fit is not None:
            fits.setdefault(name, []).append(fit)
    return fits


def _starts_per_candidate(
    weighted: Mapping[str, ClassCandidate], top: Mapping[str, float], settings: Settings
) -> dict[str, int]:
    """Number of random starts per candidate; one for candidates that only lower orders use."""
    if settings.n_members != "auto" or settings.effort == "fast":
        return members_per_candidate(
            list(weighted), top, 1 if settings.n_members == "auto" else int(settings.n_members)
        )
    return {name: _default_starts(candidate) if name in top else 1 for name, candidate in weighted.items()}


def _default_starts(candidate: ClassCandidate) -> int:
    learned = candidate.curve_settings is not None and candidate.curve_settings.learned
    return LEARNED_STARTS if learned else FIXED_STARTS


def _member(
    problem: ClassProblem, design: JointDesign, start: ClassState, candidate: ClassCandidate, seed: Sequence[int]
) -> Job:
    curve_settings = candidate.curve_settings
    assert curve_settings is not None

    def job(report: Report) -> ClassFit:
        return ClassFit.of(problem, design, fit_factors(problem, design, start, curve_settings, seed, report))

    return job


def _gain(validation: Search, lower: CandidateWeights, higher: CandidateWeights, over: int, order: int) -> Gain:
    """Decrease of the mean loss on the validation rows from a lower order to a higher one."""
    return gain_of(
        order,
        over,
        validation.row_losses(lower),
        validation.row_losses(higher),
        validation.rows.weight,
        groups=validation.groups,
    )


def _validated(validation: Search, weights: CandidateWeights, of: int) -> Validated:
    """Scores of the stacked predictions of validation rows."""
    scores = scores_of_classes(
        validation.rows.y.astype(np.float64), validation.predicted(weights)[1].T, validation.rows.weight
    )
    return Validated(validation.rows.n_rows, of, scores)


def _model(
    data: Data,
    problems: ClassProblems,
    by_order: Mapping[int, CandidateWeights],
    fits: Mapping[str, Sequence[ClassFit]],
    validation: Search | None,
    runner: Runner,
    seconds: Mapping[str, float],
    settings: Settings,
    classes: tuple[Any, ...] | None,
) -> Model:
    """The weighted mean of the members, at every order."""
    books, constants = data.encoder.codebooks, next(iter(problems.by_scale.values())).rows.constants()
    units = Units.unchanged(data.family.n_eta)

    def at(order: int) -> list[tuple[float, ClassFit]]:
        return [
            (weight / len(fits[candidate.name]), fit)
            for weight, candidate in by_order[order]
            for fit in fits[candidate.name]
        ]

    def mean(order: int) -> tuple[Predictor, ...]:
        return mixture([_mixture_part(*member) for member in at(order)], books, problems.columns, constants, units)

    orders = list(by_order)
    models: list[tuple[Predictor, ...]] = []
    for k, order in enumerate(orders):  # an order that gains nothing has the model of the one below
        same = k > 0 and by_order[order] is by_order[orders[k - 1]]
        models.append(models[-1] if same else mean(order))
    best = max(at(orders[-1]), key=lambda part: part[0])[1]
    smoothing = {order: np.zeros(len(books)) for order in models[-1][0].orders.all}
    for order, lam in best.smoothing_parameters.items():
        if order in smoothing:
            smoothing[order][problems.columns] = lam
    trace = Trace("shared", runner.ended(settings.max_iter), tuple(runner.records), seconds)
    gains: tuple[Gain, ...] = ()
    scored = None
    if validation is not None:
        scored = _validated(validation, by_order[orders[-1]], data.n_rows)
        gains = tuple(
            _gain(validation, by_order[over], by_order[order], over, order) for over, order in pairwise(orders)
        )
    return Model(
        data.encoder,
        data.family,
        models[-1],
        classes,
        smoothing,
        data.total,
        trace,
        tuple(Lower(order, part) for order, part in zip(orders[:-1], models[:-1], strict=True)),
        (_interactions(by_order[orders[-1]], validation), _rank(by_order[orders[-1]], fits)),
        gains=gains,
        validated=scored,
    )


def _mixture_part(weight: float, fit: ClassFit) -> MixturePart:
    """A fit in a weighted mean, without factors whose terms move no linear predictor."""
    alive = weight**2 * fit.squares * (fit.loadings**2).max(axis=1, initial=0.0) > LEAST_VARIANCE
    kept = {order: alive[which] for order, which in Orders(fit.ranks).factor_slices.items()}
    return MixturePart(weight, fit.linear_predictors, kept)


def _interactions(weights: CandidateWeights, validation: Search | None) -> Choice:
    """Stacking weights of the candidates and their validation losses, as text."""
    why = "given"
    if validation is not None:
        why = on_validation_rows("mean losses", validation.rows.n_rows, validation.losses.items())
    return interactions_choice([(weight, candidate.name) for weight, candidate in weights], why)


def _rank(weights: CandidateWeights, fits: Mapping[str, Sequence[ClassFit]]) -> Choice:
    """Number of factors per order, as text."""
    ranks = [
        (f"{len(fits[candidate.name])} x ", rank, order)
        for _, candidate in weights
        if candidate.curve_settings is not None
        for order, rank in candidate.curve_settings.ranks.items()
    ]
    return rank_choice(ranks, "of the starts of each candidate, before factors were dropped")
