"""Numbers whose mean and standard deviation both depend on the columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import stats

from ahofm.columns.basis import Floats
from ahofm.families.distributions import Distribution, of_scipy
from ahofm.families.family import Family, RowLoss
from ahofm.families.links import LINKS, quiet
from ahofm.families.target import TargetRange
from ahofm.families.traits import Curvature
from ahofm.families.units import Units, location_units


@dataclass(frozen=True)
class GaussianLocationScale(Family):
    """``eta_2 + (y - eta_1)^2 exp(-2 eta_2) / 2``: the first linear predictor is the mean, the second the log of the
    standard deviation.

    h is the Fisher information ``(exp(-2 eta_2), 2)``. It has no cross term, so that its diagonal is all of it, whereas
    the second derivative by eta_2 vanishes where residuals do and the loss is not convex in both together.

    References
    ----------
    Rigby, R. A., Stasinopoulos, D. M. (2005). Generalized additive models for location, scale and shape. JRSS C 54.

    Examples
    --------
    >>> noisy = X.wind + np.exp(X.rain) * rng.normal(size=300)
    >>> both = AHOFMRegressor(family="gaussian_location_scale", order=1, random_state=0).fit(X, noisy)
    >>> low, high = both.predict_interval(X, kind="new").T
    >>> bool(np.corrcoef(high - low, np.exp(X.rain))[0, 1] > 0.9)
    True
    """

    target: ClassVar[TargetRange] = TargetRange()

    @property
    def n_eta(self) -> int:
        """Mean and log standard deviation."""
        return 2

    @property
    def curvature(self) -> Curvature:
        """See the class."""
        return "expectation"

    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """``eta_2 + z^2 / 2`` with ``z = (y - eta_1) exp(-eta_2)``."""
        with quiet():
            precision = np.exp(-eta[:, 1])
            r = y - eta[:, 0]
            z = np.where(r == 0, 0.0, r * precision)  # infinite times nothing is nothing
            slope = np.where(z == 0, 0.0, z * precision)
            value = eta[:, 1] + 0.5 * z**2
            g = np.stack([-slope, 1.0 - z**2], axis=1)
            h = np.stack([precision**2, np.full_like(z, 2.0)], axis=1)
        return value, g, h

    def expected(self, y: Floats, eta: Floats, variance: Floats) -> RowLoss:
        """With the mean's variance added to the squared residual: a mean that follows its rows makes it too small."""
        value, g, h = self.loss(y, eta)
        with quiet():
            more = np.where(variance[:, 0] == 0, 0.0, variance[:, 0] * h[:, 0])
            g[:, 1] -= more
            return value + 0.5 * more, g, h

    def mean(self, eta: Floats) -> Floats:
        """The mean."""
        return eta[:, 0]

    def scale(self, eta: Floats) -> Floats:
        """Compute the standard deviation of new targets.

        Parameters
        ----------
        eta : array of shape (n, 2)
            Linear predictors of location and scale.

        Returns
        -------
        array of shape (n,)
            Standard deviations.
        """
        return LINKS["log"].mean(eta[:, 1])

    def distribution(self, eta: Floats, dispersion: float) -> Distribution:
        """Normal."""
        del dispersion
        return of_scipy(stats.norm(eta[:, 0], self.scale(eta)))

    def guess(self, y: Floats, weight: Floats) -> Floats:
        """Mean and log standard deviation of the target."""
        units = location_units(y, weight)
        return np.array([units.centre, np.log(units.scale)])

    def floor(self, y: Floats) -> None:
        """None: a row with its mean right wants a standard deviation of zero."""
        del y

    def standardised(self, y: Floats, weight: Floats) -> tuple[Family, Units]:
        """Mean 0 and standard deviation 1: the log of the standard deviation shifts."""
        units = location_units(y, weight, n_eta=2)
        return self, replace(units, shift=(units.centre, float(np.log(units.scale))))

    def check(self, y: Floats) -> None:
        """Equal targets have no finite fit."""
        super().check(y)
        if len(y) and (y == y[0]).all():
            raise ValueError(f"y is {y[0]:g} in every row; {self.name} needs targets that differ")
