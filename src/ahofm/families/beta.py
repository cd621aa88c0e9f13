"""Shares between 0 and 1 that are no shares of trials."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import betaln, digamma, expit, logit, polygamma

from ahofm.columns.basis import Floats
from ahofm.families.distributions import Distribution, of_scipy
from ahofm.families.family import Family, RowLoss
from ahofm.families.links import LINKS, quiet
from ahofm.families.settings import check_between, filled_in
from ahofm.families.target import TargetRange
from ahofm.families.traits import Curvature

_PRECISIONS = (1e-2, 1e6)
"""Between which precisions are estimated."""

_EDGE = 1e-12
"""Means are at least so far from 0 and 1: beyond, functions of shares overflow."""


@dataclass(frozen=True)
class Beta(Family):
    """Beta distribution with mean mu and variance ``mu (1 - mu) / (1 + precision)``, with the logit link.

    Parameters
    ----------
    precision : float, optional
        None estimates it by maximum likelihood given the means as ``solver="variational"`` goes on, from the moments of
        the target.
    open : bool
        Whether ``precision`` is an estimate, to be estimated again.

    References
    ----------
    Ferrari, S., Cribari-Neto, F. (2004). Beta regression for modelling rates and proportions. J. Applied Statistics 31.

    Examples
    --------
    >>> mu = 1 / (1 + np.exp(-X.wind))
    >>> cover = rng.beta(20 * mu, 20 * (1 - mu))
    >>> shares = AHOFMRegressor(family="beta", order=1, random_state=0).fit(X, cover)
    >>> 14 < shares.model_.family.precision < 28
    True
    """

    precision: float | None = None
    open: bool = field(default=False, repr=False)

    target: ClassVar[TargetRange] = TargetRange(0.0, 1.0)

    def __post_init__(self) -> None:
        """Refuse what is no precision."""
        if self.precision is not None:
            check_between(self.name, "precision", self.precision, 0.0, remedy="leave it out to have it estimated")

    @property
    def curvature(self) -> Curvature:
        """The Fisher information."""
        return "expectation"

    @property
    def logarithmic(self) -> bool:
        """Linear predictors are logarithms of odds."""
        return True

    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """``log B(a, b) - a log y - b log(1 - y)`` with ``a = precision mu``, ``b = precision (1 - mu)``."""
        precision = filled_in(self.name, "precision", self.precision)
        one = eta[:, 0].astype(np.float64)
        p, q = np.maximum(expit(one), _EDGE), np.maximum(expit(-one), _EDGE)
        a, b, slope = precision * p, precision * q, expit(one) * expit(-one)
        with quiet():
            logs = np.log(y), np.log1p(-y)
            value = betaln(a, b) - a * logs[0] - b * logs[1]
            g = precision * slope * (digamma(a) - digamma(b) - logs[0] + logs[1])
            h = (precision * slope) ** 2 * (polygamma(1, a) + polygamma(1, b))
        return value, g[:, np.newaxis], h[:, np.newaxis]

    def pearson(self, y: Floats, eta: Floats) -> Floats:
        """``(y - mu)^2 (1 + precision) / (mu (1 - mu))``."""
        mu, precision = self.mean(eta), filled_in(self.name, "precision", self.precision)
        with quiet():
            return np.asarray(np.where(y == mu, 0.0, (y - mu) ** 2 * (1.0 + precision) / (mu * (1.0 - mu))))

    def mean(self, eta: Floats) -> Floats:
        """The mean."""
        return LINKS["logit"].mean(eta[:, 0])

    def distribution(self, eta: Floats, dispersion: float) -> Distribution:
        """Beta."""
        del dispersion
        precision, mu = filled_in(self.name, "precision", self.precision), np.clip(self.mean(eta), _EDGE, 1.0 - _EDGE)
        return of_scipy(stats.beta(precision * mu, precision * (1.0 - mu)))

    def guess(self, y: Floats, weight: Floats) -> Floats:
        """The logit of the mean."""
        return np.array([float(logit(np.clip(weight @ y / weight.sum(), _EDGE, 1.0 - _EDGE)))])

    def floor(self, y: Floats) -> Floats:
        """At the linear predictor that fits a single target best, by Newton steps."""
        eta = np.asarray(logit(np.clip(y, _EDGE, 1.0 - _EDGE)))[:, np.newaxis]
        for _ in range(50):
            _, g, h = self.loss(y, eta)
            step = np.clip(g / np.maximum(h, 1e-12), -1.0, 1.0)
            eta = eta - step
            if not np.abs(step).max(initial=0.0) > 1e-10:
                break
        return self.loss(y, eta)[0]

    def filled(self, y: Floats, weight: Floats) -> Beta:
        """With a precision from the mean and the variance of the target."""
        if self.precision is not None:
            return self
        mean = float(np.average(y, weights=weight))
        variance = max(float(np.average((y - mean) ** 2, weights=weight)), 1e-12)
        return replace(self, precision=float(np.clip(mean * (1.0 - mean) / variance - 1.0, *_PRECISIONS)), open=True)

    def learned(self, y: Floats, eta: Floats, weight: Floats) -> Beta:
        """With the most likely precision given the means, when it is open."""
        if not self.open:
            return self

        def loss(log_precision: float) -> float:
            value = float(weight @ replace(self, precision=float(np.exp(log_precision))).loss(y, eta)[0])
            return value if np.isfinite(value) else 1e300

        found = minimize_scalar(loss, bounds=np.log(_PRECISIONS), method="bounded", options={"xatol": 1e-4})
        return replace(self, precision=float(np.exp(found.x)))
