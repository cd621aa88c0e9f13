"""Rows that arrive in pieces: coded by the codebooks of the first, kept as codes, fitted together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codes, Encoder, Learned
from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.estimators.training import TrainingRows
from ahofm.families import Family
from ahofm.rows import ArraySource, RawSample, Target, ThreadExecutor, raw_sample_rows
from ahofm.training.data import Rows, counted_rows


@dataclass(frozen=True)
class Pieces:
    """All rows so far, as a dataset: a byte or two per cell, and true values of those rows that are known.

    Attributes
    ----------
    encoder : Encoder
    codes : Codes
    rows : Rows
    numbers : array
        Of the rows whose true values are known.
    raw_sample : RawSample
    """

    encoder: Encoder
    codes: Codes
    rows: Rows
    numbers: NDArray[np.int64]
    raw_sample: RawSample

    @classmethod
    def of(cls, encoder: Encoder, table: Table, y: Any, weight: Any, offset: Any, family: Family) -> Pieces:
        """The first piece."""
        table, rows = counted_rows(encoder.check(table), y, weight, offset, family, whole=False)
        numbers = np.arange(len(rows.y))
        first = cls(encoder, encoder.encode(table), rows, numbers, RawSample(table, rows.y, rows.weight, rows.offset))
        return first._bounded()

    @classmethod
    def before(cls, encoder: Encoder, training: TrainingRows | None, family: Family) -> Pieces:
        """The rows of a fit."""
        if training is None:
            raise ValueError("the rows of the earlier fit are not here any more: start with partial_fit, or fit again")
        return cls.of(encoder, training.table, training.y, training.weight, training.offset, family)

    def with_piece(self, table: Table, y: Any, weight: Any, offset: Any, family: Family) -> Pieces:
        """One more piece."""
        new = Pieces.of(self.encoder, table, y, weight, offset, family)
        if (new.rows.offset is None) != (self.rows.offset is None):
            raise ValueError("offset: give it with every piece, or with none")
        both = zip(self.codes.columns, new.codes.columns, strict=True)
        codes = Codes(tuple(np.concatenate(pair) for pair in both), self.codes.sizes)
        tables = zip(self.raw_sample.table.columns, new.raw_sample.table.columns, strict=True)
        raw_sample = RawSample(
            replace(self.raw_sample.table, columns=tuple(np.concatenate(pair) for pair in tables)),
            np.concatenate([self.raw_sample.y, new.raw_sample.y]),
            np.concatenate([self.raw_sample.weight, new.raw_sample.weight]),
            _stacked(self.raw_sample.offset, new.raw_sample.offset),
        )
        rows = Rows(
            np.concatenate([self.rows.y, new.rows.y]),
            np.concatenate([self.rows.weight, new.rows.weight]),
            _stacked(self.rows.offset, new.rows.offset),
        )
        numbers = np.concatenate([self.numbers, len(self.rows.y) + new.numbers])
        return Pieces(self.encoder, codes, rows, numbers, raw_sample)._bounded()

    def _bounded(self) -> Pieces:
        """With true values of no more rows than a store would have."""
        kept = np.flatnonzero(np.isin(self.numbers, raw_sample_rows(len(self.rows.y))))
        if len(kept) == len(self.numbers):
            return self
        raw_sample = self.raw_sample
        offset = None if raw_sample.offset is None else raw_sample.offset[kept]
        some = RawSample(raw_sample.table.take(kept), raw_sample.y[kept], raw_sample.weight[kept], offset)
        return replace(self, numbers=self.numbers[kept], raw_sample=some)

    @property
    def columns(self) -> Sequence[Learned]:
        """As the first piece taught them."""
        return self.encoder.learned

    @property
    def named(self) -> bool:
        """Whether the names of the columns came with the data."""
        return self.encoder.named

    @property
    def target(self) -> Target:
        """Numbers; classes are numbered already."""
        return Target(None, True, float(self.rows.y.min()), float(self.rows.y.max()))

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.rows.weight.sum())

    @property
    def source(self) -> ArraySource:
        """All rows."""
        weight = None if (self.rows.weight == 1.0).all() else self.rows.weight
        return ArraySource(self.codes, self.rows.y, weight, self.rows.offset)

    def executor(self, n_threads: int | None) -> ThreadExecutor:
        """Threads."""
        return ThreadExecutor(n_threads)


def fit_piece(
    fitted: Any, table: Table, y: Floats, weight: Any, offset: Any, family: Family, classes: Any = None
) -> None:
    """Fit an estimator to one more piece with those before; the first one is a fit like any other."""
    if fitted.cv is not None:
        raise ValueError("cv names validation rows of one table: use fit, or leave it out for partial_fit")
    if not hasattr(fitted, "model_"):
        fitted._fit(table, y, weight, offset, family, classes)
        fitted._pieces = Pieces.of(fitted.model_.encoder, table, y, weight, offset, family)
        return
    before = fitted._pieces or Pieces.before(fitted.model_.encoder, fitted.training_, family)
    both = before.with_piece(table, y, weight, offset, family)
    fitted._fit(both, None, None, None, family, classes, earlier=fitted.model_)


def _stacked(old: Floats | None, new: Floats | None) -> Floats | None:
    return None if old is None or new is None else np.concatenate([old, new])
