"""Validation rows: how rows are split for cross-validation, and the standard errors of means over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.model import Gain
from ahofm.tuning import (
    FOLDED_ROWS,
    FOLDS,
    FULL_SEARCH_ROWS,
    HOLDOUT_PARTS,
    NON_DISPERSED_VALIDATION_ROWS,
    RARE_SEARCH_ROWS,
    SEARCH_ROWS,
)
from ahofm.tuning.classes import (
    CLASS_FOLDED_ROWS,
    CLASS_FOLDS,
    CLASS_SEARCH_ROWS,
    CLASS_VALIDATION_ROWS,
    NON_DISPERSED_FOLDED_ROWS,
)

Split: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Rows to fit, and validation rows."""


def folds(n_rows: int, seed: int, n_folds: int = FOLDS, *, dispersed: bool = True) -> list[Split]:
    """Rows to fit and rows to predict: every row is predicted once when there are few, a fifth of them when many."""
    order = np.random.default_rng(seed).permutation(n_rows)
    count = _folds_of(n_rows, n_folds, dispersed=dispersed)
    folded = np.array_split(order, count if count > 1 else HOLDOUT_PARTS)[:count]
    return [(np.sort(np.setdiff1d(order, fold)), np.sort(fold)) for fold in folded]


def fold_counts(n_rows: int, n_folds: int, *, dispersed: bool) -> tuple[int, int]:
    """Folds that are validated, and all folds: every one of few rows, one of ``HOLDOUT_PARTS`` of many."""
    count = _folds_of(n_rows, n_folds, dispersed=dispersed) if n_rows <= FULL_SEARCH_ROWS else 1
    return count, count if count > 1 else HOLDOUT_PARTS


def class_fold_counts(n_rows: int) -> tuple[int, int]:
    """The same for several classes with shared curves."""
    return (CLASS_FOLDS, CLASS_FOLDS) if n_rows <= CLASS_FOLDED_ROWS else (1, HOLDOUT_PARTS)


def _folds_of(n_rows: int, n_folds: int, *, dispersed: bool) -> int:
    return n_folds if n_rows <= (FOLDED_ROWS if dispersed else NON_DISPERSED_FOLDED_ROWS) else 1


def validation_split(
    n_rows: int, seed: int, *, dispersed: bool, rare: bool = False, n_folds: int = FOLDS
) -> list[Split]:
    """Rows to fit and rows to predict for a search: all of them, or some when they are many.

    More of them for families without dispersion, whose targets contain less information, and where events are rare.
    """
    if n_rows <= FULL_SEARCH_ROWS:
        return folds(n_rows, seed, n_folds, dispersed=dispersed)
    fitted, validation = search_sizes(n_rows, dispersed=dispersed, rare=rare)
    order = np.random.default_rng(seed).permutation(n_rows)
    return [(np.sort(order[:fitted]), np.sort(order[fitted : fitted + validation]))]


def search_sizes(n_rows: int, *, dispersed: bool, rare: bool) -> tuple[int, int]:
    """Rows to fit, and validation rows, where there are more than ``FULL_SEARCH_ROWS``."""
    fitted, validation = (
        (SEARCH_ROWS, FULL_SEARCH_ROWS) if dispersed else (2 * SEARCH_ROWS, NON_DISPERSED_VALIDATION_ROWS)
    )
    if rare:
        fitted = max(fitted, min(RARE_SEARCH_ROWS, n_rows // 3))
    return fitted, min(validation, n_rows - fitted)


def stratified(y: Floats, seed: int, *, dispersed: bool, rare: bool = False, n_folds: int = FOLDS) -> list[Split]:
    """Parts of the same sizes in which targets are spread evenly over the rows to fit and the rows to predict."""
    order = np.random.default_rng(seed).permutation(len(y))
    order = order[np.argsort(-y[order], kind="stable")]
    if len(y) <= FULL_SEARCH_ROWS:
        count = _folds_of(len(y), n_folds, dispersed=dispersed)
        folded = [order[k :: count if count > 1 else HOLDOUT_PARTS] for k in range(count)]
        return [(np.sort(np.setdiff1d(order, fold)), np.sort(fold)) for fold in folded]
    fitted, validation = search_sizes(len(y), dispersed=dispersed, rare=rare)
    chosen = _evenly(order, fitted)
    left = order[~np.isin(order, chosen)]
    return [(np.sort(chosen), np.sort(_evenly(left, validation)))]


def _evenly(rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """``count`` of the rows, at equal distances."""
    return rows[np.arange(count) * len(rows) // count]


def targets_differ(splits: Sequence[Split], y: Floats) -> bool:
    """Whether targets differ among the rows to fit of every part, and among all validation rows together."""
    fitted = [y[rows] for rows, _ in splits]
    return all(
        np.ptp(targets) > 0.0 for targets in (*fitted, y[np.concatenate([validation for _, validation in splits])])
    )


def class_splits(y: NDArray[np.intp], seed: int) -> list[Split]:
    """Rows to fit and validation rows, every class spread over all parts as evenly as it can be."""
    order = np.random.default_rng(seed).permutation(len(y))
    _, first, classes = np.unique(y[order], return_index=True, return_inverse=True)
    order = order[np.argsort(first[classes], kind="stable")]  # class after class, however they are numbered
    fold_of_row = np.empty(len(y), dtype=np.int64)
    if len(y) <= CLASS_FOLDED_ROWS:
        fold_of_row[order] = np.arange(len(y)) % CLASS_FOLDS
        return [
            (np.flatnonzero(fold_of_row != fold), np.flatnonzero(fold_of_row == fold)) for fold in range(CLASS_FOLDS)
        ]
    fold_of_row[order] = np.arange(len(y))
    fitted = min(CLASS_SEARCH_ROWS, (HOLDOUT_PARTS - 1) * len(y) // HOLDOUT_PARTS)
    n_validation = min(CLASS_VALIDATION_ROWS, len(y) - fitted)
    chosen = _evenly(order, fitted)
    left = order[~np.isin(order, chosen)]
    return [(np.sort(chosen), np.sort(_evenly(left, n_validation)))]


def mean_and_error(values: Floats, weight: Floats, groups: NDArray[np.intp] | None = None) -> tuple[float, float]:
    """Weighted mean of a number per row, and its standard error: values, weight and groups have shape (n,).

    With ``groups``, rows of a group go together: the standard error is that of a mean of independent groups. A single
    group says nothing of others: its standard error is as large as the mean.
    """
    mean = float(np.average(values, weights=weight))
    if groups is not None:
        names, codes = np.unique(groups, return_inverse=True)
        if len(names) == 1:
            return mean, abs(mean)
        sums = np.bincount(codes, weights=weight * (values - mean))
        return mean, float(np.sqrt(sums @ sums * len(names) / (len(names) - 1)) / weight.sum())
    variance = float(np.average((values - mean) ** 2, weights=weight))
    rows = float(weight.sum() ** 2 / (weight @ weight))
    return mean, float(np.sqrt(variance / rows))


def gain_of(
    order: int,
    over: int,
    without: Floats,
    losses: Floats,
    weight: Floats,
    floor: float = 0.0,
    groups: NDArray[np.intp] | None = None,
) -> Gain:
    """Relative decrease of the mean loss on validation rows from a lower order to a higher one.

    Parameters
    ----------
    order, over : int
        The higher and the lower order.
    without, losses : arrays of shape (n,)
        Losses of the rows at the lower and at the higher order.
    weight : array of shape (n,)
    floor : float
        Mean loss of a perfect prediction.
    groups : array of shape (n,), optional
        Rows that go together.
    """
    mean, error = mean_and_error(without - losses, weight, groups)
    unit = max(float(np.average(without, weights=weight)) - floor, np.finfo(float).tiny)
    return Gain(order, over, mean / unit, error / unit, len(weight))
