"""Read a table: NumPy, pandas, polars or Arrow in; one array per column out. Knows no kinds and no codes.

A column of numbers becomes float64 with NaN for missing; a column of levels an object array with None for missing.
Columns of dates and times become their parts, numbers.
A category whose values are numbers or booleans becomes numbers, and the table knows that they are levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from types import NoneType
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ahofm.columns.basis import Floats

PARTS_OF_DATES = ("trend", "season", "weekday", "hour")
"""What a column of dates becomes: a column "when" has "when (trend)" and so on in its place."""

_AS_TEXT = "pass identifiers as text, e.g. with astype(str), or subtract a constant"


@dataclass(frozen=True)
class Table:
    """Columns of equal length.

    Attributes
    ----------
    names : tuple of str
    columns : tuple of arrays of shape (n,)
    named : bool
        Whether the names came with the data.
    categories : dict of column name to tuple of str
        Columns that the data declare to be categories; the values of an ordered one in their order, or an empty tuple.
    dates : tuple of str
        Columns of dates and times, which are there as their parts.
    """

    names: tuple[str, ...]
    columns: tuple[NDArray[Any], ...]
    named: bool
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dates: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0])

    def take(self, rows: NDArray[Any]) -> Table:
        """Some of the rows, in the given order."""
        return replace(self, columns=tuple(column[rows] for column in self.columns))


def is_numeric(column: NDArray[Any]) -> bool:
    """Whether a column of a Table holds numbers; otherwise it holds levels."""
    return column.dtype != object


def missing_in(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a column of a Table is missing."""
    if is_numeric(column):
        return np.asarray(np.isnan(column))
    return np.fromiter((value is None for value in column.tolist()), dtype=np.bool_, count=len(column))


def read_table(X: Any) -> Table:
    """Read any supported table.

    Raises
    ------
    TypeError
        X is not a table, or a column holds what is neither a number nor a level.
    ValueError
        No rows, no columns, repeated names, infinite values.
    """
    if isinstance(X, Table):
        return X
    if sp.issparse(X):
        raise TypeError("X is a sparse matrix; pass a dense array or a data frame, e.g. X.toarray()")
    X = as_array(X)
    return _read_array(X) if isinstance(X, np.ndarray) else _read_frame(X)


def as_array(X: Any) -> Any:
    """A list of rows as an array; anything else as it is."""
    if not isinstance(X, (list, tuple)):
        return X
    has_text = any(isinstance(cell, str) for row in X if isinstance(row, (list, tuple)) for cell in row)
    return np.asarray(X, dtype=object if has_text else None)  # NumPy would turn the numbers beside a text into text


def _read_array(X: NDArray[Any]) -> Table:
    if X.ndim != 2:
        raise ValueError(
            f"X must have two dimensions (rows, columns), got {X.ndim}; for one column use X.reshape(-1, 1)"
        )
    names = tuple(f"x{j}" for j in range(X.shape[1]))
    _refuse_empty(X.shape[0], names)
    if X.dtype.kind in "fiub":
        numbers = X.astype(np.float64, copy=False)
        if X.dtype.kind in "iu":
            for j, name in enumerate(names):
                _refuse_rounded(name, X[:, j])
        if np.isinf(numbers).any():  # one pass over contiguous memory; which column is found below
            for j, name in enumerate(names):
                _refuse_infinite(name, numbers[:, j])
        return Table(names, tuple(numbers[:, j] for j in range(X.shape[1])), named=False)
    if X.dtype.kind not in "OUS":
        raise TypeError(f"X has dtype {X.dtype}; pass numbers, text, or a data frame with both")
    return Table(names, tuple(_read_objects(name, X[:, j]) for j, name in enumerate(names)), named=False)


def _read_frame(X: Any) -> Table:
    try:
        frame = nw.from_native(X, eager_only=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"column names must differ; rename or drop repeated ones ({error})") from error
    except TypeError as error:
        raise TypeError(
            f"X must be a NumPy array or a pandas, polars or Arrow table, got {type(X).__name__}"
        ) from error
    names = tuple(str(name) for name in frame.columns)
    if len(set(names)) < len(names):  # 1 and "1"
        raise ValueError(f"column names must differ as text, got {', '.join(map(repr, frame.columns))}")
    _refuse_empty(frame.shape[0], names)
    series = [frame[:, j] for j in range(len(names))]
    dates = tuple(name for name, own in zip(names, series, strict=True) if own.dtype in (nw.Date, nw.Datetime))
    if dates:
        count = len(names) + (len(PARTS_OF_DATES) - 1) * len(dates)
        names, series = _parted(names, series)
        if len(names) < count:
            raise ValueError(
                f"parts of the dates {', '.join(map(repr, dates))} are named as other columns; rename these"
            )
    columns = tuple(map(_read_series, names, series))
    declared = {
        name: _declared_order(own.dtype, column)
        for name, own, column in zip(names, series, columns, strict=True)
        if not isinstance(own, np.ndarray) and own.dtype in (nw.Categorical, nw.Enum)
    }
    return Table(names, columns, named=True, categories=declared, dates=dates)


def source_of_part(name: str, dates: Sequence[str]) -> str | None:
    """The column of dates that a column is a part of; None for other columns."""
    return next((date for date in dates if name in [f"{date} ({part})" for part in PARTS_OF_DATES]), None)


def _parted(names: Sequence[str], series: Sequence[Any]) -> tuple[tuple[str, ...], list[Any]]:
    """Columns of dates as their parts: arrays of numbers, NaN where missing."""
    found: dict[str, Any] = {}
    for name, own in zip(names, series, strict=True):
        if own.dtype not in (nw.Date, nw.Datetime):
            found[name] = own
            continue
        moments = np.array([_moment(value) for value in own.to_list()], dtype="datetime64[us]")
        day = moments.astype("datetime64[D]")
        absent = np.isnat(moments)
        hours = np.where(absent, np.nan, (moments - day).astype(np.int64) / 3.6e9)
        days = np.where(absent, np.nan, day.astype(np.int64) + np.nan_to_num(hours) / 24.0)
        of_year = np.where(absent, np.nan, (day - day.astype("datetime64[Y]")).astype(np.int64))
        weekday = np.where(absent, np.nan, (day.astype(np.int64) + 3) % 7)
        values = (days, of_year, weekday, hours)
        found |= {f"{name} ({part})": one for part, one in zip(PARTS_OF_DATES, values, strict=True)}
    return tuple(found), list(found.values())


def _moment(value: Any) -> np.datetime64:
    """A date or time without its zone: as the clock showed it."""
    if _is_missing(value):
        return np.datetime64("NaT")
    naive = value.replace(tzinfo=None) if getattr(value, "tzinfo", None) is not None else value
    return np.datetime64(naive)


def _declared_order(dtype: Any, column: NDArray[Any]) -> tuple[str, ...]:
    """Of an ordered category of text; numbers have an order of their own."""
    return tuple(dtype.categories) if isinstance(dtype, nw.Enum) and not is_numeric(column) else ()


def _read_series(name: str, series: Any) -> NDArray[Any]:
    if isinstance(series, np.ndarray):  # a part of dates
        return series
    dtype = series.dtype
    if dtype.is_integer():
        _refuse_rounded(name, np.asarray(series.drop_nulls().to_numpy()))
    if dtype.is_numeric() or dtype == nw.Boolean:
        numbers = np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
        _refuse_infinite(name, numbers)
        return numbers
    if dtype in (nw.String, nw.Categorical, nw.Enum, nw.Object, nw.Unknown):
        return _read_objects(name, np.array([*series.to_list(), None], dtype=object)[:-1])
    raise TypeError(f"column '{name}' has type {dtype}; turn it into text or numbers (a duration, e.g., into hours)")


def _read_objects(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """An object column is a column of numbers or one of levels, never both."""
    cells = values.tolist()
    if not set(map(type, cells)) <= {str, NoneType}:
        cells = [None if _is_missing(value) else value for value in cells]
    types = set(map(type, cells)) - {NoneType}
    if all(issubclass(kind, Real) for kind in types):
        try:
            numbers = np.array([np.nan if value is None else float(value) for value in cells], dtype=np.float64)
        except OverflowError as error:
            raise ValueError(f"column '{name}' holds integers too large for a number; {_AS_TEXT}") from error
        for value, number in zip(cells, numbers.tolist(), strict=True):
            if isinstance(value, Integral) and number != value:
                _raise_rounded(name, value)
        _refuse_infinite(name, numbers)
        return numbers
    if all(issubclass(kind, str) for kind in types):
        levels = np.empty(len(cells), dtype=object)
        levels[:] = cells
        return levels
    seen = ", ".join(sorted(kind.__name__ for kind in types))
    raise TypeError(
        f"column '{name}' mixes values of type {seen}; make it all numbers or all text, e.g. with astype(str)"
    )


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, Real) and value != value  # noqa: PLR0124 - only NaN differs from itself


def _refuse_empty(n_rows: int, names: Sequence[str]) -> None:
    if not names:
        raise ValueError("X has no columns (0 feature(s)); at least one is needed")
    if n_rows == 0:
        raise ValueError("X has no rows (0 sample(s)); at least one is needed")


def _refuse_rounded(name: str, column: NDArray[Any]) -> None:
    """Raise ValueError when integers are not kept apart as double-precision numbers."""
    if not column.size or max(abs(int(column.min())), abs(int(column.max()))) <= 2**53:
        return
    for value in column.tolist():
        if float(value) != value:
            _raise_rounded(name, value)


def _raise_rounded(name: str, value: Any) -> None:
    raise ValueError(f"column '{name}' holds {value}, an integer beyond 2^53 that a number would round; {_AS_TEXT}")


def _refuse_infinite(name: str, column: Floats) -> None:
    if (infinite := np.isinf(column)).any():
        rows = np.flatnonzero(infinite)
        raise ValueError(
            f"column '{name}' is infinite in row {rows[0]} (and {len(rows) - 1} more); "
            "replace infinities by NaN (missing) or by a large number"
        )
