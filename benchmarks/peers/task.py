"""What every method is given and what it gives back, so that they can be set side by side."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ahofm.columns.basis import Floats
from benchmarks.data import Family, Rows
from benchmarks.measure import taken

Predict: TypeAlias = Callable[[pd.DataFrame], Floats]
"""Means of new rows: for two classes the probability of the second, for several those of all, (rows, classes); for
counts those within one unit of exposure."""


CLASSES: tuple[Family, ...] = ("binomial", "multinomial")
"""Families whose targets are the numbers of classes."""


@dataclass(frozen=True)
class Task:
    """Rows to fit, rows to predict, what the targets are, and a seed."""

    train: Rows
    new: pd.DataFrame
    family: Family = "gaussian"
    seed: int = 0


@dataclass(frozen=True)
class Outcome:
    """Means of the new rows, and what the fit and the predictions cost."""

    mean: Floats
    cost: dict[str, float]


Method: TypeAlias = Callable[[Task], Outcome]


def probabilities(classifier: Any, X: pd.DataFrame, task: Task) -> Floats:
    """Of the second of two classes, or of all of several."""
    found = np.asarray(classifier.predict_proba(X), dtype=np.float64)
    return found[:, 1] if task.family == "binomial" else found


def method(fit: Callable[[Task], Predict]) -> Method:
    """Measure a fit in this process."""

    def run(task: Task) -> Outcome:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the peers' own, and those about constant columns
            predict, cost = taken(lambda: fit(task))
            begun = time.perf_counter()
            mean = predict(task.new)
        return Outcome(mean, {**cost, "predict_seconds": time.perf_counter() - begun})

    return run
