"""Bounds of a column's factors, in units of their root mean square.

A code that one row has may take any value, and a curve that ends where there are hardly any rows may go anywhere; the
product of several such values, for a new row that has several such codes, would be absurd.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ahofm.columns.basis import Floats


@dataclass(frozen=True)
class Bounds:
    """Clips functions at multiples of their root mean square, then adds a constant so that their mean does not change.

    ``bounded = clip(v, -t r, t r) + mass'(v - clip(v, -t r, t r))`` with ``r = sqrt(mass' v^2)`` and t the multiples.

    Attributes
    ----------
    mass : array of shape (codes,)
        Fraction of the weight at each code.
    times : array of shape (codes,)
        The multiple t of the root mean square that bounds the value at each code.
    """

    mass: Floats
    times: Floats

    def __call__(self, values: Floats) -> Floats:
        """Bounded values (codes, K) of K functions; the same array where all are within their bounds."""
        limit = self._limit(values)
        clipped = np.clip(values, -limit, limit)
        return values if (clipped == values).all() else clipped + self.mass @ (values - clipped)

    def pull_back(self, slope: Floats, values: Floats) -> Floats:
        """Gradient by the values, (codes, K), from that by the bounded values: the transposed Jacobian times it."""
        limit = self._limit(values)
        beyond = np.abs(values) > limit
        if not beyond.any():
            return slope
        by_mean = self.mass[:, np.newaxis] * slope.sum(axis=0)  # what is clipped moves all values
        by_clipped = slope - by_mean
        at_bounds = np.where(beyond, by_clipped * np.sign(values), 0.0)
        root = np.sqrt(self.mass @ values**2)
        by_square = np.divide(self.times @ at_bounds, root, out=np.zeros_like(root), where=root > 0.0)
        return np.asarray(by_mean + np.where(beyond, 0.0, by_clipped) + by_square * self.mass[:, np.newaxis] * values)

    def _limit(self, values: Floats) -> Floats:
        return np.outer(self.times, np.sqrt(self.mass @ values**2))
