"""Functions of a number as polynomials between breaks: what prediction evaluates, at any number, without their basis.

Knows no kinds and no rows; every numeric basis turns itself into pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

LINE_REACH = 1_000.0
"""How far a line goes on beyond the training range, in widths of that range: products with any number stay finite."""


@dataclass(frozen=True)
class Pieces:
    """Piecewise polynomials; the piece of x is the number of breaks at or below x.

    Function i on piece k is ``sum_m powers[m][k, i] t^m`` with ``t = x * scales[k] - shifts[k]``. Scales are powers of
    two (or 0 where the functions are constant): the product has no rounding error, t is about 0..1 on the piece, and
    neither a piece as wide as all numbers nor one as narrow as the smallest overflows.

    Attributes
    ----------
    breaks : array of shape (pieces - 1,)
        Increasing.
    scales, shifts : arrays of shape (pieces,)
    powers : tuple of sparse arrays of shape (pieces, size)
        Coefficients of t^0, t^1, ...; sparse, since few functions live on a piece.
    start, period : float, optional
        With a period, x is first turned into its share of a turn that begins at ``start``; breaks are shares, too.
    """

    breaks: NDArray[np.float64]
    scales: NDArray[np.float64]
    shifts: NDArray[np.float64]
    powers: tuple[Any, ...]
    start: float = 0.0
    period: float | None = None

    @property
    def size(self) -> int:
        """Number of functions."""
        return int(self.powers[0].shape[1])

    @property
    def degree(self) -> int:
        """Highest power."""
        return len(self.powers) - 1

    def evaluate(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Evaluate the functions, the obvious way.

        Parameters
        ----------
        x : array of shape (n,)
            Values without missing ones.

        Returns
        -------
        array of shape (n, size)
            Values of the functions.
        """
        x = x if self.period is None else turn(x, self.start, self.period)
        at = np.searchsorted(self.breaks, x, side="right")
        t = x * self.scales[at] - self.shifts[at]
        values = np.zeros((len(x), self.size))
        for power in reversed(self.powers):
            values = values * t[:, np.newaxis] + power[at].toarray()
        return values

    def split(self, breaks: NDArray[np.float64]) -> Pieces:
        """Cut pieces at more breaks.

        Every piece is expanded about its beginning, the first about its end: on equal breaks all agree where t = 0.

        Parameters
        ----------
        breaks : array of shape (m,)
            Where pieces are cut.

        Returns
        -------
        Pieces
            The same functions.
        """
        union = np.unique(np.concatenate([self.breaks, breaks]))
        parent = np.append(0, np.searchsorted(self.breaks, union, side="right"))
        origin = np.append(union[:1], union)
        scales = self.scales[parent]
        move = origin * scales - self.shifts[parent]
        cut, powers = [power[parent] for power in self.powers], []
        for m in range(self.degree + 1):
            terms = [_scaled(cut[q], comb(q, m) * move ** (q - m)) for q in range(m + 1, self.degree + 1)]
            powers.append(sp.csr_array(sum(terms, start=cut[m])))
        return Pieces(union, scales, origin * scales, tuple(powers))

    def bounded(self, low: float, high: float, degree: int) -> Pieces:
        """Replace the functions outside an interval.

        Parameters
        ----------
        low, high : float
            An interval that holds all breaks.
        degree : int
            Highest power outside of it: 0 is the value at the border, 1 the tangent there.

        Returns
        -------
        Pieces
            The same functions inside.
        """
        cut = self.split(np.array([low, high]))
        inner = np.ones(len(cut.scales))
        inner[[0, -1]] = 0.0
        powers = tuple(power if m <= degree else _scaled(power, inner) for m, power in enumerate(cut.powers))
        if degree > 0:
            return Pieces(cut.breaks, cut.scales, cut.shifts, powers)
        return Pieces(cut.breaks, cut.scales * inner, cut.shifts * inner, powers)

    def with_lines(self, intervals: NDArray[np.float64]) -> Pieces:
        """Replace the functions on intervals by lines between their values at both ends.

        Parameters
        ----------
        intervals : array of shape (m, 2)
            Disjoint and increasing.

        Returns
        -------
        Pieces
            The same functions elsewhere, cut at the ends of the intervals.
        """
        if not len(intervals):
            return self
        cut, (low, high) = self.split(intervals.ravel()), intervals.T
        first, last = np.searchsorted(cut.breaks, [low, high]) + 1  # the pieces that begin at the ends
        at = np.repeat(np.arange(len(intervals)), last - first)
        inner = np.concatenate([np.arange(*ends) for ends in zip(first, last, strict=True)])
        starts, scales = cut.breaks[inner - 1], cut.scales[inner]
        rise = cut.powers[0][last[at]] - cut.powers[0][first[at]]
        width = high[at] * scales - low[at] * scales
        lines = (
            cut.powers[0][first[at]] + _scaled(rise, (starts * scales - low[at] * scales) / width),
            _scaled(rise, 1.0 / width),
        )
        kept = np.ones(len(cut.scales))
        kept[inner] = 0.0
        place = sp.csr_array((np.ones(len(inner)), (inner, np.arange(len(inner)))), shape=(len(kept), len(inner)))
        powers = [_scaled(power, kept) for power in cut.powers]
        for m, line in enumerate(lines):
            powers[m] = sp.csr_array(powers[m] + place @ line)
        return Pieces(cut.breaks, cut.scales, cut.shifts, tuple(powers))

    def beside(self, other: Pieces) -> Pieces:
        """Put two sets of functions side by side.

        Parameters
        ----------
        other : Pieces
            Without a period.

        Returns
        -------
        Pieces
            These functions, then the others, on the breaks of both (at least one).
        """
        mine, theirs = self.split(other.breaks), other.split(self.breaks)
        scales = np.maximum(mine.scales, theirs.scales)
        shifts = np.where(mine.scales >= theirs.scales, mine.shifts, theirs.shifts)
        powers = []
        for m in range(max(self.degree, other.degree) + 1):
            blocks = [part._power(m, scales) for part in (mine, theirs)]
            powers.append(sp.csr_array(sp.hstack(blocks, format="csr")))
        return Pieces(mine.breaks, scales, shifts, tuple(powers))

    def _power(self, m: int, scales: NDArray[np.float64]) -> Any:
        """Coefficients of t^m on finer scales."""
        if m > self.degree:
            return sp.csr_array((len(scales), self.size))
        ratio = np.divide(self.scales, scales, out=np.zeros_like(scales), where=scales > 0.0)
        return self.powers[m] if (ratio == 1.0).all() else _scaled(self.powers[m], ratio**m)


def _scaled(matrix: Any, factors: NDArray[np.float64]) -> Any:
    """A sparse matrix with each row multiplied by a number; a tenth of the time of a product with a diagonal matrix."""
    data = matrix.data * np.repeat(factors, np.diff(matrix.indptr))
    return sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def turn(x: NDArray[np.float64], start: float, period: float) -> NDArray[np.float64]:
    """Share of a turn that has passed at ``x``, in [0, 1)."""
    part = np.mod(x, period) - np.mod(start, period)
    fraction = np.mod(part / period, 1.0)
    return np.where(fraction >= 1.0, 0.0, fraction)  # the remainder of a tiny negative number rounds to 1


def exponent_of_width(low: NDArray[np.float64] | float, high: NDArray[np.float64] | float) -> NDArray[np.int64]:
    """The least e with ``high - low <= 2^e``, also where the difference overflows."""
    with np.errstate(over="ignore"):
        width = np.subtract(high, low)
    plain, halves = np.frexp(width)[1], np.frexp(np.divide(high, 2) - np.divide(low, 2))[1] + 1
    return np.asarray(np.where(np.isfinite(width), plain, halves), dtype=np.int64)


def scale_of_exponent(exponent: NDArray[np.int64]) -> NDArray[np.float64]:
    """``2^-exponent``, as far as there are such numbers."""
    return np.asarray(np.ldexp(1.0, -np.clip(exponent, -1023, 1022)), dtype=np.float64)


def line_ends(low: float, high: float) -> tuple[float, float]:
    """Where lines beyond a range end, and functions are constant: far off, but finite for every number."""
    most = float(np.finfo(np.float64).max)
    with np.errstate(over="ignore"):
        reach = LINE_REACH * (np.float64(high) - np.float64(low))
        return max(float(low - reach), -most), min(float(high + reach), most)


def bspline_powers(
    knots: NDArray[np.float64], degree: int, at: NDArray[np.float64], rate: NDArray[np.float64], size: int
) -> tuple[Any, ...]:
    """B-splines as polynomials in ``t = (u - at) * rate`` on the knot interval that holds ``at``, one piece each.

    Cox and de Boor's recursion on polynomials: every factor is a line with values in [0, 1] on the interval, where
    derivatives at the knots overflow when knots are close. Functions from ``size`` on are those from 0 on: a circle.
    """
    left = np.clip(np.searchsorted(knots, at, side="right") - 1, degree, len(knots) - degree - 2)
    around = (knots[left[:, np.newaxis] + np.arange(1 - degree, degree + 1)] - at[:, np.newaxis]) * rate[:, np.newaxis]
    values = np.zeros((degree + 1, degree + 1, len(at)))  # (power, function, piece)
    values[0, 0] = 1.0
    for d in range(1, degree + 1):
        before, values = values, np.zeros_like(values)
        for r in range(d):  # the function of degree d - 1 between the knots a and b is shared out to two of degree d
            a, b = around[:, degree - d + r], around[:, degree + r]
            values[:, r] += b / (b - a) * before[:, r]
            values[1:, r] -= before[:-1, r] / (b - a)
            values[:, r + 1] -= a / (b - a) * before[:, r]
            values[1:, r + 1] += before[:-1, r] / (b - a)
    rows = np.tile(np.arange(len(at)), degree + 1)
    cells = ((left - degree) + np.arange(degree + 1)[:, np.newaxis]).ravel() % size
    return tuple(sp.csr_array((power.ravel(), (rows, cells)), shape=(len(at), size)) for power in values)
