"""The default, no tuning per data set: RMSE over splits, at every order, with the error to reach.

``make bench-accuracy DATA=...`` prints the table and writes benchmarks/results/accuracy.csv (every split) and
accuracy.json (the machine). A split is ``train_test_split(test_size=0.1, random_state=s)``: s = 0..9 for the small
sets, 0..2 for the large ones. Every choice behind the default (recipes, tempering, ranks, sweeps) was made on splits
10-19 (Forest fires: also 20-39) and on simulated data.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from ahofm import AHOFMRegressor
from ahofm.columns.basis import Floats
from benchmarks.table import Row, keep, require, show


@dataclass(frozen=True)
class Problem:
    """A data set: its file, its target, how many splits, and the error that must be reached."""

    file: str
    target: str
    n_splits: int
    most: float
    drop: str = ""
    log: bool = False

    def read(self, folder: Path) -> tuple[pd.DataFrame, Floats]:
        """Columns and target."""
        table = pd.read_csv(folder / self.file)
        y = table[self.target].to_numpy(np.float64)
        X = table.drop(columns=[self.target, *([self.drop] if self.drop else [])])
        return X, np.log1p(y) if self.log else y


PROBLEMS = {
    "airfoil": Problem("airfoil.csv", "scaled_sound_pressure", 10, 1.35),
    "concrete": Problem("concrete.csv", "Concrete_compressive_strength", 10, 3.98),
    "diabetes": Problem("diabetes.csv", "target", 10, 54.3),
    "energy": Problem("energy.csv", "Y1", 10, 0.385, drop="Y2"),
    "forest fires": Problem("forest_fires.csv", "area", 10, 1.525, log=True),
    "naval": Problem("naval.csv.gz", "GT_compressor_decay", 10, 5e-5, drop="GT_turbine_decay"),
    "yacht": Problem("yacht.csv", "Residuary_resistance", 10, 0.50),
    "california": Problem("california_housing.csv.gz", "MedHouseVal", 3, 0.42),
    "power plant": Problem("power_plant.csv", "PE", 3, 2.6),
    "bike sharing": Problem("bike_sharing_hour.csv", "cnt", 3, 39.0),
    "wine": Problem("wine_quality.csv", "quality", 3, 0.66),
}


def run(name: str, folder: Path, first: int, n_splits: int | None) -> list[dict[str, object]]:
    """One record per split and order."""
    problem = PROBLEMS[name]
    X, y = problem.read(folder)
    records: list[dict[str, object]] = []
    for split in range(first, first + (n_splits or problem.n_splits)):
        train, test, y_train, y_test = train_test_split(X, y, test_size=0.1, random_state=split)
        begun = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # constant columns of naval
            model = AHOFMRegressor(random_state=0).fit(train, y_train)
        seconds = time.perf_counter() - begun
        for order in range(1, 4):
            error = float(np.sqrt(np.mean((model.model_.at_order(order).predict(test) - y_test) ** 2)))
            chosen = model.model_.choices[0].value
            records.append(
                {"set": name, "split": split, "order": order, "rmse": error, "seconds": seconds, "chosen": chosen}
            )
    return records


def table_of(name: str, records: list[dict[str, object]]) -> list[Row]:
    """Means over splits, with their bounds."""

    def mean(order: int) -> float:
        return float(np.mean([float(str(one["rmse"])) for one in records if one["order"] == order]))

    seconds = float(np.mean([float(str(one["seconds"])) for one in records]))
    return [
        Row(f"{name}, order 1", mean(1), "RMSE"),
        Row(f"{name}, order 2", mean(2), "RMSE"),
        require(f"{name}, order 3", mean(3), "RMSE", most=PROBLEMS[name].most),
        require(f"{name}, order 3 over order 1", mean(3) / mean(1), "x", most=1.01),
        Row(f"{name}, fit", seconds, "s"),
    ]


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--sets", nargs="*", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--first", type=int, default=0, help="random state of the first split")
    parser.add_argument("--splits", type=int, help="number of splits; results are kept without this option only")
    given = parser.parse_args()
    records: list[dict[str, object]] = []
    table: list[Row] = []
    for name in given.sets:
        found = run(name, given.data, given.first, given.splits)
        records += found
        table += (rows := table_of(name, found))
        show(rows)
    if given.splits is None and given.first == 0 and len(given.sets) == len(PROBLEMS):
        keep("accuracy", records)
    missed = [row.measure for row in table if row.met == "NO"]
    print(f"\nNot met: {'; '.join(missed)}" if missed else "\nAll met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
