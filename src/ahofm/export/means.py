"""How linear predictors become means, in the few forms that exports know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from ahofm.columns.basis import Floats
from ahofm.families import Family, Ordinal
from ahofm.families.links import LINKS


@dataclass(frozen=True)
class Mean:
    """How linear predictors become means.

    Attributes
    ----------
    name : str
        "identity", "log", "logit" or "inverse" of the first linear predictor plus ``shift``; "softmax" of all; "levels"
        (an expected level, ``low + sum_k logistic(eta - thresholds[k])``); or "zero_inflated", ``exp(eta_1) / (1 +
        exp(eta_2))``.
    shift : float
        Of the first linear predictor; a median of times has one.
    thresholds : tuple of float
        Of levels: ``P(y <= low + k) = logistic(thresholds[k] - eta)``.
    low : int
        The lowest level.
    """

    name: str
    shift: float = 0.0
    thresholds: tuple[float, ...] = ()
    low: int = 0

    @property
    def plain(self) -> bool:
        """Whether it is a link and nothing more."""
        return self.shift == 0.0 and (self.name in LINKS or self.name == "softmax")

    @property
    def levels(self) -> tuple[int, ...]:
        """What targets can be, where they are levels in an order."""
        return tuple(range(self.low, self.low + len(self.thresholds) + 1)) if self.thresholds else ()


def mean_of(family: Family) -> Mean:
    """Find the function that makes means of linear predictors.

    A family is compared with all that exports know at linear predictors of all sizes: one of a user's own is found as
    well.

    Parameters
    ----------
    family : Family

    Returns
    -------
    Mean

    Raises
    ------
    TypeError
        Where the mean is none of these.
    """
    grid = np.concatenate([-np.geomspace(1e-3, 30.0, 12), [0.0], np.geomspace(1e-3, 30.0, 12)])
    eta = np.stack([np.roll(grid, 7 * k) for k in range(family.n_eta)], axis=1)
    own = np.asarray(family.mean(eta))
    if own.shape == eta.shape and family.n_eta > 1 and _equal(own, softmax(eta, axis=1)):
        return Mean("softmax")
    if own.shape == (len(eta),):
        found = _of_links(own, eta[:, 0]) or _of_others(family, own, eta)
        if found is not None:
            return found
    raise TypeError(
        f"the mean of {family!r} is none of {', '.join(LINKS)} of its first linear predictor, softmax, an expected "
        "level or that of zero-inflated counts: it cannot be exported; use a family that has such a mean, or predict"
    )


def _of_links(own: Floats, eta: Floats) -> Mean | None:
    """A link; or the exponential of a shifted linear predictor, as medians of times are."""
    for name, link in LINKS.items():
        if _equal(own, link.mean(eta)):
            return Mean(name)
    at_zero = own[eta == 0.0][0]
    if at_zero > 0.0 and _equal(own, LINKS["log"].mean(eta + np.log(at_zero))):
        return Mean("log", shift=float(np.log(at_zero)))
    return None


def _of_others(family: Family, own: Floats, eta: Floats) -> Mean | None:
    if isinstance(family, Ordinal) and family.thresholds is not None and _equal(own, Ordinal.mean(family, eta)):
        return Mean("levels", thresholds=family.thresholds, low=family.low)
    if family.n_eta == 2 and _equal(own, np.exp(eta[:, 0] - np.logaddexp(0.0, eta[:, 1]))):
        return Mean("zero_inflated")
    return None


def _equal(own: Floats, other: Floats) -> bool:
    return bool(np.allclose(own, other, rtol=1e-12, atol=1e-300, equal_nan=True))
