"""Independent levels: a ridge per code. One small problem for each code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.fit.priors.base import Centring, Part, Posterior
from ahofm.fit.priors.tensor import Coupling, Side
from ahofm.kernels import inverses


@dataclass(frozen=True)
class LevelPrior:
    """``strength * value^2`` at every code.

    Attributes
    ----------
    mass : array of shape (codes,) or None
        Weights of the codes; functions then have mean zero.
    repeated : array of bool of shape (codes,)
        Codes that the strength is learned from: those of several rows. How far single rows are off tells nothing of
        levels, it may all be noise.
    """

    mass: Floats | None
    repeated: NDArray[np.bool_]

    n_groups = 1

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Lowest and highest strength."""
        return np.array([1e-6]), np.array([1e6])

    def start(self, mean_square: float) -> Floats:
        """Strength for functions of that mean square."""
        return np.array([0.5 / mean_square])

    def side(self, values: Floats, mass: Floats) -> Side:
        """Functions with those values at the codes, as one side of surfaces."""
        return Side(np.sqrt(mass)[:, np.newaxis] * values, 1.0 / np.maximum(mass, 1e-12))

    def solve(self, gram: Floats, rhs: Floats, strength: Floats, coupling: Coupling | None = None) -> Posterior:
        """The posterior of K functions."""
        ridge = strength[0]
        prior = np.diag(ridge)
        if coupling is not None:
            prior[: coupling.rank, : coupling.rank] += coupling.rough
        covariance = inverses(gram + prior)
        mean = np.einsum("bfg,bg->bf", covariance, rhs)
        variance = np.einsum("bff->bf", covariance).copy()
        if self.mass is not None:
            spread = self.mass[:, np.newaxis, np.newaxis] * covariance
            centring = Centring.of(self.mass, spread)
            mean = mean - spread @ centring.shift(mean)
            variance = np.maximum(variance - centring.removed(spread), 0.0)
        freedom = free_levels(self.mass, self.repeated) - ridge * variance[self.repeated].sum(axis=0)
        size = (mean[self.repeated] ** 2).sum(axis=0)
        return Posterior(mean, variance, None, mean, freedom[np.newaxis], size[np.newaxis])

    def pull(self, part: Part, strength: Floats) -> Part:
        """Half the slope of the quadratic form, times its strength."""
        assert part.rough is not None
        return Part(None, strength[0] * part.rough)

    def nothing(self, width: int) -> Part:
        """Levels of zero."""
        return Part(None, np.zeros((len(self.repeated), width)))


def free_levels(mass: Floats | None, repeated: NDArray[np.bool_]) -> float:
    """Prior variances of these levels, in units of one: less when a weighted mean of all levels is zero."""
    if mass is None:
        return float(repeated.sum())
    return float((1.0 - mass**2 / (mass @ mass))[repeated].sum())
