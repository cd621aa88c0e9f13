"""Which values of a column a figure shows, and on which scale: where the rows are, not where the outliers are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.cyclic import CyclicBasis

FEW = 12
"""Up to so many distinct numbers have a point and a tick each."""

_TAIL = 0.01
"""Share of the rows at each end that may lie beyond the axis."""

_WORTH = 0.6
"""The axis is cut where the rows between the tails take less than this part of the range."""

_SKEWED, _DECADES = 0.2, 1.5
"""Logarithmic: the median within the lowest fifth of the range, and positive numbers over so many powers of ten."""


@dataclass(frozen=True)
class Axis:
    """The axis of a column of numbers.

    Attributes
    ----------
    scale : "linear" or "log"
    low, high : float
        Ends of what is shown by default.
    beyond : float
        Share of the rows outside.
    points : array
        The distinct numbers, where they are few; otherwise empty.
    whole : bool
        Whether all numbers of training are whole.
    """

    scale: Literal["linear", "log"]
    low: float
    high: float
    beyond: float
    points: Floats
    whole: bool

    def place(self, values: Floats) -> Floats:
        """Where numbers stand: themselves, or their logarithms."""
        return np.log(values) if self.scale == "log" else np.asarray(values, dtype=np.float64)

    def even(self, count: int) -> Floats:
        """Evenly spaced places from end to end, as numbers; whole ones where the column has no others."""
        ends = self.place(np.array([self.low, self.high]))
        places = np.linspace(ends[0], ends[1], count)
        values = np.exp(places) if self.scale == "log" else places
        values[[0, -1]] = self.low, self.high  # not a rounding error beyond them
        return np.unique(np.round(values)) if self.whole else values


def axis_of(book: Codebook) -> Axis:
    """Choose the axis of a column of numbers from its distribution in training."""
    support = book.support
    values, mass = np.asarray(support.values, dtype=np.float64), support.mass
    if not len(values):
        return Axis("linear", 0.0, 0.0, 0.0, np.empty(0), whole=False)
    whole = bool(support.exact and (values == np.round(values)).all() and np.abs(values).max() < 2**53)
    if isinstance(book.functions, CyclicBasis):
        start, period = book.functions.start, book.functions.period
        points = values if support.exact and len(values) <= FEW else np.empty(0)
        return Axis("linear", start, support.high if len(points) else start + period, 0.0, points, whole)
    if support.exact and len(values) <= FEW:
        return Axis("linear", support.low, support.high, 0.0, values, whole)
    below = np.cumsum(mass) / mass.sum()
    tail, middle, end = values[np.minimum(np.searchsorted(below, [_TAIL, 0.5, 1.0 - _TAIL]), len(values) - 1)]
    full = support.high - support.low
    decades = np.log10(end / tail) if tail > 0.0 else 0.0
    log = support.low > 0.0 and decades > _DECADES and middle - tail < _SKEWED * (end - tail)
    ends = np.log([support.low, tail, end, support.high]) if log else np.array([support.low, tail, end, support.high])
    low, high = support.low, support.high
    if np.isfinite(full) and end > tail and (ends[2] - ends[1]) < _WORTH * (ends[3] - ends[0]):
        low = low if (ends[1] - ends[0]) < 0.1 * (ends[2] - ends[1]) else float(tail)
        high = high if (ends[3] - ends[2]) < 0.1 * (ends[2] - ends[1]) else float(end)
    if whole:
        low, high = float(np.floor(low)), float(np.ceil(high))
    beyond = float(mass[(values < low) | (values > high)].sum() / mass.sum())
    return Axis("log" if log else "linear", low, high, beyond, np.empty(0), whole)
