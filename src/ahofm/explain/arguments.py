"""What was asked for, checked: a model, one of its linear predictors, some of its columns."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ahofm.estimators import TrainingRows
from ahofm.model import Model

Fitted: TypeAlias = Any
"""A fitted estimator, or its ``model_``."""


def model_of(fitted: Fitted, *, band: bool = False) -> Model:
    """The model; with its band if that is wanted and the training rows are at hand."""
    if isinstance(fitted, Model):
        return fitted
    if not hasattr(fitted, "model_"):
        raise TypeError(f"expected a fitted estimator or its model_, got {type(fitted).__name__}; call fit first")
    model: Model = fitted.model_
    training = training_of(fitted)
    return training.model if band and model.band is None and training is not None else model


def training_of(fitted: Fitted) -> TrainingRows | None:
    """The training rows, where they are at hand."""
    found: TrainingRows | None = getattr(fitted, "training_", None)
    return found


def linear_predictor_of(model: Model, linear_predictor: Any) -> int:
    """The number of a linear predictor: given as such, or by a class label."""
    count = model.family.n_eta
    if linear_predictor is None:
        if count > 1 and model.classes is not None:
            raise ValueError(f"linear predictor: name one of the classes {', '.join(map(str, model.classes))}")
        return 0
    if model.classes is not None and count > 1:
        labels = list(model.classes)
        if linear_predictor in labels:
            return labels.index(linear_predictor)
        raise ValueError(
            f"linear_predictor={linear_predictor!r} is not one of the classes {', '.join(map(str, labels))}"
        )
    if (
        isinstance(linear_predictor, bool)
        or not isinstance(linear_predictor, (int, np.integer))
        or not 0 <= linear_predictor < count
    ):
        raise ValueError(f"linear predictor must be between 0 and {count - 1}, got {linear_predictor!r}")
    return int(linear_predictor)


def column_of(model: Model, name: Any) -> int:
    """The place of a column, by its name or its number."""
    names = model.encoder.names
    if isinstance(name, (int, np.integer)) and not isinstance(name, bool) and 0 <= name < len(names):
        return int(name)
    if name in names:
        return names.index(name)
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    more = ", ..." if len(names) > 10 else ""
    hint = f"; did you mean '{near[0]}'?" if near else f"; there are {', '.join(map(repr, names[:10]))}{more}"
    raise ValueError(f"there is no column {name!r}{hint}")


def columns_of(model: Model, columns: Any) -> tuple[int, ...]:
    """Places of different columns, no more than the model's order."""
    given: Sequence[Any] = [columns] if isinstance(columns, (str, int, np.integer)) else list(columns)
    if not given:
        raise ValueError("columns is empty; name at least one")
    found = tuple(column_of(model, name) for name in given)
    if len(set(found)) < len(found):
        twice = next(name for name, j in zip(given, found, strict=True) if found.count(j) > 1)
        raise ValueError(f"column {twice!r} is given twice; an interaction is of different columns")
    if len(found) > model.order:
        raise ValueError(f"{len(found)} columns, but the model has interactions of up to {model.order} columns only")
    return found


def orders_of(model: Model, order: Any) -> tuple[int, ...]:
    """Orders of interactions: one that the model has, or all of them."""
    present = tuple(range(2, model.order + 1))
    if order is None:
        return present
    if isinstance(order, bool) or not isinstance(order, (int, np.integer)) or order < 2:
        raise ValueError(f"order must be an integer of at least 2, got {order!r}")
    if order > model.order:
        raise ValueError(f"order={order} is above the model's order, {model.order}")
    return (int(order),)
