"""Rating tables as sheets of a workbook."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_LONGEST = 31
"""Characters of a sheet's name."""


def write_workbook(path: Path, scale: str, base_mean: float, tables: Sequence[Any]) -> None:
    """Write a sheet with the base, one for each column, and a grid for each pair.

    Parameters
    ----------
    path : Path
    scale : str
        What entries are called.
    base_mean : float
    tables : sequence of RatingTable

    Raises
    ------
    ImportError
        Without openpyxl.
    """
    try:
        from openpyxl import Workbook  # noqa: PLC0415 - who writes workbooks needs it
        from openpyxl.styles import Font  # noqa: PLC0415 - likewise
    except ImportError as error:
        raise ImportError("to_excel needs the package openpyxl: pip install 'ahofm[export]'") from error
    book = Workbook()
    sheet, taken = book.active, {"base"}
    sheet.title = "base"
    sheet.append(["prediction at the base levels", base_mean])
    sheet.append(["scale", scale])
    sheet.append(["column", "base level", "sheet"])
    for table in tables:
        name = _sheet_name(" x ".join(table.columns), taken)
        if len(table.columns) == 1:
            sheet.append([_text(table.columns[0]), _text(table.base[0]), _text(name)])
        own = book.create_sheet(name)
        for row in _column(table, scale) if len(table.columns) == 1 else _grids(table, scale):
            own.append(row)
        own.freeze_panes = "B2"
        for cell in own[1]:
            cell.font = Font(bold=True)
    with path.open("wb") as file:
        book.save(file)


def _column(table: Any, scale: str) -> list[list[Any]]:
    head = [_text(table.columns[0]), "exposure", "observed", "fitted", scale]
    parts = [table.exposure, table.observed, table.fitted, table.relative]
    return [head, *([_text(own[0]), *(_number(part, at) for part in parts)] for at, own in enumerate(table.keys))]


def _grids(table: Any, scale: str) -> list[list[Any]]:
    """Rows are levels of the first column; one grid below another."""
    first = list(dict.fromkeys(a for a, _ in table.keys))
    second = list(dict.fromkeys(b for _, b in table.keys))
    rows: list[list[Any]] = []
    parts = {scale: table.relative, "exposure": table.exposure, "observed": table.observed, "fitted": table.fitted}
    for name, part in parts.items():
        rows.append([name, *map(_text, second)])
        rows += [
            [_text(level), *(_number(part, at * len(second) + k) for k in range(len(second)))]
            for at, level in enumerate(first)
        ]
        rows.append([])
    return rows


def _number(values: Any, at: int) -> float | None:
    return None if values is None or not np.isfinite(values[at]) else float(values[at])


def _text(value: str) -> str:
    """Text that a workbook takes for text: without control characters, and never a formula."""
    plain = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "?", value)
    return f"'{plain}" if plain.startswith(("=", "+", "-", "@")) and not _is_number(plain) else plain


def _is_number(text: str) -> bool:
    try:
        float(text.split(" to ", maxsplit=1)[0])
    except ValueError:
        return False
    return True


def _sheet_name(name: str, taken: set[str]) -> str:
    """Short enough, of allowed characters, and there once."""
    plain = re.sub(r"[\[\]:*?/\\\x00-\x1f']", "_", name)[:_LONGEST] or "_"
    found, count = plain, 1
    while found.lower() in taken:
        count += 1
        ending = f" ({count})"
        found = plain[: _LONGEST - len(ending)] + ending
    taken.add(found.lower())
    return found
