"""Some rows of a table that is too long to be looked at as a whole: checked, sketched, coded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codes, ColumnKind, Encoder
from ahofm.columns.basis import Floats
from ahofm.columns.encode import each
from ahofm.columns.table import Table, is_numeric, missing_in
from ahofm.kernels import Chunk
from ahofm.rows import RawSample, Target
from ahofm.scale.sketch import ColumnSketch

MOST_LABELS = 1_000
"""Distinct targets that may be classes."""


@dataclass(frozen=True)
class Piece:
    """Rows of positive weight.

    Attributes
    ----------
    table : Table
    y : array of shape (n,)
        Numbers or text.
    weight : array of shape (n,), or None
    offset : array of shape (n, columns), or None
    where : str
        Which rows these are, for people.
    """

    table: Table
    y: NDArray[Any]
    weight: Floats | None
    offset: Floats | None
    where: str

    @classmethod
    def of(cls, table: Table, y: NDArray[Any], weight: Any, offset: Any, where: str) -> Piece:
        """Checked, and without rows of weight zero."""
        for name, column in zip(table.names, table.columns, strict=True):
            if is_numeric(column) and np.isinf(column).any():
                raise ValueError(f"{where}: column '{name}' is infinite; replace infinities by NaN (missing)")
        weight = None if weight is None else np.asarray(weight, dtype=np.float64)
        if weight is not None and not (np.isfinite(weight).all() and (weight >= 0).all()):
            raise ValueError(f"{where}: weights must be finite and not negative")
        piece = cls(table, y, weight, _columns(offset), where)
        if weight is not None and not weight.all():
            piece = piece.take(np.flatnonzero(weight))
        if missing_in(piece.y).any():
            row = int(np.flatnonzero(missing_in(piece.y))[0])
            raise ValueError(f"{where}: the target is missing in row {row} of these; drop rows without a target")
        if piece.offset is not None and not np.isfinite(piece.offset).all():
            raise ValueError(f"{where}: offsets must be finite; replace NaN and infinities")
        return piece

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    def take(self, rows: NDArray[np.int64]) -> Piece:
        """Some of the rows."""
        weight, offset = (None if part is None else part[rows] for part in (self.weight, self.offset))
        return replace(self, table=self.table.take(rows), y=self.y[rows], weight=weight, offset=offset)

    def coded(self, encoder: Encoder, target: Target, n_threads: int | None = 1) -> Chunk:
        """Codes, and targets as numbers."""
        codes = encoder.encode(self.table, n_threads=n_threads)
        return Chunk(codes, numbers(self.y, target, self.where), self.weight, self.offset)

    def raw_sample(self, rows: NDArray[np.int64], target: Target) -> RawSample:
        """Some of the rows with their true values."""
        some = self.take(rows)
        weight = np.ones(some.n_rows) if some.weight is None else some.weight
        return RawSample(some.table, numbers(some.y, target, self.where), weight, some.offset)


def _columns(offset: Any) -> Floats | None:
    if offset is None:
        return None
    values = np.asarray(offset, dtype=np.float64)
    return values[:, np.newaxis] if values.ndim == 1 else values


def numbers(y: NDArray[Any], target: Target, where: str) -> Floats:
    """Targets as numbers: text as the places of its labels."""
    if is_numeric(y) == target.text and len(y):
        raise TypeError(f"{where}: the target is {'numbers' if target.text else 'text'}, unlike elsewhere")
    if not target.text:
        return np.asarray(y, dtype=np.float64)
    at = {label: float(k) for k, label in enumerate(target.labels or ())}
    return np.fromiter((at[label] for label in y.tolist()), dtype=np.float64, count=len(y))


@dataclass(frozen=True)
class TargetSketch:
    """Targets of some rows: their ends and, while they are few, their distinct values."""

    text: bool | None
    labels: frozenset[Any] | None
    low: float
    high: float
    where: str

    @classmethod
    def of(cls, y: NDArray[Any], where: str) -> TargetSketch:
        """Of some rows."""
        if len(y) == 0:
            return cls(None, frozenset(), np.inf, -np.inf, where)
        text = not is_numeric(y)
        labels = frozenset(set(y.tolist()) if text else np.unique(y).tolist())
        low, high = (0.0, 0.0) if text else (float(y.min()), float(y.max()))
        return cls(text, labels, low, high, where)._bounded()

    def __add__(self, other: TargetSketch) -> TargetSketch:
        """Of the rows of both."""
        if self.text is None or other.text is None:
            return other if self.text is None else self
        if self.text != other.text:
            raise TypeError(
                f"the target is {'text' if self.text else 'numbers'} in {self.where} and "
                f"{'text' if other.text else 'numbers'} in {other.where}; make it the same everywhere"
            )
        labels = None if self.labels is None or other.labels is None else self.labels | other.labels
        low, high = min(self.low, other.low), max(self.high, other.high)
        return TargetSketch(self.text, labels, low, high, self.where)._bounded()

    def _bounded(self) -> TargetSketch:
        if self.labels is None or len(self.labels) <= MOST_LABELS:
            return self
        if self.text:
            raise ValueError(f"the target is text with more than {MOST_LABELS:,} labels; is it the right column?")
        return replace(self, labels=None)

    def learned(self) -> Target:
        """Without the rows."""
        labels = None if self.labels is None else tuple(sorted(self.labels))
        return Target(labels, bool(self.text), self.low, self.high)


@dataclass(frozen=True)
class TableSketch:
    """Everything that is learned of rows before they are coded; sketches of pieces add up."""

    columns: tuple[ColumnSketch, ...]
    target: TargetSketch
    n_rows: int
    total: float
    ones: bool

    @classmethod
    def of(cls, piece: Piece, kinds: Mapping[int, ColumnKind], n_threads: int | None = 1) -> TableSketch:
        """Of some rows."""

        def sketch(j: int) -> ColumnSketch:
            column = np.ascontiguousarray(piece.table.columns[j])
            return ColumnSketch.of(piece.table.names[j], column, piece.weight, kinds.get(j), piece.where)

        columns = each(sketch, range(len(piece.table.names)), n_threads)
        total = float(piece.n_rows if piece.weight is None else piece.weight.sum())
        ones = piece.weight is None or bool((piece.weight == 1.0).all())
        return cls(tuple(columns), TargetSketch.of(piece.y, piece.where), piece.n_rows, total, ones)

    def __add__(self, other: TableSketch) -> TableSketch:
        """Of the rows of both."""
        columns = tuple(a + b for a, b in zip(self.columns, other.columns, strict=True))
        rows, total = self.n_rows + other.n_rows, self.total + other.total
        return TableSketch(columns, self.target + other.target, rows, total, self.ones and other.ones)


def joined(parts: Sequence[RawSample]) -> RawSample:
    """Raw sample of pieces, one after another."""
    first = parts[0].table
    columns = []
    for j in range(len(first.names)):
        own = [part.table.columns[j] for part in parts]
        text = any(not is_numeric(column) for column in own)  # a piece in which all is missing may pass for numbers
        own = [np.full(len(column), None, dtype=object) if text and is_numeric(column) else column for column in own]
        columns.append(np.concatenate(own))
    offsets = [part.offset for part in parts if part.offset is not None]
    return RawSample(
        Table(first.names, tuple(columns), first.named),
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.weight for part in parts]),
        np.concatenate(offsets) if offsets else None,
    )


def joined_chunks(chunks: Sequence[Chunk]) -> Chunk:
    """Rows of chunks, one after another."""
    if len(chunks) == 1:
        return chunks[0]
    first = chunks[0].codes
    columns = tuple(np.concatenate([chunk.codes.columns[j] for chunk in chunks]) for j in range(len(first.columns)))
    rest = []
    for name in ("y", "weight", "offset"):
        own = [getattr(chunk, name) for chunk in chunks]
        rest.append(None if own[0] is None else np.concatenate(own))
    return Chunk(Codes(columns, first.sizes), *rest)
