"""Least squares: numbers with errors of equal variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import stats

from ahofm.columns.basis import Floats
from ahofm.families.distributions import Distribution, of_scipy
from ahofm.families.family import Family, RowLoss
from ahofm.families.links import LINKS, chain, check_link, quiet
from ahofm.families.target import TargetRange, refuse_all_zero
from ahofm.families.traits import Curvature
from ahofm.families.units import Units, location_units
from ahofm.kernels import LOSSES


@dataclass(frozen=True)
class Gaussian(Family):
    """Half the squared residual, ``(y - mu)^2 / 2``.

    Parameters
    ----------
    link : "identity", "log" or "inverse"
    """

    link: str = "identity"

    target: ClassVar[TargetRange] = TargetRange()

    def __post_init__(self) -> None:
        """Refuse links it does not have."""
        check_link(self.link, ("identity", "log", "inverse"), self.name)

    @property
    def builtin(self) -> str | None:
        """The kernel has the identity link."""
        return "gaussian" if self.link == "identity" else None

    @property
    def curvature(self) -> Curvature:
        """Convex with the identity link only."""
        return "second derivative" if self.link == "identity" else "expectation"

    @property
    def logarithmic(self) -> bool:
        """With the log link."""
        return self.link == "log"

    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """``(y - mu)^2 / 2``; the expected curvature is the squared slope of the link."""
        if self.link == "identity":
            with quiet():
                return LOSSES["gaussian"](y, eta)
        return chain(LINKS[self.link], eta, lambda mu: (0.5 * (mu - y) ** 2, mu - y, np.ones_like(mu)), expected=True)

    @property
    def dispersed(self) -> bool:
        """The variance is estimated."""
        return True

    def pearson(self, y: Floats, eta: Floats) -> Floats:
        """The squared residual."""
        with quiet():
            return np.asarray((y - self.mean(eta)) ** 2)

    def mean(self, eta: Floats) -> Floats:
        """The mean."""
        return LINKS[self.link].mean(eta[:, 0])

    @property
    def uneven(self) -> bool:
        """With the identity link."""
        return self.link == "identity"

    def distribution(self, eta: Floats, dispersion: float | Floats) -> Distribution:
        """Normal."""
        return of_scipy(stats.norm(self.mean(eta), np.sqrt(dispersion)))

    def guess(self, y: Floats, weight: Floats) -> Floats:
        """The link of the mean, or of a small positive number when the link needs one."""
        mean = float(weight @ y / weight.sum())
        if self.link != "identity":
            mean = max(mean, 1e-3 * float(np.abs(y).max()) or 1.0)
        return LINKS[self.link].eta(np.array([mean]))

    def standardised(self, y: Floats, weight: Floats) -> tuple[Family, Units]:
        """Mean 0 and standard deviation 1 with the identity link."""
        return (self, location_units(y, weight)) if self.link == "identity" else super().standardised(y, weight)

    def check(self, y: Floats) -> None:
        """A link with positive means has no finite fit to targets that are not."""
        super().check(y)
        if self.link != "identity":
            refuse_all_zero(f"{self.name}(link={self.link!r})", y)
