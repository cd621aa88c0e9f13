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
import scipy.sparse as sp
from numpy.typing import NDArray

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats, Sparse
from ahofm.families.links import quiet
from ahofm.kernels import Tables
from ahofm.model.coordinates import Coordinates, coordinates
from ahofm.model.predictor import Predictor
from ahofm.orders import MAIN, Orders, factors_of


@dataclass(frozen=True)
class Layout:
    """Coefficients <-> tables, and <-> the linear predictor in the columns' bases.

    Attributes
    ----------
    mains, factors : tuple of Coordinates
        Per column, for its main effect and for its factors.
    orders : Orders
    """

    mains: tuple[Coordinates, ...]
    factors: tuple[Coordinates, ...]
    orders: Orders

    @classmethod
    def of(cls, codebooks: Sequence[Codebook], ranks: Mapping[int, int], *, center: bool = True) -> Layout:
        """The layout for a table's columns."""
        mains = tuple(coordinates(book, center=True) for book in codebooks)
        factors = mains if center or not ranks else tuple(coordinates(book, center=False) for book in codebooks)
        return cls(mains, factors, Orders(ranks))

    @cached_property
    def code_starts(self) -> tuple[int, ...]:
        """First row of each column in a table, and the number of rows."""
        return tuple(accumulate((part.values.shape[0] for part in self.mains), initial=0))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First coefficient of each column, and the number of coefficients."""
        sizes = (a.size + b.size * self.orders.n_factors for a, b in zip(self.mains, self.factors, strict=True))
        return tuple(accumulate(sizes, initial=1))

    @property
    def size(self) -> int:
        """Number of coefficients of one linear predictor."""
        return self.starts[-1]

    def main(self, theta: NDArray[Any], column: int) -> NDArray[Any]:
        """Main effect of a column in the vector: a view, (q,)."""
        start = self.starts[column]
        return theta[start : start + self.mains[column].size]

    def factor(self, theta: NDArray[Any], column: int) -> NDArray[Any]:
        """Factors of a column in the vector: a view, (r, factors of all orders)."""
        start = self.starts[column] + self.mains[column].size
        return theta[start : self.starts[column + 1]].reshape(self.factors[column].size, self.orders.n_factors)

    def tables(self, theta: Floats) -> Tables:
        """Every function at every code."""
        values = np.empty((self.code_starts[-1], self.orders.width))
        for j, (main, factor) in enumerate(zip(self.mains, self.factors, strict=True)):
            rows = slice(self.code_starts[j], self.code_starts[j + 1])
            values[rows, MAIN] = main.at_codes(self.main(theta, j))
            if self.orders:
                factors_of(values[rows])[:] = factor.at_codes(self.factor(theta, j))
        return Tables(float(theta[0]), *self.orders.split(values))

    def linear_predictor(self, theta: Floats) -> Predictor:
        """The linear predictor in the columns' bases."""
        coef, centring = [], []
        for j, (main, factors) in enumerate(zip(self.mains, self.factors, strict=True)):
            main_theta, factor_theta = self.main(theta, j), self.factor(theta, j)
            with quiet():  # coefficients of tiny values may overflow, which the fit refuses
                coef.append(np.column_stack([main.to_basis @ main_theta, factors.to_basis @ factor_theta]))
            centring.append(np.concatenate([[main.centring @ main_theta], factors.centring @ factor_theta]))
        return Predictor.of(self.orders, float(theta[0]), coef, centring)

    def theta(self, linear_predictor: Predictor) -> Floats | None:
        """The vector that :meth:`linear_predictor` makes a linear predictor from, or the nearest.

        None where loadings of one cannot say the same.
        """
        unloaded, theta = linear_predictor.unloaded(), np.zeros(self.size)
        if unloaded is None:
            return None
        theta[0] = unloaded.intercept
        for j, (main, factors) in enumerate(zip(self.mains, self.factors, strict=True)):
            self.main(theta, j)[:] = _solved(main.to_basis, unloaded.coef[j][:, [MAIN]])[:, 0]
            self.factor(theta, j)[:] = _solved(factors.to_basis, factors_of(unloaded.coef[j]))
        return theta

    def estimated(self, left_out: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        """Whether each coefficient is estimated: those of factors in which a column has no function stay zero.

        Parameters
        ----------
        left_out : array of bool of shape (columns, factors of all orders), or None
        """
        found = np.ones(self.size, dtype=bool)
        for j in range(0 if left_out is None else len(self.factors)):
            self.factor(found, j)[:] = ~left_out[j]  # type: ignore[index]
        return found

    def gradient(self, sums: Tables) -> Floats:
        """Derivatives by the coefficients, from those by the tables."""
        out = np.empty(self.size)
        out[0] = sums.intercept
        slopes = self.orders.joined_factors(sums.factors, (len(sums.main),))
        for j, (main, factor) in enumerate(zip(self.mains, self.factors, strict=True)):
            rows = slice(self.code_starts[j], self.code_starts[j + 1])
            self.main(out, j)[:] = main.adjoint(sums.main[rows])
            self.factor(out, j)[:] = factor.adjoint(slopes[rows])
        return out

    def smoothing_parameters(self, by_order: Mapping[int, Floats], ridge: float = 0.0) -> Floats:
        """Penalty of each squared coefficient.

        Parameters
        ----------
        by_order : dict of order to array of shape (columns,)
        ridge : float
            Of the coefficients of factors in the null space of the penalty, such as lines.
        """
        out = np.zeros(self.size)
        for j, (main, factor) in enumerate(zip(self.mains, self.factors, strict=True)):
            self.main(out, j)[:] = by_order[1][j] * main.penalty
            for order, columns in self.orders.factor_slices.items():
                penalty = by_order[order][j] * factor.penalty
                self.factor(out, j)[:, columns] = np.where(penalty > 0.0, penalty, ridge)[:, np.newaxis]
        return out


def _solved(to_basis: Floats | Sparse, coef: Floats) -> Floats:
    if sp.issparse(to_basis):  # a diagonal
        return np.asarray(coef / to_basis.diagonal()[:, np.newaxis])
    return np.asarray(np.linalg.lstsq(to_basis, coef, rcond=None)[0])
