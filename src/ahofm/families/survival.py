"""Right-censored times: accelerated failure times with log-normal, log-logistic and Weibull distributions.

``log T = eta + scale W`` with W normal, logistic or of a Gumbel distribution for minima. A target is a time, and minus
a time where nothing had happened until then: one number per row says both.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

import numpy as np
from scipy import stats
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_ndtr

from ahofm.columns.basis import Floats
from ahofm.families.distributions import CensoredTimes, Distribution
from ahofm.families.family import Family, RowLoss
from ahofm.families.links import LINKS, quiet
from ahofm.families.settings import check_between, filled_in
from ahofm.families.target import TargetRange
from ahofm.families.units import Units, check_scale

_SCALES = (1e-3, 1e2)
"""Between which scales are estimated."""

Self = TypeVar("Self", bound="FailureTime")


@dataclass(frozen=True)
class FailureTime(Family):
    """What accelerated failure times share. Targets are times, negative where censored.

    Parameters
    ----------
    scale : float, optional
        Of the logarithm of the time. None estimates it by maximum likelihood given the linear predictors as
        ``solver="variational"`` goes on, from that of a model without columns.
    open : bool
        Whether ``scale`` is an estimate, to be estimated again.
    """

    scale: float | None = None
    open: bool = field(default=False, repr=False)

    target: ClassVar[TargetRange] = TargetRange(nonzero=True)

    def __post_init__(self) -> None:
        """Refuse what is no scale."""
        if self.scale is not None:
            check_between(self.name, "scale", self.scale, 0.0, remedy="leave it out to have it estimated")

    @property
    def censored(self) -> bool:
        """Negative targets are censored times."""
        return True

    @abstractmethod
    def _standard(self, w: Floats, event: Floats) -> tuple[Floats, Floats, Floats]:
        """Minus the logarithm of the density of W, or of its survival function where ``event`` is 0: with slopes."""

    @abstractmethod
    def _least(self) -> float:
        """The smallest of these where there is an event."""

    @abstractmethod
    def _times(self, eta: Floats, scale: float) -> Distribution:
        """Distribution of times, from SciPy."""

    @property
    @abstractmethod
    def _median(self) -> float:
        """Median of W."""

    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """``-log f(w)``, or ``-log S(w)`` where censored, with ``w = (log t - eta) / scale``."""
        scale = filled_in(self.name, "scale", self.scale)
        with quiet():
            w = (np.log(np.abs(y)) - eta[:, 0]) / scale
            value, slope, bend = self._standard(w, (y > 0).astype(w.dtype))
            g, h = -slope / scale, bend / scale**2
        return value, g[:, np.newaxis], h[:, np.newaxis]

    def mean(self, eta: Floats) -> Floats:
        """The median time: means may be infinite, and depend on the tail beyond the observed times."""
        return LINKS["log"].mean(eta[:, 0] + self._median * filled_in(self.name, "scale", self.scale))

    def distribution(self, eta: Floats, dispersion: float) -> Distribution:
        """Of times; its density takes negative targets as censored."""
        del dispersion
        return CensoredTimes(self._times(eta[:, 0], filled_in(self.name, "scale", self.scale)))

    def guess(self, y: Floats, weight: Floats) -> Floats:
        """The logarithm of all time per event."""
        events = max(float(weight @ (y > 0)), 0.5 * float(weight.mean()))
        return np.array([np.log(float(weight @ np.abs(y)) / events)])

    def floor(self, y: Floats) -> Floats:
        """At the time itself; zero where censored."""
        return np.where(y > 0, self._least(), 0.0)

    def filled(self: Self, y: Floats, weight: Floats) -> Self:
        """With the most likely scale of a model without columns."""
        if self.scale is not None:
            return self
        event, t = (y > 0).astype(np.float64), np.log(np.abs(y))

        def loss(point: Floats) -> float:
            with quiet():
                w = (t - point[0]) * np.exp(-point[1])
                value = float(weight @ (self._standard(w, event)[0] + event * point[1])) / float(weight.sum())
            return value if np.isfinite(value) else 1e300

        start = [float(self.guess(y, weight)[0]), float(np.log(max(float(np.std(t)), 0.1)))]
        found = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-8})
        return replace(self, scale=float(np.clip(np.exp(found.x[1]), *_SCALES)), open=True)

    def learned(self: Self, y: Floats, eta: Floats, weight: Floats) -> Self:
        """With the most likely scale given the linear predictors, when it is open."""
        if not self.open:
            return self
        event, away = (y > 0).astype(np.float64), np.log(np.abs(y)) - eta[:, 0]

        def loss(log_scale: float) -> float:
            with quiet():
                value = float(weight @ (self._standard(away * np.exp(-log_scale), event)[0] + event * log_scale))
            return value if np.isfinite(value) else 1e300

        found = minimize_scalar(loss, bounds=np.log(_SCALES), method="bounded", options={"xatol": 1e-4})
        return replace(self, scale=float(np.exp(found.x)))

    def standardised(self, y: Floats, weight: Floats) -> tuple[Family, Units]:
        """In units of the geometric mean of the times."""
        mean = float(np.exp(np.average(np.log(np.abs(y)), weights=weight)))
        check_scale(mean, 0.0)
        return self.filled(y, weight), Units(0.0, mean, (float(np.log(mean)),), (1.0,))

    def check(self, y: Floats) -> None:
        """Without events there is no finite fit."""
        super().check(y)
        if not (y > 0).any():
            raise ValueError(f"y has no event: every time is censored; {self.name} needs at least one event")


@dataclass(frozen=True)
class LogNormal(FailureTime):
    """Times whose logarithms are normal, right-censored.

    Parameters
    ----------
    scale, open
        As for ``FailureTime``: the standard deviation of the logarithm.

    Examples
    --------
    >>> times = np.exp(1 + X.wind + 0.5 * rng.normal(size=300))
    >>> y_seen = np.column_stack([np.minimum(times, 5.0), times <= 5.0])  # time, event
    >>> lasting = AHOFMRegressor(family="log_normal", order=1, random_state=0).fit(X, y_seen)
    >>> 0.4 < lasting.model_.family.scale < 0.6
    True
    """

    def _standard(self, w: Floats, event: Floats) -> tuple[Floats, Floats, Floats]:
        tail = -log_ndtr(-w)
        hazard = np.where(w > 50.0, w, np.exp(np.minimum(tail - 0.5 * w**2 - 0.5 * np.log(2.0 * np.pi), 700.0)))
        hazard = np.where(w > 50.0, w + 1.0 / np.maximum(w, 1.0), hazard)
        bend = np.where(w > 50.0, 1.0, np.maximum(hazard * (hazard - w), 0.0))
        hit = event > 0
        return np.where(hit, 0.5 * w**2, tail), np.where(hit, w, hazard), np.where(hit, 1.0, bend)

    def _least(self) -> float:
        return 0.0

    @property
    def _median(self) -> float:
        return 0.0

    def _times(self, eta: Floats, scale: float) -> Distribution:
        found: Distribution = stats.lognorm(scale, scale=np.exp(eta))
        return found


@dataclass(frozen=True)
class LogLogistic(FailureTime):
    """Times whose logarithms are logistic, right-censored: odds of survival are proportional.

    Parameters
    ----------
    scale, open
        As for ``FailureTime``.
    """

    def _standard(self, w: Floats, event: Floats) -> tuple[Floats, Floats, Floats]:
        p, tail = expit(w), np.logaddexp(0.0, w)
        return tail + event * (tail - w), p + event * (p - 1.0), (1.0 + event) * p * expit(-w)

    def _least(self) -> float:
        return float(2.0 * np.log(2.0))

    @property
    def _median(self) -> float:
        return 0.0

    def _times(self, eta: Floats, scale: float) -> Distribution:
        found: Distribution = stats.fisk(1.0 / scale, scale=np.exp(eta))
        return found


@dataclass(frozen=True)
class Weibull(FailureTime):
    """Weibull times, right-censored: accelerated failure times and proportional hazards at once.

    The hazard at time t is ``t^(1/scale - 1) exp(-eta / scale) / scale``. A scale of 1 is the exponential distribution.

    Parameters
    ----------
    scale, open
        As for ``FailureTime``: one over the shape.
    """

    def _standard(self, w: Floats, event: Floats) -> tuple[Floats, Floats, Floats]:
        up = np.exp(w)
        return np.where(np.isfinite(up), up - event * w, np.inf), up - event, up

    def _least(self) -> float:
        return 1.0

    @property
    def _median(self) -> float:
        return float(np.log(np.log(2.0)))

    def _times(self, eta: Floats, scale: float) -> Distribution:
        found: Distribution = stats.weibull_min(1.0 / scale, scale=np.exp(eta))
        return found
