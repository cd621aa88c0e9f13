"""The variance model of a Gaussian fit: how errors on validation rows depend on the columns and on the mean.

Absolute errors have a gamma model with logarithmic link and additive effects, as in ``cross_validate.weighted``. What
it leaves of a dependence on the linear predictor is a ratio of means per bin of it, shrunk to 1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ahofm.backends import FailedError, Response
from ahofm.columns import Categorical
from ahofm.columns.basis import Floats
from ahofm.families import Gamma, Units
from ahofm.families.units import weighted_quantile
from ahofm.fit.solvers.variational.posterior import StageResult
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
    some, response = problem.take(scores.rows[seen]), scores.response.take(seen)
    eta = response.shifted(scores.best()[seen])[:, 0]
    errors = np.abs(response.y - eta)
    least = LEAST_ERROR * float(np.sqrt(response.mean_of(errors**2)))
    errors = np.maximum(errors, max(least, np.finfo(float).tiny))
    alike = response.weight / response.weight.mean()
    sizes = Response(Gamma(), errors / response.mean_of(errors), alike, None)
    staged = replace(some, response=sizes, ranks={}).staged_fit(CANDIDATES[0], 0, 0)
    try:
        (fits,) = runner([staged])
    except FailedError:
        return None
    if runner.reason is not None or not fits:
        return None
    log_std = predict(fits[-1], some.books, some.table, problem.backend)[:, 0]
    knots, factors = _of_mean(eta, errors * np.exp(-log_std), alike)
    log_std = log_std + np.interp(eta, knots, factors)
    times = _sharpness(errors, log_std, alike)
    if not times * np.std(log_std) >= LEAST_STD_OF_LOG_STD:  # also if it is NaN
        return None
    level = -0.5 * float(np.log(response.mean_of(np.exp(2.0 * times * log_std))))
    part, units = MixturePart(1.0, [part.predictor for part in fits[-1]], {}), problem.data.units
    unit = Units(0.0, 1.0, (level,), (times,))
    (effects,) = mixture([part], problem.data.encoder.codebooks, problem.columns, [0.0], unit)
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


def variance_components(stage_result: StageResult, problem: TrainingProblem) -> dict[str, float]:
    """Prior variances of the main effects of columns of levels, in the fit that counts most."""
    pairs = zip(problem.books, stage_result.smoothing_parameters, strict=True)
    unit = problem.data.units.factor[0] ** 2
    found = {book.name: unit / float(main[0, 0]) for book, (main, _) in pairs if isinstance(book.kind, Categorical)}
    return {name: found[name] for name in problem.data.encoder.names if name in found}
