"""Independent levels: a ridge per code. One small problem for each code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.fit.block.prior import Centring, Part, Posterior
from ahofm.kernels import inverses


@dataclass(frozen=True)
class LevelPrior:
    """``strength * value^2`` at every code.

    Attributes
    ----------
    n_codes : int
    mass : array of shape (codes,) or None
        Weights of the codes; functions then have mean zero.
    """

    n_codes: int
    mass: Floats | None

    n_groups = 1

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Lowest and highest strength."""
        return np.array([1e-6]), np.array([1e6])

    def start(self, mean_square: float) -> Floats:
        """Strength for functions of that mean square."""
        return np.array([0.5 / mean_square])

    def solve(self, gram: Floats, rhs: Floats, strength: Floats) -> Posterior:
        """The posterior of K functions."""
        ridge = strength[0]
        covariance = inverses(gram + np.diag(ridge))
        mean = np.einsum("bfg,bg->bf", covariance, rhs)
        variance = np.einsum("bff->bf", covariance).copy()
        free = self.n_codes
        if self.mass is not None:
            spread = self.mass[:, np.newaxis, np.newaxis] * covariance
            centring = Centring.of(self.mass, spread)
            mean = mean - spread @ centring.shift(mean)
            variance = np.maximum(variance - centring.removed(spread), 0.0)
            free -= 1
        freedom = free - ridge * variance.sum(axis=0)
        return Posterior(mean, variance, None, mean, freedom[np.newaxis], (mean**2).sum(axis=0)[np.newaxis])

    def pull(self, part: Part, strength: Floats) -> Part:
        """Half the slope of the quadratic form, times its strength."""
        assert part.rough is not None
        return Part(None, strength[0] * part.rough)
