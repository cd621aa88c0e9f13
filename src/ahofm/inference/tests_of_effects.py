"""P-values of main effects: is there one at all? After Wood (2013, Biometrika 100, 221-228 and 1005-1010).

One Gauss-Newton step from the fit, without the penalties of smooth main effects, gives estimates b whose covariance C
is known: without bias, they are normal around zero where a column has no main effect. With K the inverse of a column's
part of C and ``lambda W`` a penalty that leaves as many degrees of freedom as the fit has used, the statistic

    T = b' K (K + lambda W)^-1 K b

weights directions as the fit does. It is a weighted sum of independent chi-square variables, ``sum_i d_i chi2_1``, and
``sum_i d_i`` are the degrees of freedom. A straight line alone is the t-test of its slope, independent levels that the
fit has shrunk away are the score test of a variance component, and in between the least wiggly directions count most.
The rank of Wood's pseudo-inverse is the sharp version of these weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy import optimize, stats

from ahofm.columns.basis import Floats

_LEAST_WIGGLY = 0.5
"""Degrees of freedom, at least, of what is not a line: a curve that the fit has shrunk away must be able to show."""

_SEEN = 1e-6
"""Of the largest information about a column's coordinates: directions with less are no functions."""

_RIDGE = 1e-7
"""Of the mean information, for columns that repeat each other: which of them has the effect is then quite uncertain."""


@dataclass(frozen=True)
class Statistic:
    """A weighted sum of chi-square variables of one degree of freedom each, and its value."""

    value: float
    weights: Floats


def main_statistics(
    information: Floats,
    score: Floats,
    theta: Floats,
    penalty: Floats,
    at: Sequence[slice],
    stiffness: Sequence[Floats],
    edf: Floats,
) -> dict[int, Statistic]:
    """One statistic per column that has a main effect.

    Parameters
    ----------
    information : array of shape (P, P)
    score : array of shape (P,)
        Slopes of the log-likelihood at the fit.
    theta : array of shape (P,)
        Coordinates of the fit.
    penalty : array of shape (P,)
        Of what stays penalised: factors and levels. Smooth main effects do not.
    at : sequence of slices
        Where each column's main effect is.
    stiffness : sequence of arrays
        Of the coordinates of each; all zero for levels and lines.
    edf : array of shape (columns,)
        Effective degrees of freedom of the fitted main effects.
    """
    penalty = penalty.copy()
    for own, stiff in zip(at, stiffness, strict=True):
        if stiff.any() or len(stiff) == 1:
            penalty[own] = 0.0
    seen = information.copy()
    np.einsum("ii->i", seen)[:] += _RIDGE * np.trace(information) / len(information)
    penalised_seen = seen.copy()
    np.einsum("ii->i", penalised_seen)[:] += penalty
    root = scipy.linalg.cho_factor(penalised_seen, lower=True, overwrite_a=True, check_finite=False)
    estimate = theta + scipy.linalg.cho_solve(root, score - penalty * theta)
    mains = np.concatenate([np.arange(own.start, own.stop) for own in at] or [np.zeros(0, dtype=np.intp)]).astype(int)
    units = np.zeros((len(seen), len(mains)))
    units[mains, np.arange(len(mains))] = 1.0
    half = scipy.linalg.cho_solve(root, units, check_finite=False)
    covariance = half.T @ (seen @ half)
    found, start = {}, 0
    for j, (own, stiff) in enumerate(zip(at, stiffness, strict=True)):
        part = slice(start, start + len(stiff))
        start = part.stop
        if len(stiff):
            sizes, directions = np.linalg.eigh(information[own, own])
            functions = directions[:, sizes > _SEEN * sizes.max()]  # indicators of all levels add up to nothing
            weight = stiff / stiff[stiff > 0.0].mean() if stiff.any() else np.full(len(stiff), float(len(stiff) > 1))
            penalised = functions.T @ (weight[:, np.newaxis] * functions)
            found[j] = _statistic(
                functions.T @ estimate[own],
                functions.T @ covariance[part, part] @ functions,
                penalised,
                float(edf[j]),
            )
    return found


def _statistic(estimate: Floats, covariance: Floats, penalty: Floats, edf: float) -> Statistic:
    """``b' K (K + lambda W)^-1 K b`` and its weights under the hypothesis that there is no effect."""
    values, vectors = np.linalg.eigh(covariance)
    std = np.sqrt(np.maximum(values, np.finfo(float).eps * values.max()))
    unit = (vectors.T @ estimate) / std
    back = vectors * std
    ratios, turned = np.linalg.eigh(back.T @ penalty @ back)  # of penalty to information
    ratios = np.maximum(ratios, 0.0)
    lines = int((ratios <= 1e-9 * max(ratios.max(), np.finfo(float).tiny)).sum())
    wiggly = len(ratios) - lines
    weights = np.ones(len(ratios))
    if wiggly:
        wanted = float(np.clip(edf - lines, min(_LEAST_WIGGLY, 0.5 * wiggly), 0.999 * wiggly))
        bend = ratios[lines:]
        weights[lines:] = 1.0 / (1.0 + smoothing_parameter(bend, wanted) * bend)
    return Statistic(float(weights @ (turned.T @ unit) ** 2), weights)


def smoothing_parameter(ratios: Floats, edf: float) -> float:
    """Lambda that leaves so many effective degrees of freedom, ``sum 1 / (1 + lambda ratio)``.

    Ratios are those of penalties to information, all positive.
    """

    def beyond(log_parameter: float) -> float:
        return float((1.0 / (1.0 + np.exp(log_parameter) * ratios)).sum()) - edf

    centre = -float(np.log(ratios).mean())
    return float(np.exp(optimize.brentq(beyond, centre - 100.0, centre + 100.0)))


def p_value(statistics: Sequence[Statistic], residual: float | None) -> float:
    """Of the sum of independent statistics; with an estimated dispersion, of so many residual degrees of freedom."""
    value = sum(one.value for one in statistics)
    weights = np.concatenate([one.weights for one in statistics])
    if not value > 0.0:
        return 1.0
    if residual is None:
        return weighted_chi2_tail(weights, np.ones(len(weights)), value)
    return weighted_chi2_tail(np.append(weights, -value / residual), np.append(np.ones(len(weights)), residual), 0.0)


def weighted_chi2_tail(weights: Floats, dfs: Floats, value: float) -> float:
    """``P(sum_i weights_i chi2_{dfs_i} > value)`` by the saddlepoint approximation (Kuonen 1999).

    Weights of one size, all positive, are a chi-square distribution, and exact.
    """
    if np.ptp(weights) <= 1e-9 * np.abs(weights).max() and weights[0] > 0.0:
        return float(stats.chi2.sf(value / weights[0], dfs.sum()))
    scale = float(np.abs(weights).max())
    weights, value = weights / scale, value / scale

    def slope(s: float) -> float:
        return float((dfs * weights / (1.0 - 2.0 * weights * s)).sum()) - value

    top = 0.5 / weights.max() if weights.max() > 0.0 else np.inf
    low = 0.5 / weights.min() if weights.min() < 0.0 else -np.inf
    high = top * (1.0 - 1e-12)
    low = low * (1.0 - 1e-12) if np.isfinite(low) else -1.0
    while slope(low) > 0.0 and low > -1e12:
        low *= 4.0
    if slope(low) > 0.0:
        return 1.0
    s = float(optimize.brentq(slope, low, high, xtol=1e-15))
    cumulant = -0.5 * float((dfs * np.log1p(-2.0 * weights * s)).sum())
    second = 2.0 * float((dfs * (weights / (1.0 - 2.0 * weights * s)) ** 2).sum())
    w = float(np.sign(s) * np.sqrt(max(2.0 * (s * value - cumulant), 0.0)))
    v = s * np.sqrt(second)
    if abs(w) < 1e-4 or not v / w > 0.0:  # at the mean
        third = 8.0 * float((dfs * weights**3).sum())
        variance = 2.0 * float((dfs * weights**2).sum())
        return float(np.clip(0.5 - third / (6.0 * np.sqrt(2.0 * np.pi) * variance**1.5), 0.0, 1.0))
    return float(np.clip(stats.norm.sf(w + np.log(v / w) / w), 0.0, 1.0))
