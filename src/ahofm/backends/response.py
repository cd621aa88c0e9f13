"""Losses at the current linear predictors and their quadratic approximations (IRLS working weights and responses).

A block is a least-squares problem. For other losses each row's loss is replaced by its quadratic approximation at the
current linear predictors (iteratively reweighted least squares), and a step without sufficient decrease is damped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.families import Family, Gaussian
from ahofm.families.links import quiet
from ahofm.tuning import MOST_INFORMATION_ROWS, RARE_INFORMATION


@dataclass(frozen=True)
class WorkingResponse:
    """Quadratic approximations ``weight (eta - response)^2 / 2`` of the losses in one linear predictor.

    Attributes
    ----------
    weight : array of shape (n,)
        Working weights: weight of the row times curvature of its loss.
    weighted_response : array of shape (n,)
        Weight times working response, which is defined also where the weight is zero.
    """

    weight: Floats
    weighted_response: Floats


@dataclass(frozen=True)
class LossDerivatives:
    """Losses (n,), slopes and curvatures (n, K) at linear predictors (n, K), the offset not counted in."""

    eta: Floats
    value: Floats
    slope: Floats
    curvature: Floats


@dataclass(frozen=True)
class Trial:
    """Effect of a change of linear predictor k on the losses.

    Attributes
    ----------
    before, loss : float
        Weighted mean losses.
    excess : float
        Weighted sum of the losses over their quadratic approximations.
    curved : float
        Weighted sum of ``curvature change^2``.
    largest_change : float
        Of any row's linear predictor.
    finite : bool
        Whether all losses are.
    """

    before: float
    loss: float
    excess: float
    curved: float
    largest_change: float
    finite: bool


@dataclass(frozen=True)
class Response:
    """Targets, weights and offsets of rows, and the family that makes losses of them."""

    family: Family
    y: Floats
    weight: Floats
    offset: Floats | None

    def take(self, rows: NDArray[np.int64]) -> Response:
        """Some of the rows."""
        offset = None if self.offset is None else self.offset[rows]
        return replace(self, y=self.y[rows], weight=self.weight[rows], offset=offset)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @cached_property
    def quadratic(self) -> bool:
        """Whether the losses are quadratic in the linear predictor, with weights that never change."""
        return type(self.family) is Gaussian and self.family.link == "identity"

    @cached_property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weight.sum())

    @cached_property
    def constants(self) -> Floats:
        """Linear predictors (K,) of the best model without columns."""
        if self.quadratic:
            return np.array([self.mean_of(self.target)])
        return self.family.start(self.y, self.weight, self.offset)

    @cached_property
    def target(self) -> Floats:
        """Working response of quadratic losses: the target without the offset, (n,)."""
        return self.y if self.offset is None else self.y - self.offset[:, 0]

    @cached_property
    def floor(self) -> float | None:
        """Smallest mean loss, where there is one."""
        floor = self.family.floor(self.y)
        return None if floor is None else self.mean_of(floor)

    @cached_property
    def null(self) -> float:
        """Mean loss of the constants, above the floor; 1 without a floor."""
        if self.floor is None:
            return 1.0
        eta = np.tile(self.constants, (self.n_rows, 1))
        return max(self.mean_of(self.derivatives(eta).value) - self.floor, np.finfo(float).tiny)

    @cached_property
    def constants_remaining(self) -> float:
        """``remaining`` at the constants: 1 where losses have a floor."""
        if self.floor is not None:
            return 1.0
        return self.mean_of(self.derivatives(np.tile(self.constants, (self.n_rows, 1))).value)

    @cached_property
    def information(self) -> float:
        """Effective number of rows: rows times the mean curvature of the loss at the constants, at most 1 a row."""
        if self.family.dispersed:
            return float(self.n_rows)
        sample = self.take(np.arange(0, self.n_rows, max(self.n_rows // MOST_INFORMATION_ROWS, 1)))
        curvature = sample.derivatives(np.tile(self.constants, (sample.n_rows, 1))).curvature.mean(axis=1)
        return self.n_rows * min(1.0, sample.mean_of(curvature))

    @cached_property
    def rare(self) -> bool:
        """Whether events are rare: the effective number of rows is a small fraction of the rows."""
        return self.information < RARE_INFORMATION * self.n_rows

    def mean_of(self, values: Floats) -> float:
        """Weighted mean over rows."""
        return float(self.weight @ values) / self.total

    @cached_property
    def uses_variance(self) -> bool:
        """Whether losses depend on the variances of the linear predictors."""
        return type(self.family).expected is not Family.expected

    def derivatives(self, eta: Floats, variance: Floats | None = None) -> LossDerivatives:
        """Losses and their derivatives at linear predictors (n, K), which may have variances (n, K)."""
        if variance is None or not self.uses_variance:
            return LossDerivatives(eta, *self.family.loss(self.y, self.shifted(eta)))
        return LossDerivatives(eta, *self.family.expected(self.y, self.shifted(eta), variance))

    def shifted(self, eta: Floats) -> Floats:
        """Linear predictors with the offset added."""
        return eta if self.offset is None else eta + self.offset

    def remaining(self, loss: float) -> float:
        """Fraction of a mean loss that remains: 1 for the constants, 0 at the floor; nats per row without one."""
        with quiet():
            return float(np.divide(loss - (self.floor or 0.0), self.null))

    def majorised(self, derivatives: LossDerivatives, variance: Floats) -> LossDerivatives:
        """The same with curvatures of a majorant of the loss, for families that have one: no step is then too long."""
        curvature = self.family.majorant(self.shifted(derivatives.eta), variance)
        return derivatives if curvature is None else replace(derivatives, curvature=curvature)

    def working_response(self, derivatives: LossDerivatives, k: int) -> WorkingResponse:
        """Working weights and weighted working responses of linear predictor k."""
        with quiet():  # sums that are not finite are found where they are used
            weight = self.weight * derivatives.curvature[:, k]
            return WorkingResponse(weight, weight * derivatives.eta[:, k] - self.weight * derivatives.slope[:, k])

    def trial(self, before: LossDerivatives, after: LossDerivatives, k: int) -> Trial:
        """Compare the losses after a change of linear predictor k with their quadratic approximations."""
        step = after.eta[:, k] - before.eta[:, k]
        with quiet():
            curved = before.curvature[:, k] * step**2
            excess = after.value - before.value - before.slope[:, k] * step - 0.5 * curved
            return Trial(
                self.mean_of(before.value),
                self.mean_of(after.value),
                float(self.weight @ excess),
                float(self.weight @ curved),
                float(np.abs(step).max(initial=0.0)),
                bool(np.isfinite(after.value).all()),
            )
