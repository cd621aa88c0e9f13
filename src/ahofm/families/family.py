"""What a family is: (y, eta) -> loss and its derivatives, row by row. Knows no columns, no codes, no coefficients.

A family has K linear predictors; eta is (n, K). Losses are negative log-likelihoods up to terms free of eta, with unit
dispersion, so that a weight multiplies a row's loss as if the row were there that often.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeAlias

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.families.distributions import Distribution
from ahofm.families.links import quiet
from ahofm.families.start import best_constant
from ahofm.families.traits import Traits
from ahofm.families.units import Units

RowLoss: TypeAlias = tuple[Floats, Floats, Floats]


class Family(Traits):
    """A distribution (or a robust stand-in for one) and its link. Subclasses are frozen dataclasses.

    A family of your own needs ``target``, ``loss``, ``mean`` and ``guess``, and ``n_eta`` when it has more
    than one linear predictor; the rest has defaults.
    """

    @abstractmethod
    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """Compute the loss of each row, its slope and its curvature.

        Infinite, never NaN, where the link has no value or the loss overflows.

        Parameters
        ----------
        y : array of shape (n,)
            Targets.
        eta : array of shape (n, K)
            Linear predictors.

        Returns
        -------
        loss : array of shape (n,)
            Losses.
        g : array of shape (n, K)
            Slopes by each linear predictor.
        h : array of shape (n, K)
            Curvatures, not negative.
        """

    def expected(self, y: Floats, eta: Floats, variance: Floats) -> RowLoss:
        """Compute the same where linear predictors are uncertain, for a family that must not overlook that.

        A family with a linear predictor of the standard deviation must not: a mean that is fitted closely but is
        uncertain would make it zero.

        Parameters
        ----------
        y : array of shape (n,)
            Targets.
        eta : array of shape (n, K)
            Linear predictors.
        variance : array of shape (n, K)
            Variances of the linear predictors.

        Returns
        -------
        loss : array of shape (n,)
            Losses.
        g : array of shape (n, K)
            Slopes by each linear predictor.
        h : array of shape (n, K)
            Curvatures, not negative.
        """
        del variance
        return self.loss(y, eta)

    @abstractmethod
    def mean(self, eta: Floats) -> Floats:
        """Compute what is predicted.

        Parameters
        ----------
        eta : array of shape (n, K)
            Linear predictors.

        Returns
        -------
        array of shape (n,), or (n, K) probabilities
            Means.
        """

    @abstractmethod
    def guess(self, y: Floats, weight: Floats) -> Floats:
        """Guess the linear predictors of a model without columns.

        Parameters
        ----------
        y : array of shape (n,)
            Targets.
        weight : array of shape (n,)
            Weights of the rows.

        Returns
        -------
        array of shape (K,)
            Linear predictors, near enough to start from.
        """

    def floor(self, y: Floats) -> Floats | None:
        """Compute the smallest loss that any linear predictor reaches.

        Parameters
        ----------
        y : array of shape (n,)
            Targets.

        Returns
        -------
        array of shape (n,), or None
            None when there is no smallest loss.
        """
        return np.zeros_like(y)

    def deviance(self, y: Floats, eta: Floats) -> Floats | None:
        """Compute twice the loss above its floor.

        Parameters
        ----------
        y : array of shape (n,)
            Targets.
        eta : array of shape (n, K)
            Linear predictors.

        Returns
        -------
        array of shape (n,), or None
            Not negative; None for a family without a floor.
        """
        floor = self.floor(y)
        return None if floor is None else 2.0 * np.maximum(self.loss(y, eta)[0] - floor, 0.0)

    def pearson(self, y: Floats, eta: Floats) -> Floats:
        """Compute squared residuals in units of the variance function.

        By default ``g^2 / h`` of the first linear predictor, which is right where h is the Fisher information.

        Parameters
        ----------
        y : array of shape (n,)
            Targets.
        eta : array of shape (n, K)
            Linear predictors.

        Returns
        -------
        array of shape (n,)
            Their mean estimates the dispersion.
        """
        _, g, h = self.loss(y, eta)
        with quiet():
            return np.asarray(np.where(g[:, 0] == 0, 0.0, g[:, 0] ** 2 / h[:, 0]))

    def majorant(self, eta: Floats, variance: Floats) -> Floats | None:
        """Compute curvatures of quadratic majorants of the loss, where ``h`` is not one already.

        Parameters
        ----------
        eta : array of shape (n, K)
            Linear predictors.
        variance : array of shape (n, K)
            Variances of the linear predictors.

        Returns
        -------
        array of shape (n, K), or None
            None when there is no such bound: steps are then halved where they must be.
        """
        del eta, variance
        return None

    def learned(self, y: Floats, eta: Floats, weight: Floats) -> Family:
        """Estimate parameters of the family itself, such as a shape or a power, where it has any open.

        Parameters
        ----------
        y : array of shape (n,)
            Targets.
        eta : array of shape (n, K)
            Linear predictors.
        weight : array of shape (n,)
            Weights of the rows.

        Returns
        -------
        Family
            The same family where it has no open parameters.
        """
        del y, eta, weight
        return self

    def distribution(self, eta: Floats, dispersion: float) -> Distribution:
        """Make the distribution of new targets.

        Parameters
        ----------
        eta : array of shape (n, K)
            Linear predictors.
        dispersion : float, or array of shape (n,) where it may be ``uneven``
            1 for families whose dispersion is known.

        Returns
        -------
        Distribution
            Of n targets: ``cdf``, ``rvs`` and a density, as those of SciPy.
        """
        raise NotImplementedError(f"{self.name} does not say how its targets are distributed: give it `distribution`")

    def filled(self, y: Floats, weight: Floats) -> Family:
        """Fill in settings that were left open, from the target.

        Parameters
        ----------
        y : array of shape (n,)
            Targets.
        weight : array of shape (n,)
            Weights of the rows.

        Returns
        -------
        Family
            In the units of the target.
        """
        del y, weight
        return self

    def standardised(self, y: Floats, weight: Floats) -> tuple[Family, Units]:
        """Choose the units to fit in.

        Parameters
        ----------
        y : array of shape (n,)
            Targets.
        weight : array of shape (n,)
            Weights of the rows.

        Returns
        -------
        family : Family
            Filled in, in those units.
        units : Units
            The units to fit in.
        """
        return self.filled(y, weight), Units.unchanged(self.n_eta)

    def check(self, y: Floats) -> None:
        """Check the target.

        Parameters
        ----------
        y : array of shape (n,)
            Targets.

        Raises
        ------
        ValueError
            When the family cannot be fitted to these targets.
        """
        if np.isnan(y).any():
            raise ValueError(f"y is NaN in row {np.flatnonzero(np.isnan(y))[0]}; drop rows without a target")
        bad = np.flatnonzero(~self.target.includes(y))
        if len(bad):
            raise ValueError(
                f"y must hold {self.target} for {self.name}, got {y[bad[0]]:g} in row {bad[0]}"
                + (f" (and {len(bad) - 1} more)" if len(bad) > 1 else "")
            )

    def start(self, y: Floats, weight: Floats, offset: Floats | None = None) -> Floats:
        """Fit the best model without columns, by damped Newton steps from the guess.

        Parameters
        ----------
        y : array of shape (n,)
            Targets.
        weight : array of shape (n,)
            Weights of the rows.
        offset : array of shape (n, K), optional
            Added to the linear predictors.

        Returns
        -------
        array of shape (K,)
            Linear predictors.
        """
        return best_constant(self, y, weight, offset)
