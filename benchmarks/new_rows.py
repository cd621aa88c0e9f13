"""How many new observations intervals hold, by quarter of the prediction, on data: nominal 95 %.

``make bench-new-rows DATA=folder`` with the folder of the data sets prints the table and writes
benchmarks/results/new_rows.csv. A fifth of the rows, at random, is not fitted: bike sharing as counts (quasi-Poisson),
concrete and airfoil with normal errors. Default settings, order 2.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from ahofm import AHOFMRegressor
from benchmarks.table import Row, finish, show

SETS = {
    "bike sharing": ("bike_sharing_hour.csv", "quasi_poisson"),
    "concrete": ("concrete.csv", "gaussian"),
    "airfoil": ("airfoil.csv", "gaussian"),
}


def measured(name: str, folder: Path) -> list[Row]:
    """Coverage of all test rows, and of each quarter of them from small to large predictions."""
    file, family = SETS[name]
    table = pd.read_csv(folder / file)
    order = np.random.default_rng(0).permutation(len(table))
    test, train = table.iloc[order[: len(table) // 5]], table.iloc[order[len(table) // 5 :]]
    target = table.columns[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AHOFMRegressor(order=2, family=family, random_state=0, n_jobs=2)
        model.fit(train.drop(columns=target), train[target])
    X, y = test.drop(columns=target), test[target].to_numpy()
    low, high = model.predict_interval(X, kind="new").T
    held = (low <= y) & (y <= high)
    quarters = np.array_split(np.argsort(model.predict(X), kind="stable"), 4)
    rows = [Row(f"{name}: all rows", 100 * float(held.mean()), "%")]
    return rows + [Row(f"{name}: quarter {k + 1}", 100 * float(held[at].mean()), "%") for k, at in enumerate(quarters)]


def main() -> int:
    """All data sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the data sets")
    given = parser.parse_args()
    table: list[Row] = []
    for name in SETS:
        table += (rows := measured(name, given.data))
        show(rows)
    return finish("new_rows", table, written=True)


if __name__ == "__main__":
    sys.exit(main())
