"""The shape of a linear predictor: which coefficients there are, and how they become tables at the codes. Knows no
rows.

The coefficients of one linear predictor are one vector: the intercept, then for every column its main effect (q
numbers) and its factors (r numbers each, r x ranks row-major). Main effects never hold a constant, which is the
intercept's; factors do when the model is not centred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.kernels import Tables
from ahofm.model.coordinates import Coordinates, coordinates


@dataclass(frozen=True)
class Layout:
    """Coefficients <-> tables.

    Attributes
    ----------
    mains, factors : tuple of Coordinates
        Per column, for its main effect and for its factors.
    ranks : dict of order (>= 2) to rank
    """

    mains: tuple[Coordinates, ...]
    factors: tuple[Coordinates, ...]
    ranks: Mapping[int, int]

    @classmethod
    def of(cls, codebooks: Sequence[Codebook], ranks: Mapping[int, int], *, center: bool = True) -> Layout:
        """The layout for a table's columns."""
        mains = tuple(coordinates(book, center=True) for book in codebooks)
        factors = mains if center or not ranks else tuple(coordinates(book, center=False) for book in codebooks)
        return cls(mains, factors, dict(ranks))

    @cached_property
    def total_rank(self) -> int:
        """Factors of all orders together."""
        return sum(self.ranks.values())

    @cached_property
    def code_starts(self) -> tuple[int, ...]:
        """First row of each column in a table, and the number of rows."""
        return tuple(accumulate((part.values.shape[0] for part in self.mains), initial=0))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First coefficient of each column, and the number of coefficients."""
        sizes = (a.size + b.size * self.total_rank for a, b in zip(self.mains, self.factors, strict=True))
        return tuple(accumulate(sizes, initial=1))

    @property
    def size(self) -> int:
        """Number of coefficients of one linear predictor."""
        return self.starts[-1]

    @cached_property
    def order_slices(self) -> Mapping[int, slice]:
        """Which of a column's factors belong to each order."""
        ends = list(accumulate(self.ranks.values(), initial=0))
        return {order: slice(a, b) for order, a, b in zip(self.ranks, ends[:-1], ends[1:], strict=True)}

    def main(self, theta: NDArray[Any], column: int) -> NDArray[Any]:
        """Main effect of a column in the vector: a view, (q,)."""
        start = self.starts[column]
        return theta[start : start + self.mains[column].size]

    def factor(self, theta: NDArray[Any], column: int) -> NDArray[Any]:
        """Factors of a column in the vector: a view, (r, total rank)."""
        start = self.starts[column] + self.mains[column].size
        return theta[start : self.starts[column + 1]].reshape(self.factors[column].size, self.total_rank)

    def tables(self, theta: Floats) -> Tables:
        """Every function at every code."""
        values = np.empty((self.code_starts[-1], 1 + self.total_rank))
        for j, (main, factor) in enumerate(zip(self.mains, self.factors, strict=True)):
            rows = slice(self.code_starts[j], self.code_starts[j + 1])
            values[rows, 0] = main.at_codes(self.main(theta, j))
            if self.total_rank:
                values[rows, 1:] = factor.at_codes(self.factor(theta, j))
        by_order = {order: values[:, 1:][:, part] for order, part in self.order_slices.items()}
        return Tables(float(theta[0]), values[:, 0], by_order)

    def gradient(self, sums: Tables) -> Floats:
        """Derivatives by the coefficients, from those by the tables."""
        out = np.empty(self.size)
        out[0] = sums.intercept
        slopes = np.column_stack([np.empty((len(sums.main), 0)), *sums.factors.values()])
        for j, (main, factor) in enumerate(zip(self.mains, self.factors, strict=True)):
            rows = slice(self.code_starts[j], self.code_starts[j + 1])
            self.main(out, j)[:] = main.adjoint(sums.main[rows])
            self.factor(out, j)[:] = factor.adjoint(slopes[rows])
        return out

    def smoothing_parameters(self, by_order: Mapping[int, Floats], free: float = 0.0) -> Floats:
        """Penalty of each squared coefficient.

        Parameters
        ----------
        by_order : dict of order to array of shape (columns,)
        free : float
            Of the coefficients of factors without a penalty, such as their linear parts.
        """
        out = np.zeros(self.size)
        for j, (main, factor) in enumerate(zip(self.mains, self.factors, strict=True)):
            self.main(out, j)[:] = by_order[1][j] * main.penalty
            for order, part in self.order_slices.items():
                penalty = by_order[order][j] * factor.penalty
                self.factor(out, j)[:, part] = np.where(penalty > 0.0, penalty, free)[:, np.newaxis]
        return out
