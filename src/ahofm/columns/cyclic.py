"""Periodic B-splines: hours, weekdays, months, angles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.interpolate import BSpline

from ahofm.columns.basis import Floats, Penalty, Sparse, circular_difference_penalty
from ahofm.columns.kind import NumericKind, Support, check_at_least
from ahofm.columns.piecewise import Pieces, bspline_powers, exponent_of_width, scale_of_exponent, turn


@dataclass(frozen=True)
class Cyclic(NumericKind):
    """A spline whose end meets its beginning, with evenly spaced knots.

    Parameters
    ----------
    period : float, optional
        Length of a turn. By default the range of the data, plus one step when the distinct values are evenly
        spaced (hours 0, 1, ..., 23 have the period 24).
    n_basis, degree, penalty_order, max_codes
        As for ``Spline``.

    Examples
    --------
    >>> import numpy as np
    >>> from ahofm import AHOFMRegressor, Cyclic
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 24, size=(300, 1))
    >>> y = np.cos(X[:, 0] / 24 * 2 * np.pi) + 0.1 * rng.normal(size=300)
    >>> model = AHOFMRegressor(order=1, columns={0: Cyclic(period=24)}, random_state=0).fit(X, y)
    >>> bool(np.isclose(*model.predict([[0.0], [24.0]])))
    True
    """

    period: float | None = None
    n_basis: int | None = None
    degree: int = 3
    penalty_order: int = 2
    max_codes: int | None = None

    def validate(self) -> None:
        """Raise ValueError when a setting makes no sense."""
        super().validate()
        check_at_least(self, "n_basis", self.n_basis, 2)
        check_at_least(self, "degree", self.degree, 1)
        check_at_least(self, "penalty_order", self.penalty_order, 1)
        if self.period is not None and not (np.isfinite(self.period) and self.period > 0):
            raise ValueError(f"Cyclic: period must be a positive number, got {self.period!r}")

    def learn(self, support: Support) -> CyclicBasis:
        """A turn that starts at the lowest value."""
        size = min(self.n_basis or 20, support.size)
        period = self.period if self.period is not None else _period(support)
        if not np.isfinite(period):
            raise ValueError(
                f"the range from {support.low:g} to {support.high:g} is too wide for a period; give Cyclic(period=...)"
            )
        return CyclicBasis(support.low, float(period), size, min(self.degree, size - 1), self.penalty_order)


def _period(support: Support) -> float:
    steps = np.diff(support.values)
    evenly = support.exact and np.allclose(steps, steps[0], rtol=1e-6, atol=0.0)
    with np.errstate(over="ignore"):
        return float(support.high - support.low + (steps[0] if evenly else 0.0))


@dataclass(frozen=True)
class CyclicBasis:
    """``size`` B-splines on a circle."""

    start: float
    period: float
    size: int
    degree: int
    penalty_order: int

    @property
    def penalties(self) -> tuple[Penalty, ...]:
        """Differences that go round."""
        return (circular_difference_penalty(self.size, self.penalty_order),)

    @property
    def constant(self) -> Floats:
        """B-splines sum to one."""
        return np.ones(self.size)

    @property
    def null_space(self) -> Floats:
        """On a circle only the constant has no differences."""
        return np.full((self.size, 1), self.size**-0.5)

    def evaluate(self, x: NDArray[Any]) -> Sparse:
        """Functions at ``x``, wherever it lies."""
        fraction = turn(np.asarray(x, dtype=np.float64), self.start, self.period)
        unrolled = BSpline.design_matrix(fraction, self._knots(), self.degree)
        count = self.size + self.degree
        roll = sp.csr_array(
            (np.ones(count), (np.arange(count), np.arange(count) % self.size)), shape=(count, self.size)
        )
        return sp.csr_array(sp.csr_array(unrolled) @ roll)

    def pieces(self) -> Pieces:
        """Between the knots of one turn."""
        knots = self._knots()
        starts = knots[self.degree : self.degree + self.size]
        scales = np.full(self.size, scale_of_exponent(exponent_of_width(0.0, 1.0 / self.size)))
        powers = bspline_powers(knots, self.degree, starts, scales, self.size)
        return Pieces(starts[1:], scales, starts * scales, powers, self.start, self.period)

    def _knots(self) -> Floats:
        """Of a turn of length 1, and as many before and after it as its functions need."""
        return np.arange(-self.degree, self.size + self.degree + 1) / self.size
