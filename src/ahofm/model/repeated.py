"""Effects of rows that are copies of training rows, beside the model: what their copies had on average.

An independent effect per distinct row is a random effect whose groups are equal rows. Its estimate is the credibility
formula of Bühlmann: with n copies of mean target y in training, and f the prediction of the model without it, a row has

    mean = (n y + kappa f) / (n + kappa)

kappa is the ratio of the variance within copies to that between distinct rows, a number of rows that f counts for.
The model has hashes of the rows, not the rows themselves. Where rows near a row count as parts of copies, it has their
codes (:mod:`ahofm.model.near_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.table import Table, is_numeric
from ahofm.families import Bernoulli, Family, Ordinal
from ahofm.model.near_rows import NearRows
from ahofm.tuning.numerics import MOST_REPEATED_LOGIT

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""Constants of splitmix64, whose finaliser mixes the bits of every value with the number of its column."""


@dataclass(frozen=True)
class RepeatedRows:
    """Effects of copies of training rows on the linear predictor.

    Attributes
    ----------
    hashes : array of shape (rows, 2)
        Of the distinct training rows, increasing: the upper and lower 32 bits, which double precision holds exactly.
    effects : array of shape (rows,)
        On the scale of the linear predictor.
    kappa : float
        Number of rows that the prediction without these effects counts for.
    levels : array of shape (rows, levels), or None
        Of ordered levels: how many of a row's copies have each. Effects are then those on the expected level.
    near : NearRows or None
        Training rows that count as parts of copies of rows near them; None: only copies count.
    """

    hashes: Floats
    effects: Floats
    kappa: float
    levels: Floats | None = None
    near: NearRows | None = None

    @classmethod
    def of(
        cls,
        hashes: NDArray[np.uint64],
        effects: Floats,
        kappa: float,
        levels: Floats | None = None,
        near: NearRows | None = None,
    ) -> RepeatedRows:
        """From hashes of distinct rows (rows,), increasing, their effects (rows,) and numbers of levels."""
        halves = np.column_stack([hashes >> np.uint64(32), hashes & np.uint64(0xFFFFFFFF)]).astype(np.float64)
        return cls(halves, effects, kappa, levels, near)

    def check(self, books: Sequence[Codebook], family: Family) -> None:
        """Raise ValueError unless the parts fit one another, the codebooks and the family."""
        halves = self.hashes
        whole = halves.shape == (*self.effects.shape, 2) and self.effects.ndim == 1 and len(halves) > 0
        if not whole or not ((halves >= 0.0) & (halves < 2.0**32) & (halves % 1.0 == 0.0)).all():
            raise ValueError(f"hashes of shape {halves.shape} are not those of {self.effects.shape} rows")
        if not self.kappa > 0.0 or not (np.diff(self._keys.astype(object)) > 0).all():
            raise ValueError(f"hashes of repeated rows do not increase, or kappa={self.kappa!r} is not positive")
        if self.near is not None:
            self.near.check(books)
        if self.levels is None:
            return
        shape = (*self.effects.shape, len(family.categories) if isinstance(family, Ordinal) else 0)
        if self.levels.shape != shape or not (np.isfinite(self.levels) & (self.levels >= 0.0)).all():
            raise ValueError(f"levels of copies, of shape {self.levels.shape}, are not numbers of shape {shape}")

    def at(self, books: Sequence[Codebook], table: Table, eta: Floats, family: Family) -> Floats:
        """Effects (n,) of a table's rows; zero for rows that are no copies of training rows, unless near rows count.

        ``eta`` (n,) are linear predictors without them.
        """
        if self.near is not None:
            return effects_of_copies(family, *self.near.parts_of_copies(books, table), self.kappa, eta)
        places, known = self._places(books, table)
        return np.where(known, self.effects[places], 0.0)

    def levels_at(self, books: Sequence[Codebook], table: Table) -> Floats | None:
        """How many copies of each of a table's rows have each level, (n, levels); None where these are not known."""
        if self.levels is None:
            return None
        places, known = self._places(books, table)
        return np.where(known[:, np.newaxis], self.levels[places], 0.0)

    def _places(self, books: Sequence[Codebook], table: Table) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Of a table's rows among the distinct training rows, (n,), and whether they are copies of these."""
        wanted = hashed_rows(books, table)
        places = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return places, self._keys[places] == wanted

    @cached_property
    def _keys(self) -> NDArray[np.uint64]:
        upper, lower = self.hashes.astype(np.uint64).T
        return np.asarray((upper << np.uint64(32)) | lower)

    def __getstate__(self) -> dict[str, Any]:
        """The fields; what follows from them is computed again."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def effects_of_copies(family: Family, counts: Floats, sums: Floats, kappa: float, eta: Floats) -> Floats:
    """Effects (n,) on linear predictors ``eta`` (n,) of ``counts`` copies with targets of the given ``sums``."""
    if not isinstance(family, Bernoulli):
        return np.asarray((sums - counts * eta) / (counts + kappa))
    bounded = np.clip(eta, -MOST_REPEATED_LOGIT, MOST_REPEATED_LOGIT)
    odds = np.exp(bounded)  # of the one class against the other, with kappa rows by the model without these effects
    second, first = kappa * odds / (1.0 + odds), kappa / (1.0 + odds)
    return np.asarray(np.log(sums + second) - np.log(counts - sums + first) - bounded)


def hashed_rows(books: Sequence[Codebook], table: Table) -> NDArray[np.uint64]:
    """A number (n,) for every row of a table, equal for equal rows, whatever the computer.

    Columns that do not vary in training do not count.
    """
    total = np.zeros(table.n_rows, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for j, (book, column) in enumerate(zip(books, table.columns, strict=True)):
            if book.size:
                numbers = book.edges is not None and is_numeric(column)
                values = np.asarray(column if numbers else book.encode(column), dtype=np.float64)
                total = _mixed(total + (_bits(values) ^ (np.uint64(j + 1) * _GOLDEN)))
    return total


def _bits(values: Floats) -> NDArray[np.uint64]:
    """Of numbers, with one zero and one NaN."""
    return np.ascontiguousarray(np.where(np.isnan(values), np.nan, values + 0.0)).view(np.uint64)


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return np.asarray(bits ^ (bits >> np.uint64(31)))
