"""A linear predictor as a sum of terms that do not overlap, with what explaining needs of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.kernels import Curves
from ahofm.kernels.blas import one_blas_thread
from ahofm.model import Model, Predictor
from ahofm.orders import Orders


@dataclass(frozen=True)
class Pure:
    """One linear predictor in pure terms, and the columns it is of.

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
        """Which functions of a column are its main effect and its factors of each order."""
        return self.linear_predictor.orders

    @property
    def loadings(self) -> Mapping[int, Floats]:
        """Weights (rank,) of the factors' terms, by order."""
        return self.linear_predictor.loadings

    @property
    def order(self) -> int:
        """Highest order."""
        return self.orders.highest

    @property
    def active(self) -> list[int]:
        """Columns that have functions."""
        return [j for j, book in enumerate(self.books) if book.size > 0]

    @cached_property
    def curves(self) -> Curves:
        """The linear predictor at true values."""
        return self.linear_predictor.curves(self.books)

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
        pairs = zip(self.curves.columns, self.books, table.columns, strict=True)
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
        return self.curves.columns[j].evaluate(self.books[j].places(np.asarray(values)))

    def term(self, functions: Floats) -> Floats:
        """Evaluate the term of a set of columns.

        Parameters
        ----------
        functions : array of shape (columns of the set, n, width)
            Their functions, as ``values`` and ``of_column`` give them.

        Returns
        -------
        array of shape (n,)
            The main effect of one column, the interaction of several; zero where the model has none of that order.
        """
        main, factors = self.orders.split(functions)
        if len(functions) == 1:
            return np.asarray(main[0])
        if len(functions) not in factors:
            return np.zeros(main.shape[1])
        return np.asarray(np.prod(factors[len(functions)], axis=0) @ self.loadings[len(functions)])


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
    books = model.encoder.codebooks
    return Pure(model.linear_predictors[k].pure(books), tuple(books))
