"""Least squares that does not run after outliers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import stats

from ahofm.columns.basis import Floats
from ahofm.families.distributions import Distribution, of_scipy
from ahofm.families.family import Family, RowLoss
from ahofm.families.links import quiet
from ahofm.families.settings import check_between, filled_in
from ahofm.families.target import TargetRange
from ahofm.families.traits import Curvature
from ahofm.families.units import Units, location_units, robust_scale, weighted_quantile

TUNING = 1.345
"""Huber's constant: 95% efficient when errors are normal with standard deviation 1."""


@dataclass(frozen=True)
class Huber(Family):
    """``r^2 / 2`` for residuals up to delta, ``delta (|r| - delta / 2)`` beyond.

    The second derivative is 1 inside and 0 outside; steps by it would not move rows that are all outside. Hence h is
    the weight of iterated reweighting, ``min(1, delta / |r|)``, whose quadratic is a majorant.

    Parameters
    ----------
    delta : float, optional
        In the units of y; None is ``TUNING`` times the robust scale of y.

    References
    ----------
    Huber, P. J. (1964). Robust estimation of a location parameter. Ann. Math. Statist. 35.

    Examples
    --------
    >>> wild = X.wind + 0.1 * rng.normal(size=300)
    >>> wild[:5] += 50.0
    >>> robust = AHOFMRegressor(family="huber", order=1, random_state=0).fit(X, wild)
    >>> bool(np.abs(robust.predict(X) - X.wind).max() < 0.5)
    True
    """

    delta: float | None = None

    target: ClassVar[TargetRange] = TargetRange()

    def __post_init__(self) -> None:
        """Refuse other deltas."""
        if self.delta is not None:
            check_between(self.name, "delta", self.delta, 0.0, remedy="None takes 1.345 times the robust scale of y")

    @property
    def curvature(self) -> Curvature:
        """See the class."""
        return "majorant"

    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """``a (|r| - a / 2)`` with ``a = min(|r|, delta)``."""
        delta = filled_in(self.name, "delta", self.delta)
        with quiet():
            r = eta[:, 0] - y
            size = np.abs(r)
            inner = np.minimum(size, delta)
            value = inner * (size - 0.5 * inner)
            g, h = np.clip(r, -delta, delta), delta / np.maximum(size, delta)
        return value, g[:, np.newaxis], h[:, np.newaxis]

    @property
    def dispersed(self) -> bool:
        """The variance within delta is estimated."""
        return True

    def mean(self, eta: Floats) -> Floats:
        """The centre, between mean and median."""
        return eta[:, 0]

    def distribution(self, eta: Floats, dispersion: float) -> Distribution:
        """Normal, with the standard deviation of the residuals within delta: outliers are not its business."""
        return of_scipy(stats.norm(self.mean(eta), np.sqrt(dispersion)))

    def guess(self, y: Floats, weight: Floats) -> Floats:
        """The median of the target."""
        return np.array([weighted_quantile(y, weight, 0.5)])

    def filled(self, y: Floats, weight: Floats) -> Huber:
        """With a delta."""
        return self if self.delta is not None else replace(self, delta=TUNING * robust_scale(y, weight))

    def standardised(self, y: Floats, weight: Floats) -> tuple[Family, Units]:
        """Median 0 and robust scale 1."""
        units = location_units(y, weight, robust=True)
        delta = filled_in(self.name, "delta", self.filled(y, weight).delta)
        return replace(self, delta=delta / units.scale), units
