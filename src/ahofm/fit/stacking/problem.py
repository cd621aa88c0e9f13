"""The problem that a fit solves: rows, columns and their priors, in the units of the standardised target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codebook, Codes
from ahofm.columns.basis import Floats
from ahofm.columns.encode import requested_kinds
from ahofm.fit.cost.schedule import Schedule, up_to
from ahofm.fit.data import Data
from ahofm.fit.priors.column import ColumnPriors, all_column_priors
from ahofm.fit.settings import Settings
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign
from ahofm.fit.solvers.variational.staged_fit import StagedFit, Tempering, against_noise, constant, with_noise
from ahofm.fit.solvers.variational.working import Response
from ahofm.fit.stacking.candidates import CANDIDATES, Candidate
from ahofm.fit.tuning import (
    FEW_ROWS,
    FEWEST_VALIDATION_ROWS,
    FLOAT64_STATE_ROWS,
    MANY_ROWS,
    REFINED_SPLINE_TEMPERING,
    TEMPERED_ROWS,
)
from ahofm.kernels import NativeBlockKernel
from ahofm.rows import SerialExecutor


@dataclass(frozen=True)
class TrainingProblem:
    """Rows to fit, in the units of the standardised target, and the priors to fit them with.

    ``columns`` are the places in the table of those that vary, in the order of everything that has an entry per column.
    ``n_rows`` counts all rows by what they tell, and decides on tempering and sweeps: also for a part of the rows.
    ``counts`` are the rows of each code where weights do not count them.
    ``refined``: whether fits are refined on more rows than they are made to; pairs then have no smoothing parameters of
    their own, and no candidate is weighted.
    """

    data: Data
    ranks: Mapping[int, int]
    settings: Settings
    columns: Sequence[int]
    automatic: Sequence[bool]
    books: Sequence[Codebook]
    table: Sequence[NDArray[Any]]
    codes: Codes
    response: Response
    n_rows: float
    counts: Sequence[Floats] | None
    refined: bool = False
    _priors: dict[str, Sequence[ColumnPriors]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, data: Data, ranks: Mapping[int, int], settings: Settings) -> TrainingProblem:
        """The raw sample, and the columns that vary."""
        books = data.encoder.codebooks
        asked = requested_kinds(settings.columns, data.encoder.names)
        varying = [j for j in data.columns if books[j].size > 0]
        codes = Codes(tuple(data.codes.columns[j] for j in varying), tuple(data.codes.sizes[j] for j in varying))
        automatic = [j not in asked for j in varying]
        table = [data.table.columns[j] for j in varying]
        own = [books[j] for j in varying]
        response = Response(data.inner, data.rows.y, data.rows.weight, data.rows.offset)
        n_rows = response.information * data.n_rows / response.n_rows
        counts = (
            None
            if data.counts_rows
            else [_rows_of_codes(*part) for part in zip(codes.columns, codes.sizes, strict=True)]
        )
        return cls(data, ranks, settings, varying, automatic, own, table, codes, response, n_rows, counts)

    def take(self, rows: NDArray[np.int64]) -> TrainingProblem:
        """Some of the rows; codebooks and all priors stay those of all rows."""
        table = [column[rows] for column in self.table]
        return replace(self, table=table, codes=self.codes.take(rows), response=self.response.take(rows))

    def weighted(self, weight: Floats) -> TrainingProblem:
        """Rows that count so many times as much."""
        return replace(self, response=replace(self.response, weight=self.response.weight * weight))

    @cached_property
    def additive(self) -> AdditiveDesign:
        """Smooth main effects, which all fits share."""
        smooth = [column.main_smooth for column in self._columns(CANDIDATES[0])]
        return AdditiveDesign.of(self.books, smooth, self.table, self.response.weight)

    def _columns(self, candidate: Candidate) -> Sequence[ColumnPriors]:
        """Priors of all columns, the same for all parts of the rows: made once."""
        wanted = candidate.interactions
        if wanted not in self._priors:
            center, first = self.settings.center, next(iter(self._priors.values()), None)
            self._priors[wanted] = all_column_priors(
                self.books, self.automatic, wanted, center=center, counts=self.counts, like=first
            )
        return self._priors[wanted]

    def tempering(self, candidate: Candidate) -> Tempering:
        """What was asked for; otherwise by the noise when rows are few, and by the candidate when they are many."""
        if self.settings.tempering != "auto":
            return constant(float(self.settings.tempering))
        if self.response.rare:
            return constant(1.0)
        if self.n_rows < MANY_ROWS:
            return with_noise
        if candidate.interactions == "spline" and self.refined:
            return (
                partial(against_noise, REFINED_SPLINE_TEMPERING)
                if self.response.quadratic
                else constant(REFINED_SPLINE_TEMPERING)
            )
        return constant(candidate.tempering if self.n_rows < TEMPERED_ROWS else candidate.with_many)

    def staged_fit(
        self, candidate: Candidate, number: int, copy: int, *, growing: bool = False, highest: int | None = None
    ) -> StagedFit:
        """A staged fit of these rows by a candidate, up to an order.

        A growing one has as many factors as pairs need, unless it was said how many.
        """
        settings, ranks = self.settings, self.ranks if highest is None else up_to(highest, self.ranks)
        double = self.response.n_rows <= FLOAT64_STATE_ROWS or max(ranks, default=1) > 3
        precision: Literal["float32", "float64"] = "float64" if double else "float32"
        return StagedFit(
            self._columns(candidate),
            self.codes,
            self.response,
            self.additive,
            ranks,
            self.tempering(candidate),
            np.random.default_rng([settings.seed, number, copy]),
            copy > 0,
            NativeBlockKernel(precision),
            SerialExecutor(),
            Schedule.of(self.n_rows, settings.max_iter, settings.tol, rare=self.response.rare, additive=not self.ranks),
            growing=growing and settings.rank == "auto",
            surfaces=not self.refined,
        )


def _rows_of_codes(codes: NDArray[Any], n_codes: int) -> Floats:
    """Of every code but the neutral one."""
    return np.bincount(codes, minlength=n_codes)[:-1].astype(np.float64)


def member_count(settings: Settings, n_rows: int) -> int:
    """How many fits of all rows make the model."""
    if settings.n_members != "auto":
        return int(settings.n_members)
    return 3 if FEWEST_VALIDATION_ROWS <= n_rows <= FEW_ROWS else 1
