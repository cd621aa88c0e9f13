"""How many rows a second are predicted, against LightGBM and an EBM at their defaults, in one run.

``make bench-predict`` prints the table and writes benchmarks/results/predict.csv and predict.json (the machine). Every
requirement is a ratio within the run. All get the same matrix and the same number of threads, and check it themselves.
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from interpret.glassbox import ExplainableBoostingRegressor
from lightgbm import LGBMRegressor
from numpy.typing import NDArray

from ahofm.columns import ColumnKind, Encoder, Spline, Walk
from ahofm.kernels import Curves, NativeCurves, column_curves
from benchmarks import machine
from benchmarks.timing import race

RESULTS = Path(__file__).parent / "results"
COLUMNS, THREADS = 10, 2
RANKS = {2: 16, 3: 16}
PEERS = ("LightGBM", "EBM")

Floats = NDArray[np.float64]
Predict = Callable[[Floats], Any]


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, and what it must be (empty: for information)."""

    measure: str
    value: float
    unit: str
    required: str = ""
    met: str = ""


def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Columns, and a target with main effects, pairs and noise."""
    X = rng.normal(size=(n, COLUMNS))
    signal = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) * X[:, 4] + 0.5 * X[:, 5:].sum(axis=1)
    return X, signal + 0.5 * rng.normal(size=n)


class Ours:
    """A model of random coefficients: what it predicts has no bearing on how fast."""

    def __init__(self, X: Floats, kind: ColumnKind, rng: np.random.Generator) -> None:
        self.encoder = Encoder.learn(X, kind)
        width = 1 + sum(RANKS.values())
        columns = tuple(
            column_curves(book, rng.normal(size=(book.size, width)), rng.normal(size=width))
            for book in self.encoder.codebooks
        )
        self.curves = NativeCurves((Curves(0.0, RANKS, columns),))

    def predict(self, X: Floats) -> Floats:
        """From a raw matrix to eta, with all checks of the matrix."""
        table = self.encoder.check(X)
        books = self.encoder.codebooks
        places = [book.places(column) for book, column in zip(books, table.columns, strict=True)]
        return self.curves.eta(places, n_threads=THREADS)[:, 0]


def candidates(quick: bool) -> dict[str, Predict]:
    """Fitted models' predict, by name."""
    rng = np.random.default_rng(0)
    X, y = draw(rng, 5_000 if quick else 100_000)
    few = 1_000 if quick else 20_000
    lightgbm = LGBMRegressor(n_jobs=THREADS, verbose=-1).fit(X, y)
    ebm = ExplainableBoostingRegressor(n_jobs=THREADS, **({"max_rounds": 20} if quick else {})).fit(X[:few], y[:few])
    return {
        "ahofm, Spline()": Ours(X, Spline(), rng).predict,
        "ahofm, Walk()": Ours(X, Walk(), rng).predict,
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
            table.append(Row(f"{name} over {peer}", ratio, "x", "> 1", "yes" if ratio > 1 else "NO"))
    return table


def main() -> int:
    """Measure, show, write; the exit code says whether all bounds hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, no file written: a check that it runs")
    quick = parser.parse_args().quick
    table = measure(20_000 if quick else 1_000_000, 1 if quick else 90, quick)
    for row in table:
        print(f"{row.measure:<32} {row.value:>10.4g} {row.unit:<9} {row.required:<6} {row.met}")
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        with (RESULTS / "predict.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(Row.__dataclass_fields__))
            writer.writeheader()
            writer.writerows({**asdict(row), "value": f"{row.value:.6g}"} for row in table)
        peers = {name: importlib.metadata.version(name) for name in ("lightgbm", "interpret-core")}
        (RESULTS / "predict.json").write_text(json.dumps({**machine.describe(), **peers}, indent=2) + "\n")
        print(f"\nWritten to {RESULTS.resolve()}")
    return 1 if any(row.met == "NO" for row in table) else 0


if __name__ == "__main__":
    sys.exit(main())
