"""Intervals for means and for new targets, from a model and its band."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import expit, logsumexp, softmax

from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.families import Gaussian, GaussianLocationScale, Poisson
from ahofm.families.distributions import Categories, Distribution
from ahofm.model import ErrorQuantiles, Model
from ahofm.model.band import Band
from ahofm.model.checks import check_offset
from ahofm.model.levels import probabilities_of_levels
from ahofm.model.lines import beyond_at_rows
from ahofm.model.scores import dispersion_of

if TYPE_CHECKING:
    from ahofm.families import Ordinal

DRAWS = 500
"""Of a new target, where its distribution with uncertain linear predictors has no formula."""


def with_std(model: Model, band: Band, table: Table, offset: ArrayLike | None) -> tuple[Floats, Floats]:
    """Linear predictors and their standard errors: (n, linear predictors) each."""
    lines = beyond_at_rows(model, band.mains, model.encoder.check(table))
    return model.eta(table, offset), band.eta(model.encoder.encode(table), lines)


def mean_std(model: Model, eta: Floats, std: Floats) -> Floats:
    """Standard deviation of the mean of one linear predictor, by its slope."""
    up, down = eta.copy(), eta.copy()
    up[:, 0] += std[:, 0]
    down[:, 0] -= std[:, 0]
    return np.asarray(0.5 * np.abs(model.family.mean(up) - model.family.mean(down)))


def mean_interval(model: Model, eta: Floats, std: Floats, level: float) -> tuple[Floats, Floats]:
    """Lower and upper end for the mean, around the prediction on the scale of the linear predictor."""
    reach = float(stats.norm.ppf(0.5 + 0.5 * level)) * std[:, 0]
    ends = []
    for step in (-reach, reach):
        moved = eta.copy()
        moved[:, 0] += step
        ends.append(model.family.mean(moved))
    return np.minimum(*ends), np.maximum(*ends)


def class_intervals(model: Model, eta: Floats, std: Floats, level: float) -> tuple[Floats, Floats]:
    """Lower and upper ends (n, classes) for the probability of every class, symmetric around its log odds.

    For more than two classes the log odds of class k against all others are ``eta_k - log sum_{l != k} exp(eta_l)``, of
    slopes 1 and ``-p_l / (1 - p_k)``; linear predictors are taken as independent.
    """
    if eta.shape[1] == 1:
        low, high = mean_interval(model, eta, std, level)
        return np.column_stack([1.0 - high, low]), np.column_stack([1.0 - low, high])
    reach, ends = float(stats.norm.ppf(0.5 + 0.5 * level)), []
    for k in range(eta.shape[1]):
        others, variances = np.delete(eta, k, axis=1), np.delete(std, k, axis=1) ** 2
        log_odds = eta[:, k] - logsumexp(others, axis=1)
        step = reach * np.sqrt(std[:, k] ** 2 + (softmax(others, axis=1) ** 2 * variances).sum(axis=1))
        ends.append((expit(log_odds - step), expit(log_odds + step)))
    low, high = np.transpose(ends, (1, 2, 0))
    return low, high


def new_interval(
    model: Model, band: Band, table: Table, offset: ArrayLike | None, level: float, seed: int
) -> tuple[Floats, Floats]:
    """Lower and upper end for a new target: the linear predictor uncertain, and the target around it.

    Both scale with the rows' relative standard deviations (``Model.relative_std``): a mean is known the better, the
    less the targets around it scatter.
    """
    family, (eta, std), times = model.family, with_std(model, band, table, offset), model.relative_std(table, offset)
    if model.error_quantiles is not None and band.usual_std and family.uneven:
        return _validated_interval(model, model.error_quantiles, band.usual_std[0], eta, std, times, level)
    if isinstance(family, Gaussian) and family.link == "identity":
        reach = stats.norm.ppf(0.5 + 0.5 * level) * times * np.sqrt(std[:, 0] ** 2 + dispersion_of(model))
        return eta[:, 0] - reach, eta[:, 0] + reach
    if isinstance(family, GaussianLocationScale):
        reach = stats.norm.ppf(0.5 + 0.5 * level) * np.sqrt(std[:, 0] ** 2 + family.scale(eta) ** 2)
        return eta[:, 0] - reach, eta[:, 0] + reach
    rng, distribution = np.random.default_rng(seed), _moved_distribution(model, table, offset, eta)
    low, high = np.empty((2, len(eta)))
    for start in range(0, len(eta), 1_000):
        rows = slice(start, start + 1_000)
        draws = []
        for _ in range(DRAWS):
            moved = eta[rows] + std[rows] * rng.normal(size=eta[rows].shape)
            found = distribution(rows, moved)
            draws.append(found.rvs(size=(len(moved),), random_state=rng))
        low[rows], high[rows] = np.quantile(draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
    return low, high


def _moved_distribution(
    model: Model, table: Table, offset: ArrayLike | None, eta: Floats
) -> Callable[[slice, Floats], Distribution]:
    """Distribution of the targets of some rows whose linear predictors ``eta`` (n, K) are moved."""
    family, dispersion, repeated = model.family, dispersion_of(model), model.repeated
    table = model.encoder.check(table)
    counts = None if repeated is None else repeated.levels_at(model.encoder.codebooks, table)
    if repeated is None or counts is None:
        return lambda rows, moved: family.distribution(moved, dispersion)
    levels, without = cast("Ordinal", family), model.without_repeated.eta(table)
    effects = eta if offset is None else eta - check_offset(offset, len(eta), family)
    effects = effects - without

    def of_copies(rows: slice, moved: Floats) -> Distribution:
        step = (moved - without[rows] - effects[rows])[:, 0]
        found = probabilities_of_levels(levels, without[rows], counts[rows], repeated.kappa, step)
        return Categories(found, levels.low)

    return of_copies


def _validated_interval(
    model: Model, errors: ErrorQuantiles, usual: float, eta: Floats, std: Floats, times: Floats, level: float
) -> tuple[Floats, Floats]:
    """The same where errors of validation rows are known: quantiles of the noise at their level.

    Those errors contain the estimation error of ordinary rows. Where the standard error of the linear predictor is
    larger than the ``usual`` one, as far from the rows of training, the difference of the squares is added.
    """
    family = cast("Gaussian | Poisson", model.family)
    mean, reach = family.mean(eta), errors.reach(level)
    unusual = np.sqrt(np.maximum(std[:, 0] ** 2 - usual**2, 0.0))
    beyond = stats.norm.ppf(0.5 + 0.5 * level) * times * unusual
    noise = cast("Any", family.distribution(eta, dispersion_of(model) * times**2))  # one of SciPy's
    tail, ends = max(stats.norm.cdf(-reach), np.finfo(float).tiny), []
    for sign, end in ((-1.0, noise.ppf(tail)), (1.0, noise.isf(tail))):
        moved = eta.copy()
        moved[:, 0] += sign * beyond
        own = sign * (end - mean)  # negative where nearly all counts are zero
        ends.append(mean + sign * (np.minimum(own, 0.0) + np.hypot(np.maximum(own, 0.0), family.mean(moved) - mean)))
    return np.maximum(ends[0], family.target.low), ends[1]


def conformal(low: Floats, high: Floats, y: ArrayLike, level: float) -> float:
    """How much to widen intervals on both sides so that they hold for the calibration rows they were made for."""
    target = np.asarray(y, dtype=np.float64)
    beyond = np.sort(np.maximum(low - target, target - high))
    at = int(np.ceil(level * (len(beyond) + 1) - 1e-9)) - 1
    if at >= len(beyond):
        least = int(np.ceil(level / (1.0 - level) - 1e-9))
        raise ValueError(f"calibration has {len(beyond)} rows, too few for level={level:g}; give at least {least}")
    return float(beyond[at])


def check_level(level: Any) -> float:
    """A probability strictly between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, (int, float, np.number)) or not 0.0 < float(level) < 1.0:
        raise ValueError(f"level must be a number between 0 and 1, got {level!r}")
    return float(level)
