"""How well validation rows were predicted: scores of the stack of candidate fits, in the units of the target."""

from __future__ import annotations

from typing import Any

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.families.links import quiet
from ahofm.fit.stacking.problem import TrainingProblem
from ahofm.fit.stacking.weights import Scores
from ahofm.model import Validated


def validated(problem: TrainingProblem, scores: Scores | None, classes: tuple[Any, ...] | None) -> Validated | None:
    """Scores of the predictions that stacking weights make of candidate fits; None where none were cross-validated."""
    if scores is None:
        return None
    data, response = problem.data, scores.response
    units, weight = data.units, response.weight
    y = units.centre + units.scale * response.y
    eta = np.asarray(units.shift) + np.asarray(units.factor) * response.shifted(scores.best())
    with quiet():
        mean = data.family.mean(eta)
        found = _of_numbers(y, mean, weight) if classes is None else _of_classes(y, mean, weight)
    finite = {name: value for name, value in found.items() if np.isfinite(value)}
    return Validated(response.n_rows, problem.response.n_rows, finite)


def _of_numbers(y: Floats, mean: Floats, weight: Floats) -> dict[str, float]:
    """Fraction of the variance explained, and the root of the mean squared error."""
    total = weight.sum()
    square = float(weight @ (y - mean) ** 2 / total)
    variance = float(weight @ (y - weight @ y / total) ** 2 / total)
    return {"R2": 1.0 - square / max(variance, np.finfo(float).tiny), "RMSE": float(np.sqrt(square))}


def _of_classes(y: Floats, mean: Floats, weight: Floats) -> dict[str, float]:
    """Fraction of rows whose class is right, mean loss, and for two classes the area under the ROC curve."""
    p = np.column_stack([1.0 - mean, mean]) if mean.ndim == 1 else mean
    own = np.clip(p[np.arange(len(y)), y.astype(int)], np.finfo(float).eps, 1.0)
    found = {
        "accuracy": float(np.average(p.argmax(axis=1) == y, weights=weight)),
        "log-loss": float(np.average(-np.log(own), weights=weight)),
    }
    return found | ({"AUROC": _area(y == 1.0, p[:, 1], weight)} if p.shape[1] == 2 else {})


def _area(positive: np.ndarray, score: Floats, weight: Floats) -> float:
    """Probability that a row of the second class has the higher score, ties counting half."""
    _, place = np.unique(score, return_inverse=True)
    ones = np.bincount(place, weights=weight * positive)
    zeros = np.bincount(place, weights=weight * ~positive)
    below = np.cumsum(zeros) - 0.5 * zeros
    return float(ones @ below / (ones.sum() * zeros.sum()))
