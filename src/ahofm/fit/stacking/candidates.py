"""Candidate fits: how rough interactions may be, and how much tempering goes with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ahofm.columns import Categorical, Codebook, RandomWalk, SplineIID
from ahofm.fit.settings import Settings
from ahofm.priors.column import Interactions
from ahofm.tuning import (
    FAST_INTERACTIONS,
    FEWEST_VALIDATION_ROWS,
    MANY_ROWS,
    RANDOM_WALK_TEMPERING,
    SPLINE_IID_TEMPERING,
    SPLINE_TEMPERING,
    WEIGHTED_RANDOM_WALK_TEMPERING,
    WEIGHTED_SPLINE_TEMPERING,
    WIDE_TIMES,
)

if TYPE_CHECKING:
    from ahofm.fit.stacking.problem import TrainingProblem


@dataclass(frozen=True)
class Candidate:
    """How the factors of automatic columns behave, and how much of their partners' variance counts.

    With few rows that share follows the noise, whatever the kind: ``tempering`` is for more of them, ``with_many`` for
    12,000 and beyond. A weighted one comes after the others, whose errors say how precise each row is. ``times`` is
    what multiplies the rank.
    """

    interactions: Interactions
    tempering: float
    with_many: float
    weighted: bool = False
    times: int = 1

    @property
    def name(self) -> str:
        """For people."""
        prefix = "weighted " if self.weighted else "wide " if self.times > 1 else ""
        return f"{prefix}{self.interactions}"


CANDIDATES = (
    Candidate("spline_iid", *SPLINE_IID_TEMPERING),
    Candidate("spline", *SPLINE_TEMPERING),
    Candidate("random_walk", *RANDOM_WALK_TEMPERING),
)

WIDE = tuple(replace(candidate, times=WIDE_TIMES) for candidate in CANDIDATES)

WEIGHTED = (
    Candidate("random_walk", *WEIGHTED_RANDOM_WALK_TEMPERING, weighted=True),
    Candidate("spline", *WEIGHTED_SPLINE_TEMPERING, weighted=True),
)


def candidates_for(problem: TrainingProblem, settings: Settings) -> Sequence[Candidate]:
    """What to try: one candidate when the interactions are given, or no column leaves a choice; weighted ones last.

    ``effort="fast"`` tries one, ``"best"`` also those with more factors.
    """
    found = zip(problem.automatic, problem.books, strict=True)
    open_choice = any(automatic and isinstance(book.kind, SplineIID) for automatic, book in found)
    candidates: Sequence[Candidate] = CANDIDATES
    if settings.interactions != "auto":
        candidates = [candidate for candidate in CANDIDATES if candidate.interactions == settings.interactions]
    elif not open_choice or not problem.ranks:
        wanted = "spline" if all(_is_smooth(book) for book in problem.books) else "spline_iid"
        candidates = [candidate for candidate in CANDIDATES if candidate.interactions == wanted]
    elif problem.response.n_rows < FEWEST_VALIDATION_ROWS:
        candidates = [candidate for candidate in CANDIDATES if candidate.interactions == "spline"]
    elif settings.effort == "fast":
        candidates = [candidate for candidate in CANDIDATES if candidate.interactions == FAST_INTERACTIONS]
    else:
        more = WIDE if settings.effort == "best" and settings.rank == "auto" else ()
        precise = problem.response.quadratic and problem.n_rows >= MANY_ROWS and not problem.refined
        candidates = (*CANDIDATES, *more, *(WEIGHTED if precise else ()))
    return candidates


def _is_smooth(book: Codebook) -> bool:
    return not isinstance(book.kind, (Categorical, SplineIID, RandomWalk))
