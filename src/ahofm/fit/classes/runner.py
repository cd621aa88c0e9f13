"""Jobs of a fit to several classes, side by side on threads: stoppable between sweeps, with reports, and saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeAlias

from ahofm.fit.cost.runner import Runner
from ahofm.fit.solvers.base import Saved
from ahofm.kernels.blas import one_blas_thread
from ahofm.model import Reason
from ahofm.shared_curves.shared_fit import Report
from ahofm.threads import thread_count

Job: TypeAlias = Callable[[Report], Any]
"""Told how to report; returns what is to be kept."""


class ClassRunner:
    """Runs jobs and keeps their history.

    Parameters
    ----------
    runner : Runner
        Keeps records, tells callbacks, knows whether the fit is to stop.
    n_threads : int or None
        All cores by default.
    saved : Saved, optional
        Where results are kept, and taken from.
    kept : types
        Of the dataclasses that results are of.
    """

    def __init__(self, runner: Runner, n_threads: int | None, saved: Saved | None, *kept: type) -> None:
        """Nothing has run yet."""
        self.runner, self._saved, self._kept = runner, saved, kept
        self._n_threads, self._begun = thread_count(n_threads), False

    @property
    def stopped(self) -> bool:
        """Whether the fit was interrupted, or the time is over."""
        return self.runner.stopped()

    def __call__(self, jobs: Sequence[Job], fractions: Sequence[float], name: str | None = None) -> list[Any]:
        """Results of all jobs; of those that had not begun when the fit was stopped, None.

        Parameters
        ----------
        jobs : sequence of Job
        fractions : sequence of float
            Fraction of all rows that each job sweeps over.
        name : str, optional
            Results of jobs with a name are saved.
        """
        with ThreadPoolExecutor(min(self._n_threads, max(len(jobs), 1)), thread_name_prefix="ahofm-class") as pool:
            futures = [
                pool.submit(self._run, job, fraction, None if name is None else f"{name} {k}")
                for k, (job, fraction) in enumerate(zip(jobs, fractions, strict=True))
            ]
            with self.runner.interruptible():
                while wait(futures, timeout=0.1).not_done:  # a thread that only waits does not see an interrupt
                    pass
            return [future.result() for future in futures]

    @one_blas_thread()  # the same bits whatever the number of threads
    def _run(self, job: Job, fraction: float, place: str | None) -> Any:
        if self.stopped and (self._begun or self.runner.reason is Reason.INTERRUPTED):
            return None
        self._begun = True  # where time is over at once, one sweep of main effects is the model
        if place is not None and self._saved is not None:
            found = self._saved.get(place, *self._kept)
            if found is not None:
                return found
        before = 1.0

        def report(loss: float) -> bool:
            nonlocal before
            change, before = abs(loss - before), loss
            try:
                return self.runner.report(loss, change, fraction, fraction)
            except KeyboardInterrupt:  # of a callback, in this thread
                self.runner.reason = Reason.INTERRUPTED
                return True

        found = job(report)
        if place is not None and self._saved is not None and not self.stopped:
            self._saved.put(place, found)
        return found
