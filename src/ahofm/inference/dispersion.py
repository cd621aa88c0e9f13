"""Overdispersion and underdispersion: Pearson's statistic after a fit of a family with known dispersion."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from ahofm.backends import backend_of
from ahofm.columns import Categorical
from ahofm.columns.table import Table
from ahofm.families import Bernoulli
from ahofm.kernels import Tables
from ahofm.model import Choice, Model
from ahofm.priors.column import column_priors
from ahofm.rows import ArraySource, SerialExecutor
from ahofm.training.data import Rows
from ahofm.training.validation import mean_and_error
from ahofm.tuning import (
    DISPERSION_STANDARD_ERRORS,
    LARGEST_COLUMN_DF,
    LEAST_RESIDUAL_FRACTION,
    OVERDISPERSED_PEARSON,
    UNDERDISPERSED_PEARSON,
)


class DispersionWarning(UserWarning):
    """Targets vary much more, or less, than the family implies: intervals and p-values are wrong."""


def with_dispersion(model: Model, table: Table, rows: Rows) -> Model:
    """The model with the mean of Pearson's statistic over the rows; warns where it is far from 1.

    The statistic is that of the smooth part of the fit: functions with one value per code follow the noise of
    overdispersed rows and would hide it. A truth that is rough has a large statistic as well, so there is a warning of
    overdispersion only if the statistic of the whole fit is clearly above 1 too.

    With one trial per row the statistic is about 1 for every model: none is stored. Fractions of successes count as one
    observation each, whatever their numbers of trials.
    """
    family = model.family
    remedy = family.if_overdispersed
    trials = isinstance(family, Bernoulli)
    if remedy is None or (trials and not ((rows.y > 0.0) & (rows.y < 1.0)).any()):
        return model
    offset = 0.0 if rows.offset is None else rows.offset
    coded = backend_of().load(ArraySource(model.encoder.encode(table)), SerialExecutor())
    smooth = coded.eta(smooth_tables(model)) + offset
    fitted = [family.pearson(rows.y, eta) for eta in (smooth, model.eta(table) + offset)]
    if not np.isfinite(fitted).all():  # a mean of zero, of which the fit warns
        return model
    weight = np.ones_like(rows.weight) if trials else rows.weight
    pearson, error = mean_and_error(rows.weight * fitted[0] if trials else fitted[0], weight)
    whole_pearson, whole_error = mean_and_error(rows.weight * fitted[1] if trials else fitted[1], weight)
    residual = _residual_fraction(_largest_edf(model), float(weight.sum()))
    codes = float(sum(book.n_codes for book in model.encoder.codebooks if book.size))
    whole_pearson, whole_error = np.array([whole_pearson, whole_error]) / _residual_fraction(codes, float(weight.sum()))
    text = f"{family.name}: targets vary {{:.3g}} times as much as the family says"
    text += " (Pearson's statistic by row; 1 is right)"
    margin, whole_margin = DISPERSION_STANDARD_ERRORS * error, DISPERSION_STANDARD_ERRORS * whole_error
    if pearson > OVERDISPERSED_PEARSON and pearson - 1.0 > margin and whole_pearson - 1.0 > whole_margin:
        return _warned(model, pearson, text.format(pearson), f"intervals and p-values are too narrow: use {remedy}")
    if pearson / residual < UNDERDISPERSED_PEARSON and 1.0 - pearson / residual > margin:
        check = "that sample_weight holds the numbers of trials" if trials else "whether the target is a count"
        remedy = f"{remedy.split(' or ')[0]}, or check {check}"
        return _warned(model, pearson, text.format(pearson / residual), f"intervals are too wide: use {remedy}")
    return replace(model, pearson_dispersion=pearson)


def _warned(model: Model, pearson: float, text: str, remedy: str) -> Model:
    """The model with Pearson's statistic and a choice that summaries print; emits the warning."""
    warnings.warn(f"{text}; {remedy}", DispersionWarning, stacklevel=4)
    choice = Choice("dispersion", text, remedy)
    return replace(model, pearson_dispersion=pearson, choices=(*model.choices, choice))


def smooth_tables(model: Model) -> list[Tables]:
    """Each linear predictor at the codes, functions of numeric columns projected on their smooth coordinates."""
    smooth = []
    books = model.encoder.codebooks
    starts = np.cumsum([0, *(book.n_codes for book in books)])
    for tables in model.tables():
        values = tables.orders.join(tables.main, tables.factors)
        for book, start in zip(books, starts[:-1], strict=True):
            if book.size and not isinstance(book.kind, Categorical):
                column = column_priors(book, "spline", center=True)
                basis = np.column_stack([np.ones(len(column.start)), column.start])
                roots = np.sqrt(column.mass)[:, np.newaxis]
                column_values = values[start : start + len(basis)]
                column_values[:] = basis @ np.linalg.lstsq(roots * basis, roots * column_values, rcond=None)[0]
        main, factors = tables.orders.split(values)
        smooth.append(replace(tables, main=np.ascontiguousarray(main), factors=factors))
    return smooth


def _residual_fraction(used: float, rows: float) -> float:
    """Residual degrees of freedom divided by the number of rows, ``1 - used / rows``, at least
    ``LEAST_RESIDUAL_FRACTION``.
    """
    return max(1.0 - used / rows, LEAST_RESIDUAL_FRACTION)


def _largest_edf(model: Model) -> float:
    """Upper bound of the effective degrees of freedom of the fit, computed without a band."""
    sizes = np.array([min(book.n_codes, LARGEST_COLUMN_DF) for book in model.encoder.codebooks if book.size])
    return float(sizes.sum() * model.ranks.width)
