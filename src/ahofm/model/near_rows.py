"""Training rows that are nearly equal to a row: each counts as a part of a copy, the less the farther it is.

With distances d_i to the distinct training rows, which have n_i copies and targets of sum s_i, a row has

    n = sum_i n_i exp(-d_i / width)        n y = sum_i s_i exp(-d_i / width)

in the credibility formula of copies (:mod:`ahofm.model.repeated`). A distance is the mean over columns of differences
in ranks, as fractions of the training rows. The model has codes of the training rows for that, not their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.table import Table

OTHER_LEVEL, MISSING_PLACE = 0.5, 1.5
"""Distance of two levels, which is that of the values of any column that has two; and the place of missing numbers,
which is as far from the largest one."""

_ROWS = 1_024
"""Rows whose distances are computed at once."""


@dataclass(frozen=True)
class NearRows:
    """Distinct training rows, as parts of copies of rows near them.

    Attributes
    ----------
    codes : array of shape (rows, columns)
        Of the training rows, whole numbers; of all columns, those that do not vary have 0.
    counts, sums : arrays of shape (rows,)
        Number of copies of each, and the sum of their targets.
    width : float
        Distance at which a row counts as 1/e of a copy.
    """

    codes: Floats
    counts: Floats
    sums: Floats
    width: float

    def check(self, books: Sequence[Codebook]) -> None:
        """Raise ValueError unless the parts fit one another and the codebooks."""
        rows = self.counts.shape
        if self.codes.shape != (*rows, len(books)) or self.sums.shape != rows or not self.width > 0.0:
            raise ValueError(f"codes of shape {self.codes.shape} are not those of {rows} near rows with a width")
        most = np.array([book.n_codes for book in books])
        if not ((self.codes >= 0) & (self.codes < most) & (self.codes % 1 == 0)).all() or not (self.counts > 0).all():
            raise ValueError("codes or counts of near rows are outside their range")

    def parts_of_copies(self, books: Sequence[Codebook], table: Table) -> tuple[Floats, Floats]:
        """Number of copies (n,) that training rows are of the rows of a table, and the sum (n,) of their targets."""
        wanted = codes_of(books, table)
        count, total = np.empty(len(wanted)), np.empty(len(wanted))
        for start in range(0, len(wanted), _ROWS):
            rows = slice(start, start + _ROWS)
            part = np.exp(-distances(books, wanted[rows], self.codes) / self.width)
            count[rows], total[rows] = part @ self.counts, part @ self.sums
        return count, total


def codes_of(books: Sequence[Codebook], table: Table) -> Floats:
    """Codes (n, columns) of a table; 0 in columns that do not vary in training."""
    found = np.zeros((table.n_rows, len(books)))
    for j, (book, column) in enumerate(zip(books, table.columns, strict=True)):
        if book.size:
            found[:, j] = book.encode(column)
    return found


def distances(books: Sequence[Codebook], codes: Floats, others: Floats) -> Floats:
    """Mean distances (n, m), over columns that vary, of two sets of rows by their codes (n, columns), (m, columns)."""
    places = {j: places_of_codes(book) for j, book in enumerate(books) if book.size and book.edges is not None}
    found = np.zeros((len(codes), len(others)))
    if places:
        pairs = [[place[rows[:, j].astype(np.intp)] for j, place in places.items()] for rows in (codes, others)]
        found = cdist(*(np.column_stack(columns) for columns in pairs), "cityblock")
    for j, book in enumerate(books):
        if book.size and j not in places:
            found += OTHER_LEVEL * (codes[:, j, np.newaxis] != others[:, j])
    return np.asarray(found / max(sum(book.size > 0 for book in books), 1))


def places_of_codes(book: Codebook) -> Floats:
    """Middle ranks of the codes of a column of numbers, as fractions of the training rows: (codes,)."""
    mass = book.support.mass
    found = np.full(book.n_codes, MISSING_PLACE)
    found[: len(mass)] = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
    return found
