"""Simple peers: linear models, and tensor separation learning (products of piecewise constant functions)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.data import numbers
from benchmarks.peers.task import CLASSES, Predict, Task, probabilities


def linear(task: Task) -> Predict:
    """Ridge regression with its own choice of the penalty, or logistic regression at its default; levels as dummies."""
    if task.family == "poisson":
        raise ValueError("the linear peer has no counts")
    encode = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        remainder=OneHotEncoder(handle_unknown="ignore"),
    )
    last = LogisticRegression(max_iter=2000) if task.family in CLASSES else RidgeCV(np.logspace(-3, 3, 13))
    model = make_pipeline(encode, last).fit(task.train.X, task.train.y)
    if task.family in CLASSES:
        return lambda X: probabilities(model, X, task)
    return lambda X: np.asarray(model.predict(X))


def tensor_separation(task: Task) -> Predict:
    """Tensor separation learning at its defaults; for numbers only."""
    import tensorsl as package  # noqa: PLC0415 - an optional peer

    if task.family != "gaussian":
        raise ValueError("tensorsl fits numbers only")
    like = task.train.X

    def table(X: pd.DataFrame) -> Any:
        return np.ascontiguousarray(numbers(X, like).to_numpy())

    model = package.TSLRegressor(seed=task.seed, verbosity=0).fit(table(like), task.train.y)
    return lambda X: np.asarray(model.predict(table(X)))
