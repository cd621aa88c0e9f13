"""Smooth peers in Python: pyGAM and a Gaussian process."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.data import is_text, numbers
from benchmarks.peers.task import Predict, Task

MOST_ROWS = 1_000
"""Of a Gaussian process, whose cost grows with their third power: a random sample, where there are more."""


def pygam(task: Task) -> Predict:
    """pyGAM: a spline of 20 functions per column of numbers, levels as factors; its own grid search of one lambda."""
    import pygam as package  # noqa: PLC0415 - an optional peer

    X, like = numbers(task.train.X), task.train.X
    kept = [name for name in X.columns if X[name].nunique() > 1]
    terms: Any = None
    for at, name in enumerate(kept):
        kind = package.f(at) if is_text(like[name]) else package.s(at)
        terms = kind if terms is None else terms + kind
    make = {"gaussian": package.LinearGAM, "poisson": package.PoissonGAM, "binomial": package.LogisticGAM}[task.family]
    model = make(terms)
    if task.train.exposure is None:
        model.gridsearch(X[kept].to_numpy(), task.train.y, progress=False)
    else:
        model.gridsearch(X[kept].to_numpy(), task.train.y, exposure=task.train.exposure, progress=False)

    def predict(new: Any) -> Any:
        table = numbers(new, like)[kept]
        for name in filter(lambda name: is_text(like[name]), kept):
            table[name] = table[name].clip(lower=0.0)  # levels not seen in training count as the first one
        values = table.to_numpy()
        return np.asarray(model.predict_proba(values) if task.family == "binomial" else model.predict(values))

    return predict


def gaussian_process(task: Task) -> Predict:
    """A squared exponential with a length per column, and noise, by maximum likelihood from one start."""
    X, like = numbers(task.train.X), task.train.X
    rows = np.random.default_rng(task.seed).permutation(len(X))[:MOST_ROWS]
    kernel = ConstantKernel(10.0, (1e-3, 1e5)) * RBF(np.full(X.shape[1], 2.0), (1e-2, 1e4)) + WhiteKernel(
        0.1, (1e-8, 1e1)
    )
    process = make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, random_state=task.seed))
    model = TransformedTargetRegressor(process, transformer=StandardScaler())
    model.fit(X.to_numpy()[rows], task.train.y[rows])
    return lambda new: np.asarray(model.predict(numbers(new, like).to_numpy()))
