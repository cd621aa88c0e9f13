"""Merge: the stacked model, a weighted mean of fits. Main effects add up, factors stand side by side."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.families import Units
from ahofm.families.links import quiet
from ahofm.fit.data import Data
from ahofm.fit.solvers.variational.posterior import Fit, StageResult
from ahofm.fit.stacking.problem import TrainingProblem
from ahofm.fit.stacking.weights import StackingWeights
from ahofm.model import Choice, Lower, Model, Terms, Trace
from ahofm.model.shares import symmetric
from ahofm.tuning import FAR_ETA, LEAST_VARIANCE, MUCH_WORSE, SILENT_CURVATURE


@dataclass(frozen=True)
class Members:
    """Fits of the ensemble members to all rows.

    Attributes
    ----------
    fits : sequence of (candidate, fits)
        The number of the member's candidate, and its fit at the end of every stage that it has reached.
    settled : bool
        Whether the last sweeps of all members changed next to nothing.
    """

    fits: Sequence[tuple[int, list[Fit]]] = ()
    settled: bool = False


def merge(
    problem: TrainingProblem,
    members: Members,
    weights: Mapping[int, StackingWeights],
    trace: Trace,
    choices: tuple[Choice, ...],
    classes: tuple[Any, ...] | None,
) -> Model:
    """The stacked model at every order: the mean of the members, by stacking weights.

    Parameters
    ----------
    problem : TrainingProblem
    members : Members
    weights : dict of order to stacking weights
        At each order d, the weight of every (candidate, order up to d). Members of one candidate share its weight.
    trace, choices, classes
        Go into the model as they are.

    Returns
    -------
    Model
        With the model of every lower order in ``lower``, and open parameters of the family estimated.
    """
    data, fitted = problem.data, members.fits
    orders = [1, *problem.ranks]

    def at_order(order: int) -> list[tuple[float, Fit]]:
        parts = []
        for (candidate, below), weight in weights[order].items():
            own = _good([_of_order(fits, orders.index(below)) for other, fits in fitted if other == candidate])
            parts += [(weight / len(own), fit) for fit in own]
        parts = parts or [(1.0, _of_order(fits, orders.index(order))) for _, fits in fitted]
        scale = min(sum(weights[order].values()), 1.0) / sum(weight for weight, _ in parts)
        return [(scale * weight, fit) for weight, fit in parts]

    books = data.encoder.codebooks
    constants = problem.response.constants
    models = [merged(at_order(order), books, problem.columns, data.units, constants) for order in orders]
    lower = tuple(Lower(order, ranks, terms) for order, (ranks, terms) in zip(orders, models, strict=True))[:-1]
    ranks, terms = models[-1]
    last = at_order(orders[-1])
    best = max(last, key=lambda part: part[0])[1][0]
    noise = sum(weight * fit[0].noise for weight, fit in last) / sum(weight for weight, _ in last)
    model = Model(
        data.encoder,
        data.family,
        ranks,
        terms,
        classes,
        _smoothing_parameters(best, problem, ranks),
        data.total,
        trace,
        lower,
        choices,
        noise * _dispersion_unit(problem) if data.family.dispersed else None,
    )
    return model if problem.response.quadratic else _checked(model, data)


def _of_order(fits: Sequence[Fit], at: int) -> Fit:
    """The fit after a stage; the last there is, if it was interrupted."""
    return fits[min(at, len(fits) - 1)]


def _good(copies: Sequence[Fit]) -> list[Fit]:
    """Fits by one candidate without those that ended much worse than the best: a start may lead nowhere."""
    least = min((copy[0].noise for copy in copies), default=0.0)
    return [copy for copy in copies if copy[0].noise <= MUCH_WORSE * least]


def _checked(model: Model, data: Data) -> Model:
    """With the family's open parameters estimated on the raw sample; warns where linear predictors are extreme."""
    rows, units, family = data.rows, data.units, data.family
    y = units.centre + units.scale * rows.y
    eta = model.eta(data.table)
    eta = eta if rows.offset is None else eta + rows.offset * np.asarray(units.factor)
    loss, _, curvature = family.loss(y, eta)
    curvature = (curvature * np.square(units.factor)).max(axis=1)
    outside = int((~np.isfinite(loss)).sum())
    far = int((np.abs(eta).max(axis=1) > FAR_ETA).sum()) if family.logarithmic else 0
    silent = int((curvature <= SILENT_CURVATURE * np.average(curvature, weights=rows.weight)).sum())
    trouble = ""
    if outside:
        trouble = (
            f"linear predictors leave the range of the link in {outside} row(s) of training; the log link has none"
        )
    elif far:
        trouble = (
            f"linear predictors are beyond {FAR_ETA:g} in {far} row(s) of training: columns may separate the classes, "
            "or leave regions without events; probabilities there are 0 or 1 to rounding, "
            "and how far is the prior's choice"
        )
    elif silent:
        trouble = (
            f"{silent} row(s) of training tell next to nothing about their linear predictors, e.g. in a region without "
            "events; how far linear predictors go there is the prior's choice"
        )
    if trouble:
        warnings.warn(trouble, RuntimeWarning, stacklevel=2)
    return replace(model, family=family.learned(y, eta, rows.weight))


def _dispersion_unit(problem: TrainingProblem) -> float:
    """The dispersion of the target as it is, for one of 1 of the standardised target."""
    data, response = problem.data, problem.response
    if response.quadratic:
        return data.units.scale**2
    inner = response.shifted(np.tile(response.constants, (response.n_rows, 1)))
    outer = np.asarray(data.units.shift) + np.asarray(data.units.factor) * inner
    y = data.units.centre + data.units.scale * response.y
    unit = response.mean_of(data.inner.pearson(response.y, inner))
    return response.mean_of(data.family.pearson(y, outer)) / unit if unit > 0.0 else 1.0


def _smoothing_parameters(
    stage_result: StageResult, problem: TrainingProblem, ranks: Mapping[int, int]
) -> dict[int, Floats]:
    """First smoothing parameter of each column and order in the fit that counts most; 0 for constant columns."""
    out = {order: np.zeros(len(problem.data.encoder.codebooks)) for order in (1, *ranks)}
    ends = np.cumsum([0, *stage_result.ranks.values()])
    for j, (main, factors) in zip(problem.columns, stage_result.smoothing_parameters, strict=True):
        out[1][j] = main[0, 0]
        for order, start in zip(stage_result.ranks, ends[:-1], strict=True):
            if order in out:
                out[order][j] = factors[0, start]
    return out


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
    return np.asarray(weight**2 * symmetric(np.array(squares), order) > min(LEAST_VARIANCE, 0.01 * stage_result.noise))
