"""How much of a linear predictor's variance each order and each column carries, without enumerating interactions.

Under the product of the columns' own distributions in training. With M_j[f, g] = E[phi_jf phi_jg] and m_jf = E[phi_jf]
over the codes of column j, the moments T[a, b] = E[e_a(phi_f) e_b(phi_g)] follow from column to column:

    T[a, b] += m_jf T[a - 1, b] + m_jg T[a, b - 1] + M_j[f, g] T[a - 1, b - 1]

so that all C(p, d) interactions of an order together cost a recursion over the columns. Pairs of factors count with the
product of their loadings. Product factors count with their terms of two and more columns, main effects with what these
say of one.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    found = [_of_main_effects(own, masses, rows) for own in tables]
    for order in sorted({order for own in tables for order in own.factors}):
        for table, which in _alike(tables, order):
            loadings = [np.outer(tables[k].loading(order), tables[k].loading(order)) for k in which]
            means = np.array([mass @ table[part] for mass, part in zip(masses, rows, strict=True)])
            moments = np.array(
                [table[part].T @ (mass[:, np.newaxis] * table[part]) for mass, part in zip(masses, rows, strict=True)]
            )
            for k, together, columns in zip(which, *_of_factors(means, moments, order, loadings), strict=True):
                found[k].orders[order] = together
                found[k].columns[:] += columns
    return [Variances(own.orders, np.maximum(own.columns, 0.0)) for own in found]


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


def _alike(tables: Sequence[Tables], order: int) -> list[tuple[Floats, list[int]]]:
    """Functions (codes, F) of the factors of an order, each with the linear predictors that have them."""
    groups: list[tuple[Floats, list[int]]] = []
    for k, own in enumerate(tables):
        if order not in own.factors:
            continue
        table = own.factors[order]
        for other, which in groups:
            if np.array_equal(other, table):
                which.append(k)
                break
        else:
            groups.append((table, [k]))
    return groups


def _of_factors(
    means: Floats, moments: Floats, order: int, loadings: Sequence[Floats]
) -> tuple[list[float], list[Floats]]:
    """Variance of all terms of an order, and of those of each column, for each matrix of loadings' products (F, F)."""
    products = means[:, :, np.newaxis] * means[:, np.newaxis, :]
    if order == PRODUCT:
        whole, only = (_without_one(part) for part in (moments, products))
        own = moments - products
        together = moments.prod(axis=0) - products.prod(axis=0) - (own * only).sum(axis=0)
        return (
            [float((loading * together).sum()) for loading in loadings],
            [(loading * own * (whole - only)).sum(axis=(1, 2)) for loading in loadings],
        )
    mean, columns = symmetric(means, order), [np.zeros(len(means)) for _ in loadings]
    together = _joint(means, moments, order) - np.outer(mean, mean)
    for j in range(len(means)):
        others = _joint(np.delete(means, j, axis=0), np.delete(moments, j, axis=0), order - 1)
        for own, loading in zip(columns, loadings, strict=True):
            own[j] = float((loading * (moments[j] - products[j]) * others).sum())
    return [float((loading * together).sum()) for loading in loadings], columns


def _without_one(matrices: Floats) -> Floats:
    """Elementwise products of all matrices (columns, F, F) but one, for each."""
    return np.asarray(without_each(matrices, np.zeros_like(matrices), 0)[0])


def _variance(mass: Floats, values: Floats) -> float:
    return float(mass @ (values - mass @ values) ** 2)


def _joint(means: Floats, moments: Floats, order: int) -> Floats:
    """E[e_order(phi_f) e_order(phi_g)] for all pairs of factors, from (columns, F) and (columns, F, F)."""
    size = means.shape[1]
    t = np.zeros((order + 1, order + 1, size, size))
    t[0, 0] = 1.0
    for mean, moment in zip(means, moments, strict=True):
        before = t.copy()
        t[1:] += mean[:, np.newaxis] * before[:-1]
        t[:, 1:] += mean * before[:, :-1]
        t[1:, 1:] += moment * before[:-1, :-1]
    return np.asarray(t[order, order])
