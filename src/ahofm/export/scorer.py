"""Predictions and Shapley values of a fitted model. NumPy is all that it needs.

A table is a dict of columns, a data frame, or an array with the columns in the order of ``MODEL["names"]``. Numbers
that are missing are NaN, levels that are missing None; levels that training did not have are neutral.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

MODEL: dict[str, Any] = {}
NUMBERS: Array = np.zeros(0)


def predict(X: Any, offset: Any = None) -> Array:
    """The mean (n,); of a classifier the most likely label."""
    found = mean(X, offset)
    if MODEL["classes"] is None:
        return found
    likely = found.argmax(axis=1) if found.ndim == 2 else (found > 0.5).astype(int)
    return np.asarray(np.asarray(MODEL["classes"])[likely])


def predict_proba(X: Any, offset: Any = None) -> Array:
    """Probabilities of the classes, or of levels in an order: (n, classes)."""
    if MODEL["levels"]:
        below = _logistic(np.array(MODEL["thresholds"]) - linear_predictors(X, offset))
        return np.diff(below, axis=1, prepend=0.0, append=1.0)
    found = mean(X, offset)
    return found if found.ndim == 2 else np.column_stack([1.0 - found, found])


def mean(X: Any, offset: Any = None) -> Array:
    """The mean (n,), or probabilities of several classes (n, classes)."""
    eta = linear_predictors(X, offset)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        if MODEL["mean"] == "softmax":
            odds = np.exp(eta - eta.max(axis=1, keepdims=True))
            return np.asarray(odds / odds.sum(axis=1, keepdims=True))
        if MODEL["mean"] == "levels":
            return np.asarray(MODEL["levels"][0] + _logistic(eta - np.array(MODEL["thresholds"])).sum(axis=1))
        if MODEL["mean"] == "zero_inflated":
            return np.asarray(np.exp(eta[:, 0] - np.logaddexp(0.0, eta[:, 1])))
        first = eta[:, 0] + MODEL["shift"]
        if MODEL["mean"] == "log":
            return np.asarray(np.exp(first))
        if MODEL["mean"] == "logit":
            return _logistic(first)
        return 1.0 / np.where(first > 0, first, np.nan) if MODEL["mean"] == "inverse" else first


def _logistic(eta: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-eta)))


def linear_predictors(X: Any, offset: Any = None) -> Array:
    """All of them (n, linear predictors); an offset (n,) is added to the first, one of two dimensions to all."""
    phi = _functions(X)
    eta = np.empty((phi.shape[1], len(MODEL["linear_predictors"])))
    for k, own in enumerate(MODEL["linear_predictors"]):
        eta[:, k] = own["intercept"] + phi[:, :, own["at"]].sum(axis=0)
        for group in own["groups"]:
            values = phi[:, :, group["which"]]
            terms = values.prod(axis=0) if "means" in group else _symmetric(values, group["order"])
            eta[:, k] += terms @ np.array(group["loadings"])
    if offset is not None:
        shift = np.asarray(offset, dtype=np.float64)
        eta += shift if shift.ndim == 2 else np.outer(shift, np.arange(eta.shape[1]) == 0)
    return eta


def contributions(X: Any, linear_predictor: int = 0) -> tuple[float, Array]:
    """A base, and Shapley values (n, columns): they add up to the linear predictor, without an offset."""
    phi, own = _functions(X), MODEL["linear_predictors"][linear_predictor]
    found = phi[:, :, own["at"]].T.copy()
    for group in own["groups"]:
        values, weights = phi[:, :, group["which"]], np.array(group["loadings"])
        if "means" in group:
            means = np.array(group["means"])[:, np.newaxis, :]
            for t, weight in zip(*MODEL["quadrature"], strict=True):
                parts = values - means
                others = _without_each(means + t * parts)
                found += weight * ((parts * others) @ weights).T
        else:
            found += ((values * _others(values, group["order"])) @ (weights / group["order"])).T
    return own["base"], found


def _without_each(values: Array) -> Array:
    """Products over the first axis without each of its entries; nothing is divided."""
    before, after = np.ones_like(values), np.ones_like(values)
    for j in range(1, len(values)):
        before[j] = before[j - 1] * values[j - 1]
        after[-1 - j] = after[-j] * values[-j]
    return before * after


def _symmetric(values: Array, order: int) -> Array:
    """Elementary symmetric polynomial over the first axis."""
    return np.asarray(_prefixes(values, order)[-1, order])


def _prefixes(values: Array, degree: int) -> Array:
    """Elementary symmetric polynomials of the first 0, 1, ... entries: (entries + 1, degree + 1, ...)."""
    e = np.zeros((len(values) + 1, degree + 1, *values.shape[1:]))
    e[:, 0] = 1.0
    for j, value in enumerate(values):
        e[j + 1, 1:] = e[j, 1:] + value * e[j, :-1]
    return e


def _others(values: Array, order: int) -> Array:
    """Elementary symmetric polynomials, of one order less, of all entries but each: nothing is divided."""
    before, after = _prefixes(values, order - 1), _prefixes(values[::-1], order - 1)[::-1]
    return np.asarray(np.sum([before[:-1, q] * after[1:, order - 1 - q] for q in range(order)], axis=0))


def _functions(X: Any) -> Array:
    """Functions of all columns: (columns, n, functions)."""
    names = MODEL["names"]
    if isinstance(X, np.ndarray):
        if X.ndim != 2 or X.shape[1] != len(names):
            raise ValueError(f"X has shape {X.shape}, expected (rows, {len(names)})")
        columns = [X[:, j] for j in range(len(names))]
    else:
        columns = [np.asarray(X[name]) for name in names]
    return np.stack([_evaluate(*pair) for pair in zip(MODEL["curves"], names, columns, strict=True)])


def _evaluate(curve: dict[str, Any], name: str, column: Array) -> Array:
    if "levels" in curve:
        place = {level: k for k, level in enumerate(curve["levels"])}
        last = len(place)  # missing; the next is neutral
        codes = [last if _absent(value) else place.get(value, last + 1) for value in column.tolist()]
        return _array(curve["values"])[codes]
    numbers = (
        column if column.dtype.kind in "fiub" else [np.nan if value is None else value for value in column.tolist()]
    )
    x = np.asarray(numbers, dtype=np.float64)
    if np.isinf(x).any():
        raise ValueError(f"column {name!r} is infinite in row {int(np.argmax(np.isinf(x)))}")
    absent = np.isnan(x)
    raw = np.where(absent, 0.0, x)
    x = raw if curve["period"] is None else _turn(raw, curve["start"], curve["period"])
    at = np.searchsorted(curve["breaks"], x, side="right")
    t = (x * np.array(curve["scales"])[at] - np.array(curve["shifts"])[at])[:, np.newaxis]
    powers = _array(curve["values"])
    phi = np.zeros((len(x), powers.shape[2]))
    for m in range(powers.shape[1] - 1, -1, -1):
        phi = phi * t + powers[at, m]
    if curve["nodes"]:
        phi += _lines(np.array(curve["nodes"]["x"]), _array(curve["nodes"]["values"]), raw)
    return np.where(absent[:, np.newaxis], _array(curve["missing"]), phi)


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def _lines(nodes: Array, values: Array, x: Array) -> Array:
    """Straight lines between nodes, constant outside; halves, so that differences do not overflow."""
    left = np.clip(np.searchsorted(nodes, x, side="right") - 1, 0, max(len(nodes) - 2, 0))
    right = np.minimum(left + 1, len(nodes) - 1)
    width = np.where(right > left, 0.5 * nodes[right] - 0.5 * nodes[left], 1.0)
    part = np.clip((0.5 * x - 0.5 * nodes[left]) / width, 0.0, 1.0)[:, np.newaxis]
    return (1.0 - part) * values[left] + part * values[right]


def _turn(x: Array, start: float, period: float) -> Array:
    """Share of a turn that has passed at x."""
    fraction = np.mod((np.mod(x, period) - np.mod(start, period)) / period, 1.0)
    return np.where(fraction >= 1.0, 0.0, fraction)


def _array(place: dict[str, Any]) -> Array:
    shape = place["shape"]
    return NUMBERS[place["at"] : place["at"] + int(np.prod(shape))].reshape(shape)
