"""Positive numbers whose standard deviation grows with their mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import stats

from ahofm.columns.basis import Floats
from ahofm.families.distributions import Distribution, of_scipy
from ahofm.families.family import Family, RowLoss
from ahofm.families.links import LINKS, chain, check_link, quiet
from ahofm.families.target import TargetRange
from ahofm.families.traits import Curvature
from ahofm.families.units import Units, scale_units
from ahofm.kernels import LOSSES


@dataclass(frozen=True)
class Gamma(Family):
    """``y / mu + log mu``.

    Parameters
    ----------
    link : "log", "inverse" or "identity"
        The latter two have no value for ``eta <= 0``.

    Examples
    --------
    >>> costs = rng.gamma(2.0, 0.5 * np.exp(X.wind))
    >>> amounts = AHOFMRegressor(family="gamma", order=1, random_state=0).fit(X, costs)
    >>> 0.3 < amounts.model_.dispersion < 0.7  # the squared coefficient of variation, 1 / 2
    True
    """

    link: str = "log"

    target: ClassVar[TargetRange] = TargetRange(low=0.0)

    def __post_init__(self) -> None:
        """Refuse links it does not have."""
        check_link(self.link, ("log", "inverse", "identity"), self.name)

    @property
    def builtin(self) -> str | None:
        """The kernel has the log link."""
        return "gamma" if self.link == "log" else None

    @property
    def curvature(self) -> Curvature:
        """With the identity link the loss is concave where ``mu > 2 y``."""
        return "expectation" if self.link == "identity" else "second derivative"

    @property
    def logarithmic(self) -> bool:
        """With the log link."""
        return self.link == "log"

    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """``y exp(-eta) + eta``, ``y eta - log eta`` or ``y / eta + log eta``."""
        with quiet():
            if self.link == "log":
                return LOSSES["gamma"](y, eta)
            if self.link == "inverse":  # by hand: through the mean, the second derivative would cancel
                one = np.where(eta[:, 0] > 0, eta[:, 0], np.nan)
                value, g, h = y * one - np.log(one), y - 1.0 / one, one**-2.0
                valid = np.isfinite(value)
                g, h = np.where(valid, g, 0.0), np.where(valid, h, 0.0)
                return np.where(valid, value, np.inf), g[:, np.newaxis], h[:, np.newaxis]

        def by_mean(mu: Floats) -> RowLoss:
            mu = np.where(mu > 0, mu, np.nan)
            return y / mu + np.log(mu), (1.0 - y / mu) / mu, mu**-2.0

        return chain(LINKS[self.link], eta, by_mean, expected=True)

    @property
    def dispersed(self) -> bool:
        """The squared coefficient of variation is estimated."""
        return True

    def pearson(self, y: Floats, eta: Floats) -> Floats:
        """``(y / mu - 1)^2``."""
        with quiet():
            return np.asarray((y / self.mean(eta) - 1.0) ** 2)

    def mean(self, eta: Floats) -> Floats:
        """The mean."""
        return LINKS[self.link].mean(eta[:, 0])

    def distribution(self, eta: Floats, dispersion: float) -> Distribution:
        """Gamma, whose squared coefficient of variation is the dispersion."""
        return of_scipy(stats.gamma(1.0 / dispersion, scale=self.mean(eta) * dispersion))

    def guess(self, y: Floats, weight: Floats) -> Floats:
        """The link of the mean."""
        return LINKS[self.link].eta(np.array([float(weight @ y / weight.sum())]))

    def standardised(self, y: Floats, weight: Floats) -> tuple[Family, Units]:
        """Mean 1."""
        return self, scale_units(y, weight, self.link)

    def floor(self, y: Floats) -> Floats:
        """At ``mu = y``."""
        return 1.0 + np.log(y)
