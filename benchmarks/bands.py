"""How often the bands of explain.effect hold: main effects and pair surfaces, pointwise and everywhere at once.

``make bench-bands`` prints the table and writes benchmarks/results/bands.csv. The simulation is that of
benchmarks.coverage (normal errors, 1,000 rows), 200 replications; and main effects alone, of three families, also with
a column that repeats another one, and with curves, a line and columns without an effect. Points count by how much data
is near them; "everywhere" is the share of replications in which the band holds at every point that has data; "at the
border" is the share of points whose estimate is within 5 % of the band's width from its border.

Effects have mean zero over the rows along every column. What a pair has on average over the rows' values of one column
is therefore part of the main effect of the other.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product

import numpy as np

from ahofm import AHOFMRegressor
from ahofm.columns.basis import Floats
from ahofm.explain import Effect, effect
from benchmarks.coverage import Cell, draw_columns, draw_targets, mains, pairs
from benchmarks.table import Row, finish, show

CELL = Cell("gaussian", 1000, 0.0)

_BORDER = 0.05

_NAMES = {design: f"correlation {design}" for design in ("0", "0.5", "0.9")} | {"repeated": "a repeated column"}


def truths() -> dict[tuple[int, ...], Callable[..., Floats]]:
    """Functions of the columns on grids, of mean zero over uniform columns."""
    return {
        (0,): lambda x: np.cos(3 * x) - np.sin(3) / 3,
        (1,): lambda x: np.exp(x) - np.sinh(1),
        (2,): lambda x: 0.7 * x,
        (2, 3): lambda x, y: 1.5 * x * np.sin(2 * y),
        (0, 4): lambda x, y: 2.4 * (x**2 - 1 / 3) * y,
    }


def replication(seed: int, correlation: float) -> list[dict[str, float]]:
    """One record per effect."""
    cell = Cell(CELL.family, CELL.n, correlation)
    rng = np.random.default_rng(seed)
    X = draw_columns(cell, cell.n, rng)
    eta = np.sum([*mains(X), *pairs(X)], axis=0)
    model = AHOFMRegressor(order=2, random_state=0, n_jobs=1).fit(X, draw_targets(cell, eta, rng))
    found = []
    for columns, function in truths().items():
        if len(columns) > model.model_.order:
            continue
        one = effect(model, columns)
        true = function(*np.meshgrid(*one.grid, indexing="ij"))
        if len(columns) == 1:
            true = true + _of_pairs(columns[0], one.grid[0], X)
        for axis, density in enumerate(one.density):  # effects have mean zero over the rows, along every column
            true = true - np.average(true, axis=axis, weights=density, keepdims=True)
        weight = one.density[0] if len(columns) == 1 else np.multiply.outer(*one.density)
        found.append({"order": len(columns), **_held(one, true, weight)})
    return found


def _of_pairs(j: int, x: Floats, X: Floats) -> Floats:
    """What the pairs of column j are at x (m,), on average over the rows' values of the other column."""
    found = np.zeros_like(x)
    for columns, function in truths().items():
        if len(columns) == 2 and j in columns:
            first, second = (x[:, np.newaxis] if j == column else X[:, column] for column in columns)
            found += function(first, second).mean(axis=1)
    return found


def _held(one: Effect, true: Floats, weight: Floats) -> dict[str, float]:
    if one.low is None or one.high is None or one.all_low is None or one.all_high is None:
        raise ValueError("the model has no band")
    inside = (one.low <= true) & (true <= one.high)
    everywhere = ((one.all_low <= true) & (true <= one.all_high))[weight > 0]
    margin = np.minimum(one.value - one.low, one.high - one.value) / (one.high - one.low)
    return {
        "points": float((inside * weight).sum() / weight.sum()),
        "everywhere": float(everywhere.all()),
        "at the border": float(np.mean(margin < _BORDER)),
    }


def additive(seed: int, family: str, design: str) -> list[dict[str, float]]:
    """One record per main effect: two curves, a line, and three columns that do nothing."""
    rng = np.random.default_rng(seed)
    cell = Cell(family, 1000, 0.0 if design == "repeated" else float(design))
    X = draw_columns(cell, cell.n, rng)
    if design == "repeated":
        X[:, 3] = X[:, 0]
    scale = 0.6 if family == "poisson" else 1.0
    eta = scale * np.sum(mains(X), axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AHOFMRegressor(family=family, order=1, random_state=0, n_jobs=1).fit(X, draw_targets(cell, eta, rng))
    found = []
    for j in range(6):
        one = effect(model, j)
        function = truths().get((j,))
        true = np.zeros_like(one.value) if function is None else scale * function(one.grid[0])
        true = true - np.average(true, weights=one.density[0])
        found.append({"effect": float(function is not None), **_held(one, true, one.density[0])})
    return found


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="replications; results are kept from 200 on")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    table = []
    for correlation in (0.0, 0.5):
        with ProcessPoolExecutor(given.workers) as pool:
            records = [
                one
                for part in pool.map(partial(replication, correlation=correlation), range(given.count))
                for one in part
            ]
        for order, name in ((1, "main effects"), (2, "pair surfaces")):
            own = [record for record in records if record["order"] == order]
            for measure in ("points", "everywhere", "at the border"):
                value = 100 * float(np.mean([record[measure] for record in own]))
                table.append(Row(f"correlation {correlation:g}, {name}, {measure}", value, "%"))
        show(table[-6:])
    for design, family in product(("0", "0.5", "0.9", "repeated"), ("gaussian", "binomial", "poisson")):
        with ProcessPoolExecutor(given.workers) as pool:
            run = partial(additive, family=family, design=design)
            records = [one for part in pool.map(run, range(1_000, 1_000 + given.count)) for one in part]
        for name, own in (
            ("effects", [record for record in records if record["effect"]]),
            ("no effect", [record for record in records if not record["effect"]]),
        ):
            for measure in ("points", "at the border"):
                value = 100 * float(np.mean([record[measure] for record in own]))
                table.append(Row(f"additive {family}, {_NAMES[design]}, {name}, {measure}", value, "%"))
        show(table[-4:])
    return finish("bands", table, written=given.count >= 200)


if __name__ == "__main__":
    sys.exit(main())
