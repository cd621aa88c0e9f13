"""From a table and a target to rows that a solver can use: counted, encoded, merged, in units of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ahofm.columns import Codes, ColumnKind, Encoder
from ahofm.columns.basis import Floats
from ahofm.columns.encode import Kinds
from ahofm.columns.table import Table, is_numeric
from ahofm.families import Family
from ahofm.families.units import Units
from ahofm.model import check_offset, check_weight

MERGED_ROWS = 10_000
"""Up to here equal rows become one with the sum of their weights, in an order that depends on their values alone.
Repeated rows and integer weights, or rows in another order, then give the same fit to the bit; an iteration that is not
convex would let rounding grow.
"""


@dataclass(frozen=True)
class Rows:
    """Target, weight and offset of the rows that count."""

    y: Floats
    weight: Floats
    offset: Floats | None

    def take(self, rows: NDArray[Any]) -> Rows:
        """Some of the rows."""
        return Rows(self.y[rows], self.weight[rows], None if self.offset is None else self.offset[rows])


@dataclass(frozen=True)
class Data:
    """What a solver is given.

    Attributes
    ----------
    encoder : Encoder
    table : Table
        Raw values of the rows.
    codes : Codes
    rows : Rows
        In the units of ``inner``.
    family : Family
        With everything filled in that it learns from the target.
    inner : Family
        The same for the standardised target.
    units : Units
        From the inner predictors to those of the family.
    total : float
        Sum of the weights.
    """

    encoder: Encoder
    table: Table
    codes: Codes
    rows: Rows
    family: Family
    inner: Family
    units: Units
    total: float


def counted_rows(
    table: Table, y: ArrayLike, weight: ArrayLike | None, offset: ArrayLike | None, family: Family
) -> tuple[Table, Rows]:
    """Table and target without the rows of weight zero, checked."""
    target = np.asarray(y, dtype=np.float64)
    if target.shape != (table.n_rows,):
        raise ValueError(f"y has shape {target.shape}, but X has {table.n_rows} rows; expected ({table.n_rows},)")
    weights = check_weight(weight, table.n_rows)
    shifts = None if offset is None else check_offset(offset, table.n_rows, family)
    rows = Rows(target, weights, shifts)
    if not weights.all():
        kept = np.flatnonzero(weights)
        table, rows = table.take(kept), rows.take(kept)
    family.check(rows.y)
    return table, rows


def prepare(
    table: Table,
    rows: Rows,
    family: Family,
    kinds: Kinds,
    *,
    default: ColumnKind | None,
    max_codes: int | None,
    n_threads: int | None,
) -> Data:
    """Learn the codebooks, encode, merge and standardise."""
    encoder = Encoder.learn(
        table, kinds, default=default, max_codes=max_codes, sample_weight=rows.weight, n_threads=n_threads
    )
    codes = encoder.encode(table, n_threads=n_threads)
    if table.n_rows <= MERGED_ROWS:
        table, codes, rows = _merged(table, codes, rows)
    filled, total = family.filled(rows.y, rows.weight), float(rows.weight.sum())
    inner, units = filled.standardised(rows.y, rows.weight)
    offset = None if rows.offset is None else units.of_offset(rows.offset)
    rows = replace(rows, y=units.of_target(rows.y), offset=offset)
    return Data(encoder, table, codes, rows, filled, inner, units, total)


def _merged(table: Table, codes: Codes, rows: Rows) -> tuple[Table, Codes, Rows]:
    """Distinct rows in the order of their codes, values, targets and offsets."""
    numbers = [np.nan_to_num(column) for column in table.columns if is_numeric(column)]  # missing ones have a code
    keys = [*codes.columns, *numbers, rows.y, *([] if rows.offset is None else rows.offset.T)]
    order = np.lexsort(keys[::-1])
    new = np.zeros(len(order), dtype=bool)
    new[0] = True
    for key in keys:
        new[1:] |= key[order[1:]] != key[order[:-1]]
    starts = np.flatnonzero(new)
    weight = np.add.reduceat(rows.weight[order], starts)
    first = order[starts]
    return table.take(first), codes.take(first), replace(rows.take(first), weight=weight)
