"""Distributions of new targets that SciPy does not have, with the part of its interface that is needed here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from scipy import stats
from scipy.special import gammaln, logsumexp

from ahofm.columns.basis import Floats

_LONGEST = 100.0
"""Most likely count up to which Tweedie densities are added up."""


class Distribution(Protocol):
    """Of one target per row, the rows along the last axis. SciPy's frozen distributions are such."""

    def rvs(self, size: tuple[int, ...], random_state: np.random.Generator) -> Floats:
        """Draws, (..., n)."""
        ...

    def cdf(self, y: Floats) -> Floats:
        """Probability of no more than y."""
        ...


def of_scipy(frozen: Any) -> Distribution:
    """One of SciPy's, which has no types."""
    return cast("Distribution", frozen)


def log_density(distribution: Distribution, y: Floats) -> Floats:
    """Logarithm of the density of each target, or of its probability where targets are counts or classes."""
    log = getattr(distribution, "logpmf", None) if is_discrete(distribution) else getattr(distribution, "logpdf", None)
    if log is None:
        raise TypeError(f"{type(distribution).__name__} has neither logpdf nor logpmf")
    return np.asarray(log(y))


def is_discrete(distribution: Distribution) -> bool:
    """Whether targets are counts or classes."""
    counts = isinstance(distribution, (Categories, InflatedPoisson))
    return counts or isinstance(getattr(distribution, "dist", None), stats.rv_discrete)


@dataclass(frozen=True)
class CompoundPoisson:
    """A Poisson number of gamma amounts: mean mu, variance ``phi mu^power``."""

    mu: Floats
    phi: float
    power: float

    def rvs(self, size: tuple[int, ...], random_state: np.random.Generator) -> Floats:
        """Draws."""
        a, b = 2.0 - self.power, self.power - 1.0
        count = random_state.poisson(np.broadcast_to(self.mu**a / (self.phi * a), size))
        amount = random_state.gamma(np.maximum(count, 1) * a / b, np.broadcast_to(self.phi * b * self.mu**b, size))
        return np.where(count > 0, amount, 0.0)

    def logpdf(self, y: Floats) -> Floats:
        """By Dunn and Smyth's series."""
        return log_density_of_tweedie(y, self.mu, self.phi, self.power)

    def cdf(self, y: Floats) -> Floats:
        """By adding up the gamma distributions of every count."""
        a, b = 2.0 - self.power, self.power - 1.0
        rate, scale = self.mu**a / (self.phi * a), self.phi * b * self.mu**b
        most = int(np.max(rate + 10.0 * np.sqrt(rate) + 20.0))
        total = np.exp(-rate)
        for count in range(1, most + 1):
            total = total + stats.poisson.pmf(count, rate) * stats.gamma.cdf(y, count * a / b, scale=scale)
        return np.where(np.asarray(y) < 0, 0.0, np.minimum(total, 1.0))


@dataclass(frozen=True)
class Categories:
    """The numbers low, low + 1, ... of classes with given probabilities (n, classes)."""

    probability: Floats
    low: int = 0

    def rvs(self, size: tuple[int, ...], random_state: np.random.Generator) -> Floats:
        """Draws."""
        steps = np.cumsum(self.probability, axis=1)
        above = random_state.uniform(size=size)[..., np.newaxis] > steps[:, :-1]
        return np.asarray(self.low + above.sum(axis=-1), dtype=float)

    def logpmf(self, y: Floats) -> Floats:
        """Logarithm of the probability."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.probability[np.arange(len(y)), np.asarray(y, dtype=np.intp) - self.low]))

    def cdf(self, y: Floats) -> Floats:
        """Probability of no more than y."""
        steps = np.cumsum(self.probability, axis=1)
        at = np.clip(np.floor(y) - self.low, -1, steps.shape[1] - 1).astype(np.intp)
        return np.where(at < 0, 0.0, np.take_along_axis(steps, np.maximum(at, 0)[..., np.newaxis], axis=1)[..., 0])


@dataclass(frozen=True)
class InflatedPoisson:
    """Zero with a probability (n,), and else a Poisson count of mean mu (n,)."""

    mu: Floats
    zero: Floats

    def rvs(self, size: tuple[int, ...], random_state: np.random.Generator) -> Floats:
        """Draws."""
        counts = random_state.poisson(np.broadcast_to(self.mu, size)).astype(np.float64)
        return np.where(random_state.uniform(size=size) < self.zero, 0.0, counts)

    def logpmf(self, y: Floats) -> Floats:
        """Logarithm of the probability."""
        own = np.asarray(stats.poisson.logpmf(y, self.mu))
        with np.errstate(divide="ignore"):
            counted = np.log1p(-self.zero) + own
            return np.asarray(np.where(np.asarray(y) == 0.0, np.logaddexp(np.log(self.zero), counted), counted))

    def cdf(self, y: Floats) -> Floats:
        """Probability of no more than y."""
        below = self.zero + (1.0 - self.zero) * stats.poisson.cdf(y, self.mu)
        return np.asarray(np.where(np.asarray(y) < 0.0, 0.0, below))


@dataclass(frozen=True)
class CensoredTimes:
    """Times of a distribution of SciPy's; the density takes negative targets as censored."""

    times: Any

    def rvs(self, size: tuple[int, ...], random_state: np.random.Generator) -> Floats:
        """Draws of times, none of them censored."""
        return np.asarray(self.times.rvs(size=size, random_state=random_state))

    def logpdf(self, y: Floats) -> Floats:
        """Logarithm of the density of an event, or of the probability of a later one."""
        t = np.abs(y)
        return np.asarray(np.where(np.asarray(y) > 0.0, self.times.logpdf(t), self.times.logsf(t)))

    def cdf(self, y: Floats) -> Floats:
        """Probability of a time of no more than |y|."""
        return np.asarray(self.times.cdf(np.abs(y)))

    def sf(self, t: Floats) -> Floats:
        """Probability of a later event."""
        return np.asarray(self.times.sf(t))


def log_density_of_tweedie(y: Floats, mu: Floats, phi: float, power: float) -> Floats:
    """Logarithm of the density, or for ``y = 0`` of the probability, by Dunn and Smyth's series over the count.

    Where the sum would have its largest term beyond ``_LONGEST``, the saddlepoint approximation takes over.
    """
    a, b = 2.0 - power, power - 1.0
    out = -(mu**a) / (phi * a)
    at = np.flatnonzero(y > 0)
    out[at] -= y[at] * mu[at] ** -b / (phi * b)
    peak = y[at] ** a / (phi * a)
    long = peak > _LONGEST
    far, near = at[long], at[~long]
    unit = y[far] ** a / (a * b)  # deviance against mu = y, whose exponent the two terms above have in
    out[far] += unit / phi - 0.5 * np.log(2.0 * np.pi * phi * y[far] ** power)
    log_z = (a / b) * np.log(y[near]) - (a / b) * np.log(b) - (1.0 + a / b) * np.log(phi) - np.log(a)
    counts = np.arange(1.0, 2.0 * _LONGEST + 50.0)
    terms = np.outer(log_z, counts) - gammaln(1.0 + counts) - gammaln(counts * a / b)
    out[near] += logsumexp(terms, axis=1) - np.log(y[near])
    return np.asarray(out)
