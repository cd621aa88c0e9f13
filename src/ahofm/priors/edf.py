"""The smoothing parameter with given effective degrees of freedom, where data and penalty are both diagonal.

With ``r_i`` the ratio of the penalty of coordinate i to the information about it, a smoothing parameter lambda leaves

    edf = sum_i 1 / (1 + lambda r_i)

which decreases in lambda: bisection finds the one that has a given edf. ``df`` has the same number for a column's
functions under a user's ``df``, of either definition and with an error where no smoothing parameter has it.
"""

from __future__ import annotations

import numpy as np

from ahofm.columns.basis import Floats


def lam_with_edf(ratios: Floats, edf: Floats, low: Floats, high: Floats, halvings: int) -> Floats:
    """Smoothing parameters (groups,) of groups of coordinates, by bisection of log lambda.

    Parameters
    ----------
    ratios : array of shape (groups, m)
        Ratios of penalty to information.
    edf : array of shape (groups,)
        Between 0 and m.
    low, high : arrays of shape (groups,)
        Intervals of log lambda.
    halvings : int
        Of each interval; the middle of the last one is taken.
    """
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        too_flexible = (1.0 / (1.0 + np.exp(middle)[:, np.newaxis] * ratios)).sum(axis=1) > edf
        low, high = np.where(too_flexible, middle, low), np.where(too_flexible, high, middle)
    return np.asarray(np.exp(0.5 * (low + high)))
