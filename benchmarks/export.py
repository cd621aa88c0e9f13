"""Exports of eight models on 10,000 rows of real data: equal to ``predict``, how fast, and how large.

``make bench-export DATA=folder`` prints the table and writes benchmarks/results/export.csv and export.json (the
machine). A twentieth of the cells are missing, another is outside the range of training, and text is partly unseen.
Errors are the largest differences from ``predict`` and ``shapley_values``, relative to these; a mean near zero counts
as a thousandth of the median mean, a contribution as a thousandth of the largest of its row. Times are processor
seconds of one thread, the best of a few runs; PostgreSQL's, which has processes of its own, are wall-clock seconds with
the transfer of the result through psql.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ahofm import AHOFMClassifier, AHOFMRegressor, Categorical, Cyclic, Linear, RandomWalk, SplineIID
from ahofm.columns.basis import Floats
from ahofm.explain import shapley_values
from ahofm.fit import Candidate
from benchmarks.data import DATA, Rows
from benchmarks.export_targets import TARGETS, Scored
from benchmarks.machine import commit
from benchmarks.table import RESULTS, keep

PEER_CASES = ("order 1, bike", "order 2, california")
"""Where a peer is fitted to the same rows."""

LIBRARIES = ["onnx", "onnxruntime", "duckdb", "interpret-core", "ebm2onnx"]

ROWS, TRAINED = 10_000, 6_000
FAST: dict[str, Any] = {"effort": "fast", "random_state": 0, "n_jobs": 1}
# Fits that shrink factors may leave none of an order: given smoothness keeps all, and a few steps are enough to export.
GIVEN: dict[str, Any] = {
    "smoothing": "df",
    "rank": 4,
    "random_state": 0,
    "n_jobs": 1,
    "callbacks": [lambda record: record.iteration == 20],
}
KINDS = {"hr": Cyclic(period=24), "season": Categorical(), "mnth": RandomWalk(), "yr": Linear(), "temp": SplineIID()}


@dataclass(frozen=True)
class Case:
    """A model to fit: its data, and how."""

    data: str
    fit: Callable[[Rows], Any]


def regressor(settings: dict[str, Any], **more: Any) -> Callable[[Rows], Any]:
    return lambda rows: AHOFMRegressor(**settings, **more).fit(rows.X, rows.y)


CASES = {
    "order 1, bike": Case("bike sharing", regressor(FAST, order=1)),
    "order 2, california": Case("california", regressor(FAST, order=2)),
    "order 3 of every kind, bike": Case("bike sharing", regressor(GIVEN, order=3, columns=KINDS)),
    "order 4, california": Case("california", regressor(GIVEN, order=4)),
    "products, california": Case(
        "california", regressor(FAST, factor_prior=(Candidate("spline", 0.5, 0.5, product=True),), n_members=1)
    ),
    "two classes, adult": Case("adult", lambda rows: AHOFMClassifier(**FAST).fit(rows.X, rows.y)),
    "seven classes, wine": Case("wine", lambda rows: AHOFMClassifier(order=2, **GIVEN).fit(rows.X, rows.y.astype(int))),
    "counts with offset, claims": Case(
        "claims",
        lambda rows: AHOFMRegressor(family="poisson", order=2, **GIVEN).fit(
            rows.X, rows.y, offset=np.log(np.asarray(rows.exposure))
        ),
    ),
}


def scored_rows(rows: Rows, learned: pd.DataFrame, n: int) -> tuple[pd.DataFrame, Floats | None]:
    """Rows with missing, far and unseen cells."""
    rng = np.random.default_rng(1)
    at = rng.choice(len(rows.y), n, replace=len(rows.y) < n)
    X = rows.X.iloc[at].reset_index(drop=True)
    for name in X:
        missing, odd = rng.random(n) < 0.05, rng.random(n) < 0.05
        if pd.api.types.is_numeric_dtype(X[name]):
            low, high = learned[name].min(), learned[name].max()
            far = rng.choice([low - (high - low), high + (high - low)], n)
            X[name] = np.where(missing, np.nan, np.where(odd, far, X[name].astype(np.float64)))
        else:
            cells = X[name].astype(object).mask(pd.Series(odd), "never seen")
            X[name] = cells.where(~pd.Series(missing), None)
    return X, None if rows.exposure is None else np.log(rows.exposure[at])


def error(found: Floats, expected: Floats, least: Floats) -> float:
    """The largest difference, relative to the expected number, or to ``least`` where this is more."""
    return float((np.abs(found - expected) / np.maximum(np.maximum(np.abs(expected), least), 1e-300)).max())


def best(run: Callable[[], Any], repeats: int, clock: Callable[[], float] = time.process_time) -> float:
    """Fewest seconds."""
    taken = []
    for _ in range(repeats):
        start = clock()
        run()
        taken.append(clock() - start)
    return min(taken)


def measure(folder: Path, n: int, repeats: int, done: set[str]) -> Iterator[dict[str, Any]]:
    """A record for each model and target, of models that are not done."""
    for name, case in CASES.items():
        if name in done:
            continue
        rows = DATA[case.data].read(folder)
        some = rows.take(np.random.default_rng(0).permutation(len(rows.y))[:TRAINED])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = case.fit(some)
        X, offset = scored_rows(rows, some.X, n)
        labels = [None] if model.model_.family.n_eta == 1 else list(model.model_.classes)
        mean = model.model_.mean(X, offset, n_threads=1).reshape(n, -1)
        parts = np.stack([shapley_values(model, X, linear_predictor=label).values for label in labels], axis=1)
        native = best(partial(model.model_.mean, X, offset, n_threads=1), repeats)
        with tempfile.TemporaryDirectory() as place:
            model.save(Path(place) / "model.ahofm", uncertainty=False)
            size = (Path(place) / "model.ahofm").stat().st_size
        shape = {
            "model": name,
            "columns": X.shape[1],
            "ranks": str(dict(model.model_.ranks)).replace("10000", "product"),
        }
        yield shape | record("ahofm", native, native, n, size, 0.0, 0.0)
        for target, prepare in TARGETS.items():
            if target.startswith("EBM") and name not in PEER_CASES:
                continue
            with tempfile.TemporaryDirectory() as place:
                scored: Scored | None = prepare(model, X, offset, Path(place), some)
                if scored is None:
                    continue
                found, own_parts = scored.run(), scored.contributions()
                clock = time.perf_counter if scored.elsewhere else time.process_time
                seconds = scored.seconds or best(scored.run, repeats, clock)
                errors: tuple[Any, Any] = ("", "")
                if scored.exact:
                    of_means = error(found, mean, 1e-3 * np.median(np.abs(mean), axis=0))
                    largest = np.abs(parts).max(axis=2, keepdims=True)
                    errors = of_means, error(own_parts.reshape(parts.shape), parts, 1e-3 * largest)
                yield shape | record(target, seconds, native, n, scored.size, *errors)


def record(target: str, seconds: float, native: float, n: int, size: int, mean: Any, parts: Any) -> dict[str, Any]:
    return {
        "target": target,
        "rows_per_second": n / seconds,
        "times_of_predict": seconds / native,
        "bytes": size,
        "error_of_means": mean,
        "error_of_contributions": parts,
    }


def kept_records() -> list[dict[str, Any]]:
    """Those of models that a run at the same commit has finished: it goes on where it was stopped."""
    path, described = RESULTS / "export.csv", RESULTS / "export.json"
    if not path.exists() or json.loads(described.read_text())["commit"] != commit():
        return []
    with path.open() as file:
        found: list[dict[str, Any]] = list(csv.DictReader(file))
    for one in found:
        for name in ("rows_per_second", "times_of_predict", "error_of_means", "error_of_contributions"):
            one[name] = float(one[name]) if one[name] else ""
    return found


def main() -> int:
    """Measure, show, write; the exit code says whether all are equal to ``predict``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the folder of the data sets")
    parser.add_argument("--quick", action="store_true", help="few rows, no file written: a check that it runs")
    given = parser.parse_args()
    records = [] if given.quick else kept_records()
    done = {str(one["model"]) for one in records}
    for one in measure(given.data, 500 if given.quick else ROWS, 1 if given.quick else 3, done):
        if records and records[-1]["model"] != one["model"] and not given.quick:
            keep("export", records, LIBRARIES)
        records.append(one)
        print(
            "  ".join(f"{value:.3g}" if isinstance(value, float) else str(value) for value in one.values()), flush=True
        )
    if not given.quick:
        keep("export", records, LIBRARIES)
    own = [one for one in records if one["error_of_means"] != ""]
    worst = max(max(one["error_of_means"], one["error_of_contributions"]) for one in own)
    print(f"\nLargest relative error: {worst:.2g}; at most 1e-6 is required")
    return int(not worst <= 1e-6)


if __name__ == "__main__":
    sys.exit(main())
