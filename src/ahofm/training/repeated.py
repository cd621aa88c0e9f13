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
from ahofm.model.repeated import RepeatedRows, hashed_rows
from ahofm.training.data import Data
from ahofm.training.settings import Settings
from ahofm.training.validation import mean_and_error
from ahofm.tuning import LEAST_REPEATED_SHARE, REPEATED_KAPPAS, REPEATED_STANDARD_ERRORS
from ahofm.tuning.classes import DISAGREEING_COPIES, LEAST_REPEATED_SHARE_OF_CLASSES
from ahofm.tuning.numerics import LEVEL_BISECTIONS, MOST_REPEATED_LOGIT


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
    """

    hashes: NDArray[np.uint64]
    first: NDArray[np.intp]
    counts: Floats
    sums: Floats
    kappa: float
    eta: Floats
    choice: Choice

    def added_to(self, model: Model, data: Data) -> Model:
        """The model with effects of repeated rows, and a record of these."""
        total = data.units.centre * self.counts + data.units.scale * self.sums  # of the targets as they were given
        of_model = model.eta(data.table.take(self.first))
        mean = _credibility_mean(self.counts, total, self.kappa, model.family.mean(of_model))
        effects = _linear_predictor_of(model.family, mean) - of_model[:, 0]
        repeated = RepeatedRows.of(self.hashes, effects, self.kappa)
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
    repeated = counts > 1.0
    share = float(counts[repeated].sum() / counts.sum())
    judged = repeated[group[rows]]
    two_classes = isinstance(data.family, Bernoulli)
    if share < (LEAST_REPEATED_SHARE_OF_CLASSES if two_classes else LEAST_REPEATED_SHARE) or not judged.any():
        return None
    family = data.inner.learned(y[rows], eta, validated)
    at, mean = group[rows[judged]], family.mean(eta[judged])
    target, weights = y[rows[judged]], validated[judged]
    others = counts[at] - 1.0, sums[at] - target
    kappas = np.geomspace(*REPEATED_KAPPAS)
    with_copies = [_linear_predictor_of(family, _credibility_mean(*others, kappa, mean)) for kappa in kappas]
    without, *losses = (_loss(family, target, point) for point in (eta[judged, 0], *with_copies))
    disagreement = DISAGREEING_COPIES * np.log1p(1.0 / kappas) if two_classes else np.zeros(len(kappas))
    best = int(np.argmin([weights @ loss + more for loss, more in zip(losses, disagreement, strict=True)]))
    gain, error = mean_and_error(without - losses[best], weights, at)
    if not gain - disagreement[best] / weights.sum() > REPEATED_STANDARD_ERRORS * error:
        return None
    kappa = float(kappas[best])
    said = f"copies of training rows have effects of their own: n / (n + {kappa:.3g}) of what n copies differed by"
    size = "errors" if data.family.dispersed else "losses"
    before, after = (float(weights @ part / weights.sum()) for part in (without, losses[best]))
    if data.family.dispersed:
        before, after = data.units.scale * np.sqrt(before), data.units.scale * np.sqrt(after)
    why = (
        f"{share:.0%} of the training rows have copies, whose {size} on validation rows were {before:.4g} without, "
        f"{after:.4g} with it"
    )
    predicted = eta.copy()
    predicted[judged, 0] = with_copies[best]
    return Copies(hashes, first, counts, sums, kappa, predicted, Choice("repeated rows", said, why))


def _credibility_mean(counts: Floats, sums: Floats, kappa: float, mean: Floats) -> Floats:
    """Means (n,) of ``counts`` targets with the given ``sums``, shrunk to ``mean`` as by ``kappa`` further rows."""
    return np.asarray((sums + kappa * mean) / (counts + kappa))


def _loss(family: Family, y: Floats, eta: Floats) -> Floats:
    """Squared errors, or minus log-likelihoods."""
    if isinstance(family, Gaussian):
        return np.asarray((y - eta) ** 2)
    return family.loss(y, np.clip(eta, -MOST_REPEATED_LOGIT, MOST_REPEATED_LOGIT)[:, np.newaxis])[0]


def _linear_predictor_of(family: Family, mean: Floats) -> Floats:
    """Linear predictors (n,) of means; of expected levels by bisection."""
    if isinstance(family, Gaussian):
        return mean
    if isinstance(family, Bernoulli):
        return np.asarray(np.log(mean) - np.log1p(-mean))
    low, high = np.full(len(mean), -MOST_REPEATED_LOGIT), np.full(len(mean), MOST_REPEATED_LOGIT)
    for _ in range(LEVEL_BISECTIONS):
        middle = 0.5 * (low + high)
        below = family.mean(middle[:, np.newaxis]) < mean
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(0.5 * (low + high))
