"""Smoothing parameters of a band: their degrees of freedom, averaged over what the data leave open about them.

Near the fit the log-likelihood is a quadratic ``slope' theta - theta' H theta / 2``, so the marginal likelihood of a
smoothing parameter lambda is known. With the other parameters as they are, and c_i the information about coordinate i
of a group in the units of its penalty, q_i its slope at zero,

    2 log p(data | lambda) = sum_i q_i^2 / (c_i + lambda) - log(1 + c_i / lambda)

A half-Cauchy prior of the functions' standard deviation makes it a posterior, on a grid of log lambda. The parameter of
the covariance is the one with the posterior mean of the degrees of freedom, ``sum_i c_i / (c_i + lambda)``. What the
fit has shrunk away, and what the marginal likelihood would put at infinity, keeps the variance that it may have; this
is the uncertainty of smoothing parameters (Wood, Pya and Saefken 2016) in the form of a parameter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from ahofm.columns.basis import Floats
from ahofm.inference.implied_smoothing import SOFTEST, Group
from ahofm.inference.tests_of_effects import smoothing_parameter

STIFFEST = 1e10
"""Upper bound of smoothing parameters, in the units that fits are made in."""

_SEEN = 1e-9
"""Of the largest information about a group's coefficients: those with less do not count as determined by data."""

_ROUNDS = 3
"""Each group given the others, all at once. 2 and 4 gave the same coverage on the designs below."""

_CENTRE = 1.0
"""Effective degrees of freedom at the scale of the half-Cauchy prior, for all factors of a column and order together;
half of a coefficient at most. Pair surfaces are covered by 95 to 96 % so; by 90 % where factors share a smoothing
parameter, and by 99 % where each of them has a centre of one."""

_LINES = 25.0
"""Largest variance of a straight main effect, in units of what it has without other columns. Lines are penalised no
more than that: the slope of one column is only as certain as the slopes of those that are correlated with it, and a
slope that was shrunk away is not known to be zero. With 10, lines correlated by .9 are covered by 90 % (binomial), with
25 by 93 %; 100 changes little but where a column repeats another."""

_LEAST_FRACTION = 1e-3
"""Of a degree of freedom, left to functions that have next to none."""

_RIDGE = 1e-3
"""Of the information about each coordinate, where columns repeat each other."""

_GRID = np.arange(-24.0, 24.25, 0.5)
"""Of log lambda, around the centre of its prior."""


def averaged(information: Floats, slope: Floats, theta: Floats, stiffness: Floats, groups: Sequence[Group]) -> Floats:
    """Smoothing parameters (P,) of the coordinates.

    Chosen on 60 to 80 seeds of each design of benchmarks.bands, seeds that its table does not have, and looked at with
    other curves, levels, 400 and 4,000 rows, and pairs of counts.

    Parameters
    ----------
    information : array of shape (P, P)
    slope : array of shape (P,)
        Of the quadratic log-likelihood at zero: information times the fit, plus the score.
    theta : array of shape (P,)
        Coordinates of the fit.
    stiffness : array of shape (P,)
        Penalties of the coordinates, of which only ratios within a group matter.
    groups : sequence of Group
        Coordinates with one smoothing parameter each. Others keep their penalty.
    """
    known, lam, averaging = np.diag(information), stiffness.copy(), []
    tolerance = _tolerance(information, groups)
    for group in groups:
        at = group.at[known[group.at] > _SEEN * known[group.at].max()]
        if not len(at):
            continue
        size = np.maximum(theta[at] ** 2, np.finfo(float).tiny)
        weight = stiffness[at] / stiffness[at].min()
        if group.line:
            lam[at] = np.clip(np.minimum(1.0 / size, known[at] / _LINES), SOFTEST, STIFFEST)
            continue
        centre = smoothing_parameter(weight / known[at], _centre(group, len(at)))
        lam[at] = weight * np.clip(min(len(at) / float(weight @ size), centre), SOFTEST, STIFFEST)
        own = float(np.average(tolerance[at], weights=size * known[at])) if group.main else 1.0
        averaging.append((group, at, weight, float(weight @ size), own))
    for _ in range(_ROUNDS):
        variance, estimate = _posterior(information, lam, slope)
        for group, at, weight, size, own in averaging:
            precision = 1.0 / variance[at]
            c, q = (precision - lam[at]) / weight, precision * estimate[at] / np.sqrt(weight)
            found = _expected(c, q, group)
            edf = max(float((1.0 - lam[at] * variance[at]).sum()), _LEAST_FRACTION)
            # Fellner and Schall's step with the fitted function
            found = found**own * min(found, edf / size) ** (1.0 - own)
            lam[at] = weight * np.clip(found, SOFTEST, STIFFEST)
    return lam


def _centre(group: Group, count: int) -> float:
    return group.portion * min(_CENTRE, 0.5 * count)


def _expected(c: Floats, q: Floats, group: Group) -> float:
    """Lambda with the posterior mean of the degrees of freedom, for information c (m,) and slopes q (m,)."""
    seen = c > _SEEN * c.max()
    if not seen.any():
        return STIFFEST
    c, q = c[seen], q[seen]
    lam = (smoothing_parameter(1.0 / c, _centre(group, len(c))) * np.exp(_GRID))[:, np.newaxis]
    log_posterior = 0.5 * (q**2 / (c + lam) - np.log1p(c / lam)).sum(axis=1) - np.log(np.cosh(0.5 * _GRID))
    posterior = np.exp(log_posterior - log_posterior.max())
    return smoothing_parameter(1.0 / c, float(posterior @ (c / (c + lam)).sum(axis=1) / posterior.sum()))


def _posterior(information: Floats, lam: Floats, slope: Floats) -> tuple[Floats, Floats]:
    """Variances (P,) and means (P,) of the coordinates under such penalties."""
    root = root_of(information, lam)
    inverse, _ = scipy.linalg.lapack.dpotri(root, lower=1)
    return np.diag(inverse).copy(), scipy.linalg.cho_solve((root, True), slope, check_finite=False)


def _tolerance(information: Floats, groups: Sequence[Group]) -> Floats:
    """Root of the share of the information about coordinates of main effects that other coordinates of them do not
    have, (P,): where it is small, the data do not say which column has an effect, and the fit decides.
    """
    out = np.ones(len(information))
    at = np.concatenate([group.at for group in groups if group.main] or [np.zeros(0, dtype=np.intp)])
    if len(at):
        scale = np.sqrt(np.maximum(np.diag(information)[at], np.finfo(float).tiny))
        correlation = information[np.ix_(at, at)] / np.outer(scale, scale) + _RIDGE * np.eye(len(at))
        out[at] = 1.0 / np.sqrt(np.diag(np.linalg.inv(correlation)))
    return np.clip(out, 0.0, 1.0)


def root_of(information: Floats, penalty: Floats) -> Floats:
    """Lower Cholesky factor of the information plus a diagonal of penalties."""
    mean = (np.trace(information) + penalty.sum()) / len(penalty)
    for jitter in (1e-10, 1e-7, 1e-4):
        try:
            lifted = information.copy()
            np.einsum("ii->i", lifted)[:] += penalty + jitter * mean
            return np.asarray(scipy.linalg.cholesky(lifted, lower=True, overwrite_a=True, check_finite=False))
        except np.linalg.LinAlgError:
            continue
    raise np.linalg.LinAlgError("the information of the rows is not finite")


def variances(root: Floats) -> Floats:
    """Diagonal (P,) of ``(L L')^-1``, of a lower triangle L: squares of the columns of its inverse, added up."""
    inverse, _ = lapack.dtrtri(root, lower=1)
    return np.asarray(np.einsum("ij,ij->j", inverse, inverse))
