"""Main effects that are lines in training go on as lines beyond the training range; all else stays at the border.

A main effect is a line by its r^2 at the codes, weighted by the training rows. Its slope is that of the same
regression: a linear functional of the main effect, so that its standard error, and those of all values beyond, follow
from the band.
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
from ahofm.model.predictor import Predictor
from ahofm.model.shared_predictors import SharedPredictors
from ahofm.model.trace import Choice
from ahofm.orders import MAIN
from ahofm.tuning.extrapolation import LEAST_LINE_CODES, LEAST_LINE_SHARE, LINE_FIT


def with_lines(model: Model) -> Model:
    """The model whose main effects that are lines go on beyond the training range, with a record of them."""
    continued = model.with_each(lambda linear_predictors: _continued(model, linear_predictors))
    names = [model.encoder.codebooks[j].name for j in continued.linear_predictors[0].end_slopes]
    if not names:
        return continued
    why = f"their main effects are lines in training (r² above {LINE_FIT:g}); all others stay at the border"
    choice = Choice("lines beyond the training range", ", ".join(names), why)
    return replace(continued, choices=(*model.choices, choice))


def _continued(model: Model, linear_predictors: Sequence[Predictor]) -> tuple[Predictor, ...]:
    """Linear predictors with the slopes of their lines; a column that is a line in one has an entry in all."""
    books = model.encoder.codebooks
    of_mean = linear_predictors if model.classes is not None else linear_predictors[:1]  # others are of variances
    slopes = _slopes(_pure_main_effects(of_mean, books), books)
    found = sorted({j for by_column in slopes for j in by_column})
    slopes += [{} for _ in linear_predictors[len(of_mean) :]]
    return tuple(
        replace(predictor, end_slopes={j: by_column.get(j, 0.0) for j in found})
        for predictor, by_column in zip(linear_predictors, slopes, strict=True)
    )


def _pure_main_effects(linear_predictors: Sequence[Predictor], books: Sequence[Codebook]) -> list[Floats]:
    """Main effects of the same linear predictors as sums of pure terms, at the codes of each column: (codes, K)."""
    shared = SharedPredictors.of(linear_predictors)
    found = None if shared is None else shared.pure_main_effects(books)
    if found is not None:
        return found
    pure = [predictor.pure(books) for predictor in linear_predictors]
    return [
        np.column_stack([predictor.at_codes(j, book)[:, MAIN] for predictor in pure]) for j, book in enumerate(books)
    ]


def _slopes(mains: Sequence[Floats], books: Sequence[Codebook]) -> list[dict[int, float]]:
    """Slopes of main effects that are lines and not negligible, by column, for each linear predictor."""
    sizes = np.array([book.distribution @ main**2 for book, main in zip(books, mains, strict=True)])
    found: list[dict[int, float]] = [{} for _ in range(sizes.shape[1])]
    large = sizes > LEAST_LINE_SHARE * sizes.sum(axis=0)
    for j, (book, main) in enumerate(zip(books, mains, strict=True)):
        if not large[j].any() or not _is_automatic(book):
            continue
        slopes, r2 = regression_on_column(book, main)
        lines = np.flatnonzero(large[j] & (r2 > LINE_FIT) & np.isfinite(slopes))
        if len(lines) and book.clamped_range is not None:  # asked last: it takes the pieces of the column's functions
            for k in lines:
                found[k][j] = _with_shape(book, float(slopes[k]))
    return found


def _is_automatic(book: Codebook) -> bool:
    """Whether a column of numbers may go on as a line, as far as its kind says."""
    return getattr(book.kind, "outside", "clamp") == "auto" and book.support.size >= LEAST_LINE_CODES


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
