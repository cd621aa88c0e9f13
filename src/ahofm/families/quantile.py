"""Quantiles and the median: the target above and below, each with its own price."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import stats
from scipy.special import entr

from ahofm.columns.basis import Floats
from ahofm.families.distributions import Distribution, of_scipy
from ahofm.families.family import Family, RowLoss
from ahofm.families.links import quiet
from ahofm.families.settings import check_between, filled_in
from ahofm.families.target import TargetRange
from ahofm.families.traits import Curvature
from ahofm.families.units import Units, location_units, robust_scale, weighted_quantile

SMOOTHING = 0.02
"""Of the robust scale of the target. Moves the 0.99 quantile of a normal target by 0.002 standard deviations."""


class _Smoothed(Family):
    """What the smoothed pinball loss and the smoothed absolute error share: a majorant, and an estimated scale."""

    target: ClassVar[TargetRange] = TargetRange()

    @property
    def curvature(self) -> Curvature:
        """Curvatures are those of a majorant, see ``Quantile``."""
        return "majorant"

    @property
    def dispersed(self) -> bool:
        """The scale is estimated."""
        return True

    def pearson(self, y: Floats, eta: Floats) -> Floats:
        """The loss: its mean is the scale of the Laplace distribution whose likelihood this is."""
        return self.loss(y, eta)[0]


@dataclass(frozen=True)
class Quantile(_Smoothed):
    """The pinball loss ``max(level r, (level - 1) r)`` of ``r = y - eta``, smoothed.

    The kink is rounded by averaging the pinball loss over logistic errors of scale s, which adds
    ``s log(1 + exp(-|r| / s))``: at most ``s log 2`` and never less than zero, smooth and convex for every s.
    Its second derivative is next to nothing a few s away from the target, so that Newton steps would trust the few rows
    nearby. Hence h is the majorant ``tanh(r / 2s) / (2 r)``: ``1 / (4 s)`` at 0, about ``1 / (2 |r|)`` far away.

    Parameters
    ----------
    level : float between 0 and 1
    smoothing : float, optional
        s in the units of y; None is ``SMOOTHING`` times the robust scale of y.

    References
    ----------
    Fernandes, M., Guerre, E., Horta, E. (2021). Smoothing quantile regressions. J. Business & Economic Statistics 39.

    Examples
    --------
    >>> from ahofm.families import Quantile
    >>> high = AHOFMRegressor(family=Quantile(0.9), order=1, random_state=0).fit(X, y)
    >>> round(float(np.mean(y < high.predict(X))), 1)
    0.9
    """

    level: float = 0.5
    smoothing: float | None = None

    def __post_init__(self) -> None:
        """Refuse other levels and smoothings."""
        check_between(self.name, "level", self.level, 0.0, high=1.0, remedy="0.5 is the median")
        _check_smoothing(self.name, self.smoothing)

    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """``max(level r, (level - 1) r) + s log(1 + exp(-|r| / s))``."""
        s = filled_in(self.name, "smoothing", self.smoothing)
        with quiet():
            r = y - eta[:, 0]
            half = np.abs(0.5 * r / s)
            e = np.exp(-2.0 * half)
            value = np.maximum(self.level * r, (self.level - 1.0) * r) + s * np.log1p(e)
            g = np.where(r > 0, e, 1.0) / (1.0 + e) - self.level
            series = 1.0 - half**2 / 3.0 + 2.0 * half**4 / 15.0
            h = np.where(half < 0.01, series, (1.0 - e) / ((1.0 + e) * np.maximum(half, 0.01))) / (4.0 * s)
        return value, g[:, np.newaxis], h[:, np.newaxis]

    def mean(self, eta: Floats) -> Floats:
        """The quantile."""
        return eta[:, 0]

    def distribution(self, eta: Floats, dispersion: float) -> Distribution:
        """The asymmetric Laplace distribution whose likelihood the loss is."""
        kappa = np.sqrt(self.level / (1.0 - self.level))
        scale = dispersion / np.sqrt(self.level * (1.0 - self.level))
        return of_scipy(stats.laplace_asymmetric(kappa, eta[:, 0], scale))

    def guess(self, y: Floats, weight: Floats) -> Floats:
        """The quantile of the target."""
        return np.array([weighted_quantile(y, weight, self.level)])

    def floor(self, y: Floats) -> Floats:
        """At ``eta = y + s log(level / (1 - level))``: s times the entropy of the level."""
        entropy = float(entr(self.level) + entr(1.0 - self.level))
        return np.full_like(y, filled_in(self.name, "smoothing", self.smoothing) * entropy)

    def filled(self, y: Floats, weight: Floats) -> Quantile:
        """With a smoothing."""
        return replace(self, smoothing=_smoothing(self.smoothing, y, weight))

    def standardised(self, y: Floats, weight: Floats) -> tuple[Family, Units]:
        """Median 0 and robust scale 1."""
        units = location_units(y, weight, robust=True)
        return replace(self, smoothing=_smoothing(self.smoothing, y, weight) / units.scale), units


@dataclass(frozen=True)
class Laplace(_Smoothed):
    """The absolute error ``|y - eta|``, smoothed: twice ``Quantile(0.5, smoothing)``. Fits the median.

    Parameters
    ----------
    smoothing : float, optional
        s in the units of y; the loss is at most ``2 s log 2`` above the absolute error. None is as for ``Quantile``.

    Examples
    --------
    >>> from ahofm.families import Laplace
    >>> wild = np.where(rng.uniform(size=300) < 0.05, 100.0, X.wind)  # a few values are far off
    >>> median = AHOFMRegressor(family=Laplace(), order=1, random_state=0).fit(X, wild)
    >>> bool(np.abs(median.predict(X) - X.wind).max() < 0.5)
    True
    """

    smoothing: float | None = None

    def __post_init__(self) -> None:
        """Refuse other smoothings."""
        _check_smoothing(self.name, self.smoothing)

    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """``|r| + 2 s log(1 + exp(-|r| / s))``."""
        value, g, h = Quantile(0.5, filled_in(self.name, "smoothing", self.smoothing)).loss(y, eta)
        return 2.0 * value, 2.0 * g, 2.0 * h

    def mean(self, eta: Floats) -> Floats:
        """The median."""
        return eta[:, 0]

    def distribution(self, eta: Floats, dispersion: float) -> Distribution:
        """Laplace."""
        return of_scipy(stats.laplace(eta[:, 0], dispersion))

    def guess(self, y: Floats, weight: Floats) -> Floats:
        """The median of the target."""
        return np.array([weighted_quantile(y, weight, 0.5)])

    def floor(self, y: Floats) -> Floats:
        """At ``eta = y``."""
        return np.full_like(y, 2.0 * float(np.log(2.0)) * filled_in(self.name, "smoothing", self.smoothing))

    def filled(self, y: Floats, weight: Floats) -> Laplace:
        """With a smoothing."""
        return replace(self, smoothing=_smoothing(self.smoothing, y, weight))

    def standardised(self, y: Floats, weight: Floats) -> tuple[Family, Units]:
        """Median 0 and robust scale 1."""
        units = location_units(y, weight, robust=True)
        return replace(self, smoothing=_smoothing(self.smoothing, y, weight) / units.scale), units


def _smoothing(smoothing: float | None, y: Floats, weight: Floats) -> float:
    return SMOOTHING * robust_scale(y, weight) if smoothing is None else smoothing


def _check_smoothing(family: str, smoothing: float | None) -> None:
    if smoothing is not None:
        check_between(
            family, "smoothing", smoothing, 0.0, remedy="None takes a small fraction of the robust scale of y"
        )
