"""Derivatives of linear predictors by the coordinates of their functions, and where coordinates are.

A linear predictor is affine in all functions of one column, so its derivative by a coordinate of a function is the
value of the coordinate times the derivative by the function, which depends on the other columns only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ahofm.backends import Rows, backend_of
from ahofm.columns.basis import Floats
from ahofm.kernels import Chunk, Tables
from ahofm.model.terms import of_one_column
from ahofm.orders import PRODUCT, Orders, factors_of, main_of
from ahofm.rows import ArraySource, SerialExecutor


@dataclass(frozen=True)
class Places:
    """Positions among the Q coordinates with correlations: the intercept, then by column main effect and factors.

    Attributes
    ----------
    starts : tuple of int
        First position of every column, and Q.
    sizes : tuple of int
        Number of coordinates of each column's main effect.
    coordinate, factor : tuples of arrays of int
        For each coordinate of a column's factors: the index of its function of the column, and that of its factor.
    """

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    coordinate: tuple[NDArray[np.intp], ...]
    factor: tuple[NDArray[np.intp], ...]

    def main(self, j: int) -> slice:
        """Positions of a column's main effect."""
        return slice(self.starts[j], self.starts[j] + self.sizes[j])

    def factors(self, j: int) -> slice:
        """Positions of a column's factors."""
        return slice(self.starts[j] + self.sizes[j], self.starts[j + 1])


def places_of(
    mains: Sequence[Floats],
    factors: Sequence[Floats],
    ranks: Mapping[int, int],
    correlated: Sequence[int] | None = None,
) -> Places:
    """Positions of all coordinates of main effects and, of factors, of all or of those in ``correlated``."""
    rank, ends = Orders(ranks).n_factors, starts_of(mains, factors, ranks)
    sizes = tuple(main.shape[1] for main in mains)
    numbers = np.arange(ends[-1]) if correlated is None else np.asarray(correlated, dtype=np.intp)
    of_factors = [
        numbers[slice(*np.searchsorted(numbers, (start + size, end)))] - start - size
        for start, size, end in zip(ends[:-1], sizes, ends[1:], strict=True)
    ]
    starts = accumulate((size + len(part) for size, part in zip(sizes, of_factors, strict=True)), initial=1)
    return Places(tuple(starts), sizes, *zip(*(np.divmod(part, max(rank, 1)) for part in of_factors), strict=True))


def starts_of(mains: Sequence[Floats], factors: Sequence[Floats], ranks: Mapping[int, int]) -> list[int]:
    """First coordinate of every column, and the number P of all; coordinate 0 is the intercept."""
    rank = Orders(ranks).n_factors
    sizes = (main.shape[1] + factor.shape[1] * rank for main, factor in zip(mains, factors, strict=True))
    return list(accumulate(sizes, initial=1))


def tables_at(
    theta: Floats,
    mains: Sequence[Floats],
    factors: Sequence[Floats],
    ranks: Mapping[int, int],
    loadings: Mapping[int, Floats] | None = None,
    means: Floats | None = None,
) -> Tables:
    """The linear predictor with coordinates ``theta``, at the codes; ``means`` are constants of product factors."""
    starts, orders = starts_of(mains, factors, ranks), Orders(ranks)
    found = []
    for main_values, values, start, end in zip(mains, factors, starts[:-1], starts[1:], strict=True):
        middle = start + main_values.shape[1]
        rest = values @ theta[middle:end].reshape(values.shape[1], orders.n_factors)
        found.append(np.column_stack([main_values @ theta[start:middle], rest]))
    intercept = float(theta[0])
    if means is not None and loadings is not None:  # whole products; their constant and main effects are subtracted
        part, loading = orders.slices[PRODUCT], loadings[PRODUCT]
        intercept -= float(means.prod(axis=0) @ loading)
        for functions, mean, weight in zip(found, means, of_one_column(means, loading), strict=True):
            main_of(functions)[:] -= functions[:, part] @ weight
            functions[:, part] += mean
    return Tables(intercept, *orders.split(np.vstack(found)), loadings, means)


def jacobian(
    chunk: Chunk, tables: Tables, mains: Sequence[Floats], factors: Sequence[Floats], places: Places | None = None
) -> Floats:
    """Derivatives (n, Q) of linear predictors by coordinates: intercept, then main effect and factors by column; by all
    P coordinates where ``places`` is None.
    """
    at = places_of(mains, factors, tables.orders) if places is None else places
    rows = rows_of(chunk)
    out = np.empty((chunk.n_rows, at.starts[-1]))
    out[:, 0] = 1.0
    for j, (main, factor) in enumerate(zip(mains, factors, strict=True)):
        codes = chunk.codes.columns[j]
        out[:, at.main(j)] = main[codes]
        if len(at.factor[j]):
            others = slopes(rows, tables, j)
            out[:, at.factors(j)] = factor[:, at.coordinate[j]][codes] * others[:, at.factor[j]]
    return out


def diagonal(
    chunk: Chunk, tables: Tables, mains: Sequence[Floats], factors: Sequence[Floats], weight: Floats
) -> Floats:
    """``sum_i weight_i J_ip^2`` (P,) of the rows' Jacobian and weights (n,), without J."""
    rows = rows_of(chunk)
    parts = [np.array([weight.sum()])]
    for j, (main, factor) in enumerate(zip(mains, factors, strict=True)):
        codes = chunk.codes.columns[j]
        mass = np.bincount(codes, weights=weight, minlength=len(main))
        parts.append(mass @ main**2)
        if factor.shape[1] and tables.width > 1:
            others = slopes(rows, tables, j)
            parts.append(((factor**2)[codes].T @ (weight[:, np.newaxis] * others**2)).ravel())
    return np.concatenate(parts)


def pulled_back(chunk: Chunk, tables: Tables, mains: Sequence[Floats], factors: Sequence[Floats], g: Floats) -> Floats:
    """``J' g`` (P,) of the rows' Jacobian (n, P) and g (n,), by sums per code: in one pass, without J."""
    if not any(factor.shape[1] for factor in factors):  # of several classes: curves count as known
        pairs = zip(mains, chunk.codes.columns, strict=True)
        sums_by_code = [main.T @ np.bincount(codes, g, minlength=len(main)) for main, codes in pairs]
        return np.concatenate([[g.sum()], *sums_by_code])
    (sums,) = rows_of(chunk).pull_back([tables], np.ascontiguousarray(g[:, np.newaxis]))
    starts = list(accumulate(map(len, mains), initial=0))
    parts = [np.array([sums.intercept])]
    for j, (main, factor, a, b) in enumerate(zip(mains, factors, starts[:-1], starts[1:], strict=True)):
        parts.append(main.T @ sums.main[a:b])
        if tables.factors:
            sums_of_factors = tables.orders.joined_factors({order: part[a:b] for order, part in sums.factors.items()})
            parts.append(
                (factor.T @ (sums_of_factors - np.outer(sums.main[a:b], _main_effect_weights(tables, j)))).ravel()
            )
    return np.concatenate(parts)


def slopes(rows: Rows, tables: Tables, j: int) -> Floats:
    """Derivatives (n, factors) by the values of a column's factors."""
    return np.asarray(factors_of(rows.leave_one_out(tables, j)) - _main_effect_weights(tables, j))


def _main_effect_weights(tables: Tables, j: int) -> Floats:
    """Weights (factors,) of a column's factors in the main effects of whole products; zero for other factors."""
    found = np.zeros(tables.orders.n_factors)
    if tables.means is not None:
        found[tables.orders.factor_slices[PRODUCT]] = of_one_column(tables.means, tables.loading(PRODUCT))[j]
    return found


def rows_of(chunk: Chunk) -> Rows:
    """The rows as one chunk: sums over chunks of other sizes would round differently."""
    return backend_of().load(ArraySource(chunk.codes, chunk_rows=max(chunk.n_rows, 1)), SerialExecutor())
