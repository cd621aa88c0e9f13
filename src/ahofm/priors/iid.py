"""Independent, identically distributed effects per code: alone, and beside a spline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.kernels import inverses
from ahofm.priors.base import Centring, Coefficients, FunctionPosterior, with_constraints
from ahofm.priors.spline import SplinePrior
from ahofm.priors.tensor import TensorMargin, TensorPenalty
from ahofm.tuning import IID_BESIDE_SPLINE_LAM, IID_LAM
from ahofm.tuning.numerics import LEAST_MASS
from ahofm.tuning.starts import INITIAL_LEVEL_LAM


@dataclass(frozen=True)
class IIDPrior:
    """``lam * value^2`` at every code.

    Attributes
    ----------
    mass : array of shape (codes,) or None
        Weights of the codes; functions then have mean zero.
    repeated : array of bool of shape (codes,)
        Codes that the smoothing parameter is estimated from: those of several rows. With a single row an effect cannot
        be distinguished from its residual.
    """

    mass: Floats | None
    repeated: NDArray[np.bool_]

    n_groups = 1

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Smallest and largest smoothing parameter."""
        return np.array(IID_LAM[:1]), np.array(IID_LAM[1:])

    def initial_lam(self, mean_square: float) -> Floats:
        """Smoothing parameter for functions of that mean square."""
        return np.array([0.5 / mean_square])

    def margin(self, values: Floats, mass: Floats) -> TensorMargin:
        """Functions with those values at the codes, as a margin of tensor products."""
        return TensorMargin(np.sqrt(mass)[:, np.newaxis] * values, 1.0 / np.maximum(mass, LEAST_MASS))

    def solve(
        self, gram: Floats, rhs: Floats, lam: Floats, tensor_penalty: TensorPenalty | None = None
    ) -> FunctionPosterior:
        """The posterior of K functions."""
        ridge = lam[0]
        prior = np.diag(ridge)
        if tensor_penalty is not None:
            prior[: tensor_penalty.rank, : tensor_penalty.rank] += tensor_penalty.penalised
        covariance = inverses(gram + prior)
        mean = np.einsum("bfg,bg->bf", covariance, rhs)
        variance = np.einsum("bff->bf", covariance).copy()
        if self.mass is not None:
            U = self.mass[:, np.newaxis, np.newaxis] * covariance
            centring = Centring.of(self.mass, U)
            mean = mean - U @ centring.shift(mean)
            variance = np.maximum(variance - centring.reduction(U), 0.0)
        edf = prior_trace(self.mass, self.repeated) - ridge * variance[self.repeated].sum(axis=0)
        quadratic_form = (mean[self.repeated] ** 2).sum(axis=0)
        return FunctionPosterior(mean, variance, None, mean, edf[np.newaxis], quadratic_form[np.newaxis])

    def penalty_gradient(self, coef: Coefficients, lam: Floats) -> Coefficients:
        """Half the gradient of the penalty by each coefficient."""
        assert coef.per_code is not None
        return Coefficients(None, lam[0] * coef.per_code)

    def zero_coefficients(self, width: int) -> Coefficients:
        """Effects of zero."""
        return Coefficients(None, np.zeros((len(self.repeated), width)))


def spline_of(prior: object) -> SplinePrior | None:
    """The spline that functions under a prior are, alone or beside independent effects; None where there is none."""
    smooth = prior.smooth if isinstance(prior, SplineIIDPrior) else prior
    return smooth if isinstance(smooth, SplinePrior) else None


def prior_trace(mass: Floats | None, repeated: NDArray[np.bool_]) -> float:
    """``lam tr(V_0 S)``, V_0 the prior covariance and S the penalty of these effects: their number, if none is centred.

    Effects with weighted mean zero have the covariance ``(I - m m' / m'm) / lam``. The effective degrees of freedom are
    ``lam tr(V_0 S) - lam tr(V S)``, V the posterior covariance.
    """
    if mass is None:
        return float(repeated.sum())
    return float((1.0 - mass**2 / (mass @ mass))[repeated].sum())


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
        return np.append(low, IID_BESIDE_SPLINE_LAM[0]), np.append(high, IID_BESIDE_SPLINE_LAM[1])

    def initial_lam(self, mean_square: float) -> Floats:
        """Smoothing parameters for functions of that mean square; independent effects start small."""
        return np.append(self.smooth.initial_lam(mean_square), INITIAL_LEVEL_LAM / mean_square)

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
        posterior, coef = self.smooth.solve_right_hand_sides(reduced, kept @ right, lam[:-1])
        smooth = np.tensordot(self.smooth.values, coef, axes=1)
        effects = local @ (right - gram @ smooth)
        local_variance = np.einsum("bff->bf", local)
        response = np.eye(len(ridge)) - kept.transpose(0, 2, 1)  # of the effects to the spline: (S + t)^-1 S
        effect_variance = local_variance + np.einsum("bfg,bg->bf", response**2, posterior.variance)
        variance = local_variance + np.einsum("bfg,bg->bf", (local * ridge) ** 2, posterior.variance)
        if self.mass is not None:
            total = smooth + effects
            U = total[:, :, 1:]
            centring = Centring.of(self.mass, U)
            shift = np.concatenate([[1.0], -centring.shift(total[:, :, 0])])
            coef, smooth, effects = coef @ shift, smooth @ shift, effects @ shift
            variance = np.maximum(variance - centring.reduction(U), 0.0)
        else:
            coef, smooth, effects = coef[:, :, 0], smooth[:, :, 0], effects[:, :, 0]
        effects_edf = prior_trace(self.mass, self.repeated) - ridge * effect_variance[self.repeated].sum(axis=0)
        edf = np.vstack([posterior.edf, effects_edf])
        quadratic_form = np.vstack([self.smooth.quadratic_forms(coef), (effects[self.repeated] ** 2).sum(axis=0)])
        return FunctionPosterior(smooth + effects, variance, coef, effects, edf, quadratic_form)

    def penalty_gradient(self, coef: Coefficients, lam: Floats) -> Coefficients:
        """Half the gradient of the penalty by each coefficient."""
        assert coef.per_code is not None
        return Coefficients(self.smooth.penalty_gradient(coef, lam[:-1]).smooth, lam[-1] * coef.per_code)

    def zero_coefficients(self, width: int) -> Coefficients:
        """Coordinates and effects of zero."""
        return Coefficients(self.smooth.zero_coefficients(width).smooth, np.zeros((len(self.repeated), width)))
