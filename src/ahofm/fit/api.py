"""``fit_model``: from a table and a target to a frozen model, in the order of the steps."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from ahofm.backends import FailedError
from ahofm.columns import MAX_CODES, ColumnKind, Encoder, SplineIID
from ahofm.columns.shaped import Shape
from ahofm.columns.table import Table, read_table
from ahofm.families import Family, Gaussian, GaussianLocationScale, Multinomial
from ahofm.fit.location_scale import fit_location_scale
from ahofm.fit.solvers.penalised import fit_penalised
from ahofm.fit.stacking.ensemble import fit_variational
from ahofm.fit.stacking.problem import fold_count, uses_subsample
from ahofm.kernels import MAX_STATE_ORDER
from ahofm.kernels.blas import one_blas_thread
from ahofm.model import Choice, Model, Reason, Trace
from ahofm.model.lines import with_lines
from ahofm.model.rounding import rounded
from ahofm.model.shapes import constrained
from ahofm.model.shared_predictors import together
from ahofm.rows import Dataset
from ahofm.shared_curves.ensemble import fit_classes
from ahofm.training.checkpoint import Checkpoint, fingerprint_of
from ahofm.training.data import Data, Rows, counted_rows, prepare, prepare_dataset
from ahofm.training.factor_groups import allowed_groups, factor_groups, groups_named, highest_order
from ahofm.training.runner import Deadline
from ahofm.training.settings import (
    ESTIMATING,
    Settings,
    TimeBudgetWarning,
    check_order,
    check_ranks,
    check_settings,
)
from ahofm.training.shapes import check_curvature, check_outside_range, shapes_of
from ahofm.training.splits import with_roles
from ahofm.training.validation import Split
from ahofm.tuning import HIGHEST_ORDER, LARGE_BASIS_SIZE, SMALL_BASIS_ROWS, SMALL_BASIS_SIZE
from ahofm.tuning.classes import CLASS_BASIS_SIZE
from ahofm.tuning.subsample import SUBSAMPLE_ROWS


@one_blas_thread()
def fit_model(
    X: Any,
    y: ArrayLike | None = None,
    *,
    weight: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    family: Family | None = None,
    settings: Settings | None = None,
    classes: tuple[Any, ...] | None = None,
    earlier: Model | None = None,
    groups: ArrayLike | None = None,
    cv: int | Sequence[Split] | None = None,
) -> Model:
    """Fit an additive higher-order factorization machine.

    Parameters
    ----------
    X : NumPy array, pandas, polars or Arrow table, or a Dataset
        A dataset has targets, weights and offsets with it.
    y : array of shape (n,)
    weight : array of shape (n,), optional
        Integer weights act as repeated rows, rows of weight zero as absent.
    offset : array of shape (n,) or (n, linear predictors), optional
    family : Family, optional
        Gaussian by default.
    settings : Settings, optional
    classes : tuple, optional
        Labels of the classes 0, 1, ..., to be kept with the model.
    earlier : Model, optional
        Whose codebooks to use and, where smoothing parameters are given, whose coefficients to start from.
    groups : array of shape (n,), optional
        Rows that go together: validation rows are of other groups than the rows that are fitted.
    cv : int or sequence of (rows to fit, validation rows), optional
        Number of folds, or the splits themselves as row numbers.

    Returns
    -------
    Model
        After an interrupt (Ctrl-C) the best so far: ``trace.reason`` is then ``Reason.INTERRUPTED``, and the caller
        has to end, as estimators do. KeyboardInterrupt is raised when there was no model yet. After
        ``settings.time_budget`` seconds it is the best so far too, with a warning: ``Reason.TIME``.
    """
    family, settings = family or Gaussian(), settings or Settings()
    check_settings(settings)
    deadline = Deadline(settings.time_budget)
    if isinstance(X, Dataset):
        if groups is not None or cv is not None:
            raise ValueError("groups and cv are for tables in memory: leave them out, or give a table")
        data = _prepared_dataset(X, family, settings, classes, earlier)
    else:
        splits = None if isinstance(cv, int) else cv
        table, rows = counted_rows(read_table(X), y, weight, offset, family, groups=groups, splits=splits)
        rows = in_folds(rows, cv if isinstance(cv, int) else None, family, settings)
        data = prepared(table, rows, family, settings, table.n_rows, earlier)
    encoded_at = time.perf_counter()
    ranks = ranks_for(data, settings, data.n_rows)
    shapes = checked_shapes(data, ranks, settings)
    saved = None
    if settings.checkpoint is not None:
        saved = Checkpoint(settings.checkpoint, fingerprint_of(data, ranks, settings, classes, earlier))
    try:
        if estimates_smoothing(settings):
            fit = fit_classes if shares_curves(data, settings, data.n_rows) else fit_variational
            if isinstance(family, GaussianLocationScale) and data.all_raw and data.n_rows <= SUBSAMPLE_ROWS:
                fit = fit_location_scale
            model = fit(data, ranks, settings, classes, saved, deadline)
        else:
            model = fit_penalised(data, ranks, settings, classes, saved, earlier, deadline)
    except KeyboardInterrupt:  # before there was a model
        _flush(saved)
        raise
    except FailedError as error:
        raise ValueError(
            f"the fit cannot go on: {error}; look for extreme targets, weights or offsets, and give them in other units"
        ) from error
    if model.trace.reason in (Reason.INTERRUPTED, Reason.TIME):
        _flush(saved)
    elif saved is not None:
        saved.remove()
    _refuse_infinite(model)
    model = _within_constraints(model, data, shapes, settings)
    if settings.prune:
        model = model.without(model.negligible())
    model = with_lines(rounded(model))
    _warn_unless_finished(model.trace, settings)
    return replace(
        model, trace=replace(model.trace, seconds={"learn": encoded_at - deadline.begun, **model.trace.seconds})
    )


def in_folds(rows: Rows, n_folds: int | None, family: Family, settings: Settings) -> Rows:
    """With folds by groups, or of a given number, for fits that have validation rows."""
    if settings.solver != "adam" and not estimates_smoothing(settings):
        return rows
    shared = isinstance(family, Multinomial) and settings.solver in ("auto", "shared")
    return with_roles(
        rows,
        n_folds,
        settings.seed,
        dispersed=family.dispersed,
        default_folds=fold_count(settings),
        classes=shared,
        fraction=settings.validation_fraction if settings.solver == "adam" and n_folds is None else None,
    )


def prepared(
    table: Table, rows: Rows, family: Family, settings: Settings, n_rows: int, earlier: Model | None = None
) -> Data:
    """Learn and encode the columns as a fit of ``n_rows`` rows does; the given rows may be a sample of these."""
    encoder = (
        Encoder.learn(
            table,
            settings.columns,
            default=_default_kind(settings, n_rows, family),
            max_codes=most_codes(settings),
            sample_weight=rows.weight,
            n_threads=settings.n_threads,
        )
        if earlier is None
        else earlier.encoder
    )
    all_raw = settings.solver in ("variational", "shared") or (settings.solver == "adam" and rows.roles is not None)
    return prepare(table, rows, encoder, family, all_raw=all_raw, n_threads=settings.n_threads)


def _prepared_dataset(
    rows: Dataset, family: Family, settings: Settings, classes: tuple[Any, ...] | None, earlier: Model | None
) -> Data:
    """``Data`` of a dataset, whose rows are coded already: by the codebooks of an earlier fit, if there is one."""
    if earlier is None:
        default = _default_kind(settings, rows.source.n_rows, family)
        encoder = Encoder.of(rows.columns, settings.columns, default=default, named=rows.named)
    else:
        encoder = earlier.encoder
        pairs = zip_longest(encoder.learned, rows.columns)
        if not all(
            earlier_column is not None and column is not None and earlier_column.codes_like(column)
            for earlier_column, column in pairs
        ):
            raise ValueError("X was coded by other codebooks than those of the earlier fit; give these when coding it")
    return prepare_dataset(rows, family, encoder, classes, n_threads=settings.n_threads)


def ranks_for(data: Data, settings: Settings, n_rows: int) -> dict[int, int]:
    """Rank of each order from 2 on, in a fit of ``n_rows`` rows."""
    estimated = estimates_smoothing(settings)
    varying = sum(book.size > 0 for book in data.encoder.codebooks)
    requested = _requested_order(settings, varying, estimated)
    order = check_order(requested, varying, n_rows)
    groups = factor_groups(
        settings, data.encoder.names, [j for j, book in enumerate(data.encoder.codebooks) if book.size]
    )
    if estimated and order > MAX_STATE_ORDER:
        raise ValueError(f"order must be at most {MAX_STATE_ORDER} with solver='variational', got {order}; use 'lbfgs'")
    ranks = check_ranks(settings.rank, int(requested), order, n_rows if estimated else None)
    if groups.groups is None:
        return ranks
    given = settings.rank != "auto"
    totals = {d: groups.total_rank(d, rank, given=given, spectral=estimated) for d, rank in ranks.items()}
    return {d: rank for d, rank in totals.items() if rank}


def checked_shapes(data: Data, ranks: dict[int, int], settings: Settings) -> dict[int, Shape]:
    """Shapes that ``monotonic_cst`` asks for, by position of the column; ValueError where they cannot be guaranteed."""
    books = data.encoder.codebooks
    shapes = shapes_of(settings.monotonic_cst, books, data.family)
    varying = [j for j, book in enumerate(books) if book.size]
    groups = factor_groups(settings, data.encoder.names, varying)
    interacting = {varying[at] for order in ranks for group in groups.of_order(order) for at in group}
    check_curvature(shapes, books, interacting)
    check_outside_range(shapes, books)
    return shapes


def _within_constraints(model: Model, data: Data, shapes: dict[int, Shape], settings: Settings) -> Model:
    """The model with the shapes that were asked for, and a record of the interactions that were allowed."""
    groups = allowed_groups(settings.interaction_cst, settings.exclude, data.encoder.names)
    if groups is not None:
        allowed = Choice("allowed interactions", groups_named(groups, data.encoder.names), "given; others are zero")
        model = replace(model, choices=(*model.choices, allowed))
    return constrained(model, shapes, data.codes, data.rows.weight)


def most_codes(settings: Settings) -> int | None:
    """Most codes of a numeric column; None: chosen by the number of distinct values."""
    return settings.max_codes if estimates_smoothing(settings) or settings.max_codes is not None else MAX_CODES


def estimates_smoothing(settings: Settings) -> bool:
    """Whether smoothing parameters are estimated, not given by degrees of freedom."""
    if settings.solver == "auto":
        return settings.smoothing == "auto" and settings.df is None
    return settings.solver in ESTIMATING


def shares_curves(data: Data, settings: Settings, n_rows: int) -> bool:
    """Whether the fit is one of several classes with shared curves: the default, unless it uses a subsample."""
    if settings.solver == "shared" and not isinstance(data.family, Multinomial):
        raise ValueError(
            f"solver='shared' is for several classes, not for {data.family.name}; use 'variational' or 'auto'"
        )
    if settings.solver == "shared" and not data.all_raw:
        raise ValueError(
            f"solver='shared' needs true values of all {data.n_rows} rows, and has {len(data.rows.y)}; "
            "use 'subsample' or 'auto'"
        )
    if settings.solver == "shared" and not isinstance(settings.factor_prior, str):
        raise ValueError(
            "solver='shared' has candidates of its own; give factor_prior by name, or solver='variational'"
        )
    named = isinstance(settings.factor_prior, str)
    shared = settings.solver == "shared" or (
        settings.solver == "auto" and named and not uses_subsample(settings, n_rows)
    )
    return shared and data.all_raw and isinstance(data.family, Multinomial)


def _requested_order(settings: Settings, varying: int, estimated: bool) -> Any:
    """The order to fit, or the highest to try; by default no more than there are columns."""
    most = highest_order(settings)
    if most is not None:
        if isinstance(settings.order, (int, np.integer)) and settings.order > most:
            raise ValueError(
                f"order={settings.order} contradicts interaction_cst={settings.interaction_cst!r}, which allows order "
                f"{most}; leave one of them out"
            )
        return max(min(most, varying), 1)
    if settings.order is None:
        return max(min(3 if estimated else 2, varying), 1)
    if isinstance(settings.order, str) and settings.order == "auto":
        if not estimated:
            raise ValueError("order='auto' needs solver='variational' and smoothing='auto'; give a number")
        return max(min(HIGHEST_ORDER, varying), 1)
    return settings.order


def _default_kind(settings: Settings, n_rows: int, family: Family) -> ColumnKind | None:
    """The kind of automatic columns of numbers, where smoothing parameters are learned."""
    if not estimates_smoothing(settings):
        return None
    shared = isinstance(family, Multinomial) and settings.solver in ("auto", "shared")
    small = CLASS_BASIS_SIZE if shared else SMALL_BASIS_SIZE
    return SplineIID(n_basis=small if n_rows <= SMALL_BASIS_ROWS else LARGE_BASIS_SIZE)


def _refuse_infinite(model: Model) -> None:
    """Raise ValueError where coefficients leave double precision: tiny values of a column, large targets."""
    for terms in together(model.linear_predictors):
        for book, coef in zip(model.encoder.codebooks, terms.coef, strict=True):
            if not np.isfinite(coef).all():
                largest = max(abs(book.support.low), abs(book.support.high))
                raise ValueError(
                    f"column '{book.name}': with values of the order of {largest:.0e} its coefficients are too large "
                    "for double precision; give it in other units"
                )


def _flush(saved: Checkpoint | None) -> None:
    """Write the checkpoint to its file, so that the same fit can be resumed."""
    if saved is not None:
        saved.put("interrupted", True, now=True)


def _warn_unless_finished(trace: Trace, settings: Settings) -> None:
    if trace.reason.success or trace.reason in (Reason.CALLBACK, Reason.INTERRUPTED):  # an interrupt is raised
        return
    if trace.reason is Reason.TIME:
        remedy = f"raise time_budget={settings.time_budget:g}, use effort='fast', or fit a lower order"
        warnings.warn(f"the fit {trace.reason.value}; {remedy}", TimeBudgetWarning, stacklevel=4)
        return
    limit = "" if settings.max_iter is None else f"={settings.max_iter}"
    remedy = {
        Reason.MAX_ITER: f"; raise max_iter{limit} or tol",
        Reason.DIVERGED: "; the model is the best one seen: try solver='lbfgs', fewer df, or look for extreme targets",
    }[trace.reason]
    warnings.warn(f"the fit {trace.reason.value}{remedy}", ConvergenceWarning, stacklevel=4)
