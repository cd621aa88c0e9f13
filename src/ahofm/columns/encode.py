"""From a table to codes: choose kinds, learn codebooks, encode. The first stage of every fit and prediction."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ahofm.columns.basis import Basis, Floats
from ahofm.columns.categorical import Categorical
from ahofm.columns.codebook import Codebook
from ahofm.columns.codes import Codes
from ahofm.columns.kind import ColumnKind, NumericKind, Support
from ahofm.columns.linear import EmptyBasis, Linear
from ahofm.columns.spline import Spline
from ahofm.columns.support import MAX_CODES, learn_levels, learn_numbers
from ahofm.columns.table import Table, is_numeric, missing_in, read_table

T = TypeVar("T")

Kinds = Mapping[str | int, ColumnKind] | ColumnKind | None


class ConstantColumnWarning(UserWarning):
    """A column has a single value: it is kept and contributes nothing."""


@dataclass(frozen=True)
class Encoder:
    """Codebooks of a table's columns; the same object encodes training and new data.

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
        columns : dict of column name or position to kind, or one kind for all, optional
            Columns not named are chosen by their data: levels become Categorical, two numbers Linear, more a Spline.
        default : kind, optional
            Of columns of more than two numbers that are not named, in place of a Spline.
        max_codes : int or None
            Up to this many distinct numbers are kept exactly; more are binned into this many bins of equal mass. None:
            2,048 for columns whose values repeat, 254 for others.
        sample_weight : array of shape (n_rows,), optional
            Integer weights act as repeated rows, zero weights as absent ones.
        n_threads : int, optional
            Columns learned at a time; all cores by default.
        """
        table = read_table(X)
        kinds = requested_kinds(columns, table.names)
        valid = isinstance(max_codes, (int, np.integer)) and not isinstance(max_codes, bool) and max_codes >= 2
        if max_codes is not None and not valid:
            raise ValueError(f"max_codes must be an integer of at least 2, got {max_codes!r}")
        weight = _checked_weight(sample_weight, table.n_rows)

        def learn(j: int) -> Codebook:
            column = np.ascontiguousarray(table.columns[j])  # learning reads it several times
            return _learn_codebook(table.names[j], column, kinds.get(j), default, max_codes, weight)

        codebooks = _each(learn, range(len(table.names)), n_threads)
        constant = [book.name for book in codebooks if book.size == 0]
        if constant:
            names = ", ".join(map(repr, constant[:10])) + (", ..." if len(constant) > 10 else "")
            warnings.warn(
                f"{len(constant)} constant column(s) contribute nothing: {names}", ConstantColumnWarning, stacklevel=2
            )
        return cls(tuple(codebooks), table.named)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, in the order of training."""
        return tuple(book.name for book in self.codebooks)

    def encode(self, X: Any, *, n_threads: int | None = None) -> Codes:
        """Codes of a table with the columns of training."""
        table = self.check(X)

        def encode(j: int) -> NDArray[Any]:
            return self.codebooks[j].encode(table.columns[j])

        columns = _each(encode, range(len(self.codebooks)), n_threads)
        return Codes(tuple(columns), tuple(book.n_codes for book in self.codebooks))

    def check(self, X: Any) -> Table:
        """Read a table and raise ValueError unless it has the columns of training, in their order."""
        table = read_table(X)
        if self.named and table.named and table.names != self.names:
            missing = [name for name in self.names if name not in table.names]
            extra = [name for name in table.names if name not in self.names]
            problems = []
            if missing:
                problems.append(f"missing: {', '.join(map(repr, missing))}")
            if extra:
                problems.append(f"not seen in training: {', '.join(map(repr, extra))}")
            if not problems:
                problems.append("the order differs; reorder them, e.g. X[list(encoder.names)]")
            raise ValueError(f"the columns of X are not those of training; {'; '.join(problems)}")
        if len(table.names) != len(self.names):
            raise ValueError(f"X has {len(table.names)} columns, but {len(self.names)} were seen in training")
        return table


def _each(task: Callable[[int], T], items: Iterable[int], n_threads: int | None) -> list[T]:
    count = n_threads if n_threads is not None else os.cpu_count() or 1
    if count <= 1:
        return [task(item) for item in items]
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(task, items))


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


def _learn_codebook(
    name: str,
    column: NDArray[Any],
    kind: ColumnKind | None,
    default: ColumnKind | None,
    max_codes: int | None,
    weight: Floats | None,
) -> Codebook:
    absent = missing_in(column)
    missing = float(np.count_nonzero(absent) if weight is None else weight[absent].sum())
    by_level = isinstance(kind, Categorical) or not is_numeric(column)
    if by_level:
        if isinstance(kind, NumericKind):
            raise TypeError(
                f"column '{name}' holds text and cannot be {type(kind).__name__}(); use Categorical() or convert it"
            )
        support, edges = learn_levels(column, weight), None
    else:
        limit = kind.max_codes if isinstance(kind, NumericKind) and kind.max_codes is not None else max_codes
        support, edges = learn_numbers(column, weight, limit)
    kind = _resolved(kind, default, support, by_level)
    try:
        functions: Basis = EmptyBasis() if kind is None else kind.learn(support)
    except ValueError as error:
        raise ValueError(f"column '{name}': {error}") from error
    return Codebook(name, kind, support, edges, functions, missing)


def _resolved(
    kind: ColumnKind | None, default: ColumnKind | None, support: Support, by_level: bool
) -> ColumnKind | None:
    """The kind a column can carry: one value nothing, two numbers a line."""
    if support.size <= 1:
        return None
    if by_level:
        return kind or Categorical()
    if support.size == 2:
        return kind if isinstance(kind, Linear) else Linear(getattr(kind, "outside", "clamp"))
    return kind or default or Spline()
