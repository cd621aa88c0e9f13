"""P-values of main effects, of the hypothesis f_j = 0. After Wood (2013, Biometrika 100, 221-228 and 1005-1010).

One Gauss-Newton step from the fit, without the penalties of smooth main effects, gives estimates b whose covariance C
is known: they are unbiased, and normal with mean zero where a column has no main effect. With K the inverse of a
column's block of C and ``lambda W`` a penalty with as many effective degrees of freedom as the fit, the statistic

    T = b' K (K + lambda W)^-1 K b

weights directions as the fit does. It is a weighted sum of independent chi-square variables, ``sum_i d_i chi2_1``, and
``sum_i d_i`` are the degrees of freedom. For a straight line it is the t-test of the slope, for independent levels that
the fit has shrunk to zero the score test of a variance component; otherwise the least wiggly directions have the
largest weights. Wood's pseudo-inverse of rank edf has weights of 1 and 0 instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy import optimize, stats

from ahofm.columns.basis import Floats
from ahofm.priors.column import relative_eigenvalues
from ahofm.priors.edf import lam_with_edf

_LEAST_WIGGLY_DF, _MOST_WIGGLY_FRACTION = 0.5, 0.999
"""Least degrees of freedom of the penalised part: without them a curve that was shrunk to zero could not be tested; and
their largest fraction of the number of penalised directions, so that the smoothing parameter is positive."""

_RANK_TOLERANCE = 1e-6
"""Fraction of the largest eigenvalue of a column's information below which a direction is dropped."""

_INFORMATION_RIDGE = 1e-7
"""Fraction of the mean information, added to the diagonal: columns that repeat each other get large variances."""

_EQUAL_WEIGHTS, _UNPENALISED_RATIO = 1e-9, 1e-9
"""Relative range of weights that count as equal; fraction of the largest ratio of penalty to information up to which a
direction counts as unpenalised."""

_OPEN_INTERVAL, _SADDLEPOINT_TOL, _NEAR_MEAN = 1e-12, 1e-15, 1e-4
"""Of the saddlepoint approximation: relative distance from the ends of the interval on which the cumulant generating
function is finite, absolute tolerance of the saddlepoint, and the signed root w below which the limit at the mean is
used, where the formula is 0/0."""

_BRACKET_RATIO, _SMALLEST_SADDLEPOINT = 4.0, -1e12
"""Of the search for the lower end of an interval with the saddlepoint, where the cumulant generating function is finite
for all negative numbers: ratio of one number to the one before, and where it ends."""


@dataclass(frozen=True)
class Statistic:
    """Value of a test statistic, and its null distribution: a weighted sum of chi-square variables with 1 df each."""

    value: float
    weights: Floats


def main_statistics(
    information: Floats,
    score: Floats,
    theta: Floats,
    penalty: Floats,
    at: Sequence[slice],
    eigenvalues: Sequence[Floats],
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
        Penalties of the coordinates. Those of smooth main effects are set to zero; factors and levels keep theirs.
    at : sequence of slices
        Coordinates of each column's main effect.
    eigenvalues : sequence of arrays
        Relative penalties of the coordinates of each main effect; all zero for levels and lines.
    edf : array of shape (columns,)
        Effective degrees of freedom of the fitted main effects.
    """
    penalty = penalty.copy()
    for block, of_column in zip(at, eigenvalues, strict=True):
        if of_column.any() or len(of_column) == 1:
            penalty[block] = 0.0
    lifted = information.copy()
    np.einsum("ii->i", lifted)[:] += _INFORMATION_RIDGE * np.trace(information) / len(information)
    penalised = lifted.copy()
    np.einsum("ii->i", penalised)[:] += penalty
    root = scipy.linalg.cho_factor(penalised, lower=True, overwrite_a=True, check_finite=False)
    estimate = theta + scipy.linalg.cho_solve(root, score - penalty * theta)
    mains = np.concatenate([np.zeros(0, dtype=np.intp), *(np.arange(block.start, block.stop) for block in at)])
    units = np.zeros((len(lifted), len(mains)))
    units[mains, np.arange(len(mains))] = 1.0
    half = scipy.linalg.cho_solve(root, units, check_finite=False)
    covariance = half.T @ (lifted @ half)
    statistics, start = {}, 0
    for j, (block, of_column) in enumerate(zip(at, eigenvalues, strict=True)):
        local = slice(start, start + len(of_column))
        start = local.stop
        if len(of_column):
            sizes, directions = np.linalg.eigh(information[block, block])
            functions = directions[:, sizes > _RANK_TOLERANCE * sizes.max()]  # indicators of all levels are dependent
            levels = np.full(len(of_column), float(len(of_column) > 1))
            weight = relative_eigenvalues(of_column) if of_column.any() else levels
            of_directions = functions.T @ (weight[:, np.newaxis] * functions)
            statistics[j] = _statistic(
                functions.T @ estimate[block],
                functions.T @ covariance[local, local] @ functions,
                of_directions,
                float(edf[j]),
            )
    return statistics


def _statistic(estimate: Floats, covariance: Floats, penalty: Floats, edf: float) -> Statistic:
    """``b' K (K + lambda W)^-1 K b`` and its weights under the null hypothesis.

    With ``C = R R'`` and ``R' W R = Q diag(r) Q'``, the vector ``z = Q' R^-1 b`` is standard normal then, and the
    statistic is ``sum_i z_i^2 / (1 + lambda r_i)``.
    """
    values, vectors = np.linalg.eigh(covariance)
    std = np.sqrt(np.maximum(values, np.finfo(float).eps * values.max()))
    root = vectors * std  # R
    ratios, rotation = np.linalg.eigh(root.T @ penalty @ root)  # r and Q: ratios of penalty to information
    ratios = np.maximum(ratios, 0.0)
    n_lines = int((ratios <= _UNPENALISED_RATIO * max(ratios.max(), np.finfo(float).tiny)).sum())
    n_wiggly = len(ratios) - n_lines
    weights = np.ones(len(ratios))
    if n_wiggly:
        df = float(np.clip(edf - n_lines, min(_LEAST_WIGGLY_DF, 0.5 * n_wiggly), _MOST_WIGGLY_FRACTION * n_wiggly))
        penalised = ratios[n_lines:]
        (lam,) = lam_with_edf(penalised[np.newaxis], np.array([df]))
        weights[n_lines:] = 1.0 / (1.0 + lam * penalised)
    z = rotation.T @ ((vectors.T @ estimate) / std)
    return Statistic(float(weights @ z**2), weights)


def p_value(statistics: Sequence[Statistic], residual: float | None) -> float:
    """P-value of the sum of independent statistics; ``residual``: degrees of freedom of an estimated dispersion."""
    value = sum(statistic.value for statistic in statistics)
    weights = np.concatenate([statistic.weights for statistic in statistics])
    if not value > 0.0:
        return 1.0
    if residual is None:
        return weighted_chi2_tail(weights, np.ones(len(weights)), value)
    return weighted_chi2_tail(np.append(weights, -value / residual), np.append(np.ones(len(weights)), residual), 0.0)


def weighted_chi2_tail(weights: Floats, dfs: Floats, value: float) -> float:
    """``P(sum_i weights_i chi2_{dfs_i} > value)`` by the saddlepoint approximation (Kuonen 1999).

    With the cumulant generating function ``k(s) = -sum_i dfs_i log(1 - 2 weights_i s) / 2`` and the saddlepoint
    ``k'(s) = value``, the probability is about ``1 - Phi(w + log(v / w) / w)`` with ``w = sign(s) sqrt(2 (s value -
    k(s)))`` and ``v = s sqrt(k''(s))``. If all weights are equal and positive, the chi-square distribution is exact and
    used instead.
    """
    if np.ptp(weights) <= _EQUAL_WEIGHTS * np.abs(weights).max() and weights[0] > 0.0:
        return float(stats.chi2.sf(value / weights[0], dfs.sum()))
    scale = float(np.abs(weights).max())
    weights, value = weights / scale, value / scale

    def slope(s: float) -> float:
        return float((dfs * weights / (1.0 - 2.0 * weights * s)).sum()) - value

    top = 0.5 / weights.max() if weights.max() > 0.0 else np.inf
    low = 0.5 / weights.min() if weights.min() < 0.0 else -np.inf
    high = top * (1.0 - _OPEN_INTERVAL)
    low = low * (1.0 - _OPEN_INTERVAL) if np.isfinite(low) else -1.0
    while slope(low) > 0.0 and low > _SMALLEST_SADDLEPOINT:
        low *= _BRACKET_RATIO
    if slope(low) > 0.0:
        return 1.0
    s = float(optimize.brentq(slope, low, high, xtol=_SADDLEPOINT_TOL))
    cumulant = -0.5 * float((dfs * np.log1p(-2.0 * weights * s)).sum())
    second = 2.0 * float((dfs * (weights / (1.0 - 2.0 * weights * s)) ** 2).sum())
    w = float(np.sign(s) * np.sqrt(max(2.0 * (s * value - cumulant), 0.0)))
    v = s * np.sqrt(second)
    if abs(w) < _NEAR_MEAN or not v / w > 0.0:  # at the mean
        third = 8.0 * float((dfs * weights**3).sum())
        variance = 2.0 * float((dfs * weights**2).sum())
        return float(np.clip(0.5 - third / (6.0 * np.sqrt(2.0 * np.pi) * variance**1.5), 0.0, 1.0))
    return float(np.clip(stats.norm.sf(w + np.log(v / w) / w), 0.0, 1.0))
