"""Counts with more zeros than a Poisson distribution has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from ahofm.columns.basis import Floats
from ahofm.families.distributions import Distribution, InflatedPoisson
from ahofm.families.family import Family, RowLoss
from ahofm.families.links import LINKS, quiet
from ahofm.families.target import TargetRange, refuse_all_zero
from ahofm.families.traits import Curvature


@dataclass(frozen=True)
class ZeroInflatedPoisson(Family):
    """Zero with probability ``p = 1 / (1 + exp(-eta_2))``, and else a Poisson count of mean ``exp(eta_1)``.

    h is the diagonal of the Fisher information: the second derivative is negative where a zero is likely to be one of
    the Poisson distribution. An offset of one column, such as a logarithm of exposures, goes to the count.

    References
    ----------
    Lambert, D. (1992). Zero-inflated Poisson regression, with an application to defects in manufacturing. Technometrics
    34.

    Examples
    --------
    >>> counts = np.where(rng.random(300) < 0.3, 0, rng.poisson(np.exp(1 + X.wind)))
    >>> inflated = AHOFMRegressor(family="zero_inflated_poisson", order=1, random_state=0).fit(X, counts)
    >>> inflated.predict_eta(X).shape
    (300, 2)
    """

    target: ClassVar[TargetRange] = TargetRange(low=0.0, low_included=True, whole=True)

    @property
    def n_eta(self) -> int:
        """Logarithm of the count's mean, and logit of the probability of a zero."""
        return 2

    @property
    def curvature(self) -> Curvature:
        """See the class."""
        return "expectation"

    @property
    def logarithmic(self) -> bool:
        """Logarithms of means and of odds."""
        return True

    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """``-log(p + (1 - p) exp(-mu))`` for zeros, ``mu - y log mu - log(1 - p)`` for the others."""
        zero = y == 0
        with quiet():
            log_mu, mu = eta[:, 0], np.exp(eta[:, 0])
            p, q = expit(eta[:, 1]), expit(-eta[:, 1])
            of_zero = np.logaddexp(-np.logaddexp(0.0, -eta[:, 1]), -np.logaddexp(0.0, eta[:, 1]) - mu)  # log P(0)
            log_q = -np.logaddexp(0.0, eta[:, 1])
            counted = np.where(np.isfinite(mu), mu - np.where(zero, 0.0, y * log_mu), np.inf)
            value = np.where(zero, -of_zero, counted - log_q)
            share = np.exp(np.minimum(log_q - mu - of_zero, 0.0))  # of the Poisson zeros among zeros
            first = np.where(share > 0.0, share * mu, 0.0)
            nothing = np.exp(-mu)
            second = -(1.0 - share) * q * (1.0 - nothing)
            g = np.stack([np.where(zero, first, mu - y), np.where(zero, second, p)], axis=1)
            bare = np.where(nothing > 0.0, mu**2 * nothing, 0.0)
            inside = np.maximum(np.where(np.isfinite(mu), mu - bare, np.inf), 0.0)
            h_count = np.exp(of_zero) * first**2 + np.where(q > 0.0, q * inside, 0.0)
            h_zero = np.exp(of_zero) * second**2 + q * (1.0 - nothing) * p**2
            h = np.stack([h_count, h_zero], axis=1)
        g = np.where(np.isfinite(value)[:, np.newaxis] & ~np.isnan(g), g, 0.0)
        return value, g, np.where(np.isnan(h), 0.0, np.maximum(h, 0.0))

    def mean(self, eta: Floats) -> Floats:
        """``(1 - p) exp(eta_1)``."""
        with quiet():
            return np.asarray(np.exp(eta[:, 0] - np.logaddexp(0.0, eta[:, 1])))

    def distribution(self, eta: Floats, dispersion: float) -> Distribution:
        """Zeros, and Poisson counts."""
        del dispersion
        return InflatedPoisson(LINKS["log"].mean(eta[:, 0]), expit(eta[:, 1]))

    def guess(self, y: Floats, weight: Floats) -> Floats:
        """From the mean of counts that are not zero, and the share of zeros."""
        positive = y > 0
        share = float(weight @ positive / weight.sum())
        mean = float(weight[positive] @ y[positive] / weight[positive].sum()) if positive.any() else 1.0
        rate = brentq(lambda mu: mu / -np.expm1(-mu) - mean, 1e-9, mean + 1.0) if mean > 1.0 + 1e-8 else 0.05
        extra = float(np.clip(1.0 - share / -np.expm1(-rate), 0.02, 0.98))
        return np.array([float(np.log(rate)), float(logit(extra))])

    def floor(self, y: Floats) -> Floats:
        """At ``mu = y`` without further zeros; zero for 0."""
        with quiet():
            return np.where(y > 0, y - y * np.log(y), 0.0)

    def check(self, y: Floats) -> None:
        """Counts that are all zero have no finite fit, and without any zero there is nothing to inflate."""
        super().check(y)
        refuse_all_zero(self.name, y)
        if not (y == 0).any():
            raise ValueError(f"y has no zero; {self.name} is for counts with many: use family='poisson'")
