"""Levels in rows to predict that training did not have: how many, and which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ahofm.columns import Codebook

_EXAMPLES = 3


class Unseen:
    """Counts them by column, piece by piece; for columns of levels that have an effect."""

    def __init__(self, books: Sequence[Codebook]) -> None:
        self._known = {book.name: pa.array(book.support.values) for book in books if book.edges is None and book.size}
        self._counts = dict.fromkeys(self._known, 0)
        self._examples: dict[str, list[Any]] = {name: [] for name in self._known}

    def look_at(self, table: Any) -> None:
        """One more piece."""
        for name, known in self._known.items():
            column = table[name]
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            new = column.drop_null().cast(known.type)
            new = new.filter(pc.invert(pc.is_in(new, known)))
            if pa.types.is_floating(new.type):
                new = new.filter(pc.is_finite(new))  # NaN is missing
            self._counts[name] += len(new)
            own = self._examples[name]
            own += [level for level in pc.unique(new).to_pylist() if level not in own][: _EXAMPLES - len(own)]

    def lines(self) -> Iterator[str]:
        """What to say, a line for each column with such levels."""
        for name, count in self._counts.items():
            if count:
                examples = ", ".join(map(repr, self._examples[name]))
                yield (
                    f"column '{name}': {count} row(s) with a level that training did not have, e.g. {examples}; "
                    "they are predicted without an effect of the column"
                )
