"""Elementary symmetric polynomials of factors at rows, as columns change one after another.

    e_d = sum over all sets of d columns of the product of their curves
    its slope by the curve of one column is e_{d-1} of the others

Curves at rows are looked up by code, so that only the polynomials are stored. For pairs and triples there are also the
variances of slopes and terms that follow from those of the curves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ahofm.columns.basis import Floats


class Polynomials:
    """Factors of one order.

    Attributes
    ----------
    order : int
    e : list of arrays of shape (n, rank)
        ``e_1 .. e_order``.
    variances : Variances or None
        Of pairs and triples whose curves count as uncertain.
    """

    def __init__(self, order: int, curves: Sequence[Floats]) -> None:
        """From the curves of all columns at the rows, each (n, rank)."""
        self.order = order
        self.e = [np.zeros_like(curves[0]) for _ in range(order)]
        for curve in curves:
            self._add(curve)
        self.variances: Variances | None = None

    @property
    def terms(self) -> Floats:
        """``e_order``: (n, rank)."""
        return self.e[-1]

    def term_variances(self) -> Floats | None:
        """Variance of the terms, (n, rank); None where variances of curves are not used."""
        if self.variances is None:
            return None
        return self.variances.of_pairs(self.e[0]) if self.order == 2 else self.variances.of_triples(*self.e[:2])

    def slope_variances(self, others_e: Sequence[Floats], v: Floats, curve: Floats) -> tuple[Floats, Floats]:
        """Variance of the slope by one column, and its covariance with the terms of the others; v is the column's."""
        assert self.variances is not None
        others = self.variances.without(v, curve)
        slope_variance = others.moments[0] if self.order == 2 else others.of_pairs(others_e[0])
        return slope_variance, others.covariance(others_e)

    def _add(self, curve: Floats) -> None:
        for d in range(self.order - 1, 0, -1):
            self.e[d] += curve * self.e[d - 1]
        self.e[0] += curve

    def without(self, curve: Floats) -> list[Floats]:
        """``e_1 .. e_{order-1}`` of the other columns; the last one is the slope of the terms."""
        others_e = [self.e[0] - curve]
        for d in range(1, self.order - 1):
            others_e.append(self.e[d] - curve * others_e[d - 1])
        return others_e

    def change(self, others_e: Sequence[Floats], difference: Floats) -> None:
        """Add ``difference`` (n, rank) to the curve of the column that is not in ``others_e``."""
        self.e[0] += difference
        for d in range(1, self.order):
            self.e[d] += difference * others_e[d - 1]


@dataclass
class Variances:
    """Variances of slopes and terms from those of the curves, for pairs and triples.

    Attributes
    ----------
    moments : list of arrays of shape (n, rank)
        Sums over columns of ``v curve^k``, k = 0, 1, ..., with v the curves' variances.
    squares : array of shape (n, rank)
        Sum of ``v^2``.
    """

    moments: list[Floats]
    squares: Floats

    @classmethod
    def none(cls, order: int, shape: tuple[int, ...]) -> Variances:
        """Zero variances."""
        return cls([np.zeros(shape) for _ in range(2 * order - 1)], np.zeros(shape))

    def change(self, v: Floats, curve: Floats, sign: float) -> None:
        """Add (sign 1) or subtract (sign -1) the variances of a column."""
        moment_of_column = sign * v
        self.squares += moment_of_column * v
        for k in range(len(self.moments)):
            self.moments[k] += moment_of_column
            moment_of_column = moment_of_column * curve

    def without(self, v: Floats, curve: Floats) -> Variances:
        """Variances without those of one column."""
        moment_of_column, moments = v, []
        for moment in self.moments:
            moments.append(moment - moment_of_column)
            moment_of_column = moment_of_column * curve
        return Variances(moments, self.squares - v * v)

    def of_pairs(self, e1: Floats) -> Floats:
        """Variance of ``e_2``: ``sum_j v_j (e_1 - curve_j)^2 + sum_{i<j} v_i v_j``."""
        m0, m1, m2 = self.moments[:3]
        return np.asarray(np.maximum(e1**2 * m0 - 2.0 * e1 * m1 + m2 + 0.5 * (m0**2 - self.squares), 0.0))

    def of_triples(self, e1: Floats, e2: Floats) -> Floats:
        """Variance of ``e_3`` to first order: ``sum_j v_j (e_2 - curve_j e_1 + curve_j^2)^2``."""
        m0, m1, m2, m3, m4 = self.moments
        return np.asarray(
            np.maximum(e2**2 * m0 - 2.0 * e1 * e2 * m1 + (e1**2 + 2.0 * e2) * m2 - 2.0 * e1 * m3 + m4, 0.0)
        )

    def covariance(self, e: Sequence[Floats]) -> Floats:
        """Covariance, to first order, of ``e_1`` with ``e_2``; of ``e_2`` with ``e_3`` where ``e_2`` is given."""
        m0, m1 = self.moments[:2]
        if len(e) == 1:
            return np.asarray(e[0] * m0 - m1)
        e1, e2 = e
        return np.asarray(e1 * e2 * m0 - (e1**2 + e2) * m1 + 2.0 * e1 * self.moments[2] - self.moments[3])
