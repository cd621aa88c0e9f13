"""Strengths that the data choose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.fit.priors.base import Posterior, Prior

LEAST_FREEDOM, LEAST_SIZE = 1e-6, 1e-18
"""Of functions that have all but vanished: their strengths may go on to rise, up to the prior's bounds."""


def learned(prior: Prior, posterior: Posterior, strength: Floats, ranks: Sequence[int]) -> Floats:
    """New strengths by the generalised Fellner–Schall rule: determined coefficients over their size.

    Functions of one order share their strengths. A step is at most fivefold.
    """
    low, high = prior.bounds
    out = np.empty_like(strength)
    start = 0
    for rank in ranks:
        part = slice(start, start + rank)
        freedom = np.maximum(posterior.freedom[:, part].sum(axis=1), LEAST_FREEDOM)
        size = np.maximum(posterior.size[:, part].sum(axis=1), LEAST_SIZE)
        now = strength[:, start]
        new = np.clip(np.clip(freedom / size, now / 5.0, now * 5.0), low, high)
        out[:, part] = new[:, np.newaxis]
        start += rank
    return out
