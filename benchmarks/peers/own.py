"""This library: its default at an order, the paper's recipe, and fits with a given basis and rank."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ahofm import AHOFMClassifier, AHOFMRegressor, Linear, Spline
from ahofm.columns.basis import Floats
from ahofm.explain import effect
from benchmarks import paper_recipe
from benchmarks.data import numbers
from benchmarks.peers.task import CLASSES, Predict, Task, probabilities
from benchmarks.surfaces import NODES, Design, Pair


def default(task: Task, order: int | None = None) -> Predict:
    """No settings but the order, or none at all."""
    if task.family in CLASSES:
        classifier = AHOFMClassifier(order=order, random_state=task.seed, n_jobs=1).fit(task.train.X, task.train.y)
        return lambda X: probabilities(classifier, X, task)
    offset = None if task.train.exposure is None else np.log(task.train.exposure)
    model = AHOFMRegressor(order=order, family=task.family, random_state=task.seed, n_jobs=1)
    model.fit(task.train.X, task.train.y, offset=offset)
    return lambda X: np.asarray(model.predict(X))


def recipe(task: Task, order: int, kind: Spline | Linear) -> Predict:
    """As the paper fits factorization machines; text as numbers, as in the paper."""
    model, _ = paper_recipe.fit(numbers(task.train.X), task.train.y, order, kind, task.seed, n_jobs=1)
    return lambda X: np.asarray(model.predict(numbers(X, task.train.X)))


def splines(X: Floats, y: Floats, *, n_basis: int, rank: int, order: int = 2, seed: int = 0) -> AHOFMRegressor:
    """One fit with splines of a given size and a given number of factors."""
    model = AHOFMRegressor(
        order=order,
        rank=rank,
        columns=Spline(n_basis=n_basis),
        n_members=1,
        n_jobs=1,
        random_state=seed,
    )
    return model.fit(pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]), y)


def surfaces_of(model: AHOFMRegressor, design: Design) -> dict[Pair, Floats]:
    """Every pair on the design's grid; zero where the fit found no interactions at all."""
    if model.model_.order < 2:
        return dict.fromkeys(design.pairs, np.zeros((NODES, NODES)))
    at = {book.name: design.nodes for book in model.model_.encoder.codebooks}
    return {pair: effect(model.model_, pair, at).value for pair in design.pairs}
