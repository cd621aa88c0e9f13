"""Columns as the page shows them: their axes, where their rows are, their levels; and which pairs of values occur."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codebook
from ahofm.columns.cyclic import CyclicBasis
from ahofm.columns.table import Table, is_numeric
from ahofm.explain.axis import axis_of
from ahofm.model import Model
from ahofm.report.numbers import listed, short

POINTS = 60
"""Of a curve between the ends of its axis."""

_BEYOND = 10
"""Of a curve from an end of its axis to the end of the data."""

COMMON = 30
"""Levels on an axis of a pair, at most: those with most rows."""

_CELLS = 20
_BARS = 40


def described(book: Codebook, table: Table | None, j: int) -> dict[str, Any]:
    """One column; a model without training rows has the masses of its codes."""
    found: dict[str, Any] = {
        "name": book.name,
        "constant": book.size == 0,
        "numbers": book.edges is not None,
        "missing": bool(book.learns_missing),
        "kind": "constant" if book.kind is None else book.kind.name,
    }
    return found | (_numbers(book, table, j) if book.edges is not None else _levels(book))


def _numbers(book: Codebook, table: Table | None, j: int) -> dict[str, Any]:
    axis, support = axis_of(book), book.support
    values, mass = np.asarray(support.values, dtype=np.float64), support.mass
    found: dict[str, Any] = {
        "low": support.low,
        "high": support.high,
        "typical": float(values[np.searchsorted(np.cumsum(mass), 0.5 * mass.sum())]) if len(values) else 0.0,
        "whole": axis.whole,
        "axis": {"scale": axis.scale, "low": axis.low, "high": axis.high, "beyond": short(axis.beyond)},
        "points": axis.points.tolist(),
        "period": book.functions.period if isinstance(book.functions, CyclicBasis) else None,
    }
    if book.size and axis.high > axis.low:
        if table is not None:
            values = np.asarray(table.columns[j], dtype=np.float64)
            mass = np.ones(len(values))
        inside = (values >= axis.low) & (values <= axis.high)
        ends = axis.place(np.array([axis.low, axis.high]))
        wide = int(axis.high - axis.low) + 1 if axis.whole and axis.scale == "linear" else _BARS
        if wide <= 2 * _BARS and axis.whole and axis.scale == "linear":  # a bar per number
            ends = np.array([axis.low - 0.5, axis.low - 0.5 + wide])
        bars, edges = np.histogram(axis.place(values[inside]), min(wide, _BARS), tuple(ends), weights=mass[inside])
        found["bars"] = {"from": short(edges[0]), "to": short(edges[-1]), "sizes": listed(bars)}
    return found


def _levels(book: Codebook) -> dict[str, Any]:
    values, mass = book.support.values, book.support.mass
    plain = is_numeric(values)
    found: dict[str, Any] = {"levels": [f"{value:.10g}" if plain else str(value) for value in values.tolist()]}
    if plain:
        found["values"] = values.tolist()
    return found | {
        "typical": int(np.argmax(mass)) if len(values) else -1,
        "mass": listed(mass),
        "common": common(book).tolist(),
    }


def common(book: Codebook) -> NDArray[np.intp]:
    """The levels with most rows, in their order."""
    return np.sort(np.argsort(-book.support.mass, kind="stable")[:COMMON])


def grid(book: Codebook) -> NDArray[Any]:
    """Where an effect is evaluated: all levels; a few numbers themselves; or along the axis, and on to the last row."""
    support = book.support
    if book.edges is None:
        return np.asarray(support.values)
    axis = axis_of(book)
    if len(axis.points):
        return axis.points
    parts = [axis.even(POINTS)]
    if support.low < axis.low:
        parts.insert(0, np.linspace(support.low, axis.low, _BEYOND))
    if support.high > axis.high:
        parts.append(np.linspace(axis.high, support.high, _BEYOND))
    values = np.concatenate(parts)
    return np.unique(np.round(values) if axis.whole else values)


def occupied(model: Model, table: Table, pairs: Sequence[tuple[int, int]]) -> dict[str, str]:
    """For each pair of columns the cells of its surface that have rows, or neighbours that have: bits, in base 64.

    Cells are those of ``cells_of``, (cells of the first, cells of the second) in C order.
    """
    places = {j: cells_of(model.encoder.codebooks[j], table.columns[j]) for j in {j for pair in pairs for j in pair}}
    found = {}
    for a, b in pairs:
        (at_a, wide, smooth_a), (at_b, high, smooth_b) = places[a], places[b]
        seen = np.zeros((wide + 2, high + 2), dtype=bool)  # with a border, so that neighbours need no cases
        known = (at_a >= 0) & (at_b >= 0)
        seen[at_a[known] + 1, at_b[known] + 1] = True
        if smooth_a:
            seen[1:-1] |= seen[:-2] | seen[2:]
        if smooth_b:
            seen[:, 1:-1] |= seen[:, :-2] | seen[:, 2:]
        bits = np.packbits(seen[1:-1, 1:-1].ravel())
        found[f"{a},{b}"] = base64.b64encode(bits.tobytes()).decode("ascii")
    return found


def cells_of(book: Codebook, column: NDArray[Any]) -> tuple[NDArray[np.intp], int, bool]:
    """Cell of every row, -1 for none; the number of cells; and whether neighbours are alike."""
    if book.edges is None:
        codes = book.encode(column)
        kept = common(book)
        to = np.full(book.n_codes, -1)
        to[kept] = np.arange(len(kept))
        return to[codes], len(kept), False
    axis, numbers = axis_of(book), np.asarray(column, dtype=np.float64)
    if len(axis.points):
        at = np.searchsorted(axis.points, numbers)
        return np.where(np.isnan(numbers), -1, np.minimum(at, len(axis.points) - 1)), len(axis.points), False
    inside = (numbers >= axis.low) & (numbers <= axis.high)
    low, high = axis.place(np.array([axis.low, axis.high]))
    share = (axis.place(np.where(inside, numbers, axis.low)) - low) / (high - low if high > low else 1.0)
    return np.where(inside, np.minimum((_CELLS * share).astype(np.intp), _CELLS - 1), -1), _CELLS, True
