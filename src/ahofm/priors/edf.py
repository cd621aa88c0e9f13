"""The smoothing parameter with given effective degrees of freedom, where data and penalty are both diagonal.

With ``r_i`` the ratio of the penalty of coordinate i to the information about it, a smoothing parameter lambda leaves

    edf = sum_i s_i        s_i = 1 / (1 + lambda r_i)

which decreases in log lambda, with the slope ``-sum_i s_i (1 - s_i)``. ``df`` has the same number for a column's
functions under a user's ``df``, of either definition and with an error where no smoothing parameter has it.
"""

from __future__ import annotations

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.tuning.numerics import LOG_LAM_TOL, MOST_NEWTON_STEPS


def lam_with_edf(ratios: Floats, edf: Floats, low: Floats | None = None, high: Floats | None = None) -> Floats:
    """Smoothing parameters (groups,) of groups of coordinates, by Newton's method in log lambda.

    A step that leaves the interval which is known to contain the solution is replaced by its middle.

    Parameters
    ----------
    ratios : array of shape (groups, m)
        Ratios of penalty to information; positive, where no interval is given.
    edf : array of shape (groups,)
        Between 0 and m.
    low, high : arrays of shape (groups,), optional
        Interval of log lambda; the end that is nearer where it does not contain the solution. By default those for m
        times the largest and m times the smallest ratio, which have it between them.
    """
    if low is None or high is None:
        log_ratios = np.log(ratios)
        at_equal = np.log(np.maximum(ratios.shape[1] / edf - 1.0, np.finfo(float).tiny))
        low, high = at_equal - log_ratios.max(axis=1), at_equal - log_ratios.min(axis=1)
    log_lam = 0.5 * (low + high)
    for _ in range(MOST_NEWTON_STEPS):
        fractions = 1.0 / (1.0 + np.exp(log_lam)[:, np.newaxis] * ratios)
        excess = fractions.sum(axis=1) - edf
        low, high = np.where(excess > 0.0, log_lam, low), np.where(excess > 0.0, high, log_lam)
        steps = excess / np.maximum((fractions * (1.0 - fractions)).sum(axis=1), np.finfo(float).tiny)
        stepped = log_lam + steps
        inside = (stepped >= low) & (stepped <= high)
        before, log_lam = log_lam, np.where(inside, stepped, 0.5 * (low + high))
        if (np.abs(log_lam - before) < LOG_LAM_TOL).all():
            break
    return np.asarray(np.exp(log_lam))
