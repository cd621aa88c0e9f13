"""A weighted mean of fits is a fit: main effects add up, factors stand side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.fit.block.stages import Snapshot
from ahofm.model import Terms
from ahofm.model.shares import symmetric

_NOTHING = 1e-5
"""Factors whose term has a smaller share of the target's variance, and of the noise's a hundredth, are dropped."""


def merged(
    parts: Sequence[tuple[float, Snapshot]], books: Sequence[Codebook], shift: float, factor: float, constant: float
) -> tuple[dict[int, int], Terms]:
    """The model ``shift + factor * sum_k weight_k eta_k``: its ranks, and its terms.

    What the weights lack to 1 is the weight of a constant. A factor of order d takes the d-th root of its weight into each of its functions. Factors that have shrunk to
    nothing are dropped.
    """
    orders = sorted({order for _, snapshot in parts for order in snapshot.ranks})
    varying = [j for j, book in enumerate(books) if book.size > 0]
    coef, level = [], []
    masses = [books[j].mass / books[j].mass.sum() for j in varying]
    kept = {order: [_alive(weight, snapshot, order, masses) for weight, snapshot in parts] for order in orders}
    for at, _ in enumerate(varying):
        columns, levels = _side_by_side(parts, at, orders, kept, factor)
        coef.append(columns)
        level.append(levels)
    ranks = {order: sum(int(alive.sum()) for alive in kept[order]) for order in orders}
    width = 1 + sum(ranks.values())
    all_coef = [np.zeros((book.size, width)) for book in books]
    all_level = [np.zeros(width) for _ in books]
    for j, columns, levels in zip(varying, coef, level, strict=True):
        all_coef[j], all_level[j] = columns, levels
    rest = (1.0 - sum(weight for weight, _ in parts)) * constant
    intercept = shift + factor * (rest + sum(weight * snapshot.intercept for weight, snapshot in parts))
    for j, mass in zip(varying, masses, strict=True):  # smooth parts have mean zero over rows, not quite over codes
        mean = float(mass @ (books[j].basis @ all_coef[j][:, 0])) + all_level[j][0]
        all_level[j][0] -= mean
        intercept += mean
    terms = Terms(float(intercept), tuple(all_coef), tuple(all_level))
    return {order: rank for order, rank in ranks.items() if rank}, terms


def _side_by_side(
    parts: Sequence[tuple[float, Snapshot]],
    at: int,
    orders: Sequence[int],
    kept: dict[int, list[NDArray[np.bool_]]],
    factor: float,
) -> tuple[Floats, Floats]:
    """One column's functions in all parts."""
    coef = [sum(factor * weight * snapshot.coef[at][:, :1] for weight, snapshot in parts)]
    level = [sum(factor * weight * snapshot.level[at][:1] for weight, snapshot in parts)]
    for order in orders:
        for (weight, snapshot), alive in zip(parts, kept[order], strict=True):
            own = _slice(snapshot, order)
            root = (factor * weight) ** (1.0 / order)
            coef.append(root * snapshot.coef[at][:, own][:, alive])
            level.append(root * snapshot.level[at][own][alive])
    return np.hstack(coef), np.concatenate(level)


def _slice(snapshot: Snapshot, order: int) -> slice:
    start = 1
    for other, rank in snapshot.ranks.items():
        if other == order:
            return slice(start, start + rank)
        start += rank
    return slice(start, start)


def _alive(weight: float, snapshot: Snapshot, order: int, masses: Sequence[Floats]) -> NDArray[np.bool_]:
    """Which factors of an order have an effect: their term's mean square, in units of the target's variance."""
    own = _slice(snapshot, order)
    squares = [mass @ values[:, own] ** 2 for mass, values in zip(masses, snapshot.values, strict=True)]
    return np.asarray(weight**2 * symmetric(np.array(squares), order) > min(_NOTHING, 0.01 * snapshot.noise))
