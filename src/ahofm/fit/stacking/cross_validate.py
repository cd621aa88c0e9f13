"""Cross-validation of candidate fits: each is fitted to a part of the rows and predicts the validation rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.backends import Response
from ahofm.columns.basis import Floats
from ahofm.families.links import quiet
from ahofm.families.survival import FailureTime
from ahofm.fit.solvers.variational.posterior import Fit, WarmStart
from ahofm.fit.solvers.variational.staged_fit import StagedFit
from ahofm.fit.stacking.candidates import Candidate, LineCandidate, random_stream
from ahofm.fit.stacking.problem import TrainingProblem, fold_count, member_count, search_settings
from ahofm.fit.stacking.runner import StagedRunner
from ahofm.fit.stacking.variance import weighted_by_precision, with_original_weights
from ahofm.fit.stacking.weights import Scores, predict_at
from ahofm.model import Validated
from ahofm.model.prediction_scores import deviance_explained, scores_of_classes, scores_of_numbers
from ahofm.model.survival_scores import concordance
from ahofm.orders import PRODUCT, Orders
from ahofm.training.case_control import sample_weight
from ahofm.training.parts import Part, parts_of, validated_weight, whole_targets
from ahofm.training.validation import mean_and_error
from ahofm.tuning import FULL_SEARCH_ROWS, RACED_ORDER
from ahofm.tuning.products import PRODUCT_RACE_STANDARD_ERRORS, PRODUCT_RANK, PRODUCT_UNEXPLAINED
from ahofm.tuning.variance import (
    CONCORDANCE_ROWS,
)


@dataclass
class CrossValidation:
    """Candidate fits to parts of the rows, and their predictions of the validation rows.

    Attributes
    ----------
    problem : TrainingProblem
        All rows with the weights of weighted candidates: precisions, where these differ between rows.
    scores : Scores or None
        Predictions of validation rows. None when the fit was stopped, or when all targets but one are equal, so that
        a part without that row is constant. Without weighted candidates where rows are equally precise.
    fits : list of lists of Fit
        Fits of unweighted candidates to the first part of the rows that has any, by candidate and order.
    skipped : bool
        Whether cross-validation was left out for lack of time.
    n_fitted : float
        Mean number of rows of such a part.
    warm_starts : list of lists of dicts
        What fits to all rows may start from, by candidate, part and order.
    """

    problem: TrainingProblem
    scores: Scores | None = None
    fits: list[list[Fit]] = field(default_factory=list)
    skipped: bool = False
    n_fitted: float = 0.0
    warm_starts: list[list[dict[int, WarmStart]]] = field(default_factory=list)

    def warm_start(self, candidate: int, copy: int) -> dict[int, WarmStart]:
        """What an ensemble member starts from, by its number among those of its candidate; nothing beyond the parts."""
        by_part = self.warm_starts[candidate] if self.warm_starts else []
        return by_part[copy] if copy < len(by_part) else {}


def cross_validate(problem: TrainingProblem, candidates: Sequence[Candidate], runner: StagedRunner) -> CrossValidation:
    """Fit each candidate to parts of the rows, and predict the validation rows of these parts.

    Parameters
    ----------
    problem : TrainingProblem
        All rows.
    candidates : sequence of Candidate
        Weighted ones last: precisions of rows are estimated from errors of the others.
    runner : StagedRunner
        Its ``reason`` is not None if the fit is to stop; the fits so far are kept then.
    """
    validation = CrossValidation(problem)
    with runner.interruptible():
        settings, data = problem.settings, problem.data
        parts = parts_of(problem.response, data.rows, settings.seed, fold_count(settings), whole=whole_targets(data))
        if parts is not None:
            _cross_validate(problem, candidates, parts, runner, validation)
    return validation


def _cross_validate(
    problem: TrainingProblem,
    candidates: Sequence[Candidate],
    parts: Sequence[Part],
    runner: StagedRunner,
    validation: CrossValidation,
) -> None:
    """Fit unweighted candidates, then weighted ones; complete results are stored in ``validation``."""
    unweighted = [candidate for candidate in candidates if not candidate.weighted]
    rows = np.concatenate([part.validation for part in parts])
    groups = problem.data.rows.groups
    response = replace(problem.response.take(rows), weight=validated_weight(parts, problem.response.weight))
    race = _Race(problem, parts, response, runner, None if groups is None else groups[rows])
    fits = race.run(_staged_fits(problem, candidates, range(len(unweighted)), parts))
    validation.fits = [
        next(filter(None, fits[k :: len(unweighted)]), []) for k in range(len(unweighted))
    ]  # some, if interrupted
    precision_weighted = None
    if runner.reason is None and len(unweighted) < len(candidates):
        precision_weighted = weighted_by_precision(problem, rows, race.scores, runner)
        staged_fits = _staged_fits(
            precision_weighted or problem, candidates, range(len(unweighted), len(candidates)), parts
        )
        if precision_weighted is None:
            runner.expect(-sum(staged.job.total for staged in staged_fits))
        elif runner.reason is None:
            race.run(staged_fits)
    if runner.reason is None:
        validation.fits = race.finish()[: len(unweighted)]
        validation.warm_starts = race.warm_starts
    if runner.reason is None:
        validation.problem, validation.n_fitted = (
            precision_weighted or problem,
            float(np.mean([part.n_fitted for part in parts])),
        )
        dispersions = race.dispersions(problem, validation.problem, len(unweighted))
        lines = tuple(k for k, candidate in enumerate(candidates) if isinstance(candidate, LineCandidate))
        validation.scores = replace(race.scores, rows=rows, dispersions=dispersions, lines=lines)


def _staged_fits(
    problem: TrainingProblem, candidates: Sequence[Candidate], numbers: Sequence[int], parts: Sequence[Part]
) -> list[StagedFit]:
    """One staged fit per part of the rows and candidate in ``numbers``, ordered by part."""
    response, staged_fits = problem.response, []
    shorter = [
        search_settings(problem.settings, response, response.n_rows, product=product) for product in (False, True)
    ]
    ranks = {order: min(rank, PRODUCT_RANK) if order == PRODUCT else rank for order, rank in problem.ranks.items()}
    for part in parts:
        part_problem = _rows_to_fit(replace(problem, ranks=ranks), part)
        if response.n_rows > FULL_SEARCH_ROWS:
            part_problem = part_problem.weighted(sample_weight(part_problem.response, response))
        numbered = [(candidates[number], random_stream(candidates, number)) for number in numbers]
        offers = problem.warm_starts_members
        staged_fits += [
            part_problem.staged_fit(
                candidate, stream, 0, settings=shorter[candidate.product], offers_warm_starts=offers
            )
            for candidate, stream in numbered
        ]
    return staged_fits


def _rows_to_fit(problem: TrainingProblem, part: Part) -> TrainingProblem:
    taken = problem.take(part.fitted)
    return taken if part.fitted_fraction is None else taken.weighted(part.fitted_fraction)


class _Race:
    """Early elimination of candidates: only those not clearly worse at ``RACED_ORDER`` are fitted at higher orders.

    Candidates with product factors have no lower order to compare: they are fitted to all parts of the rows only if
    their fit to the first part is not worse by more than ``PRODUCT_RACE_STANDARD_ERRORS`` standard errors.
    """

    def __init__(
        self,
        problem: TrainingProblem,
        parts: Sequence[Part],
        response: Response,
        runner: StagedRunner,
        groups: NDArray[np.intp] | None,
    ) -> None:
        """Start without fits; ``response`` and ``groups`` are those of the validation rows."""
        self._problem, self._response, self._runner, self._groups = problem, response, runner, groups
        self._parts = parts
        self._staged_fits: list[list[StagedFit]] = []  # by candidate and part
        self._predicted: list[list[list[Floats]]] = []  # by candidate, part and stage
        self._places = [
            [book.places(column[part.validation]) for book, column in zip(problem.books, problem.table, strict=True)]
            for part in parts
        ]

    @property
    def scores(self) -> Scores:
        """Scores of all candidates."""
        return self._scores(range(len(self._staged_fits)))

    def _scores(self, candidates: Sequence[int]) -> Scores:
        """Scores at the orders reached in all parts; a candidate that stopped earlier keeps its last predictions."""
        self._predict()
        of_candidates = [self._predicted[number] for number in candidates]
        fitted = [
            self._staged_fits[number][0].orders[: min(map(len, by_part))]
            for number, by_part in zip(candidates, of_candidates, strict=True)
        ]
        orders = tuple(sorted({order for orders_fitted in fitted for order in orders_fitted}))
        predicted = [
            [
                np.concatenate([by_stage[sum(d <= order for d in orders_fitted) - 1] for by_stage in by_part])
                for order in orders
            ]
            for orders_fitted, by_part in zip(fitted, of_candidates, strict=True)
        ]
        response = replace(self._response, family=self._staged_fits[0][0].response.family)
        eta = np.array(predicted).transpose(2, 3, 0, 1)
        return Scores(orders, eta, _with_validated_scale(response, eta), tuple(fitted), self._groups)

    @property
    def warm_starts(self) -> list[list[dict[int, WarmStart]]]:
        """Posteriors of all fits, by candidate, part and order."""
        return [[staged.offered for staged in by_split] for by_split in self._staged_fits]

    def dispersions(self, problem: TrainingProblem, precision_weighted: TrainingProblem, n_unweighted: int) -> Floats:
        """Dispersions of the fits behind ``scores``, (rows, candidates, orders).

        ``precision_weighted`` has the weights of the candidates from ``n_unweighted`` on; their dispersions are
        restated for the weights of ``problem``.
        """
        orders, found = self.scores.orders, []
        for place, part in enumerate(self._parts):
            by_candidate = []
            for number, staged_fits in enumerate(self._staged_fits):
                fitted, fits = staged_fits[place].orders, staged_fits[place].fits
                if number >= n_unweighted:
                    fits = with_original_weights(
                        fits, _rows_to_fit(precision_weighted, part), _rows_to_fit(problem, part)
                    )
                last = [min(sum(d <= order for d in fitted), len(fits)) - 1 for order in orders]
                by_candidate.append([fits[at][0].dispersion for at in last])
            found.append(np.broadcast_to(by_candidate, (len(part.validation), *np.shape(by_candidate))))
        return np.concatenate(found)

    def run(self, staged_fits: Sequence[StagedFit]) -> list[list[Fit]]:
        """Fit more candidates up to ``RACED_ORDER``; the staged fits are ordered by part, then by candidate."""
        first, count = len(self._staged_fits) * len(self._places), len(staged_fits) // len(self._places)
        self._staged_fits += [list(staged_fits[k::count]) for k in range(count)]
        self._predicted += [[[] for _ in self._places] for _ in range(count)]
        return self._runner(staged_fits, "search", RACED_ORDER, range(first, first + len(staged_fits)))

    def finish(self) -> list[list[Fit]]:
        """Fit the candidates that stay in the race at all orders."""
        all_fits = [staged for of_part in zip(*self._staged_fits, strict=True) for staged in of_part]
        if all(staged.released for staged in all_fits):
            return [staged.fits for staged in all_fits]
        ranks = [by_part[0].ranks for by_part in self._staged_fits]
        products = [number for number, by_order in enumerate(ranks) if PRODUCT in by_order]
        others = [number for number, by_order in enumerate(ranks) if by_order and number not in products]
        if others:
            count = member_count(self._problem.settings, self._problem.data.n_rows)
            survivors = {others[k] for k in self._scores(others).survivors(count)}
            for staged in [fit for k in others if k not in survivors for fit in self._staged_fits[k]]:
                before = staged.job.total
                staged.ranks = Orders(staged.ranks).up_to(RACED_ORDER)
                self._runner.expect(staged.job.total - before)
        if others and products:
            self._race_products(products, others)
            if self._runner.reason is not None:
                return [staged.fits for staged in all_fits]
        return self._runner(all_fits, "search")

    def _race_products(self, products: Sequence[int], others: Sequence[int]) -> None:
        """Drop candidates with product factors that are worse than the best other on the first part's validation rows.

        Where the others leave more than ``PRODUCT_UNEXPLAINED`` of the variance, default candidates with a tempering
        below 1 are not fitted at all. Fits of the others go on meanwhile: the comparison is with their pairs.
        """
        losses = self._first_losses(others)
        best = min(others, key=lambda number: self._first_response.mean_of(losses[number]))
        unexplained = 2.0 * self._first_response.mean_of(losses[best]) > PRODUCT_UNEXPLAINED
        raced = list(products)
        if unexplained and self._problem.settings.factor_prior == "auto":
            raced = [number for number in products if self._staged_fits[number][0].tempering(0.0) >= 1.0]
        for number in products:
            if number not in raced:
                self._drop(number)
        count = len(self._staged_fits)
        running = {
            part * count + number: self._staged_fits[number][part]
            for number in (*others, *raced)
            for part in range(1 if number in raced else len(self._places))
        }
        self._runner(list(running.values()), "search", numbers=list(running))
        if self._runner.reason is not None:
            return
        raced_losses = self._first_losses(raced)
        groups = None if self._groups is None else self._groups[: self._first_response.n_rows]
        for number in raced:
            mean, error = mean_and_error(raced_losses[number] - losses[best], self._first_response.weight, groups)
            if not mean <= PRODUCT_RACE_STANDARD_ERRORS * error:
                self._drop(number)

    @property
    def _first_response(self) -> Response:
        """The validation rows of the first part."""
        rows = np.arange(len(self._predicted[0][0][0]))
        return replace(self._response, family=self._staged_fits[0][0].response.family).take(rows)

    def _first_losses(self, candidates: Sequence[int]) -> dict[int, Floats]:
        """Losses (rows,) on the validation rows of the first part, by candidate: with pairs, or product factors."""
        self._predict()
        found = {}
        for number in candidates:
            orders = self._staged_fits[number][0].orders
            last = sum(order <= RACED_ORDER or order == PRODUCT for order in orders)
            predicted = self._predicted[number][0][:last]
            found[number] = self._first_response.derivatives(predicted[-1]).value
        return found

    def _drop(self, candidate: int) -> None:
        """Eliminate a candidate: it keeps main effects only, with the predictions of the first candidate's."""
        for staged in self._staged_fits[candidate]:
            self._runner.expect(-staged.job.total)
            if not staged.released:
                staged.release()
            staged.ranks, staged.fits = {}, staged.fits[:1]
        self._predicted[candidate] = [by_stage[:1] for by_stage in self._predicted[0]]

    def _predict(self) -> None:
        """Predict the validation rows by stages that have been fitted since the last call."""
        for candidate, by_part in enumerate(self._staged_fits):
            for part, staged in enumerate(by_part):
                predicted = self._predicted[candidate][part]
                predicted += [
                    predict_at(fit, self._problem.books, self._places[part], self._problem.backend)
                    for fit in staged.fits[len(predicted) :]
                ]


def _with_validated_scale(response: Response, predicted: Floats) -> Response:
    """Censored times with the scale of their errors on validation rows, by the predictions that have the least.

    The scale of a fit is that of the rows it was made to, which is too small for others: losses would punish every
    prediction that is not a constant. ``predicted`` has shape (rows, K, candidates, orders).
    """
    family = response.family
    if not (isinstance(family, FailureTime) and family.open):
        return response
    each = predicted.reshape(*predicted.shape[:2], -1)
    learned = [
        family.learned(response.y, response.shifted(each[:, :, k]), response.weight) for k in range(each.shape[2])
    ]
    return replace(response, family=min(learned, key=lambda one: one.scale or 0.0))


def validated(problem: TrainingProblem, scores: Scores | None, classes: tuple[Any, ...] | None) -> Validated | None:
    """Scores of the stacked predictions of validation rows; None without cross-validation."""
    if scores is None:
        return None
    data, response = problem.data, scores.response
    units, weight, of = data.units, response.weight, problem.response.n_rows
    # All copies of all rows, in parts: a row may be in several, with some of its copies each.
    n_rows = of if np.isclose(weight.sum(), problem.response.total) else min(response.n_rows, of)
    factor = np.asarray(units.factor)
    y = units.centre + units.scale * response.y
    eta = np.asarray(units.shift) + factor * response.shifted(scores.stacked_eta())
    with quiet():
        mean = data.family.mean(eta)
        if data.family.censored:
            compared = np.arange(0, len(y), -(-len(y) // CONCORDANCE_ROWS))
            found = {"concordance": concordance(y[compared], eta[compared, 0], weight[compared])}
        elif classes is not None or mean.ndim > 1:
            found = scores_of_classes(y, mean, weight)
        else:
            offset = None if response.offset is None else factor * response.offset
            explained = None if response.quadratic else deviance_explained(data.family, y, eta, weight, offset)
            found = {} if explained is None else {"deviance explained": explained}
            found |= scores_of_numbers(y, mean, weight)
    return Validated(n_rows, of, {name: value for name, value in found.items() if np.isfinite(value)})
