"""Two outcomes, or shares of two outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import stats
from scipy.special import entr

from ahofm.columns.basis import Floats
from ahofm.families.distributions import Distribution, of_scipy
from ahofm.families.family import Family, RowLoss
from ahofm.families.links import LINKS
from ahofm.families.target import TargetRange
from ahofm.kernels import LOSSES


@dataclass(frozen=True)
class Bernoulli(Family):
    """``-y log mu - (1 - y) log(1 - mu)`` with the logit link.

    Targets are 0 and 1, or shares of successes with the numbers of trials as weights: the binomial family.

    Parameters
    ----------
    quasi : bool
        Whether the variance is a multiple of the binomial one, by a dispersion that is estimated: trials that go
        together.

    Examples
    --------
    >>> trials = rng.integers(1, 20, 300)
    >>> share = rng.binomial(trials, 1 / (1 + np.exp(-2 * X.wind))) / trials
    >>> chance = AHOFMRegressor(family="binomial", order=1, random_state=0).fit(X, share, sample_weight=trials)
    >>> bool(np.all((chance.predict(X) > 0) & (chance.predict(X) < 1)))
    True
    """

    quasi: bool = False

    target: ClassVar[TargetRange] = TargetRange(0.0, 1.0, low_included=True, high_included=True)
    builtin: ClassVar[str] = "bernoulli"

    @property
    def logarithmic(self) -> bool:
        """Always."""
        return True

    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """``log(1 + exp(eta)) - y eta``."""
        return LOSSES["bernoulli"](y, eta)

    @property
    def dispersed(self) -> bool:
        """When ``quasi``."""
        return self.quasi

    @property
    def if_overdispersed(self) -> str | None:
        """Unless ``quasi``."""
        return None if self.quasi else "family='quasi_binomial'"

    def majorant(self, eta: Floats, variance: Floats) -> Floats:
        """``tanh(xi / 2) / (2 xi)`` with ``xi^2 = eta^2 + variance``, the bound of Jaakkola and Jordan (2000)."""
        return logistic_bound(eta**2 + variance)

    def mean(self, eta: Floats) -> Floats:
        """The probability of 1."""
        return LINKS["logit"].mean(eta[:, 0])

    def distribution(self, eta: Floats, dispersion: float) -> Distribution:
        """Bernoulli: a share of successes has no distribution without its number of trials."""
        del dispersion
        return of_scipy(stats.bernoulli(self.mean(eta)))

    def guess(self, y: Floats, weight: Floats) -> Floats:
        """The logit of the mean."""
        mean = float(weight @ y / weight.sum())
        return LINKS["logit"].eta(np.array([min(max(mean, 1e-15), 1.0 - 1e-15)]))

    def floor(self, y: Floats) -> Floats:
        """At ``mu = y``: zero for 0 and 1, the entropy for shares."""
        return np.asarray(entr(y) + entr(1.0 - y))

    def check(self, y: Floats) -> None:
        """One class only has no finite fit."""
        super().check(y)
        for value in (0.0, 1.0):
            if (y == value).all():
                raise ValueError(f"y is {value:g} in every row: one class only; {self.name} needs both")


@dataclass(frozen=True)
class QuasiBinomial(Bernoulli):
    """``Bernoulli(quasi=True)`` by a name of its own: shares of successes that vary more than independent trials.

    Parameters
    ----------
    quasi : bool, default True
        Whether the dispersion is estimated, as for ``Bernoulli``.

    Examples
    --------
    >>> from ahofm.families import find_family
    >>> find_family("quasi_binomial").dispersed
    True
    """

    quasi: bool = True


def logistic_bound(square: Floats) -> Floats:
    """Curvature of the quadratic majorant of ``log(1 + exp(xi))`` at +-xi (Jaakkola and Jordan), from ``xi^2``."""
    half = 0.5 * np.sqrt(square)
    return np.asarray(np.where(half < 1e-4, 0.25, 0.25 * np.tanh(half) / np.maximum(half, 1e-4)))
