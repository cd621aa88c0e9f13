"""What a fit is going to do: candidate fits and ensemble members, on how many rows, and passes over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ahofm.fit.cost.schedule import Job, Schedule, pass_cost, up_to
from ahofm.fit.settings import Settings
from ahofm.fit.solvers.subsample.sampling import uses_subsample
from ahofm.fit.stacking.problem import TrainingProblem, member_count
from ahofm.fit.stacking.weights import validation_split
from ahofm.fit.tuning import (
    FEW_ROWS,
    LIKELY_PASSES,
    PASSES,
    PASSES_BELOW,
    SAMPLE_ROWS,
    SEARCH_SWEEPS,
    SEARCH_SWEEPS_OF_FEW,
)
from ahofm.rows import RAW_SAMPLE_ROWS


@dataclass(frozen=True)
class Plan:
    """A fit to come.

    Attributes
    ----------
    search : tuple of Job
        One per fold and candidate.
    members : tuple of Job
    passes : dict of order to number
        That refine an ensemble member on all rows, likely.
    n_rows : int
    """

    search: tuple[Job, ...]
    members: tuple[Job, ...]
    passes: Mapping[int, float]
    n_rows: int

    @classmethod
    def of(cls, problem: TrainingProblem, n_candidates: int, n_rows: int) -> Plan:
        """For so many rows like those of ``problem``."""
        settings, ranks, response = problem.settings, problem.ranks, problem.response
        information = problem.n_rows / response.n_rows * n_rows

        def job(rows: int, settings: Settings) -> Job:
            schedule = Schedule.of(information, settings.max_iter, settings.tol, rare=response.rare, additive=not ranks)
            return Job(rows, ranks, schedule)

        search: list[Job] = []
        if n_candidates > 1 or settings.order == "auto":
            dispersed = response.family.dispersed
            shorter = search_settings(settings, n_rows, dispersed=dispersed)
            parts = validation_split(
                min(n_rows, RAW_SAMPLE_ROWS), settings.seed, dispersed=dispersed, rare=response.rare
            )
            search = [job(len(rows), shorter) for rows, _ in parts for _ in range(n_candidates)]
        many = uses_subsample(settings, n_rows)
        count = member_count(settings, n_rows) if ranks else 1  # main effects have one start
        members = [job(min(n_rows, SAMPLE_ROWS) if many else n_rows, settings) for _ in range(count)]
        most = dict.fromkeys((1, *ranks), PASSES_BELOW)
        most[max(ranks, default=1)] = settings.max_iter or PASSES
        passes = {order: LIKELY_PASSES * number for order, number in most.items()} if many else {}
        return cls(tuple(search), tuple(members), passes, n_rows)

    @property
    def total(self) -> float:
        """Total cost, as jobs count it."""
        return sum(job.total for job in self.search) + len(self.members) * self._member(self._highest)

    def spared(self, tops: Sequence[int]) -> float:
        """Cost that is saved where ensemble members end at these orders."""
        return sum(self._member(self._highest) - self._member(top) for top in tops)

    @property
    def _highest(self) -> int:
        return max(self.members[0].ranks, default=1)

    def _member(self, top: int) -> float:
        """Cost of an ensemble member that ends at an order, with its passes."""
        ranks = up_to(top, self.members[0].ranks)
        numbers = {order: self.passes[self._highest if order == top else order] for order in (1, *ranks) if self.passes}
        passes = sum(number * pass_cost(self.n_rows, ranks, order) for order, number in numbers.items())
        return replace(self.members[0], ranks=ranks).total + passes


def search_settings(settings: Settings, n_rows: int, *, dispersed: bool) -> Settings:
    """With fewer sweeps, where a row tells as much as a measurement: candidates are compared, not kept."""
    if not dispersed:
        return settings
    most = SEARCH_SWEEPS_OF_FEW if n_rows <= FEW_ROWS else SEARCH_SWEEPS
    return replace(settings, max_iter=min(settings.max_iter or most, most))
