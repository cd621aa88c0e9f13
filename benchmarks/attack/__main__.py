"""Runs the parts and writes what came of them: ``python -m benchmarks.attack [--part models] [--cases 100]``."""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks import machine
from benchmarks.attack import files, tables
from benchmarks.attack.outcome import OUTCOMES, Counts
from benchmarks.table import RESULTS

PARTS: dict[str, tuple[Callable[[int, float], Counts], int]] = {
    "models": (files.models, 10_000),
    "stores": (files.stores, 2_000),
    "checkpoints": (files.checkpoints, 1_000),
    "tables": (partial(tables.part, "tables"), 2_000),
    "nasty tables": (partial(tables.part, "nasty tables"), 3_000),
}
"""A function of cases and seconds, and how many cases it has unless told otherwise."""

SECONDS = 1_200.0
"""Of a part, at most; one that was stopped has fewer cases."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run parts, print and write their counts; 1 when something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attack", description=__doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="one part only; may be repeated")
    parser.add_argument("--cases", type=int, help="of each part, instead of thousands; nothing is written")
    parser.add_argument("--case", type=int, help="run one case of one part here, and say what comes of it")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of a part, at most")
    given = parser.parse_args(arguments)
    if given.case is not None:
        if not given.part or len(given.part) != 1:
            parser.error("--case needs one --part")
        with tempfile.TemporaryDirectory() as place:
            (name,) = given.part
            attempt = tables.MAKERS[name]() if name in tables.MAKERS else files.attempt_of(name, Path(place))
            print(*attempt(given.case), sep=": ")
        return 0
    found, commit = [], machine.commit()  # of the code that runs, whatever is checked out when it ends
    for name in given.part or PARTS:
        run, cases = PARTS[name]
        found.append(run(given.cases or cases, given.seconds))
        print(_line(found[-1]), flush=True)
        for line in found[-1].bad:
            print(f"  {line}")
    if given.cases is None:
        write(found, RESULTS / "attack.csv", commit)
    return 0 if all(counts.passed for counts in found) else 1


def _line(counts: Counts) -> str:
    parts = ", ".join(f"{counts.outcomes[outcome]:,} {outcome}" for outcome in OUTCOMES)
    return f"{counts.part}: {counts.cases:,} cases in {counts.seconds:.0f} s; {parts}"


def write(found: Sequence[Counts], path: Path, commit: str) -> None:
    """One line a part; lines of parts that were not run stay."""
    names = ["part", "cases", *OUTCOMES, "seconds", "commit"]
    lines: dict[str, dict[str, object]] = {}
    if path.is_file():
        with path.open(newline="") as file:
            lines = {line["part"]: dict(line) for line in csv.DictReader(file)}
    for counts in found:
        facts = {"part": counts.part, "cases": counts.cases, **counts.outcomes}
        lines[counts.part] = {**facts, "seconds": f"{counts.seconds:.0f}", "commit": commit}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines[name] for name in lines)


if __name__ == "__main__":
    sys.exit(main())
