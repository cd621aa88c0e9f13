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
    found, error = mean_and_error(rows.weight * fitted[0] if trials else fitted[0], weight)
    of_fit, error_of_fit = mean_and_error(rows.weight * fitted[1] if trials else fitted[1], weight)
    residual = _residual_fraction(_largest_edf(model), float(weight.sum()))
    codes = float(sum(book.n_codes for book in model.encoder.codebooks if book.size))
    of_fit, error_of_fit = np.array([of_fit, error_of_fit]) / _residual_fraction(codes, float(weight.sum()))
    said = f"{family.name}: targets vary {{:.3g}} times as much as the family says"
    said += " (Pearson's statistic by row; 1 is right)"
    margin, margin_of_fit = DISPERSION_STANDARD_ERRORS * error, DISPERSION_STANDARD_ERRORS * error_of_fit
    if found > OVERDISPERSED_PEARSON and found - 1.0 > margin and of_fit - 1.0 > margin_of_fit:
        return _warned(model, found, said.format(found), f"intervals and p-values are too narrow: use {remedy}")
    if found / residual < UNDERDISPERSED_PEARSON and 1.0 - found / residual > margin:
        check = "that sample_weight holds the numbers of trials" if trials else "whether the target is a count"
        remedy = f"{remedy.split(' or ')[0]}, or check {check}"
        return _warned(model, found, said.format(found / residual), f"intervals are too wide: use {remedy}")
    return replace(model, pearson_dispersion=found)


def _warned(model: Model, found: float, said: str, remedy: str) -> Model:
    """The model with the statistic and a choice that summaries print; emits the warning."""
    warnings.warn(f"{said}; {remedy}", DispersionWarning, stacklevel=4)
    choice = Choice("dispersion", said, remedy)
    return replace(model, pearson_dispersion=found, choices=(*model.choices, choice))


def smooth_tables(model: Model) -> list[Tables]:
    """Each linear predictor at the codes, functions of numeric columns projected on their smooth coordinates."""
    found = []
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
        found.append(replace(tables, main=np.ascontiguousarray(main), factors=factors))
    return found


def _residual_fraction(used: float, rows: float) -> float:
    """Residual degrees of freedom divided by the number of rows, ``1 - used / rows``, at least
    ``LEAST_RESIDUAL_FRACTION``.
    """
    return max(1.0 - used / rows, LEAST_RESIDUAL_FRACTION)


def _largest_edf(model: Model) -> float:
    """Upper bound of the effective degrees of freedom of the fit, computed without a band."""
    sizes = np.array([min(book.n_codes, LARGEST_COLUMN_DF) for book in model.encoder.codebooks if book.size])
    return float(sizes.sum() * model.ranks.width)
