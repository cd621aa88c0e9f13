"""Who carries the variance: orders, columns, and the strongest interactions.

Everything is under the product of the columns' own distributions in training, where pure terms are uncorrelated: with
G_j = E[psi_j psi_j'], a set S of columns has variance ``w' (prod_{j in S} G_j) w`` (elementwise), and all sets of an
order together have e_order of those matrices in place of the product: no enumeration.
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
from ahofm.model import Model
from ahofm.model.shares import symmetric
from ahofm.orders import MAIN


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
        Share of everything that a column is in: an interaction counts for all its columns.
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
    shares = {order: own / unit for order, own in orders.items()}
    return VarianceShares(tuple(model.encoder.names), total, shares, main / unit, each / unit)


def variances(pure: Pure) -> tuple[dict[int, float], Floats, Floats]:
    """Variance of each order, of each main effect, and of all that each column is in."""
    by_order = _by_order(pure)
    orders = {1: float(by_order[1].sum())}
    for order, part in pure.orders.slices.items():
        loading = np.outer(pure.loadings[order], pure.loadings[order])
        orders[order] = float((loading * symmetric(pure.moments[:, part, part], order)).sum())
    return orders, by_order[1], np.maximum(sum(by_order.values()), 0.0)


def _by_order(pure: Pure) -> dict[int, Floats]:
    """For each order the variance of all its terms that a column is in: (columns,)."""
    found = {1: np.ascontiguousarray(pure.moments[:, MAIN, MAIN])}
    for order, part in pure.orders.slices.items():
        own = pure.moments[:, part, part]
        loading = np.outer(pure.loadings[order], pure.loadings[order])
        found[order] = np.asarray((loading * own * _without_each(own, order - 1)).sum(axis=(1, 2)))
    return found


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
        found += sum(own / order for order, own in _by_order(purify(model, k)).items())
    found = np.maximum(found, 0.0)
    return np.asarray(found / (found.sum() if found.sum() > 0.0 else 1.0))


def _without_each(values: Floats, order: int) -> Floats:
    """e_order over the first axis without one entry of it, for each of them: from both sides, nothing subtracted."""
    count = len(values)
    before, after = np.zeros((2, count + 1, order + 1, *values.shape[1:]))
    before[0, 0] = after[count, 0] = 1.0
    for j in range(count):
        before[j + 1] = before[j]
        before[j + 1, 1:] += values[j] * before[j, :-1]
        at = count - 1 - j
        after[at] = after[at + 1]
        after[at, 1:] += values[at] * after[at + 1, :-1]
    return np.asarray(sum(before[:-1, q] * after[1:, order - q] for q in range(order + 1)))


@one_blas_thread()
def top_interactions(
    fitted: Fitted, k: int = 10, order: int | None = None, *, linear_predictor: Any = None
) -> TopInteractions:
    """Find the interactions with the largest variance.

    A search from the best bound on: sets are built column by column, and a set whose completions cannot reach the k-th
    best so far is not followed. The result is that of looking at all of them.

    Parameters
    ----------
    fitted : estimator or model
        Fitted.
    k : int, default 10
        How many.
    order : int, optional
        Of how many columns; all orders by default.
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
    for one in orders_of(model, order):
        if one in pure.orders:
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
    part, columns = pure.orders.slices[order], pure.active
    if order > len(columns):
        return best
    rows, cols = np.triu_indices(part.stop - part.start)
    own = pure.moments[columns][:, part, part][:, rows, cols]  # symmetric: half of it, off the diagonal twice
    start = (np.outer(pure.loadings[order], pure.loadings[order]) * 2.0)[rows, cols]
    start[rows == cols] *= 0.5
    strongest = np.argsort(-np.abs(own) @ np.abs(start), kind="stable")
    columns, own = [columns[at] for at in strongest], own[strongest]
    size = np.abs(own)
    later = np.maximum.accumulate(size[::-1], axis=0)[::-1]  # largest of this column and those after it
    heapq.heapify(best)
    waiting: list[tuple[float, tuple[int, ...]]] = [(-np.inf, ())]
    while waiting:
        bound, chosen = heapq.heappop(waiting)
        if len(best) == k and -bound <= best[0][0]:
            break
        product = start * np.prod(own[list(chosen)], axis=0)
        first, missing = (chosen[-1] + 1 if chosen else 0), order - len(chosen)
        last = len(columns) - missing + 1
        if missing == 1:
            for at, value in enumerate(own[first:last] @ product, start=first):
                item = (max(float(value), 0.0), tuple(sorted(columns[j] for j in (*chosen, at))))
                if len(best) < k:
                    heapq.heappush(best, item)
                elif item > best[0]:
                    heapq.heapreplace(best, item)
            continue
        reach = np.abs(product) * size[first:last] * later[first + 1 : last + 1] ** (missing - 1)
        for at, value in enumerate(reach.sum(axis=1), start=first):
            if len(best) < k or value > best[0][0]:
                heapq.heappush(waiting, (-float(value), (*chosen, at)))
    return best
