"""Weights of classes, as factors of the weights of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.class_weight import compute_class_weight

from ahofm.columns.basis import Floats
from ahofm.model import check_weight


def weights_by_class(
    class_weight: Any, classes: NDArray[Any], numbers: Floats, sample_weight: ArrayLike | None
) -> ArrayLike | None:
    """Weights of rows times those of their classes.

    Parameters
    ----------
    class_weight : None, "balanced" or dict of label to number
        None leaves the weights of rows as they are. "balanced" gives every class the same sum of weights, and leaves
        the sum of all as it is. Labels that a dict leaves out have weight 1.
    classes : array of shape (classes,)
        Labels.
    numbers : array of shape (n,)
        The class of each row, as its number in ``classes``.
    sample_weight : array of shape (n,) or None
        Weights of rows.

    Returns
    -------
    array of shape (n,), or None
        None where neither was given.
    """
    if class_weight is None:
        return sample_weight
    at = numbers.astype(np.intp)
    weight = check_weight(sample_weight, len(at))
    if isinstance(class_weight, str) and class_weight == "balanced":
        sums = np.bincount(at, weights=weight, minlength=len(classes))
        return np.asarray(weight * (weight.sum() / (len(classes) * np.where(sums > 0.0, sums, 1.0)))[at])
    if not isinstance(class_weight, dict):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict of labels to numbers, got {class_weight!r}")
    factors = np.asarray(compute_class_weight(class_weight, classes=classes, y=classes), dtype=np.float64)
    if not np.isfinite(factors).all() or (factors < 0.0).any():
        raise ValueError("class_weight must hold finite numbers that are not negative")
    empty = [label for label, factor in zip(classes.tolist(), factors, strict=True) if factor == 0.0]
    if len(classes) - len(empty) < 2:
        raise ValueError(
            f"class_weight leaves no rows of class {', '.join(map(repr, empty))}: at least two classes are needed"
        )
    return np.asarray(weight * factors[at])
