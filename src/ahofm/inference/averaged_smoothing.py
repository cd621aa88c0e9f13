"""Penalties of a band: Gaussian priors, averaged over the posterior of their smoothing parameters.

Near the fit the log-likelihood is a quadratic ``slope' theta - theta' H theta / 2``, so the marginal likelihood of a
smoothing parameter lambda has a closed form. Given the other parameters, with c_i the information about coordinate i of
a group, q_i the slope of the log-likelihood at zero, and w_i the penalty of the coordinate,

    2 log p(data | lambda, r) = sum_i q_i^2 / (c_i + lambda w_i^r) - log(1 + c_i / (lambda w_i^r))

With a half-Cauchy prior of the functions' standard deviation this gives a posterior on a grid of log lambda. The power
r is the smoothness class of the functions: 1 is the penalty of the fit, larger values are smoother classes. A class
that is too rough gives bands that cover smooth curves too often, so main effects are averaged over r as well.

The posterior of a coordinate is then a mixture of Gaussians with means ``q_i / (c_i + lambda w_i^r)``. It is summarised
by two penalties: under one the coordinate has the mean of the mixture, under the other its variance. That variance is
the mean of the variances plus the variance of the means (the uncertainty of smoothing parameters of Wood, Pya and
Saefken 2016). Correlations of coordinates come from the information alone.

Slopes are the exception. The mean of the mixture shrinks a slope about as much as the fit does, so that the step from
one to the other does not estimate the bias of shrinkage. Spline penalties do not apply to lines, so in that step
slopes have no penalty, as far as the data determine them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.inference.implied_smoothing import Group
from ahofm.inference.information import Information
from ahofm.priors.edf import lam_with_edf
from ahofm.tuning.bands import (
    DETERMINED_TOLERANCE,
    FACTOR_PRIOR_EDF,
    LARGEST_BAND_LAM,
    LINE_PRIOR_EDF,
    MAIN_PRIOR_EDF,
    PENALTY_POWERS,
    SMALLEST_BAND_LAM,
)

_NEGLIGIBLE_INFORMATION = 1e-9
"""Fraction of the largest information about a group's coordinates below which a coordinate is left out of the group."""

_UPDATE_ROUNDS = 3
"""Rounds of updates, each of all groups given the others. 2 and 4 gave the same coverage on benchmarks.bands."""

_LEAST_EDF = 1e-3
"""Lower bound of the effective degrees of freedom of a function."""

_CORRELATION_RIDGE = 1e-3
"""Added to the diagonal of the correlation matrix of coordinates, which is singular where columns repeat each other."""

_LOG_LAM_GRID = np.arange(-18.0, 18.5, 0.75)
"""Grid of log lambda, relative to the median of its prior."""

_LOG_LAM_HALF_WIDTH, _HALVINGS = 60.0, 48
"""Half-width of the bisection in log lambda around the mean log ratio of information to penalty; number of halvings."""


@dataclass(frozen=True)
class Penalties:
    """Penalties (P,) of coordinates under which a Gaussian has the mean, and the variances, of the mixture.

    Those of slopes that the data determine are zero in ``mean``.
    """

    mean: Floats
    variance: Floats


@dataclass(frozen=True)
class _GroupConstants:
    """Constants of a group of m coordinates with one smoothing parameter.

    Groups of equal length are stacked along a leading axis.

    Attributes
    ----------
    at : array of int of shape (m,)
        Coordinates.
    weight : array of shape (m,)
        Penalties, divided by the smallest of the group.
    quadratic_form : float
        Quadratic form of the penalty at the fit, ``sum_i weight_i theta_i^2``.
    prior_edf : float
        Effective degrees of freedom at the scale of the half-Cauchy prior.
    tolerance : float
        Tolerance of the group's function, between 0 (collinear with other columns) and 1 (see ``_tolerance``).
    between_weight : float
        1 if the variance of the means is added (main effects), else 0. Smoothing parameters of factors are uncertain
        mostly in how a term is divided among its factors, which does not change the term.
    averages_power : bool
        Whether the power of the penalty is averaged over: for main effects with penalties that differ.
    """

    at: NDArray[np.intp]
    weight: Floats
    quadratic_form: Floats
    prior_edf: Floats
    tolerance: Floats
    between_weight: Floats
    averages_power: NDArray[np.bool_]


def averaged_penalties(
    information: Information, slope: Floats, theta: Floats, penalty: Floats, groups: Sequence[Group]
) -> Penalties:
    """Penalties (P,) of the coordinates.

    Parameters
    ----------
    information : Information
        Its matrix includes all coordinates of main effects.
    slope : array of shape (P,)
        Of the quadratic log-likelihood at zero: information times the fit, plus the score.
    theta : array of shape (P,)
        Coordinates of the fit.
    penalty : array of shape (P,)
        Penalties of the coordinates, of which only ratios within a group matter.
    groups : sequence of Group
        Groups of coordinates with one smoothing parameter each. Coordinates in no group keep their penalty.
    """
    diagonal, tolerance = information.diagonal, _tolerance(information, groups)
    batches = _stacked_groups(diagonal, theta, penalty, groups, tolerance)
    mean = _initial_penalties(diagonal, penalty, batches)  # penalties (P,) under which a Gaussian has that mean
    variance = mean.copy()
    for _ in range(_UPDATE_ROUNDS):
        variances, estimate = information.posterior(mean, slope)
        for batch in batches:
            mean[batch.at], variance[batch.at] = _updated(batch, variances, estimate, mean)
    for line in (group.at for group in groups if group.line):
        mean[line] *= 1.0 - tolerance[line]
    return Penalties(mean, variance)


def edf_of_coordinates(diagonal: Floats, theta: Floats, penalty: Floats, groups: Sequence[Group]) -> Floats:
    """Effective degrees of freedom (P,) of each coordinate, from the diagonal (P,) of the information alone.

    The other arguments are those of :func:`averaged_penalties`.
    """
    lam = _initial_penalties(
        diagonal, penalty, _stacked_groups(diagonal, theta, penalty, groups, np.ones_like(diagonal))
    )
    return np.asarray(diagonal / np.maximum(diagonal + lam, np.finfo(float).tiny))


def _initial_penalties(diagonal: Floats, penalty: Floats, batches: Sequence[_GroupConstants]) -> Floats:
    """Initial penalties (P,): lambda = m / (theta' W theta) of each group, at most that at the scale of the prior."""
    initial = penalty.copy()
    for batch in batches:
        at_prior = smoothing_parameters(batch.weight / diagonal[batch.at], batch.prior_edf)
        lam = np.clip(
            np.minimum(batch.at.shape[1] / batch.quadratic_form, at_prior), SMALLEST_BAND_LAM, LARGEST_BAND_LAM
        )
        initial[batch.at] = batch.weight * lam[:, np.newaxis]
    return initial


def _stacked_groups(
    diagonal: Floats, theta: Floats, penalty: Floats, groups: Sequence[Group], tolerance: Floats
) -> list[_GroupConstants]:
    """Groups with the same number of coordinates, stacked: each array has a leading axis."""
    by_shape = defaultdict[tuple[int, bool], list[_GroupConstants]](list)
    for group in groups:
        at = group.at[diagonal[group.at] > _NEGLIGIBLE_INFORMATION * diagonal[group.at].max()]
        if not len(at):
            continue
        square = np.maximum(theta[at] ** 2, np.finfo(float).tiny)
        weight = penalty[at] / penalty[at].min()
        weighted_mean = group.main and not group.line
        of_group = np.average(tolerance[at], weights=square * diagonal[at]) if weighted_mean else 1.0
        averages_power = group.main and bool(np.ptp(weight) > 0.0)
        prior_edf = (
            LINE_PRIOR_EDF
            if group.line
            else group.order_fraction * min(MAIN_PRIOR_EDF if group.main else FACTOR_PRIOR_EDF, 0.5 * len(at))
        )
        constants = (weight @ square, prior_edf, of_group, float(group.main), averages_power)
        by_shape[len(at), averages_power].append(_GroupConstants(at, weight, *map(np.asarray, constants)))
    return [_stacked(parts) for parts in by_shape.values()]


def _stacked(parts: Iterable[_GroupConstants]) -> _GroupConstants:
    return _GroupConstants(*(np.stack(arrays) for arrays in zip(*(vars(part).values() for part in parts), strict=True)))


def _updated(batch: _GroupConstants, variances: Floats, estimate: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """Penalties (groups, m) of mean and variance, from the posterior under the present ones of the mean."""
    present, precision = mean[batch.at], 1.0 / variances[batch.at]
    c = np.maximum(precision - present, _NEGLIGIBLE_INFORMATION * precision)
    within, between = _mixture(c, precision * estimate[batch.at], batch)
    edf = np.maximum((1.0 - present / precision).sum(axis=1), _LEAST_EDF)
    # Where columns are nearly collinear (tolerance near 0), the penalty is that of a Fellner-Schall step from the fit
    largest = batch.weight * (edf / batch.quadratic_form)[:, np.newaxis]
    tolerance = batch.tolerance[:, np.newaxis]

    def penalty(variance: Floats) -> Floats:
        implied = np.clip(1.0 / variance - c, SMALLEST_BAND_LAM, LARGEST_BAND_LAM * batch.weight)
        return np.asarray(implied**tolerance * np.minimum(implied, largest) ** (1.0 - tolerance))

    return penalty(within), penalty(within + tolerance * batch.between_weight[:, np.newaxis] * between)


def _mixture(c: Floats, q: Floats, batch: _GroupConstants) -> tuple[Floats, Floats]:
    """Mean of the variances and variance of the means, (groups, m) each, over smoothing parameters and powers r.

    Parameters
    ----------
    c, q : arrays of shape (groups, m)
        Information about each coordinate, and slope at zero.
    batch : _GroupConstants
    """
    inverses, log_posteriors = [], []
    for power in PENALTY_POWERS if batch.averages_power.all() else (1.0,):
        weight = batch.weight**power
        median = smoothing_parameters(weight / c, batch.prior_edf)
        lam = (median[:, np.newaxis] * np.exp(_LOG_LAM_GRID))[:, :, np.newaxis] * weight[:, np.newaxis]
        inverse = 1.0 / (c[:, np.newaxis] + lam)
        fit = (q**2)[:, np.newaxis] * inverse + np.log(lam * inverse)
        log_posteriors.append(0.5 * fit.sum(axis=2) - np.log(np.cosh(0.5 * _LOG_LAM_GRID)))
        inverses.append(inverse)
    log_posterior, inverse = np.concatenate(log_posteriors, axis=1), np.concatenate(inverses, axis=1)
    posterior = np.exp(log_posterior - log_posterior.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    within = np.einsum("gt,gtm->gm", posterior, inverse)
    between = np.einsum("gt,gtm->gm", posterior, (inverse - within[:, np.newaxis]) ** 2)
    return within, q**2 * between


def smoothing_parameters(ratios: Floats, edf: Floats) -> Floats:
    """Lambda (groups,) with given effective degrees of freedom (:func:`lam_with_edf`), wherever it may be.

    Parameters
    ----------
    ratios : array of shape (groups, m)
        Ratios of penalty to information, positive.
    edf : array of shape (groups,)
        Between 0 and m.
    """
    low = -np.log(ratios).mean(axis=1) - _LOG_LAM_HALF_WIDTH
    return lam_with_edf(ratios, edf, low, low + 2.0 * _LOG_LAM_HALF_WIDTH, _HALVINGS)


def _tolerance(information: Information, groups: Sequence[Group]) -> Floats:
    """Tolerance (P,) of the coordinates of main effects: root of 1 - R^2 of each on all others, divided by
    ``DETERMINED_TOLERANCE`` and clipped to [0, 1]; 1 for all other coordinates. Near 0 columns are collinear: the
    effects of single columns are then not determined by the data, and penalties are those of the fit.
    """
    out = np.ones(len(information.diagonal))
    at = np.concatenate([group.at for group in groups if group.main] or [np.zeros(0, dtype=np.intp)])
    if len(at):
        places = np.searchsorted(information.at, at)
        scale = np.sqrt(np.maximum(information.diagonal[at], np.finfo(float).tiny))
        correlation = information.matrix[np.ix_(places, places)] / np.outer(scale, scale) + _CORRELATION_RIDGE * np.eye(
            len(at)
        )
        out[at] = 1.0 / np.sqrt(np.diag(np.linalg.inv(correlation)))
    return np.clip(out / DETERMINED_TOLERANCE, 0.0, 1.0)
