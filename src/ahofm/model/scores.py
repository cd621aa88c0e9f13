"""Scores of the fitted distribution: log-likelihoods, simulated targets, and probability integral transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from ahofm.columns.basis import Floats
from ahofm.families.distributions import Categories, Distribution, is_discrete, log_density
from ahofm.kernels.blas import one_blas_thread
from ahofm.model.checks import check_weight
from ahofm.model.model import Model

if TYPE_CHECKING:
    from ahofm.families import Ordinal


def distribution(model: Model, X: Any, offset: ArrayLike | None = None) -> Distribution:
    """Of a new target for every row of a table, the linear predictors taken as known."""
    if model.repeated is not None and model.repeated.levels is not None:
        return Categories(model.ordinal_probabilities(X, offset), cast("Ordinal", model.family).low)
    return model.family.distribution(model.eta(X, offset), dispersion_of(model))


def dispersion_of(model: Model) -> float:
    """1 where it is known."""
    if not model.family.dispersed:
        return 1.0
    if model.dispersion is None:
        raise ValueError(f"the dispersion of {model.family.name} was not estimated")
    return model.dispersion


@one_blas_thread()
def log_likelihood(
    model: Model, X: Any, y: ArrayLike, weight: ArrayLike | None = None, offset: ArrayLike | None = None
) -> float:
    """Weighted sum of the logarithms of densities; for counts and classes, of probabilities."""
    target = np.asarray(y, dtype=np.float64)
    model.family.check(target)
    return float(check_weight(weight, len(target)) @ log_density(distribution(model, X, offset), target))


@one_blas_thread()
def sample(model: Model, X: Any, n: int, seed: Any = None, offset: ArrayLike | None = None) -> Floats:
    """Draws of new targets: (n, rows)."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ValueError(f"n must be an integer of at least 1, got {n!r}")
    found = distribution(model, X, offset)
    rows = len(model.encoder.check(X).columns[0])
    return np.asarray(found.rvs(size=(int(n), rows), random_state=np.random.default_rng(seed)), dtype=np.float64)


@one_blas_thread()
def pit(model: Model, X: Any, y: ArrayLike, seed: Any = 0, offset: ArrayLike | None = None) -> Floats:
    """Probability integral transform of each target: uniform on (0, 1) when the model is right.

    Discrete targets are spread at random over their step.
    """
    target = np.asarray(y, dtype=np.float64)
    model.family.check(target)
    found = distribution(model, X, offset)
    upper = np.asarray(found.cdf(target))
    if model.family.censored:  # a censored time may have ended anywhere above
        above = upper + np.random.default_rng(seed).uniform(size=len(target)) * (1.0 - upper)
        return np.where(target > 0.0, upper, above)
    atoms = is_discrete(found) or ((target == 0.0).any() and model.family.target.low == 0.0)
    if not atoms:
        return upper
    lower = found.cdf(target - 1.0) if is_discrete(found) else np.where(target > 0, upper, 0.0)
    return np.asarray(lower + np.random.default_rng(seed).uniform(size=len(target)) * (upper - lower))
