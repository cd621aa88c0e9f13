"""Credibility means of validation rows: by copies of a row, or by near rows as parts of copies, with what they gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.families import Bernoulli, Family, Gaussian, Ordinal
from ahofm.model.near_rows import NearRows, codes_of, distances
from ahofm.training.validation import mean_and_error
from ahofm.tuning.classes import DISAGREEING_COPIES
from ahofm.tuning.copies import (
    MOST_NEAR_ROWS,
    NEAR_HALVINGS,
    NEAR_STANDARD_ERRORS,
    NEAR_STANDARD_ERRORS_OF_CLASSES,
    NEAR_WIDEST,
    REPEATED_KAPPAS,
    REPEATED_STANDARD_ERRORS,
)
from ahofm.tuning.numerics import LEVEL_BISECTIONS, MOST_REPEATED_LOGIT


@dataclass(frozen=True)
class DistinctRows:
    """Distinct training rows.

    Attributes
    ----------
    counts, sums : arrays of shape (distinct rows,)
        Number of copies and sum of their targets, in the units of the fit.
    """

    counts: Floats
    sums: Floats


@dataclass(frozen=True)
class Effects:
    """Effects of other rows on validation rows.

    Attributes
    ----------
    kappa : float
        Prior weight of the fitted mean, in rows.
    eta, losses : arrays of shape (m,)
        Linear predictors of the validation rows with them, and their losses.
    near : NearRows or None
        Rows that count as parts of copies, with sums in the units of the fit.
    """

    kappa: float
    eta: Floats
    losses: Floats
    near: NearRows | None = None

    @property
    def said(self) -> str:
        """What is done, for a choice."""
        if self.near is None:
            return f"copies of training rows have effects of their own: {self._part} of what n copies differed by"
        return (
            f"copies of training rows and rows near them have effects of their own: {self._part} of what n copies "
            f"differed by, where a row at distance d (of ranks, 0 to 1) is exp(-d / {self.near.width:.3g}) copies"
        )

    @property
    def _part(self) -> str:
        return f"n / (n + {self.kappa:.3g})"


@dataclass(frozen=True)
class Validation:
    """Validation rows and their linear predictors by fits that did not have them.

    Attributes
    ----------
    family : Family
        In the units of the fit.
    at : array of shape (m,)
        Number of the distinct row of each.
    y, eta, weight : arrays of shape (m,)
    """

    family: Family
    at: NDArray[np.intp]
    y: Floats
    eta: Floats
    weight: Floats

    @property
    def losses(self) -> Floats:
        """Losses (m,) without effects of other rows."""
        return self._losses(self.eta)

    def by_copies(self, rows: DistinctRows, levels: Floats | None = None) -> Effects | None:
        """Effects of other copies, if they reduce the loss significantly; rows without any do not count.

        ``levels`` (distinct rows, levels) are numbers of copies with each of ordered levels.
        """
        judged = rows.counts[self.at] > 1.0
        if not judged.any():
            return None
        some = Validation(self.family, self.at[judged], self.y[judged], self.eta[judged], self.weight[judged])
        count, total = rows.counts[some.at] - 1.0, rows.sums[some.at] - some.y
        kappa, eta, losses, more = some._best(count, total, None if levels is None else levels[some.at])
        gain, error = mean_and_error(some.losses - losses, some.weight, some.at)
        if not gain - more / some.weight.sum() > REPEATED_STANDARD_ERRORS * error:
            return None
        found, of_all = self.eta.copy(), self.losses
        found[judged], of_all[judged] = eta, losses
        return Effects(kappa, found, of_all)

    def by_near_rows(
        self, rows: DistinctRows, books: Sequence[Codebook], table: Table, losses: Floats
    ) -> Effects | None:
        """Effects of near rows, the others of a row's copies among them, if they reduce ``losses`` (m,) significantly.

        Parameters
        ----------
        rows : DistinctRows
        books : sequence of Codebook
        table : Table
            Of the distinct rows.
        losses : array of shape (m,)
            Of the validation rows, with effects of copies where they have these.
        """
        if len(rows.counts) > MOST_NEAR_ROWS:
            return None
        codes = codes_of(books, table)
        part, tried = np.exp(distances(books, codes, codes) / -NEAR_WIDEST), []
        for halvings in range(NEAR_HALVINGS + 1):
            count, total = (part @ np.column_stack([rows.counts, rows.sums])).T
            found = self._best(count[self.at] - 1.0, total[self.at] - self.y)
            tried.append((float(self.weight @ found[2]) + found[3], NEAR_WIDEST / 2**halvings, found))
            part *= part  # those of half the width
        _, width, (kappa, eta, with_near, _) = min(tried, key=lambda one: one[0])
        gain, error = mean_and_error(losses - with_near, self.weight, self.at)
        likely = NEAR_STANDARD_ERRORS_OF_CLASSES if isinstance(self.family, Bernoulli) else NEAR_STANDARD_ERRORS
        if not gain > likely * error:
            return None
        return Effects(kappa, eta, with_near, NearRows(codes, rows.counts, rows.sums, width))

    def _best(self, count: Floats, total: Floats, levels: Floats | None = None) -> tuple[float, Floats, Floats, float]:
        """The kappa of least loss for numbers (m,) and sums (m,) of copies, linear predictors and losses with it.

        The last number is the loss of further rows, each unlike its one copy, which is added. ``levels`` (m, levels)
        are copies by ordered levels, the row itself among them.
        """
        mean, kappas = self.family.mean(self.eta[:, np.newaxis]), np.geomspace(*REPEATED_KAPPAS)
        disagreement = 0.0 * kappas if self.family.dispersed else DISAGREEING_COPIES * np.log1p(1.0 / kappas)
        if levels is not None:
            assert isinstance(self.family, Ordinal)
            losses = losses_of_levels(self.family, self.eta, self.y, levels, kappas)
        else:
            etas = (linear_predictor_of(self.family, credibility_mean(count, total, kappa, mean)) for kappa in kappas)
            losses = [self._losses(eta) for eta in etas]
        best = int(np.argmin([self.weight @ loss + more for loss, more in zip(losses, disagreement, strict=True)]))
        eta = linear_predictor_of(self.family, credibility_mean(count, total, kappas[best], mean))
        return float(kappas[best]), eta, losses[best], float(disagreement[best])

    def _losses(self, eta: Floats) -> Floats:
        """Squared errors, or minus log-likelihoods."""
        if isinstance(self.family, Gaussian):
            return np.asarray((self.y - eta) ** 2)
        bounded = np.clip(eta, -MOST_REPEATED_LOGIT, MOST_REPEATED_LOGIT)[:, np.newaxis]
        return self.family.loss(self.y, bounded)[0]


def level_counts(family: Ordinal, group: NDArray[np.intp], weight: Floats, y: Floats) -> Floats:
    """Weights (distinct rows, levels) of the copies of each row that have each level."""
    size = len(family.categories)
    cells = group * size + (y.astype(np.intp) - family.low)
    totals = np.bincount(cells, weight, minlength=(int(group.max()) + 1) * size)
    return np.asarray(totals.reshape(-1, size), dtype=np.float64)


def losses_of_levels(family: Ordinal, eta: Floats, y: Floats, counts: Floats, kappas: Floats) -> list[Floats]:
    """Losses (m,) for each kappa of rows whose other copies are ``counts`` (m, levels) less the row itself."""
    observed = np.arange(len(y)), y.astype(np.intp) - family.low
    others = counts.copy()
    others[observed] -= 1.0
    probability, floor = family.probabilities(eta[:, np.newaxis])[observed], np.finfo(float).tiny
    total = others.sum(axis=1)
    return [
        -np.log(np.maximum(credibility_mean(total, others[observed], kappa, probability), floor)) for kappa in kappas
    ]


def credibility_mean(counts: Floats, sums: Floats, kappa: float, mean: Floats) -> Floats:
    """Means (n,) of ``counts`` targets with the given ``sums``, shrunk to ``mean`` as by ``kappa`` further rows."""
    return np.asarray((sums + kappa * mean) / (counts + kappa))


def linear_predictor_of(family: Family, mean: Floats) -> Floats:
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
