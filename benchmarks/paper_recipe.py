"""The paper's recipe on four of its data sets: RMSE over ten splits, beside the paper's row.

``make bench-paper-recipe DATA=...`` prints the table and writes benchmarks/results/paper_recipe.csv (every split) and
paper_recipe.json (the machine). The recipe: B-splines of 20 functions, df = 15 where a column has functions enough and
three quarters of those it has otherwise, Adam, early stopping on 10 % of the training rows with a patience of 50, rank
1, 5, 10 or 15. The paper reports the rank with the best test error. Here the rank is chosen by the loss on the rows set
aside for early stopping, never by the test rows; learning rate and epsilon were chosen on other splits (random states
100-102), the ridge on simulated data. The paper's table is headed MSE, but its numbers are RMSEs: a linear model has an
RMSE of 10.5 on Concrete.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from ahofm import AHOFMRegressor, Linear, Spline
from ahofm.columns import Encoder
from ahofm.columns.basis import Floats
from ahofm.model import eigenvalues
from benchmarks.data import DATA
from benchmarks.printed import PRINTED
from benchmarks.table import keep

RANKS = (1, 5, 10, 15)
SETS = ("airfoil", "concrete", "energy", "yacht")


def reachable_df(X: pd.DataFrame, kind: Spline | Linear, df: float = 15.0) -> dict[str, float] | None:
    """15 where a column has functions enough, else three quarters of its own; lines have their default."""
    if isinstance(kind, Linear):
        return None
    found = {}
    for book in Encoder.learn(X, kind).codebooks:
        if book.size == 0:  # a constant column has no functions, and no df
            continue
        s = eigenvalues(book)
        free = np.count_nonzero(s == 0.0)
        found[book.name] = min(df, free + 0.75 * (len(s) - free))
    return found


def fit(
    X: pd.DataFrame, y: Floats, order: int, kind: Spline | Linear, seed: int, n_jobs: int | None = None
) -> tuple[AHOFMRegressor, float]:
    """The fit with the best loss on its own validation rows, and the seconds of all."""
    begun = time.perf_counter()
    best, best_loss = None, np.inf
    for rank in RANKS:
        model = AHOFMRegressor(
            order=order,
            rank=rank,
            columns=kind,
            df=reachable_df(X, kind),
            solver="adam",
            max_iter=2000,
            patience=50,
            n_jobs=n_jobs,
            random_state=seed,
        ).fit(X, y)
        loss = min(record.validation for record in model.trace_.records if record.validation is not None)
        if loss < best_loss:
            best, best_loss = model, loss
    assert best is not None
    return best, time.perf_counter() - begun


def measure(data: Path, splits: int) -> list[dict[str, object]]:
    """Every data set, method and split."""
    records: list[dict[str, object]] = []
    methods: dict[str, tuple[int, Spline | Linear]] = {
        "FM": (2, Linear()),
        "HOFM(3)": (3, Linear()),
        "AFM": (2, Spline(n_basis=20)),
        "AHOFM(3)": (3, Spline(n_basis=20)),
    }
    for name in SETS:
        for method, (order, kind) in methods.items():
            errors = []
            for split in range(splits):
                train, test = DATA[name].split(split, data)
                model, seconds = fit(train.X, train.y, order, kind, split)
                errors.append(float(np.sqrt(np.mean((model.predict(test.X) - test.y) ** 2))))
                chosen = {"rank": model.rank, "epochs": model.n_iter_, "seconds": seconds}
                records.append({"data": name, "method": method, "split": split, "rmse": errors[-1], **chosen})
            paper = PRINTED[name][method][0]
            print(f"{name:<10} {method:<9} {np.mean(errors):7.3f} ({np.std(errors):.3f})   paper {paper}", flush=True)
    return records


def main() -> int:
    """Measure, show, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with airfoil.csv, concrete.csv, ...")
    parser.add_argument("--splits", type=int, default=10)
    arguments = parser.parse_args()
    records = measure(arguments.data, arguments.splits)
    if arguments.splits >= 10:
        keep("paper_recipe", records, ["pandas"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
