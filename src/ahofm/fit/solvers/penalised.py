"""Fits that minimise the paper's penalised objective: smoothing parameters from degrees of freedom, then a solver.

They start from the best constant, no main effects and small random factors. A solver that stops early has validation
rows of its own.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from functools import partial
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.backends import backend_of
from ahofm.columns.basis import Floats
from ahofm.fit.solvers.adam import Adam
from ahofm.fit.solvers.base import Objective, Solver, minimise
from ahofm.fit.solvers.bcd import Bcd
from ahofm.fit.solvers.lbfgs import Lbfgs
from ahofm.kernels import Chunk
from ahofm.model import Layout, Model
from ahofm.priors.df import smoothing_parameters_of
from ahofm.rows import ArraySource, MappedSource, Source, fold
from ahofm.training.data import Data, pass_precision
from ahofm.training.factor_groups import factor_groups
from ahofm.training.runner import Deadline, Saved
from ahofm.training.settings import Settings
from ahofm.training.splits import FITTED, VALIDATED
from ahofm.tuning.penalised import INTERACTION_STD, MAX_ITER, TOL


def fit_penalised(
    data: Data,
    ranks: dict[int, int],
    settings: Settings,
    classes: tuple[Any, ...] | None,
    saved: Saved | None = None,
    earlier: Model | None = None,
    deadline: Deadline | None = None,
) -> Model:
    """A model with smoothing parameters by degrees of freedom; starts from an earlier one of the same shape."""
    begun = time.perf_counter()
    books, inner = data.encoder.codebooks, data.inner
    smoothing_parameters = smoothing_parameters_of(
        books, [1, *ranks], settings.df, settings.df_kind, center=settings.center
    )
    layout = Layout.of(books, ranks, center=settings.center)
    lam = np.tile(layout.smoothing_parameters(smoothing_parameters, settings.ridge * data.total), inner.n_eta)
    varying = [j for j, book in enumerate(books) if book.size]
    groups = factor_groups(settings, data.encoder.names, varying)
    left_out = None
    if groups.groups is not None and ranks:
        left_out = np.ones((len(books), layout.orders.n_factors), dtype=bool)
        left_out[varying] = groups.all_left_out(ranks)
    objective, validation = _objectives(data, layout, lam, settings, left_out)
    solver = _solver(settings, validation)
    intercepts = inner.start(data.rows.y, data.rows.weight, data.rows.offset)
    start = random_start(objective, intercepts, data.encoder.names, settings.seed)
    reference = None
    if earlier is not None and earlier.ranks == ranks and len(earlier.linear_predictors) == inner.n_eta:
        predictors = zip(earlier.linear_predictors, data.units.shift, data.units.factor, strict=True)
        thetas = [layout.theta(eta.scaled(-shift / factor, 1.0 / factor)) for eta, shift, factor in predictors]
        starts = [theta for theta in thetas if theta is not None]
        if len(starts) == len(thetas):
            reference = objective.value(start) / objective.total
            start = np.concatenate(starts)
    start = np.where(objective.estimated, start, 0.0)
    ready = time.perf_counter()

    tol = None if solver.name == "adam" else settings.tol or TOL  # noise on the way is no sign of convergence
    limit = settings.max_iter or MAX_ITER
    theta, trace = minimise(
        solver,
        objective,
        start,
        max_iter=limit,
        tol=tol,
        callbacks=settings.callbacks,
        saved=saved,
        reference=reference,
        deadline=deadline,
    )
    trace = replace(trace, seconds={"setup": ready - begun, **trace.seconds})
    linear_predictors = tuple(
        layout.linear_predictor(theta_k).scaled(shift, factor)
        for theta_k, shift, factor in zip(objective.split(theta), data.units.shift, data.units.factor, strict=True)
    )
    model = Model(data.encoder, data.family, linear_predictors, classes, smoothing_parameters, data.total, trace)
    return replace(model, dispersion=_dispersion(model, data)) if data.family.dispersed else model


def _dispersion(model: Model, data: Data) -> float:
    """From the raw sample, as if coefficients had cost no degrees of freedom."""
    offset = None if data.rows.offset is None else data.rows.offset * np.asarray(data.units.factor)
    y = data.units.centre + data.units.scale * data.rows.y
    squares = data.family.pearson(y, model.eta(data.table, offset))
    return float(data.rows.weight @ squares / data.rows.weight.sum())


def _objectives(
    data: Data, layout: Layout, lam: Floats, settings: Settings, left_out: NDArray[np.bool_] | None
) -> tuple[Objective, Objective | None]:
    """The objective on the training rows, and on validation rows when the solver stops early."""
    backend = backend_of(settings.device)
    precision = pass_precision(data.n_rows)

    def objective(source: Source, lam: Floats, total: float) -> Objective:
        rows = backend.load(source, data.executor, precision)
        return Objective(rows, data.inner, layout, lam, total, left_out=left_out)

    if settings.solver != "adam":
        return objective(data.source, lam, data.total), None
    train, validation_rows = training_and_validation_rows(
        data.source, settings.validation_fraction or 0.0, settings.seed, data.rows.roles
    )
    total = fold(_weight_of, train, data.executor)
    fraction = total / data.total  # a df stands for a smoothing parameter per unit of weight
    validation = (
        None
        if validation_rows is None
        else objective(validation_rows, lam, fold(_weight_of, validation_rows, data.executor))
    )
    return objective(train, lam * fraction, total), validation


def _weight_of(chunk: Chunk) -> float:
    return float(chunk.n_rows if chunk.weight is None else chunk.weight.sum())


def _solver(settings: Settings, validation: Objective | None) -> Solver[Any]:
    if isinstance(settings.solver, Solver):
        return settings.solver
    if settings.solver == "adam":
        return Adam(validation, patience=settings.patience, seed=settings.seed)
    return Bcd() if settings.solver == "bcd" else Lbfgs()


def training_and_validation_rows(
    source: Source, fraction: float, seed: int, roles: NDArray[np.int8] | None = None
) -> tuple[Source, Source | None]:
    """Training rows and validation rows: a source without a fraction of its rows, and the rest, None if there is none.

    Rows in memory are shuffled as well: neighbours in the table need not share a batch. Others stay in their chunks,
    of which each gives its fraction. With ``roles`` (n, splits), rows in memory are those of the last split.
    """
    n_rows = source.n_rows
    count = round(fraction * n_rows)
    if isinstance(source, ArraySource):
        order = np.random.default_rng(seed).permutation(n_rows)
        if roles is not None and count:
            role = roles[order, -1]
            return _take(source, order[role == FITTED]), _take(source, order[role == VALIDATED])
        train = _take(source, order[count:])
        return train, _take(source, order[:count]) if count else None
    if not count:
        return source, None
    of_chunk = partial(_part, fraction=fraction, seed=seed)
    return (
        MappedSource(source, partial(of_chunk, validation=False), n_rows - count),
        MappedSource(source, partial(of_chunk, validation=True), count),
    )


def _take(source: ArraySource, rows: np.ndarray) -> ArraySource:
    taken = Chunk(source.codes, source.y, source.weight, source.offset).take(rows)
    return ArraySource(taken.codes, taken.y, taken.weight, taken.offset)


def _part(chunk: Chunk, index: int, fraction: float, seed: int, validation: bool) -> Chunk:
    order = np.random.default_rng([seed, index]).permutation(chunk.n_rows)
    count = round(fraction * chunk.n_rows)
    return chunk.take(np.sort(order[:count] if validation else order[count:]))


def random_start(objective: Objective, intercepts: Floats, names: tuple[str, ...], seed: int) -> Floats:
    """Coefficients to start from.

    Draws go to the columns in the order of their names (x2 before x10), so that a table with its columns in another
    order starts from the same model; directions that are penalised more start smaller.
    """
    layout, theta = objective.layout, np.zeros(objective.size)
    active = sum(coordinates.size > 0 for coordinates in layout.factors)
    lam = objective.split(objective.lam)
    by_name = sorted(range(len(names)), key=lambda j: _natural(names[j]))
    for k, theta_k in enumerate(objective.split(theta)):
        theta_k[0] = intercepts[k]
        for place, j in enumerate(by_name):
            rng = np.random.default_rng([seed, place, k])
            weight = 1.0 / np.sqrt(1.0 + layout.factor(lam[k], j) / objective.total)
            for order, columns in layout.orders.factor_slices.items():
                rank = layout.orders[order]
                variance = (INTERACTION_STD**2 / (rank * comb(active, order))) ** (1.0 / order)
                size = np.sqrt(variance / np.maximum((weight[:, columns] ** 2).sum(axis=0), np.finfo(float).tiny))
                draws = rng.normal(size=(layout.factors[j].size, rank))
                layout.factor(theta_k, j)[:, columns] = draws * weight[:, columns] * size
    return theta


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """A key that sorts numbers within names by their size."""
    runs = re.split(r"([0-9]+)", name)
    return [(not run.isdecimal(), int(run) if run.isdecimal() else 0, run) for run in runs]
