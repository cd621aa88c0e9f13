"""Lower bounds of what factors add to a linear predictor as one column increases, over all values of the others.

Between two neighbouring codes of a column, functions ``phi_f`` change by ``d_f``, and factors by

    sum_f loading_f d_f E_f(others)        E_f = e_{order-1} of the other columns, or their product

A lower bound over all values of the others is exact for pairs, where it is a sum over partners of minima over one
column. Triples have a minimum for each pair of partners where that is cheap enough. Other orders, and products, have
intervals of ``E_f``, factor by factor. Values of a partner are control points (Bernstein coefficients) of its pieces,
which bound a polynomial between breaks too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.kernels.curves import Curves, LevelCurves, NumberCurves
from ahofm.orders import PRODUCT, Orders
from ahofm.tuning.constraints import MOST_TRIPLE_PRODUCTS


def control_points(curves: NumberCurves | LevelCurves) -> Floats:
    """Points (m, width) whose convex hull holds all values of a column's functions; constant ones count once."""
    if isinstance(curves, LevelCurves):
        return np.unique(curves.values, axis=0)
    circle = curves.period is not None
    low, high = (0.0, 1.0) if circle else (-np.inf, np.inf)
    ends = np.concatenate([[low], curves.breaks, [high]])
    found = [curves.missing[np.newaxis]]
    degree = curves.degree
    for k, values in enumerate(curves.values):
        bounded = np.isfinite(ends[k]) and np.isfinite(ends[k + 1])
        if not bounded or curves.scales[k] == 0.0:
            found.append(values[:1])  # constant outside the range
            continue
        a, b = ends[k] * curves.scales[k] - curves.shifts[k], ends[k + 1] * curves.scales[k] - curves.shifts[k]
        found.append(_bernstein(degree, a, b) @ values)
    return np.unique(np.vstack(found), axis=0)


def _bernstein(degree: int, a: float, b: float) -> Floats:
    """Matrix from coefficients of ``t^m`` to Bernstein coefficients on [a, b]."""
    moved = np.array(
        [
            [comb(q, m) * a ** (q - m) * (b - a) ** m if q >= m else 0.0 for q in range(degree + 1)]
            for m in range(degree + 1)
        ]
    )
    lifted = np.array(
        [[comb(i, m) / comb(degree, m) if i >= m else 0.0 for m in range(degree + 1)] for i in range(degree + 1)]
    )
    return np.asarray(lifted @ moved)


class Falls:
    """Bounds of what factors take away between neighbouring codes of one column.

    Parameters
    ----------
    curves : Curves
        The linear predictor at true values.
    column : int
    """

    def __init__(self, curves: Curves, column: int) -> None:
        """Control points of all other columns."""
        self._orders, self._loadings = Orders(curves.orders), curves.loadings
        self._partners = [
            control_points(column_curves) for j, column_curves in enumerate(curves.columns) if j != column
        ]

    def of(self, steps: Floats) -> Floats:
        """Least change (steps,) by all factors, at most 0, from changes of the column's functions (steps, width)."""
        found = np.zeros(len(steps))
        for order, part in self._orders.slices.items():
            change = steps[:, part] * self._loadings[order]
            used = change.any(axis=0)
            if used.any():
                partners = [np.unique(points[:, part][:, used], axis=0) for points in self._partners]
                found += np.minimum(_least(order, change[:, used], partners), 0.0)
        return found


def _least(order: int, change: Floats, partners: Sequence[Floats]) -> Floats:
    if order == 2:
        return np.asarray(sum(((change @ points.T).min(axis=1) for points in partners), start=np.zeros(len(change))))
    low = np.array([points.min(axis=0) for points in partners])
    high = np.array([points.max(axis=0) for points in partners])
    ends = _product(low, high) if order == PRODUCT else _symmetric(low, high, order - 1)
    least = np.minimum(change * ends[0], change * ends[1]).sum(axis=1)
    if order == 3:
        sizes = [len(points) for points in partners]
        pairs = sum(a * b for a, b in combinations(sizes, 2))
        if pairs * change.size <= MOST_TRIPLE_PRODUCTS:
            return np.asarray(np.maximum(least, _triples(change, partners)))
    return np.asarray(least)


def _triples(change: Floats, partners: Sequence[Floats]) -> Floats:
    """Sum over pairs of partners of the minimum over both."""
    found = np.zeros(len(change))
    for first, second in combinations(partners, 2):
        found += [float(((first * step) @ second.T).min()) for step in change]
    return found


def _times(a: tuple[Floats, Floats], b: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Product of two intervals."""
    ends = np.array([x * y for x in a for y in b])
    return ends.min(axis=0), ends.max(axis=0)


def _product(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    found = np.ones(low.shape[1]), np.ones(low.shape[1])
    for interval in zip(low, high, strict=True):
        found = _times(found, interval)
    return found


def _symmetric(low: Floats, high: Floats, order: int) -> tuple[Floats, Floats]:
    """Interval of the elementary symmetric polynomial of an order: the recursion over columns, in intervals."""
    zero = np.zeros(low.shape[1])
    found = [(zero + 1.0, zero + 1.0), *((zero, zero) for _ in range(order))]
    for interval in zip(low, high, strict=True):
        for d in range(order, 0, -1):
            more = _times(found[d - 1], interval)
            found[d] = found[d][0] + more[0], found[d][1] + more[1]
    return found[order]
