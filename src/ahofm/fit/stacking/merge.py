"""A weighted mean of fits is a fit: main effects add up, factors stand side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.families import Units
from ahofm.families.links import quiet
from ahofm.fit.solvers.variational.stages import Fit, StageResult
from ahofm.model import Terms
from ahofm.model.shares import symmetric

_LEAST_VARIANCE = 1e-5
"""Factors whose term has a smaller share of the target's variance, and of the noise's a hundredth, are dropped."""


def merged(
    parts: Sequence[tuple[float, Fit]],
    books: Sequence[Codebook],
    columns: Sequence[int],
    units: Units,
    constants: Floats,
) -> tuple[dict[int, int], tuple[Terms, ...]]:
    """The model ``shift + factor * sum_k weight_k eta_k``, linear predictor by linear predictor: its ranks, and its
    terms.

    ``columns`` are the places of the fits' columns among the books; the others are constant.
    What the weights lack to 1 is the weight of a constant. Factors that have shrunk to nothing, in all linear
    predictors, are dropped.
    """
    orders = sorted({order for _, fit in parts for order in fit[0].ranks})
    masses = [books[j].mass / books[j].mass.sum() for j in columns]
    kept = {
        order: [
            np.logical_or.reduce([_alive(weight, stage_result, order, masses) for stage_result in fit])
            for weight, fit in parts
        ]
        for order in orders
    }
    terms = []
    for k, (shift, factor, constant) in enumerate(zip(units.shift, units.factor, constants, strict=True)):
        own = [(weight, fit[k]) for weight, fit in parts]
        terms.append(_terms(own, books, columns, masses, orders, kept, shift, factor, constant))
    ranks = {order: sum(int(alive.sum()) for alive in kept[order]) for order in orders}
    return {order: rank for order, rank in ranks.items() if rank}, tuple(terms)


def _terms(
    parts: Sequence[tuple[float, StageResult]],
    books: Sequence[Codebook],
    columns: Sequence[int],
    masses: Sequence[Floats],
    orders: Sequence[int],
    kept: dict[int, list[NDArray[np.bool_]]],
    shift: float,
    factor: float,
    constant: float,
) -> Terms:
    """One linear predictor. A factor of order d takes the d-th root of its weight into each of its functions."""
    width = 1 + sum(int(alive.sum()) for order in orders for alive in kept[order])
    coef = [np.zeros((book.size, width)) for book in books]
    centring = [np.zeros(width) for _ in books]
    rest = (1.0 - sum(weight for weight, _ in parts)) * constant
    intercept = shift + factor * (rest + sum(weight * stage_result.intercept for weight, stage_result in parts))
    for at, (j, mass) in enumerate(zip(columns, masses, strict=True)):
        with quiet():  # coefficients of tiny values may overflow, which the fit refuses
            coef[j], centring[j] = _side_by_side(parts, at, orders, kept, factor)
            mean = float(mass @ (books[j].basis @ coef[j][:, 0])) + centring[j][0]
        centring[j][0] -= mean  # smooth parts have mean zero over rows, not quite over codes
        intercept += mean
    return Terms(float(intercept), tuple(coef), tuple(centring))


def _side_by_side(
    parts: Sequence[tuple[float, StageResult]],
    at: int,
    orders: Sequence[int],
    kept: dict[int, list[NDArray[np.bool_]]],
    factor: float,
) -> tuple[Floats, Floats]:
    """One column's functions in all parts."""
    coef = [sum(factor * weight * stage_result.coef[at][:, :1] for weight, stage_result in parts)]
    centring = [sum(factor * weight * stage_result.centring[at][:1] for weight, stage_result in parts)]
    for order in orders:
        for (weight, stage_result), alive in zip(parts, kept[order], strict=True):
            own = _slice(stage_result, order)
            root = np.abs(factor * weight) ** (1.0 / order)
            coef.append(root * stage_result.coef[at][:, own][:, alive])
            centring.append(root * stage_result.centring[at][own][alive])
    return np.hstack(coef), np.concatenate(centring)


def _slice(stage_result: StageResult, order: int) -> slice:
    start = 1
    for other, rank in stage_result.ranks.items():
        if other == order:
            return slice(start, start + rank)
        start += rank
    return slice(start, start)


def _alive(weight: float, stage_result: StageResult, order: int, masses: Sequence[Floats]) -> NDArray[np.bool_]:
    """Which factors of an order have an effect: their term's mean square, in units of the target's variance."""
    own = _slice(stage_result, order)
    squares = [mass @ values[:, own] ** 2 for mass, values in zip(masses, stage_result.values, strict=True)]
    return np.asarray(weight**2 * symmetric(np.array(squares), order) > min(_LEAST_VARIANCE, 0.01 * stage_result.noise))
