"""Shares of the variance of orders and columns, and the strongest interactions.

Moments are under the product of the columns' own distributions in training, where pure terms are uncorrelated: with
G_j = E[phi_j phi_j'], M_j = m_j m_j' of product factors and M_j = 1 of others, a set S of columns has variance
``w' (prod_{j in S} G_j prod_{j not in S} M_j) w`` (elementwise). All sets of k columns together have the coefficient of
t^k in ``prod_j (M_j + t G_j)`` in place of the product, so that sets are not enumerated.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.explain.arguments import Fitted, linear_predictor_of, model_of, orders_of
from ahofm.explain.frames import Framed, frame
from ahofm.explain.pure import Pure, purify
from ahofm.kernels.blas import one_blas_thread
from ahofm.kernels.symmetric import truncated, without_each
from ahofm.model import Model
from ahofm.orders import MAIN, PRODUCT
from ahofm.threads import obeys_n_jobs


@dataclass(frozen=True)
class VarianceShares(Framed):
    """Shares of the linear predictor's variance, if columns were independent.

    Attributes
    ----------
    columns : tuple of str
    total : float
        The variance.
    orders : dict of order to float
        Share of all terms of that order; they add up to 1.
    main : array of shape (columns,)
        Share of each main effect.
    each : array of shape (columns,)
        Share of all terms that contain a column: an interaction counts for each of its columns.
    """

    columns: tuple[str, ...]
    total: float
    orders: Mapping[int, float]
    main: Floats
    each: Floats

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per column, the largest first."""
        order = np.argsort(-self.each, kind="stable")
        data = {
            "column": [self.columns[j] for j in order],
            "main": self.main[order],
            "interactions": (self.each - self.main)[order],
            "total": self.each[order],
        }
        return frame(data, backend)


@dataclass(frozen=True)
class TopInteractions(Framed):
    """The strongest interactions.

    Attributes
    ----------
    terms : tuple of tuples of str
        The columns of each.
    shares : array of shape (terms,)
        Of the linear predictor's variance, if columns were independent; decreasing.
    std : array of shape (terms,)
        Standard deviation of each.
    """

    terms: tuple[tuple[str, ...], ...]
    shares: Floats
    std: Floats

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per interaction."""
        names = [" x ".join(term) for term in self.terms]
        return frame(
            {"term": names, "order": list(map(len, self.terms)), "share": self.shares, "std": self.std}, backend
        )


@obeys_n_jobs
@one_blas_thread()
def variance_shares(fitted: Fitted, *, linear_predictor: Any = None) -> VarianceShares:
    """Compute how much of the variance of the linear predictor each order and each column carries.

    Parameters
    ----------
    fitted : estimator or model
        Fitted.
    linear_predictor : int or class, optional
        Which linear predictor, for families with several.

    Returns
    -------
    VarianceShares
        If columns were independent.

    Examples
    --------
    >>> from ahofm.explain import variance_shares
    >>> shares = variance_shares(model)
    >>> round(shares.orders[2], 1)
    0.4
    >>> shares.main.round(1)
    array([0.5, 0. , 0. ])
    """
    model = model_of(fitted)
    pure = purify(model, linear_predictor_of(model, linear_predictor))
    orders, main, each = variances(pure)
    total = sum(orders.values())
    unit = total if total > 0.0 else 1.0
    shares = {order: variance / unit for order, variance in orders.items()}
    return VarianceShares(tuple(model.encoder.names), total, shares, main / unit, each / unit)


def variances(pure: Pure) -> tuple[dict[int, float], Floats, Floats]:
    """Variance of each order, of each main effect, and of all terms that contain each column; computed once."""
    kept = pure.__dict__.get("_variances")
    if kept is None:
        kept = pure.__dict__["_variances"] = _variances(pure)  # as a cached property
    orders, main, each = kept
    return dict(orders), main, each


def _variances(pure: Pure) -> tuple[dict[int, float], Floats, Floats]:
    main = np.ascontiguousarray(pure.moments[:, MAIN, MAIN])
    orders = {1: float(main.sum())} | dict.fromkeys(pure.term_orders[1:], 0.0)
    if PRODUCT in pure.orders:
        moments, constants, loading = _pairs(pure, PRODUCT)
        for order, one in enumerate(truncated(constants, moments, pure.order)[2:], start=2):
            orders[order] += float((loading * one).sum())
    for order in pure.orders.symmetric:
        moments, constants, loading = _pairs(pure, order)
        orders[order] += float((loading * truncated(constants, moments, order)[order]).sum())
    return orders, main, np.maximum(_of_columns(pure), 0.0)


def _of_columns(pure: Pure, *, divided: bool = False) -> Floats:
    """Variance (columns,) of all terms that contain a column, each divided by its number of columns if ``divided``."""
    found = np.array(pure.moments[:, MAIN, MAIN])
    if PRODUCT in pure.orders:
        moments, constants, loading = _pairs(pure, PRODUCT)
        alone = without_each(constants, np.zeros_like(moments), 0)[0]
        if divided:  # the integral over t takes t^(k - 1) to 1 / k
            nodes, weights = np.polynomial.legendre.leggauss(-(-len(moments) // 2))
            parts = (
                0.5 * weight * without_each(constants + 0.5 * (node + 1.0) * moments, np.zeros_like(moments), 0)[0]
                for node, weight in zip(nodes, weights, strict=True)
            )
            others = sum(parts, np.zeros_like(moments))
        else:
            others = without_each(constants + moments, np.zeros_like(moments), 0)[0]
        found += (loading * moments * (others - alone)).sum(axis=(1, 2))
    for order in pure.orders.symmetric:
        moments, constants, loading = _pairs(pure, order)
        terms = (loading * moments * without_each(constants, moments, order - 1)[order - 1]).sum(axis=(1, 2))
        found += terms / (order if divided else 1)
    return found


def _pairs(pure: Pure, order: int) -> tuple[Floats, Floats, Floats]:
    """G and M (columns, F, F) of the factors with terms of an order, and products of loadings (F, F).

    With ``PRODUCT``, product factors alone; with an order, products of two product factors have loading zero.
    """
    factors = pure.factors_of(order)
    moments = pure.moments[:, factors.which][:, :, factors.which]
    constants = factors.means[:, :, np.newaxis] * factors.means[:, np.newaxis]
    loading = np.outer(factors.loadings, factors.loadings)
    if order != PRODUCT:
        loading[np.ix_(factors.products, factors.products)] = 0.0
    return moments, constants, loading


@obeys_n_jobs
@one_blas_thread()
def importances(fitted: Fitted) -> Floats:
    """Compute the share of the variance of the linear predictor that each column carries.

    Under independent columns, where terms are uncorrelated. A term of d columns counts for each of them by 1/d.

    Parameters
    ----------
    fitted : estimator or model
        Variances of several linear predictors are added up.

    Returns
    -------
    array of shape (columns,)
        In sum 1; all 0 for a constant model.
    """
    model = model_of(fitted)
    found = np.zeros(len(model.encoder.names))
    for k in range(model.family.n_eta):
        found += _of_columns(purify(model, k), divided=True)
    found = np.maximum(found, 0.0)
    return np.asarray(found / (found.sum() if found.sum() > 0.0 else 1.0))


@obeys_n_jobs
@one_blas_thread()
def top_interactions(
    fitted: Fitted, k: int = 10, order: int | None = None, *, linear_predictor: Any = None
) -> TopInteractions:
    """Find the interactions with the largest variance.

    Best-first branch and bound: sets are built column by column, and a set whose completions cannot exceed the k-th
    best so far is not extended. The result is the same as that of an enumeration.

    Parameters
    ----------
    fitted : estimator or model
        Fitted.
    k : int, default 10
        Number of interactions.
    order : int, optional
        Number of columns of the interactions; all orders by default.
    linear_predictor : int or class, optional
        Which linear predictor, for families with several.

    Returns
    -------
    TopInteractions
        The largest first.

    Examples
    --------
    >>> from ahofm.explain import top_interactions
    >>> top_interactions(model, 1).terms
    (('rain', 'sun'),)
    """
    model = model_of(fitted)
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ValueError(f"k must be an integer of at least 1, got {k!r}")
    pure = purify(model, linear_predictor_of(model, linear_predictor))
    best: list[tuple[float, tuple[int, ...]]] = []
    of_orders = variances(pure)[0]
    for one in orders_of(model, order):
        if one in of_orders and (len(best) < k or of_orders[one] > best[0][0]):
            best = _search(pure, one, int(k), best)
    return _named(model, pure, sorted(best, key=lambda item: (-item[0], len(item[1]), item[1])))


def _named(model: Model, pure: Pure, found: list[tuple[float, tuple[int, ...]]]) -> TopInteractions:
    total = sum(variances(pure)[0].values())
    values = np.array([value for value, _ in found])
    terms = tuple(tuple(model.encoder.names[j] for j in subset) for _, subset in found)
    return TopInteractions(terms, values / (total if total > 0.0 else 1.0), np.sqrt(values))


def _search(
    pure: Pure, order: int, k: int, best: list[tuple[float, tuple[int, ...]]]
) -> list[tuple[float, tuple[int, ...]]]:
    """The k best of those given and of all sets of an order."""
    factors, columns = pure.factors_of(order), pure.active
    if order > len(columns):
        return best
    rows, cols = np.triu_indices(len(factors.which))  # symmetric: the upper triangle, off-diagonal entries count twice
    moments = pure.moments[columns][:, factors.which[rows], factors.which[cols]]
    constants = factors.means[columns][:, rows] * factors.means[columns][:, cols]
    idle = factors.outside(columns)  # columns that do not vary
    start = (np.outer(idle, idle) * 2.0)[rows, cols]
    start[rows == cols] *= 0.5
    strongest = np.argsort(-np.abs(moments) @ np.abs(start), kind="stable")
    columns, moments, constants = (
        [columns[at] for at in strongest],
        moments[strongest],
        constants[strongest],
    )
    reach = _reach(np.abs(moments), np.abs(constants), order)
    rest = np.cumprod(np.vstack([np.ones_like(start), constants[::-1]]), axis=0)[::-1]  # of this column and those after
    heapq.heapify(best)
    waiting: list[tuple[float, tuple[int, ...], Floats]] = [(-np.inf, (), start)]
    while waiting:
        bound, chosen, product = heapq.heappop(waiting)
        if len(best) == k and -bound <= best[0][0]:
            break
        first, missing = (chosen[-1] + 1 if chosen else 0), order - len(chosen)
        last = len(columns) - missing + 1
        skipped = np.cumprod(np.vstack([product, constants[first : last - 1]]), axis=0)
        added = skipped * moments[first:last]
        if missing == 1:
            for at, value in enumerate((added * rest[first + 1 : last + 1]).sum(axis=1), start=first):
                item = (max(float(value), 0.0), tuple(sorted(columns[j] for j in (*chosen, at))))
                if len(best) < k:
                    heapq.heappush(best, item)
                elif item > best[0]:
                    heapq.heapreplace(best, item)
            continue
        bounds = (np.abs(added) * reach[missing - 1][first + 1 : last + 1]).sum(axis=1)
        for at, value in enumerate(bounds, start=first):
            if len(best) < k or value > best[0][0]:
                heapq.heappush(waiting, (-float(value), (*chosen, at), added[at - first]))
    return best


def _reach(moments: Floats, constants: Floats, most: int) -> list[Floats]:
    """Bounds (columns + 1, pairs), for r = 0 ... most: the largest product over columns j, j + 1, ..., r in the set.

    Elementwise; a column contributes G if it is in the set, else M.
    """
    count, pairs = moments.shape
    found = [np.zeros((count + 1, pairs)) for _ in range(most + 1)]
    found[0][count] = 1.0
    for j in range(count - 1, -1, -1):
        for r in range(min(most, count - j) + 1):
            inside = moments[j] * found[r - 1][j + 1] if r else 0.0
            found[r][j] = np.maximum(constants[j] * found[r][j + 1], inside)
    return found
