"""Rows of several classes: multinomial losses, and their working weights and responses (IRLS).

The Hessian of a row's loss by its K linear predictors is ``diag(p) - pp'``, with the upper bound ``(I - 11'/K) / 2``
(Böhning 1992), which on vectors with sum zero is half the identity. A step is therefore a least squares problem with K
responses and one weight per row: all classes have the same Gram matrix.

    slope = y - p        weight = 1/2 (the bound), or 2 max_k p_k (1 - p_k) within limits

The second weight is the largest curvature for two classes, and no bound for more. Where probabilities are near 0 or 1
it is much smaller than the bound, with which steps would be too short.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.tuning.classes import LEAST_CLASS_WEIGHT, MOST_CLASS_WEIGHT


@dataclass(frozen=True)
class ClassWorkingResponse:
    """Working response of all classes: quadratic approximations of the losses at some linear predictors.

    Attributes
    ----------
    slope : array of shape (K, n)
        ``weight (y - p)``, the negative gradient of the losses.
    weight : array of shape (n,)
        Curvature of every class, times the row's weight.
    fisher : float
        Ratio of the Fisher information to the sum of ``weight``. Smoothing parameters and variances are estimated with
        it: with the bound instead, curves of separated classes would be oversmoothed.
    loss : float
        Sum over rows.
    """

    slope: Floats
    weight: Floats
    fisher: float
    loss: float


@dataclass(frozen=True)
class ClassRows:
    """Targets, weights and offsets of n rows.

    Attributes
    ----------
    y : array of shape (n,), integers
    weight : array of shape (n,)
    offset : array of shape (K, n) or None
    n_classes : int
    """

    y: NDArray[np.intp]
    weight: Floats
    offset: Floats | None
    n_classes: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @cached_property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weight.sum())

    @cached_property
    def mass(self) -> Floats:
        """Weight of each class, (K,)."""
        return np.asarray(np.bincount(self.y, self.weight, minlength=self.n_classes), dtype=np.float64)

    def take(self, rows: NDArray[np.int64]) -> ClassRows:
        """Some of the rows."""
        offset = None if self.offset is None else self.offset[:, rows]
        return ClassRows(self.y[rows], self.weight[rows], offset, self.n_classes)

    def constants(self) -> Floats:
        """Linear predictors (K,) of a model without columns, with sum zero; each class has half a row more."""
        eta = np.log((self.mass + 0.5) / (self.total + 0.5 * self.n_classes))
        return np.asarray(eta - eta.mean())

    def log_likelihoods(self, eta: Floats) -> tuple[Floats, Floats]:
        """Log-likelihoods of the observed classes (n,), and probabilities of all classes (K, n)."""
        shifted = eta if self.offset is None else eta + self.offset
        shifted = shifted - shifted.max(axis=0)
        observed = shifted[self.y, np.arange(self.n_rows)]
        p = np.exp(shifted, out=shifted)
        sums = p.sum(axis=0)
        p /= sums
        return observed - np.log(sums), p

    def loss(self, eta: Floats) -> float:
        """Sum of the losses at linear predictors (K, n)."""
        return -float(self.weight @ self.log_likelihoods(eta)[0])

    def working_response(self, eta: Floats, *, bound: bool = False) -> ClassWorkingResponse:
        """Working response at linear predictors (K, n); ``bound``: with Böhning's upper bound as weights."""
        logs, p = self.log_likelihoods(eta)
        curvature = p * (1.0 - p)
        if bound:
            weight = np.full(self.n_rows, MOST_CLASS_WEIGHT)
        else:
            weight = np.clip(2.0 * curvature.max(axis=0), LEAST_CLASS_WEIGHT, MOST_CLASS_WEIGHT)
        weight *= self.weight
        information = float(curvature.sum(axis=0) @ self.weight) / (self.n_classes - 1)
        fisher = information / float(weight.sum())
        slope = p
        np.negative(slope, out=slope)
        slope[self.y, np.arange(self.n_rows)] += 1.0
        slope *= self.weight
        return ClassWorkingResponse(slope, weight, fisher, -float(self.weight @ logs))
