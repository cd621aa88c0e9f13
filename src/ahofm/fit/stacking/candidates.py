"""Candidate fits: the prior of factors, and the tempering of its variances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ahofm.columns import Categorical, Codebook, RandomWalk, SplineIID
from ahofm.columns.basis import Floats
from ahofm.families import Bernoulli, Ordinal
from ahofm.orders import PRODUCT
from ahofm.priors.column import ColumnPriors, FactorPrior, Scale, SmoothCoordinates, all_column_priors
from ahofm.training.factor_groups import tries_products
from ahofm.training.settings import Settings
from ahofm.tuning import (
    FAST_FACTOR_PRIOR,
    FEWEST_VALIDATION_ROWS,
    LARGE_SAMPLE_ROWS,
    LEAST_NOISE_TEMPERING,
    LEAST_SIGNAL_TEMPERING,
    NOISE_TEMPERING,
    RANDOM_WALK_TEMPERING,
    SPLINE_IID_TEMPERING,
    SPLINE_TEMPERING,
    WEIGHTED_RANDOM_WALK_TEMPERING,
    WEIGHTED_SPLINE_TEMPERING,
    WIDE_RANK_FACTOR,
)
from ahofm.tuning.classes import EARLY_COLUMNS, EARLY_PAIRS, EARLY_ROWS, EARLY_SWEEPS
from ahofm.tuning.products import PRODUCT_TEMPERINGS

if TYPE_CHECKING:
    from ahofm.fit.stacking.problem import TrainingProblem


@dataclass(frozen=True)
class Candidate:
    """Priors and tempering of a candidate fit; stacking weights of candidates come from their validation losses.

    Subclasses may override ``priors``; estimators take candidates as ``factor_prior=[...]``.

    Attributes
    ----------
    factor_prior : "spline", "random_walk" or "spline_iid"
        Prior of the factors of automatic columns.
    tempering, many_rows_tempering : float
        Power of the partners' variance, from 0 (means only) to 1 (variational Bayes), from ``LARGE_SAMPLE_ROWS`` and
        from ``SECOND_TEMPERING_ROWS`` rows on. With fewer rows it is a function of the noise, ``noise_tempering``.
    weighted : bool
        Whether rows are weighted by their precision, estimated from the errors of the other candidates.
    smooth_main_effects : bool
        Whether main effects of automatic columns of numbers are smooth functions, solved for jointly, plus random walks
        over the codes; otherwise they are random walks alone.
    scale : "values" or "ranks"
        What smooth main effects and factors of automatic columns are functions of.
    rank_factor : int
        By which the rank is multiplied.
    product : bool
        Whether interactions are product factors, all orders at once, in place of factors of orders 2, 3, ... Their
        tempering does not depend on the number of rows; 0 stands for ``noise_tempering``.
    pairs : int
        Least number of factors of order 2.
    sweeps : int or None
        Most sweeps of interactions, also in fits to all rows (early stopping); None: those of the schedule.
    """

    factor_prior: FactorPrior
    tempering: float
    many_rows_tempering: float
    weighted: bool = False
    smooth_main_effects: bool = True
    scale: Scale = "values"
    rank_factor: int = 1
    product: bool = False
    pairs: int = 0
    sweeps: int | None = None

    @property
    def name(self) -> str:
        """Name in summaries."""
        prefix = "weighted " if self.weighted else "wide " if self.rank_factor > 1 else ""
        prefix = prefix if self.sweeps is None else f"early stopped {prefix}"
        if self.product:
            by = f"{self.tempering:g}" if self.tempering > 0.0 else "by noise"
            return f"{prefix}{self.factor_prior} products, tempering {by}"
        main = "" if self.scale == "values" else " (main effects on ranks)"
        return f"{prefix}{self.factor_prior}{main if self.smooth_main_effects else ' (main effects random walks)'}"

    def ranks(self, ranks: Mapping[int, int]) -> dict[int, int]:
        """Orders and ranks of this candidate's fits, from those of all candidates."""
        fitted = {d: self.rank_factor * rank for d, rank in ranks.items() if (d == PRODUCT) == self.product}
        return {d: max(rank, self.pairs) if d == 2 else rank for d, rank in fitted.items()}

    def most_sweeps(self, settings: Settings) -> Settings:
        """Settings with no more sweeps than the candidate's."""
        if self.sweeps is None:
            return settings
        return replace(settings, max_iter=min(settings.max_iter or self.sweeps, self.sweeps))

    @property
    def validated_only(self) -> bool:
        """Whether it is fitted to all rows only if validation rows prefer it: not where there was no time for them."""
        return self.weighted or self.rank_factor > 1 or self.sweeps is not None

    def priors(
        self,
        books: Sequence[Codebook],
        automatic: Sequence[bool],
        *,
        center: bool,
        counts: Sequence[Floats | None] | None = None,
        like: Sequence[ColumnPriors] | None = None,
    ) -> tuple[ColumnPriors, ...]:
        """Priors of the columns that vary, one per codebook.

        Parameters
        ----------
        books : sequence of Codebook
        automatic : sequence of bool
            Whether the kind of a column was chosen by the fit.
        center : bool
            Whether factors have mean zero.
        counts : sequence of arrays of shape (codes,), optional
            Rows of each code, where weights do not count them.
        like : sequence of ColumnPriors, optional
            Those of another candidate, whose coordinates are taken over.
        """
        return all_column_priors(
            books, automatic, self.factor_prior, center=center, counts=counts, like=like, scale=self.scale
        )

    def main_coordinates(self, column: ColumnPriors) -> SmoothCoordinates | None:
        """Coordinates of a column in the joint solve of smooth main effects; None for columns that are not in it."""
        return column.main_smooth if self.smooth_main_effects or not isinstance(column.book.kind, SplineIID) else None


CANDIDATES = (
    Candidate("spline_iid", *SPLINE_IID_TEMPERING),
    Candidate("spline", *SPLINE_TEMPERING),
    Candidate("random_walk", *RANDOM_WALK_TEMPERING),
)

BERNOULLI_CANDIDATES = (
    Candidate("spline_iid", *SPLINE_IID_TEMPERING, smooth_main_effects=False),
    Candidate("spline", *SPLINE_TEMPERING),
    Candidate("random_walk", *RANDOM_WALK_TEMPERING, scale="ranks"),
)
"""The same priors of factors, with different main effects: random walks, smooth in the values, smooth in the ranks.

Labels of two classes contain little information about the tails of a long-tailed column, where a smooth function of the
values is hardly restricted.
Measured in log-loss on splits 200 to 205 of 12 sets of two classes (72 set-splits), interactions included: -.0071 +-
.0014 against ``CANDIDATES``; any other assignment of the kinds -.0066 to -.0074; random walks in one candidate and
nothing on ranks -.0039 +- .0011; all nine combinations -.0075. Of single fits random walks with main effects on ranks
are best. Gaussian targets are fitted best on the values; for Poisson and gamma targets there is no difference.
"""

EARLY_STOPPED = Candidate("spline", *SPLINE_TEMPERING, scale="ranks", pairs=EARLY_PAIRS, sweeps=EARLY_SWEEPS)
"""Many pairs, smooth in the ranks, and few sweeps: a further candidate of two classes and of ordered ones."""

WEIGHTED = (
    Candidate("random_walk", *WEIGHTED_RANDOM_WALK_TEMPERING, weighted=True),
    Candidate("spline", *WEIGHTED_SPLINE_TEMPERING, weighted=True),
)


PRODUCTS = tuple(Candidate("spline", tempering, tempering, product=True) for tempering in PRODUCT_TEMPERINGS)


def candidates_for(problem: TrainingProblem, settings: Settings) -> Sequence[Candidate]:
    """Candidates of a fit: one when their prior is given or no column is automatic; weighted ones last.

    ``effort="fast"`` has one, ``"best"`` also those with more factors. With main effects alone there are several where
    candidates differ in their main effects.
    """
    columns = zip(problem.automatic, problem.books, strict=True)
    any_automatic = any(automatic and isinstance(book.kind, SplineIID) for automatic, book in columns)
    kinds_of_main_effects = isinstance(problem.response.family, Bernoulli)
    tried = BERNOULLI_CANDIDATES if kinds_of_main_effects else CANDIDATES
    if not isinstance(settings.factor_prior, str):
        return tuple(settings.factor_prior)
    if settings.factor_prior != "auto":
        return _with(CANDIDATES, settings.factor_prior)
    if not any_automatic or not (problem.ranks or kinds_of_main_effects):
        return _with(CANDIDATES, "spline" if all(_is_smooth(book) for book in problem.books) else "spline_iid")
    if problem.response.n_rows < FEWEST_VALIDATION_ROWS:
        return _with(CANDIDATES, "spline")
    if settings.effort == "fast":
        return _with(tried, FAST_FACTOR_PRIOR)
    widened = settings.effort == "best" and settings.rank == "auto" and problem.ranks
    wide = [replace(candidate, rank_factor=WIDE_RANK_FACTOR) for candidate in tried] if widened else []
    early = [EARLY_STOPPED] if _stops_early(problem, settings) else []
    products = PRODUCTS if _has_products(problem, settings) else ()
    estimates_precisions = problem.response.quadratic and problem.n_rows >= LARGE_SAMPLE_ROWS and not problem.refined
    return (*tried, *wide, *early, *products, *(WEIGHTED if estimates_precisions else ()))


def _with(candidates: Sequence[Candidate], factor_prior: str) -> list[Candidate]:
    return [candidate for candidate in candidates if candidate.factor_prior == factor_prior]


def random_stream(candidates: Sequence[Candidate], number: int) -> int:
    """Number of the random stream of a candidate; candidates with product factors are counted separately.

    So the starts of the other candidates do not depend on whether there are candidates with product factors.
    """
    product = candidates[number].product
    return sum(other.product == product for other in candidates[:number]) + (PRODUCT if product else 0)


def _stops_early(problem: TrainingProblem, settings: Settings) -> bool:
    """Whether many pairs and few sweeps may be tried: for classes with enough rows and few columns, no rank given."""
    classes = isinstance(problem.response.family, (Bernoulli, Ordinal)) and not problem.refined
    suits = problem.response.n_rows >= EARLY_ROWS and len(problem.books) <= EARLY_COLUMNS and 2 in problem.ranks
    return classes and suits and settings.rank == "auto"


def _has_products(problem: TrainingProblem, settings: Settings) -> bool:
    """Whether product factors are among the default candidates: for least squares, where three columns may interact."""
    suits = problem.response.quadratic and not problem.refined and bool(problem.groups.of_order(3))
    return suits and tries_products(settings, len(problem.books), problem.data.n_rows)


def _is_smooth(book: Codebook) -> bool:
    return not isinstance(book.kind, (Categorical, SplineIID, RandomWalk))


@dataclass(frozen=True)
class ConstantTempering:
    """A tempering that does not depend on the remaining loss."""

    tempering: float

    def __call__(self, remaining: float) -> float:
        """The tempering, whatever fraction of the loss remains."""
        return self.tempering


def noise_tempering(remaining: float) -> float:
    """``1.5 sqrt(remaining)`` within [1/4, 1], for few rows: more noise, more tempering."""
    return float(np.clip(NOISE_TEMPERING * np.sqrt(max(remaining, 0.0)), LEAST_NOISE_TEMPERING, 1.0))


def signal_tempering(most: float, remaining: float) -> float:
    """``most (1 - remaining)``, for smooth factors of many rows: with a weak signal these need little tempering."""
    return most * float(np.clip(1.0 - remaining, LEAST_SIGNAL_TEMPERING, 1.0))
