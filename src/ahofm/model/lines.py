"""Main effects that are lines in training go on as lines beyond the training range; all else stays at the border.

A line is one by its r^2 at the codes, weighted by the training rows. Its slope is that of the same regression: a linear
functional of the main effect, so that its standard error, and those of all values beyond, follow from the band.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.shaped import Shaped
from ahofm.columns.table import Table
from ahofm.model.beyond import Beyond, regression_on_column
from ahofm.model.model import Model
from ahofm.model.predictor import Lower, Predictor
from ahofm.model.trace import Choice
from ahofm.orders import MAIN
from ahofm.tuning.extrapolation import LEAST_LINE_CODES, LEAST_LINE_SHARE, LINE_FIT


def with_lines(model: Model) -> Model:
    """The model whose main effects that are lines go on beyond the training range, with a record of them."""
    books = model.encoder.codebooks
    last = _continued(model, model.linear_predictors)
    lower = tuple(Lower(own.order, _continued(model, own.linear_predictors)) for own in model.lower)
    names = [books[j].name for j in last[0].end_slopes]
    choices = model.choices
    if names:
        why = f"their main effects are lines in training (r² above {LINE_FIT:g}); all others stay at the border"
        choices = (*choices, Choice("lines beyond the training range", ", ".join(names), why))
    return replace(model, linear_predictors=last, lower=lower, choices=choices)


def _continued(model: Model, linear_predictors: Sequence[Predictor]) -> tuple[Predictor, ...]:
    """Linear predictors with the slopes of their lines; a column that is a line in one has an entry in all."""
    books = model.encoder.codebooks
    of_mean = linear_predictors if model.classes is not None else linear_predictors[:1]  # others are of variances
    slopes = [_slopes(own.pure(books), books) for own in of_mean]
    found = sorted({j for own in slopes for j in own})
    slopes += [{} for _ in linear_predictors[len(of_mean) :]]
    return tuple(
        replace(own, end_slopes={j: mine.get(j, 0.0) for j in found})
        for own, mine in zip(linear_predictors, slopes, strict=True)
    )


def _slopes(pure: Predictor, books: Sequence[Codebook]) -> dict[int, float]:
    """Slopes of main effects that are lines and not negligible, by column."""
    mains = [pure.at_codes(j, book)[:, [MAIN]] for j, book in enumerate(books)]
    sizes = [float(book.distribution @ main[:, 0] ** 2) for book, main in zip(books, mains, strict=True)]
    found = {}
    for j, (book, main, size) in enumerate(zip(books, mains, sizes, strict=True)):
        if size <= LEAST_LINE_SHARE * sum(sizes) or not _may_go_on(book):
            continue
        (slope,), (r2,) = regression_on_column(book, main)
        if r2 > LINE_FIT and np.isfinite(slope):
            found[j] = _with_shape(book, float(slope))
    return found


def _may_go_on(book: Codebook) -> bool:
    automatic = getattr(book.kind, "outside", "clamp") == "auto"
    return automatic and book.support.size >= LEAST_LINE_CODES and book.clamped_range is not None


def _with_shape(book: Codebook, slope: float) -> float:
    """A slope that does not turn round where the column is monotone."""
    shape = book.kind.shape if isinstance(book.kind, Shaped) else None
    return max(slope, 0.0) if shape == "increasing" else min(slope, 0.0) if shape == "decreasing" else slope


def beyond_range(
    model: Model, mains: Sequence[Floats], columns: Mapping[int, NDArray[Any]], k: int
) -> dict[int, Beyond]:
    """Columns of a linear predictor whose lines go on at some rows.

    Parameters
    ----------
    model : Model
    mains : sequence of arrays of shape (codes, coordinates)
        A band's functions of main effects at the codes, of all columns.
    columns : dict of column to array of shape (n,)
        Raw values.
    k : int
        Number of the linear predictor.

    Returns
    -------
    dict of column to Beyond
    """
    found = {}
    for j, slope in model.linear_predictors[k].end_slopes.items():
        if slope == 0.0 or j not in columns:
            continue
        book = model.encoder.codebooks[j]
        distance = book.beyond(columns[j])
        if distance.any():
            found[j] = Beyond(distance, regression_on_column(book, mains[j])[0])
    return found


def beyond_at_rows(model: Model, mains: Sequence[Floats], table: Table) -> list[dict[int, Beyond]]:
    """The same for a table's rows, for all linear predictors."""
    columns = dict(enumerate(table.columns))
    return [beyond_range(model, mains, columns, k) for k in range(len(model.linear_predictors))]
