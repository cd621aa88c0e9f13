"""Row states of the variational solver: moments of every factor at every row, from which columns are removed in turn.

The functions of a column have a mean and a variance at each code, independent of the other columns'.
With one column removed, eta is affine in that column's functions, and its ridge problem needs of the rows only sums
per code of the column. With u the derivatives of eta by the functions (1 for the main effect, e_{d-1} of the other
columns for a factor of order d), g and v their means and variances, and e the rest of eta:

    gram = sum w (g g' + diag v)        rhs = sum g (w y - w E[e]) - w Cov(e, u)

A product factor has a loading c beside its functions psi, and nothing of it is left without one of them:

    g = c prod m        v = c^2 prod (m^2 + s) - g^2        e = 0        m, s of the psi of the other columns
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.kernels.protocol import Chunk
from ahofm.orders import PRODUCT, Orders


@dataclass(frozen=True)
class ColumnMoments:
    """Moments of one column's functions at its codes: the main effect, then the factors, order after order.

    Attributes
    ----------
    column : int
    mean, variance : arrays of shape (codes of the column, width)
    """

    column: int
    mean: Floats
    variance: Floats


@dataclass(frozen=True)
class BlockSums:
    """Per code of one column: arrays of shape (codes, width, width) and (codes, width)."""

    gram: Floats
    rhs: Floats

    def __iadd__(self, other: BlockSums) -> BlockSums:
        """Sums over the rows of both, in the memory of the first."""
        np.add(self.gram, other.gram, out=self.gram)
        np.add(self.rhs, other.rhs, out=self.rhs)
        return self


@runtime_checkable
class RowState(Protocol):
    """The state of one chunk's rows. It changes, and belongs to one thread."""

    def set_working_response(self, weight: Floats, weighted_response: Floats) -> None:
        """Working weights w of the rows, and weighted working responses w y: (n,) each."""
        ...

    def swap(self, add_column: ColumnMoments | None, remove_column: ColumnMoments | None) -> BlockSums | None:
        """Add one column, then remove one and return its sums."""
        ...

    def fitted(self) -> tuple[Floats, Floats]:
        """Mean and variance of each row's linear predictor from the columns added, without intercept: (n,) each."""
        ...


@runtime_checkable
class RowStateKernel(Protocol):
    """Makes row states."""

    def state(self, chunk: Chunk, ranks: Mapping[int, int], loadings: Floats | None = None) -> RowState:
        """The state of a chunk's rows without any column, for factors of the given orders and ranks.

        ``loadings`` are those of the product factors, (rank,): ones by default.
        """
        ...


@dataclass(frozen=True)
class ReferenceRowStateKernel:
    """In NumPy and float64, nothing ever subtracted."""

    def state(self, chunk: Chunk, ranks: Mapping[int, int], loadings: Floats | None = None) -> ReferenceRowState:
        """A state without columns."""
        return ReferenceRowState(chunk, ranks, loadings)


class ReferenceRowState:
    """Keeps the moments of the columns that were added, and builds every product from them anew."""

    def __init__(self, chunk: Chunk, ranks: Mapping[int, int], loadings: Floats | None = None) -> None:
        """No column was added yet."""
        self.chunk = chunk
        orders = Orders(ranks)
        self.orders = orders.of_each
        self.loadings = np.ones(orders.width)
        if loadings is not None:
            self.loadings[orders.slices[PRODUCT]] = loadings
        self.columns: dict[int, tuple[Floats, Floats]] = {}
        self.weight = self.weighted_response = np.zeros(chunk.n_rows)

    def set_working_response(self, weight: Floats, weighted_response: Floats) -> None:
        """Working weights, and weighted working responses."""
        self.weight, self.weighted_response = weight, weighted_response

    def swap(self, add_column: ColumnMoments | None, remove_column: ColumnMoments | None) -> BlockSums | None:
        """Add one column, then remove one and return its sums."""
        if add_column is not None:
            codes = self.chunk.codes.columns[add_column.column]
            self.columns[add_column.column] = (
                add_column.mean[codes],
                add_column.mean[codes] ** 2 + add_column.variance[codes],
            )
        if remove_column is None:
            return None
        del self.columns[remove_column.column]
        of_factors = [self._left(k, order) for k, order in enumerate(self.orders)]
        g, variance, rest, covariance = (np.column_stack(values) for values in zip(*of_factors, strict=True))
        residual = self.weighted_response - self.weight * rest.sum(axis=1)
        products = self.weight[:, None, None] * (g[:, :, None] * g[:, None, :])
        diagonal = np.arange(len(self.orders))
        products[:, diagonal, diagonal] += self.weight[:, None] * variance
        codes, size = self.chunk.codes.columns[remove_column.column], len(remove_column.mean)
        gram, rhs = np.zeros((size, len(diagonal), len(diagonal))), np.zeros((size, len(diagonal)))
        np.add.at(gram, codes, products)
        np.add.at(rhs, codes, g * residual[:, None] - self.weight[:, None] * covariance)
        return BlockSums(gram, rhs)

    def fitted(self) -> tuple[Floats, Floats]:
        """Mean and variance of each row's linear predictor."""
        mean, variance = np.zeros((2, self.chunk.n_rows))
        for k, order in enumerate(self.orders):
            if order == PRODUCT:
                mean_of_terms, square = self._product(k)
            else:
                moments = self._moments(k, order)
                mean_of_terms, square = moments[order, 0], moments[order, order]
            mean += mean_of_terms
            variance += square - mean_of_terms**2
        return mean, variance

    def _left(self, factor: int, order: int) -> tuple[Floats, Floats, Floats, Floats]:
        """Mean and variance of u, mean of the rest of the term, and their covariance, without the removed column."""
        if order == PRODUCT:
            g, square = self._product(factor)
            nothing = np.zeros_like(g)
            return g, square - g**2, nothing, nothing
        moments = self._moments(factor, order)
        g, rest = moments[order - 1, 0], moments[order, 0]
        return g, moments[order - 1, order - 1] - g**2, rest, moments[order, order - 1] - rest * g

    def _product(self, factor: int) -> tuple[Floats, Floats]:
        """Mean, and mean square, of the loading times the product over the columns that were added."""
        loading, ones = self.loadings[factor], np.ones((1, self.chunk.n_rows))
        means = [mean[:, factor] for mean, _ in self.columns.values()]
        squares = [square[:, factor] for _, square in self.columns.values()]
        return loading * np.prod([*ones, *means], axis=0), loading**2 * np.prod([*ones, *squares], axis=0)

    def _moments(self, factor: int, order: int) -> Floats:
        """E[e_a e_b] of each row over the columns that were added: (order + 1, order + 1, n)."""
        t = np.zeros((order + 1, order + 1, self.chunk.n_rows))
        t[0, 0] = 1.0
        for mean, square in self.columns.values():
            m, s = mean[:, factor], square[:, factor]
            t[1:, 1:] += m * (t[:-1, 1:] + t[1:, :-1]) + s * t[:-1, :-1]
            t[1:, 0] += m * t[:-1, 0]
            t[0, 1:] = t[1:, 0]
        return t
