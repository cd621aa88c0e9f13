"""Levels in an order: the cumulative logit model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from ahofm.columns.basis import Floats
from ahofm.families.bernoulli import logistic_bound
from ahofm.families.distributions import Categories, Distribution
from ahofm.families.family import Family, RowLoss
from ahofm.families.links import quiet
from ahofm.families.target import TargetRange

_PROFILED_ROWS = 5_000
"""Rows at most whose likelihood thresholds are estimated by."""


@dataclass(frozen=True)
class Ordinal(Family):
    """``P(y <= k) = 1 / (1 + exp(eta - threshold_k))``: proportional odds of being above any level.

    Targets are whole numbers without gaps, such as 3, 4, 5, 6. A prediction is the expected level;
    ``AHOFMRegressor.predict_proba`` has the probability of each.

    Parameters
    ----------
    thresholds : tuple of float, optional
        Increasing, one fewer than levels. None estimates them by maximum likelihood given the linear predictors as
        ``solver="variational"`` goes on, from those of a model without columns; other solvers leave them there.
    low : int
        The lowest level.
    open : bool
        Whether the thresholds are estimates, to be estimated again.

    References
    ----------
    McCullagh, P. (1980). Regression models for ordinal data. JRSS B 42.

    Examples
    --------
    >>> stars = np.digitize(2 * X.wind + rng.logistic(size=300), [-2, 0, 2]) + 1  # 1 to 4
    >>> liked = AHOFMRegressor(family="ordinal", order=1, random_state=0).fit(X, stars)
    >>> liked.predict_proba(X[:2]).shape
    (2, 4)
    """

    thresholds: tuple[float, ...] | None = None
    low: int = 0
    open: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse thresholds that do not increase."""
        known = self.thresholds
        if known is not None and (not known or not np.isfinite(known).all() or not (np.diff(known) > 0.0).all()):
            raise ValueError(f"{self.name}: thresholds must be finite and increase, got {known!r}; or leave them out")

    @property
    def target(self) -> TargetRange:
        """Whole numbers, between the levels where these are known."""
        if self.thresholds is None:
            return TargetRange(whole=True)
        high = float(self.low + len(self.thresholds))
        return TargetRange(float(self.low), high, low_included=True, high_included=True, whole=True)

    @property
    def logarithmic(self) -> bool:
        """Linear predictors are logarithms of odds."""
        return True

    @property
    def categories(self) -> tuple[int, ...]:
        """All whole numbers that targets can be, in their order."""
        return tuple(range(self.low, self.low + len(self._known()) + 1))

    def _known(self) -> Floats:
        if self.thresholds is None:
            raise ValueError(f"{self.name}: thresholds are still None; use what `filled(y, weight)` returns")
        return np.array(self.thresholds)

    def _bounds(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        """Thresholds above and below each target minus eta; infinite at the ends."""
        ends = np.concatenate([[-np.inf], self._known(), [np.inf]]).astype(eta.dtype)
        at = np.asarray(y, dtype=np.intp) - self.low
        return ends[at + 1] - eta[:, 0], ends[at] - eta[:, 0]

    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """``log(1 + exp(-u)) + log(1 + exp(l)) - log(1 - exp(l - u))``, u and l the thresholds around y minus eta."""
        u, low = self._bounds(y, eta)
        with quiet():
            gap = np.log1p(-np.exp(np.where(np.isinf(u) | np.isinf(low), -np.inf, low - u)))
            value = np.logaddexp(0.0, -u) + np.logaddexp(0.0, low) - gap
            g = expit(-u) - expit(low)
            h = expit(u) * expit(-u) + expit(low) * expit(-low)
        return value, g[:, np.newaxis], h[:, np.newaxis]

    def majorant(self, eta: Floats, variance: Floats) -> Floats:
        """Of two logistic losses, at the thresholds nearest to eta: the largest curvature that a target has."""
        distance = (self._known()[np.newaxis, :] - eta) ** 2
        nearest = np.sort(distance, axis=1)[:, :2]
        return np.asarray(logistic_bound(nearest + variance).sum(axis=1, keepdims=True))

    def probabilities(self, eta: Floats) -> Floats:
        """Compute the probability of every level.

        Parameters
        ----------
        eta : array of shape (n, 1)
            Linear predictors.

        Returns
        -------
        array of shape (n, levels)
            In sum 1.
        """
        below = expit(self._known()[np.newaxis, :] - eta)
        return np.diff(below, axis=1, prepend=0.0, append=1.0)

    def mean(self, eta: Floats) -> Floats:
        """The expected level."""
        return np.asarray(self.low + expit(eta - self._known()[np.newaxis, :]).sum(axis=1))

    def distribution(self, eta: Floats, dispersion: float) -> Distribution:
        """The levels."""
        del dispersion
        return Categories(self.probabilities(eta), self.low)

    def guess(self, y: Floats, weight: Floats) -> Floats:
        """Zero: the thresholds are where a model without columns has them."""
        del y, weight
        return np.zeros(1)

    def floor(self, y: Floats) -> Floats:
        """Half way between the thresholds around a level; zero for the lowest and the highest."""
        known, at = self._known(), np.asarray(y, dtype=np.intp) - self.low
        gap = np.diff(known)
        middle = 2.0 * np.logaddexp(0.0, -0.5 * gap) - np.log1p(-np.exp(-gap))
        return np.concatenate([[0.0], middle, [0.0]])[at]

    def filled(self, y: Floats, weight: Floats) -> Ordinal:
        """With the thresholds of a model without columns."""
        if self.thresholds is not None:
            return self
        low = int(y.min())
        mass = np.bincount((y - low).astype(np.intp), weights=weight)
        reached = np.cumsum(mass)[:-1] / mass.sum()
        return replace(self, thresholds=tuple(float(value) for value in logit(reached)), low=low, open=True)

    def learned(self, y: Floats, eta: Floats, weight: Floats) -> Ordinal:
        """With the most likely thresholds given the linear predictors, when they are open. Many rows are thinned."""
        if not self.open:
            return self
        some = slice(None, None, max(len(y) // _PROFILED_ROWS, 1))
        y, eta, weight, known = y[some], eta[some], weight[some], self._known()

        def thresholds(point: Floats) -> Floats:
            return np.cumsum(np.concatenate([point[:1], np.exp(np.clip(point[1:], -20.0, 10.0))]))

        def loss(point: Floats) -> float:
            found = tuple(float(value) for value in thresholds(point))
            if not (np.diff(found) > 0.0).all():
                return 1e300
            return float(weight @ replace(self, thresholds=found).loss(y, eta)[0]) / float(weight.sum())

        start = np.concatenate([known[:1], np.log(np.diff(known))])
        found = minimize(loss, start, method="BFGS", options={"gtol": 1e-5})
        return replace(self, thresholds=tuple(float(value) for value in thresholds(found.x)))

    def check(self, y: Floats) -> None:
        """Levels that do not occur have no thresholds."""
        super().check(y)
        if self.thresholds is not None or not len(y):
            return
        levels = np.unique(y)
        if len(levels) < 2:
            raise ValueError(f"y is {levels[0]:g} in every row; {self.name} needs at least two levels")
        gaps = np.flatnonzero(np.diff(levels) > 1.0)
        if len(gaps):
            at = levels[gaps[0]]
            raise ValueError(
                f"y has no row of level {at + 1:g}, between {at:g} and {levels[gaps[0] + 1]:g}; {self.name} needs "
                "levels without gaps: number those that occur 0, 1, 2, ..."
            )
