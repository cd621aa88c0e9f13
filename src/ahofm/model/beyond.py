"""Regressions of a column's functions on the column itself, and how a band follows lines beyond the training range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats


def regression_on_column(book: Codebook, values: Floats) -> tuple[Floats, Floats]:
    """Regress functions on a column of numbers, weighted by the training rows.

    Parameters
    ----------
    book : Codebook
    values : array of shape (codes, m)
        Functions at the codes, the missing and the neutral one included; these two do not count.

    Returns
    -------
    slopes, r2 : arrays of shape (m,)
        r2 is zero for a function that is constant.
    """
    x, at_values = np.asarray(book.support.values, dtype=np.float64), values[: book.support.size]
    mass = book.support.mass / book.support.mass.sum()
    width = x[-1] - x[0]
    unit = x / width - mass @ (x / width)
    centred = at_values - mass @ at_values
    slopes = (mass * unit) @ centred / (mass @ unit**2)
    total = mass @ centred**2
    rest = mass @ (centred - np.outer(unit, slopes)) ** 2
    r2 = 1.0 - np.divide(rest, total, out=np.ones_like(total), where=total > 0.0)
    return slopes / width, np.where(total > 0.0, r2, 0.0)


@dataclass(frozen=True)
class Beyond:
    """How a main effect goes on: derivatives of its values by the coordinates of a band.

    Attributes
    ----------
    distance : array of shape (n,)
        Of the rows from the training range, signed.
    slopes : array of shape (coordinates,)
        Slope of each coordinate's function.
    """

    distance: Floats
    slopes: Floats

    def of(self, rows: slice) -> Floats:
        """What it adds to derivatives of rows by these coordinates: (rows, coordinates)."""
        return np.asarray(self.distance[rows, np.newaxis] * self.slopes)
