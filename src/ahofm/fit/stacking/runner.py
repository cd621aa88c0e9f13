"""Staged fits side by side on threads, with checkpoints of those that are complete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

from ahofm.fit.solvers.variational.posterior import Fit, StageResult, WarmStart
from ahofm.fit.solvers.variational.stage import Sweep
from ahofm.fit.solvers.variational.staged_fit import StagedFit
from ahofm.kernels.blas import one_blas_thread
from ahofm.kernels.native_engine import ThreadBudget, job_of
from ahofm.model import Predictor, Reason
from ahofm.rows import SerialExecutor, ThreadExecutor
from ahofm.training.runner import Runner
from ahofm.tuning.forecasts import FEWEST_ROWS_FOR_THREADS


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
