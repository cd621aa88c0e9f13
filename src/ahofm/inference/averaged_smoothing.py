"""Penalties of a band: Gaussian priors, averaged over what the data leave open about them.

Near the fit the log-likelihood is a quadratic ``slope' theta - theta' H theta / 2``, so the marginal likelihood of a
smoothing parameter lambda is known. With the other parameters as they are, c_i the information about coordinate i of a
group, q_i its slope at zero, and w_i its penalty,

    2 log p(data | lambda, r) = sum_i q_i^2 / (c_i + lambda w_i^r) - log(1 + c_i / (lambda w_i^r))

A half-Cauchy prior of the functions' standard deviation makes it a posterior, on a grid of log lambda. The power r is
how smooth functions are thought to be: 1 is the penalty of the fit, larger ones are those of smoother classes. A class
that is too rough gives bands that hold smooth curves too often, so main effects are averaged over r as well.

The posterior of a coordinate is then a mixture of Gaussians with means ``q_i / (c_i + lambda w_i^r)``. Its mean, and
its variance (the mean of the variances, and the variance of the means: what Wood, Pya and Saefken 2016 call the
uncertainty of smoothing parameters) are those under two penalties, one of the mean and one of the variance, which leave
the correlations of coordinates to the data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.inference.implied_smoothing import SOFTEST, Group
from ahofm.inference.information import Information
from ahofm.tuning.bands import CENTRE, FACTOR_CENTRE, LINE_CENTRE, SHAPES, TOLD_APART

STIFFEST = 1e10
"""Upper bound of smoothing parameters, in the units that fits are made in."""

_SEEN = 1e-9
"""Of the largest information about a group's coefficients: those with less do not count as determined by data."""

_ROUNDS = 3
"""Each group given the others, all at once. 2 and 4 gave the same coverage on the designs of benchmarks.bands."""

_LEAST_FRACTION = 1e-3
"""Of a degree of freedom, left to functions that have next to none."""

_RIDGE = 1e-3
"""Of the information about each coordinate, where columns repeat each other."""

_GRID = np.arange(-18.0, 18.5, 0.75)
"""Of log lambda, around the centre of its prior."""

_WIDEST, _BISECTIONS = 60.0, 48
"""Of log lambda around the mean log ratio of information to penalty, and halvings of it, to 1e-12."""


@dataclass(frozen=True)
class Penalties:
    """Penalties (P,) of coordinates under which a Gaussian has the mean, and the variances, of the mixture."""

    mean: Floats
    variance: Floats


@dataclass(frozen=True)
class _Part:
    """One group: what does not change from round to round. Groups of equal length are arrays with a leading axis.

    Attributes
    ----------
    at : array of int of shape (m,)
        Coordinates.
    weight : array of shape (m,)
        Penalties, the smallest of a group 1.
    size : float
        Penalised square of the fit.
    centre : float
        Degrees of freedom at the scale of the prior.
    own : float
        How far the data tell the group's function from those of other columns, between 0 and 1.
    between : float
        Whether the variance of the means counts: 1 for main effects. Smoothing parameters of factors are uncertain
        mostly in how a term is divided among its factors, which does not change the term.
    shaped : bool
        Whether there are several shapes of the penalty: in main effects that bend.
    """

    at: NDArray[np.intp]
    weight: Floats
    size: Floats
    centre: Floats
    own: Floats
    between: Floats
    shaped: NDArray[np.bool_]


def averaged(
    information: Information, slope: Floats, theta: Floats, stiffness: Floats, groups: Sequence[Group]
) -> Penalties:
    """Penalties (P,) of the coordinates.

    Parameters
    ----------
    information : Information
        With a matrix for all coordinates of main effects.
    slope : array of shape (P,)
        Of the quadratic log-likelihood at zero: information times the fit, plus the score.
    theta : array of shape (P,)
        Coordinates of the fit.
    stiffness : array of shape (P,)
        Penalties of the coordinates, of which only ratios within a group matter.
    groups : sequence of Group
        Coordinates with one smoothing parameter each. Others keep their penalty.
    """
    known = information.diagonal
    batches = _batches(known, theta, stiffness, groups, _tolerance(information, groups))
    mean = _first(known, stiffness, batches)
    variance = mean.copy()
    for _ in range(_ROUNDS):
        variances, estimate = information.posterior(mean, slope)
        for batch in batches:
            mean[batch.at], variance[batch.at] = _updated(batch, variances, estimate, mean)
    return Penalties(mean, variance)


def fractions(known: Floats, theta: Floats, stiffness: Floats, groups: Sequence[Group]) -> Floats:
    """Degrees of freedom (P,) of each coordinate, as if the data about others were other data.

    Information about the coordinates (P,), the other arguments as those of :func:`averaged`.
    """
    lam = _first(known, stiffness, _batches(known, theta, stiffness, groups, np.ones_like(known)))
    return np.asarray(known / np.maximum(known + lam, np.finfo(float).tiny))


def _first(known: Floats, stiffness: Floats, batches: Sequence[_Part]) -> Floats:
    """Penalties (P,) to start from: those that the sizes of the functions imply, up to the centres of the priors."""
    found = stiffness.copy()
    for batch in batches:
        most = smoothing_parameters(batch.weight / known[batch.at], batch.centre)
        lam = np.clip(np.minimum(batch.at.shape[1] / batch.size, most), SOFTEST, STIFFEST)
        found[batch.at] = batch.weight * lam[:, np.newaxis]
    return found


def _batches(
    known: Floats, theta: Floats, stiffness: Floats, groups: Sequence[Group], tolerance: Floats
) -> list[_Part]:
    """Groups with the same number of coordinates together, each array with a leading axis."""
    found = defaultdict[tuple[int, bool], list[_Part]](list)
    for group in groups:
        at = group.at[known[group.at] > _SEEN * known[group.at].max()]
        if not len(at):
            continue
        square = np.maximum(theta[at] ** 2, np.finfo(float).tiny)
        weight = stiffness[at] / stiffness[at].min()
        own = np.average(tolerance[at], weights=square * known[at]) if group.main and not group.line else 1.0
        shaped = group.main and bool(np.ptp(weight) > 0.0)
        centre = (
            LINE_CENTRE if group.line else group.portion * min(CENTRE if group.main else FACTOR_CENTRE, 0.5 * len(at))
        )
        part = _Part(at, weight, *map(np.asarray, (weight @ square, centre, own, float(group.main), shaped)))
        found[len(at), shaped].append(part)
    return [_stacked(parts) for parts in found.values()]


def _stacked(parts: Iterable[_Part]) -> _Part:
    return _Part(*(np.stack(arrays) for arrays in zip(*(vars(part).values() for part in parts), strict=True)))


def _updated(batch: _Part, variances: Floats, estimate: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """Penalties (groups, m) of mean and variance, from the posterior under the present ones of the mean."""
    present, precision = mean[batch.at], 1.0 / variances[batch.at]
    c = np.maximum(precision - present, _SEEN * precision)
    inner, between = _mixture(c, precision * estimate[batch.at], batch)
    edf = np.maximum((1.0 - present / precision).sum(axis=1), _LEAST_FRACTION)
    # Where the data do not say which column has an effect, the fit does: Fellner and Schall's step with its function
    largest = batch.weight * (edf / batch.size)[:, np.newaxis]
    own = batch.own[:, np.newaxis]

    def penalty(variance: Floats) -> Floats:
        found = np.clip(1.0 / variance - c, SOFTEST, STIFFEST * batch.weight)
        return np.asarray(found**own * np.minimum(found, largest) ** (1.0 - own))

    return penalty(inner), penalty(inner + own * batch.between[:, np.newaxis] * between)


def _mixture(c: Floats, q: Floats, batch: _Part) -> tuple[Floats, Floats]:
    """Mean of the variances and variance of the means, (groups, m) each, over smoothing parameters and shapes.

    Parameters
    ----------
    c, q : arrays of shape (groups, m)
        Information about each coordinate, and slope at zero.
    batch : _Part
    """
    shapes = SHAPES if batch.shaped.all() else (1.0,)
    inverses, log_posteriors = [], []
    for shape in shapes:
        weight = batch.weight**shape
        centre = smoothing_parameters(weight / c, batch.centre)
        lam = (centre[:, np.newaxis] * np.exp(_GRID))[:, :, np.newaxis] * weight[:, np.newaxis]
        inverse = 1.0 / (c[:, np.newaxis] + lam)
        fit = (q**2)[:, np.newaxis] * inverse + np.log(lam * inverse)
        log_posteriors.append(0.5 * fit.sum(axis=2) - np.log(np.cosh(0.5 * _GRID)))
        inverses.append(inverse)
    log_posterior, inverse = np.concatenate(log_posteriors, axis=1), np.concatenate(inverses, axis=1)
    posterior = np.exp(log_posterior - log_posterior.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    inner = np.einsum("gt,gtm->gm", posterior, inverse)
    off = np.einsum("gt,gtm->gm", posterior, (inverse - inner[:, np.newaxis]) ** 2)
    return inner, q**2 * off


def smoothing_parameters(ratios: Floats, edf: Floats) -> Floats:
    """Lambda (groups,) with ``sum_i 1 / (1 + lambda ratio_i) = edf`` in each group, by bisection.

    Parameters
    ----------
    ratios : array of shape (groups, m)
        Of penalty to information, positive.
    edf : array of shape (groups,)
        Between 0 and m.
    """
    low = -np.log(ratios).mean(axis=1) - _WIDEST
    high = low + 2.0 * _WIDEST
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        beyond = (1.0 / (1.0 + np.exp(middle)[:, np.newaxis] * ratios)).sum(axis=1) > edf
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    return np.asarray(np.exp(0.5 * (low + high)))


def _tolerance(information: Information, groups: Sequence[Group]) -> Floats:
    """Root of the share of the information about a coordinate of main effects that the others do not have, over the one
    that is enough, between 0 and 1: (P,). Near 0 the data do not say which column has an effect, and the fit decides.
    """
    out = np.ones(len(information.diagonal))
    at = np.concatenate([group.at for group in groups if group.main] or [np.zeros(0, dtype=np.intp)])
    if len(at):
        own = np.searchsorted(information.at, at)
        scale = np.sqrt(np.maximum(information.diagonal[at], np.finfo(float).tiny))
        correlation = information.matrix[np.ix_(own, own)] / np.outer(scale, scale) + _RIDGE * np.eye(len(at))
        out[at] = 1.0 / np.sqrt(np.diag(np.linalg.inv(correlation)))
    return np.clip(out / TOLD_APART, 0.0, 1.0)
