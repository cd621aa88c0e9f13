"""How often the bands of explain.effect hold: main effects and pair surfaces, pointwise and everywhere at once.

``make bench-bands`` prints the table and writes benchmarks/results/bands.csv. The simulation is that of
benchmarks.coverage (normal errors, 1,000 rows), 100 replications. Points count by how much data is near them;
"everywhere" is the share of replications in which the band holds at every point that has data.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from ahofm import AHOFMRegressor
from ahofm.columns.basis import Floats
from ahofm.explain import Effect, effect
from benchmarks.coverage import Cell, draw_columns, draw_targets, mains, pairs
from benchmarks.table import Row, finish, show

CELL = Cell("gaussian", 1000, 0.0)


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
        for axis, density in enumerate(one.density):  # effects have mean zero over the rows, along every column
            true = true - np.average(true, axis=axis, weights=density, keepdims=True)
        weight = one.density[0] if len(columns) == 1 else np.multiply.outer(*one.density)
        found.append({"order": len(columns), **_held(one, true, weight)})
    return found


def _held(one: Effect, true: Floats, weight: Floats) -> dict[str, float]:
    if one.low is None or one.high is None or one.all_low is None or one.all_high is None:
        raise ValueError("the model has no band")
    inside = (one.low <= true) & (true <= one.high)
    everywhere = ((one.all_low <= true) & (true <= one.all_high))[weight > 0]
    return {"points": float((inside * weight).sum() / weight.sum()), "everywhere": float(everywhere.all())}


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="replications; results are kept from 100 on")
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
            for measure in ("points", "everywhere"):
                value = 100 * float(np.mean([record[measure] for record in own]))
                table.append(Row(f"correlation {correlation:g}, {name}, {measure}", value, "%"))
        show(table[-4:])
    return finish("bands", table, written=given.count >= 100)


if __name__ == "__main__":
    sys.exit(main())
