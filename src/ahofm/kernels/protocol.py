"""What a kernel computes on one chunk of rows, and what it is given. Knows codes and tables; no names, no splines.

A linear predictor is given by its values at the codes (``Tables``):

    eta = intercept + sum_j main[c_j] + sum_d sum_f loadings[d][f] e_d(factors[d][c_1, f], ..., factors[d][c_p, f])

with c_j the table row of the row's code in column j and e_d the elementary symmetric polynomial; in the place of d,
``ahofm.orders.PRODUCT`` stands for e_p, the product over all p columns. Whatever a solver
needs of the rows are sums over them, per code; sums of chunks add.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codes
from ahofm.columns.basis import Floats
from ahofm.orders import Orders


@dataclass(frozen=True)
class Chunk:
    """Rows that are handled together. Reals may be float32 or float64 and are read as they are.

    Attributes
    ----------
    codes : Codes
    y : array of shape (n,), optional
        Target; classes of a multinomial target are 0, 1, ...
    weight : array of shape (n,), optional
    offset : array of shape (n, linear predictors), optional
        Added to eta.
    """

    codes: Codes
    y: NDArray[Any] | None = None
    weight: NDArray[Any] | None = None
    offset: NDArray[Any] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.codes.n_rows

    def rows(self, start: int, stop: int) -> Chunk:
        """A range of rows, without a copy."""
        optional = [None if array is None else array[start:stop] for array in (self.y, self.weight, self.offset)]
        return Chunk(self.codes.rows(start, stop), *optional)

    def take(self, rows: NDArray[np.int64]) -> Chunk:
        """Some rows, in the given order."""
        optional = [None if array is None else array[rows] for array in (self.y, self.weight, self.offset)]
        return Chunk(self.codes.take(rows), *optional)


@dataclass(frozen=True)
class Tables:
    """One linear predictor at the codes; sums over rows of the derivative by each entry have the same form.

    Attributes
    ----------
    intercept : float
    main : array of shape (codes,)
        Order 1.
    factors : dict of order (>= 2) to array of shape (codes, rank)
    loadings : dict of order to array of shape (rank,), optional
        Weight of each factor's term, of any sign; ones by default. Derivatives have none.
    means : array of shape (columns, rank of product factors), optional
        Constants of the functions of product factors. Main effects and intercept then lack what these products say of
        single columns and of none. Kernels need none.
    """

    intercept: float
    main: Floats
    factors: Mapping[int, Floats]
    loadings: Mapping[int, Floats] | None = None
    means: Floats | None = None

    @property
    def orders(self) -> Orders:
        """Orders of the factors and their ranks."""
        return Orders({order: int(table.shape[1]) for order, table in self.factors.items()})

    @property
    def width(self) -> int:
        """Functions of one column: its main effect and all its factors."""
        return self.orders.width

    def loading(self, order: int) -> Floats:
        """Loadings of the factors of an order: (rank,)."""
        if self.loadings is None:
            return np.ones(self.factors[order].shape[1])
        return np.asarray(self.loadings[order], dtype=np.float64)

    def __iadd__(self, other: Tables) -> Tables:
        """Sum, entry by entry, in the memory of the first."""
        np.add(self.main, other.main, out=self.main)
        for order, table in self.factors.items():
            np.add(table, other.factors[order], out=table)
        return Tables(self.intercept + other.intercept, self.main, self.factors, self.loadings)


@dataclass(frozen=True)
class Sums:
    """Loss and its derivatives by every table entry, summed over rows."""

    value: float
    gradient: tuple[Tables, ...]

    def __iadd__(self, other: Sums) -> Sums:
        """Sums over the rows of both, in the memory of the first."""
        gradient = tuple(mine.__iadd__(theirs) for mine, theirs in zip(self.gradient, other.gradient, strict=True))
        return Sums(self.value + other.value, gradient)


@dataclass(frozen=True)
class ColumnSums:
    """What an update of one column needs, per code of the column.

    Attributes
    ----------
    g : array of shape (codes of the column, width)
        Sums of ``g u``, u the derivatives of eta by the column's functions.
    h : array of shape (codes of the column, width, width)
        Sums of ``h u u'``.
    """

    g: Floats
    h: Floats

    def __iadd__(self, other: ColumnSums) -> ColumnSums:
        """Sums over the rows of both, in the memory of the first."""
        np.add(self.g, other.g, out=self.g)
        np.add(self.h, other.h, out=self.h)
        return self


@runtime_checkable
class Kernel(Protocol):
    """Computes on one chunk. Stateless: any number of threads may share one."""

    def eta(self, chunk: Chunk, linear_predictors: Sequence[Tables]) -> Floats:
        """Linear predictors of each row, with the offset: (n, linear predictors)."""
        ...

    def value_and_gradient(self, chunk: Chunk, linear_predictors: Sequence[Tables], loss: str) -> Sums:
        """Weighted sum of a built-in loss, and its derivatives."""
        ...

    def pull_back(self, chunk: Chunk, linear_predictors: Sequence[Tables], g: Floats) -> tuple[Tables, ...]:
        """Derivatives of ``sum(g * eta)`` by every table entry, g of shape (n, linear predictors)."""
        ...

    def leave_one_out(self, chunk: Chunk, tables: Tables, column: int) -> Floats:
        """Derivatives u of eta by the values of one column's functions: (n, width).

        1 for the main effect, e_{d-1} of the other columns times the loading for a factor of order d, their product
        times the loading for a product factor; factors in the order of the tables.
        """
        ...

    def column_sums(self, chunk: Chunk, tables: Tables, column: int, g: Floats, h: Floats) -> ColumnSums:
        """Per-code sums of ``g u`` and ``h u u'`` for one column, g and h of shape (n,)."""
        ...


def check_tables(chunk: Chunk, linear_predictors: Sequence[Tables]) -> None:
    """Raise ValueError when tables do not fit the chunk's codes, or each other."""
    if not linear_predictors:
        raise ValueError("linear predictors is empty; at least one is needed")
    n_codes = chunk.codes.n_codes
    for tables in linear_predictors:
        if np.shape(tables.main) != (n_codes,):
            raise ValueError(f"main has shape {np.shape(tables.main)}, expected ({n_codes},): one value per code")
        for order, table in tables.factors.items():
            if order < 2:
                raise ValueError(f"factors have order {order}; order 1 is `main`, factors start at 2")
            if np.ndim(table) != 2 or np.shape(table)[0] != n_codes:
                raise ValueError(f"factors of order {order} have shape {np.shape(table)}, expected ({n_codes}, rank)")
        tables.orders.checked_loadings(tables.loadings)
