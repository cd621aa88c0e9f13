"""Parts of cross-validation: rows to fit and validation rows, of equal rows some of the copies each.

Equal rows are merged into one whose weight is their number. Where targets are whole numbers, rows with equal columns
and targets are nevertheless observations of their own. If all copies were validated together, the rows to fit would
have too few of just those targets where columns take those values: the more flexible a fit, the worse it would look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.backends import Response
from ahofm.columns.basis import Floats
from ahofm.training.case_control import sample_rows
from ahofm.training.data import Data, Rows
from ahofm.training.splits import given_splits
from ahofm.training.validation import (
    Split,
    class_fold_counts,
    class_splits,
    fold_counts,
    stratified,
    targets_differ,
    validation_split,
)
from ahofm.tuning import FULL_SEARCH_ROWS, MOST_DIVIDED_WEIGHT
from ahofm.tuning.classes import CLASS_FOLDED_ROWS
from ahofm.tuning.numerics import WHOLE_TOL


@dataclass(frozen=True)
class Part:
    """Rows to fit, validation rows, and which fraction of the weight of each row that is.

    Attributes
    ----------
    fitted, validation : arrays of shape (m,)
        Numbers of rows, increasing.
    fitted_fraction, validation_fraction : arrays of shape (m,), or None
        In (0, 1]; None: all of the weight.
    """

    fitted: NDArray[np.int64]
    validation: NDArray[np.int64]
    fitted_fraction: Floats | None = None
    validation_fraction: Floats | None = None

    @property
    def rows(self) -> Split:
        """Rows to fit, and validation rows."""
        return self.fitted, self.validation

    @property
    def n_fitted(self) -> float:
        """Number of rows to fit, those with a fraction of their weight as that fraction."""
        return float(len(self.fitted) if self.fitted_fraction is None else self.fitted_fraction.sum())


def parts_of(response: Response, rows: Rows, seed: int, n_folds: int, *, whole: bool) -> list[Part] | None:
    """Those given or, at random or if necessary stratified; None if all targets of a part are equal.

    Parameters
    ----------
    response : Response
        Of all rows.
    rows : Rows
        The same rows, with the roles that splits give them, if any.
    seed, n_folds : int
    whole : bool
        Whether targets are whole numbers, so that equal rows are observations of their own.
    """
    dispersed = response.family.dispersed
    if rows.roles is not None:
        return [Part(*split) for split in given_splits(rows, seed, dispersed=dispersed, rare=response.rare)]
    if whole and response.n_rows <= FULL_SEARCH_ROWS and has_copies(response.weight):
        folds, copies = fold_counts(response.n_rows, n_folds, dispersed=dispersed), (response.weight, response.y)
        for divided in (parts_of_copies(*copies, seed, folds, stratify=stratify) for stratify in (False, True)):
            if targets_differ([part.rows for part in divided], response.y):
                return divided
        return None
    splits = validation_split(response.n_rows, seed, dispersed=dispersed, rare=response.rare, n_folds=n_folds)
    if not targets_differ(splits, response.y):
        splits = stratified(response.y, seed, dispersed=dispersed, rare=response.rare, n_folds=n_folds)
    if response.rare and response.n_rows > FULL_SEARCH_ROWS:
        splits = [_with_more_events(response, split, seed) for split in splits]
    return [Part(*split) for split in splits] if targets_differ(splits, response.y) else None


def parts_of_classes(y: NDArray[np.intp], weight: Floats, seed: int) -> list[Part]:
    """Every class spread over all parts as evenly as it can be."""
    if len(y) <= CLASS_FOLDED_ROWS and has_copies(weight):
        return parts_of_copies(weight, y, seed, class_fold_counts(len(y)), stratify=True)
    return [Part(*split) for split in class_splits(y, seed)]


def _with_more_events(response: Response, split: Split, seed: int) -> Split:
    """The same validation rows, and a case-control sample of all others."""
    others = np.setdiff1d(np.arange(response.n_rows), split[1])
    return sample_rows(response, others, len(split[0]), np.random.default_rng([seed, 2])), split[1]


def validated_weight(parts: Sequence[Part], weight: Floats) -> Floats:
    """Weights of the validation rows of all parts, one part after the other, of those (n,) of all rows."""
    found = [
        weight[part.validation] * (1.0 if part.validation_fraction is None else part.validation_fraction)
        for part in parts
    ]
    return np.concatenate(found)


def whole_targets(data: Data) -> bool:
    """Whether all targets are whole numbers, up to rounding, in the units that they were given in."""
    y = data.units.centre + data.units.scale * data.rows.y
    return bool((np.abs(y - np.round(y)) <= WHOLE_TOL * np.maximum(np.abs(y), 1.0)).all())


def has_copies(weight: Floats) -> bool:
    """Whether weights (n,) are numbers of copies, and not all of them one."""
    return bool(weight.max() > 1.0 and weight.sum() < MOST_DIVIDED_WEIGHT and not (weight % 1.0).any())


def parts_of_copies(
    weight: Floats, y: NDArray[Any], seed: int, folds: tuple[int, int], *, stratify: bool
) -> list[Part]:
    """Random folds of all copies of all rows.

    Parameters
    ----------
    weight : array of shape (n,)
        Numbers of copies.
    y : array of shape (n,)
    seed : int
    folds : pair of int
        Folds that are validated, and all folds.
    stratify : bool
        Whether every target is spread over the folds as evenly as it can be.
    """
    n_validated, n_parts = folds
    rng, counts = np.random.default_rng(seed), weight.astype(np.int64)
    targets = y if stratify else np.zeros(len(counts))
    validated = np.zeros((n_parts, len(counts)), dtype=np.int64)
    first = 0  # the fold that is one copy larger, where they cannot be equal, is another one for every target
    for target in np.unique(targets):
        rows = np.flatnonzero(targets == target)
        left = counts[rows]
        for k in range(n_parts):
            size = -(-int(left.sum()) // (n_parts - k))
            chosen = rng.multivariate_hypergeometric(left, size, method="marginals")
            validated[(first + k) % n_parts, rows] = chosen
            left = left - chosen
        first += int(counts[rows].sum()) % n_parts
    return [_part(counts, validated[fold]) for fold in range(n_validated)]


def _part(counts: NDArray[np.int64], validated: NDArray[np.int64]) -> Part:
    fitted, validation = np.flatnonzero(validated < counts), np.flatnonzero(validated)
    fraction = validated / counts
    return Part(fitted, validation, 1.0 - fraction[fitted], fraction[validation])
