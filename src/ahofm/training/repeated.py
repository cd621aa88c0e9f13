"""Whether a model remembers rows that repeat exactly: a candidate of its own, judged by validation rows.

Copies of a validation row other than itself are known where its own target is not, so that it can be predicted with
them and without.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.families import Bernoulli, Family, Gaussian
from ahofm.model import Choice, Model
from ahofm.model.repeated import RepeatedRows, hashed_rows
from ahofm.training.data import Data
from ahofm.training.settings import Settings
from ahofm.training.validation import mean_and_error
from ahofm.tuning import LEAST_REPEATED_SHARE, LIKELY_REPEATED_GAIN, REPEATED_KAPPAS


def _may_remember(data: Data, settings: Settings) -> bool:
    """Whether rows may have effects of their own: interactions of all columns, so none where these are restricted."""
    given = (settings.interaction_cst, settings.exclude, settings.monotonic_cst)
    by_default = settings.order in (None, "auto") and settings.rank == "auto" and not any(map(bool, given))
    by_default = by_default and isinstance(settings.factor_prior, str) and settings.factor_prior == "auto"
    countable = data.rows.offset is None and data.rows.roles is None and data.counts_rows and data.all_raw
    return by_default and countable and _has_credibility(data.family)


def _has_credibility(family: Family) -> bool:
    return isinstance(family, Bernoulli) or (isinstance(family, Gaussian) and family.link == "identity")


def with_repeated_rows(
    model: Model, data: Data, settings: Settings, rows: NDArray[np.int64] | None, eta: Floats
) -> Model:
    """The model with effects of repeated rows, and a record of them, where these predict validation rows better.

    Parameters
    ----------
    model : Model
    data : Data
    settings : Settings
    rows : array of shape (m,), or None
        Numbers of the validation rows.
    eta : array of shape (m, 1)
        Their linear predictors by fits that did not have them, in the units of the fit.
    """
    if rows is None or not _may_remember(data, settings):
        return model
    books, weight, y = model.encoder.codebooks, data.rows.weight, data.rows.y
    hashes, first, group = np.unique(hashed_rows(books, data.table), return_index=True, return_inverse=True)
    counts: Floats = np.asarray(np.bincount(group, weight), dtype=np.float64)
    sums = np.bincount(group, weight * y)
    repeated = counts > 1.0
    share = float(counts[repeated].sum() / counts.sum())
    judged = repeated[group[rows]]
    if share < LEAST_REPEATED_SHARE or not judged.any():
        return model
    at = group[rows[judged]]
    mean, target, weights = data.inner.mean(eta[judged]), y[rows[judged]], weight[rows[judged]]
    without = _loss(data.inner, target, mean)
    kappas = np.geomspace(*REPEATED_KAPPAS)
    losses = [_loss(data.inner, target, _credible(counts[at] - 1.0, sums[at] - target, k, mean)) for k in kappas]
    best = int(np.argmin([weights @ loss for loss in losses]))
    gain, error = mean_and_error(without - losses[best], weights, at)
    if not gain > LIKELY_REPEATED_GAIN * error:
        return model
    kappa, units = float(kappas[best]), data.units
    total = units.centre * counts + units.scale * sums  # of the targets as they were given
    of_model = model.eta(data.table.take(first))[:, 0]
    wanted = _link(data.family, _credible(counts, total, kappa, data.family.mean(of_model[:, np.newaxis])))
    said = f"copies of training rows have effects of their own: n / (n + {kappa:.3g}) of what n copies differed by"
    size = "errors" if data.family.dispersed else "losses"
    before, after = (float(weights @ part / weights.sum()) for part in (without, losses[best]))
    if data.family.dispersed:
        before, after = units.scale * np.sqrt(before), units.scale * np.sqrt(after)
    why = (
        f"{share:.0%} of the training rows have copies, whose {size} on validation rows were {before:.4g} without, "
        f"{after:.4g} with it"
    )
    memory = RepeatedRows.of(hashes, wanted - of_model, kappa)
    return replace(model, repeated=memory, choices=(*model.choices, Choice("repeated rows", said, why)))


def _credible(counts: Floats, sums: Floats, kappa: float, mean: Floats) -> Floats:
    return np.asarray((sums + kappa * mean) / (counts + kappa))


def _loss(family: Family, y: Floats, mean: Floats) -> Floats:
    """Squared errors, or logarithmic losses."""
    if isinstance(family, Bernoulli):
        return -np.log(np.maximum(np.where(y > 0.5, mean, 1.0 - mean), np.finfo(float).tiny))
    return np.asarray((y - mean) ** 2)


def _link(family: Family, mean: Floats) -> Floats:
    return np.asarray(np.log(mean) - np.log1p(-mean) if isinstance(family, Bernoulli) else mean)
