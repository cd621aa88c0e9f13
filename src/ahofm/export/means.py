"""How linear predictors become means, by the names that exports know."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from ahofm.columns.basis import Floats
from ahofm.families import Family
from ahofm.families.links import LINKS


def mean_name(family: Family) -> str:
    """Find the function that makes means of linear predictors.

    A family is compared with every link at linear predictors of all sizes: one of a user's own is found as well.

    Parameters
    ----------
    family : Family

    Returns
    -------
    str
        "softmax" of all linear predictors, or a link of the first: "identity", "log", "logit", "inverse".

    Raises
    ------
    TypeError
        Where the mean is none of these.
    """
    grid = np.concatenate([-np.geomspace(1e-3, 30.0, 12), [0.0], np.geomspace(1e-3, 30.0, 12)])
    eta = np.stack([np.roll(grid, 7 * k) for k in range(family.n_eta)], axis=1)
    own = family.mean(eta)
    if np.shape(own) == eta.shape and family.n_eta > 1 and _equal(own, softmax(eta, axis=1)):
        return "softmax"
    for name, link in LINKS.items():
        if np.shape(own) == (len(eta),) and _equal(own, link.mean(eta[:, 0])):
            return name
    raise TypeError(
        f"the mean of {family!r} is none of {', '.join(LINKS)} of its first linear predictor, nor softmax: "
        "it cannot be exported; export linear predictors with a family that has such a mean, or use predict"
    )


def _equal(own: Floats, other: Floats) -> bool:
    return bool(np.allclose(own, other, rtol=1e-12, atol=1e-300, equal_nan=True))
