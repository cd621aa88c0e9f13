"""Splits that a user gives: groups of rows that stay together, splitters of scikit-learn, and the order of time.

A fit keeps them as roles: an array (rows, splits) that says whether a split fits a row, validates it or leaves it out.
Roles go with the rows when these are dropped, merged or sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold

from ahofm.columns.basis import Floats
from ahofm.training.validation import Split, class_fold_counts, fold_counts, search_sizes, targets_differ
from ahofm.tuning import FULL_SEARCH_ROWS

if TYPE_CHECKING:
    from ahofm.training.data import Rows

UNUSED, FITTED, VALIDATED = 0, 1, 2
"""Roles of a row in a split."""

_LEAST_FRACTION = 1e-9
"""Lower bound of the fraction of validation rows, where it is a divisor."""

_STRATIFIED_GROUPS = 5_000
"""Most groups whose classes are spread evenly over folds, one group after the other."""


def group_codes(groups: Any, n_rows: int) -> NDArray[np.intp]:
    """Numbers 0, 1, ... of the groups of rows: (n,).

    Raises
    ------
    ValueError
        For another number of rows, for missing values, and for fewer than two groups.
    """
    found = np.asarray(groups)
    if found.shape != (n_rows,):
        raise ValueError(f"groups has shape {found.shape}, expected ({n_rows},): one group per row of X")
    missing = np.array([value is None or value != value for value in found.tolist()], dtype=bool)  # noqa: PLR0124 - NaN
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(f"groups is missing in row {row}; give every row a group, or drop the row")
    numbers: dict[Any, int] = {}
    codes = np.array([numbers.setdefault(value, len(numbers)) for value in found.tolist()], dtype=np.intp)
    if len(numbers) < 2:
        value = next(iter(numbers), None)
        raise ValueError(
            f"groups is {value!r} in every row; validation rows need groups of their own: give at least two, or none"
        )
    return codes


def splits_of(cv: Any, X: Any, y: Any, groups: Any) -> int | list[Split] | None:
    """What ``cv`` means for these rows: None, a number of folds, or the splits of a splitter or an iterable.

    Parameters
    ----------
    cv : None, int, splitter or iterable of (rows to fit, validation rows)
        A splitter has scikit-learn's method ``split(X, y, groups)``.
    X, y, groups
        What ``fit`` was given.

    Raises
    ------
    TypeError, ValueError
        Where it is none of these.
    """
    if cv is None:
        return None
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        if cv < 2:
            raise ValueError(f"cv must be at least 2 folds, got {cv}")
        return int(cv)
    if hasattr(cv, "split") and not isinstance(cv, str):
        return list(cv.split(X, y, groups))
    if isinstance(cv, Iterable) and not isinstance(cv, (str, bytes)):
        return list(cv)
    raise TypeError(
        f"cv must be None, a number of folds, a splitter with split(X, y, groups) or a list of (rows to fit, "
        f"validation rows), got {cv!r}"
    )


def roles_of(splits: Sequence[Any], n_rows: int) -> NDArray[np.int8]:
    """Roles (n, splits) of rows in splits given by row numbers.

    Raises
    ------
    ValueError
        For no splits, rows that are not there, rows that are fitted and validated, and empty parts.
    """
    if not len(splits):
        raise ValueError("cv gave no splits; it must give at least one pair of rows to fit and validation rows")
    roles = np.zeros((n_rows, len(splits)), dtype=np.int8)
    for k, split in enumerate(splits):
        try:
            fitted, validation = (_row_numbers(rows, n_rows, k) for rows in split)
        except TypeError as error:
            raise ValueError(
                f"cv: split {k} is {type(split).__name__}, not a pair of rows to fit and validation rows; give pairs"
            ) from error
        for name, rows in (("rows to fit", fitted), ("validation rows", validation)):
            if not len(rows):
                raise ValueError(f"cv: split {k} has no {name}; every split needs both")
        both = np.intersect1d(fitted, validation)
        if len(both):
            raise ValueError(f"cv: row {both[0]} is fitted and validated in split {k}; it may be in one part only")
        roles[fitted, k], roles[validation, k] = FITTED, VALIDATED
    return roles


def _row_numbers(rows: Any, n_rows: int, split: int) -> NDArray[np.int64]:
    found = np.asarray(rows)
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        raise ValueError(f"cv: split {split} must hold row numbers, got an array of {found.dtype}, {found.shape}")
    outside = found[(found < 0) | (found >= n_rows)]
    if len(outside):
        raise ValueError(f"cv: split {split} names row {outside[0]}, but X has rows 0 to {n_rows - 1}; use those")
    return np.asarray(found, dtype=np.int64)


def with_roles(
    rows: Rows,
    n_folds: int | None,
    seed: int,
    *,
    dispersed: bool,
    default_folds: int,
    classes: bool = False,
    fraction: float | None = None,
) -> Rows:
    """Rows with the roles of folds that keep groups together; unchanged with roles, or without groups and ``n_folds``.

    Parameters
    ----------
    rows : Rows
    n_folds : int or None
        None: as many as a fit without groups has.
    seed : int
    dispersed : bool
        Whether the family's dispersion is estimated; a row tells less otherwise.
    default_folds : int
        Folds of a fit of few rows.
    classes : bool
        Whether the fit is one of several classes with shared curves.
    fraction : float, optional
        One split with that fraction of validation rows in place of folds, for early stopping.
    """
    if rows.roles is not None or (n_folds is None and rows.groups is None):
        return rows
    n = len(rows.y)
    groups = np.arange(n) if rows.groups is None else rows.groups
    present = len(np.unique(groups))
    if present < 2:
        raise ValueError("groups: all rows of positive weight are of one group; give at least two, or none")
    if fraction is not None:
        count, n_parts = 1, max(min(round(1.0 / max(fraction, _LEAST_FRACTION)), present), 2)
    elif n_folds is not None:
        if n_folds > present:
            what = f"{n} rows" if rows.groups is None else f"{present} groups"
            raise ValueError(
                f"cv={n_folds} is more folds than there are {what[len(str(present)) + 1 :]}: {what}; "
                "give at most that many"
            )
        count = n_parts = n_folds
    else:
        count, n_parts = class_fold_counts(n) if classes else fold_counts(n, default_folds, dispersed=dispersed)
        n_parts = min(n_parts, present)
        count = min(count, n_parts)
    fold = folds_of_groups(groups, rows.y if len(np.unique(rows.y)) <= 2 or classes else None, n_parts, seed)
    roles = np.stack([np.where(fold == k, VALIDATED, FITTED) for k in range(count)], axis=1)
    return replace(rows, roles=roles.astype(np.int8))


def folds_of_groups(groups: NDArray[np.intp], classes: Floats | None, n_folds: int, seed: int) -> NDArray[np.intp]:
    """Fold (n,) of each row, the same for all rows of a group; folds have about equal numbers of rows.

    Large groups are dealt out first, equal ones in random order; with classes these are spread evenly as well.
    """
    names, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if classes is not None and n_folds <= len(names) <= _STRATIFIED_GROUPS:
        fold = np.empty(len(groups), dtype=np.intp)
        least = int(np.unique(classes, return_counts=True)[1].min())
        if least >= n_folds:  # scikit-learn warns of fewer
            made = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed % 2**32)
            for k, (_, rest) in enumerate(made.split(groups, classes, groups)):
                fold[rest] = k
            if len(np.unique(fold)) == n_folds:
                return fold
    order = np.random.default_rng(seed).permutation(len(names))
    order = order[np.argsort(-sizes[order], kind="stable")]
    mass, place = np.zeros(n_folds), np.empty(len(names), dtype=np.intp)
    for group in order:
        place[group] = int(mass.argmin())
        mass[place[group]] += sizes[group]
    return np.asarray(place[codes])


def given_splits(rows: Rows, seed: int, *, dispersed: bool, rare: bool = False) -> list[Split]:
    """Rows to fit and validation rows by the roles of rows; of many rows a random part of each.

    Raises
    ------
    ValueError
        Where targets of a part are all equal, so that nothing can be fitted or judged.
    """
    assert rows.roles is not None
    rng, splits = np.random.default_rng(seed), []
    for role in rows.roles.T:
        fitted, validation = np.flatnonzero(role == FITTED), np.flatnonzero(role == VALIDATED)
        if not len(fitted) or not len(validation):
            raise ValueError("cv: a split has no rows of positive weight to fit, or none to validate; give it some")
        if len(rows.y) > FULL_SEARCH_ROWS:
            most_fitted, most_validated = search_sizes(len(rows.y), dispersed=dispersed, rare=rare)
            fitted, validation = _some(fitted, most_fitted, rng), _some(validation, most_validated, rng)
        splits.append((fitted, validation))
    if not targets_differ(splits, rows.y):
        whose = "groups" if rows.groups is not None else "cv"
        raise ValueError(
            f"{whose}: targets of the rows to fit, or of the validation rows, are all equal in a split; give splits in "
            "which they differ"
        )
    return splits


def _some(rows: NDArray[np.intp], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    chosen = rows if len(rows) <= count else np.sort(rng.permutation(rows)[:count])
    return np.asarray(chosen, dtype=np.int64)


def time_splits(times: NDArray[Any], n_splits: int) -> list[Split]:
    """Splits in which fits to earlier rows predict later ones: row numbers to fit, and validation rows.

    Rows in the order of time are cut into ``n_splits + 1`` parts of about equal size, rows of equal times not apart.
    Each part but the first is validated by the rows before it.

    Parameters
    ----------
    times : array of shape (n,)
        Numbers, dates or text that sorts by time.
    n_splits : int

    Raises
    ------
    ValueError
        For missing times, and for fewer than ``n_splits + 1`` different ones.
    """
    _, rank = np.unique(times, return_inverse=True)
    last = np.searchsorted(np.sort(rank), np.arange(rank.max() + 1), side="right")  # rows up to each time
    cuts = [int(np.abs(last - k * len(rank) / (n_splits + 1)).argmin()) for k in range(1, n_splits + 1)]
    bounds = [*cuts, int(rank.max())]
    if len(set(bounds)) < len(bounds):
        raise ValueError(
            f"{rank.max() + 1} different times are too few for {n_splits} splits by time; give times that differ more"
        )
    return [
        (np.flatnonzero(rank <= low), np.flatnonzero((rank > low) & (rank <= high))) for low, high in pairwise(bounds)
    ]
