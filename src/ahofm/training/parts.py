"""Parts of cross-validation: rows to fit and validation rows, of equal rows some of the copies each.

Equal rows are merged into one whose weight is their number. Where targets are whole numbers, rows with equal columns
and targets are nevertheless observations of their own. If all copies were validated together, the rows to fit would
have too few of just those targets where columns take those values: the more flexible a fit, the worse it would look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ahofm.backends import Response
from ahofm.columns.basis import Floats
from ahofm.training.case_control import sample_rows
from ahofm.training.data import Rows
from ahofm.training.splits import given_splits
from ahofm.training.validation import Split, fold_counts, stratified, targets_differ, validation_split
from ahofm.tuning import FULL_SEARCH_ROWS, MOST_DIVIDED_WEIGHT


@dataclass(frozen=True)
class Part:
    """Rows to fit, validation rows, and which fraction of the weight of each row that is.

    Attributes
    ----------
    fitted, validation : arrays of shape (m,)
        Numbers of rows, increasing.
    fitted_share, validation_share : arrays of shape (m,), or None
        In (0, 1]; None: all of the weight.
    """

    fitted: NDArray[np.int64]
    validation: NDArray[np.int64]
    fitted_share: Floats | None = None
    validation_share: Floats | None = None

    @property
    def rows(self) -> Split:
        """Rows to fit, and validation rows."""
        return self.fitted, self.validation

    @property
    def n_fitted(self) -> float:
        """Number of rows to fit, those with a fraction of their weight as that fraction."""
        return float(len(self.fitted) if self.fitted_share is None else self.fitted_share.sum())


def parts_of(response: Response, rows: Rows, seed: int, n_folds: int) -> list[Part] | None:
    """Those given or, at random or if necessary stratified; None if all targets of a part are equal.

    Parameters
    ----------
    response : Response
        Of all rows.
    rows : Rows
        The same rows, with the roles that splits give them, if any.
    seed, n_folds : int
    """
    options = {"dispersed": response.family.dispersed, "rare": response.rare}
    if rows.roles is not None:
        return [Part(*split) for split in given_splits(rows, seed, **options)]
    if has_copies(response):
        divided = (parts_of_copies(response, seed, n_folds, stratify=stratify) for stratify in (False, True))
        return next((parts for parts in divided if targets_differ([part.rows for part in parts], response.y)), None)
    splits = validation_split(response.n_rows, seed, **options, n_folds=n_folds)
    if not targets_differ(splits, response.y):
        splits = stratified(response.y, seed, **options, n_folds=n_folds)
    if response.rare and response.n_rows > FULL_SEARCH_ROWS:
        splits = [_with_more_events(response, split, seed) for split in splits]
    return [Part(*split) for split in splits] if targets_differ(splits, response.y) else None


def _with_more_events(response: Response, split: Split, seed: int) -> Split:
    """The same validation rows, and a case-control sample of all others."""
    others = np.setdiff1d(np.arange(response.n_rows), split[1])
    return sample_rows(response, others, len(split[0]), np.random.default_rng([seed, 2])), split[1]


def validated_response(parts: Sequence[Part], response: Response) -> Response:
    """The validation rows of all parts, one part after the other, with the fractions of their weights."""
    found = response.take(np.concatenate([part.validation for part in parts]))
    shares = [part.validation_share for part in parts if part.validation_share is not None]
    return replace(found, weight=found.weight * np.concatenate(shares)) if shares else found


def has_copies(response: Response) -> bool:
    """Whether some rows stand for several observations, whose targets are equal because they are whole numbers."""
    weight, y = response.weight, response.y
    counted = weight.max() > 1.0 and weight.sum() < MOST_DIVIDED_WEIGHT and not (weight % 1.0).any()
    return bool(counted and response.n_rows <= FULL_SEARCH_ROWS and not response.quadratic and not (y % 1.0).any())


def parts_of_copies(response: Response, seed: int, n_folds: int, *, stratify: bool = False) -> list[Part]:
    """Random folds of all copies of all rows; with ``stratify``, every target spread over the folds evenly.

    Parameters
    ----------
    response : Response
        Whose weights are numbers of copies.
    seed, n_folds : int
    stratify : bool
    """
    n_validated, n_parts = fold_counts(response.n_rows, n_folds, dispersed=response.family.dispersed)
    rng, counts = np.random.default_rng(seed), response.weight.astype(np.int64)
    targets = response.y if stratify else np.zeros(len(counts))
    validated = np.zeros((n_parts, len(counts)), dtype=np.int64)
    for number, target in enumerate(np.unique(targets)):
        rows = np.flatnonzero(targets == target)
        left = counts[rows].copy()
        for k in range(n_parts):
            fold = (k + number) % n_parts
            size = -(-int(left.sum()) // (n_parts - k))
            validated[fold, rows] = rng.multivariate_hypergeometric(left, size, method="marginals")
            left -= validated[fold, rows]
    return [_part(counts, validated[fold]) for fold in range(n_validated)]


def _part(counts: NDArray[np.int64], validated: NDArray[np.int64]) -> Part:
    fitted, validation = np.flatnonzero(validated < counts), np.flatnonzero(validated)
    share = validated / counts
    return Part(fitted, validation, 1.0 - share[fitted], share[validation])
