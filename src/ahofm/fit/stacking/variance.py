"""The noise of new rows, from errors on validation rows: how it depends on columns and mean, and how large errors are.

Absolute errors have a gamma model with logarithmic link and additive effects (:func:`fit_errors`). What
it leaves of a dependence on the linear predictor is a ratio of means per bin of it, shrunk to 1. Quantiles of errors
relative to this noise then say how far new targets are from their predictions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ahofm.backends import FailedError, Response
from ahofm.columns import Categorical
from ahofm.columns.basis import Floats
from ahofm.families import Family, Gamma, Poisson, Units
from ahofm.families.survival import FailureTime
from ahofm.families.units import weighted_quantile
from ahofm.fit.solvers.variational.posterior import Fit, StageResult
from ahofm.fit.stacking.candidates import CANDIDATES
from ahofm.fit.stacking.problem import TrainingProblem
from ahofm.fit.stacking.runner import StagedRunner
from ahofm.fit.stacking.weights import Scores, predict
from ahofm.model import ErrorQuantiles, Model, VarianceModel
from ahofm.model.mixture import MixturePart, mixture
from ahofm.tuning import (
    ALIKE_FRACTION,
    ERROR_LEVELS,
    FEWEST_BEYOND,
    FEWEST_VARIANCE_ROWS,
    LEAST_ERROR,
    LEAST_STD_OF_LOG_STD,
    MEAN_BIN_ROWS,
    MEAN_BINS,
    MEAN_SHRINKAGE_ROWS,
    SCORED_LEVEL,
    VARIANCE_ROWS,
)


def absolute_errors(residuals: Floats, response: Response) -> Floats:
    """Absolute residuals (n,), bounded below by a fraction of their root mean square: targets of a gamma model."""
    errors = np.abs(residuals)
    least = LEAST_ERROR * float(np.sqrt(response.mean_of(errors**2)))
    return np.maximum(errors, max(least, np.finfo(float).tiny))


def fit_errors(
    problem: TrainingProblem, errors: Floats, weight: Floats, runner: StagedRunner, name: str | None = None
) -> Fit | None:
    """A gamma model of absolute errors with logarithmic link and main effects; None if it fails, or is stopped.

    Parameters
    ----------
    problem : TrainingProblem
        The rows of the errors.
    errors : array of shape (n,)
        In units of their mean.
    weight : array of shape (n,)
        Of the rows, with mean 1: a row of weight 2 has a single error.
    runner : StagedRunner
    name : str, optional
        In a checkpoint.
    """
    response = Response(Gamma(), errors, weight, None)
    staged = replace(problem, response=response, ranks={}).staged_fit(CANDIDATES[0], 0, 0)
    try:
        (fits,) = runner([staged], name)
    except FailedError:
        return None
    return None if runner.reason is not None or not fits else fits[-1]


@dataclass(frozen=True)
class Noise:
    """What validation rows say of the errors of new rows; None: nothing, or nothing beyond the dispersion.

    ``error_quantiles`` are in units of the dispersion of the fits that predict validation rows, on average
    ``dispersion``.
    """

    variance_model: VarianceModel | None = None
    error_quantiles: ErrorQuantiles | None = None
    dispersion: float = 1.0

    def added_to(self, model: Model) -> Model:
        """The model with it, quantiles in units of its own dispersion.

        That is smaller: in part because the model is fitted to more rows, and then its errors are smaller, too; in part
        because it follows its rows more closely, and then they are not. Squared errors of new rows are taken to be the
        geometric mean of those of validation rows and of what they would be if they had shrunk like the dispersion.
        """
        quantiles = self.error_quantiles
        if quantiles is not None and model.dispersion is not None and model.dispersion > 0.0:
            larger = (self.dispersion / model.dispersion) ** 0.25
            quantiles = replace(quantiles, quantiles=larger * quantiles.quantiles)
        return replace(model, variance_model=self.variance_model, error_quantiles=quantiles)


def noise_of(problem: TrainingProblem, scores: Scores | None, n_fitted: float, runner: StagedRunner) -> Noise:
    """How noise differs between rows, and how large errors of new rows are relative to it.

    Parameters
    ----------
    problem : TrainingProblem
        All rows.
    scores : Scores or None
        Predictions of validation rows, numbered by ``scores.rows``.
    n_fitted : float
        Number of rows that each fit behind them was made to.
    runner : StagedRunner
    """
    if scores is None or scores.rows is None or scores.dispersions is None:
        return Noise()
    if scores.response.n_rows < FEWEST_VARIANCE_ROWS or not scores.response.family.uneven:
        return Noise()
    seen = np.arange(0, len(scores.rows), -(-len(scores.rows) // VARIANCE_ROWS))
    rows = _ValidationRows(problem.take(scores.rows[seen]), scores.response.take(seen), scores.best()[seen])
    found, relative = _variance_model(problem, rows, runner)
    dispersion = scores.best_dispersion()[seen]
    quantiles = _error_quantiles(problem, rows, dispersion * relative**2, n_fitted / problem.data.n_rows)
    return Noise(found, quantiles, problem.dispersion_unit * rows.response.mean_of(dispersion))


class _ValidationRows:
    """Validation rows with their absolute errors (n,), in units of the variance function."""

    def __init__(self, problem: TrainingProblem, response: Response, predicted: Floats) -> None:
        self.problem, self.response = problem, response
        self.eta = response.shifted(predicted)
        if response.quadratic:
            self.errors = np.abs(response.y - self.eta[:, 0])
        else:
            self.errors = np.sqrt(response.family.pearson(response.y, self.eta))
        self.alike = response.weight / response.weight.mean()
        self.positive = absolute_errors(self.errors, response)

    def fit(self, rows: NDArray[np.intp], runner: StagedRunner) -> Fit | None:
        """The model of the errors of some of them."""
        relative = self.positive[rows] / self.response.mean_of(self.positive)
        return fit_errors(self.problem.take(rows), relative, self.alike[rows], runner)


def _variance_model(
    problem: TrainingProblem, rows: _ValidationRows, runner: StagedRunner
) -> tuple[VarianceModel | None, Floats]:
    """How standard deviations differ between rows, None if they do not; and those of the validation rows (n,).

    The latter, and how much of the differences is taken, come from fits to the other half of the validation rows:
    errors look too small in units of standard deviations that were fitted to them.
    """
    response, n, even = rows.response, rows.response.n_rows, np.ones(rows.response.n_rows)
    order = np.random.default_rng(problem.settings.seed).permutation(n)
    halves = [np.sort(order[: n // 2]), np.sort(order[n // 2 :])]
    fits = [rows.fit(some, runner) for some in (np.arange(n), *halves)]
    if any(fit is None for fit in fits):
        return None, even
    whole_fit, *half_fits = [fit for fit in fits if fit is not None]
    log_std = np.empty(n)
    for fit, fitted, other in zip(half_fits, halves, halves[::-1], strict=True):
        additive = predict(fit, rows.problem.books, rows.problem.table, problem.backend)[:, 0]
        curve = _of_mean(rows.eta[fitted, 0], rows.positive[fitted] * np.exp(-additive[fitted]), rows.alike[fitted])
        log_std[other] = additive[other] + np.interp(rows.eta[other, 0], *curve)
    times = _sharpness(rows.positive, log_std, rows.alike)
    if not times * np.std(log_std) >= LEAST_STD_OF_LOG_STD:  # also if it is NaN
        return None, even
    relative = np.exp(times * log_std)
    relative /= np.sqrt(response.mean_of(relative**2))
    whole = predict(whole_fit, rows.problem.books, rows.problem.table, problem.backend)[:, 0]
    knots, factors = _of_mean(rows.eta[:, 0], rows.positive * np.exp(-whole), rows.alike)
    whole = whole + np.interp(rows.eta[:, 0], knots, factors)
    level = -0.5 * float(np.log(response.mean_of(np.exp(2.0 * times * whole))))
    part, units = MixturePart(1.0, [part.predictor for part in whole_fit], {}), problem.data.units
    unit = Units(0.0, 1.0, (level,), (times,))
    (effects,) = mixture([part], problem.data.encoder.codebooks, problem.columns, [0.0], unit)
    return VarianceModel(effects, units.shift[0] + units.factor[0] * knots, times * factors), relative


def _error_quantiles(
    problem: TrainingProblem, rows: _ValidationRows, dispersion: Floats, fraction: float
) -> ErrorQuantiles | None:
    """Quantiles of errors relative to the noise that the fits behind them have found, and its variance model.

    The fits were made to a ``fraction`` of the rows that the model is made to. Where that is small, what mean squares
    have beyond 1 is taken for estimation error, which is inversely proportional to the number of rows.
    """
    squares = max(rows.response.mean_of(rows.errors**2 / dispersion), 1.0)
    shrunk = np.sqrt((1.0 + (squares - 1.0) * min(fraction / ALIKE_FRACTION, 1.0)) / squares)
    scores = np.abs(_normal_scores(problem, rows, dispersion))
    levels = np.array([level for level in ERROR_LEVELS if (1.0 - level) * len(scores) >= FEWEST_BEYOND])
    quantiles = shrunk * np.array([weighted_quantile(scores, rows.alike, level) for level in levels])
    if not (len(levels) and np.isfinite(quantiles).all() and quantiles[0] > 0.0):
        return None
    return ErrorQuantiles(levels, quantiles)


def _normal_scores(problem: TrainingProblem, rows: _ValidationRows, dispersion: Floats) -> Floats:
    """Standardised errors (n,); of counts, normal quantiles of their place in the distribution.

    A count is spread at random over its step.
    """
    response, units = rows.response, problem.data.units
    if response.quadratic:
        return np.asarray(rows.errors / np.sqrt(dispersion))
    y = units.centre + units.scale * response.y
    eta = np.asarray(units.shift) + np.asarray(units.factor) * rows.eta
    family = cast("Poisson", problem.data.family)
    found = family.distribution(eta, problem.dispersion_unit * dispersion)
    lower, upper = found.cdf(y - 1.0), found.cdf(y)
    place = lower + np.random.default_rng(problem.settings.seed).uniform(size=len(y)) * (upper - lower)
    return np.asarray(norm.ppf(np.clip(place, np.finfo(float).tiny, 1.0 - np.finfo(float).eps)))


def _sharpness(errors: Floats, log_std: Floats, weight: Floats) -> float:
    """The factor of ``log_std``, from 0 to 1, whose intervals have the least interval score at ``SCORED_LEVEL``.

    Mean absolute errors need not have the ratios of their upper quantiles, as where targets are a few whole numbers.
    Each factor has the width that holds as many errors as it should (Gneiting and Raftery 2007).
    """
    scores = {}
    for times in np.linspace(0.0, 1.0, 11):
        std = np.exp(times * log_std)
        reach = weighted_quantile(errors / std, weight, SCORED_LEVEL) * std
        beyond = np.maximum(errors - reach, 0.0)
        scores[float(times)] = float(np.average(reach + beyond / (1.0 - SCORED_LEVEL), weights=weight))
    return min(scores, key=lambda times: scores[times])


def _of_mean(eta: Floats, ratio: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Knots of the linear predictor, and the logarithm of the mean of ``ratio`` at each, shrunk to its overall mean."""
    order = np.argsort(eta, kind="stable")
    count = int(np.clip(len(eta) // MEAN_BIN_ROWS, 1, MEAN_BINS))
    whole = float(np.average(ratio, weights=weight))
    knots, factors = [], []
    for part in np.array_split(order, count):
        mass = float(weight[part].sum())
        mean = (weight[part] @ ratio[part] + MEAN_SHRINKAGE_ROWS * whole) / (mass + MEAN_SHRINKAGE_ROWS)
        knots.append(float(np.median(eta[part])))
        factors.append(float(np.log(mean / whole)))
    found = np.array(knots)
    kept = np.r_[True, np.diff(found) > 0.0]
    return found[kept], np.array(factors)[kept]


def validated_family(family: Family, scores: Scores | None) -> Family:
    """The family with the scale that errors on validation rows have, where targets are censored times.

    That of the rows that were fitted is too small: survival curves of new rows would be too steep.
    """
    if scores is None or not (isinstance(family, FailureTime) and family.open):
        return family
    response = scores.response
    return family.learned(response.y, response.shifted(scores.best()), response.weight)


def variance_components(stage_result: StageResult, problem: TrainingProblem) -> dict[str, float]:
    """Prior variances of the main effects of columns of levels, in the fit that counts most."""
    pairs = zip(problem.books, stage_result.smoothing_parameters, strict=True)
    unit = problem.data.units.factor[0] ** 2
    found = {book.name: unit / float(main[0, 0]) for book, (main, _) in pairs if isinstance(book.kind, Categorical)}
    return {name: found[name] for name in problem.data.encoder.names if name in found}
