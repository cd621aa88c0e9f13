"""Scores of predicted times where some targets are censored: concordance and Brier scores. Targets are signed times."""

from __future__ import annotations

import numpy as np

from ahofm.columns.basis import Floats

_LEAST_UNCENSORED = 1e-12
"""Least probability of not being censored, by whose inverse squared errors are weighted."""


def concordance(y: Floats, predicted: Floats, weight: Floats | None = None) -> float:
    """Harrell's index of concordance.

    Parameters
    ----------
    y : array of shape (n,)
        Times, negative where censored.
    predicted : array of shape (n,)
        Larger where times are predicted to be longer.
    weight : array of shape (n,), optional
        A pair counts by the product of its rows' weights.

    Returns
    -------
    float
        Share of pairs in the right order among those whose order is known: the earlier time is an event. Equal
        predictions count half; NaN without such pairs.
    """
    time, event = np.abs(y), y > 0.0
    mass = np.ones(len(y)) if weight is None else weight
    right = total = 0.0
    for i in np.flatnonzero(event):
        later = (time > time[i]) | ((time == time[i]) & ~event)
        total += mass[i] * float(mass[later].sum())
        above, same = predicted[later] > predicted[i], predicted[later] == predicted[i]
        right += mass[i] * float(mass[later] @ (above + 0.5 * same))
    return right / total if total > 0.0 else float("nan")


def censoring_survival(y: Floats, at: Floats, *, before: bool = False) -> Floats:
    """Kaplan-Meier estimate of the probability of not being censored up to times, or just before them."""
    order = np.argsort(np.abs(y), kind="stable")
    time, censored = np.abs(y)[order], y[order] < 0.0
    found, place = np.unique(time, return_index=True)
    at_risk = len(time) - place
    lost = np.add.reduceat(censored.astype(np.float64), place)
    gone = np.add.reduceat((~censored).astype(np.float64), place)
    left = at_risk - gone  # events come before censoring at equal times
    steps = np.concatenate([[1.0], np.cumprod(np.where(left > 0.0, 1.0 - lost / np.maximum(left, 1.0), 1.0))])
    return np.asarray(steps[np.searchsorted(found, at, side="left" if before else "right")])


def brier_score(y: Floats, survival: Floats, times: Floats) -> Floats:
    """Mean squared errors (m,) of survival probabilities (n, m) at times (m,), weighted for censoring."""
    time, event = np.abs(y), y > 0.0
    at_row = np.maximum(censoring_survival(y, time, before=True), _LEAST_UNCENSORED)
    at_time = np.maximum(censoring_survival(y, times), _LEAST_UNCENSORED)
    found = []
    for k, t in enumerate(times):
        happened, lasted = (time <= t) & event, time > t
        parts = np.where(happened, survival[:, k] ** 2 / at_row, 0.0)
        found.append(float(np.mean(parts + np.where(lasted, (1.0 - survival[:, k]) ** 2 / at_time[k], 0.0))))
    return np.array(found)
