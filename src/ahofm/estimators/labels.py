"""Labels of classes: checked, as numbers 0, 1, ..., and the family that fits them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_consistent_length

from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.families import Bernoulli, Family, Multinomial, find_family
from ahofm.tuning.classes import RARE_CLASS_ROWS


def rows_without_target(y: Any) -> str:
    """Advice for targets of which some are NaN."""
    bad = np.flatnonzero(np.isnan(np.asarray(y, dtype=np.float64).ravel()))
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    return f" Row {bad[0]}{more} has no target: leave such rows out of X and y."


def labels_of(y: Any, table: Table, estimator: Any) -> NDArray[Any]:
    """One label per row of a table: (n,); raises ValueError for what is none, or several kinds of labels at once."""
    _refuse_mixed(y)
    try:
        labels = _check_y(y, multi_output=False, estimator=estimator)
    except ValueError as error:
        advice = (
            "; give one label per row, e.g. y.argmax(axis=1) of indicators; for proportions of two classes use "
            "AHOFMRegressor(family='binomial')"
        )
        advice = advice if "1d array" in str(error) else rows_without_target(y) if "contains NaN" in str(error) else ""
        raise ValueError(f"{error}{advice}") from error
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise ValueError(
            f"{error} Give one label per row; for proportions or probabilities of two classes use "
            "AHOFMRegressor(family='binomial'), for other numbers AHOFMRegressor()"
        ) from error
    check_consistent_length(table.columns[0], labels)
    return np.asarray(labels)


def _refuse_mixed(y: Any) -> None:
    """Raise ValueError where labels are missing, or text beside numbers: NumPy would make text of both."""
    if not isinstance(y, (list, tuple)) and getattr(y, "dtype", None) != np.dtype(object):
        return
    given = np.empty(len(y), dtype=object)
    given[:] = list(y)
    missing = [at for at, label in enumerate(given) if label is None]
    if missing:
        raise ValueError(f"y has no label (None) in {len(missing)} row(s), first in row {missing[0]}; leave them out")
    names = {type(label).__name__ for label in given if isinstance(label, (str, bytes))}
    others = {type(label).__name__ for label in given if isinstance(label, (bool, int, float, np.generic))} - names
    if len(names) > 1 or (names and others):
        kinds = ", ".join(sorted(names | others))
        raise ValueError(f"y has labels of mixed types ({kinds}); give labels of one type, e.g. by str()")


def classes_of(labels: NDArray[Any], estimator: Any, absent: NDArray[Any] | None = None) -> NDArray[Any]:
    """Different labels, sorted: (classes,); raises ValueError for fewer than two.

    ``absent`` are labels of rows of weight zero.
    """
    classes = np.unique(labels)
    if len(classes) < 2:
        without = [] if absent is None else [label for label in np.unique(absent).tolist() if label not in classes]
        said = f"; all rows of class {', '.join(map(repr, without))} have weight 0" if without else ""
        raise ValueError(
            f"{type(estimator).__name__} needs at least two classes in y, got only one class: "
            f"{classes.tolist()[0]!r}{said}"
        )
    return classes


def warn_of_rare(classes: NDArray[Any], numbers: Floats, weight: Floats) -> None:
    """Warn of classes with so few rows that their probabilities are little more than a guess."""
    rows = np.bincount(numbers[weight > 0.0].astype(int), minlength=len(classes))
    rare = [
        (label, int(count)) for label, count in zip(classes.tolist(), rows, strict=True) if 0 < count < RARE_CLASS_ROWS
    ]
    if rare:
        named = ", ".join(f"{label!r} ({count})" for label, count in rare[:5])
        more = f" and {len(rare) - 5} more" if len(rare) > 5 else ""
        warnings.warn(
            f"class {named}{more}: fewer than {RARE_CLASS_ROWS} of {int(rows.sum())} rows, too few to tell effects "
            "from chance; their probabilities are hardly more than their share of the rows",
            UserWarning,
            stacklevel=3,
        )


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
