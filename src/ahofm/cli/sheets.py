"""The first sheet of an Excel file as a table."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ahofm.cli.errors import CommandError
from ahofm.scale.cells import MISSING


def read_sheet(path: Path, missing: Sequence[str], text: Sequence[str] = ()) -> Any:
    """An Arrow table: names of columns in the first row; columns of numbers are numbers, all others text."""
    try:
        import openpyxl  # noqa: PLC0415 - only Excel files need it
    except ImportError as error:
        raise CommandError(f"{path}: Excel files need openpyxl: pip install 'ahofm[cli]'") from error
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        rows = book.worksheets[0].iter_rows(values_only=True)
        names = [str(name) for name in next(rows, ()) if name is not None]
        if not names:
            raise CommandError(f"{path}: the first row of the first sheet has no names of columns")
        cells = [row[: len(names)] for row in rows if any(value is not None for value in row)]
    finally:
        book.close()
    absent = {*MISSING, *missing}
    columns = [
        _column([None if row[at] is None or str(row[at]) in absent else row[at] for row in cells], name in text)
        for at, name in enumerate(names)
    ]
    return pa.Table.from_arrays(columns, names=names)


def _column(cells: list[Any], as_text: bool) -> Any:
    present = [value for value in cells if value is not None]
    if not as_text and all(isinstance(value, (int, float)) for value in present):
        return pa.array([None if value is None else float(value) for value in cells], pa.float64())
    return pa.array([None if value is None else _said(value) for value in cells], pa.string())


def _said(value: Any) -> str:
    """As it stands in the sheet: whole numbers without a point, dates without a time."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return str(value.date())
    return str(value)
