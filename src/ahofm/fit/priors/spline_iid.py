"""A spline plus an independent effect per code: the effects are eliminated exactly, which leaves a spline problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.fit.priors.base import Centring, Coefficients, FunctionPosterior, with_constraints
from ahofm.fit.priors.iid import free_levels
from ahofm.fit.priors.spline import SplinePrior
from ahofm.kernels import inverses


@dataclass(frozen=True)
class SplineIIDPrior:
    """Sum of a spline and independent effects; smoothing parameters of the spline, then that of the effects.

    Attributes
    ----------
    smooth : SplinePrior
    mass : array of shape (codes,) or None
        Weights of the codes; functions then have mean zero.
    repeated : array of bool of shape (codes,)
        Codes that the smoothing parameter of the effects is estimated from.
    """

    smooth: SplinePrior
    mass: Floats | None
    repeated: NDArray[np.bool_]

    @property
    def n_groups(self) -> int:
        """Number of smoothing parameters."""
        return self.smooth.n_groups + 1

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Smallest and largest smoothing parameters."""
        low, high = self.smooth.bounds
        return np.append(low, 1e-3), np.append(high, 1e6)

    def initial_lam(self, mean_square: float) -> Floats:
        """Smoothing parameters for functions of that mean square; levels start small."""
        return np.append(self.smooth.initial_lam(mean_square), 10.0 / mean_square)

    def solve(self, gram: Floats, rhs: Floats, lam: Floats) -> FunctionPosterior:
        """The posterior of K functions.

        With t the smoothing parameter of the effects, given the spline the effects have precision S + t. Integrating
        them out leaves gram ``t (S + t)^-1 S`` and rhs ``t (S + t)^-1 R`` for the spline.
        """
        ridge = lam[-1]
        right = with_constraints(rhs, self.mass)
        local = inverses(gram + np.diag(ridge))  # covariance of the effects given the spline
        kept = ridge[:, np.newaxis] * local  # t (S + t)^-1
        reduced = kept @ gram
        reduced = 0.5 * (reduced + reduced.transpose(0, 2, 1))
        posterior, coef = self.smooth.solve_many(reduced, kept @ right, lam[:-1])
        smooth = np.tensordot(self.smooth.values, coef, axes=1)
        rough = local @ (right - gram @ smooth)
        own = np.einsum("bff->bf", local)
        response = np.eye(len(ridge)) - kept.transpose(0, 2, 1)  # of the effects to the spline: (S + t)^-1 S
        rough_variance = own + np.einsum("bfg,bg->bf", response**2, posterior.variance)
        variance = own + np.einsum("bfg,bg->bf", (local * ridge) ** 2, posterior.variance)
        if self.mass is not None:
            total = smooth + rough
            U = total[:, :, 1:]
            centring = Centring.of(self.mass, U)
            shift = np.concatenate([[1.0], -centring.shift(total[:, :, 0])])
            coef, smooth, rough = coef @ shift, smooth @ shift, rough @ shift
            variance = np.maximum(variance - centring.reduction(U), 0.0)
        else:
            coef, smooth, rough = coef[:, :, 0], smooth[:, :, 0], rough[:, :, 0]
        effects_edf = free_levels(self.mass, self.repeated) - ridge * rough_variance[self.repeated].sum(axis=0)
        edf = np.vstack([posterior.edf, effects_edf])
        quadratic_form = np.vstack([self.smooth.quadratic_forms(coef), (rough[self.repeated] ** 2).sum(axis=0)])
        return FunctionPosterior(smooth + rough, variance, coef, rough, edf, quadratic_form)

    def penalty_gradient(self, part: Coefficients, lam: Floats) -> Coefficients:
        """Half the gradient of the penalty by each coefficient."""
        assert part.rough is not None
        return Coefficients(self.smooth.penalty_gradient(part, lam[:-1]).smooth, lam[-1] * part.rough)

    def nothing(self, width: int) -> Coefficients:
        """Coordinates and effects of zero."""
        return Coefficients(self.smooth.nothing(width).smooth, np.zeros((len(self.repeated), width)))
