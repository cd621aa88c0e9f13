"""Independent levels: a ridge per code. One small problem for each code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.fit.priors.base import Centring, Coefficients, FunctionPosterior
from ahofm.fit.priors.tensor import TensorMargin, TensorPenalty
from ahofm.kernels import inverses


@dataclass(frozen=True)
class IIDPrior:
    """``lam * value^2`` at every code.

    Attributes
    ----------
    mass : array of shape (codes,) or None
        Weights of the codes; functions then have mean zero.
    repeated : array of bool of shape (codes,)
        Codes that the smoothing parameter is learned from: those of several rows. How far single rows are off tells nothing of
        levels, it may all be noise.
    """

    mass: Floats | None
    repeated: NDArray[np.bool_]

    n_groups = 1

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Lowest and highest smoothing parameter."""
        return np.array([1e-6]), np.array([1e6])

    def initial_lam(self, mean_square: float) -> Floats:
        """Smoothing parameter for functions of that mean square."""
        return np.array([0.5 / mean_square])

    def margin(self, values: Floats, mass: Floats) -> TensorMargin:
        """Functions with those values at the codes, as one side of surfaces."""
        return TensorMargin(np.sqrt(mass)[:, np.newaxis] * values, 1.0 / np.maximum(mass, 1e-12))

    def solve(
        self, gram: Floats, rhs: Floats, lam: Floats, tensor_penalty: TensorPenalty | None = None
    ) -> FunctionPosterior:
        """The posterior of K functions."""
        ridge = lam[0]
        prior = np.diag(ridge)
        if tensor_penalty is not None:
            prior[: tensor_penalty.rank, : tensor_penalty.rank] += tensor_penalty.rough
        covariance = inverses(gram + prior)
        mean = np.einsum("bfg,bg->bf", covariance, rhs)
        variance = np.einsum("bff->bf", covariance).copy()
        if self.mass is not None:
            U = self.mass[:, np.newaxis, np.newaxis] * covariance
            centring = Centring.of(self.mass, U)
            mean = mean - U @ centring.shift(mean)
            variance = np.maximum(variance - centring.reduction(U), 0.0)
        edf = free_levels(self.mass, self.repeated) - ridge * variance[self.repeated].sum(axis=0)
        quadratic_form = (mean[self.repeated] ** 2).sum(axis=0)
        return FunctionPosterior(mean, variance, None, mean, edf[np.newaxis], quadratic_form[np.newaxis])

    def penalty_gradient(self, part: Coefficients, lam: Floats) -> Coefficients:
        """Half the slope of the quadratic form, times its smoothing parameter."""
        assert part.rough is not None
        return Coefficients(None, lam[0] * part.rough)

    def nothing(self, width: int) -> Coefficients:
        """Levels of zero."""
        return Coefficients(None, np.zeros((len(self.repeated), width)))


def free_levels(mass: Floats | None, repeated: NDArray[np.bool_]) -> float:
    """Prior variances of these levels, in units of one: less when a weighted mean of all levels is zero."""
    if mass is None:
        return float(repeated.sum())
    return float((1.0 - mass**2 / (mass @ mass))[repeated].sum())
