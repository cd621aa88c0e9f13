"""Pieces of SQL that PostgreSQL, DuckDB and SQLite read alike, or each in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ahofm.columns.basis import Floats


@dataclass(frozen=True)
class Dialect:
    """What differs between databases.

    Attributes
    ----------
    name : str
    infinity : str
    has_nan : bool
        Whether a number can be NaN, which is missing.
    greatest : str
        The function of the largest of several numbers.
    most_columns : int or None
        Of one step of a statement.
    longest_name : int or None
        Bytes of a column's name.
    """

    name: str
    infinity: str
    has_nan: bool
    greatest: str
    most_columns: int | None
    longest_name: int | None


_INFINITY = "CAST('Infinity' AS DOUBLE PRECISION)"

DIALECTS = {
    one.name: one
    for one in (
        Dialect("postgres", _INFINITY, True, "GREATEST", 1600, 63),
        Dialect("duckdb", _INFINITY, True, "GREATEST", None, None),
        Dialect("sqlite", "9e999", False, "MAX", 1900, None),
    )
}
"""Those whose results are tested. Others are translated from the statement for PostgreSQL."""


def identifier(name: str) -> str:
    """A name in quotes, whatever it holds."""
    if "\0" in name or not name:
        raise ValueError(f"{name!r} cannot be the name of a column or table in SQL; rename it")
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text in quotes."""
    if "\0" in value:
        raise ValueError(f"the level {value!r} has a NUL, which SQL cannot hold; rename it")
    return "'" + value.replace("'", "''") + "'"


def number(value: Any) -> str:
    """A literal in double precision that reads back as the same number."""
    written = repr(float(value))
    return written if "e" in written else written + "e0"


def total(terms: Sequence[str]) -> str:
    """A sum in a balanced tree: databases limit the depth of expressions."""
    if len(terms) < 9:
        return " + ".join(terms) if terms else "0e0"
    half = len(terms) // 2
    return f"({total(terms[:half])}) + ({total(terms[half:])})"


def weighted(pairs: Sequence[tuple[float, str]]) -> list[str]:
    """Terms of a sum; those of weight zero are left out, and a weight of one is not written."""
    return [name if weight == 1.0 else f"{number(weight)} * {name}" for weight, name in pairs if weight != 0.0]


def code(x: str, breaks: Floats) -> str:
    """How many of the breaks are at or below x, by bisection."""

    def between(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        return (
            f"CASE WHEN {x} < {number(breaks[middle])} THEN {between(low, middle)} ELSE {between(middle + 1, high)} END"
        )

    return between(0, len(breaks))


def exponential(eta: str) -> str:
    """Without an error where a database refuses results that are zero or infinite."""
    return f"CASE WHEN {eta} < -745e0 THEN 0e0 ELSE EXP({eta}) END"


def logistic(eta: str) -> str:
    """By an exponential of negative numbers only."""
    small = exponential(f"(-ABS({eta}))")
    return f"CASE WHEN {eta} >= 0e0 THEN 1e0 ELSE {small} END / (1e0 + {small})"


def values(name: str, columns: Sequence[str], rows: Sequence[Sequence[str]], types: Sequence[str | None]) -> str:
    """A table of constants; the first row has the types."""
    first = [cell if kind is None else f"CAST({cell} AS {kind})" for cell, kind in zip(rows[0], types, strict=True)]
    lines = ",\n".join(f"({', '.join(row)})" for row in [first, *rows[1:]])
    return f"{name}({', '.join(columns)}) AS (VALUES\n{lines})"


def nonzero(powers: Floats) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which coefficients of which functions differ from zero at any code: (degree + 1, functions)."""
    return np.asarray((powers != 0.0).any(axis=0))
