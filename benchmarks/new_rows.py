"""How many new observations intervals hold, by quarter of the prediction, on data: nominal 95 %.

``make bench-new-rows DATA=folder`` with the folder of the data sets prints the table and writes
benchmarks/results/new_rows.csv. Default settings, splits 0 to 39 (0 to 14 from 400 rows on, 0 to 4 from 2,000, 0 and 1
from 10,000 on) of ten sets with normal errors and of bike sharing as counts (quasi-Poisson); a tenth of the rows is not
fitted. How intervals follow errors on validation rows was chosen on splits 200 to 205 and 400 to 479. "width" is the
mean width relative to intervals that rest on the dispersion alone.

A share is met if it is within two standard errors of 93 to 97 %. The standard error is that of as many independent rows
at the nearer bound as there are different rows: one that several splits have in common counts once.
``--only`` measures some of the sets again and keeps the others' results.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd

from ahofm import AHOFMRegressor
from benchmarks.data import DATA
from benchmarks.table import RESULTS, Row, finish, keep, show

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
N_SPLITS = {0: 40, 400: 15, 2_000: 5, 10_000: 2}
"""Splits of a set, by the least number of its rows."""
LOW, HIGH, STANDARD_ERRORS = 93.0, 97.0, 2.0
"""Shares that are wanted, in percent, and how many standard errors beside them are noise."""


def judged(measure: str, share: float, count: int) -> Row:
    """A share of so many different rows, in percent, with the shares that are wanted or within noise of them."""
    reach = [STANDARD_ERRORS * float(np.sqrt(bound * (100.0 - bound) / count)) for bound in (LOW, HIGH)]
    low, high = LOW - reach[0], min(HIGH + reach[1], 100.0)
    return Row(measure, share, "%", f"{low:.1f} to {high:.1f}", "yes" if low <= share <= high else "NO")


def measured(name: str, folder: Path) -> list[Row]:
    """Coverage of all test rows, and of each quarter of them from small to large predictions."""
    held: list[list[np.ndarray]] = []
    rows_held: list[list[np.ndarray]] = []
    widths = []
    for number in range(max((least, count) for least, count in N_SPLITS.items() if DATA[name].shape[0] >= least)[1]):
        train, test = DATA[name].split(number, folder)
        family = "quasi_poisson" if DATA[name].family == "poisson" else "gaussian"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = AHOFMRegressor(family=family, random_state=0, n_jobs=1).fit(train.X, train.y)
        low, high = model.predict_interval(test.X, kind="new").T
        inside = (low <= test.y) & (test.y <= high)
        quarters = np.array_split(np.argsort(model.predict(test.X), kind="stable"), 4)
        held.append([inside, *(inside[at] for at in quarters)])
        numbers = test.X.index.to_numpy()
        rows_held.append([numbers, *(numbers[at] for at in quarters)])
        even = model.with_uncertainty()
        even.model_ = replace(even.model_, variance_model=None, error_quantiles=None)
        ends = even.predict_interval(test.X, kind="new")
        widths.append(float(np.mean(high - low) / np.mean(ends[:, 1] - ends[:, 0])))
    places = ("all rows", *(f"quarter {k}" for k in range(1, 5)))
    found, different = (
        [np.concatenate(parts) for parts in zip(*by_split, strict=True)] for by_split in (held, rows_held)
    )
    rows = [
        judged(f"{name}: {place}", 100.0 * float(own.mean()), len(np.unique(numbers)))
        for place, own, numbers in zip(places, found, different, strict=True)
    ]
    return [*rows, Row(f"{name}: width", float(np.mean(widths)), "")]


def known() -> dict[str, list[Row]]:
    """Rows of the results by set."""
    file, found = RESULTS / "new_rows.csv", {name: list[Row]() for name in SETS}
    for row in pd.read_csv(file, keep_default_na=False).itertuples() if file.exists() else ():
        found[row.measure.split(":")[0]].append(Row(row.measure, float(row.value), row.unit, row.required, row.met))
    return found


def main() -> int:
    """All data sets, or some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the data sets")
    parser.add_argument("--only", nargs="*", default=SETS, choices=SETS, help="these sets alone, beside known results")
    given = parser.parse_args()
    table = known()
    for name in given.only:
        table[name] = measured(name, given.data)
        show(table[name])
        keep("new_rows", [asdict(row) for rows in table.values() for row in rows])
    return finish("new_rows", [row for rows in table.values() for row in rows], written=True)


if __name__ == "__main__":
    sys.exit(main())
