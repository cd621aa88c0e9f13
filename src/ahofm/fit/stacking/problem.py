"""The problem that a fit solves: rows, columns and their priors.

Everything is in the units of the standardised target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.backends import Backend, Precision, Response, backend_of
from ahofm.columns import Codebook, Codes, known_codes
from ahofm.columns.basis import Floats
from ahofm.columns.encode import requested_kinds
from ahofm.families import Bernoulli, Poisson
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign
from ahofm.fit.solvers.variational.posterior import WarmStart
from ahofm.fit.solvers.variational.schedule import Schedule
from ahofm.fit.solvers.variational.stage import MainStage, Tempering
from ahofm.fit.solvers.variational.staged_fit import StagedFit
from ahofm.fit.stacking.candidates import CANDIDATES, Candidate, ConstantTempering, noise_tempering, signal_tempering
from ahofm.orders import PRODUCT, Orders
from ahofm.priors.column import ColumnPriors, Scale
from ahofm.rows import SerialExecutor
from ahofm.training.data import Data
from ahofm.training.factor_groups import FactorGroups, factor_groups
from ahofm.training.settings import Settings
from ahofm.training.shapes import shaped_by_default
from ahofm.tuning import (
    BEST_FOLDS,
    BEST_MEMBERS,
    BEST_MEMBERS_BEYOND,
    ENSEMBLE_MEMBERS,
    FEWER_SEARCH_SWEEPS,
    FEWEST_VALIDATION_ROWS,
    FLOAT64_STATE_ROWS,
    FOLDS,
    FULL_SEARCH_ROWS,
    LARGE_SAMPLE_ROWS,
    REFINED_SPLINE_TEMPERING,
    SEARCH_SWEEPS,
    SECOND_TEMPERING_ROWS,
    WARM_START_ROWS,
)
from ahofm.tuning.classes import FALLBACK_COEFFICIENT_SWEEPS
from ahofm.tuning.products import LARGE_SAMPLE_PRODUCT_RANK, PRODUCT_RANK, PRODUCT_SEARCH_SWEEPS, PRODUCT_SWEEPS
from ahofm.tuning.subsample import SUBSAMPLE_ROWS


@dataclass(frozen=True)
class TrainingProblem:
    """Rows to fit, in the units of the standardised target, and the priors to fit them with.

    Attributes
    ----------
    data : Data
        Of the whole fit.
    ranks : dict of order to rank
    settings : Settings
    columns : sequence of int
        Indices in the table of the columns that vary; sequences with one entry per column are in this order.
    automatic : sequence of bool
        Whether the kind of a column was chosen by the fit.
    books : sequence of Codebook
    table : sequence of arrays of shape (n,)
        Raw values of the rows.
    codes : Codes
        Codes of the rows.
    response : Response
        Targets, weights, offsets and losses of the rows.
    n_rows : float
        Effective number of rows of the whole fit (``Response.information``), which determines tempering and sweeps, in
        fits to a part of the rows as well.
    counts : sequence of arrays of shape (codes,), or None
        Number of rows of each code, where weights do not count rows.
    refined : bool
        Whether fits are refined on more rows than they are made to; pairs then have no tensor product penalties, and no
        candidate is weighted.
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
    _priors: dict[tuple[type, Scale, str], Sequence[ColumnPriors]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, data: Data, ranks: Mapping[int, int], settings: Settings) -> TrainingProblem:
        """The problem of the raw sample, with the columns that vary."""
        books = data.encoder.codebooks
        requested = requested_kinds(settings.columns, data.encoder.names)
        varying = [j for j in data.columns if books[j].size > 0]
        codes = data.codes.of_columns(varying)
        automatic = [j not in requested for j in varying]
        table = [data.table.columns[j] for j in varying]
        varying_books = [books[j] for j in varying]
        response = _quasi_poisson_if_informative(Response(data.inner, data.rows.y, data.rows.weight, data.rows.offset))
        n_rows = response.information * data.n_rows / response.n_rows
        counts = (
            None
            if data.counts_rows
            else [_rows_of_codes(*coded) for coded in zip(codes.columns, codes.sizes, strict=True)]
        )
        return cls(data, ranks, settings, varying, automatic, varying_books, table, codes, response, n_rows, counts)

    def of_candidates(self, candidates: Sequence[Candidate]) -> TrainingProblem:
        """With product factors, after all orders, if a candidate has them; without other factors if all do."""
        if not self.ranks or not any(candidate.product for candidate in candidates):
            return self
        if self.refined:
            raise ValueError(
                "product factors cannot be refined on more rows than a sample: use solver='variational', or candidates "
                "without them"
            )
        rank = PRODUCT_RANK if self.n_rows < LARGE_SAMPLE_ROWS else LARGE_SAMPLE_PRODUCT_RANK
        if isinstance(self.settings.rank, int):
            rank = self.settings.rank
        others = {} if all(candidate.product for candidate in candidates) else self.ranks
        rank = self.groups.total_rank(PRODUCT, rank)
        return replace(self, ranks={**others, PRODUCT: rank} if rank else dict(others))

    @cached_property
    def groups(self) -> FactorGroups:
        """Columns of each factor, as positions among those that vary."""
        return factor_groups(self.settings, self.data.encoder.names, self.columns)

    def take(self, rows: NDArray[np.int64]) -> TrainingProblem:
        """Some of the rows; codebooks and all priors stay those of all rows."""
        table = [column[rows] for column in self.table]
        return replace(self, table=table, codes=self.codes.take(rows), response=self.response.take(rows))

    def weighted(self, weight: Floats) -> TrainingProblem:
        """The same rows with their weights multiplied by ``weight`` (n,)."""
        return replace(self, response=replace(self.response, weight=self.response.weight * weight))

    def additive(self, candidate: Candidate) -> AdditiveDesign:
        """Smooth main effects that are solved for jointly, which all fits of such candidates to these rows share."""
        coordinates = tuple(candidate.main_coordinates(column) for column in self._columns(candidate))
        key = candidate.scale, type(candidate), tuple(smooth is not None for smooth in coordinates)
        if key not in self._additive:
            self._additive[key] = AdditiveDesign.of(self.books, coordinates, self.table, self.response.weight)
        return self._additive[key]

    @property
    def warm_starts_members(self) -> bool:
        """Whether ensemble members start from fits to parts of the rows: these have enough information."""
        n_rows, response = self.data.n_rows, self.response
        enough = n_rows >= WARM_START_ROWS if response.quadratic else _many_of_two_classes(response, n_rows)
        return enough and not self.refined

    @property
    def backend(self) -> Backend:
        """The backend that computes on the rows."""
        return backend_of(self.settings.device)

    @cached_property
    def _additive(self) -> dict[tuple[Scale, type, tuple[bool, ...]], AdditiveDesign]:
        """Additive designs by scale, kind of candidate and the columns in them."""
        return {}

    @property
    def dispersion_unit(self) -> float:
        """Dispersion in the units of the target that corresponds to a dispersion of 1 of the standardised target."""
        data, response = self.data, self.response
        if response.quadratic:
            return data.units.scale**2
        inner = response.shifted(np.tile(response.constants, (response.n_rows, 1)))
        outer = np.asarray(data.units.shift) + np.asarray(data.units.factor) * inner
        y = data.units.centre + data.units.scale * response.y
        unit = response.mean_of(data.inner.pearson(response.y, inner))
        return response.mean_of(data.family.pearson(y, outer)) / unit if unit > 0.0 else 1.0

    @cached_property
    def _main_stages(self) -> dict[tuple[Tempering, Precision, bool, Scale, type], MainStage]:
        """Stages of main effects, shared by fits to these rows with the same tempering and priors."""
        return {}

    def _columns(self, candidate: Candidate) -> Sequence[ColumnPriors]:
        """Priors of all columns, the same for all parts of the rows; cached."""
        key = type(candidate), candidate.scale, candidate.factor_prior
        if key not in self._priors:
            known = ((kind, scale, priors) for (kind, scale, _), priors in self._priors.items())
            same_scale = (
                priors for kind, scale, priors in known if scale == candidate.scale and kind is type(candidate)
            )
            center, first = self.settings.center, next(same_scale, None)
            found = candidate.priors(self.books, self.automatic, center=center, counts=self.counts, like=first)
            shaped = shaped_by_default(self.settings, self.data)
            if shaped:  # steps of rough factors are steep: main effects can make up for them only if factors shrink
                smooth = replace(candidate, factor_prior="spline")
                other = smooth.priors(self.books, self.automatic, center=center, counts=self.counts, like=found)
                found = tuple(other[j] if prior.book.name in shaped else prior for j, prior in enumerate(found))
            self._priors[key] = found
        return self._priors[key]

    def tempering(self, candidate: Candidate) -> Tempering:
        """The setting; by default a function of the noise for few rows, and the candidate's constant for many."""
        if self.settings.tempering != "auto":
            return ConstantTempering(float(self.settings.tempering))
        if self.response.rare:
            return ConstantTempering(1.0)
        if candidate.product:
            return ConstantTempering(candidate.tempering) if candidate.tempering > 0.0 else noise_tempering
        if self.n_rows < LARGE_SAMPLE_ROWS:
            return noise_tempering
        if candidate.factor_prior == "spline" and self.refined:
            return (
                partial(signal_tempering, REFINED_SPLINE_TEMPERING)
                if self.response.quadratic
                else ConstantTempering(REFINED_SPLINE_TEMPERING)
            )
        return ConstantTempering(
            candidate.tempering if self.n_rows < SECOND_TEMPERING_ROWS else candidate.many_rows_tempering
        )

    def staged_fit(
        self,
        candidate: Candidate,
        stream: int,
        copy: int,
        *,
        growing: bool = False,
        highest: int | None = None,
        settings: Settings | None = None,
        warm_starts: Mapping[int, WarmStart] | None = None,
        offers_warm_starts: bool = False,
    ) -> StagedFit:
        """A staged fit of these rows by a candidate, up to an order, with the problem's settings or others.

        ``growing``: factors of order 2 are added while these reduce the residuals, unless the rank was given.
        Interactions start from ``warm_starts``, by order, where there are any.
        """
        settings = candidate.most_sweeps(settings or self.settings)
        ranks = candidate.ranks(self.ranks if highest is None else Orders(self.ranks).up_to(highest))
        double = self.response.n_rows <= FLOAT64_STATE_ROWS or max(ranks, default=1) > 3
        precision: Precision = "float64" if double else "float32"
        tempering = self.tempering(candidate)
        mains = self.tempering(CANDIDATES[1]) if candidate.product else tempering
        main_key = mains, precision, candidate.smooth_main_effects, candidate.scale, type(candidate)
        last = settings.max_iter or (PRODUCT_SWEEPS if candidate.product else None)
        schedule = Schedule.of(self.n_rows, last, settings.tol, rare=self.response.rare, additive=not self.ranks)
        if self.ranks and not self.response.quadratic:
            schedule = replace(schedule, coefficients=min(schedule.coefficients, FALLBACK_COEFFICIENT_SWEEPS))
        return StagedFit(
            self._columns(candidate),
            self.codes,
            self.response,
            self.additive(candidate),
            ranks,
            tempering,
            np.random.default_rng([settings.seed, stream, copy]),
            copy > 0,
            SerialExecutor(),
            self.groups,
            schedule,
            growing=growing and settings.rank == "auto",
            tensor_smoothing=not self.refined,
            backend=self.backend,
            precision=precision,
            main_tempering=mains,
            main_stage=self._main_stages.setdefault(main_key, MainStage()),
            warm_starts=warm_starts or {},
            offers_warm_starts=offers_warm_starts,
        )


def _quasi_poisson_if_informative(response: Response) -> Response:
    """Counts with large means are fitted as quasi-Poisson: the ratio of variance to mean is estimated.

    With the variance of a Poisson variable, fits would follow the noise of overdispersed counts. Counts with small
    means contain little information about the dispersion; with few rows its estimate decreases as fits overfit.
    """
    family = response.family
    if type(family) is Poisson and response.information >= response.n_rows >= LARGE_SAMPLE_ROWS:
        return replace(response, family=replace(family, quasi=True))
    return response


def _rows_of_codes(codes: NDArray[Any], n_codes: int) -> Floats:
    """Rows of each code but the neutral one: (codes,)."""
    return known_codes(np.bincount(codes, minlength=n_codes)).astype(np.float64)


def member_count(settings: Settings, n_rows: int) -> int:
    """Number of ensemble members: fits to all rows whose weighted mean is the model."""
    if settings.n_members != "auto":
        return int(settings.n_members)
    full_search = FEWEST_VALIDATION_ROWS <= n_rows <= FULL_SEARCH_ROWS
    if settings.effort == "best":
        return BEST_MEMBERS if full_search else BEST_MEMBERS_BEYOND
    return ENSEMBLE_MEMBERS if full_search and settings.effort == "balanced" else 1


def fold_count(settings: Settings) -> int:
    """Number of folds of cross-validation."""
    return BEST_FOLDS if settings.effort == "best" else FOLDS


def uses_subsample(settings: Settings, n_rows: int) -> bool:
    """Whether fits are made to a sample of the rows and then refined on all of them."""
    return settings.solver == "subsample" or (settings.solver == "auto" and n_rows > SUBSAMPLE_ROWS)


def search_settings(settings: Settings, response: Response, n_rows: int, *, product: bool = False) -> Settings:
    """Settings of candidate fits, with fewer sweeps; with many rows, counts and rare events keep all of them."""
    few, dispersed = n_rows <= FULL_SEARCH_ROWS, response.family.dispersed
    fewer = dispersed if few else _many_of_two_classes(response, n_rows)
    if not (few or dispersed or fewer):
        return settings
    most = FEWER_SEARCH_SWEEPS if fewer else SEARCH_SWEEPS
    most = PRODUCT_SEARCH_SWEEPS if product else most
    return replace(settings, max_iter=min(settings.max_iter or most, most))


def _many_of_two_classes(response: Response, n_rows: int) -> bool:
    """Whether there are two classes, neither of them rare, with more than ``FULL_SEARCH_ROWS`` rows."""
    return n_rows > FULL_SEARCH_ROWS and isinstance(response.family, Bernoulli) and not response.rare
