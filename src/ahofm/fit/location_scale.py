"""Location and scale of Gaussian targets in two steps: the mean by least squares, then the standard deviation.

In a joint maximum likelihood fit, rows with large variances have little weight in the mean, whose errors are then
largest where they matter most for a squared loss; and where the standard deviation is underestimated, the mean
interpolates single rows. Instead the mean is the default Gaussian fit, and the scale is fitted to the absolute errors
on validation rows: a gamma model with logarithmic link, with its main effects and interactions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ahofm.backends import FailedError
from ahofm.columns.basis import Floats
from ahofm.families import Gamma, Gaussian, Units
from ahofm.fit.stacking.ensemble import fit_variational, stacked_fit
from ahofm.fit.stacking.variance import absolute_errors
from ahofm.fit.stacking.weights import Scores
from ahofm.model import Choice, Lower, Model, Predictor, Reason
from ahofm.training.data import Data, array_source
from ahofm.training.runner import Deadline, Saved
from ahofm.training.settings import Settings
from ahofm.tuning.variance import FEWEST_VARIANCE_ROWS, SCALE_ORDER


def fit_location_scale(
    data: Data,
    ranks: dict[int, int],
    settings: Settings,
    classes: tuple[Any, ...] | None,
    saved: Saved | None = None,
    deadline: Deadline | None = None,
) -> Model:
    """A Gaussian fit of the mean, and a fit of the standard deviation to its errors on validation rows.

    Without cross-validation, or with too few validation rows, a joint maximum likelihood fit as for other families.

    Parameters
    ----------
    data : Data
        Of the family ``GaussianLocationScale``, all rows of it in memory.
    ranks, settings, classes, saved, deadline
        As for ``fit_variational``.
    """
    offset = data.rows.offset
    if settings.factor_prior != "auto" or (offset is not None and offset[:, 1].any()):
        return fit_variational(data, ranks, settings, classes, saved, deadline)
    mean, scores = stacked_fit(_location(data), ranks, settings, classes, saved, deadline)
    enough = scores is not None and scores.rows is not None and len(scores.rows) >= FEWEST_VARIANCE_ROWS
    if scores is None or not enough or mean.trace.reason in (Reason.INTERRUPTED, Reason.TIME, Reason.CALLBACK):
        return fit_variational(data, ranks, settings, classes, saved, deadline)
    scale = _scale(data, scores, ranks, settings, deadline)
    return _combined(data, mean, scale)


def _location(data: Data) -> Data:
    """The same rows with a Gaussian family: the first linear predictor alone."""
    units = data.units
    offset = None if data.rows.offset is None else data.rows.offset[:, :1]
    rows = replace(data.rows, offset=offset)
    return replace(
        data,
        source=array_source(data.codes, rows.y, rows.weight, offset),
        rows=rows,
        family=Gaussian(),
        inner=Gaussian(),
        units=Units(units.centre, units.scale, units.shift[:1], units.factor[:1]),
    )


def _scale(
    data: Data, scores: Scores, ranks: Mapping[int, int], settings: Settings, deadline: Deadline | None
) -> Model | None:
    """A gamma model of absolute errors on validation rows in the units of the fit, its linear predictor the logarithm
    of the standard deviation; None if it cannot be fitted.
    """
    assert scores.rows is not None
    response, validation_rows = scores.response, scores.rows
    errors = absolute_errors(response.y - response.shifted(scores.stacked_eta())[:, 0], response)
    mean_error = response.mean_of(errors)
    rows = replace(data.rows.take(validation_rows), y=errors / mean_error, offset=None)
    codes = data.codes.take(validation_rows)
    errors_data = replace(
        data,
        source=array_source(codes, rows.y, rows.weight, None),
        table=data.table.take(validation_rows),
        codes=codes,
        rows=rows,
        family=Gamma(),
        inner=Gamma(),
        units=Units.unchanged(1),
        total=float(rows.weight.sum()),
    )
    scale_ranks = {order: rank for order, rank in ranks.items() if order <= SCALE_ORDER}
    chosen = replace(settings, order=max(scale_ranks, default=1), callbacks=(), time_budget=None, effort="balanced")
    try:
        model = fit_variational(errors_data, scale_ranks, chosen, None, None, deadline)
    except (FailedError, KeyboardInterrupt):
        return None
    log_std = model.eta(errors_data.table)[:, 0]
    level = 0.5 * float(np.log(response.mean_of((errors * np.exp(-log_std)) ** 2)))
    return _shifted(model, level)


def _shifted(model: Model, shift: float) -> Model:
    """With a number added to the linear predictor, at every order."""

    def shifted(linear_predictors: Sequence[Predictor]) -> tuple[Predictor, ...]:
        return tuple(predictor.scaled(shift) for predictor in linear_predictors)

    lower = tuple(Lower(model_d.order, shifted(model_d.linear_predictors)) for model_d in model.lower)
    return replace(model, linear_predictors=shifted(model.linear_predictors), lower=lower)


def _combined(data: Data, mean: Model, scale: Model | None) -> Model:
    """One model with two linear predictors; each has the other's factors with loadings of zero."""
    shift = data.units.shift[1]

    def both(order: int) -> tuple[Predictor, ...]:
        (location,) = mean.at_order(order).linear_predictors
        if scale is None:
            return location, _constant(location, 0.5 * float(np.log(mean.dispersion or 1.0)))
        (log_std,) = scale.at_order(order).linear_predictors
        first = Predictor.weighted_sum([(1.0, location), (0.0, log_std)])
        return first, Predictor.weighted_sum([(0.0, location), (1.0, log_std)]).scaled(shift)

    orders = [model_d.order for model_d in mean.lower]
    linear_predictors = both(mean.order)
    smoothing: dict[int, Floats] = {}
    for order in linear_predictors[0].orders.all:
        smoothing[order] = mean.smoothing_parameters.get(order, np.zeros(len(data.encoder.codebooks)))
    scale_text = "constant" if scale is None else scale.choices[0].value
    choice = Choice("scale", scale_text, "fitted to errors of the mean on validation rows")
    return replace(
        mean,
        family=data.family,
        linear_predictors=linear_predictors,
        smoothing_parameters=smoothing,
        lower=tuple(Lower(order, both(order)) for order in orders),
        choices=(*mean.choices, choice),
        dispersion=None,
        variance_model=None,
        error_quantiles=None,
    )


def _constant(like: Predictor, value: float) -> Predictor:
    """A linear predictor of the same shape that is the same everywhere."""
    return like.scaled(0.0, 0.0).scaled(value)
