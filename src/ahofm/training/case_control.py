"""Case-control samples of rare events: all events, up to a fraction of the sample, and a random sample of other rows.

Most information about rare events, e.g. insurance claims, is in the rows with events. With events oversampled and rows
weighted by the inverse of their sampling fraction, estimates have the same expectation and less variance than with a
random sample of that size (Fithian and Hastie, 2014).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ahofm.backends import Response
from ahofm.columns.basis import Floats
from ahofm.tuning.subsample import LARGEST_EVENT_FRACTION


def usual_target(response: Response) -> float:
    """The most frequent target; rows with any other are events."""
    values, counts = np.unique(response.y, return_counts=True)
    return float(values[counts.argmax()])


def sample_rows(response: Response, pool: NDArray[np.int64], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """``size`` random rows of ``pool``; of rare events at most a fraction ``LARGEST_EVENT_FRACTION``."""
    rows = rng.permutation(pool)
    if response.rare:
        event = response.y[rows] != usual_target(response)
        chosen = rows[event][: int(LARGEST_EVENT_FRACTION * size)]
        rows = np.concatenate([chosen, rows[~event][: size - len(chosen)]])
    return np.sort(rows[:size])


def sample_weight(part: Response, whole: Response) -> Floats:
    """Rows of the whole that each row of a sample stands for, (n,): an event, or another; ones if none is rare.

    Weights are divided by the variance of the score relative to that of all rows, so that the information about
    coefficients is what the sample contains: ``e + (c - 1) m`` with rows of the whole for each event (e) and each other
    row (c) of the sample, and m the mean curvature of the loss.
    """
    if not whole.rare:
        return np.ones(part.n_rows)
    usual = usual_target(whole)
    strata = [(response.weight[response.y == usual].sum(), response.total) for response in (part, whole)]
    (others, total), (whole_others, whole_total) = strata
    if min(others, total - others) <= 0.0:
        return np.ones(part.n_rows)
    of_event, of_other = (whole_total - whole_others) / (total - others), whole_others / others
    score_variance = of_event + (of_other - 1.0) * whole.information / whole.n_rows
    return np.asarray(np.where(part.y == usual, of_other, of_event) / score_variance)
