"""A linear predictor as a sum of pure terms, with the moments that explanations need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.kernels import Curves, LevelCurves, NumberCurves
from ahofm.kernels.blas import one_blas_thread
from ahofm.model import Model, Predictor
from ahofm.orders import MAIN, PRODUCT, Orders, main_of


@dataclass(frozen=True)
class TermFactors:
    """The factors that have terms of a given number of columns.

    The term of a set S of columns is ``sum_f loadings[f] prod_{j in S} phi_jf prod_{j not in S} means[j, f]``.

    Attributes
    ----------
    which : array of shape (F,)
        Indices of these factors among the functions of a column.
    loadings : array of shape (F,)
    means : array of shape (columns, F)
        Constants of product factors; one for the others.
    products : array of shape (F,), bool
        Which of them are product factors.
    """

    which: NDArray[np.intp]
    loadings: Floats
    means: Floats
    products: NDArray[np.bool_]

    def outside(self, subset: Sequence[int]) -> Floats:
        """Loadings times the constants of the columns that are not in a set: (F,)."""
        return np.asarray(self.loadings * np.delete(self.means, list(subset), axis=0).prod(axis=0))


@dataclass(frozen=True)
class Pure:
    """One linear predictor in pure terms, and the codebooks of its columns.

    Attributes
    ----------
    linear_predictor : Predictor
        Its functions all have mean zero.
    books : tuple of Codebook
    """

    linear_predictor: Predictor
    books: tuple[Codebook, ...]

    @property
    def intercept(self) -> float:
        """The mean of the linear predictor, if columns were independent."""
        return self.linear_predictor.intercept

    @property
    def orders(self) -> Orders:
        """Positions of the main effect and of the factors of each order among a column's functions."""
        return self.linear_predictor.orders

    @property
    def loadings(self) -> Mapping[int, Floats]:
        """Weights (rank,) of the factors' terms, by order."""
        return self.linear_predictor.loadings

    @property
    def order(self) -> int:
        """Most columns of a term."""
        return max(self.term_orders)

    @property
    def term_orders(self) -> tuple[int, ...]:
        """Orders of the terms, ascending; product factors have terms of every order."""
        every = range(2, len(self.active) + 1) if PRODUCT in self.orders else ()
        return tuple(sorted({1, *self.orders.symmetric, *every}))

    def factors_of(self, order: int) -> TermFactors:
        """Select the factors that have terms of some number of columns.

        Parameters
        ----------
        order : int
            Two or more; with ``ahofm.orders.PRODUCT``, product factors alone.

        Returns
        -------
        TermFactors
            Those of that order, then product factors.
        """
        found = [d for d in dict.fromkeys((order, PRODUCT)) if d in self.orders]
        places = np.arange(self.orders.width)
        ones, constants = np.ones((len(self.books), self.orders.get(order, 0))), self.linear_predictor.product_means
        return TermFactors(
            np.concatenate([places[:0], *(places[self.orders.slices[d]] for d in found)]),
            np.concatenate([np.zeros(0), *(self.loadings[d] for d in found)]),
            np.hstack([constants if d == PRODUCT and constants is not None else ones for d in found] or [ones]),
            np.concatenate([np.zeros(0, dtype=bool), *(np.full(self.orders[d], d == PRODUCT) for d in found)]),
        )

    @property
    def active(self) -> list[int]:
        """Columns that have functions."""
        return [j for j, book in enumerate(self.books) if book.size > 0]

    @cached_property
    def curves(self) -> Curves:
        """The linear predictor at true values."""
        return self.linear_predictor.curves(self.books)

    @cached_property
    def functions(self) -> tuple[NumberCurves | LevelCurves, ...]:
        """The functions of each column at true values: main effect and factors, of mean zero."""
        return tuple(self.linear_predictor.column_curves(j, book) for j, book in enumerate(self.books))

    @cached_property
    def mains(self) -> tuple[NumberCurves | LevelCurves, ...]:
        """The main effect of each column at true values, without its factors, of which several classes have many."""
        main = slice(MAIN, MAIN + 1)
        return tuple(self.linear_predictor.column_curves(j, book, main) for j, book in enumerate(self.books))

    @cached_property
    def masses(self) -> tuple[Floats, ...]:
        """Share of the training weight at each code of a column."""
        return tuple(book.distribution for book in self.books)

    @cached_property
    def at_codes(self) -> tuple[Floats, ...]:
        """Functions at the codes of training: (codes, width) per column."""
        return tuple(self.linear_predictor.at_codes(j, book) for j, book in enumerate(self.books))

    @cached_property
    def moments(self) -> Floats:
        """Mean products of functions, (columns, width, width)."""
        return np.array([v.T @ (mass[:, np.newaxis] * v) for v, mass in zip(self.at_codes, self.masses, strict=True)])

    def values(self, table: Table) -> Floats:
        """Evaluate the functions at the rows of a table.

        Parameters
        ----------
        table : Table
            Of n rows.

        Returns
        -------
        array of shape (columns, n, width)
            The main effect and the factors of each column.
        """
        pairs = zip(self.functions, self.books, table.columns, strict=True)
        return np.stack([curve.evaluate(book.places(column)) for curve, book, column in pairs])

    def of_column(self, j: int, values: object) -> Floats:
        """Evaluate the functions of one column at raw values.

        Parameters
        ----------
        j : int
            Number of the column.
        values : array of shape (n,)
            Raw values.

        Returns
        -------
        array of shape (n, width)
            Its main effect and its factors.
        """
        return self.functions[j].evaluate(self.books[j].places(np.asarray(values)))

    def main_of_column(self, j: int, values: object) -> Floats:
        """Evaluate the main effect of one column.

        Parameters
        ----------
        j : int
            Number of the column.
        values : array-like of shape (n,)
            Raw values.

        Returns
        -------
        array of shape (n,)
        """
        return self.mains[j].evaluate(self.books[j].places(np.asarray(values)))[:, MAIN]

    def term(self, subset: Sequence[int], functions: Floats) -> Floats:
        """Evaluate the term of a set of columns.

        Parameters
        ----------
        subset : sequence of int
            Numbers of the columns.
        functions : array of shape (columns of the set, n, width)
            Their functions, as ``values`` and ``of_column`` give them.

        Returns
        -------
        array of shape (n,)
            The main effect of one column, the interaction of several; zero where the model has none of that order.
        """
        if len(subset) == 1:
            return np.asarray(main_of(functions)[0])
        factors = self.factors_of(len(subset))
        return np.asarray(np.prod(functions[..., factors.which], axis=0) @ factors.outside(subset))


@one_blas_thread()
def purify(model: Model, k: int) -> Pure:
    """Write a linear predictor as a sum of pure terms.

    Parameters
    ----------
    model : Model
        E.g. ``estimator.model_``.
    k : int
        Number of the linear predictor.

    Returns
    -------
    Pure
        Exact also at unseen levels and missing values.

    Examples
    --------
    >>> from ahofm.explain import purify
    >>> pure = purify(model.model_, 0)
    >>> bool(np.allclose([mass @ values for mass, values in zip(pure.masses, pure.at_codes)], 0.0))
    True
    """
    kept = model.__dict__.setdefault(
        "_pure", {}
    )  # as a cached property: not a field, so copies and pickles are without it
    if k not in kept:
        books = model.encoder.codebooks
        kept[k] = Pure(model.linear_predictors[k].pure(books), tuple(books))
    found: Pure = kept[k]
    return found
