"""Schedules: numbers of sweeps of the stages of a fit, and their expected cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ahofm.orders import Orders
from ahofm.tuning import (
    COEFFICIENT_SWEEPS,
    FEWEST_SWEEPS,
    FEWEST_WARM_STARTED_SWEEPS,
    INNER_SWEEPS,
    LARGE_SAMPLE_LAST_SWEEPS,
    LARGE_SAMPLE_LEARNING_SWEEPS,
    LARGE_SAMPLE_ROWS,
    LARGE_SAMPLE_SWEEP_TOL,
    LAST_SWEEPS,
    LEARNING_SWEEPS,
    MAIN_SWEEPS,
    REBUILD_SWEEPS,
    SWEEP_TOL,
    WARM_STARTED_INNER_SWEEPS,
    WARM_STARTED_LAST_SWEEPS,
    WARM_SWEEPS,
)
from ahofm.tuning.forecasts import (
    BASE_COST_FUNCTIONS,
    LIKELY_INNER,
    LIKELY_LONG_LAST,
    LIKELY_MAIN,
    LIKELY_MAIN_ONLY,
    LIKELY_SHORT_LAST,
    PASS_COST_SWEEPS,
    SOLVE_COST_ROWS,
)


@dataclass(frozen=True)
class Schedule:
    """Numbers of sweeps of each stage, and when a stage has converged.

    Attributes
    ----------
    main, inner, last : int
        Most sweeps for main effects, for the stage of an order below the last, and for the last.
    learning, coefficients : int
        Sweeps of a model of main effects alone: those that update smoothing parameters, and the most with fixed ones
        that follow, until predictions converge.
    warm : int
        First sweeps of a stage, with the partners' variance set to 0 and smoothing parameters fixed.
    fewest : int
        Sweeps before a stage may end.
    tol : float
        A stage ends after three sweeps that change the logarithm of the dispersion by less.
    rebuild : int
        Sweeps between two constructions of the rows' states from scratch, against rounding.
    fails_on_increase : bool
        Whether a stage that increases the dispersion fails. Without warm sweeps the first few often increase it; False
        for fits whose time alone is measured.
    """

    main: int = MAIN_SWEEPS
    inner: int = INNER_SWEEPS
    last: int = LAST_SWEEPS
    learning: int = LEARNING_SWEEPS
    coefficients: int = COEFFICIENT_SWEEPS
    warm: int = WARM_SWEEPS
    fewest: int = FEWEST_SWEEPS
    tol: float = SWEEP_TOL
    rebuild: int = REBUILD_SWEEPS
    fails_on_increase: bool = True

    @classmethod
    def of(
        cls, n_rows: float, last: int | None, tol: float | None, *, rare: bool = False, additive: bool = False
    ) -> Schedule:
        """The schedule for ``n_rows`` rows; ``last`` and ``tol`` replace its defaults where they are given.

        Rare events have no warm sweeps, in which partners without variance let factors overfit. ``additive``: the model
        has main effects only, so that ``last`` is their number of sweeps.
        """
        default = cls(warm=0) if rare else cls()
        if n_rows >= LARGE_SAMPLE_ROWS:
            default = replace(
                default,
                learning=LARGE_SAMPLE_LEARNING_SWEEPS,
                last=LARGE_SAMPLE_LAST_SWEEPS,
                tol=LARGE_SAMPLE_SWEEP_TOL,
            )
        if additive and last is not None:
            learning = min(default.learning, last)
            default = replace(default, learning=learning, coefficients=last - learning)
        last = default.last if last is None else last
        return replace(default, last=last, inner=min(default.inner, last), tol=default.tol if tol is None else tol)

    def warm_started(self) -> Schedule:
        """Of a fit whose interactions start from the posterior of another: variances count from the first sweep on."""
        return replace(
            self,
            warm=0,
            inner=min(self.inner, WARM_STARTED_INNER_SWEEPS),
            last=min(self.last, WARM_STARTED_LAST_SWEEPS),
            fewest=min(self.fewest, FEWEST_WARM_STARTED_SWEEPS),
        )

    def most(self, order: int, highest: int) -> int:
        """Maximal number of sweeps of a stage."""
        if order == 1:
            return self.main if highest > 1 else self.learning + self.coefficients
        return self.last if order == highest else self.inner

    def likely(self, order: int, highest: int) -> float:
        """Expected number of sweeps of a stage."""
        last = LIKELY_SHORT_LAST if self.last <= Schedule.last // 2 else LIKELY_LONG_LAST
        main = LIKELY_MAIN if highest > 1 else LIKELY_MAIN_ONLY
        return (main if order == 1 else last if order == highest else LIKELY_INNER) * self.most(order, highest)


@dataclass(frozen=True)
class Job:
    """Cost of a staged fit, before it is made: in rows times functions.

    ``n_growths``: number of further stages of order 2, each of which adds as many factors as the first.
    """

    n_rows: int
    ranks: Mapping[int, int]
    schedule: Schedule
    n_growths: int = 0

    @cached_property
    def stages(self) -> list[tuple[int, int]]:
        """(order, number of factors) of each stage."""
        pairs = self.ranks.get(2, 0)
        stages = []
        for order in (1, *self.ranks):
            factors = Orders(self.ranks).up_to(order).n_factors
            more = range(self.n_growths + 1) if order == 2 else [self.n_growths if order > 2 else 0]
            stages += [(order, factors + times * pairs) for times in more]
        return stages

    def sweeps(self, order: int) -> float:
        """Expected number of sweeps of a stage."""
        return self.schedule.likely(order, max(self.ranks, default=1))

    def cost(self, factors: int, sweeps: float) -> float:
        """Cost of ``sweeps`` sweeps with ``factors`` factors: rows times functions."""
        return sweeps * (self.n_rows + SOLVE_COST_ROWS) * (BASE_COST_FUNCTIONS + factors)

    def cost_until(self, order: int, number: int) -> float:
        """Cost up to sweep ``number`` of an order's last stage; earlier stages count with their expected sweeps."""
        *before, (_, factors) = [stage for stage in self.stages if stage[0] <= order]
        below = sum(self.cost(other, self.sweeps(lower)) for lower, other in before)
        return below + self.cost(factors, min(number + 1, self.sweeps(order)))

    @property
    def total(self) -> float:
        """Expected cost of all stages."""
        return sum(self.cost(factors, self.sweeps(order)) for order, factors in self.stages)


def pass_cost(n_rows: int, ranks: Mapping[int, int], order: int) -> float:
    """Cost of a pass over rows for gradients, in the units of ``Job.cost``."""
    return PASS_COST_SWEEPS * n_rows * (BASE_COST_FUNCTIONS + Orders(ranks).up_to(order).n_factors)
