"""Probabilities of ordered levels where some rows are copies of training rows.

They are credibility means, as those of numbers: with n copies in training, of which a share y_k has level k, and the
probability p_k of the model without copies,

    probability = (n y_k + kappa p_k) / (n + kappa)

A shift of the linear predictor alone could not say that a level in the middle is nearly certain, as thresholds are a
given distance apart; the expected level is the same.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from ahofm.columns.basis import Floats
from ahofm.families import Ordinal
from ahofm.families.distributions import Categories


def probabilities_of_levels(
    family: Ordinal, eta: Floats, counts: Floats, kappa: float, moved: Floats | None = None
) -> Floats:
    """Probabilities (n, levels) of rows with ``counts`` (n, levels) of copies by level.

    Parameters
    ----------
    family : Ordinal
    eta : array of shape (n, 1)
        Linear predictors without effects of copies.
    counts : array of shape (n, levels)
    kappa : float
    moved : array of shape (n,), optional
        What is added to the linear predictors, for copies as for other rows: an offset, or a draw of their error.
    """
    base = eta if moved is None else eta + moved[:, np.newaxis]
    found, copies = family.probabilities(base), np.flatnonzero(counts.any(axis=1))
    seen, total = counts[copies], counts[copies].sum(axis=1, keepdims=True)
    mean = (seen + kappa * family.probabilities(eta[copies])) / (total + kappa)
    if moved is not None:
        below = np.clip(np.cumsum(mean, axis=1)[:, :-1], 0.0, 1.0)
        with np.errstate(divide="ignore"):
            shifted = expit(logit(below) - moved[copies, np.newaxis])
        mean = np.diff(shifted, axis=1, prepend=0.0, append=1.0)
    found[copies] = mean
    return found


def deviance_of_levels(family: Ordinal, probability: Floats, y: Floats) -> Floats:
    """Twice minus the logarithms of the probabilities of levels y, above the family's floor: (n,)."""
    floor = family.floor(y)
    return 2.0 * np.maximum(-Categories(probability, family.low).logpmf(y) - floor, 0.0)
