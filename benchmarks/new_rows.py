"""How many new observations intervals hold, by quarter of the prediction, on data: nominal 95 %.

``make bench-new-rows DATA=folder`` with the folder of the data sets prints the table and writes
benchmarks/results/new_rows.csv. Default settings, splits 0 to 4 (0 and 1 from 10,000 rows on) of ten sets with normal
errors and of bike sharing as counts (quasi-Poisson); a tenth of the rows is not fitted. How intervals follow errors on
validation rows was chosen on splits 200 to 205. "width" is the mean width relative to intervals that rest on the
dispersion alone.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from ahofm import AHOFMRegressor
from benchmarks.data import DATA
from benchmarks.table import Row, finish, show

SETS = (
    "yacht",
    "diabetes",
    "forest fires",
    "energy",
    "concrete",
    "airfoil",
    "wine",
    "power plant",
    "naval",
    "bike sharing",
    "bike counts",
)
N_SPLITS, N_SPLITS_OF_MANY, MANY = 5, 2, 10_000
"""Splits of a set, and of one with so many rows: a quarter of its test rows are 300 or more in each."""


def measured(name: str, folder: Path) -> list[Row]:
    """Coverage of all test rows, and of each quarter of them from small to large predictions."""
    held: list[list[float]] = []
    widths = []
    for number in range(N_SPLITS if DATA[name].shape[0] < MANY else N_SPLITS_OF_MANY):
        train, test = DATA[name].split(number, folder)
        family = "quasi_poisson" if DATA[name].family == "poisson" else "gaussian"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = AHOFMRegressor(family=family, random_state=0, n_jobs=1).fit(train.X, train.y)
        low, high = model.predict_interval(test.X, kind="new").T
        inside = (low <= test.y) & (test.y <= high)
        quarters = np.array_split(np.argsort(model.predict(test.X), kind="stable"), 4)
        held.append([float(inside.mean()), *(float(inside[at].mean()) for at in quarters)])
        even = model.with_uncertainty()
        even.model_ = replace(even.model_, variance_model=None, error_quantiles=None)
        ends = even.predict_interval(test.X, kind="new")
        widths.append(float(np.mean(high - low) / np.mean(ends[:, 1] - ends[:, 0])))
    places = ("all rows", *(f"quarter {k}" for k in range(1, 5)))
    found = 100.0 * np.mean(held, axis=0)
    rows = [Row(f"{name}: {place}", float(value), "%") for place, value in zip(places, found, strict=True)]
    return [*rows, Row(f"{name}: width", float(np.mean(widths)), "")]


def main() -> int:
    """All data sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the data sets")
    parser.add_argument("--only", nargs="*", default=SETS, choices=SETS, help="these sets alone, which writes nothing")
    given = parser.parse_args()
    table: list[Row] = []
    for name in given.only:
        table += (rows := measured(name, given.data))
        show(rows)
    return finish("new_rows", table, written=tuple(given.only) == SETS)


if __name__ == "__main__":
    sys.exit(main())
