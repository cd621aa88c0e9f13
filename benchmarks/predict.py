"""How many rows a second are predicted, against LightGBM and an EBM at their defaults, in one run.

``make bench-predict`` prints the table and writes benchmarks/results/predict.csv and predict.json (the machine). Every
requirement is a ratio within the run. All get the same matrix and the same number of threads, and check it themselves.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from interpret.glassbox import ExplainableBoostingRegressor
from lightgbm import LGBMRegressor
from numpy.typing import NDArray

from ahofm import AHOFMRegressor, RandomWalk, Spline
from ahofm.columns import ColumnKind
from benchmarks.table import Row, finish, require, show
from benchmarks.timing import race

COLUMNS, THREADS = 10, 2
RANK = 16  # of order 2, and of order 3
PEERS = ("LightGBM", "EBM")

Floats = NDArray[np.float64]
Predict = Callable[[Floats], Any]


def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Columns, and a target with main effects, pairs and noise."""
    X = rng.normal(size=(n, COLUMNS))
    signal = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) * X[:, 4] + 0.5 * X[:, 5:].sum(axis=1)
    return X, signal + 0.5 * rng.normal(size=n)


def candidates(quick: bool) -> dict[str, Predict]:
    """Fitted models' predict, by name."""
    rng = np.random.default_rng(0)
    X, y = draw(rng, 5_000 if quick else 100_000)
    few = 1_000 if quick else 20_000

    def ours(kind: ColumnKind) -> AHOFMRegressor:  # a few steps: how good it is has no bearing on how fast it predicts
        model = AHOFMRegressor(order=3, rank=RANK, columns=kind, smoothing="df", n_jobs=THREADS, random_state=0)
        model.set_params(callbacks=[lambda record: record.iteration == 10])
        return model.fit(X, y)

    lightgbm = LGBMRegressor(n_jobs=THREADS, verbose=-1).fit(X, y)
    ebm = ExplainableBoostingRegressor(n_jobs=THREADS, **({"max_rounds": 20} if quick else {})).fit(X[:few], y[:few])
    return {
        "ahofm, Spline()": ours(Spline()).predict,
        "ahofm, Walk()": ours(RandomWalk()).predict,
        "LightGBM": lightgbm.predict,
        "EBM": ebm.predict,
    }


def measure(n: int, seconds: float, quick: bool) -> list[Row]:
    """Rows per second of everybody, taking turns."""
    models = candidates(quick)
    X, _ = draw(np.random.default_rng(1), n)
    results = race({name: partial(predict, X) for name, predict in models.items()}, seconds)
    table = [Row(name, n / results.best(name) / 1e6, "Mrows/s") for name in models]
    for name in models:
        for peer in PEERS if name not in PEERS else ():
            ratio = results.ratio(peer, name)
            table.append(require(f"{name} over {peer}", ratio, "x", least=1.0))
    return table


def main() -> int:
    """Measure, show, write; the exit code says whether all bounds hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, no file written: a check that it runs")
    quick = parser.parse_args().quick
    table = measure(20_000 if quick else 1_000_000, 1 if quick else 90, quick)
    show(table)
    return finish("predict", table, ["lightgbm", "interpret-core"], written=not quick)


if __name__ == "__main__":
    sys.exit(main())
