"""Model files of version 8: factors that all linear predictors have in common are stored once.

The classes of a model share their curves: coefficients of a column, (functions, 1 + factors), then differ between
linear predictors in their first column, the main effect. A file holds the others for the first linear predictor only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.orders import FACTORS

_KIND = {"type": "main effect"}
"""JSON entry of coefficients whose factors are those of the first linear predictor."""


def restore(model: Any, tensors: dict[str, NDArray[Any]]) -> None:
    """Put the factors back before a model is unpacked. Raises ValueError where tensors do not match."""
    for parts, j, place, first in _coefficients_after_first(model, "model"):
        if parts[j] == _KIND:
            main, of_first = tensors.get(place), tensors.get(first)
            if (
                main is None
                or of_first is None
                or of_first.ndim != 2
                or main.shape != of_first.shape[:1]
                or main.dtype != of_first.dtype
            ):
                raise ValueError(f"tensor {place} is missing, or is no main effect beside the factors of {first}")
            tensors[place] = np.column_stack([main, of_first[:, FACTORS]])
            parts[j] = {"type": "numbers"}


def _coefficients_after_first(model: Any, where: str) -> Iterator[tuple[list[Any], int, str, str]]:
    """Coefficients of all linear predictors but the first, also of models of lower orders.

    Yields the JSON list of a linear predictor's coefficients, the index of the column, the name of its tensor, and the
    name of the same tensor of the first linear predictor.
    """
    predictors = model.get("linear_predictors") if isinstance(model, dict) else None
    for k, predictor in enumerate(predictors if isinstance(predictors, list) else []):
        coef = predictor.get("coef") if isinstance(predictor, dict) else None
        if k == 0 or not isinstance(coef, list):
            continue
        for j in range(len(coef)):
            yield coef, j, f"{where}.linear_predictors.{k}.coef.{j}", f"{where}.linear_predictors.0.coef.{j}"
    lower = model.get("lower") if isinstance(model, dict) else None
    for i, one in enumerate(lower if isinstance(lower, list) else []):
        yield from _coefficients_after_first(one, f"{where}.lower.{i}")
