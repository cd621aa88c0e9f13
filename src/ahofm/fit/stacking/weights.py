"""Stacking weights of candidate fits and orders, by their losses on validation rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from ahofm.backends import Backend, LossDerivatives, Response, backend_of
from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.families import Bernoulli
from ahofm.fit.solvers.variational.posterior import Fit
from ahofm.model import Gain
from ahofm.orders import PRODUCT
from ahofm.training.validation import gain_of, mean_and_error
from ahofm.tuning import (
    EQUAL_WEIGHTS_ROWS,
    LARGEST_COMPARED_LOSS,
    LEAST_WEIGHT,
    RACE_STANDARD_ERRORS,
    SIGNIFICANT_GAIN,
    STACKING_STEPS,
    SUPPORTED_GAIN,
)
from ahofm.tuning.classes import (
    INVERSE_TEMPERATURES,
    MEDIAN_SCALED_ETA,
    MOST_INVERSE_TEMPERATURE,
    SCALING_STANDARD_ERRORS,
)
from ahofm.tuning.numerics import STACKING_HALVINGS, STACKING_TOL, SUM_PENALTY

StackingWeights: TypeAlias = Mapping[tuple[int, int], float]
"""Weights of (candidate, order) in a weighted mean; one minus their sum is the weight of a constant.

Their sum exceeds 1 where linear predictors of two classes are scaled up."""


@dataclass(frozen=True)
class Scores:
    """Linear predictors of candidate fits at validation rows.

    Attributes
    ----------
    orders : tuple of int
        1, and those that have factors.
    predicted : array of shape (rows, linear predictors, candidates, orders)
    response : Response
        Targets, weights and losses of the validation rows.
    fitted : tuple of tuples of int, optional
        Orders that each candidate has been fitted at; None: all. Predictions at other orders are those at the highest
        fitted order below, and have no weight.
    groups : array of shape (rows,), optional
        Validation rows that go together, in standard errors.
    rows : array of shape (rows,), optional
        Numbers of the validation rows among all rows.
    dispersions : array of shape (rows, candidates, orders), optional
        Dispersion of the fit that predicts a row.
    lines : tuple of int, optional
        Candidates whose main effects are lines, without interactions: by themselves they are order 0.
    """

    orders: tuple[int, ...]
    predicted: Floats
    response: Response
    fitted: tuple[tuple[int, ...], ...] | None = None
    groups: NDArray[np.intp] | None = None
    rows: NDArray[np.int64] | None = None
    dispersions: Floats | None = None
    lines: tuple[int, ...] = ()

    def losses(self) -> Floats:
        """Mean losses minus their lower bound, (candidates, orders)."""
        candidates, orders = self.predicted.shape[2:]
        values = [[self._mean_loss(self.predicted[:, :, r, d]) for d in range(orders)] for r in range(candidates)]
        return np.array(values) - (self.response.floor or 0.0)

    def _mean_loss(self, eta: Floats) -> float:
        return self.response.mean_of(self.response.derivatives(eta).value)

    def _eta(self, candidate: int, order: int) -> Floats:
        """Linear predictors (rows, K) of a candidate at an order."""
        return np.asarray(self.predicted[:, :, candidate, self.orders.index(order)])

    def supported(self, order: int) -> int:
        """``order`` if interactions up to it beat main effects by ``SUPPORTED_GAIN`` standard errors, else 1.

        0 where candidates have lines that curves do not beat by as much.
        """
        lowest = 0 if self.lines and not self._gain(0, 1) > SUPPORTED_GAIN else 1
        return order if any(self._gain(lowest, d) > SUPPORTED_GAIN for d in self.orders[1:] if d <= order) else lowest

    def pruned(self, order: int) -> int:
        """The highest order up to ``order`` that is better than those below by ``SIGNIFICANT_GAIN`` standard errors."""
        best = 1
        for higher in self.orders[1:]:
            if higher <= order and self._gain(best, higher) > SIGNIFICANT_GAIN:
                best = higher
        return best

    def stacking_weights(self, order: int) -> dict[tuple[int, int], float]:
        """Stacking weights of (candidate, order), up to the highest order that is supported.

        One minus their sum is the weight of a constant, which shrinks effects where columns predict little. It is
        negative where linear predictors of two classes are scaled up (``_inverse_temperature``).
        """
        weights = self._best_mixture(self.supported(order))
        factor = self._inverse_temperature(weights)
        return {fit: factor * weight for fit, weight in weights.items()}

    def _inverse_temperature(self, weights: Mapping[tuple[int, int], float]) -> float:
        """Factor of the linear predictors of two classes (temperature scaling): 1 if another gains too little.

        Priors keep linear predictors of classes that do not overlap too small. The factor, up to
        ``MOST_INVERSE_TEMPERATURE``, is that of the least validation loss, and has to gain by
        ``SCALING_STANDARD_ERRORS`` standard errors. Scaled linear predictors have a median of ``MEDIAN_SCALED_ETA`` at
        most.
        """
        if not isinstance(self.response.family, Bernoulli):
            return 1.0
        median = float(np.median(np.abs(self._weighted_eta(weights))))
        most = min(MOST_INVERSE_TEMPERATURE, MEDIAN_SCALED_ETA / max(median, np.finfo(float).tiny))
        if most <= 1.0:
            return 1.0
        factors = np.linspace(1.0, most, INVERSE_TEMPERATURES)
        losses = [
            self._weighted_losses({fit: factor * weight for fit, weight in weights.items()}) for factor in factors
        ]
        best = int(np.argmin([self.response.mean_of(loss) for loss in losses]))
        gain, error = mean_and_error(losses[0] - losses[best], self.response.weight, self.groups)
        return float(factors[best]) if gain > SCALING_STANDARD_ERRORS * error else 1.0

    def survivors(self, count: int) -> set[int]:
        """Candidates to be fitted at higher orders than these, for ``count`` ensemble members.

        Where interactions are not supported so far, the best candidate alone: there may be triples without pairs.
        Otherwise those not behind the best by more than ``RACE_STANDARD_ERRORS`` standard errors and, with several
        members, those with stacking weight: among candidates with equally good pairs, any may find the triples.
        """
        order = max(self.orders)
        best = int(self.losses()[:, -1].argmin())
        if self.supported(order) < order:
            return {best}
        losses = [self._losses_of_rows(self._eta(k, order)) for k in range(self.predicted.shape[2])]
        behind = [mean_and_error(loss - losses[best], self.response.weight, self.groups) for loss in losses]
        close = {k for k, (mean, error) in enumerate(behind) if mean <= RACE_STANDARD_ERRORS * error}
        return close if count == 1 else close | {candidate for candidate, d in self._best_mixture(order) if d == order}

    def gains(self) -> tuple[Gain, ...]:
        """Relative decrease of the validation loss from each order to the next."""
        pairs = zip(self.orders[1:], self.orders[:-1], strict=True)
        return tuple(self._compared(order, lower) for order, lower in pairs)

    def _compared(self, order: int, lower: int) -> Gain:
        without, losses = (self._weighted_losses(self._best_mixture(d)) for d in (lower, order))
        return gain_of(order, lower, without, losses, self.response.weight, self.response.floor or 0.0, self.groups)

    def _gain(self, lower: int, higher: int) -> float:
        """Decrease of the mean loss from one order to another, in standard errors."""
        mean, error = self._difference(lower, higher)
        return mean / max(error, np.finfo(float).tiny)

    def _difference(self, lower: int, higher: int) -> tuple[float, float]:
        """Decrease of the mean loss from one order to another, and its standard error."""
        gain = self._weighted_losses(self._best_mixture(lower)) - self._weighted_losses(self._best_mixture(higher))
        return mean_and_error(gain, self.response.weight, self.groups)

    def _weighted_losses(self, weights: Mapping[tuple[int, int], float]) -> Floats:
        """Losses (rows,) of the weighted mean of linear predictors."""
        return self._losses_of_rows(self._weighted_eta(weights))

    def _losses_of_rows(self, eta: Floats) -> Floats:
        """Losses (rows,) of linear predictors (rows, K), bounded so that their squares are finite."""
        return np.minimum(self.response.derivatives(eta).value, LARGEST_COMPARED_LOSS)

    def stacked_eta(self) -> Floats:
        """Linear predictors (rows, K): weighted means by the stacking weights of the highest order."""
        return self._weighted_eta(self.stacking_weights(max(self.orders)))

    def stacked_dispersion(self) -> Floats:
        """Weighted means of the dispersions of the fits in ``stacked_eta``, (rows,)."""
        assert self.dispersions is not None
        weights = self.stacking_weights(max(self.orders))
        parts = (
            weight * self.dispersions[:, candidate, self.orders.index(order)]
            for (candidate, order), weight in weights.items()
        )
        return np.asarray(sum(parts) / sum(weights.values()))

    def _weighted_eta(self, weights: Mapping[tuple[int, int], float]) -> Floats:
        """``sum_m weight_m eta_m + (1 - sum_m weight_m) constants``, (rows, K)."""
        constant = (1.0 - sum(weights.values())) * self.response.constants
        return np.asarray(
            constant + sum(weight * self._eta(candidate, order) for (candidate, order), weight in weights.items())
        )

    def _best_mixture(self, order: int) -> dict[tuple[int, int], float]:
        """Non-negative weights of all candidates at all orders up to one, and of a constant, with sum 1.

        A small ridge shrinks them to equal weights of the candidates at the highest order, and of product factors.
        """
        fits = self._fits_up_to(order)
        columns = [self._eta(candidate, d) for candidate, d in fits]
        columns.append(np.broadcast_to(self.response.constants, columns[0].shape))
        tops = {max(d for _, d in fits), max(d for _, d in fits if d != PRODUCT)}
        highest = np.array([*(d in tops for _, d in fits), False], dtype=float)
        weights = self._best_weights(np.stack(columns, axis=2), highest / highest.sum())
        weights = np.where(weights < min(LEAST_WEIGHT, 1.0 / len(weights)), 0.0, weights)
        weights /= weights.sum()
        found = {fit: float(weight) for fit, weight in zip(fits, weights, strict=False) if weight > 0.0}
        return found or {(int(self.losses()[:, 0].argmin()), 1): LEAST_WEIGHT}

    def _fits_up_to(self, order: int) -> list[tuple[int, int]]:
        """Every fitted (candidate, order) up to ``order``; main effects that several candidates share count once."""
        if order == 0:
            return [(candidate, 1) for candidate in self.lines]
        count = self.predicted.shape[2]
        fitted = self.fitted or (self.orders,) * count
        kinds = self.main_effects
        return [
            (candidate, d)
            for candidate in range(count)
            for d in self.orders
            if d <= order and d in fitted[candidate] and (d > 1 or kinds[candidate] == candidate)
        ]

    @cached_property
    def main_effects(self) -> list[int]:
        """For each candidate, the number of the first candidate with the same main effects."""
        predicted = [self._eta(candidate, 1) for candidate in range(self.predicted.shape[2])]
        return [next(k for k, other in enumerate(predicted) if np.array_equal(first, other)) for first in predicted]

    def _best_weights(self, columns: Floats, prior_weights: Floats) -> Floats:
        """Weights (count,) of linear predictors (rows, K, count) with the least loss, by iterated least squares.

        The last column is the constant. The iteration starts at the prior weights, or at the constant where that has
        less loss: a candidate that extrapolates may have losses so large that the steps end far from the minimum.
        """
        response, weights = self.response, prior_weights
        derivatives, constant = response.derivatives(columns @ weights), response.derivatives(columns[:, :, -1])
        if not response.quadratic and not response.mean_of(derivatives.value) <= response.mean_of(constant.value):
            weights, derivatives = np.eye(columns.shape[2])[-1], constant
        for _ in range(1 if response.quadratic else STACKING_STEPS):
            step = _least_squares(columns, prior_weights, response, derivatives) - weights
            for _ in range(STACKING_HALVINGS):
                after = response.derivatives(columns @ (weights + step))
                if response.quadratic or response.mean_of(after.value) <= response.mean_of(derivatives.value):
                    break
                step = 0.5 * step
            else:
                break
            weights, derivatives = weights + step, after
            if np.abs(step).max() < STACKING_TOL:
                break
        return weights


def stacking_weights(
    scores: Scores | None, orders: Sequence[int], count: int, *, fitted: int = 0
) -> dict[int, StackingWeights]:
    """Stacking weights for the model of every order.

    Parameters
    ----------
    scores : Scores or None
        Of candidate fits on validation rows; None where there are none.
    orders : sequence of int
    count : int
        Number of ensemble members; with one, the best candidate has all the weight.
    fitted : int
        Without scores: number of candidates that have been fitted to a part of the rows, which get equal weights. If 0,
        targets differ in a single row, and main effects get the weight ``LEAST_WEIGHT``.

    Returns
    -------
    dict of order d to dict of (candidate, order up to d) to weight
    """
    found = {order: _weights_at(scores, order, count, fitted) for order in orders}
    return found if scores is None else _with_shared_main_effects_moved(found, scores)


def _with_shared_main_effects_moved(weights: dict[int, StackingWeights], scores: Scores) -> dict[int, StackingWeights]:
    """Weights in which main effects that several candidates share count for one of these only.

    It is one that has weight at higher orders and is therefore fitted anyway, where there is such a candidate.
    """
    top, kinds = weights[max(weights)], scores.main_effects
    weight_of = {k: sum(weight for (other, _), weight in top.items() if other == k) for k in range(len(kinds))}
    highest = {k: max((d for other, d in top if other == k), default=1) for k in range(len(kinds))}
    receivers = {
        kind: max(
            (k for k, other in enumerate(kinds) if other == kind), key=lambda k: (highest[k] > 1, weight_of[k], -k)
        )
        for kind in set(kinds)
    }
    found: dict[int, StackingWeights] = {}
    for order, by_member in weights.items():
        moved: dict[tuple[int, int], float] = {}
        for (candidate, below), weight in by_member.items():
            fit = (receivers[kinds[candidate]], 1) if below == 1 else (candidate, below)
            moved[fit] = moved.get(fit, 0.0) + weight
        found[order] = moved
    return found


def _weights_at(scores: Scores | None, order: int, count: int, fitted: int) -> StackingWeights:
    """Stacking weights at an order: the best candidate for one ensemble member, else the best mixture."""
    if scores is None and not fitted:  # a single event: main effects with the least weight
        return {(0, 1): LEAST_WEIGHT}
    if scores is None:
        return {(candidate, order): 1.0 / fitted for candidate in range(fitted)}
    if count == 1:  # one candidate for all orders: they are stages of one fit
        losses = scores.losses()
        candidate = int(losses.min(axis=1).argmin())
        below = int(losses[candidate, : scores.orders.index(max(scores.supported(order), 1)) + 1].argmin())
        return {(candidate, scores.orders[below]): 1.0}
    return scores.stacking_weights(order)


def _least_squares(columns: Floats, prior_weights: Floats, response: Response, derivatives: LossDerivatives) -> Floats:
    """Non-negative weights with sum 1 that fit the working responses best."""
    working_response = [response.working_response(derivatives, k) for k in range(columns.shape[1])]
    weight = np.stack([working.weight for working in working_response], axis=1) / response.weight.mean()
    weighted_response = (
        np.stack([working.weighted_response for working in working_response], axis=1) / response.weight.mean()
    )
    roots = np.sqrt(weight)
    target = np.divide(weighted_response, roots, out=np.zeros_like(weighted_response), where=roots > 0.0).ravel()
    matrix = (columns * roots[:, :, np.newaxis]).reshape(len(target), -1)
    std = 1.0
    if response.family.dispersed:
        best = np.square(matrix - target[:, np.newaxis]).sum(axis=0).min() / len(columns)
        std = float(np.sqrt(max(best, np.finfo(float).tiny)))
    count = matrix.shape[1]
    ridge = np.sqrt(EQUAL_WEIGHTS_ROWS) * std
    sum_weight = SUM_PENALTY * np.sqrt(len(target)) * max(float(np.abs(target).max()), 1.0)
    stacked = np.vstack([matrix, ridge * np.eye(count), np.full((1, count), sum_weight)])
    weights, _ = nnls(stacked, np.concatenate([target, ridge * prior_weights, [sum_weight]]))
    return np.asarray(weights / weights.sum())


def predict(
    fit: Fit, books: Sequence[Codebook], columns: Sequence[NDArray[Any]], backend: Backend | None = None
) -> Floats:
    """Linear predictors (n, K) at raw values, as the final model evaluates them; a code may stand for many values."""
    return predict_at(fit, books, [book.places(column) for book, column in zip(books, columns, strict=True)], backend)


def predict_at(
    fit: Fit, books: Sequence[Codebook], places: Sequence[NDArray[Any]], backend: Backend | None = None
) -> Floats:
    """Linear predictors (n, K) at values whose positions in the codebooks are known."""
    return (backend or backend_of()).curves(tuple(result.predictor.curves(books) for result in fit)).eta(places, 1)
