"""P-values of main effects: how often they reject where there is nothing, and where there is something.

``make bench-p-values`` prints the table and writes benchmarks/results/p_values.csv. 300 rows; a line, a curve, two
columns of numbers, one of 5 levels and one of 60 that do nothing. Next to the line is the t-test of its slope in the
linear model with the true curve, for normal errors. 200 replications a cell; nominal 5 %.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import expit

from ahofm import AHOFMRegressor
from ahofm.columns.basis import Floats
from ahofm.explain import summary
from benchmarks.table import Row, finish, show

CELLS = [("gaussian", 0.0), ("gaussian", 0.8), ("poisson", 0.5), ("binomial", 0.0)]
LEVEL, ROWS = 0.05, 300


def replication(seed: int, family: str, correlation: float) -> Floats:
    """P-values of line, curve, two numbers and two columns of levels; then that of the t-test."""
    rng = np.random.default_rng(seed)
    common = np.sqrt(correlation) * rng.normal(size=(ROWS, 1))
    X = 2 * stats.norm.cdf(common + np.sqrt(1 - correlation) * rng.normal(size=(ROWS, 4))) - 1
    table = pd.DataFrame(X, columns=["line", "curve", "nothing", "neither"])
    table["few levels"] = [f"l{value}" for value in rng.integers(0, 5, ROWS)]
    table["many levels"] = [f"m{value}" for value in rng.integers(0, 60, ROWS)]
    curve = 0.4 * np.cos(3 * X[:, 1])
    eta = (0.24 if family == "gaussian" else 0.48) * X[:, 0] + curve
    if family == "gaussian":
        y = eta + 0.7 * rng.normal(size=ROWS)
    else:
        y = rng.poisson(np.exp(0.6 * eta)) if family == "poisson" else rng.binomial(1, expit(eta))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AHOFMRegressor(family=family, order=1, random_state=0, n_jobs=1).fit(table, y)
        found = summary(model).p_main
    design = np.column_stack([np.ones(ROWS), X[:, 0], curve, X[:, 2:]])
    coef, rest, _, _ = np.linalg.lstsq(design, y, rcond=None)
    error = np.sqrt(rest[0] / (ROWS - 5) * np.linalg.inv(design.T @ design)[1, 1])
    return np.append(np.asarray(found), 2 * stats.t.sf(abs(coef[1] / error), ROWS - 5))


def rows_of(p: Floats, family: str, correlation: float) -> list[Row]:
    """Shares of replications that reject."""
    share = 100 * (p < LEVEL).mean(axis=0)
    cell = f"{family}, correlation {correlation:g}"
    names = [
        "line",
        "curve",
        "no effect, a number",
        "no effect, another",
        "no effect, 5 levels",
        "no effect, 60 levels",
    ]
    rows = [Row(f"{cell}: {name}", float(value), "%") for name, value in zip(names, share, strict=False)]
    return rows + ([Row(f"{cell}: line by a t-test", float(share[-1]), "%")] if family == "gaussian" else [])


def main() -> int:
    """All cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="replications a cell; results are kept from 200 on")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    table: list[Row] = []
    for family, correlation in CELLS:
        with ProcessPoolExecutor(given.workers) as pool:
            run = partial(replication, family=family, correlation=correlation)
            p = np.array(list(pool.map(run, range(given.count))))
        table += (rows := rows_of(p, family, correlation))
        show(rows)
    return finish("p_values", table, written=given.count >= 200)


if __name__ == "__main__":
    sys.exit(main())
