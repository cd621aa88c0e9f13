"""Gaussian priors of a column's functions, and the exact posterior that they allow.

A function of a column is its values at the codes; a column kind is a Gaussian prior on them. The rows enter through
sums per code alone: gram (codes, K, K) and rhs (codes, K) for K functions at a time, both divided by the dispersion.
The posterior is

    precision = blockdiag(gram) + prior precision        mean = precision^-1 rhs

and each prior solves that in time linear in the number of codes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.priors.bounds import Bounds
from ahofm.tuning.numerics import CENTRING_JITTER


@dataclass(frozen=True)
class Coefficients:
    """Coefficients of K functions: of smooth coordinates (coordinates, K), one per code (codes, K), or both."""

    smooth: Floats | None
    per_code: Floats | None

    def flat(self) -> Floats:
        """All coefficients as one vector."""
        return np.concatenate([coef.ravel() for coef in (self.smooth, self.per_code) if coef is not None])

    def like(self, flat: Floats) -> Coefficients:
        """Coefficients of these shapes from a flat vector."""
        at = 0 if self.smooth is None else self.smooth.size
        smooth = None if self.smooth is None else flat[:at].reshape(self.smooth.shape)
        return Coefficients(smooth, None if self.per_code is None else flat[at:].reshape(self.per_code.shape))


@dataclass(frozen=True)
class FunctionPosterior:
    """Posterior of K functions of one column.

    Attributes
    ----------
    mean, variance : arrays of shape (codes, K)
        At the codes.
    smooth : array of shape (coordinates, K) or None
        Coefficients of smooth coordinates, for priors that have them.
    per_code : array of shape (codes, K) or None
        One coefficient per code (random walks, independent effects), for priors that have them.
    edf : array of shape (groups, K)
        Effective degrees of freedom per group of coefficients with one smoothing parameter.
    quadratic_form : array of shape (groups, K)
        Quadratic form that each group's smoothing parameter multiplies.
    """

    mean: Floats
    variance: Floats
    smooth: Floats | None
    per_code: Floats | None
    edf: Floats
    quadratic_form: Floats

    def only(self, which: NDArray[np.intp]) -> FunctionPosterior:
        """Posterior of some of the functions."""
        smooth, per_code = (None if coef is None else coef[:, which] for coef in (self.smooth, self.per_code))
        mean, variance, edf, quadratic_form = (
            array[:, which] for array in (self.mean, self.variance, self.edf, self.quadratic_form)
        )
        return FunctionPosterior(mean, variance, smooth, per_code, edf, quadratic_form)

    def rescaled(self, scale: Floats) -> FunctionPosterior:
        """Posterior of the functions divided by ``scale`` (K,)."""
        smooth, per_code = (None if coef is None else coef / scale for coef in (self.smooth, self.per_code))
        mean, variance = self.mean / scale, self.variance / scale**2
        return replace(self, mean=mean, variance=variance, smooth=smooth, per_code=per_code)


def zero_posterior(prior: Prior, codes: int, width: int) -> FunctionPosterior:
    """Posterior of ``width`` functions that are zero, with variance zero."""
    coef, values, by_group = prior.zero_coefficients(width), np.zeros((codes, width)), np.zeros((prior.n_groups, width))
    return FunctionPosterior(values, values, coef.smooth, coef.per_code, by_group, by_group)


def decoupled(gram: Floats, rhs: Floats, left_out: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Sums (codes, K, K) and (codes, K) without the products of left out functions with the others."""
    kept = ~left_out
    both = np.outer(kept, kept) | np.eye(len(kept), dtype=bool)
    return gram * both, rhs * kept


def with_zeros(posterior: FunctionPosterior, left_out: NDArray[np.bool_]) -> FunctionPosterior:
    """The posterior with left out functions set to zero, with variance and degrees of freedom zero."""
    kept = ~left_out
    mean, variance = np.where(kept, posterior.mean, 0.0), np.where(kept, posterior.variance, 0.0)
    smooth, per_code = (
        None if coef is None else np.where(kept, coef, 0.0) for coef in (posterior.smooth, posterior.per_code)
    )
    edf, form = np.where(kept, posterior.edf, 0.0), np.where(kept, posterior.quadratic_form, 0.0)
    return FunctionPosterior(mean, variance, smooth, per_code, edf, form)


def concatenated(first: FunctionPosterior, second: FunctionPosterior) -> FunctionPosterior:
    """Posterior of the functions of both, under the same prior; bounded ones may have coefficients per code."""
    smooth = None if first.smooth is None or second.smooth is None else np.hstack([first.smooth, second.smooth])
    per_code = [np.zeros_like(one.mean) if one.per_code is None else one.per_code for one in (first, second)]
    return FunctionPosterior(
        np.hstack([first.mean, second.mean]),
        np.hstack([first.variance, second.variance]),
        smooth,
        None if first.per_code is None and second.per_code is None else np.hstack(per_code),
        np.hstack([first.edf, second.edf]),
        np.hstack([first.quadratic_form, second.quadratic_form]),
    )


def bounded(posterior: FunctionPosterior, bounds: Bounds) -> FunctionPosterior:
    """The posterior with bounded values; what bounds change is added to the coefficients of the codes."""
    mean = bounds(posterior.mean)
    if mean is posterior.mean:
        return posterior
    per_code = mean - posterior.mean if posterior.per_code is None else posterior.per_code + (mean - posterior.mean)
    return replace(posterior, mean=mean, per_code=per_code)


class Prior(Protocol):
    """A Gaussian prior on values at codes, up to its smoothing parameters.

    Its precision is ``sum_g lam_g S_g``: a group g of coefficients has a penalty matrix ``S_g`` and a smoothing
    parameter ``lam_g``.
    """

    @property
    def n_groups(self) -> int:
        """Number of smoothing parameters of a function."""
        ...

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Smallest and largest smoothing parameter of each group."""
        ...

    def initial_lam(self, mean_square: float) -> Floats:
        """Smoothing parameters (groups,) for functions of mean square ``mean_square``."""
        ...

    def solve(self, gram: Floats, rhs: Floats, lam: Floats) -> FunctionPosterior:
        """The posterior of K functions from ``gram`` (codes, K, K) and ``rhs`` (codes, K), at ``lam`` (groups, K)."""
        ...

    def penalty_gradient(self, coef: Coefficients, lam: Floats) -> Coefficients:
        """``sum_g lam_g S_g coef``, half the gradient of the penalty: coefficients of the same shapes."""
        ...

    def zero_coefficients(self, width: int) -> Coefficients:
        """Coefficients of ``width`` functions that are zero."""
        ...


def with_constraints(rhs: Floats, mass: Floats | None) -> Floats:
    """Right-hand sides (codes, K, 1 + K): the given one and, for functions of mean zero, the K columns of C.

    Column f of ``C`` (codes K, K) is the mean of function f as a linear form: ``mass`` at its own values. Solutions for
    it are ``U = precision^-1 C``, the covariances of all values with that mean, which :class:`Centring` needs.
    """
    if mass is None:
        return np.ascontiguousarray(rhs[:, :, np.newaxis])
    width = rhs.shape[1]
    return np.concatenate([rhs[:, :, np.newaxis], mass[:, np.newaxis, np.newaxis] * np.eye(width)], axis=2)


@dataclass(frozen=True)
class Centring:
    """Conditions a Gaussian on functions of mean zero, so that interactions are orthogonal to lower orders.

    With C the means as linear forms and U = precision^-1 C, conditioning subtracts ``U (C'U)^-1 C' mean`` from the mean
    and ``U (C'U)^-1 U'`` from the covariance.

    Attributes
    ----------
    mass : array of shape (codes,)
        Fraction of the weight at each code.
    inverse : array of shape (K, K)
        ``(C'U)^-1``.
    """

    mass: Floats
    inverse: Floats

    @classmethod
    def of(cls, mass: Floats, U: Floats) -> Centring:
        """From U at the codes: (codes, K, K)."""
        inner = np.tensordot(mass, U, axes=1)
        inner += CENTRING_JITTER * np.trace(inner) * np.eye(len(inner))
        return cls(mass, np.asarray(np.linalg.inv(0.5 * (inner + inner.T)), dtype=np.float64))

    def shift(self, mean: Floats) -> Floats:
        """Multipliers (K,) of U, whose product is subtracted from the functions so that their means are zero."""
        return np.asarray(self.inverse @ (self.mass @ mean))

    def reduction(self, U: Floats) -> Floats:
        """Reduction of variances of linear forms by conditioning, from their covariances with the means (..., K, K)."""
        return np.asarray(((U @ self.inverse) * U).sum(axis=-1))
