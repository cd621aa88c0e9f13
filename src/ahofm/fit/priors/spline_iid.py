"""A smooth part and a free level per code: the levels are eliminated exactly, code by code, then the rest is smooth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.fit.priors.base import Centring, Part, Posterior, with_constraints
from ahofm.fit.priors.iid import free_levels
from ahofm.fit.priors.spline import SmoothPrior
from ahofm.kernels import inverses


@dataclass(frozen=True)
class MixedPrior:
    """The strengths of the smooth part, then that of the levels.

    Attributes
    ----------
    smooth : SmoothPrior
    mass : array of shape (codes,) or None
        Weights of the codes; functions then have mean zero.
    repeated : array of bool of shape (codes,)
        Codes that the strength of the levels is learned from.
    """

    smooth: SmoothPrior
    mass: Floats | None
    repeated: NDArray[np.bool_]

    @property
    def n_groups(self) -> int:
        """Number of strengths."""
        return self.smooth.n_groups + 1

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Lowest and highest strengths."""
        low, high = self.smooth.bounds
        return np.append(low, 1e-3), np.append(high, 1e6)

    def start(self, mean_square: float) -> Floats:
        """Strengths for functions of that mean square; levels start small."""
        return np.append(self.smooth.start(mean_square), 10.0 / mean_square)

    def solve(self, gram: Floats, rhs: Floats, strength: Floats) -> Posterior:
        """The posterior of K functions.

        With t the levels' strength, given the smooth part the levels have precision S + t. Integrating them out leaves
        gram ``t (S + t)^-1 S`` and rhs ``t (S + t)^-1 R`` for the smooth part.
        """
        ridge = strength[-1]
        right = with_constraints(rhs, self.mass)
        local = inverses(gram + np.diag(ridge))  # covariance of the levels when the smooth part is known
        kept = ridge[:, np.newaxis] * local  # t (S + t)^-1
        reduced = kept @ gram
        reduced = 0.5 * (reduced + reduced.transpose(0, 2, 1))
        posterior, coef = self.smooth.solve_many(reduced, kept @ right, strength[:-1])
        smooth = np.tensordot(self.smooth.values, coef, axes=1)
        rough = local @ (right - gram @ smooth)
        own = np.einsum("bff->bf", local)
        share = np.eye(len(ridge)) - kept.transpose(0, 2, 1)  # how levels answer to the smooth part: (S + t)^-1 S
        rough_variance = own + np.einsum("bfg,bg->bf", share**2, posterior.variance)
        variance = own + np.einsum("bfg,bg->bf", (local * ridge) ** 2, posterior.variance)
        if self.mass is not None:
            total = smooth + rough
            spread = total[:, :, 1:]
            centring = Centring.of(self.mass, spread)
            shift = np.concatenate([[1.0], -centring.shift(total[:, :, 0])])
            coef, smooth, rough = coef @ shift, smooth @ shift, rough @ shift
            variance = np.maximum(variance - centring.removed(spread), 0.0)
        else:
            coef, smooth, rough = coef[:, :, 0], smooth[:, :, 0], rough[:, :, 0]
        levels = free_levels(self.mass, self.repeated) - ridge * rough_variance[self.repeated].sum(axis=0)
        freedom = np.vstack([posterior.freedom, levels])
        size = np.vstack([self.smooth.size_of(coef), (rough[self.repeated] ** 2).sum(axis=0)])
        return Posterior(smooth + rough, variance, coef, rough, freedom, size)

    def pull(self, part: Part, strength: Floats) -> Part:
        """Half the slope of the quadratic forms, times their strengths."""
        assert part.rough is not None
        return Part(self.smooth.pull(part, strength[:-1]).smooth, strength[-1] * part.rough)

    def nothing(self, width: int) -> Part:
        """Coordinates and levels of zero."""
        return Part(self.smooth.nothing(width).smooth, np.zeros((len(self.repeated), width)))
