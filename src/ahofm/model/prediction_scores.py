"""Scores of predictions against targets: of numbers, and of probabilities of classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.families import Family
from ahofm.tuning.classes import CALIBRATION_BINS


def scores_of_numbers(y: Floats, mean: Floats, weight: Floats) -> dict[str, float]:
    """Fraction of the variance explained, and the root of the mean squared error, of predictions (n,)."""
    total = weight.sum()
    square = float(weight @ (y - mean) ** 2 / total)
    variance = float(weight @ (y - weight @ y / total) ** 2 / total)
    return {"R2": 1.0 - square / max(variance, np.finfo(float).tiny), "RMSE": float(np.sqrt(square))}


def deviance_explained(
    family: Family,
    y: Floats,
    eta: Floats,
    weight: Floats,
    offset: Floats | None,
    deviance: Floats | None = None,
) -> float | None:
    """Fraction of the deviance of the best constant that linear predictors (n, K), with offsets (n, K), explain.

    None for families without a deviance. ``deviance`` (n,) is given where it is not that of the linear predictors.
    """
    shifts = np.zeros_like(eta) if offset is None else offset
    constant = np.broadcast_to(family.start(y, weight, shifts), eta.shape)
    null = family.deviance(y, constant + shifts)
    deviance = family.deviance(y, eta) if deviance is None else deviance
    return None if deviance is None or null is None else float(1.0 - weight @ deviance / (weight @ null))


def scores_of_classes(y: Floats, mean: Floats, weight: Floats) -> dict[str, float]:
    """Accuracy, log-loss, expected calibration error, and the area under the ROC curve, of probabilities.

    ``y`` (n,) are numbers of classes, ``mean`` the probability of the second of two classes (n,), or of all (n, K).
    The expected calibration error of several classes is the mean of that of each class; the area is for two.
    """
    p = np.column_stack([1.0 - mean, mean]) if mean.ndim == 1 else mean
    observed = np.clip(p[np.arange(len(y)), y.astype(int)], np.finfo(float).eps, 1.0)
    found = {
        "accuracy": float(np.average(p.argmax(axis=1) == y, weights=weight)),
        "log-loss": float(np.average(-np.log(observed), weights=weight)),
    }
    judged = range(1, 2) if p.shape[1] == 2 else range(p.shape[1])
    found["ECE"] = float(np.mean([calibration_error(y == k, p[:, k], weight) for k in judged]))
    return found | ({"AUROC": _area(y == 1.0, p[:, 1], weight)} if p.shape[1] == 2 else {})


def _area(positive: NDArray[np.bool_], score: Floats, weight: Floats) -> float:
    """Probability that a row of the second class has the higher score, ties counting half."""
    _, place = np.unique(score, return_inverse=True)
    ones = np.bincount(place, weights=weight * positive)
    zeros = np.bincount(place, weights=weight * ~positive)
    below = np.cumsum(zeros) - 0.5 * zeros
    return float(ones @ below / (ones.sum() * zeros.sum()))


def calibration_error(happened: NDArray[np.bool_], probability: Floats, weight: Floats) -> float:
    """Expected calibration error: mean distance of predicted probabilities from observed frequencies, bin by bin.

    Parameters
    ----------
    happened : array of shape (n,)
        Whether the event was observed.
    probability, weight : arrays of shape (n,)
        Predicted probabilities and weights of the rows.

    Returns
    -------
    float
        With bins of equal weight, ``CALIBRATION_BINS`` of them; rows of equal probabilities share a bin.
    """
    values, place = np.unique(probability, return_inverse=True)
    mass = np.bincount(place, weights=weight)
    below = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
    bins = np.minimum((CALIBRATION_BINS * below).astype(int), CALIBRATION_BINS - 1)
    predicted = np.bincount(bins, weights=mass * values)
    observed = np.bincount(bins[place], weights=weight * happened, minlength=len(predicted))
    return float(np.abs(predicted - observed).sum() / mass.sum())
