"""Penalised B-splines: smooth columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import BSpline

from ahofm.columns.basis import BasisOutside, Floats, Outside, Penalty, Sparse, basis_outside, fraction
from ahofm.columns.kind import NumericKind, Support, check_at_least, check_outside
from ahofm.columns.piecewise import Pieces, bspline_powers, exponent_of_width, scale_of_exponent

_CLOSEST = 1e-50
"""Distance of knots, as a fraction of the range, whose inverse has finite powers up to the sixth."""

_UNEVEN = 10.0
"""Between knots that are farther apart, or closer, than so many times the median, a derivative is taken as if they
were not.
"""

_WIDE_GAP = 3.0
"""Between neighbouring values that are farther apart than so many times the spacing beside them, or the median spacing,
functions are lines.

There the slope of a spline is that of close values times a long way. All rows of a value left out of the fit and
predicted, columns of 4 to 80 distinct values in twelve data sets, spacing beside the gap: Concrete's ages .65 of the
splines' error, Yacht's columns .80 to 1.00, Energy's the same (.56 to 1.00 with 2), Maternal health 1.03 in one column;
evenly spaced values keep the spline, which has half the error of lines there (Yacht's Froude number). Errors of 2 and 8
standard deviations of the target are gone. The median spacing as well, nine of these sets: .995 (.85 to 1.02 by
column); Concrete's prediction for 240 days was 47 where those for 180 and 270 are 37 and 40.
"""

_LEAST_GAP = 1e-6
"""Least width of such a gap, as a fraction of the range."""


@dataclass(frozen=True)
class Spline(NumericKind):
    """A B-spline with a penalty on a derivative; a line between values that are far apart, where rows say no more.

    Parameters
    ----------
    n_basis : int, optional
        Number of functions, 20 by default; a column with fewer distinct values gets as many as it has.
    degree : int
        Degree of the polynomial pieces.
    penalty_order : int
        Order of the derivative whose square is penalised: with 2, lines are free.
    knots : "quantile", "uniform" or array
        Where the inner knots lie: at quantiles of the distinct values, evenly, or at the given places.
    outside : "auto", "clamp" or "linear"
        Outside the training range: "clamp" is the value at the border, "linear" the tangent there. "auto" is
        "clamp", except that a main effect that is a line in training goes on as one.
    max_codes : int, optional
        Overrides the table's ``max_codes`` for this column.

    Examples
    --------
    >>> import numpy as np
    >>> from ahofm import AHOFMRegressor, Spline
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, size=(200, 1))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = AHOFMRegressor(order=1, columns=Spline(n_basis=12), random_state=0).fit(X, y)
    >>> model.predict([[0.25], [0.75]]).round(1)
    array([ 1., -1.])
    """

    n_basis: int | None = None
    degree: int = 3
    penalty_order: int = 2
    knots: Literal["quantile", "uniform"] | tuple[float, ...] = "quantile"
    outside: Outside = "auto"
    max_codes: int | None = None

    def __post_init__(self) -> None:
        """Keep given knots as a tuple, so that kinds stay comparable and hashable."""
        if not isinstance(self.knots, str):
            object.__setattr__(self, "knots", knots_as_tuple(self.knots))

    def validate(self) -> None:
        """Raise ValueError when a setting makes no sense."""
        super().validate()
        check_at_least(self, "n_basis", self.n_basis, 2)
        check_at_least(self, "degree", self.degree, 1)
        check_at_least(self, "penalty_order", self.penalty_order, 1)
        check_outside(self, self.outside)
        if isinstance(self.knots, str):
            if self.knots not in ("quantile", "uniform"):
                raise ValueError(f"Spline: knots must be 'quantile', 'uniform' or an array, got {self.knots!r}")
        elif any(self.knots.count(knot) > self.degree + 1 for knot in self.knots):
            raise ValueError(f"Spline: a knot is repeated more than {self.degree + 1} times, got {self.knots!r}")
        elif self.n_basis is not None and self.n_basis != len(self.knots) + self.degree + 1:
            raise ValueError(
                f"Spline: {len(self.knots)} inner knots of degree {self.degree} make "
                f"{len(self.knots) + self.degree + 1} functions, but n_basis={self.n_basis}; leave n_basis out"
            )

    def learn(self, support: Support) -> SplineBasis:
        """Place the knots on the support."""
        low, high = _inside(support)
        unit = np.unique(_apart(fraction(support.values, low, high)))
        if isinstance(self.knots, str):
            size = max(min(self.n_basis or 20, len(unit)), 2)
            degree = min(self.degree, size - 1)
            places = np.linspace(0.0, 1.0, size - degree + 1)[1:-1]
            inner = np.quantile(unit, places) if self.knots == "quantile" else places
        else:
            degree = self.degree
            given = np.asarray(self.knots, dtype=np.float64)
            beyond = given[(given <= low) | (given >= high)]
            if beyond.size:
                raise ValueError(f"knot {beyond[0]:g} is not inside the data's range ({low:g}, {high:g}); leave it out")
            inner = _apart(fraction(given, low, high))
        inner = inner[(inner > 0.0) & (inner < 1.0)]
        knots = np.concatenate([np.zeros(degree + 1), inner, np.ones(degree + 1)])
        size = len(knots) - degree - 1
        penalty_order, outside = min(self.penalty_order, size - 1), basis_outside(self.outside)
        return SplineBasis(low, high, knots, degree, penalty_order, outside, _wide_gaps(support, low, high, size))


def _wide_gaps(support: Support, low: float, high: float, size: int) -> tuple[tuple[float, float], ...]:
    """Gaps between neighbouring distinct values that are wide beside the spacing next to them, as pairs of values.

    The spacing is that of neighbours, or of as many values as share a function where there are more values than that;
    or the median one, of as many values.
    """
    values = np.asarray(support.values, dtype=np.float64)
    if not support.exact or len(values) < 3:
        return ()
    unit, share, last = fraction(values, low, high), max(round(len(values) / size), 1), len(values) - 1
    left = np.arange(last)
    before = np.where(left > 0, unit[left] - unit[np.maximum(left - share, 0)], np.inf)
    after = np.where(left + 1 < last, unit[np.minimum(left + 1 + share, last)] - unit[left + 1], np.inf)
    steps = np.diff(unit)
    spacing = np.minimum(np.minimum(before, after), share * np.median(steps))
    wide = steps > np.maximum(_WIDE_GAP * spacing, _LEAST_GAP)
    return tuple(zip(values[:-1][wide].tolist(), values[1:][wide].tolist(), strict=True))


def _inside(support: Support) -> tuple[float, float]:
    """The range of the data, but no more than two codes beyond the first and last.

    Outliers farther off are outside: training sees them at the mean of a bin, and beyond it a curve would be free.
    """
    values = np.asarray(support.values, dtype=np.float64)
    first, last = values[0], values[-1]
    with np.errstate(over="ignore"):
        below, above = 2.0 * (values[1] - first), 2.0 * (last - values[-2])
        low = support.low if first - support.low <= below else first
        high = support.high if support.high - last <= above else last
    return float(low), float(high)


def _apart(unit: Floats) -> Floats:
    """Numbers in [0, 1] that are equal to zero or far enough from it: powers of the inverse distance are finite."""
    return np.where(unit < _CLOSEST, 0.0, unit)


def knots_as_tuple(knots: ArrayLike) -> tuple[float, ...]:
    """Sorted finite knots."""
    places = np.asarray(knots, dtype=np.float64)
    if places.ndim != 1 or places.size == 0 or not np.isfinite(places).all():
        raise ValueError(f"Spline: knots must be 'quantile', 'uniform' or a list of finite numbers, got {knots!r}")
    return tuple(float(k) for k in np.sort(places))


@dataclass(frozen=True)
class SplineBasis:
    """B-splines on ``(x - low) / (high - low)``, whose knots are on that unit scale; lines on some intervals.

    Attributes
    ----------
    low, high : float
    knots : array of shape (functions + degree + 1,)
    degree, penalty_order : int
    outside : "clamp" or "linear"
    gaps : tuple of (low, high)
        Disjoint increasing intervals, on which every function is the line between its values at both ends.
    """

    low: float
    high: float
    knots: Floats
    degree: int
    penalty_order: int
    outside: BasisOutside
    gaps: tuple[tuple[float, float], ...] = ()

    @property
    def size(self) -> int:
        """Number of functions."""
        return len(self.knots) - self.degree - 1

    @property
    def penalties(self) -> tuple[Penalty, ...]:
        """The squared derivative, over the range."""
        root = self._roughness
        return (Penalty("roughness", sp.csr_array(root.T @ root)),)

    @property
    def constant(self) -> Floats:
        """B-splines sum to one."""
        return np.ones(self.size)

    @property
    def null_space(self) -> Floats:
        """Polynomials of lower degree than the derivative; of each part, where knots part the range."""
        return np.asarray(scipy.linalg.null_space(self._roughness.toarray(), rcond=1e-9))

    @property
    def _roughness(self) -> Sparse:
        return roughness_root(_measured(self.knots), self.degree, self.penalty_order)

    def evaluate(self, x: NDArray[Any]) -> Sparse:
        """Functions at ``x``."""
        x, (lows, highs) = np.asarray(x, dtype=np.float64), self._gap_ends.T
        gap = np.searchsorted(lows, x) - 1  # the last one that begins before x
        inner = np.flatnonzero((gap >= 0) & (x < np.append(highs, -np.inf)[gap]))
        if not inner.size:
            return self._splines(x)
        low, high, outer = lows[gap[inner]], highs[gap[inner]], np.setdiff1d(np.arange(len(x)), inner)
        weight = fraction(x[inner], low, high)
        lines = sp.diags_array(1.0 - weight) @ self._splines(low) + sp.diags_array(weight) @ self._splines(high)
        stacked = sp.csr_array(sp.vstack([self._splines(x[outer]), lines], format="csr"))
        return sp.csr_array(stacked[np.argsort(np.concatenate([outer, inner]))])

    @property
    def _gap_ends(self) -> Floats:
        return np.array(self.gaps, dtype=np.float64).reshape(-1, 2)

    def _splines(self, x: Floats) -> Sparse:
        """B-splines at ``x``, also in the gaps."""
        unit = fraction(x, self.low, self.high)
        inside = np.clip(unit, 0.0, 1.0)
        values = sp.csr_array(BSpline.design_matrix(inside, self.knots, self.degree))
        if self.outside == "clamp" or np.array_equal(unit, inside):
            return values
        slopes = BSpline(self.knots, np.eye(self.size), self.degree)(np.array([0.0, 1.0]), nu=1)
        beyond = np.column_stack([np.minimum(unit, 0.0), np.maximum(unit - 1.0, 0.0)])
        return sp.csr_array(values + sp.csr_array(beyond) @ sp.csr_array(slopes))

    def pieces(self) -> Pieces:
        """Between the knots, and beyond the range."""
        places = np.unique(self.knots)
        breaks = np.unique(_first_to_reach(places[1:-1], self.low, self.high))
        starts = np.append(self.low, breaks)
        unit = fraction(starts, self.low, self.high)
        room = places[np.minimum(np.searchsorted(places, unit, side="right"), len(places) - 1)] - unit
        room = np.where(room > 0.0, room, 1.0)  # a piece that begins at the right end has none and needs none
        scales = scale_of_exponent(exponent_of_width(self.low, self.high) + np.frexp(room)[1])
        # Where numbers are finer than fractions of the range, the last of a piece could lie beyond it: keep it inside.
        ends = np.append(np.nextafter(breaks, -np.inf), self.high)
        rates = np.maximum(self.high * scales - self.low * scales, (ends * scales - starts * scales) / room)
        powers = bspline_powers(self.knots, self.degree, unit, rates, self.size)
        inside = Pieces(breaks, scales, starts * scales, powers).with_lines(self._gap_ends)
        return inside.bounded(self.low, self.high, 0 if self.outside == "clamp" else 1)


def _measured(knots: Floats) -> Floats:
    """Knots whose distances are the true ones, within bounds: no more than so many times the median, or a part of it.

    Where nearly all values are close together and a few far off, a penalty on derivatives by the value would make the
    curve a line among the former, and hardly restrict it between the latter.
    """
    places, at = np.unique(knots, return_inverse=True)
    steps = np.diff(places)
    middle = np.median(steps)
    bounded = np.clip(steps, middle / _UNEVEN, middle * _UNEVEN)
    return np.asarray(np.concatenate([[0.0], np.cumsum(bounded / bounded.sum())])[at])


def roughness_root(knots: Floats, degree: int, order: int) -> Sparse:
    """R such that ``|R c|^2`` is the integral of the squared derivative of the spline with coefficients c.

    In units of the mean distance of knots, in which it is close to the sum of squared differences of coefficients where
    knots are even. A derivative beyond the degree is the difference of neighbouring pieces of the last that there is.
    """
    n_pieces = len(np.unique(knots)) - 1
    by_coef = np.eye(len(knots) - degree - 1)
    for left in range(degree, max(degree - order, 0), -1):
        wide = (knots[left + 1 : -1] - knots[1 : -left - 1]) * n_pieces
        rate = np.divide(left, wide, out=np.zeros_like(wide), where=wide > 0.0)
        by_coef = rate[:, np.newaxis] * np.diff(by_coef, axis=0)
        knots = knots[1:-1]
    left = max(degree - order, 0)
    nodes, weights = np.polynomial.legendre.leggauss(left + 1)
    places = np.unique(knots)
    half = np.diff(places)[:, np.newaxis] / 2.0
    values = BSpline.design_matrix((places[:-1, np.newaxis] + half * (1.0 + nodes)).ravel(), knots, left)
    root = sp.csr_array(values) @ by_coef
    if order <= degree:
        return sp.csr_array(np.sqrt(half * weights * n_pieces).reshape(-1, 1) * root)
    return sp.csr_array(np.diff(root, n=order - degree, axis=0))


def _first_to_reach(units: Floats, low: float, high: float) -> Floats:
    """The least numbers whose ``fraction`` is at least the given ones, in (0, 1).

    A knot turned back into a number is rounded, and a function that jumps there would jump one number early or late.
    So we search among the numbers themselves: their bits, read as integers, are in the same order.
    """
    below, reached = (np.full(len(units), _position(end)) for end in (low, high))
    while (reached - below > 1).any():  # uint64: the distance of any two numbers fits
        middle = below + (reached - below) // 2
        enough = fraction(_number(middle), low, high) >= units
        reached, below = np.where(enough, middle, reached), np.where(enough, below, middle)
    return _number(reached)


_SIGN = np.uint64(1 << 63)


def _position(number: float) -> np.uint64:
    """Place of a number in the order of all numbers."""
    bits = np.float64(number + 0.0).view(np.uint64)  # + 0.0: no -0
    return bits | _SIGN if bits < _SIGN else ~bits


def _number(position: NDArray[np.uint64]) -> Floats:
    """The number at a place."""
    return np.where(position >= _SIGN, position & ~_SIGN, ~position).view(np.float64)
