"""Cells of text files: which are missing, which are truth values, which are odd ones in a column of numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ahofm.scale.parts import first_line

MISSING = ("", "NA", "NaN", "nan", "null", "NULL", "None")
"""Cells that are missing in text files, besides those named."""

_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def refuse_repeated(names: Sequence[str], path: Path) -> None:
    """Raise ValueError when two columns have the same name: one of them would be lost."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"{path}: column names must differ, but {repeated[0]!r} is there more than once; rename one")


def odd_cell(column: Any) -> tuple[int, str] | None:
    """Row and text of the first cell that is no number, in a column of text of which more than half are numbers."""
    if not is_text(column.type):
        return None
    number = pc.match_substring_regex(column, _NUMBER)
    if column.null_count == len(column) or (pc.mean(number.cast(pa.float64())).as_py() or 0.0) <= 0.5:
        return None
    row = pc.index(pc.fill_null(number, True), False).as_py()
    return None if row < 0 else (row, column[row].as_py())


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def as_numbers(column: Any) -> Any:
    """A column in double precision; true and false, in capitals or not, are 1 and 0."""
    if is_text(column.type):
        column = pc.utf8_lower(pc.utf8_trim_whitespace(column))
        for word, digit in (("true", "1"), ("false", "0")):
            column = pc.if_else(pc.equal(column, word), digit, column)
    return column.cast(pa.float64())


def not_utf8(path: Path) -> str:
    """What to say of a text file in another encoding."""
    return f"{path}: the file is not UTF-8 text; convert it first, e.g. with iconv -f latin1 -t utf-8"


def told(error: Exception, path: Path) -> str:
    """What went wrong in a file, in one line with the remedy."""
    line = first_line(error)
    if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in line:
        return not_utf8(path)
    if "duplicate field names" in line:
        return f"{path}: column names must differ; rename those that are there more than once"
    cell = re.search(r"invalid value '(.*)'$", line)
    remedy = "" if cell is None else f"; if {cell[1]!r} means missing, name it as such (--missing, missing=)"
    return f"{path}: {line.removesuffix('.')}{remedy}"
