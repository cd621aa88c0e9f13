"""From a table to codes: choose kinds, learn codebooks, encode. The first stage of every fit and prediction."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ahofm.columns.basis import Floats
from ahofm.columns.categorical import Categorical
from ahofm.columns.codebook import Codebook
from ahofm.columns.codes import Codes
from ahofm.columns.kind import ColumnKind
from ahofm.columns.learned import Learned, learn_column
from ahofm.columns.support import MAX_CODES
from ahofm.columns.table import Table, read_table, source_of_part
from ahofm.threads import thread_count

T = TypeVar("T")

Kinds = Mapping[str | int, ColumnKind] | ColumnKind | None


class ConstantColumnWarning(UserWarning):
    """A column has a single value: it is kept and contributes nothing."""


@dataclass(frozen=True)
class Encoder:
    """Codebooks of a table's columns; the same object encodes training and new data.

    Attributes
    ----------
    codebooks : tuple of Codebook
        One per column, in the order of training.
    named : bool
        Whether the names of columns came with the data.

    Examples
    --------
    >>> import numpy as np
    >>> encoder = Encoder.learn(np.array([[0.5, 1.0], [1.5, 2.0], [2.5, 1.0]]))
    >>> encoder.encode(np.array([[1.5, 2.0]])).columns
    (array([1], dtype=uint8), array([1], dtype=uint8))
    """

    codebooks: tuple[Codebook, ...]
    named: bool

    @classmethod
    def learn(
        cls,
        X: Any,
        columns: Kinds = None,
        *,
        default: ColumnKind | None = None,
        max_codes: int | None = MAX_CODES,
        sample_weight: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> Encoder:
        """Learn the codebooks of a table.

        Parameters
        ----------
        X : NumPy array, pandas, polars or Arrow table
            The n rows.
        columns : dict of column name or position to kind, or one kind for all, optional
            Columns not named are chosen by their data: levels, and categories of a data frame whatever their values,
            become Categorical, two numbers Linear, more a Spline.
        default : kind, optional
            Of columns of more than two numbers that are not named, in place of a Spline.
        max_codes : int or None
            Up to this many distinct numbers are kept exactly; more are binned into this many bins of equal mass. None:
            2,048 for columns whose values repeat, 254 for others.
        sample_weight : array of shape (n,), optional
            Integer weights act as repeated rows, zero weights as absent ones.
        n_threads : int, optional
            Columns learned at a time; all cores by default.

        Returns
        -------
        Encoder
        """
        table = read_table(X)
        kinds = requested_kinds(columns, table.names)
        check_max_codes(max_codes)
        weight = _checked_weight(sample_weight, table.n_rows)

        def learn(j: int) -> Learned:
            column = np.ascontiguousarray(table.columns[j])  # learning reads it several times
            name, kind = table.names[j], kinds.get(j)
            if kind is None and name in table.categories:
                kind = Categorical()
            return learn_column(name, column, kind, max_codes, weight, table.categories.get(name, ()))

        learned = each(learn, range(len(table.names)), n_threads)
        return cls.of(learned, columns, default=default, named=table.named)

    @classmethod
    def of(
        cls, learned: Sequence[Learned], columns: Kinds = None, *, default: ColumnKind | None = None, named: bool = True
    ) -> Encoder:
        """Make an encoder of columns that have been learned already.

        Parameters
        ----------
        learned : sequence of Learned
            The columns.
        columns, default
            As for :meth:`learn`.
        named : bool, default True
            Whether the names of columns came with the data.

        Returns
        -------
        Encoder
        """
        kinds = requested_kinds(columns, [column.name for column in learned])
        codebooks = tuple(column.codebook(kinds.get(j), default) for j, column in enumerate(learned))
        constant = [book.name for book in codebooks if book.size == 0]
        if constant:
            names = ", ".join(map(repr, constant[:10])) + (", ..." if len(constant) > 10 else "")
            warnings.warn(
                f"{len(constant)} constant column(s) contribute nothing: {names}", ConstantColumnWarning, stacklevel=2
            )
        return cls(codebooks, named)

    @property
    def learned(self) -> tuple[Learned, ...]:
        """What the columns were before they had a kind."""
        return tuple(Learned(book.name, book.support, book.edges, book.missing_mass) for book in self.codebooks)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, in the order of training."""
        return tuple(book.name for book in self.codebooks)

    def encode(self, X: Any, *, n_threads: int | None = None) -> Codes:
        """Encode a table.

        Parameters
        ----------
        X : NumPy array, pandas, polars or Arrow table
            With the columns of training; those with names may be in any order.
        n_threads : int, optional
            Columns encoded at a time; all cores by default.

        Returns
        -------
        Codes
            One array of shape (n,) per column.
        """
        table = self.check(X)

        def encode(j: int) -> NDArray[Any]:
            return self.codebooks[j].encode(table.columns[j])

        columns = each(encode, range(len(self.codebooks)), n_threads)
        return Codes(tuple(columns), tuple(book.n_codes for book in self.codebooks))

    def check(self, X: Any) -> Table:
        """Read a table that has the columns of training.

        Parameters
        ----------
        X : NumPy array, pandas, polars or Arrow table
            Columns that have names, in training and here, may be in any order; others are taken as they come.

        Returns
        -------
        Table
            The columns in the order of training.

        Raises
        ------
        ValueError
            For columns that are missing, or that training did not have.
        """
        table = read_table(X)
        if table.dates and self.named:  # parts of dates that the fit did not take
            own = set(self.names)
            kept = [j for j, name in enumerate(table.names) if name in own or not source_of_part(name, table.dates)]
            parts = tuple(table.columns[j] for j in kept)
            table = replace(table, names=tuple(table.names[j] for j in kept), columns=parts)
        if self.named and table.named and table.names != self.names:
            missing = [name for name in self.names if name not in table.names]
            extra = [name for name in table.names if name not in self.names]
            problems = []
            if missing:
                problems.append(f"missing: {', '.join(map(repr, missing))}")
            if extra:
                problems.append(f"not seen in training: {', '.join(map(repr, extra))}")
            if not problems:
                return replace(
                    table,
                    names=self.names,
                    columns=tuple(table.columns[table.names.index(name)] for name in self.names),
                )
            raise ValueError(f"the columns of X are not those of training; {'; '.join(problems)}")
        if len(table.names) != len(self.names):
            raise ValueError(f"X has {len(table.names)} columns, but {len(self.names)} were seen in training")
        return table


def each(task: Callable[[int], T], items: Iterable[int], n_threads: int | None) -> list[T]:
    """Results of a task that releases Python's lock, on threads; all cores by default."""
    count = thread_count(n_threads)
    if count <= 1:
        return [task(item) for item in items]
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(task, items))


def check_max_codes(max_codes: Any) -> None:
    """Raise ValueError unless it is None or a number of codes that makes sense."""
    valid = isinstance(max_codes, (int, np.integer)) and not isinstance(max_codes, bool) and max_codes >= 2
    if max_codes is not None and not valid:
        raise ValueError(f"max_codes must be an integer of at least 2, got {max_codes!r}")


def requested_kinds(columns: Kinds, names: Sequence[str]) -> dict[int, ColumnKind]:
    """The kind asked for, by position."""
    if columns is None:
        return {}
    if isinstance(columns, ColumnKind):
        columns = dict.fromkeys(range(len(names)), columns)
    if not isinstance(columns, Mapping):
        raise TypeError(f"columns must be a dict from column to kind, one kind, or None, got {type(columns).__name__}")
    kinds: dict[int, ColumnKind] = {}
    for key, kind in columns.items():
        if not isinstance(kind, ColumnKind):
            raise TypeError(f"columns[{key!r}] must be a column kind such as Spline(), got {kind!r}")
        kind.validate()
        if isinstance(key, str):
            if key not in names:
                close = get_close_matches(key, names, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(map(repr, names[:10]))}"
                raise ValueError(f"columns names {key!r}, which is not in X{hint}")
            at = names.index(key)
        else:
            at = int(key)
            if not -len(names) <= at < len(names):
                raise ValueError(f"columns names position {at}, but X has {len(names)} columns")
            at %= len(names)
        if at in kinds:
            raise ValueError(f"columns names column '{names[at]}' twice, by name and by position")
        kinds[at] = kind
    return kinds


def _checked_weight(sample_weight: ArrayLike | None, n_rows: int) -> Floats | None:
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {weight.shape}, expected ({n_rows},)")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError("sample_weight must be finite and not negative")
    if not (weight > 0).any():
        raise ValueError("sample_weight is zero everywhere; at least one row must count")
    return weight
