"""Rating tables: what a level costs beside a base level, with exposure, observed and fitted mean of its rows.

All are relative to one row, that of the base levels: a column's table is what changes when its value alone is another,
a pair's table what two values change beyond that. So a prediction is the base times (or plus) an entry of every table,
exactly where the model has no interactions of three and more columns and the tables have all pairs.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.explain import top_interactions
from ahofm.explain.arguments import Fitted, column_of, model_of, training_of
from ahofm.export.bands import Bands
from ahofm.export.description import refuse_repeated
from ahofm.export.means import mean_of
from ahofm.export.workbook import write_workbook
from ahofm.model import Model
from ahofm.writing import replacing

SCALES = {
    "log": "relativity",
    "logit": "odds ratio",
    "levels": "odds ratio",
    "identity": "difference",
    "inverse": "difference",
}
"""What a change of the linear predictor is called, by link."""


@dataclass(frozen=True)
class RatingTable:
    """The table of one column, or of two.

    Attributes
    ----------
    columns : tuple of str
        One name or two.
    keys : tuple of tuple of str
        What the rows of the table are: a level, or a band of numbers, of each column.
    exposure : array of shape (rows,)
        Weight of the training rows, times their exposure where the offset is its logarithm.
    observed, fitted : arrays of shape (rows,), or None
        Means of targets and of predictions, per unit of exposure; NaN without exposure, None without rows.
    relative : array of shape (rows,)
        To the base levels.
    base : tuple of str
        The base level of each column.
    values : tuple of array of shape (rows,) or None
        Of each column of numbers: where the entries are, which for a band is its mean. None for levels.
    """

    columns: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    exposure: Floats
    observed: Floats | None
    fitted: Floats | None
    relative: Floats
    base: tuple[str, ...]
    values: tuple[Floats | None, ...]


@dataclass(frozen=True)
class RatingTables:
    """The tables of a model.

    Attributes
    ----------
    scale : str
        "relativity" (log link), "odds ratio" (logit) or "difference" of linear predictors.
    base_mean : float
        The prediction where every column has its base level, without an offset.
    tables : tuple of RatingTable
        One per column, then pairs.
    """

    scale: str
    base_mean: float
    tables: tuple[RatingTable, ...]

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write all tables one below another, as text.

        Parameters
        ----------
        path : str or path
            Of the file.
        """
        head = [
            "column",
            "level",
            "second column",
            "second level",
            "base",
            "exposure",
            "observed",
            "fitted",
            self.scale,
        ]
        with replacing(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(head)
            writer.writerow(["(base)", "", "", "", "", "", "", "", repr(self.base_mean)])
            for table in self.tables:
                for at, levels in enumerate(table.keys):
                    cells = [part for pair in zip(table.columns, levels, strict=True) for part in pair]
                    cells += [""] * (4 - len(cells))
                    numbers = [table.exposure[at], *(_at(own, at) for own in (table.observed, table.fitted))]
                    writer.writerow([*cells, " x ".join(table.base), *numbers, table.relative[at]])

    def to_excel(self, path: str | os.PathLike[str]) -> None:
        """Write a workbook with a sheet for each table. Needs openpyxl.

        Parameters
        ----------
        path : str or path
            Of the file.
        """
        with replacing(path) as draft:
            write_workbook(draft, self.scale, self.base_mean, self.tables)


def _at(values: Floats | None, at: int) -> Any:
    return "" if values is None or np.isnan(values[at]) else values[at]


def rating_tables(
    fitted: Fitted,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    base: Mapping[str, Any] | None = None,
    pairs: int | Sequence[tuple[str, str]] = 5,
    max_bands: int = 20,
) -> RatingTables:
    """Make rating tables of a model.

    Parameters
    ----------
    fitted : estimator or model
        Fitted, of one linear predictor.
    X, y, sample_weight, offset : rows, optional
        For exposure, observed and fitted means; by default those of training, where the estimator has them. Without
        rows the exposure is the training weight that the model remembers.
    base : dict of column to level, optional
        Base levels; by default those with the largest exposure, and of numbers that are cut into bands the band of the
        median.
    pairs : int or sequence of pairs of columns, default 5
        Pairs that have a table: so many of the strongest, or those that are named.
    max_bands : int, default 20
        Numbers with more distinct values are cut into so many bands of equal weight.

    Returns
    -------
    RatingTables

    Raises
    ------
    ValueError
        For a model of several linear predictors or one that remembers repeated rows, or a base level that a column does
        not have.

    Examples
    --------
    >>> from ahofm.export import rating_tables
    >>> found = rating_tables(model, pairs=1)
    >>> found.scale, [table.columns for table in found.tables]
    ('difference', [('wind',), ('rain',), ('sun',), ('rain', 'sun')])
    """
    model = model_of(fitted)
    refuse_repeated(model)
    if model.family.n_eta > 1:
        raise ValueError(f"rating tables are of one linear predictor, and the model has {model.family.n_eta}")
    link = mean_of(model.family).name
    rows = _rows(fitted, model, X, y, sample_weight, offset, link)
    places = [Bands.of(book, max_bands) for book in model.encoder.codebooks]
    columns = {j: band for j, band in enumerate(places) if model.encoder.codebooks[j].size}
    weights = {j: band.mass if rows is None else rows.weight_of(band, j) for j, band in columns.items()}
    chosen = _base(model, columns, weights, base or {})
    grid = _Grid(model, columns, chosen)
    several = _pairs(model, pairs)
    tables = [_table(grid, rows, weights, (j,), link) for j in columns]
    tables += [_table(grid, rows, weights, pair, link) for pair in several]
    mean = float(model.family.mean(np.array([[grid.base]]))[0])
    return RatingTables(SCALES[link], mean, tuple(tables))


@dataclass(frozen=True)
class _Rows:
    """Rows with targets: bands of all columns, exposure, and what was observed and fitted in units of it."""

    model: Model
    table: Table
    exposure: Floats
    observed: Floats
    fitted: Floats

    def weight_of(self, band: Bands, j: int) -> Floats:
        return self.sums([(band, j)], self.exposure)

    def sums(self, bands: Sequence[tuple[Bands, int]], values: Floats) -> Floats:
        """By cells of the bands, the last of them fastest."""
        at = np.zeros(self.table.n_rows, dtype=np.intp)
        there = np.ones(self.table.n_rows, dtype=bool)
        for band, j in bands:
            own = band.place(self.model.encoder.codebooks[j], self.table.columns[j])
            there &= own >= 0
            at = at * len(band.names) + np.maximum(own, 0)
        size = int(np.prod([len(band.names) for band, _ in bands]))
        return np.asarray(np.bincount(at[there], weights=values[there], minlength=size), dtype=np.float64)


def _rows(
    fitted: Fitted,
    model: Model,
    X: Any,
    y: ArrayLike | None,
    weight: ArrayLike | None,
    offset: ArrayLike | None,
    link: str,
) -> _Rows | None:
    training = training_of(fitted)
    if X is None:
        if training is None:
            return None
        table, target, weight, offset = training.table, training.y, training.weight, training.offset
    elif y is None:
        raise ValueError("X without y: give both, or neither for the rows of training")
    else:
        table, target = model.encoder.check(X), y
        if model.classes is not None:
            target = np.searchsorted(np.asarray(model.classes), np.asarray(y)).astype(np.float64)
    if target is None or np.shape(target) != (table.n_rows,):
        raise ValueError(f"y has shape {np.shape(target)}, expected ({table.n_rows},): one target per row of X")
    own = np.ones(table.n_rows) if weight is None else np.asarray(weight, dtype=np.float64)
    units = own * (np.exp(np.asarray(offset)) if offset is not None and link == "log" else 1.0)
    mean = model.mean(table, offset)
    return _Rows(model, table, units, own * np.asarray(target, dtype=np.float64), own * mean)


def _base(
    model: Model, columns: Mapping[int, Bands], weights: Mapping[int, Floats], given: Mapping[str, Any]
) -> dict[int, int]:
    """The base level of every column, by its place."""
    sizes = {j: len(columns[j].names) - model.encoder.codebooks[j].learns_missing for j in columns}
    chosen = {j: columns[j].usual(weights[j][: sizes[j]]) for j in columns}  # a missing value is no base by itself
    for name, level in given.items():
        j = column_of(model, name)
        if j not in columns:
            raise ValueError(f"base: column {name!r} is constant and has no table")
        band = columns[j]
        text = f"{level:.10g}" if isinstance(level, (int, float)) and not isinstance(level, bool) else str(level)
        if text in band.names:
            chosen[j] = band.names.index(text)
        elif band.breaks is not None and isinstance(level, (int, float, np.number)):
            chosen[j] = int(np.searchsorted(band.breaks, level, side="right"))
        else:
            raise ValueError(f"base: column {name!r} has no level {level!r}; it has {', '.join(band.names[:10])}")
    return chosen


class _Grid:
    """The linear predictor at rows that differ from the base in one column or two."""

    def __init__(self, model: Model, columns: Mapping[int, Bands], chosen: Mapping[int, int]) -> None:
        self.model, self.columns, self.chosen = model, columns, chosen
        self.base = float(self.at({})[0])

    def at(self, changed: Mapping[int, NDArray[Any]]) -> Floats:
        """With other values in some columns."""
        count = max([len(own) for own in changed.values()], default=1)
        cells = []
        for j, book in enumerate(self.model.encoder.codebooks):
            if j in changed:
                own = changed[j]
            elif j in self.columns:
                own = np.repeat(self.columns[j].values[[self.chosen[j]]], count)
            else:
                own = np.repeat(book.support.values[:1], count)
            if not len(own):  # a column that had only missing values
                own = np.full(count, np.nan)
            cells.append(own if own.dtype == object else own.astype(np.float64))
        table = Table(self.model.encoder.names, tuple(cells), named=True)
        return self.model.eta(table)[:, 0]

    def main(self, j: int) -> Floats:
        return self.at({j: self.columns[j].values}) - self.base

    def pair(self, a: int, b: int) -> Floats:
        first, second = self.columns[a].values, self.columns[b].values
        both = self.at({a: np.repeat(first, len(second)), b: np.tile(second, len(first))})
        alone = np.repeat(self.main(a), len(second)) + np.tile(self.main(b), len(first))
        return both - self.base - alone


def _table(
    grid: _Grid, rows: _Rows | None, weights: Mapping[int, Floats], which: tuple[int, ...], link: str
) -> RatingTable:
    bands = [(grid.columns[j], j) for j in which]
    names = [band.names for band, _ in bands]
    levels = tuple((a,) for a in names[0]) if len(which) == 1 else tuple((a, b) for a in names[0] for b in names[1])
    change = grid.main(which[0]) if len(which) == 1 else grid.pair(*which)
    exposure = weights[which[0]] if len(which) == 1 else _pair_exposure(rows, bands, weights)
    observed = fitted = None
    if rows is not None:
        with np.errstate(invalid="ignore", divide="ignore"):
            observed = rows.sums(bands, rows.observed) / exposure
            fitted = rows.sums(bands, rows.fitted) / exposure
    relative = np.exp(change) if SCALES[link] != "difference" else change
    names_of = tuple(grid.model.encoder.names[j] for j in which)
    base = tuple(grid.columns[j].names[grid.chosen[j]] for j in which)
    return RatingTable(names_of, levels, exposure, observed, fitted, relative, base, _values([own for own, _ in bands]))


def _values(bands: Sequence[Bands]) -> tuple[Floats | None, ...]:
    """Those of every row of a table, the last column fastest."""
    each = np.indices([len(own.names) for own in bands]).reshape(len(bands), -1)
    return tuple(own.values[at] if own.numbers else None for own, at in zip(bands, each, strict=True))


def _pair_exposure(rows: _Rows | None, bands: Sequence[tuple[Bands, int]], weights: Mapping[int, Floats]) -> Floats:
    """Without rows what a pair's cells hold is not known."""
    if rows is not None:
        return rows.sums(bands, rows.exposure)
    return np.full(int(np.prod([len(weights[j]) for _, j in bands])), np.nan)


def _pairs(model: Model, pairs: int | Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    if isinstance(pairs, int):
        if isinstance(pairs, bool) or pairs < 0:
            raise ValueError(f"pairs must be a number of at least 0, or pairs of columns, got {pairs!r}")
        if model.order < 2 or pairs == 0:
            return []
        names = list(model.encoder.names)
        found = top_interactions(model, int(pairs), order=2).terms
        return [(names.index(a), names.index(b)) for a, b in found]
    chosen = [tuple(column_of(model, name) for name in pair) for pair in pairs]
    if any(len(pair) != 2 or pair[0] == pair[1] for pair in chosen):
        raise ValueError(f"pairs must be pairs of different columns, got {pairs!r}")
    return [(pair[0], pair[1]) for pair in chosen]
