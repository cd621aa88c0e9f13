"""Rows that count: weights as numbers of rows, equal rows as one, columns in an order that is not the table's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ahofm.columns import Codes
from ahofm.columns.basis import Floats
from ahofm.columns.table import Table, is_numeric
from ahofm.families import Family
from ahofm.fit.tuning import MOST_TOTAL_WEIGHT, WIDEST_OFFSET
from ahofm.model import check_offset, check_weight


@dataclass(frozen=True)
class Rows:
    """Target, weight and offset of the rows that count."""

    y: Floats
    weight: Floats
    offset: Floats | None

    def take(self, rows: NDArray[Any]) -> Rows:
        """Some of the rows."""
        return Rows(self.y[rows], self.weight[rows], None if self.offset is None else self.offset[rows])


def counted_rows(
    table: Table,
    y: Any,
    weight: ArrayLike | None,
    offset: ArrayLike | None,
    family: Family,
    *,
    whole: bool = True,
) -> tuple[Table, Rows]:
    """Table and target without the rows of weight zero, checked; unless ``whole``, as a piece of more rows."""
    target = np.asarray(y, dtype=np.float64)
    if target.shape != (table.n_rows,):
        raise ValueError(f"y has shape {target.shape}, but X has {table.n_rows} rows; expected ({table.n_rows},)")
    weights = check_weight(weight, table.n_rows)
    weights = row_counts(weights, family) if whole else weights
    shifts = None if offset is None else check_offset(offset, table.n_rows, family)
    rows = Rows(target, weights, shifts)
    _refuse_wide_offset(shifts, family)
    if not weights.all():
        kept = np.flatnonzero(weights)
        table, rows = table.take(kept), rows.take(kept)
    if whole:
        family.check(rows.y)
    return table, rows


def _refuse_wide_offset(offset: Floats | None, family: Family) -> None:
    """Raise ValueError when means on a logarithmic scale cannot be finite for all rows, whatever the intercept."""
    if offset is None or not family.logarithmic:
        return
    low, high = float(offset.min()), float(offset.max())
    if high - low > WIDEST_OFFSET:
        raise ValueError(
            f"offset lies between {low:g} and {high:g} on the scale of the logarithm, which makes some means zero or "
            "infinite; give the logarithm of an exposure"
        )


def row_counts(weight: Floats, family: Family) -> Floats:
    """Weights as numbers of rows.

    Whole numbers are that: a row of weight 2 is there twice, with the same target. Others are relative where the
    dispersion is estimated, which takes up any factor: they get mean 1. Weights that rounding would lose are zero.
    """
    largest = float(weight.max())
    mean = largest * float((weight / largest)[weight > 0.0].mean())
    countable = mean * len(weight) <= MOST_TOTAL_WEIGHT
    if family.dispersed and not (countable and (weight % 1.0 == 0.0).all()):
        weight, mean = (weight / largest) / (mean / largest), 1.0
    elif not countable:
        raise ValueError(
            f"sample_weight has mean {mean:.3g}, which makes more rows than can be counted: weights of {family.name} "
            "are numbers of rows or trials; divide them, e.g. by their mean"
        )
    return np.where(weight < mean / MOST_TOTAL_WEIGHT, 0.0, weight)


def by_relevance(codes: Codes, rows: Rows) -> tuple[int, ...]:
    """Places of the columns, by the variance of the target's means per code, the largest first.

    Solvers visit columns in this order, so that a table with its columns in another order has the same fit.
    """
    weight = rows.weight / rows.weight.sum()
    residual = rows.y - weight @ rows.y
    residual = weight * (residual / max(float(np.abs(residual).max()), np.finfo(float).tiny))
    between, along = np.empty((2, len(codes.columns)))
    for j, (column, size) in enumerate(zip(codes.columns, codes.sizes, strict=True)):
        mass = np.bincount(column, weight, minlength=size)
        sums = np.bincount(column, residual, minlength=size)
        between[j] = (sums**2 / np.maximum(mass, np.finfo(float).tiny)).sum()
        along[j] = np.arange(size) @ sums
    # Columns of mostly distinct values tie in the first number, but for rounding.
    return tuple(int(j) for j in np.lexsort((-np.abs(along), np.array(codes.sizes), -between.round(9))))


def merged_rows(table: Table, codes: Codes, rows: Rows, columns: Sequence[int]) -> tuple[Table, Codes, Rows]:
    """Distinct rows, sorted by their codes and values in that order of columns, then by targets and offsets."""
    ordered = [table.columns[j] for j in columns]
    numbers = [np.nan_to_num(column) for column in ordered if is_numeric(column)]  # missing ones have a code
    keys = [
        *(codes.columns[j] for j in columns),
        *numbers,
        rows.y,
        *([] if rows.offset is None else rows.offset.T),
    ]
    order = np.lexsort(keys[::-1])
    new = np.zeros(len(order), dtype=bool)
    new[0] = True
    for key in keys:
        new[1:] |= key[order[1:]] != key[order[:-1]]
    starts = np.flatnonzero(new)
    weight = np.add.reduceat(rows.weight[order], starts)
    first = order[starts]
    return table.take(first), codes.take(first), replace(rows.take(first), weight=weight)
