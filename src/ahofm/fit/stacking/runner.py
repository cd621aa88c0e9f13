"""The plan of a fit, and staged fits side by side on threads, with checkpoints of those that are complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any

from ahofm.fit.solvers.variational.posterior import Fit, StageResult, WarmStart
from ahofm.fit.solvers.variational.schedule import Job, Schedule, pass_cost
from ahofm.fit.solvers.variational.stage import Sweep
from ahofm.fit.solvers.variational.staged_fit import StagedFit
from ahofm.fit.stacking.candidates import Candidate
from ahofm.fit.stacking.problem import TrainingProblem, fold_count, member_count, search_settings, uses_subsample
from ahofm.kernels.blas import one_blas_thread
from ahofm.kernels.native_engine import ThreadBudget, job_of
from ahofm.model import Predictor, Reason
from ahofm.orders import Orders
from ahofm.rows import RAW_SAMPLE_ROWS, SerialExecutor, ThreadExecutor
from ahofm.training.runner import Runner
from ahofm.training.settings import Settings
from ahofm.training.splits import given_splits
from ahofm.training.validation import validation_split
from ahofm.tuning.forecasts import FEWEST_ROWS_FOR_THREADS, LIKELY_PASSES
from ahofm.tuning.subsample import LOWER_ORDER_PASSES, PASSES, SAMPLE_ROWS


@dataclass(frozen=True)
class Plan:
    """The jobs of a fit, before it begins.

    Attributes
    ----------
    search : tuple of Job
        One per fold and candidate.
    members : tuple of Job
    first : Job
        One fit to all rows that starts from no other.
    passes : dict of order to float
        Expected number of passes that refine an ensemble member on all rows.
    n_rows : int
    """

    search: tuple[Job, ...]
    members: tuple[Job, ...]
    first: Job
    passes: Mapping[int, float]
    n_rows: int

    @classmethod
    def of(
        cls,
        problem: TrainingProblem,
        candidates: Sequence[Candidate],
        n_rows: int,
        fitted_rows: Sequence[int] | None = None,
    ) -> Plan:
        """For ``n_rows`` rows like those of ``problem``.

        ``fitted_rows`` are numbers of rows of each fit of the search, where splits are given.
        """
        settings, ranks, response = problem.settings, problem.ranks, problem.response
        information = problem.n_rows / response.n_rows * n_rows

        def job(rows: int, settings: Settings, ranks: Mapping[int, int] = ranks) -> Job:
            schedule = Schedule.of(information, settings.max_iter, settings.tol, rare=response.rare, additive=not ranks)
            return Job(rows, ranks, schedule)

        search: list[Job] = []
        if len(candidates) > 1 or settings.order == "auto":
            dispersed = response.family.dispersed
            options = {"dispersed": dispersed, "rare": response.rare}
            shorter = {
                product: search_settings(settings, response, n_rows, product=product) for product in (False, True)
            }
            if fitted_rows is not None:
                sizes = list(fitted_rows)
            elif problem.data.rows.roles is None:
                count = fold_count(settings)
                splits = validation_split(min(n_rows, RAW_SAMPLE_ROWS), settings.seed, **options, n_folds=count)
                sizes = [len(fitted) for fitted, _ in splits]
            else:
                sizes = [len(fitted) for fitted, _ in given_splits(problem.data.rows, settings.seed, **options)]
            search = [
                job(size, candidate.most_sweeps(shorter[candidate.product]), candidate.ranks(ranks))
                for size in sizes
                for candidate in candidates
            ]
        subsampled = uses_subsample(settings, n_rows)
        count = member_count(settings, n_rows)
        count = count if ranks else min(count, len(candidates))  # main effects have one start
        first = job(min(n_rows, SAMPLE_ROWS) if subsampled else n_rows, settings)
        warm_started = bool(search) and problem.warm_starts_members
        member = replace(first, schedule=first.schedule.warm_started()) if warm_started else first
        most = dict.fromkeys((1, *ranks), LOWER_ORDER_PASSES)
        most[max(ranks, default=1)] = settings.max_iter or PASSES
        passes = {order: LIKELY_PASSES * number for order, number in most.items()} if subsampled else {}
        return cls(tuple(search), (member,) * count, first, passes, n_rows)

    @property
    def total(self) -> float:
        """Total cost, in the units of ``Job.cost``."""
        return sum(job.total for job in self.search) + len(self.members) * self._member(self._highest)

    @property
    def first_total(self) -> float:
        """Total cost of one fit to all rows that starts from no other."""
        return self._member(self._highest) + self.first.total - self.members[0].total

    def spared(self, tops: Sequence[int]) -> float:
        """Cost that is saved if the ensemble members have highest orders ``tops``."""
        return len(self.members) * self._member(self._highest) - sum(self._member(top) for top in tops)

    @property
    def _highest(self) -> int:
        return max(self.members[0].ranks, default=1)

    def _member(self, top: int) -> float:
        """Cost of an ensemble member up to order ``top``, with its passes."""
        ranks = Orders(self.members[0].ranks).up_to(top)
        numbers = {order: self.passes[self._highest if order == top else order] for order in (1, *ranks) if self.passes}
        passes = sum(number * pass_cost(self.n_rows, ranks, order) for order, number in numbers.items())
        return replace(self.members[0], ranks=ranks).total + passes


class StagedRunner(Runner):
    """Runs staged fits; ``damped`` counts their steps without sufficient decrease."""

    damped: int = 0
    _any_fits: bool = False

    def __call__(
        self,
        staged_fits: Sequence[StagedFit],
        name: str | None = None,
        highest: int | None = None,
        numbers: Sequence[int] | None = None,
    ) -> list[list[Fit]]:
        """Fits of every staged fit, one per stage that was reached; the longest begin first.

        Threads that no fit has, since there are fewer fits or some have ended, help in the sweeps of those that run.

        Once the fit is to stop, staged fits that have not begun return no fits, except the very first.

        Parameters
        ----------
        staged_fits : sequence of StagedFit
        name : str, optional
            Complete staged fits are stored under this name and their number; all but their results is released.
        highest : int, optional
            Staged fits pause after the stage of this order, and go on in another call; they are stored then.
        numbers : sequence of int, optional
            Numbers of the staged fits among all of that name; 0, 1, ... by default.
        """
        numbers = range(len(staged_fits)) if numbers is None else numbers
        saved_names = [None if name is None else f"{name} {number}" for number in numbers]
        without_threads = all(
            staged.response.n_rows < FEWEST_ROWS_FOR_THREADS and not staged.backend_sweeps for staged in staged_fits
        )
        n_parallel = 1 if without_threads else min(self._n_threads, len(staged_fits))
        threads_each = self._n_threads // max(n_parallel, 1)
        budget = ThreadBudget(self._n_threads, len(staged_fits))
        for staged in staged_fits:
            staged.executor = (
                SerialExecutor() if without_threads or self._n_threads == 1 else ThreadExecutor(threads_each, budget)
            )
            staged.stop = self.stopped
        longest_first = sorted(range(len(staged_fits)), key=lambda k: -staged_fits[k].cost_left(highest))
        tasks = [partial(self._run, staged_fits[k], saved_names[k], highest, budget) for k in longest_first]
        with one_blas_thread():  # the same bits whatever the number of threads
            fits = [task() for task in tasks] if n_parallel == 1 else self.side_by_side(tasks, n_parallel)
        return [fit for _, fit in sorted(zip(longest_first, fits, strict=True), key=itemgetter(0))]

    def _run(self, staged: StagedFit, saved_name: str | None, highest: int | None, budget: ThreadBudget) -> list[Fit]:
        with job_of(budget):
            return self._run_one(staged, saved_name, highest)

    @one_blas_thread()  # a thread of a pool may have a number of its own
    def _run_one(self, staged: StagedFit, saved_name: str | None, highest: int | None) -> list[Fit]:
        if staged.released or self._restored(staged, saved_name):
            return staged.fits
        if self.stopped() and (self._any_fits or self.reason is Reason.INTERRUPTED):
            return staged.fits
        fits: list[Fit] = []
        with self.interruptible():  # in the calling thread: fits on threads see the reason instead
            fraction = staged.response.n_rows / self._n_rows
            job = staged.job
            done = sum(job.cost(factors, job.sweeps(order)) for order, factors in job.stages[: len(staged.fits)])

            def report(sweep: Sweep) -> bool:
                nonlocal job, done
                if sweep.n_growths > job.n_growths:
                    less, job = job.total, replace(job, n_growths=sweep.n_growths)
                    self.expect(job.total - less)
                before, done = done, job.cost_until(sweep.order, sweep.number)
                return self.report(sweep.value, sweep.change, fraction, done - before)

            fits = staged.run(report, highest)
            if len(fits) < len(staged.orders) and highest is not None:
                self._any_fits = self._any_fits or bool(fits)
                return fits
            with self._lock:
                self.damped += staged.damped
                self._done += job.total - done
            if saved_name is not None:
                damped = staged.damped
                staged.release()
                if self.saved is not None and staged.complete:
                    self.saved.put(saved_name, (fits, staged.converged, staged.response.family, damped, staged.offered))
        if self.reason is Reason.INTERRUPTED and not fits:
            fits = staged.fits_so_far()
        self._any_fits = self._any_fits or bool(fits)
        return fits

    def _restored(self, staged: StagedFit, saved_name: str | None) -> bool:
        """Whether the staged fit is in the checkpoint; its results are then taken from there."""
        if saved_name is None or self.saved is None:
            return False
        found: Any = self.saved.get(saved_name, StageResult, Predictor, WarmStart, staged.response.family)
        if found is None:
            return False
        staged.fits, staged.converged, family, damped, staged.offered = found
        staged.response = replace(staged.response, family=family)
        self.damped += damped
        staged.released = staged.complete = self._any_fits = True
        return True
