"""Labels of classes: checked, as numbers 0, 1, ..., and the family that fits them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_consistent_length

from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.families import Bernoulli, Family, Multinomial, find_family


def labels_of(y: Any, table: Table, estimator: Any) -> NDArray[Any]:
    """One label per row of a table: (n,)."""
    labels = _check_y(y, multi_output=False, estimator=estimator)
    check_classification_targets(labels)
    check_consistent_length(table.columns[0], labels)
    return np.asarray(labels)


def classes_of(labels: NDArray[Any], estimator: Any) -> NDArray[Any]:
    """Different labels, sorted: (classes,); raises ValueError for fewer than two."""
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(
            f"{type(estimator).__name__} needs at least two classes in y, got only one class: {classes.tolist()[0]!r}"
        )
    return classes


def numbers_of(classes: NDArray[Any], labels: NDArray[Any]) -> Floats:
    """Numbers of labels among the classes: (n,); raises ValueError for a label that is none of them."""
    at = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    if (classes[at] != labels).any():
        raise ValueError("y has classes that were not there in training")
    return at.astype(np.float64)


def family_of_classes(requested: str | Family, n_classes: int) -> Family:
    """The requested family, or that of the number of classes."""
    if isinstance(requested, str) and requested in ("auto", "multinomial"):
        if n_classes == 2 and requested == "auto":
            return Bernoulli()
        return Multinomial(n_classes)
    family = find_family(requested)
    if family.n_eta == 1 and n_classes > 2:
        raise ValueError(f"family {family.name} has two classes, but y has {n_classes}; use family='auto'")
    return family
