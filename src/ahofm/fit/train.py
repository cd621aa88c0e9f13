"""From a table and a target to a frozen model: the whole way, in the order it happens."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from ahofm.columns import MAX_CODES, Codes, Encoder
from ahofm.columns.basis import Floats
from ahofm.columns.encode import Kinds
from ahofm.columns.table import Table, read_table
from ahofm.families import Family, Gaussian
from ahofm.fit.adam import Adam
from ahofm.fit.bcd import Bcd
from ahofm.fit.capacity import check_order, check_ranks
from ahofm.fit.lbfgs import Lbfgs
from ahofm.fit.objective import Objective
from ahofm.fit.smoothing import Df, DfKind, strengths_of
from ahofm.fit.solver import Callback, Solver, minimise
from ahofm.fit.start import random_start
from ahofm.kernels import NativeKernel
from ahofm.model import Layout, Model, Reason, Terms, Trace, check_offset, check_weight
from ahofm.rows import ArraySource, ThreadExecutor

FLOAT64_ROWS = 200_000
"""Up to here rows are computed in float64, which costs little; beyond, in float32."""

MERGED_ROWS = 10_000
"""Up to here equal rows become one with the sum of their weights, in an order that depends on their values alone.
Repeated rows and integer weights, or rows in another order, then give the same fit to the bit; an iteration that is not
convex would let rounding grow.
"""

SOLVERS = ("auto", "lbfgs", "bcd", "adam")


@dataclass(frozen=True)
class Settings:
    """How to fit. Documented at :class:`ahofm.AHOFMRegressor`."""

    order: int = 2
    rank: Any = 5
    columns: Kinds = None
    df: Df = None
    df_kind: DfKind = "residual"
    ridge: float = 0.01
    solver: str | Solver[Any] = "auto"
    center: bool = True
    max_codes: int = MAX_CODES
    validation_fraction: float | None = 0.1
    patience: int = 50
    max_iter: int = 1000
    tol: float = 1e-4
    n_threads: int | None = None
    seed: int = 0
    callbacks: Sequence[Callback] = ()


@dataclass(frozen=True)
class Rows:
    """Target, weight and offset of the rows that count."""

    y: Floats
    weight: Floats
    offset: Floats | None

    def take(self, rows: NDArray[Any]) -> Rows:
        """Some of the rows."""
        return Rows(self.y[rows], self.weight[rows], None if self.offset is None else self.offset[rows])


def fit_model(
    X: Any,
    y: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    family: Family | None = None,
    settings: Settings | None = None,
    classes: tuple[Any, ...] | None = None,
) -> Model:
    """Fit an additive higher-order factorization machine.

    Parameters
    ----------
    X : NumPy array, pandas, polars or Arrow table
    y : array of shape (n,)
    weight : array of shape (n,), optional
        Integer weights act as repeated rows, rows of weight zero as absent.
    offset : array of shape (n,) or (n, predictors), optional
    family : Family, optional
        Gaussian by default.
    settings : Settings, optional
    classes : tuple, optional
        Labels of the classes 0, 1, ..., to be kept with the model.
    """
    family, settings = family or Gaussian(), settings or Settings()
    check_settings(settings)
    table, rows = _counted(read_table(X), y, weight, offset, family)
    family.check(rows.y)

    begun = time.perf_counter()
    encoder = Encoder.learn(
        table, settings.columns, max_codes=settings.max_codes, sample_weight=rows.weight, n_threads=settings.n_threads
    )
    codes = encoder.encode(table, n_threads=settings.n_threads)
    codes, rows = _merged(codes, rows) if table.n_rows <= MERGED_ROWS else (codes, rows)
    learned = time.perf_counter()

    varying = sum(book.size > 0 for book in encoder.codebooks)
    order = check_order(settings.order, varying, table.n_rows)
    ranks = check_ranks(settings.rank, int(settings.order), order)
    strengths = strengths_of(encoder.codebooks, [1, *ranks], settings.df, settings.df_kind)
    layout = Layout.of(encoder.codebooks, ranks, center=settings.center)
    filled, total = family.filled(rows.y, rows.weight), float(rows.weight.sum())
    inner, units = filled.standardised(rows.y, rows.weight)
    rows = replace(
        rows,
        y=units.of_target(rows.y),
        offset=None if rows.offset is None else units.of_offset(rows.offset),
    )
    strength = np.tile(layout.strengths(strengths, settings.ridge * total), inner.n_predictors)
    objective, validation = _objectives(codes, rows, inner, layout, strength, settings)
    solver = _solver(settings, validation)
    intercepts = inner.start(rows.y, rows.weight, rows.offset)
    start = random_start(objective, intercepts, encoder.names, settings.seed)
    ready = time.perf_counter()

    tol = None if solver.name == "adam" else settings.tol  # noise on the way is no sign of convergence
    theta, trace = minimise(solver, objective, start, max_iter=settings.max_iter, tol=tol, callbacks=settings.callbacks)
    _warn_unless_finished(trace, settings)
    seconds = {"learn": learned - begun, "setup": ready - learned, **trace.seconds}
    predictors = tuple(
        Terms.of(layout, part, shift, factor)
        for part, shift, factor in zip(objective.split(theta), units.shift, units.factor, strict=True)
    )
    return Model(encoder, filled, ranks, predictors, classes, strengths, total, replace(trace, seconds=seconds))


def check_settings(settings: Settings) -> None:
    """Raise ValueError for a setting that makes no sense whatever the data."""
    if isinstance(settings.solver, str):
        if settings.solver not in SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(map(repr, SOLVERS))}, got {settings.solver!r}")
    elif not isinstance(settings.solver, Solver):
        raise TypeError(f"solver must be a name or have `init` and `step`, got {settings.solver!r}")
    fraction = settings.validation_fraction
    if fraction is not None and not 0.0 <= fraction < 1.0:
        raise ValueError(f"validation_fraction must be in [0, 1), got {fraction!r}")
    for name in ("patience", "max_iter"):
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
    if not 0.0 <= settings.ridge < np.inf:
        raise ValueError(f"ridge must be a number of at least 0, got {settings.ridge!r}")
    if not settings.tol > 0.0:
        raise ValueError(f"tol must be positive, got {settings.tol!r}")


def _counted(
    table: Table, y: ArrayLike, weight: ArrayLike | None, offset: ArrayLike | None, family: Family
) -> tuple[Table, Rows]:
    """Table and target without the rows of weight zero."""
    target = np.asarray(y, dtype=np.float64)
    if target.shape != (table.n_rows,):
        raise ValueError(f"y has shape {target.shape}, but X has {table.n_rows} rows; expected ({table.n_rows},)")
    weights = check_weight(weight, table.n_rows)
    shifts = None if offset is None else check_offset(offset, table.n_rows, family)
    rows = Rows(target, weights, shifts)
    if weights.all():
        return table, rows
    kept = np.flatnonzero(weights)
    return Table(table.names, tuple(column[kept] for column in table.columns), table.named), rows.take(kept)


def _merged(codes: Codes, rows: Rows) -> tuple[Codes, Rows]:
    """Distinct rows in the order of their codes, targets and offsets."""
    keys = [*codes.columns, rows.y, *([] if rows.offset is None else rows.offset.T)]
    order = np.lexsort(keys[::-1])
    new = np.zeros(len(order), dtype=bool)
    new[0] = True
    for key in keys:
        new[1:] |= key[order[1:]] != key[order[:-1]]
    starts = np.flatnonzero(new)
    weight = np.add.reduceat(rows.weight[order], starts)
    first = order[starts]
    return codes.take(first), replace(rows.take(first), weight=weight)


def _objectives(
    codes: Codes, rows: Rows, family: Family, layout: Layout, strength: Floats, settings: Settings
) -> tuple[Objective, Objective | None]:
    """The objective on the training rows, and on those set aside when the solver stops early."""
    n = len(rows.y)
    set_aside = round((settings.validation_fraction or 0.0) * n) if settings.solver == "adam" else 0
    if settings.solver != "adam":
        return _objective(codes, rows, family, layout, strength, settings), None
    order = np.random.default_rng(settings.seed).permutation(n)  # neighbours in the table need not share a batch
    train, rest = order[set_aside:], order[:set_aside]
    share = float(rows.weight[train].sum() / rows.weight.sum())  # a df stands for a strength per unit of weight
    objective = _objective(codes.take(train), rows.take(train), family, layout, strength * share, settings)
    if not set_aside:
        return objective, None
    return objective, _objective(codes.take(rest), rows.take(rest), family, layout, strength, settings)


def _objective(
    codes: Codes, rows: Rows, family: Family, layout: Layout, strength: Floats, settings: Settings
) -> Objective:
    kernel = NativeKernel("float64" if len(rows.y) <= FLOAT64_ROWS else "float32")
    weight = None if (rows.weight == 1.0).all() else rows.weight
    source = ArraySource(codes, rows.y, weight, rows.offset)
    total = float(rows.weight.sum())
    return Objective(source, ThreadExecutor(settings.n_threads), kernel, family, layout, strength, total)


def _solver(settings: Settings, validation: Objective | None) -> Solver[Any]:
    if not isinstance(settings.solver, str):
        return settings.solver
    if settings.solver == "adam":
        return Adam(validation, patience=settings.patience, seed=settings.seed)
    return Bcd() if settings.solver == "bcd" else Lbfgs()


def _warn_unless_finished(trace: Trace, settings: Settings) -> None:
    if trace.reason.success or trace.reason is Reason.CALLBACK:
        return
    remedy = {
        Reason.MAX_ITER: f"; raise max_iter={settings.max_iter} or tol={settings.tol:g}",
        Reason.DIVERGED: "; the model is the best one seen: try solver='lbfgs', fewer df, or look for extreme targets",
    }.get(trace.reason, "; the model is the best one seen")
    warnings.warn(f"the fit {trace.reason.value}{remedy}", ConvergenceWarning, stacklevel=3)
