"""Variance model: standard deviations of rows, from errors on validation rows; fits with rows weighted by them.

Least squares take all rows for equally noisy. Where they are not, random walks follow the noisiest of them, unless much
tempering is used, which blurs the rest. With rows weighted by one over the standard deviation, the root of the
precision, fits need less of it. All of the precision would be efficient for the means of precise rows, but errors are
counted where rows are noisy too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ahofm.families import Gamma
from ahofm.fit.cost.runner import Runner
from ahofm.fit.solvers.variational.column import FailedError
from ahofm.fit.solvers.variational.posterior import Fit
from ahofm.fit.solvers.variational.working import Response
from ahofm.fit.stacking.candidates import CANDIDATES
from ahofm.fit.stacking.problem import TrainingProblem
from ahofm.fit.stacking.weights import Scores, predict
from ahofm.fit.tuning import EQUALLY_PRECISE, FARTHEST_WEIGHT, LEAST_ERROR, VARIANCE_ROWS


def weighted(
    problem: TrainingProblem, rows: NDArray[np.int64], scores: Scores, runner: Runner
) -> TrainingProblem | None:
    """The same rows, each weighted by one over its standard deviation.

    Errors at some of the rows are a gamma variable whose mean is a product of functions of the columns. None if rows
    are about equally precise, if nobody can tell, or if somebody asked to stop.
    """
    seen = np.arange(0, len(rows), -(-len(rows) // VARIANCE_ROWS))
    some, response = problem.take(rows[seen]), scores.response.take(seen)
    errors = np.abs(response.target - scores.best()[seen, 0])
    least = LEAST_ERROR * float(np.sqrt(response.mean_of(errors**2)))
    errors = np.maximum(errors, max(least, np.finfo(float).tiny))
    alike = response.weight / response.weight.mean()  # a row that counts twice has one error
    sizes = Response(Gamma(), errors / response.mean_of(errors), alike, None)
    staged = replace(some, response=sizes, ranks={}).staged_fit(CANDIDATES[0], 0, 0)
    try:
        (fits,) = runner([staged], "precision")
    except FailedError:
        return None
    if runner.reason is not None:
        return None
    spread = predict(fits[-1], problem.books, problem.table)[:, 0]
    if not np.std(spread) >= EQUALLY_PRECISE:  # nor if it is not a number
        return None
    weight = np.exp(-spread)
    weight = np.clip(weight / np.median(weight), 1.0 / FARTHEST_WEIGHT, FARTHEST_WEIGHT)
    return problem.weighted(weight / problem.response.mean_of(weight))


def counted_alike(fits: Sequence[Fit], precise: TrainingProblem, problem: TrainingProblem) -> list[Fit]:
    """Fits to weighted rows, with the noise that rows have when they count alike."""
    found = []
    for fit in fits:
        squares = (problem.response.target - predict(fit, problem.books, problem.table)[:, 0]) ** 2
        theirs, own = problem.response.mean_of(squares), precise.response.mean_of(squares)
        times = theirs / own if own > 0.0 else 1.0
        found.append(tuple(replace(part, noise=times * part.noise) for part in fit))
    return found
