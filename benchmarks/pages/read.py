"""Results as a table: a line per unit, a column per measure and per option of the setting."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.store import Store
from benchmarks.table import RESULTS

TEXT = ("problem", "method", "setting", "status", "from", "commit", "family")
ALWAYS = ("p", "n", "order", "rank", "basis", "status", "seconds", "cpu", "megabytes", "rmse")
"""Columns that are there even if no unit has them yet."""


def units(name: str, folder: Path = RESULTS) -> pd.DataFrame:
    """All units of an experiment; numbers are numbers, ``grid`` measures stay text."""
    rows = []
    for unit, measures in Store(name, folder):
        named = {"problem": unit.problem, "method": unit.method, "setting": unit.setting, "split": unit.replication}
        rows.append({**named, **unit.options(), **measures})
    table = pd.DataFrame(rows)
    table = table.reindex(columns=list(dict.fromkeys([*table.columns, *ALWAYS])))
    for column in table.columns:
        if column not in TEXT and not column.startswith("grid"):
            table[column] = pd.to_numeric(table[column])
    return table


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def short(value: float) -> str:
    """Three digits and no more zeros than needed; an en dash where there is nothing."""
    if pd.isna(value):
        return "–"
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return f"{value:.1e}"
