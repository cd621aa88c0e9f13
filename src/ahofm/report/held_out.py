"""Rows that were not fitted, with their targets: what the page compares predictions with first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.explain.arguments import Fitted, model_of
from ahofm.families import Family
from ahofm.model import Model
from ahofm.model.checks import check_offset, check_weight
from ahofm.model.prediction_scores import scores_of_classes, scores_of_numbers
from ahofm.model.survival_scores import concordance
from ahofm.tuning.variance import CONCORDANCE_ROWS


@dataclass(frozen=True)
class HeldOut:
    """Rows and their targets.

    Attributes
    ----------
    table : Table of n rows
    y : array of shape (n,)
        Targets as the family knows them: numbers, class numbers, or times that are negative where censored.
    weight : array of shape (n,) or None
    offset : array of shape (n,) or (n, linear predictors), or None
    """

    table: Table
    y: Floats
    weight: Floats | None = None
    offset: Floats | None = None


def held_out(
    fitted: Fitted, X: Any, y: ArrayLike | None, weight: ArrayLike | None, offset: ArrayLike | None
) -> HeldOut | None:
    """Check rows that were not fitted; None where there are none."""
    if X is None:
        given = [name for name, value in (("y", y), ("sample_weight", weight), ("offset", offset)) if value is not None]
        if given:
            raise ValueError(f"{given[0]} is given without X: they are of rows that were not fitted; give these as X")
        return None
    if y is None:
        raise ValueError("y is None: the rows of X were not fitted, and their targets are needed")
    model = model_of(fitted)
    table = model.encoder.check(X)
    target = np.asarray(fitted._target(y) if hasattr(fitted, "_target") else y, dtype=np.float64)
    if target.shape != (table.n_rows,):
        raise ValueError(f"y must have a target for each of the {table.n_rows} rows of X, got shape {np.shape(y)}")
    if not table.n_rows:
        raise ValueError("X has no rows; leave out X and y for a report without rows that were not fitted")
    Family.check(model.family, target)  # some families cannot be fitted to a constant, but any can predict one
    if offset is not None:
        check_offset(offset, len(target), model.family)
    return HeldOut(
        table,
        target,
        None if weight is None else check_weight(weight, len(target)),
        None if offset is None else np.asarray(offset, dtype=np.float64),
    )


def scores(model: Model, rows: HeldOut) -> dict[str, float]:
    """How well a model predicts the rows: as on validation rows, and the deviance explained."""
    weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    if model.family.censored:
        some = np.arange(0, len(rows.y), -(-len(rows.y) // CONCORDANCE_ROWS))
        eta = model.eta(rows.table.take(some), None if rows.offset is None else rows.offset[some])
        found = {"concordance": concordance(rows.y[some], eta[:, 0], weight[some])}
    else:
        mean = model.mean(rows.table, rows.offset)
        several = model.classes is not None or mean.ndim == 2
        found = scores_of_classes(rows.y, mean, weight) if several else scores_of_numbers(rows.y, mean, weight)
    if np.ptp(rows.y[weight > 0.0]) == 0.0:  # targets without variance: there is none to explain
        found.pop("R2", None)
    elif len(rows.y) > 1:
        found["deviance explained"] = model.deviance_explained(rows.table, rows.y, weight, rows.offset)
    return {name: float(value) for name, value in found.items() if np.isfinite(value)}
