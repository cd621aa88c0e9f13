"""What differs between databases: quotes, types, numbers that are no numbers, tables of constants, limits."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["number", "text", "code"]
"""Of a column in a table of constants: doubles, levels that are text, or whole numbers."""

_STANDARD = "{name} AS (SELECT\n  {columns}\nFROM {source})"
_INFINITY = "CAST('Infinity' AS {double})"
_EQUAL = "NULLIF({x}, CAST('NaN' AS {double}))"


@dataclass(frozen=True)
class Dialect:
    """How a database writes things.

    Attributes
    ----------
    name : str
    double, text_type : str
        Types of numbers and of text.
    quotes : str
        Two characters around names; the second is doubled within.
    escapes : bool
        Whether a backslash in a text means something.
    literal : str
        What comes before the quote of a text.
    infinity : str
        The largest number of all; NULL where there is none.
    no_nan : str
        A number ``x`` with NULL for NaN; empty where there are no NaN.
    key : str
        What a text ``x`` is compared by, where capitals and blanks at its end would not count.
    blanks_count : bool
        Whether texts that differ in blanks at their ends differ.
    step : str
        A step of the statement, with what keeps a database from putting its expressions into the next.
    constants : "values", "derived", "select", "structs" or "function"
        A table of constants: VALUES alone, VALUES in a derived table, a union of SELECTs, BigQuery's and ClickHouse's.
    greatest : str
        The largest of several numbers.
    log : str
        The function of natural logarithms.
    ending : str
        What comes behind the statement.
    most_columns, longest_name, longest_statement : int or None
        Columns of a step, bytes of a name and of a statement; those of a statement where no setting raises them.
    forbidden : str
        Characters that names of results cannot have.
    """

    name: str
    double: str = "DOUBLE"
    text_type: str = "VARCHAR"
    quotes: str = '""'
    escapes: bool = False
    literal: str = ""
    infinity: str = _INFINITY
    no_nan: str = _EQUAL
    key: str = "{x}"
    blanks_count: bool = True
    step: str = _STANDARD
    constants: str = "derived"
    greatest: str = "GREATEST({all})"
    log: str = "LN"
    ending: str = ""
    most_columns: int | None = None
    longest_name: int | None = None
    longest_statement: int | None = None
    forbidden: str = ""

    def identifier(self, name: str) -> str:
        """A name in quotes, whatever it holds."""
        if "\0" in name or not name:
            raise ValueError(f"{name!r} cannot be the name of a column or table in SQL; rename it")
        start, end = self.quotes[0], self.quotes[1]
        if self.escapes and self.constants in ("structs", "function"):  # their names have escapes as well
            return start + name.replace("\\", "\\\\").replace(end, "\\" + end) + end
        return start + name.replace(end, 2 * end) + end

    def text(self, value: str) -> str:
        """A text in quotes."""
        if "\0" in value:
            raise ValueError(f"the level {value!r} has a NUL, which SQL cannot hold; rename it")
        if not self.escapes:
            return f"{self.literal}'" + value.replace("'", "''") + "'"
        plain = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
        return f"{self.literal}'{plain}'"

    def compared(self, x: str) -> str:
        """What a column of text is compared by."""
        return self.key.format(x=f"CAST({x} AS {self.text_type})")

    def level(self, value: str) -> str:
        """What a text is compared by."""
        return self.key.format(x=self.text(value))

    def number_or_null(self, x: str) -> str:
        """A column as a double, NULL where it is missing or NaN."""
        cast = f"CAST({x} AS {self.double})"
        return self.no_nan.format(x=cast, double=self.double) if self.no_nan else cast

    def largest(self, names: Sequence[str]) -> str:
        """Of several numbers."""
        return self.greatest.format(all=", ".join(names), rows=", ".join(f"({name})" for name in names))

    def shown_name(self, name: str) -> str:
        """Of a column of the result."""
        return "".join("_" if letter in self.forbidden else letter for letter in name)

    def values(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]], kinds: Sequence[Kind]) -> str:
        """A table of constants as a step; casts in its first row say the types."""
        types = {"number": self.double, "text": self.text_type if self.key == "{x}" else None, "code": None}
        cast = [
            cell if types[kind] is None else f"CAST({cell} AS {types[kind]})"
            for cell, kind in zip(rows[0], kinds, strict=True)
        ]
        lines = [f"({', '.join(row)})" for row in [cast, *rows[1:]]]
        together, names = ",\n".join(lines), ", ".join(columns)
        if self.constants == "values":
            return f"{name}({names}) AS (VALUES\n{together})"
        if self.constants == "derived":
            return f"{name} AS (SELECT * FROM (VALUES\n{together}) AS v({names}))"
        if self.constants == "select":
            first = ", ".join(f"{cell} AS {own}" for cell, own in zip(cast, columns, strict=True))
            return (
                f"{name} AS (SELECT {first}" + "".join(f"\nUNION ALL SELECT {', '.join(row)}" for row in rows[1:]) + ")"
            )
        if self.constants == "structs":
            types = {"number": "FLOAT64", "text": "STRING", "code": "INT64"}
            fields = ", ".join(f"{own} {types[kind]}" for own, kind in zip(columns, kinds, strict=True))
            return f"{name} AS (SELECT * FROM UNNEST(ARRAY<STRUCT<{fields}>>[\n{together}]))"
        types = {"number": "Float64", "text": "Nullable(String)", "code": "Int32"}
        fields = ", ".join(f"{own} {types[kind]}" for own, kind in zip(columns, kinds, strict=True))
        return f"{name} AS (SELECT * FROM values('{fields}',\n{together}))"

    @property
    def infinite(self) -> str:
        """The largest number of all."""
        return self.infinity.format(double=self.double)


_MATERIALISED = "{name} AS MATERIALIZED (SELECT\n  {columns}\nFROM {source})"
_UNMERGED = "{name} AS (SELECT\n  {columns}\nFROM {source}\nLIMIT 18446744073709551615)"
_TOP = "{name} AS (SELECT TOP (9223372036854775807)\n  {columns}\nFROM {source})"
_POSTGRES = Dialect(
    "postgres",
    double="DOUBLE PRECISION",
    text_type="TEXT",
    step=_MATERIALISED,
    constants="values",
    most_columns=1600,
    longest_name=63,
)
_SPARK = Dialect("spark", text_type="STRING", quotes="``", escapes=True)
_TRINO = Dialect("trino", no_nan="CASE WHEN IS_NAN({x}) THEN NULL ELSE {x} END", constants="values")

DIALECTS = {
    one.name: one
    for one in (
        _POSTGRES,
        replace(_POSTGRES, name="duckdb", most_columns=None, longest_name=None),
        replace(
            _POSTGRES,
            name="sqlite",
            infinity="9e999",
            no_nan="",
            greatest="MAX({all})",
            most_columns=1900,
            longest_name=None,
        ),
        Dialect(
            "mysql",
            text_type="CHAR",
            quotes="``",
            escapes=True,
            infinity="NULL",
            no_nan="",
            key="CAST(CONVERT({x} USING utf8mb4) AS BINARY)",
            step=_UNMERGED,
            constants="select",
            most_columns=4000,
            longest_name=64,
        ),
        _SPARK,
        replace(_SPARK, name="databricks"),
        Dialect(
            "clickhouse",
            double="Nullable(Float64)",
            text_type="Nullable(String)",
            quotes="``",
            escapes=True,
            infinity="inf",
            no_nan="CASE WHEN isNaN({x}) THEN NULL ELSE {x} END",
            constants="function",
            ending="\nSETTINGS join_use_nulls = 1, prefer_column_name_to_alias = 1",
        ),
        Dialect(
            "bigquery",
            double="FLOAT64",
            text_type="STRING",
            quotes="``",
            escapes=True,
            infinity="CAST('inf' AS FLOAT64)",
            no_nan="CASE WHEN IS_NAN({x}) THEN NULL ELSE {x} END",
            constants="structs",
            most_columns=10_000,
            longest_name=300,
            longest_statement=1_000_000,
            forbidden='!"$()*,./;?@[\\]^`{}~',
        ),
        Dialect(
            "snowflake", escapes=True, infinity="CAST('inf' AS DOUBLE)", longest_name=255, longest_statement=1_000_000
        ),
        replace(
            _POSTGRES,
            name="redshift",
            text_type="VARCHAR(65535)",
            escapes=True,
            blanks_count=False,
            step=_STANDARD,
            constants="select",
            longest_name=127,
            longest_statement=16_000_000,
        ),
        _TRINO,
        replace(_TRINO, name="athena", longest_statement=262_144),
        Dialect(
            "tsql",
            double="FLOAT",
            text_type="NVARCHAR(4000)",
            quotes="[]",
            literal="N",
            infinity="NULL",
            no_nan="",
            key="CAST({x} AS VARBINARY(8000))",
            step=_TOP,
            greatest="(SELECT MAX(v) FROM (VALUES {rows}) AS own(v))",
            log="LOG",
            most_columns=4096,
            longest_name=128,
        ),
    )
}
"""By name, as sqlglot names them: "mysql" is MariaDB too, "tsql" is SQL Server."""


def dialect_of(name: str) -> Dialect:
    """Find a dialect by its name; ValueError where statements for it are not known."""
    if name not in DIALECTS:
        near = difflib.get_close_matches(name, DIALECTS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "export to ONNX or C instead"
        raise ValueError(f"dialect={name!r} is none of {', '.join(DIALECTS)}; {hint}")
    return DIALECTS[name]
