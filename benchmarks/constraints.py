"""Monotone effects and excluded interactions, beside fits without them.

``make bench-constraints`` prints the table and writes benchmarks/results/constraints.csv: falls of predictions among a
million random rows and errors with monotone columns; errors of the other terms where pairs are excluded that are not in
the truth.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from ahofm import AHOFMRegressor
from ahofm.fit import Candidate
from benchmarks.table import Row, finish, keep, require, show

COLUMNS, ROWS, FREE_ROWS = 8, 1_000_000, 100_000
GRID = 9
CONSTRAINED: dict[str | int, int] = {0: 1, 1: 1}
EXCLUDED = {"one excluded pair": [(0, 1)], "four excluded pairs": [(0, 1), (2, 3), (0, 6), (1, 7)]}
"""Pairs that the truth has not. One leaves two groups of columns that may interact, four leave six."""
MONOTONE_SEEDS, EXCLUDED_SEEDS = {100: 5, 400: 3, 2_000: 1}, {200: 40, 1_000: 15}
"""Number of simulations by number of rows."""
EXCLUDED_SEED = 300
"""First seed of those with excluded pairs."""
TERMS = ((0,), (1,), (4,), (0, 2), (1, 3), (4, 5))
"""Those that the truth has, of one column and of two."""
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
        free_wrong += falls(fits[0], rng, FREE_ROWS // (2 * seeds))[0]
    mean = np.mean(errors, axis=0)
    what = f"{name}, {n} rows"
    return [
        require(f"{what}: falls with the constraint", wrong, f"of {ROWS}", most=0),
        require(f"{what}: largest fall, rounding", -worst, "", most=1e-12),
        require(f"{what}: falls without it", free_wrong, f"of {FREE_ROWS}"),
        require(f"{what}: error without", float(mean[0]), ""),
        require(f"{what}: error with, relative", float(mean[1] / mean[0]), "ratio", most=1.03),
        require(f"{what}: processor time, relative", float(np.mean(seconds[1::2]) / np.mean(seconds[::2])), "ratio"),
    ]


def term(predict: Callable[[np.ndarray], Any], columns: tuple[int, ...], others: np.ndarray) -> np.ndarray:
    """A term of the functional analysis of variance at a grid: means over rows, without those of fewer columns."""
    grid = np.linspace(-0.95, 0.95, GRID)
    at = np.stack(np.meshgrid(*(grid for _ in columns), indexing="ij"), axis=-1).reshape(-1, len(columns))
    rows = np.repeat(others[np.newaxis], len(at), axis=0)
    rows[:, :, list(columns)] = at[:, np.newaxis]
    means = np.asarray(predict(rows.reshape(-1, COLUMNS))).reshape(len(at), len(others)).mean(axis=1)
    table = means.reshape((GRID,) * len(columns))
    for axis in range(len(columns)):
        table = table - table.mean(axis=axis, keepdims=True)
    return np.asarray(table)


def without_excluded(n: int, seeds: int) -> list[Row]:
    """Errors of all other terms where pairs that the truth has not are excluded, relative to those of the free fit.

    Ratios are geometric means over simulations; two standard errors of them count as noise.
    """
    errors = []
    for seed in range(seeds):
        rng = np.random.default_rng(EXCLUDED_SEED + seed)
        X, fresh = rng.uniform(-1.0, 1.0, (n, COLUMNS)), rng.uniform(-1.0, 1.0, (5_000, COLUMNS))
        y, others = truth(X) + 0.5 * rng.normal(size=n), rng.uniform(-1.0, 1.0, (100, COLUMNS))
        found = []
        for exclude in (None, *EXCLUDED.values()):
            model = AHOFMRegressor(order=2, exclude=exclude, random_state=0, n_jobs=1).fit(X, y)
            wrong = [np.mean((term(model.predict, own, others) - term(truth, own, others)) ** 2) for own in TERMS]
            found.append([np.mean((model.predict(fresh) - truth(fresh)) ** 2), sum(wrong[:3]), sum(wrong[3:])])
        errors.append(found)
    logs = 0.5 * np.log(np.array(errors))  # (seeds, fits, kinds)
    ratios = logs[:, 1:] - logs[:, :1]
    mean, error = np.exp(ratios.mean(axis=0)), ratios.std(axis=0, ddof=1) / np.sqrt(seeds)
    return [
        require(
            f"{name}, {n} rows: {kind}, relative",
            float(mean[k, j]),
            "ratio",
            most=round(1.0 + 2.0 * float(error[k, j]), 3),
        )
        for k, name in enumerate(EXCLUDED)
        for j, kind in enumerate(("error of the mean", "errors of main effects", "errors of pairs"))
    ]


def main() -> int:
    """Monotone fits at three numbers of rows, and fits with excluded pairs at two; what is known is kept at once."""
    warnings.simplefilter("ignore")
    table: list[Row] = []
    parts: list[tuple[Callable[[int, int], list[Row]], int, int]] = []
    parts += [(partial(compared, name), n, seeds) for n, seeds in MONOTONE_SEEDS.items() for name in FITS]
    parts += [(without_excluded, n, seeds) for n, seeds in EXCLUDED_SEEDS.items()]
    for measured, n, seeds in sorted(parts, key=lambda part: part[1]):
        table += (rows := measured(n, seeds))
        show(rows)
        keep("constraints", [asdict(row) for row in table])
    return finish("constraints", table, written=True)


if __name__ == "__main__":
    sys.exit(main())
