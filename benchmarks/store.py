"""Results as they come: one file per experiment, one line per measure of a unit of work, written the moment it exists.

A unit is named by its problem, method, setting and replication. What a file already holds is not run again, so that a
stopped run goes on where it was. What is run again all the same takes the place of what was there.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

from benchmarks import machine
from benchmarks.table import RESULTS

Measures: TypeAlias = Mapping[str, float | str]

FIELDS = ("problem", "method", "setting", "replication", "measure", "value")


@dataclass(frozen=True, order=True)
class Unit:
    """What is run as one: the name of a line of results."""

    problem: str
    method: str
    setting: str = ""
    replication: int = 0

    def __str__(self) -> str:
        """For people."""
        return ", ".join(part for part in (self.problem, self.method, self.setting, f"#{self.replication}") if part)

    def options(self) -> dict[str, str]:
        """The setting, ``"n=2000 rank=5"``, as a dict."""
        return dict(part.split("=", 1) for part in self.setting.split())


class Store:
    """The results of one experiment.

    Parameters
    ----------
    name : str
        Of the experiment, and of the file.
    folder : path
    packages : sequence of str
        Whose versions are kept beside the machine's description.
    """

    def __init__(self, name: str, folder: Path = RESULTS, packages: Sequence[str] = ()) -> None:
        self.path = folder / f"{name}.csv"
        self.packages = packages
        self._found: dict[Unit, dict[str, str]] = {}
        self._mend()
        if self.path.exists():
            with self.path.open(newline="") as file:
                for row in csv.DictReader(file):
                    self._found.setdefault(_unit(row), {})[row["measure"]] = row["value"]

    def __contains__(self, unit: Unit) -> bool:
        """Whether it was run, or found not worth running."""
        return unit in self._found

    def __iter__(self) -> Iterator[tuple[Unit, dict[str, str]]]:
        """Units with their measures, as text."""
        return iter(self._found.items())

    def get(self, unit: Unit) -> dict[str, str]:
        """Measures of a unit; none if it was not run."""
        return self._found.get(unit, {})

    def add(self, unit: Unit, measures: Measures) -> None:
        """Write all measures of a unit in one go, flushed to the disk."""
        text = io.StringIO()
        writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            writer.writeheader()
        if not (about := self.path.with_suffix(".json")).exists():
            facts = machine.describe(self.packages) | ({"R": r} if (r := machine.r_version()) else {})
            about.write_text(json.dumps(facts, indent=2) + "\n")
        if unit in self:
            self._remove(unit)
        kept = {name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in measures.items()}
        writer.writerows({**asdict(unit), "measure": name, "value": value} for name, value in kept.items())
        with self.path.open("a", newline="") as file:
            file.write(text.getvalue())
            file.flush()
            os.fsync(file.fileno())
        self._found[unit] = kept

    def _remove(self, unit: Unit) -> None:
        """All lines of a unit, in a new file that then takes the old one's place."""
        new = self.path.with_suffix(".new")
        with self.path.open(newline="") as file, new.open("w", newline="") as kept:
            writer = csv.DictWriter(kept, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(row for row in csv.DictReader(file) if _unit(row) != unit)
        os.replace(new, self.path)

    def _mend(self) -> None:
        """Cut off a last line that was not written to its end."""
        if self.path.exists() and not (text := self.path.read_bytes()).endswith(b"\n"):
            self.path.write_bytes(text[: text.rfind(b"\n") + 1])


def _unit(row: Mapping[str, str]) -> Unit:
    return Unit(row["problem"], row["method"], row["setting"], int(row["replication"]))
