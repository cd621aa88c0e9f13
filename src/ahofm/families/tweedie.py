"""Amounts that are often exactly zero: sums of a Poisson number of gamma amounts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.families.family import Family, RowLoss
from ahofm.families.links import LINKS, quiet
from ahofm.families.settings import check_between
from ahofm.families.target import TargetRange, refuse_all_zero


@dataclass(frozen=True)
class Tweedie(Family):
    """Variance ``mu^power`` with the log link: ``mu^(2 - power) / (2 - power) + y mu^(1 - power) / (power - 1)``.

    Parameters
    ----------
    power : float
        Between 1 (Poisson) and 2 (gamma).

    References
    ----------
    Jørgensen, B. (1987). Exponential dispersion models. JRSS B 49.
    """

    power: float = 1.5

    target: ClassVar[TargetRange] = TargetRange(low=0.0, low_included=True)

    def __post_init__(self) -> None:
        """Refuse other powers."""
        check_between(self.name, "power", self.power, 1.0, high=2.0, remedy="1 is Poisson(), 2 is Gamma()")

    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """``(exp(a eta) - 1) / a + y (exp(-b eta) - 1) / b`` with ``a = 2 - power``, ``b = power - 1``.

        The ones are free of eta and keep digits where a or b is small.
        """
        one = eta[:, 0]
        a, b = 2.0 - self.power, self.power - 1.0
        with quiet():
            up, down = np.exp(a * one), _times(y, np.exp(-b * one))
            value = np.expm1(a * one) / a + _times(y, np.expm1(-b * one) / b)
            g, h = up - down, a * up + b * down
        g = np.where(np.isfinite(value), g, 0.0)
        return value, g[:, np.newaxis], h[:, np.newaxis]

    def mean(self, eta: Floats) -> Floats:
        """The mean."""
        return LINKS["log"].mean(eta[:, 0])

    def guess(self, y: Floats, weight: Floats) -> Floats:
        """The logarithm of the mean."""
        mean = float(weight @ y / weight.sum())
        return LINKS["log"].eta(np.array([max(mean, np.finfo(float).tiny)]))

    def floor(self, y: Floats) -> Floats:
        """At ``mu = y``."""
        with quiet():
            return self.loss(y, np.log(y)[:, np.newaxis])[0]

    def check(self, y: Floats) -> None:
        """Amounts that are all zero have no finite fit."""
        super().check(y)
        refuse_all_zero(self.name, y)


def _times(y: Floats, factor: Floats) -> Floats:
    """``y factor``, and zero for ``y = 0`` where the factor is infinite."""
    return np.asarray(np.where(y > 0, y * factor, 0.0))
