"""Forecasts of time and memory against fits, from 1,000 to 1,000,000 rows.

``make bench-forecast`` prints ratios of forecast to fit and writes benchmarks/results/forecast.csv. Each runs in a
process of its own; memory is what the peak of the fit adds to what is there before it.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ahofm
from ahofm.columns.basis import Floats
from benchmarks.table import Row, finish, require, show


@dataclass(frozen=True)
class Case:
    """A fit."""

    n: int
    p: int
    order: int
    family: str = "gaussian"

    def __str__(self) -> str:
        """In a table."""
        return f"{self.n} x {self.p}, order {self.order}, {self.family}"


CASES = (
    *(Case(n, 10, order) for n in (1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000) for order in (2, 3)),
    *(Case(n, 30, 2) for n in (1_000, 10_000, 100_000, 1_000_000)),
    Case(10_000, 10, 1),
    Case(3_000, 10, 2, "poisson"),
    Case(30_000, 10, 2, "bernoulli"),
    Case(300_000, 10, 2, "bernoulli"),
)
QUICK = (Case(500, 4, 2),)


def draw(case: Case, seed: int) -> tuple[Floats, Floats]:
    """Smooth effects, pairs and a triple."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(case.n, case.p))
    eta = np.sin(3.0 * X[:, 0]) + 2.0 * X[:, 1] * X[:, 2] + 3.0 * X[:, 0] * X[:, 1] * X[:, 3] + X[:, 3] ** 2
    if case.family == "poisson":
        return X, rng.poisson(np.exp(0.5 * eta)).astype(float)
    if case.family == "bernoulli":
        return X, (rng.random(case.n) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    return X, eta + 0.5 * rng.normal(size=case.n)


def measure(case: Case, seed: int, *, forecast: bool) -> dict[str, float]:
    """Forecast, or fit."""
    X, y = draw(case, seed)
    kind = ahofm.AHOFMClassifier if case.family == "bernoulli" else ahofm.AHOFMRegressor
    model: Any = kind(order=case.order, random_state=seed, family="auto" if case.family != "poisson" else case.family)
    if forecast:
        begun = time.perf_counter()
        cost = model.forecast(X, y)
        return {
            "probe": time.perf_counter() - begun,
            "forecast": cost.seconds,
            "forecast_memory": cost.memory,
        }
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = _kilobytes("VmRSS")
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "memory": 1024.0 * (_kilobytes("VmHWM") - before)}


def _kilobytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])


def rows_of(case: Case, found: dict[str, float]) -> list[Row]:
    """Both ratios have to lie between a half and two."""
    time_ratio, memory_ratio = found["forecast"] / found["seconds"], found["forecast_memory"] / found["memory"]
    return [
        Row(f"{case}: time of the fit", found["seconds"], "s"),
        Row(f"{case}: time of the forecast", found["probe"], "s"),
        _within_two(f"{case}: forecast over time", time_ratio),
        Row(f"{case}: memory of the fit", found["memory"] / 1e6, "MB"),
        _within_two(f"{case}: forecast over memory", memory_ratio),
    ]


def _within_two(measure: str, ratio: float) -> Row:
    return require(measure, ratio, "times", least=0.5) if ratio < 1.0 else require(measure, ratio, "times", most=2.0)


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small fit; nothing is written")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--what", choices=["forecast", "fit"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(Case(**json.loads(given.one)), given.seed, forecast=given.what == "forecast")))
        return 0
    table: list[Row] = []
    for case in QUICK if given.quick else CASES:
        found: dict[str, float] = {}
        for what in ("forecast", "fit"):
            command = [sys.executable, "-m", "benchmarks.forecast", "--one", json.dumps(asdict(case)), "--what", what]
            run = subprocess.run([*command, "--seed", str(given.seed)], capture_output=True, text=True, check=True)
            found |= json.loads(run.stdout.splitlines()[-1])
        rows = rows_of(case, found)
        show(rows)
        table += rows
    return finish("forecast", table, written=not given.quick)


if __name__ == "__main__":
    sys.exit(main())
