"""Elementary symmetric polynomials of factors at rows, as columns change one after another.

    e_d = sum over all sets of d columns of the product of their curves
    its slope by the curve of one column is e_{d-1} of the others

Rows look their curves up at codes, so only the polynomials are kept, not the curves. Pairs also know the variance that
uncertain curves give to slopes and products.
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
        Of pairs whose curves count as uncertain.
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

    def _add(self, curve: Floats) -> None:
        for d in range(self.order - 1, 0, -1):
            self.e[d] += curve * self.e[d - 1]
        self.e[0] += curve

    def without(self, curve: Floats) -> list[Floats]:
        """``e_1 .. e_{order-1}`` of the other columns; the last one is the slope of the terms."""
        rest = [self.e[0] - curve]
        for d in range(1, self.order - 1):
            rest.append(self.e[d] - curve * rest[d - 1])
        return rest

    def change(self, rest: Sequence[Floats], difference: Floats) -> None:
        """Add something to the curve that ``rest`` is without."""
        self.e[0] += difference
        for d in range(1, self.order):
            self.e[d] += difference * rest[d - 1]


@dataclass
class Variances:
    """Sums over columns of the curves' variances v, of v times the curve, and of v times its square; of v squared."""

    v: Floats
    curve: Floats
    square: Floats
    own_square: Floats

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> Variances:
        """Of curves that are known."""
        return cls(*(np.zeros(shape) for _ in range(4)))

    def change(self, v: Floats, curve: Floats, sign: float) -> None:
        """Add a column's, or take it away."""
        own = sign * v
        self.v += own
        self.own_square += own * v
        own = own * curve
        self.curve += own
        self.square += own * curve

    def of_terms(self, e1: Floats) -> Floats:
        """Variance of ``e_2``: ``sum_j v_j (e_1 - curve_j)^2 + sum_{i<j} v_i v_j``."""
        return np.asarray(
            np.maximum(e1**2 * self.v - 2.0 * e1 * self.curve + self.square + 0.5 * (self.v**2 - self.own_square), 0.0)
        )
