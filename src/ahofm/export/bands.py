"""Levels of a column, or bands of its numbers, as rating tables name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.table import is_numeric


@dataclass(frozen=True)
class Bands:
    """Levels of a column, or bands of a number with a value that stands for each.

    Attributes
    ----------
    names : tuple of str
        One per row of the column's table, that of missing values last.
    values : array of shape (names,)
        A level; of a band of numbers their mean.
    breaks : array of shape (bands - 1,), or None
        A number's band is how many of them are at or below it; None for levels.
    mass : array of shape (names,)
        Weight of the training rows.
    cut : bool
        Whether a band holds more than one number.
    """

    names: tuple[str, ...]
    values: NDArray[Any]
    breaks: Floats | None
    mass: Floats
    cut: bool = False

    @property
    def numbers(self) -> bool:
        """Whether values are numbers."""
        return is_numeric(self.values)

    @classmethod
    def of(cls, book: Codebook, most: int) -> Bands:
        """Those of a column: all levels and numbers, or up to ``most`` bands of numbers of equal weight."""
        values, mass, breaks, cut = book.support.values, book.support.mass, None, False
        plain = is_numeric(values)
        names = [f"{value:.10g}" if plain else str(value) for value in values.tolist()]
        if book.edges is not None and len(values):
            group = np.arange(len(values))
            if len(values) > most:
                share = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
                group = np.unique(np.minimum((share * most).astype(int), most - 1), return_inverse=True)[1]
            first = np.flatnonzero(np.diff(group, prepend=-1))
            last = np.append(first[1:], len(values)) - 1
            breaks, cut = np.nextafter(book.edges[last[:-1]], np.inf), bool((first < last).any())
            together = np.add.reduceat(mass, first)
            middle = np.add.reduceat(values * (mass / mass.sum()), first) / (together / mass.sum())
            low, high = _written(values[np.concatenate([first, last])]).reshape(2, -1).tolist()
            alone = [names[at] for at in first]
            names = [name if a == b else f"{a} to {b}" for name, a, b in zip(alone, low, high, strict=True)]
            values, mass = np.where(first == last, values[first], middle), together
        if book.learns_missing:
            names, mass = [*names, "missing"], np.append(mass, book.missing_mass)
            absent = np.array([np.nan]) if plain else np.array([None], dtype=object)
            values = np.concatenate([values, absent])
        return cls(tuple(names), values, breaks, mass, cut)

    def place(self, book: Codebook, column: NDArray[Any]) -> NDArray[np.intp]:
        """Which of them a cell is; -1 where it is none."""
        code = book.encode(column).astype(np.intp)
        last = len(self.names) - 1
        if self.breaks is not None:
            found = np.searchsorted(self.breaks, np.where(np.isnan(column), 0.0, column), side="right")
            return np.where(np.isnan(column), last if book.learns_missing else -1, found)
        return np.where(code > last, -1, code)

    def usual(self, weight: Floats) -> int:
        """The one with the largest weight; of bands, which have about equal weights, that of the median."""
        if self.cut:
            return int(np.searchsorted(np.cumsum(weight), 0.5 * weight.sum()))
        return int(np.argmax(weight))


def _written(numbers: Floats) -> NDArray[Any]:
    """With as many digits as tell them apart, four at least, and all before the point."""
    whole = 1 + np.log10(np.clip(np.abs(numbers), 1.0, 1e16)).astype(int)
    count = len(np.unique(numbers))
    for least in range(4, 17):
        found = np.array([f"{value:.{max(least, own)}g}" for value, own in zip(numbers, whole, strict=True)])
        if len(np.unique(found)) == count:
            return found
    return np.array([f"{value:.17g}" for value in numbers])
