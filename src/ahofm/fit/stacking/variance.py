"""The noise of new rows, estimated from errors on validation rows: a variance model, and quantiles of relative errors.

Absolute errors have a gamma model with logarithmic link and additive effects (:func:`error_model`), times a factor that
depends on the linear predictor: the ratio of observed to fitted mean errors in bins of it, shrunk to 1. Quantiles of
errors relative to the standard deviations of the variance model give intervals for new targets.

Least squares assumes equal variances. Where variances differ,
random walks follow the noise of the noisiest rows unless tempering is strong, which oversmooths the others. With rows
weighted by one over the standard deviation, the root of the precision, less tempering is needed. Weights equal to the
precision would be efficient for the means of precise rows, but the loss is averaged over noisy rows as well.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from ahofm.fit.solvers.variational.staged_fit import StagedFit
from ahofm.fit.stacking.candidates import CANDIDATES
from ahofm.fit.stacking.problem import TrainingProblem
from ahofm.fit.stacking.runner import StagedRunner
from ahofm.fit.stacking.weights import Scores, predict
from ahofm.model import ErrorQuantiles, Model, VarianceModel
from ahofm.model.mixture import MixturePart, mixture
from ahofm.tuning.variance import (
    ERROR_LEVELS,
    FEWEST_ROWS_BEYOND_QUANTILE,
    FEWEST_VARIANCE_ROWS,
    INTERVAL_SCORE_LEVEL,
    LARGEST_WEIGHT_RATIO,
    LEAST_ERROR,
    LEAST_STD_OF_LOG_STD,
    LOG_STD_FACTORS,
    MEAN_BIN_ROWS,
    MEAN_BINS,
    MEAN_SHRINKAGE_ROWS,
    VARIANCE_ROWS,
)


def absolute_errors(residuals: Floats, response: Response) -> Floats:
    """Absolute residuals (n,), bounded below by a fraction of their root mean square: targets of a gamma model."""
    errors = np.abs(residuals)
    least = LEAST_ERROR * float(np.sqrt(response.mean_of(errors**2)))
    return np.maximum(errors, max(least, np.finfo(float).tiny))


def error_model(problem: TrainingProblem, errors: Floats, weight: Floats) -> StagedFit:
    """A gamma model of absolute errors with logarithmic link and main effects, which is not fitted yet.

    Parameters
    ----------
    problem : TrainingProblem
        The rows of the errors.
    errors : array of shape (n,)
        In units of their mean.
    weight : array of shape (n,)
        Of the rows, with mean 1: a row of weight 2 has a single error.
    """
    response = Response(Gamma(), errors, weight, None)
    return replace(problem, response=response, ranks={}).staged_fit(CANDIDATES[0], 0, 0)


def fit_error_models(models: Sequence[StagedFit], runner: StagedRunner, name: str | None = None) -> list[Fit] | None:
    """Fits of error models, side by side; None if one fails, or is stopped. ``name``: in a checkpoint."""
    try:
        found = runner(models, name)
    except FailedError:
        return None
    return None if runner.reason is not None or not all(found) else [fits[-1] for fits in found]


@dataclass(frozen=True)
class Noise:
    """Estimates of the errors of new rows from validation rows; None: none, or none beyond the dispersion.

    ``error_quantiles`` are in units of the dispersion of the fits that predict validation rows, on average
    ``dispersion``.
    """

    variance_model: VarianceModel | None = None
    error_quantiles: ErrorQuantiles | None = None
    dispersion: float = 1.0

    def added_to(self, model: Model) -> Model:
        """The model with these estimates; quantiles are converted to units of the model's dispersion.

        That is smaller: in part because the model is fitted to more rows, and then its errors are smaller, too; in part
        because it follows its rows more closely, and then they are not. Squared errors of new rows are taken to be the
        geometric mean of those of validation rows and of what they would be if they had shrunk like the dispersion.
        """
        quantiles = self.error_quantiles
        if quantiles is not None and model.dispersion is not None and model.dispersion > 0.0:
            ratio = (self.dispersion / model.dispersion) ** 0.25
            quantiles = replace(quantiles, quantiles=ratio * quantiles.quantiles)
        return replace(model, variance_model=self.variance_model, error_quantiles=quantiles)


def noise_of(
    problem: TrainingProblem, scores: Scores | None, predicted: Floats | None, n_fitted: float, runner: StagedRunner
) -> Noise:
    """Variance model of new rows, and quantiles of their errors relative to its standard deviations.

    Parameters
    ----------
    problem : TrainingProblem
        All rows.
    scores : Scores or None
        Predictions of validation rows, numbered by ``scores.rows``.
    predicted : array of shape (rows, 1), or None
        Linear predictors of validation rows as the model has them: with effects of repeated rows, where it has these.
    n_fitted : float
        Number of rows that each fit behind them was made to.
    runner : StagedRunner
    """
    if scores is None or predicted is None or scores.rows is None or scores.dispersions is None:
        return Noise()
    if scores.response.n_rows < FEWEST_VARIANCE_ROWS or not scores.response.family.uneven:
        return Noise()
    sampled = np.arange(0, len(scores.rows), -(-len(scores.rows) // VARIANCE_ROWS))
    rows = _ValidationRows(problem.take(scores.rows[sampled]), scores.response.take(sampled), predicted[sampled])
    found, relative = _variance_model(problem, rows, runner)
    dispersion = scores.stacked_dispersion()[sampled]
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
        self.relative_weight = response.weight / response.weight.mean()
        self.positive = absolute_errors(self.errors, response)

    def error_model(self, rows: NDArray[np.intp]) -> StagedFit:
        """The gamma model of the errors of a part of them, not fitted yet."""
        relative = self.positive[rows] / self.response.mean_of(self.positive)
        return error_model(self.problem.take(rows), relative, self.relative_weight[rows])


def _variance_model(
    problem: TrainingProblem, rows: _ValidationRows, runner: StagedRunner
) -> tuple[VarianceModel | None, Floats]:
    """The variance model, None if standard deviations do not differ; and those of the validation rows (n,).

    The latter, and the factor by which differences of their logarithms are shrunk, come from fits to the other half of
    the validation rows: errors are too small in units of standard deviations that were fitted to them.
    """
    response, n, equal = rows.response, rows.response.n_rows, np.ones(rows.response.n_rows)
    order = np.random.default_rng(problem.settings.seed).permutation(n)
    halves = [np.sort(order[: n // 2]), np.sort(order[n // 2 :])]
    fits = fit_error_models([rows.error_model(part) for part in (np.arange(n), *halves)], runner)
    if fits is None:
        return None, equal
    whole_fit, *half_fits = fits
    log_std = np.empty(n)
    for fit, fitted, other in zip(half_fits, halves, halves[::-1], strict=True):
        additive = predict(fit, rows.problem.books, rows.problem.table, problem.backend)[:, 0]
        ratios, weight = rows.positive[fitted] * np.exp(-additive[fitted]), rows.relative_weight[fitted]
        curve = _log_ratio_by_mean(rows.eta[fitted, 0], ratios, weight)
        log_std[other] = additive[other] + np.interp(rows.eta[other, 0], *curve)
    shrinkage = _log_std_factor(rows.positive, log_std, rows.relative_weight)
    if not shrinkage * np.std(log_std) >= LEAST_STD_OF_LOG_STD:  # also if it is NaN
        return None, equal
    relative = np.exp(shrinkage * log_std)
    relative /= np.sqrt(response.mean_of(relative**2))
    whole = predict(whole_fit, rows.problem.books, rows.problem.table, problem.backend)[:, 0]
    knots, factors = _log_ratio_by_mean(rows.eta[:, 0], rows.positive * np.exp(-whole), rows.relative_weight)
    whole = whole + np.interp(rows.eta[:, 0], knots, factors)
    level = -0.5 * float(np.log(response.mean_of(np.exp(2.0 * shrinkage * whole))))
    part, units = MixturePart(1.0, [part.predictor for part in whole_fit], {}), problem.data.units
    unit = Units(0.0, 1.0, (level,), (shrinkage,))
    (effects,) = mixture([part], problem.data.encoder.codebooks, problem.columns, [0.0], unit)
    return VarianceModel(effects, units.shift[0] + units.factor[0] * knots, shrinkage * factors), relative


def _error_quantiles(
    problem: TrainingProblem, rows: _ValidationRows, dispersion: Floats, fraction: float
) -> ErrorQuantiles | None:
    """Quantiles of absolute errors divided by the square root of ``dispersion`` (n,), which varies between rows.

    The fits that predict validation rows were made to a ``fraction`` of the rows that the model is fitted to. The
    excess of the mean square over 1 is attributed to estimation error, which is inversely proportional to the number of
    rows. Measured on splits 450 to 489 (8 to 40 of each of eleven sets): intervals of 95 % hold 95.4 % of new rows,
    94.2 to 97.0 of a set. With errors as large as those of two thirds of the rows, on splits 400 to 479, 96.2 %, and 98
    of yacht and energy.
    """
    squares = max(rows.response.mean_of(rows.errors**2 / dispersion), 1.0)
    shrunk = np.sqrt((1.0 + (squares - 1.0) * min(fraction, 1.0)) / squares)
    scores = np.abs(_normal_scores(problem, rows, dispersion))
    levels = np.array([level for level in ERROR_LEVELS if (1.0 - level) * len(scores) >= FEWEST_ROWS_BEYOND_QUANTILE])
    quantiles = shrunk * np.array([weighted_quantile(scores, rows.relative_weight, level) for level in levels])
    if not (len(levels) and np.isfinite(quantiles).all() and quantiles[0] > 0.0):
        return None
    return ErrorQuantiles(levels, quantiles)


def _normal_scores(problem: TrainingProblem, rows: _ValidationRows, dispersion: Floats) -> Floats:
    """Standardised errors (n,); of counts, randomised quantile residuals (Dunn and Smyth 1996)."""
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


def _log_std_factor(errors: Floats, log_std: Floats, weight: Floats) -> float:
    """The factor of ``log_std``, in [0, 1], whose intervals have the least interval score at ``INTERVAL_SCORE_LEVEL``.

    Ratios of mean absolute errors need not be those of their upper quantiles, as where targets are a few whole numbers.
    The half-width of the intervals of each factor has nominal coverage (interval score: Gneiting and Raftery 2007).
    """
    scores = {}
    for factor in np.linspace(0.0, 1.0, LOG_STD_FACTORS):
        std = np.exp(factor * log_std)
        half_width = weighted_quantile(errors / std, weight, INTERVAL_SCORE_LEVEL) * std
        beyond = np.maximum(errors - half_width, 0.0)
        scores[float(factor)] = float(np.average(half_width + beyond / (1.0 - INTERVAL_SCORE_LEVEL), weights=weight))
    return min(scores, key=lambda factor: scores[factor])


def _log_ratio_by_mean(eta: Floats, ratio: Floats, weight: Floats) -> tuple[Floats, Floats]:
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

    The scale estimated from the fitted rows is too small: survival curves of new rows would be too steep.
    """
    if scores is None or not (isinstance(family, FailureTime) and family.open):
        return family
    response = scores.response
    return family.learned(response.y, response.shifted(scores.stacked_eta()), response.weight)


def variance_components(stage_result: StageResult, problem: TrainingProblem) -> dict[str, float]:
    """Prior variances of the main effects of columns of levels, in the fit with the largest weight."""
    pairs = zip(problem.books, stage_result.smoothing_parameters, strict=True)
    unit = problem.data.units.factor[0] ** 2
    found = {book.name: unit / float(main[0, 0]) for book, (main, _) in pairs if isinstance(book.kind, Categorical)}
    return {name: found[name] for name in problem.data.encoder.names if name in found}


def weighted_by_precision(
    problem: TrainingProblem, rows: NDArray[np.int64], scores: Scores, runner: StagedRunner
) -> TrainingProblem | None:
    """The same rows, each weighted by one over its standard deviation.

    Standard deviations come from a gamma model of absolute errors with logarithmic link and additive effects, fitted to
    at most ``VARIANCE_ROWS`` rows. None if rows are about equally precise, if the model cannot be fitted, or if the
    fit is to stop.
    """
    seen = np.arange(0, len(rows), -(-len(rows) // VARIANCE_ROWS))
    response = scores.response.take(seen)
    errors = absolute_errors(response.target - scores.stacked_eta()[seen, 0], response)
    relative = response.weight / response.weight.mean()
    model = error_model(problem.take(rows[seen]), errors / response.mean_of(errors), relative)
    if (fits := fit_error_models([model], runner, "precision")) is None:
        return None
    log_std = predict(fits[0], problem.books, problem.table, problem.backend)[:, 0]
    if not np.std(log_std) >= LEAST_STD_OF_LOG_STD:  # also if it is NaN
        return None
    weight = np.exp(-log_std)
    weight = np.clip(weight / np.median(weight), 1.0 / LARGEST_WEIGHT_RATIO, LARGEST_WEIGHT_RATIO)
    return problem.weighted(weight / problem.response.mean_of(weight))


def with_original_weights(
    fits: Sequence[Fit], precision_weighted: TrainingProblem, problem: TrainingProblem
) -> list[Fit]:
    """Fits to weighted rows, with the dispersion restated for the original weights."""
    found = []
    for fit in fits:
        squares = (problem.response.target - predict(fit, problem.books, problem.table, problem.backend)[:, 0]) ** 2
        original, weighted = problem.response.mean_of(squares), precision_weighted.response.mean_of(squares)
        ratio = original / weighted if weighted > 0.0 else 1.0
        found.append(tuple(replace(result, dispersion=ratio * result.dispersion) for result in fit))
    return found
