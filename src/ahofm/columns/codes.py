"""An encoded table: one small integer per cell. All that the numerics ever see of the data's columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Codes:
    """Columns of codes, each in the narrowest unsigned type that holds it.

    Attributes
    ----------
    columns : tuple of arrays of shape (n_rows,)
        uint8, uint16 or uint32.
    sizes : tuple of int
        Number of codes of each column: the rows it takes in a table.
    """

    columns: tuple[NDArray[Any], ...]
    sizes: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0])

    @property
    def n_codes(self) -> int:
        """Rows of a table: the codes of all columns, one column after another."""
        return sum(self.sizes)

    @property
    def starts(self) -> NDArray[np.int64]:
        """First table row of each column, and the end of the last: shape (columns + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)])

    def rows(self, start: int, stop: int) -> Codes:
        """Take a range of rows.

        Parameters
        ----------
        start, stop : int
            First row, and the one after the last.

        Returns
        -------
        Codes
            Without a copy.
        """
        return Codes(tuple(column[start:stop] for column in self.columns), self.sizes)

    def take(self, rows: NDArray[np.int64]) -> Codes:
        """Take some rows.

        Parameters
        ----------
        rows : array of shape (m,)
            Numbers of rows.

        Returns
        -------
        Codes
            Those rows, in that order.
        """
        return Codes(tuple(column[rows] for column in self.columns), self.sizes)

    def of_columns(self, columns: Sequence[int] | NDArray[np.intp]) -> Codes:
        """Take some columns.

        Parameters
        ----------
        columns : sequence of int
            Their positions.

        Returns
        -------
        Codes
            All rows of these columns, in that order.
        """
        return Codes(tuple(self.columns[j] for j in columns), tuple(self.sizes[j] for j in columns))


def code_type(size: int) -> type[np.unsignedinteger[Any]]:
    """Narrowest type for codes 0 .. size - 1."""
    if size <= 2**8:
        return np.uint8
    return np.uint16 if size <= 2**16 else np.uint32
