"""Counts that vary more than their mean."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import expit, gammaln

from ahofm.columns.basis import Floats
from ahofm.families.distributions import Distribution, of_scipy
from ahofm.families.family import Family, RowLoss
from ahofm.families.links import LINKS, quiet
from ahofm.families.settings import check_between, filled_in
from ahofm.families.target import TargetRange, refuse_all_zero

_SIZES = (1e-3, 1e5)
"""Between which sizes are estimated; beyond, counts are all but Poisson."""


@dataclass(frozen=True)
class NegativeBinomial(Family):
    """Variance ``mu + mu^2 / size`` with the log link: ``(y + size) log(size + mu) - y log mu``.

    Parameters
    ----------
    size : float, optional
        Positive; the larger, the closer to Poisson. None estimates it: from the moments of the target before a fit, and
        by maximum likelihood given the means as ``solver="variational"`` goes on.
    open : bool
        Whether ``size`` is an estimate, to be estimated again.

    Examples
    --------
    >>> mean = np.exp(1 + X.wind)
    >>> counts = rng.negative_binomial(2.0, 2.0 / (2.0 + mean))
    >>> spread = AHOFMRegressor(family="negative_binomial", order=1, random_state=0).fit(X, counts)
    >>> 1.0 < spread.model_.family.size < 4.0  # it was 2
    True
    """

    size: float | None = None
    open: bool = field(default=False, repr=False)

    target: ClassVar[TargetRange] = TargetRange(low=0.0, low_included=True, whole=True)

    def __post_init__(self) -> None:
        """Refuse what is no size."""
        if self.size is not None:
            check_between(self.name, "size", self.size, 0.0, remedy="counts that vary as their mean are Poisson()")

    @property
    def logarithmic(self) -> bool:
        """Always."""
        return True

    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """``size log(1 + exp(t)) + y log(1 + exp(-t))`` with ``t = eta - log(size)``: two positive terms."""
        size = filled_in(self.name, "size", self.size)
        t = eta[:, 0] - float(np.log(size))
        up, down = expit(t), expit(-t)
        with quiet():
            value = size * np.logaddexp(0.0, t) + y * np.logaddexp(0.0, -t)
            g, h = size * up - y * down, (y + size) * up * down
        return value, g[:, np.newaxis], h[:, np.newaxis]

    @property
    def if_overdispersed(self) -> str | None:
        """Where the size was given, it may be wrong."""
        return "family='quasi_poisson'" if self.open else "NegativeBinomial() without a size, or family='quasi_poisson'"

    def pearson(self, y: Floats, eta: Floats) -> Floats:
        """``(y - mu)^2 / (mu + mu^2 / size)``."""
        mu, size = self.mean(eta), filled_in(self.name, "size", self.size)
        with quiet():
            return np.asarray(np.where(y == mu, 0.0, (y - mu) ** 2 / (mu + mu**2 / size)))

    def mean(self, eta: Floats) -> Floats:
        """The mean."""
        return LINKS["log"].mean(eta[:, 0])

    def distribution(self, eta: Floats, dispersion: float) -> Distribution:
        """Negative binomial."""
        del dispersion
        size, mu = filled_in(self.name, "size", self.size), self.mean(eta)
        return of_scipy(stats.nbinom(size, size / (size + mu)))

    def guess(self, y: Floats, weight: Floats) -> Floats:
        """The logarithm of the mean."""
        mean = float(weight @ y / weight.sum())
        return LINKS["log"].eta(np.array([max(mean, np.finfo(float).tiny)]))

    def floor(self, y: Floats) -> Floats:
        """At ``mu = y``; zero for 0."""
        size = filled_in(self.name, "size", self.size)
        with quiet():
            t = np.log(y) - float(np.log(size))
            value = size * np.logaddexp(0.0, t) + np.where(y > 0, y * np.logaddexp(0.0, -t), 0.0)
        return np.asarray(value)

    def filled(self, y: Floats, weight: Floats) -> NegativeBinomial:
        """With a size from the mean and the variance of the target."""
        if self.size is not None:
            return self
        mean = float(np.average(y, weights=weight))
        beyond = float(np.average((y - mean) ** 2, weights=weight)) - mean
        size = float(np.clip(mean**2 / max(beyond, 1e-12), *_SIZES))
        return replace(self, size=size, open=True)

    def learned(self, y: Floats, eta: Floats, weight: Floats) -> NegativeBinomial:
        """With the most likely size given the means, when it is open."""
        if not self.open:
            return self
        mu = np.clip(self.mean(eta), 1e-300, 1e300)

        def loss(log_size: float) -> float:
            size = float(np.exp(log_size))
            t = np.log(mu) - log_size
            value = size * np.logaddexp(0.0, t) + y * np.logaddexp(0.0, -t)
            return float(weight @ (value - gammaln(y + size) + gammaln(size)))

        found = minimize_scalar(loss, bounds=np.log(_SIZES), method="bounded", options={"xatol": 1e-4})
        return replace(self, size=float(np.exp(found.x)))

    def check(self, y: Floats) -> None:
        """Counts that are all zero have no finite fit."""
        super().check(y)
        refuse_all_zero(self.name, y)
