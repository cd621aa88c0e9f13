"""How many new observations intervals hold, by quarter of the prediction, on data: nominal 95 %.

``make bench-new-rows DATA=folder`` with the folder of the data sets prints the table and writes
benchmarks/results/new_rows.csv. A fifth of the rows, at random, is not fitted: bike sharing as counts (quasi-Poisson),
concrete and airfoil with normal errors; with pairs alone (order 2), and with default settings, which may have product
factors. Means over several splits, with the standard error of the mean: a single split of concrete has 206 test rows,
and a standard error of 1.5 points.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from ahofm import AHOFMRegressor
from ahofm.columns.basis import Floats
from benchmarks.table import Row, finish, show

SETS = {
    "bike sharing": ("bike_sharing_hour.csv", "quasi_poisson", 2),
    "concrete": ("concrete.csv", "gaussian", 10),
    "airfoil": ("airfoil.csv", "gaussian", 10),
}
"""File, family, and number of splits."""

ORDERS = {"order 2": 2, "default": None}


def held(name: str, order: int | None, split: int, folder: Path) -> Floats:
    """Percentages (5,) of the test rows of one split: of all, and of each quarter, from small to large predictions."""
    file, family, _ = SETS[name]
    table = pd.read_csv(folder / file)
    rows = np.random.default_rng(split).permutation(len(table))
    test, train = table.iloc[rows[: len(table) // 5]], table.iloc[rows[len(table) // 5 :]]
    target = table.columns[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AHOFMRegressor(order=order, family=family, random_state=0, n_jobs=2)
        model.fit(train.drop(columns=target), train[target])
    X, y = test.drop(columns=target), test[target].to_numpy()
    low, high = model.predict_interval(X, kind="new").T
    inside = (low <= y) & (y <= high)
    quarters = np.array_split(np.argsort(model.predict(X), kind="stable"), 4)
    return 100 * np.array([inside.mean(), *(inside[at].mean() for at in quarters)])


def measured(name: str, orders: str, folder: Path) -> list[Row]:
    """Means over splits, and the standard error of the first of them."""
    found = np.array([held(name, ORDERS[orders], split, folder) for split in range(SETS[name][2])])
    names = ("all rows", *(f"quarter {k}" for k in range(1, 5)))
    rows = [Row(f"{name}, {orders}: {part}", value, "%") for part, value in zip(names, found.mean(axis=0), strict=True)]
    error = float(found[:, 0].std(ddof=1) / np.sqrt(len(found)))
    return [rows[0], Row(f"{name}, {orders}: all rows, standard error", error, "%"), *rows[1:]]


def main() -> int:
    """All data sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the data sets")
    given = parser.parse_args()
    table: list[Row] = []
    for name, orders in product(SETS, ORDERS):
        table += (rows := measured(name, orders, given.data))
        show(rows)
    return finish("new_rows", table, written=True)


if __name__ == "__main__":
    sys.exit(main())
