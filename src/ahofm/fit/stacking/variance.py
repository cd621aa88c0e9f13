"""How errors on validation rows depend on the columns, and the variance model of a Gaussian fit.

Absolute errors have a gamma model with logarithmic link and additive effects (:func:`fit_errors`). What it leaves of a
dependence on the linear predictor is a ratio of means per bin of it, shrunk to 1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ahofm.backends import FailedError, Response
from ahofm.columns import Categorical
from ahofm.columns.basis import Floats
from ahofm.families import Gamma, Units
from ahofm.families.units import weighted_quantile
from ahofm.fit.solvers.variational.posterior import Fit, StageResult
from ahofm.fit.stacking.candidates import CANDIDATES
from ahofm.fit.stacking.problem import TrainingProblem
from ahofm.fit.stacking.runner import StagedRunner
from ahofm.fit.stacking.weights import Scores, predict
from ahofm.model import VarianceModel
from ahofm.model.mixture import MixturePart, mixture
from ahofm.tuning import (
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


def variance_model(problem: TrainingProblem, scores: Scores, runner: StagedRunner) -> VarianceModel | None:
    """How standard deviations differ between rows; None if they do not, or if there are too few validation rows.

    Parameters
    ----------
    problem : TrainingProblem
        All rows.
    scores : Scores
        Predictions of validation rows, numbered by ``scores.rows``.
    runner : StagedRunner
    """
    if scores.rows is None or scores.response.n_rows < FEWEST_VARIANCE_ROWS or not scores.response.quadratic:
        return None
    seen = np.arange(0, len(scores.rows), -(-len(scores.rows) // VARIANCE_ROWS))
    sample, response = problem.take(scores.rows[seen]), scores.response.take(seen)
    eta = response.shifted(scores.best()[seen])[:, 0]
    errors, relative = absolute_errors(response.y - eta, response), response.weight / response.weight.mean()
    fit = fit_errors(sample, errors / response.mean_of(errors), relative, runner)
    if fit is None:
        return None
    log_std = predict(fit, sample.books, sample.table, problem.backend)[:, 0]
    knots, factors = _of_mean(eta, errors * np.exp(-log_std), relative)
    log_std = log_std + np.interp(eta, knots, factors)
    times = _sharpness(errors, log_std, relative)
    if not times * np.std(log_std) >= LEAST_STD_OF_LOG_STD:  # also if it is NaN
        return None
    level = -0.5 * float(np.log(response.mean_of(np.exp(2.0 * times * log_std))))
    member, units = MixturePart(1.0, [result.predictor for result in fit], {}), problem.data.units
    unit = Units(0.0, 1.0, (level,), (times,))
    (effects,) = mixture([member], problem.data.encoder.codebooks, problem.columns, [0.0], unit)
    return VarianceModel(effects, units.shift[0] + units.factor[0] * knots, times * factors)


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
    overall = float(np.average(ratio, weights=weight))
    knots, factors = [], []
    for rows in np.array_split(order, count):
        mass = float(weight[rows].sum())
        mean = (weight[rows] @ ratio[rows] + MEAN_SHRINKAGE_ROWS * overall) / (mass + MEAN_SHRINKAGE_ROWS)
        knots.append(float(np.median(eta[rows])))
        factors.append(float(np.log(mean / overall)))
    found = np.array(knots)
    kept = np.r_[True, np.diff(found) > 0.0]
    return found[kept], np.array(factors)[kept]


def variance_components(stage_result: StageResult, problem: TrainingProblem) -> dict[str, float]:
    """Prior variances of the main effects of columns of levels, in the fit that counts most."""
    pairs = zip(problem.books, stage_result.smoothing_parameters, strict=True)
    unit = problem.data.units.factor[0] ** 2
    found = {book.name: unit / float(main[0, 0]) for book, (main, _) in pairs if isinstance(book.kind, Categorical)}
    return {name: found[name] for name in problem.data.encoder.names if name in found}
