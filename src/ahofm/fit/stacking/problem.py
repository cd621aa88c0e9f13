"""What is to be fitted, and the recipes to fit it by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Categorical, Codebook, Codes, Mixed, Walk
from ahofm.columns.basis import Floats
from ahofm.columns.encode import requested_kinds
from ahofm.fit.cost.schedule import MANY_ROWS, Schedule, up_to
from ahofm.fit.data import Data
from ahofm.fit.priors.column import BlockColumn, Interactions, block_columns
from ahofm.fit.settings import Settings
from ahofm.fit.solvers.variational.main_effects import Additive
from ahofm.fit.solvers.variational.staged_fit import Member
from ahofm.fit.solvers.variational.tempering import Tempering, against_noise, constant, with_noise
from ahofm.fit.solvers.variational.working import Response
from ahofm.fit.stacking.weights import FEW_ROWS
from ahofm.kernels import NativeBlockKernel
from ahofm.rows import SerialExecutor

FEWEST_ROWS = 50
"""Below, no rows are set aside and interactions are smooth."""

FLOAT64_ROWS = 50_000
"""Up to here row states are float64, and always above order 3, where taking out a large column costs many digits."""


@dataclass(frozen=True)
class Recipe:
    """How the factors of automatic columns behave, and how much of their partners' variance counts.

    With few rows that share follows the noise, whatever the kind: ``tempering`` is for more of them, ``with_many`` for
    12,000 and beyond. A weighted one comes after the others, whose errors say how precise each row is.
    """

    interactions: Interactions
    tempering: float
    with_many: float
    weighted: bool = False

    @property
    def name(self) -> str:
        """For people."""
        return f"weighted {self.interactions}" if self.weighted else self.interactions


RECIPES = (Recipe("mixed", 0.55, 0.7), Recipe("smooth", 0.7, 0.7), Recipe("walk", 0.7, 1.0))

WEIGHTED = (Recipe("walk", 0.7, 0.5, weighted=True), Recipe("smooth", 0.7, 0.7, weighted=True))

_TEMPERED_ROWS = 12_000

_OF_PAIRS = 0.5
"""Tempering of smooth factors where pairs have no strengths of their own."""


@dataclass(frozen=True)
class Work:
    """Rows to fit, in the units of the standardised target, and the priors to fit them with.

    ``columns`` are the places in the table of those that vary, in the order of everything that has an entry per column.
    ``n_rows`` counts all rows by what they tell, and decides on tempering and sweeps: also for a part of the rows.
    ``counts`` are the rows of each code where weights do not count them.
    ``refined``: whether members are, on more rows than they are fitted to; pairs then have no strengths of their own,
    and no recipe is weighted.
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

    @classmethod
    def of(cls, data: Data, ranks: Mapping[int, int], settings: Settings) -> Work:
        """All known rows, and the columns that vary."""
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

    def take(self, rows: NDArray[np.int64]) -> Work:
        """Some of the rows; codebooks and all priors stay those of all rows."""
        table = [column[rows] for column in self.table]
        return replace(self, table=table, codes=self.codes.take(rows), response=self.response.take(rows))

    def weighted(self, weight: Floats) -> Work:
        """Rows that count so many times as much."""
        return replace(self, response=replace(self.response, weight=self.response.weight * weight))

    @cached_property
    def additive(self) -> Additive:
        """Smooth main effects, which all members share."""
        smooth = [column.main_smooth for column in self._columns(RECIPES[0])]
        return Additive.of(self.books, smooth, self.table, self.response.weight)

    def _columns(self, recipe: Recipe) -> Sequence[BlockColumn]:
        center = self.settings.center
        return block_columns(self.books, self.automatic, recipe.interactions, center=center, counts=self.counts)

    def tempering(self, recipe: Recipe) -> Tempering:
        """What was asked for; otherwise by the noise when rows are few, and by the recipe when they are many."""
        if self.settings.tempering != "auto":
            return constant(float(self.settings.tempering))
        if self.response.rare:
            return constant(1.0)
        if self.n_rows < MANY_ROWS:
            return with_noise
        if recipe.interactions == "smooth" and self.refined:
            return partial(against_noise, _OF_PAIRS) if self.response.quadratic else constant(_OF_PAIRS)
        return constant(recipe.tempering if self.n_rows < _TEMPERED_ROWS else recipe.with_many)

    def member(
        self, recipe: Recipe, number: int, copy: int, *, growing: bool = False, highest: int | None = None
    ) -> Member:
        """A fit of these rows by a recipe, up to an order.

        A growing one has as many factors as pairs need, unless it was said how many.
        """
        settings, ranks = self.settings, self.ranks if highest is None else up_to(highest, self.ranks)
        double = self.response.n_rows <= FLOAT64_ROWS or max(ranks, default=1) > 3
        precision: Literal["float32", "float64"] = "float64" if double else "float32"
        return Member(
            self._columns(recipe),
            self.codes,
            self.response,
            self.additive,
            ranks,
            self.tempering(recipe),
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


def recipes_for(work: Work, settings: Settings) -> Sequence[Recipe]:
    """What to try: one recipe when the interactions are given, or no column leaves a choice; weighted ones last."""
    found = zip(work.automatic, work.books, strict=True)
    open_choice = any(automatic and isinstance(book.kind, Mixed) for automatic, book in found)
    recipes: Sequence[Recipe] = RECIPES
    if settings.interactions != "auto":
        recipes = [recipe for recipe in RECIPES if recipe.interactions == settings.interactions]
    elif not open_choice or not work.ranks:
        wanted = "smooth" if all(_is_smooth(book) for book in work.books) else "mixed"
        recipes = [recipe for recipe in RECIPES if recipe.interactions == wanted]
    elif work.response.n_rows < FEWEST_ROWS:
        recipes = [recipe for recipe in RECIPES if recipe.interactions == "smooth"]
    elif work.response.quadratic and work.n_rows >= MANY_ROWS and not work.refined:
        recipes = (*RECIPES, *WEIGHTED)
    return recipes


def _is_smooth(book: Codebook) -> bool:
    return not isinstance(book.kind, (Categorical, Mixed, Walk))


def member_count(settings: Settings, n_rows: int) -> int:
    """How many fits of all rows make the model."""
    if settings.n_members != "auto":
        return int(settings.n_members)
    return 3 if FEWEST_ROWS <= n_rows <= FEW_ROWS else 1
