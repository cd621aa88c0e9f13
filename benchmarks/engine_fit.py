"""One fit of ``benchmarks.engine``, in a process of its own: prints clock and processor seconds and the error as JSON.

``python benchmarks/engine_fit.py JOB MODEL THREADS FOLDER [PATH]``. With a path it imports the ``ahofm`` that is there,
which may be another version: nothing else of the benchmarks, and no option that a version before may not have.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

JOBS = {
    "concrete": "concrete.csv",
    "california": "california_housing.csv.gz",
    "adult": "adult.csv.gz",
    "glass": "more/glass.csv.gz",
    "segment": "more/segment.csv.gz",
    "vowel": "more/vowel.csv.gz",
    "car": "more/car.csv.gz",
    "balance": "more/balance.csv.gz",
    "contraceptive": "more/contraceptive.csv.gz",
    "million": "",
}

MODELS = {
    "ahofm": ("ahofm", "AHOFMRegressor", "AHOFMClassifier"),
    "lightgbm": ("lightgbm", "LGBMRegressor", "LGBMClassifier"),
    "ebm": ("interpret.glassbox", "ExplainableBoostingRegressor", "ExplainableBoostingClassifier"),
}
"""Module, and the estimators of numbers and of classes; imported when asked for."""

_ADULT_ROWS = 15_000

_TEST = {"california": 0.02}
"""Fraction of the rows that is not fitted, where it is not a fifth. More than 20,000 rows are fitted another way."""


def data(job: str, folder: Path) -> tuple[Any, Any, bool]:
    """Columns, target, and whether that is a class."""
    if job == "million":
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (1_000_000, 10))
        y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + np.exp(X[:, 3]) + X[:, 4] * np.cos(2 * X[:, 5])
        return pd.DataFrame(X, columns=[f"x{j}" for j in range(10)]), y + 0.5 * rng.normal(size=len(y)), False
    table = pd.read_csv(folder / JOBS[job])
    if job == "adult":
        table = table.iloc[:_ADULT_ROWS]
    X, y = table.iloc[:, :-1], table.iloc[:, -1]
    return X, y, job not in ("concrete", "california")


def estimator(model: str, threads: int, *, classes: bool, job: str) -> Any:
    """With its defaults; order 2 for a million rows."""
    module, regressor, classifier = MODELS[model]
    options: dict[str, Any] = {"n_jobs": threads}
    if model == "ahofm":
        options |= {"random_state": 0, **({"order": 2} if job == "million" else {})}
    elif model == "lightgbm":
        options["verbose"] = -1
    return getattr(importlib.import_module(module), classifier if classes else regressor)(**options)


def main() -> None:
    """Fit most of the rows, and predict the others."""
    job, model, threads, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    if len(sys.argv) > 5:  # an editable install redirects imports before the path is looked at
        sys.meta_path[:] = [finder for finder in sys.meta_path if "Redirecting" not in type(finder).__name__]
        sys.path.insert(0, sys.argv[5])
    warnings.simplefilter("ignore")
    X, y, classes = data(job, folder)
    if model == "lightgbm":
        X = X.apply(lambda column: column.astype("category") if column.dtype.kind not in "biuf" else column)
    test = np.random.default_rng(1).random(len(y)) < _TEST.get(job, 0.2)
    one = estimator(model, threads, classes=classes, job=job)
    if model == "ahofm":  # this version imports its solvers with the first fit, versions before with the package
        importlib.import_module("ahofm.fit")
    clock, processor = time.perf_counter(), time.process_time()
    one.fit(X[~test], y[~test])
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    if classes:
        labels = np.searchsorted(one.classes_, np.asarray(y[test]))
        chances = np.clip(one.predict_proba(X[test])[np.arange(len(labels)), labels], 1e-15, 1.0)
        error = float(-np.log(chances).mean())
    else:
        error = float(np.sqrt(np.mean((np.asarray(y[test]) - one.predict(X[test])) ** 2)))
    print(json.dumps({"clock": clock, "processor": processor, "error": error}))


if __name__ == "__main__":
    main()
