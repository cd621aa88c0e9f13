"""Amounts that are often exactly zero: sums of a Poisson number of gamma amounts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize

from ahofm.columns.basis import Floats
from ahofm.families.distributions import CompoundPoisson, Distribution, log_density_of_tweedie
from ahofm.families.family import Family, RowLoss
from ahofm.families.links import LINKS, quiet
from ahofm.families.settings import check_between, filled_in
from ahofm.families.target import TargetRange, refuse_all_zero

_POWERS = (1.02, 1.98)
"""Between which powers are estimated."""

_PROFILED_ROWS = 1_000


@dataclass(frozen=True)
class Tweedie(Family):
    """Variance ``mu^power`` with the log link: ``mu^(2 - power) / (2 - power) + y mu^(1 - power) / (power - 1)``.

    Parameters
    ----------
    power : float, optional
        Between 1 (Poisson) and 2 (gamma). None estimates it by maximum likelihood given the means as
        ``solver="variational"`` goes on, from 1.5; other solvers leave it there.
    open : bool
        Whether ``power`` is an estimate, to be estimated again.

    References
    ----------
    Jørgensen, B. (1987). Exponential dispersion models. JRSS B 49.
    Dunn, P. K., Smyth, G. K. (2005). Series evaluation of Tweedie exponential dispersion model densities. Statistics
    and Computing 15.

    Examples
    --------
    >>> from ahofm.families import Tweedie
    >>> claims = rng.poisson(np.exp(X.wind))
    >>> amounts = np.array([rng.gamma(2.0, 1.0, count).sum() for count in claims])  # many zeros
    >>> total = AHOFMRegressor(family=Tweedie(power=1.3), order=1, random_state=0).fit(X, amounts)
    >>> bool(total.predict(X).min() > 0)
    True
    """

    power: float | None = 1.5
    open: bool = field(default=False, repr=False)

    target: ClassVar[TargetRange] = TargetRange(low=0.0, low_included=True)

    def __post_init__(self) -> None:
        """Refuse other powers."""
        if self.power is not None:
            check_between(self.name, "power", self.power, 1.0, high=2.0, remedy="1 is Poisson(), 2 is Gamma()")

    @property
    def dispersed(self) -> bool:
        """The dispersion is estimated."""
        return True

    @property
    def logarithmic(self) -> bool:
        """Always."""
        return True

    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """``(exp(a eta) - 1) / a + y (exp(-b eta) - 1) / b`` with ``a = 2 - power``, ``b = power - 1``.

        The ones are free of eta and keep digits where a or b is small.
        """
        one, power = eta[:, 0], filled_in(self.name, "power", self.power)
        a, b = 2.0 - power, power - 1.0
        with quiet():
            up, down = np.exp(a * one), _times(y, np.exp(-b * one))
            value = np.expm1(a * one) / a + _times(y, np.expm1(-b * one) / b)
            g, h = up - down, a * up + b * down
        g = np.where(np.isfinite(value), g, 0.0)
        return value, g[:, np.newaxis], h[:, np.newaxis]

    def mean(self, eta: Floats) -> Floats:
        """The mean."""
        return LINKS["log"].mean(eta[:, 0])

    def distribution(self, eta: Floats, dispersion: float) -> Distribution:
        """A Poisson number of gamma amounts."""
        return CompoundPoisson(self.mean(eta), dispersion, filled_in(self.name, "power", self.power))

    def guess(self, y: Floats, weight: Floats) -> Floats:
        """The logarithm of the mean."""
        mean = float(weight @ y / weight.sum())
        return LINKS["log"].eta(np.array([max(mean, np.finfo(float).tiny)]))

    def floor(self, y: Floats) -> Floats:
        """At ``mu = y``."""
        with quiet():
            return self.loss(y, np.log(y)[:, np.newaxis])[0]

    def pearson(self, y: Floats, eta: Floats) -> Floats:
        """``(y - mu)^2 / mu^power``."""
        mu = self.mean(eta)
        with quiet():
            return np.asarray(np.where(y == mu, 0.0, (y - mu) ** 2 / mu ** filled_in(self.name, "power", self.power)))

    def filled(self, y: Floats, weight: Floats) -> Tweedie:
        """With a power to begin with."""
        del y, weight
        return self if self.power is not None else replace(self, power=1.5, open=True)

    def learned(self, y: Floats, eta: Floats, weight: Floats) -> Tweedie:
        """With the most likely power given the means, when it is open. Many rows are thinned."""
        if not self.open:
            return self
        some = slice(None, None, max(len(y) // _PROFILED_ROWS, 1))
        y, eta, weight = y[some], eta[some], weight[some]
        mu = np.clip(self.mean(eta), 1e-300, 1e300)

        def loss(point: Floats) -> float:
            return -float(weight @ log_density_of_tweedie(y, mu, float(np.exp(point[1])), float(point[0])))

        power = filled_in(self.name, "power", self.power)
        phi = float(np.average((y - mu) ** 2 / mu**power, weights=weight))
        found = minimize(
            loss,
            [power, np.log(phi)],
            method="Nelder-Mead",
            bounds=[_POWERS, (None, None)],
            options={"xatol": 5e-3, "fatol": 1e-2},
        )
        return replace(self, power=float(found.x[0]))

    def check(self, y: Floats) -> None:
        """Amounts that are all zero have no finite fit."""
        super().check(y)
        refuse_all_zero(self.name, y)


def _times(y: Floats, factor: Floats) -> Floats:
    """``y factor``, and zero for ``y = 0`` where the factor is infinite."""
    return np.asarray(np.where(y > 0, y * factor, 0.0))
