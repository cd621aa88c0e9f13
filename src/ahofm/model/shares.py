"""How much of a linear predictor's variance each order and each column carries, without enumerating interactions.

Under the product of the columns' marginal distributions in training. With M_j[f, g] = E[phi_jf phi_jg] and
m_jf = E[phi_jf] over the codes of column j, the moments T[a, b] = E[e_a(phi_f) e_b(phi_g)] follow from column to
column:

    T[a, b] += m_jf T[a - 1, b] + m_jg T[a, b - 1] + M_j[f, g] T[a - 1, b - 1]

so that all C(p, d) interactions of an order together cost a recursion over the columns. Pairs of factors count with the
product of their loadings. Product factors count with their terms of two and more columns, main effects with what these
say of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.kernels import Tables
from ahofm.kernels.symmetric import symmetric, without_each
from ahofm.model.terms import of_one_column
from ahofm.orders import PRODUCT


@dataclass(frozen=True)
class Variances:
    """Variances of a linear predictor's parts.

    Attributes
    ----------
    orders : dict of order to float
        Of all terms of that order together.
    columns : array of shape (columns,)
        Of everything that changes with the column: what would be lost without it.
    """

    orders: dict[int, float]
    columns: Floats

    @property
    def total(self) -> float:
        """Of the whole linear predictor, when factors are centred; without centring orders overlap."""
        return sum(self.orders.values())


def variances(tables: Tables, books: Sequence[Codebook]) -> Variances:
    """Variances of the parts of a linear predictor given at the codes."""
    return all_variances([tables], books)[0]


def all_variances(tables: Sequence[Tables], books: Sequence[Codebook]) -> list[Variances]:
    """Variances of the parts of several linear predictors; moments of factors that they share are computed once."""
    starts = np.cumsum([0, *(book.n_codes for book in books)])
    masses = [book.distribution for book in books]
    rows = [slice(a, b) for a, b in pairwise(starts)]
    found = [_of_main_effects(of_predictor, masses, rows) for of_predictor in tables]
    for order in sorted({order for of_predictor in tables for order in of_predictor.factors}):
        for table, which in _distinct_factors(tables, order):
            loadings = np.array([tables[k].loading(order) for k in which])
            means = np.array([mass @ table[part] for mass, part in zip(masses, rows, strict=True)])
            moments = np.array(
                [table[part].T @ (mass[:, np.newaxis] * table[part]) for mass, part in zip(masses, rows, strict=True)]
            )
            for k, together, columns in zip(which, *_of_factors(means, moments, order, loadings), strict=True):
                found[k].orders[order] = float(together)
                found[k].columns[:] += columns
    return [Variances(part.orders, np.maximum(part.columns, 0.0)) for part in found]


def _of_main_effects(tables: Tables, masses: Sequence[Floats], rows: Sequence[slice]) -> Variances:
    """Variances of main effects, with what product factors say of one column."""
    main = tables.main.copy()
    if PRODUCT in tables.factors:
        table = tables.factors[PRODUCT]
        means = np.array([mass @ table[part] for mass, part in zip(masses, rows, strict=True)])
        for part, weight in zip(rows, of_one_column(means, tables.loading(PRODUCT)), strict=True):
            main[part] += table[part] @ weight
    mains = np.array([_variance(mass, main[part]) for mass, part in zip(masses, rows, strict=True)])
    return Variances({1: float(mains.sum())}, mains.copy())


def _distinct_factors(tables: Sequence[Tables], order: int) -> list[tuple[Floats, list[int]]]:
    """Functions (codes, F) of the factors of an order, each with the linear predictors that have them."""
    groups: list[tuple[Floats, list[int]]] = []
    for k, of_predictor in enumerate(tables):
        if order not in of_predictor.factors:
            continue
        table = of_predictor.factors[order]
        for other, which in groups:
            if other is table or np.array_equal(other, table):
                which.append(k)
                break
        else:
            groups.append((table, [k]))
    return groups


def _of_factors(means: Floats, moments: Floats, order: int, loadings: Floats) -> tuple[Floats, Floats]:
    """Variances of all terms of an order (K,), and of those of each column (K, columns), for loadings (K, F)."""
    products = means[:, :, np.newaxis] * means[:, np.newaxis, :]
    covariances = moments - products
    if order == PRODUCT:
        of_squares, of_means = (_without_one(part) for part in (moments, products))
        together = moments.prod(axis=0) - products.prod(axis=0) - (covariances * of_means).sum(axis=0)
        return _squares(together, loadings), _squares(covariances * (of_squares - of_means), loadings)
    mean, columns = symmetric(means, order), np.zeros((len(loadings), len(means)))
    together = _cross_moments(means, moments, order) - np.outer(mean, mean)
    for j, others in _cross_moments_without_each(means, moments, order - 1):
        columns[:, j] = _squares(covariances[j] * others, loadings)
    return _squares(together, loadings), columns


def _squares(matrix: Floats, vectors: Floats) -> Floats:
    """``v' A v`` for each of the vectors (K, F) and matrices A (..., F, F): (K, ...)."""
    return np.array([((matrix @ vector) * vector).sum(axis=-1) for vector in vectors])


def _without_one(matrices: Floats) -> Floats:
    """Elementwise products of all matrices (columns, F, F) but one, for each."""
    return np.asarray(without_each(matrices, np.zeros_like(matrices), 0)[0])


def _variance(mass: Floats, values: Floats) -> float:
    return float(mass @ (values - mass @ values) ** 2)


def _cross_moments(means: Floats, moments: Floats, order: int) -> Floats:
    """E[e_order(phi_f) e_order(phi_g)] for all pairs of factors, from (columns, F) and (columns, F, F)."""
    return np.asarray(_with_columns(_no_columns(order, means.shape[1]), means, moments)[order, order])


def _cross_moments_without_each(means: Floats, moments: Floats, order: int) -> Iterator[tuple[int, Floats]]:
    """The same without one of the columns, for each of them.

    Columns are halved again and again: what is without one half has all of the other, so that each column is added for
    about log2(columns) others instead of all, and nothing is subtracted.
    """
    parts = [(0, len(means), _no_columns(order, means.shape[1]))]
    while parts:
        start, end, others = parts.pop()
        if end - start == 1:
            yield start, others[order, order]
            continue
        middle = (start + end) // 2
        first, second = slice(start, middle), slice(middle, end)
        parts.append((start, middle, _with_columns(others, means[second], moments[second])))
        parts.append((middle, end, _with_columns(others, means[first], moments[first])))


def _no_columns(order: int, size: int) -> Floats:
    """E[e_a(phi_f) e_b(phi_g)] for a, b up to an order, of no columns: (order + 1, order + 1, F, F)."""
    t = np.zeros((order + 1, order + 1, size, size))
    t[0, 0] = 1.0
    return t


def _with_columns(t: Floats, means: Floats, moments: Floats) -> Floats:
    """The same with further columns."""
    t, before = t.copy(), np.empty_like(t)
    for mean, moment in zip(means, moments, strict=True):
        before[:] = t
        t[1:] += mean[:, np.newaxis] * before[:-1]
        t[:, 1:] += mean * before[:, :-1]
        t[1:, 1:] += moment * before[:-1, :-1]
    return t
