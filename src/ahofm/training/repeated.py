"""Random effects of training rows that repeat exactly, included if they reduce the loss of validation rows.

The effect of a validation row is predicted from the targets of its other copies, its own target left out. The
prediction is a credibility mean (Bühlmann): n copies with mean target m and a fitted mean mu give
``(n m + kappa mu) / (n + kappa)``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.families import Bernoulli, Family, Gaussian, Ordinal
from ahofm.model import Choice, Model
from ahofm.model.near_rows import NearRows
from ahofm.model.repeated import RepeatedRows, hashed_rows
from ahofm.training.credibility import (
    DistinctRows,
    Effects,
    Validation,
    credibility_mean,
    level_counts,
    linear_predictor_of,
)
from ahofm.training.data import Data
from ahofm.training.settings import Settings
from ahofm.tuning.classes import LEAST_REPEATED_SHARE_OF_CLASSES
from ahofm.tuning.copies import LEAST_REPEATED_SHARE


def _allows_effects_of_rows(data: Data, settings: Settings) -> bool:
    """Whether rows may have random effects: interactions of all columns, so none where interactions are restricted."""
    given = (settings.interaction_cst, settings.exclude, settings.monotonic_cst)
    by_default = settings.order in (None, "auto") and settings.rank == "auto" and not any(map(bool, given))
    by_default = by_default and isinstance(settings.factor_prior, str) and settings.factor_prior == "auto"
    countable = data.rows.offset is None and data.rows.roles is None and data.counts_rows and data.all_raw
    return by_default and countable and _has_credibility(data.family)


def _has_credibility(family: Family) -> bool:
    return isinstance(family, (Bernoulli, Ordinal)) or (isinstance(family, Gaussian) and family.link == "identity")


@dataclass(frozen=True)
class Copies:
    """Distinct training rows with the targets of their copies, and predictions of validation rows from these.

    Attributes
    ----------
    hashes, first : arrays of shape (distinct rows,)
        Of each, and the number of its first copy.
    counts, sums : arrays of shape (distinct rows,)
        Number of copies and sum of their targets, in the units of the fit.
    kappa : float
        Prior weight of the fitted mean, in rows.
    eta : array of shape (m, 1)
        Linear predictors of validation rows, by cross-validated fits and the other copies.
    choice : Choice
        The record of it.
    levels : array of shape (distinct rows, levels), or None
        Of ordered levels: number of copies with each.
    near : NearRows or None
        Training rows that count as parts of copies of rows near them, with sums in the units of the fit.
    """

    hashes: NDArray[np.uint64]
    first: NDArray[np.intp]
    counts: Floats
    sums: Floats
    kappa: float
    eta: Floats
    choice: Choice
    levels: Floats | None = None
    near: NearRows | None = None

    def added_to(self, model: Model, data: Data) -> Model:
        """The model with effects of repeated rows, and a record of these."""
        total = data.units.centre * self.counts + data.units.scale * self.sums  # of the targets as they were given
        table = data.table.take(self.first)
        of_model, near = model.eta(table), self.near and replace(self.near, sums=total)
        counts, sums = (self.counts, total) if near is None else near.parts_of_copies(data.encoder.codebooks, table)
        mean = credibility_mean(counts, sums, self.kappa, model.family.mean(of_model))
        effects = linear_predictor_of(model.family, mean) - of_model[:, 0]
        repeated = RepeatedRows.of(self.hashes, effects, self.kappa, self.levels, near)
        return replace(model, repeated=repeated, choices=(*model.choices, self.choice))


def judged_copies(
    data: Data, settings: Settings, rows: NDArray[np.int64] | None, validated: Floats, eta: Floats
) -> Copies | None:
    """Copies of training rows, if their effects reduce the loss of validation rows significantly, else None.

    Parameters
    ----------
    data : Data
    settings : Settings
    rows : array of shape (m,), or None
        Numbers of the validation rows.
    validated : array of shape (m,)
        Their weights: a row may be validated in several parts, with some of its copies each.
    eta : array of shape (m, 1)
        Their linear predictors by fits that did not have them, in the units of the fit.
    """
    if rows is None or not _allows_effects_of_rows(data, settings):
        return None
    weight, y = data.rows.weight, data.rows.y
    hashed = hashed_rows(data.encoder.codebooks, data.table)
    hashes, first, group = np.unique(hashed, return_index=True, return_inverse=True)
    counts: Floats = np.asarray(np.bincount(group, weight), dtype=np.float64)
    sums: Floats = np.asarray(np.bincount(group, weight * y), dtype=np.float64)
    share, two_classes = float(counts[counts > 1.0].sum() / counts.sum()), isinstance(data.family, Bernoulli)
    if share < (LEAST_REPEATED_SHARE_OF_CLASSES if two_classes else LEAST_REPEATED_SHARE):
        return None
    distinct, family = DistinctRows(counts, sums), data.inner.learned(y[rows], eta, validated)
    unseen = Validation(family, group[rows], y[rows], eta[:, 0], validated)
    levels = level_counts(family, group, weight, y) if isinstance(family, Ordinal) else None
    found = unseen.by_copies(distinct, levels)
    if levels is None:
        losses, table = unseen.losses if found is None else found.losses, data.table.take(first)
        found = unseen.by_near_rows(distinct, data.encoder.codebooks, table, losses) or found
    if found is None:
        return None
    choice = Choice("repeated rows", found.said, _why(data, share, counts, unseen, found))
    return Copies(hashes, first, counts, sums, found.kappa, found.eta[:, np.newaxis], choice, levels, found.near)


def _why(data: Data, share: float, counts: Floats, unseen: Validation, found: Effects) -> str:
    """Losses with effects of other rows and without them, of validation rows that have copies or of all."""
    judged = counts[unseen.at] > 1.0 if found.near is None else np.ones(len(unseen.at), dtype=bool)
    weight = unseen.weight[judged]
    before, after = (float(weight @ losses[judged] / weight.sum()) for losses in (unseen.losses, found.losses))
    size = "losses"
    if data.family.dispersed:
        size, before, after = "errors", data.units.scale * np.sqrt(before), data.units.scale * np.sqrt(after)
    whose = "whose" if found.near is None else "and all"
    said = f"{whose} {size} on validation rows were {before:.4g} without, {after:.4g} with it"
    return f"{share:.0%} of the training rows have copies, {said}"
