"""A benchmark's result: a table of measures with bounds, printed, and kept as data beside the machine it is from."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import machine

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, and what it must be (empty: for information)."""

    measure: str
    value: float
    unit: str
    required: str = ""
    met: str = ""


def require(measure: str, value: float, unit: str, least: float | None = None, most: float | None = None) -> Row:
    """A line with a bound."""
    if least is not None:
        return Row(measure, value, unit, f">= {least:g}", "yes" if value >= least else "NO")
    if most is not None:
        return Row(measure, value, unit, f"<= {most:g}", "yes" if value <= most else "NO")
    return Row(measure, value, unit)


def show(table: Iterable[Row]) -> None:
    """Print lines."""
    for row in table:
        print(f"{row.measure:<64} {row.value:>10.4g} {row.unit:<9} {row.required:<9} {row.met}", flush=True)


def keep(name: str, records: Sequence[Mapping[str, object]], packages: Sequence[str] = ()) -> None:
    """Write results/<name>.csv, and the machine and versions to results/<name>.json."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(records[0]))
        writer.writeheader()
        writer.writerows(
            {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in record.items()}
            for record in records
        )
    (RESULTS / f"{name}.json").write_text(json.dumps(machine.describe(packages), indent=2) + "\n")
    print(f"\nWritten to {RESULTS.resolve()}")


def finish(name: str, table: Sequence[Row], packages: Sequence[str] = (), *, written: bool) -> int:
    """Keep a table of rows and name the bounds that were missed; the exit code."""
    if written:
        keep(name, [asdict(row) for row in table], packages)
    missed = [row.measure for row in table if row.met == "NO"]
    if missed:
        print(f"\nNot met: {'; '.join(missed)}")
    return 1 if missed else 0
