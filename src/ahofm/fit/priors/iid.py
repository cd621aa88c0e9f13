"""Independent, identically distributed effects: a ridge per code, and one small problem for each code."""

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
        Codes that the smoothing parameter is estimated from: those of several rows. Residuals of single rows do not
        tell effects from noise.
    """

    mass: Floats | None
    repeated: NDArray[np.bool_]

    n_groups = 1

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Smallest and largest smoothing parameter."""
        return np.array([1e-6]), np.array([1e6])

    def initial_lam(self, mean_square: float) -> Floats:
        """Smoothing parameter for functions of that mean square."""
        return np.array([0.5 / mean_square])

    def margin(self, values: Floats, mass: Floats) -> TensorMargin:
        """Functions with those values at the codes, as a margin of tensor products."""
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
        """Half the gradient of the penalty by each coefficient."""
        assert part.rough is not None
        return Coefficients(None, lam[0] * part.rough)

    def nothing(self, width: int) -> Coefficients:
        """Effects of zero."""
        return Coefficients(None, np.zeros((len(self.repeated), width)))


def free_levels(mass: Floats | None, repeated: NDArray[np.bool_]) -> float:
    """Sum of prior variances of these effects, in units of one: less when a weighted mean of all effects is zero."""
    if mass is None:
        return float(repeated.sum())
    return float((1.0 - mass**2 / (mass @ mass))[repeated].sum())
