"""Defaults on many data sets: ``make bench-broad DATA=folder``.

A data set is a CSV file in the folder, or in a folder ``more`` in it: a header, the target last. Every method has its
defaults, one thread and a process of its own; results are written at once to benchmarks/results/broad.csv, and a run
that is stopped goes on where it was. Splits are ``train_test_split(test_size=0.2, random_state=s)`` with s from 100 on,
stratified for classes. Errors are RMSE for numbers and log-loss for classes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from benchmarks.data import Family, Rows, is_text
from benchmarks.evidence import conduct
from benchmarks.experiments.ablation import errors
from benchmarks.experiments.plan import Experiment, Planned
from benchmarks.measure import CAP
from benchmarks.pages import broad as pages
from benchmarks.pages.read import units
from benchmarks.pages.write import DOCS
from benchmarks.peers.methods import BROAD
from benchmarks.peers.task import CLASSES, Task
from benchmarks.store import Measures, Unit
from benchmarks.table import RESULTS

PACKAGES = ("catboost", "interpret-core", "lightgbm", "pygam", "tensorsl", "xgboost")

FIRST_SPLIT, TEST_SIZE = 100, 0.2

MOST_CLASSES = 20
"""Whole numbers with so many distinct values at most are taken for classes."""

NUMBERS = ("maternal_health_risk", "wine_quality", "servo")
"""Files whose targets are numbers all the same."""

OTHER_TARGETS = {"energy": ["Y2"], "naval": ["GT_turbine_decay"]}
"""Further targets of a file, which are left out."""

LARGE = {"freMTPL2freq"}
"""Files with exposures, which the paper's experiments have (``make paper``)."""

NOT_FOR: dict[str, tuple[Family, ...]] = {"TSL": CLASSES, "pyGAM": ("multinomial",)}
"""Families that a peer does not have."""

SLOW_FROM = {"EBM": 5_000, "pyGAM": 5_000}
"""Rows from which on a peer is left out: a fit of it takes several minutes."""


@dataclass(frozen=True)
class Problem:
    """A file, and what its target is."""

    path: Path
    family: Family
    n_rows: int

    @property
    def name(self) -> str:
        """Of the file."""
        return name_of(self.path)

    def read(self) -> Rows:
        """All rows; classes are numbered."""
        table = pd.read_csv(self.path)
        target = target_of(self.path, table)
        y = table[target]
        numbers = np.unique(y, return_inverse=True)[1] if self.family in CLASSES else y
        left_out = [target, *OTHER_TARGETS.get(self.name, [])]
        return Rows(table.drop(columns=left_out), np.asarray(numbers, dtype=np.float64))

    def split(self, number: int) -> tuple[Rows, Rows]:
        """Four fifths of the rows for training, and the others."""
        rows = self.read()
        strata = rows.y if self.family in CLASSES else None
        seed = FIRST_SPLIT + number
        train, test = train_test_split(np.arange(len(rows.y)), test_size=TEST_SIZE, random_state=seed, stratify=strata)
        return rows.take(train), rows.take(test)


def name_of(path: Path) -> str:
    """Of a data set."""
    return path.name.removesuffix(".gz").removesuffix(".csv")


def target_of(path: Path, table: pd.DataFrame) -> str:
    """The last column that is not a further target."""
    others = OTHER_TARGETS.get(name_of(path), [])
    return [str(name) for name in table.columns if name not in others][-1]


def problems(folder: Path) -> list[Problem]:
    """Of all files, those of few rows first."""
    found = []
    for path in sorted([*folder.glob("*.csv*"), *(folder / "more").glob("*.csv*")]):
        if name_of(path) in LARGE or name_of(path) == "peers":
            continue
        table = pd.read_csv(path)
        found.append(Problem(path, family_of(path, table[target_of(path, table)]), len(table)))
    if not found:
        raise SystemExit(f"no CSV files in {folder}; name the folder of data sets: make bench-broad DATA=folder")
    return sorted(found, key=lambda problem: (problem.n_rows, problem.name))


def family_of(path: Path, y: pd.Series) -> Family:
    """Numbers, two classes or several."""
    distinct = y.nunique()
    whole = is_text(y) or bool((y == y.round()).all())
    if not whole or name_of(path) in NUMBERS or (distinct > MOST_CLASSES and not is_text(y)):
        return "gaussian"
    return "binomial" if distinct == 2 else "multinomial"


def plan(found: Sequence[Problem], methods: Sequence[str], n_splits: int) -> Iterator[Planned]:
    """Every method, split by split; one split over the cap is enough."""
    for number in range(n_splits):
        for method in methods:
            for problem in found:
                few = problem.n_rows < SLOW_FROM.get(method, problem.n_rows + 1)
                if few and problem.family not in NOT_FOR.get(method, ()):
                    unit = Unit(problem.name, method, f"family={problem.family}", number)
                    first = Unit(problem.name, method, unit.setting, 0) if number else None
                    yield Planned(unit, first, growth=0.0)


def run(by_name: dict[str, Problem], unit: Unit, _: Path | None) -> Measures:
    """Errors on the test rows, and the cost."""
    problem = by_name[unit.problem]
    train, test = problem.split(unit.replication)
    outcome = BROAD[unit.method](Task(train, test.X, problem.family, 0))
    return {**errors(problem.family, test, outcome.mean), **outcome.cost}


def main() -> int:
    """Run what was asked for, and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--methods", nargs="*", default=list(BROAD), choices=list(BROAD))
    parser.add_argument("--sets", nargs="*", help="names of files without their ending; all by default")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--cap", type=float, default=CAP, help="seconds of processor time that a fit may take")
    parser.add_argument("--again", action="store_true", help="run again what was measured at another commit")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    given = parser.parse_args()
    found = [one for one in problems(given.data) if given.sets is None or one.name in given.sets]
    by_name = {problem.name: problem for problem in found}
    planned = list(plan(found, given.methods, given.splits))
    experiment = Experiment("broad", lambda _: planned, partial(run, by_name), PACKAGES)
    conduct(experiment, given.out, quick=False, cap=given.cap, again=given.again)
    table = units("broad", given.out)
    print(pages.comparison(table))
    pages.critical_differences(table, (DOCS / "figures" if given.out == RESULTS else given.out) / "broad.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
