"""Counts that vary more than their mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from ahofm.columns.basis import Floats
from ahofm.families.family import Family, RowLoss
from ahofm.families.links import LINKS, quiet
from ahofm.families.settings import check_between
from ahofm.families.target import TargetRange, refuse_all_zero


@dataclass(frozen=True)
class NegativeBinomial(Family):
    """Variance ``mu + mu^2 / size`` with the log link: ``(y + size) log(size + mu) - y log mu``.

    Parameters
    ----------
    size : float
        Positive and known; the larger, the closer to Poisson.
    """

    size: float = 1.0

    target: ClassVar[TargetRange] = TargetRange(low=0.0, low_included=True)

    def __post_init__(self) -> None:
        """Refuse what is no size."""
        check_between(self.name, "size", self.size, 0.0, remedy="counts that vary as their mean are Poisson()")

    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """``size log(1 + exp(t)) + y log(1 + exp(-t))`` with ``t = eta - log(size)``: two positive terms."""
        t = eta[:, 0] - float(np.log(self.size))
        up, down = expit(t), expit(-t)
        with quiet():
            value = self.size * np.logaddexp(0.0, t) + y * np.logaddexp(0.0, -t)
            g, h = self.size * up - y * down, (y + self.size) * up * down
        return value, g[:, np.newaxis], h[:, np.newaxis]

    def mean(self, eta: Floats) -> Floats:
        """The mean."""
        return LINKS["log"].mean(eta[:, 0])

    def guess(self, y: Floats, weight: Floats) -> Floats:
        """The logarithm of the mean."""
        mean = float(weight @ y / weight.sum())
        return LINKS["log"].eta(np.array([max(mean, np.finfo(float).tiny)]))

    def floor(self, y: Floats) -> Floats:
        """At ``mu = y``; zero for 0."""
        with quiet():
            t = np.log(y) - float(np.log(self.size))
            value = self.size * np.logaddexp(0.0, t) + np.where(y > 0, y * np.logaddexp(0.0, -t), 0.0)
        return np.asarray(value)

    def check(self, y: Floats) -> None:
        """Counts that are all zero have no finite fit."""
        super().check(y)
        refuse_all_zero(self.name, y)
