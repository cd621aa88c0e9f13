"""Counts whose variance is their mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import xlogy

from ahofm.columns.basis import Floats
from ahofm.families.distributions import Distribution, of_scipy
from ahofm.families.family import Family, RowLoss
from ahofm.families.links import LINKS, chain, check_link, quiet
from ahofm.families.target import TargetRange, refuse_all_zero
from ahofm.families.traits import Curvature
from ahofm.kernels import LOSSES


@dataclass(frozen=True)
class Poisson(Family):
    """Counts: ``mu - y log mu``. An exposure enters by its logarithm as the offset.

    Parameters
    ----------
    link : "log" or "identity"
    quasi : bool
        Whether the variance is a multiple of the mean, by a dispersion that is estimated. Targets need not be whole
        numbers then: rates, with exposures as weights.

    Examples
    --------
    >>> years = rng.uniform(0.5, 1.0, 300)
    >>> claims = rng.poisson(years * np.exp(1.0 + X.wind))
    >>> counts = AHOFMRegressor(family="poisson", order=1, random_state=0).fit(X, claims, offset=np.log(years))
    >>> rate = counts.predict(X)  # per year: without an offset
    >>> bool(np.corrcoef(np.log(rate), X.wind)[0, 1] > 0.95)
    True
    """

    link: str = "log"
    quasi: bool = False

    def __post_init__(self) -> None:
        """Refuse links it does not have."""
        check_link(self.link, ("log", "identity"), self.name)

    @property
    def target(self) -> TargetRange:
        """Whole numbers, unless ``quasi``."""
        return TargetRange(low=0.0, low_included=True, whole=not self.quasi)

    @property
    def builtin(self) -> str | None:
        """The kernel has the log link."""
        return "poisson" if self.link == "log" else None

    @property
    def curvature(self) -> Curvature:
        """With the identity link the second derivative vanishes for counts of zero, which still say a lot."""
        return "second derivative" if self.link == "log" else "expectation"

    @property
    def logarithmic(self) -> bool:
        """With the log link."""
        return self.link == "log"

    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """``mu - y log mu``, convex with either link."""
        if self.link == "log":
            with quiet():
                return LOSSES["poisson"](y, eta)

        def by_mean(mu: Floats) -> RowLoss:
            mu = np.where(mu > 0, mu, np.nan)
            ratio = y / mu
            return mu - xlogy(y, mu), 1.0 - ratio, 1.0 / mu

        return chain(LINKS[self.link], eta, by_mean, expected=True)

    @property
    def dispersed(self) -> bool:
        """When ``quasi``."""
        return self.quasi

    def pearson(self, y: Floats, eta: Floats) -> Floats:
        """``(y - mu)^2 / mu``."""
        mu = self.mean(eta)
        with quiet():
            return np.asarray(np.where(y == mu, 0.0, (y - mu) ** 2 / mu))

    @property
    def if_overdispersed(self) -> str | None:
        """Unless ``quasi``."""
        return None if self.quasi else "family='quasi_poisson' or family='negative_binomial'"

    def mean(self, eta: Floats) -> Floats:
        """The mean."""
        return LINKS[self.link].mean(eta[:, 0])

    @property
    def uneven(self) -> bool:
        """When ``quasi``."""
        return self.quasi

    def distribution(self, eta: Floats, dispersion: float | Floats) -> Distribution:
        """Poisson; negative binomial with the same variance when ``quasi`` finds more than that in any row."""
        mu = self.mean(eta)
        if self.quasi and np.max(dispersion, initial=0.0) > 1.0 + 1e-6:
            above = np.maximum(dispersion, 1.0 + 1e-6)
            return of_scipy(stats.nbinom(mu / (above - 1.0), 1.0 / above))
        return of_scipy(stats.poisson(mu))

    def guess(self, y: Floats, weight: Floats) -> Floats:
        """The link of the mean."""
        mean = float(weight @ y / weight.sum())
        return LINKS[self.link].eta(np.array([max(mean, np.finfo(float).tiny)]))

    def floor(self, y: Floats) -> Floats:
        """At ``mu = y``."""
        return np.asarray(y - xlogy(y, y))

    def check(self, y: Floats) -> None:
        """Counts that are all zero have no finite fit."""
        super().check(y)
        refuse_all_zero(self.name, y)


@dataclass(frozen=True)
class QuasiPoisson(Poisson):
    """``Poisson(quasi=True)`` by a name of its own: counts whose variance is a multiple of their mean.

    Parameters
    ----------
    link : str, default "log"
        As for ``Poisson``.
    quasi : bool, default True
        Whether the dispersion is estimated, as for ``Poisson``.

    Examples
    --------
    >>> from ahofm.families import find_family
    >>> find_family("quasi_poisson").dispersed
    True
    """

    quasi: bool = True
