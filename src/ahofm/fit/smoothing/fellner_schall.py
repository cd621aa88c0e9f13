"""Smoothing parameters that the data choose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.fit.priors.base import FunctionPosterior, Prior
from ahofm.fit.tuning import LEAST_EDF, LEAST_QUADRATIC_FORM


def learned(prior: Prior, posterior: FunctionPosterior, lam: Floats, ranks: Sequence[int]) -> Floats:
    """New smoothing parameters by the generalised Fellner–Schall rule: determined coefficients over their
    quadratic_form.

    Functions of one order share their smoothing parameters. A step is at most fivefold.
    """
    low, high = prior.bounds
    out = np.empty_like(lam)
    start = 0
    for rank in ranks:
        part = slice(start, start + rank)
        edf = np.maximum(posterior.edf[:, part].sum(axis=1), LEAST_EDF)
        quadratic_form = np.maximum(posterior.quadratic_form[:, part].sum(axis=1), LEAST_QUADRATIC_FORM)
        now = lam[:, start]
        new = np.clip(np.clip(edf / quadratic_form, now / 5.0, now * 5.0), low, high)
        out[:, part] = new[:, np.newaxis]
        start += rank
    return out
