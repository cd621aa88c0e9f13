"""The obvious kernel: sums over all subsets of columns, one at a time. Slow, float64, kept for ever to check others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.kernels.losses import check_loss
from ahofm.kernels.protocol import Chunk, ColumnSums, Sums, Tables, check_tables
from ahofm.orders import PRODUCT


class ReferenceKernel:
    """NumPy and itertools."""

    def eta(self, chunk: Chunk, linear_predictors: Sequence[Tables]) -> Floats:
        """Linear predictors of each row, with the offset."""
        check_tables(chunk, linear_predictors)
        at = _table_rows(chunk)
        eta = np.empty((chunk.n_rows, len(linear_predictors)))
        for k, tables in enumerate(linear_predictors):
            eta[:, k] = tables.intercept + tables.main[at].sum(axis=0)
            for order, table in tables.factors.items():
                eta[:, k] += symmetric_polynomial(table[at], order) @ tables.loading(order)
        return eta if chunk.offset is None else eta + chunk.offset

    def value_and_gradient(self, chunk: Chunk, linear_predictors: Sequence[Tables], loss: str) -> Sums:
        """Weighted sum of a built-in loss, and its derivatives."""
        function = check_loss(loss, len(linear_predictors))
        if chunk.y is None:
            raise ValueError("y: a target is needed")
        value, g, _ = function(np.asarray(chunk.y, dtype=np.float64), self.eta(chunk, linear_predictors))
        weight = np.ones(chunk.n_rows) if chunk.weight is None else np.asarray(chunk.weight, dtype=np.float64)
        return Sums(float(weight @ value), self.pull_back(chunk, linear_predictors, weight[:, np.newaxis] * g))

    def pull_back(self, chunk: Chunk, linear_predictors: Sequence[Tables], g: Floats) -> tuple[Tables, ...]:
        """Derivatives of ``sum(g * eta)`` by every table entry."""
        check_tables(chunk, linear_predictors)
        at = _table_rows(chunk)
        gradient = []
        for k, tables in enumerate(linear_predictors):
            main = np.zeros_like(tables.main)
            factors = {order: np.zeros_like(table) for order, table in tables.factors.items()}
            for j, rows in enumerate(at):
                np.add.at(main, rows, g[:, k])
                for order, table in tables.factors.items():
                    others = table[np.delete(at, j, axis=0)]
                    u = derivative(others, order) * tables.loading(order)
                    np.add.at(factors[order], rows, g[:, [k]] * u)
            gradient.append(Tables(float(g[:, k].sum()), main, factors))
        return tuple(gradient)

    def leave_one_out(self, chunk: Chunk, tables: Tables, column: int) -> Floats:
        """Derivatives u of eta by the values of one column's functions."""
        check_tables(chunk, [tables])
        others = np.delete(_table_rows(chunk), column, axis=0)
        parts = {
            order: derivative(table[others], order) * tables.loading(order) for order, table in tables.factors.items()
        }
        return tables.orders.join(np.ones(chunk.n_rows), parts)

    def column_sums(self, chunk: Chunk, tables: Tables, column: int, g: Floats, h: Floats) -> ColumnSums:
        """Per-code sums of ``g u`` and ``h u u'`` for one column."""
        u = self.leave_one_out(chunk, tables, column)
        codes = chunk.codes.columns[column]
        size = chunk.codes.sizes[column]
        sums = ColumnSums(np.zeros((size, u.shape[1])), np.zeros((size, u.shape[1], u.shape[1])))
        np.add.at(sums.g, codes, g[:, np.newaxis] * u)
        np.add.at(sums.h, codes, h[:, np.newaxis, np.newaxis] * u[:, :, np.newaxis] * u[:, np.newaxis, :])
        return sums


def symmetric_polynomial(phi: Floats, degree: int) -> Floats:
    """e_degree over the first axis: the sum over all subsets of that many of their product; PRODUCT: of all."""
    degree = len(phi) if degree == PRODUCT else degree
    total = np.zeros(phi.shape[1:])
    for subset in combinations(phi, degree):
        total += prod(subset, start=np.ones(phi.shape[1:]))
    return total


def derivative(others: Floats, order: int) -> Floats:
    """Derivative of a factor's term by the function of one column, from those of the others (columns, ...)."""
    return symmetric_polynomial(others, PRODUCT if order == PRODUCT else order - 1)


def _table_rows(chunk: Chunk) -> NDArray[np.int64]:
    """Table row of every cell, (columns, n); raises ValueError on a code its column does not have."""
    codes = chunk.codes
    for j, (column, size) in enumerate(zip(codes.columns, codes.sizes, strict=True)):
        if len(column) and column.max() >= size:
            row = int(np.argmax(column >= size))
            raise ValueError(
                f"code {column[row]} in row {row} of column {j} is out of range: the column has {size} codes"
            )
    return np.stack(
        [start + column.astype(np.int64) for start, column in zip(codes.starts, codes.columns, strict=False)]
    )
