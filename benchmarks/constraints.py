"""Monotone effects: falls of predictions among a million random rows, and errors beside fits without the constraint.

``make bench-constraints`` prints the table and writes benchmarks/results/constraints.csv.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np

from ahofm import AHOFMRegressor
from ahofm.fit import Candidate
from benchmarks.table import Row, finish, require, show

COLUMNS, ROWS = 8, 1_000_000
CONSTRAINED: dict[str | int, int] = {0: 1, 1: 1}
FITS: dict[str, dict[str, Any]] = {
    "default": {},
    "order 3": {"order": 3, "factor_prior": "spline"},
    "products": {"factor_prior": [Candidate("spline", 0.7, 0.7, product=True)]},
}


def truth(X: np.ndarray) -> np.ndarray:
    """Rises with the first two columns, whatever the others are."""
    pairs = X[:, 0] * X[:, 2] + 0.9 * X[:, 1] * X[:, 3] + 0.5 * X[:, 4] * X[:, 5]
    return np.asarray(2.0 * X[:, 0] + 1.2 * X[:, 1] + 0.4 * np.tanh(3.0 * X[:, 1]) + pairs + np.sin(3.0 * X[:, 4]))


def falls(model: AHOFMRegressor, rng: np.random.Generator, count: int) -> tuple[int, float]:
    """Pairs of random rows that differ in one constrained column and are the wrong way round, and by how much."""
    found, worst = 0, 0.0
    for column, sign in CONSTRAINED.items():
        j = int(column)
        low = rng.uniform(-1.3, 1.3, (count, COLUMNS))  # beyond the range of the training rows, too
        ends = rng.random((count, COLUMNS)) < 0.3
        low[ends] = rng.choice([-1.0, 1.0], int(ends.sum()))
        high = low.copy()
        high[:, j] = low[:, j] + rng.exponential(0.1, count)
        steps = sign * np.subtract(model.predict(high), model.predict(low))
        found += int((steps < -1e-12).sum())
        worst = min(worst, float(steps.min()))
    return found, worst


def compared(name: str, n: int, seeds: int) -> list[Row]:
    """Errors of the mean with and without the constraint, and falls of the former."""
    errors, seconds, wrong, worst, free_wrong = [], [], 0, 0.0, 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        X, fresh = rng.uniform(-1.0, 1.0, (n, COLUMNS)), rng.uniform(-1.0, 1.0, (5_000, COLUMNS))
        y = truth(X) + 0.5 * rng.normal(size=n)
        fits = []
        for cst in (None, CONSTRAINED):
            begun = time.process_time()
            fits.append(AHOFMRegressor(monotonic_cst=cst, random_state=0, n_jobs=1, **FITS[name]).fit(X, y))
            seconds.append(time.process_time() - begun)
        errors.append([float(np.sqrt(np.mean((own.predict(fresh) - truth(fresh)) ** 2))) for own in fits])
        found, low = falls(fits[1], rng, ROWS // (2 * seeds))
        wrong, worst = wrong + found, min(worst, low)
        free_wrong += falls(fits[0], rng, ROWS // (2 * seeds))[0]
    mean = np.mean(errors, axis=0)
    what = f"{name}, {n} rows"
    return [
        require(f"{what}: falls with the constraint", wrong, f"of {ROWS}", most=0),
        require(f"{what}: largest fall, rounding", -worst, "", most=1e-12),
        require(f"{what}: falls without it", free_wrong, f"of {ROWS}"),
        require(f"{what}: error without", float(mean[0]), ""),
        require(f"{what}: error with, relative", float(mean[1] / mean[0]), "ratio", most=1.03),
        require(f"{what}: processor time, relative", float(np.mean(seconds[1::2]) / np.mean(seconds[::2])), "ratio"),
    ]


def main() -> int:
    """All fits at three numbers of rows."""
    warnings.simplefilter("ignore")
    table = []
    for n, seeds in ((100, 5), (400, 4), (2_000, 3)):
        for name in FITS:
            table += (rows := compared(name, n, seeds))
            show(rows)
    return finish("constraints", table, written=True)


if __name__ == "__main__":
    sys.exit(main())
