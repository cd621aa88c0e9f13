"""Staged fits, on threads when there are rows enough: stoppable between columns, with reports of the sweeps."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace

from ahofm.fit.solvers.base import Callback, Deadline, Saved
from ahofm.fit.solvers.variational.posterior import Fit, StageResult
from ahofm.fit.solvers.variational.staged_fit import StagedFit, Sweep
from ahofm.kernels.blas import one_blas_thread
from ahofm.model import Predictor, Reason, Record
from ahofm.rows import SerialExecutor, ThreadExecutor
from ahofm.threads import thread_count
from ahofm.tuning import FEWEST_ROWS_FOR_THREADS


class Runner:
    """Runs staged fits and keeps their history.

    Parameters
    ----------
    n_threads : int or None
    n_rows : int
        Of all data: a sweep over some of them counts for its fraction of a pass.
    callbacks : functions of a Record
        Called after every sweep of any fit, one at a time; all fits stop when one returns True.
    expected : float or None
        All work that is likely to come, as jobs count it; records then say how much of it is done.
    saved : Saved, optional
        Where staged fits are kept, once they are complete.
    deadline : Deadline, optional
        When all fits stop.
    """

    def __init__(
        self,
        n_threads: int | None,
        n_rows: int,
        callbacks: Sequence[Callback],
        expected: float | None = None,
        saved: Saved | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        """Nothing has run yet."""
        self.saved = saved
        self.deadline = deadline or Deadline()
        self._n_threads = thread_count(n_threads)
        self._n_rows = n_rows
        self._callbacks = callbacks
        self._lock = threading.Lock()
        self._begun = time.perf_counter()
        self._passes = self._done = self._fraction = 0.0
        self._expected = expected
        self.records = [Record(0, 1.0, 0.0, 0.0, 0.0)]  # the standardised target
        self.reason: Reason | None = None
        self.damped = 0
        self._found = False

    def __call__(
        self, staged_fits: Sequence[StagedFit], name: str | None = None, highest: int | None = None, first: int = 0
    ) -> list[list[Fit]]:
        """Results of every staged fit; of stages that were not reached there are none.

        Once the fit is to stop, what has not begun has none at all, unless it would be the first to have any. With a
        name the fits are saved, and all else that they have learned is forgotten. With ``highest`` they end after the
        stage of that order, and may go on in another call: they are saved then. ``first`` is the number of the first of
        them among all of that name.
        """
        places = [None if name is None else f"{name} {first + k}" for k in range(len(staged_fits))]
        few = all(
            staged.response.n_rows < FEWEST_ROWS_FOR_THREADS and not staged.sweeps_alone for staged in staged_fits
        )
        n_parallel = 1 if few else min(self._n_threads, len(staged_fits))
        each = self._n_threads // max(n_parallel, 1)
        for staged in staged_fits:
            staged.executor = SerialExecutor() if few or each == 1 else ThreadExecutor(each)
            staged.stop = self.stopped
        with one_blas_thread():  # the same bits whatever the number of threads
            if n_parallel == 1:
                return [self._run(*given, highest) for given in zip(staged_fits, places, strict=True)]
            with ThreadPoolExecutor(n_parallel, thread_name_prefix="ahofm-member") as pool:
                given = zip(staged_fits, places, strict=True)
                futures = [pool.submit(self._run, staged, place, highest) for staged, place in given]
                with self.interruptible():
                    while wait(futures, timeout=0.1).not_done:  # a thread that only waits does not see an interrupt
                        pass
                return [future.result() for future in futures]

    @one_blas_thread()  # a thread of a pool may have a number of its own
    def _run(self, staged: StagedFit, place: str | None, highest: int | None = None) -> list[Fit]:
        if staged.forgotten or self._restored(staged, place):
            return staged.fits
        if self.stopped() and (self._found or self.reason is Reason.INTERRUPTED):
            return staged.fits
        fits: list[Fit] = []
        with self.interruptible():  # in the calling thread: fits on threads see the reason instead
            fraction = staged.response.n_rows / self._n_rows
            job = staged.job
            done = sum(job.cost(factors, job.sweeps(order)) for order, factors in job.stages[: len(staged.fits)])

            def report(sweep: Sweep) -> bool:
                nonlocal job, done
                if sweep.grown > job.grown:
                    less, job = job.total, replace(job, grown=sweep.grown)
                    self.expect(job.total - less)
                before, done = done, job.done(sweep.order, sweep.number)
                return self.report(sweep.value, sweep.change, fraction, done - before)

            fits = staged.run(report, highest)
            if len(fits) < len(staged.orders) and highest is not None:
                self._found = self._found or bool(fits)
                return fits
            with self._lock:
                self.damped += staged.damped
                self._done += job.total - done
            if place is not None:
                if self.saved is not None and staged.complete:
                    self.saved.put(place, (fits, staged.settled, staged.response.family, staged.damped))
                staged.forget()
        if self.reason is Reason.INTERRUPTED and not fits:
            fits = staged.so_far()
        self._found = self._found or bool(fits)
        return fits

    def stopped(self) -> bool:
        """Whether the fit was interrupted, a callback ended it, or the time is over."""
        if self.reason is None and self.deadline.over:
            self.reason = Reason.TIME
        return self.reason is not None

    def _restored(self, staged: StagedFit, place: str | None) -> bool:
        """Whether a fit was saved; it is taken from there."""
        if place is None or self.saved is None:
            return False
        found = self.saved.get(place, StageResult, Predictor, staged.response.family)
        if found is None:
            return False
        staged.fits, staged.settled, family, damped = found
        staged.response = replace(staged.response, family=family)
        self.damped += damped
        staged.forgotten = staged.complete = self._found = True
        return True

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Statements that Ctrl-C ends without an error: the reason says so, and what was fitted before is kept."""
        try:
            yield
        except KeyboardInterrupt:
            self.reason = Reason.INTERRUPTED

    def expect(self, more: float) -> None:
        """More work than was planned."""
        with self._lock:
            self._expected = None if self._expected is None else self._expected + more

    def report(self, value: float, change: float, passes: float, cost: float = 0.0) -> bool:
        """Keep a record, tell the callbacks; whether to stop."""
        with self._lock:
            self._passes += passes
            self._done += cost
            seconds = time.perf_counter() - self._begun
            fraction = None if self._expected is None else max(self._fraction, min(self._done / self._expected, 1.0))
            self._fraction = fraction or 0.0  # more work than was planned makes it wait, not fall
            record = Record(len(self.records), value, change, self._passes, seconds, fraction=fraction)
            self.records.append(record)
            wishes = [callback(record) for callback in self._callbacks]
            if any(wishes) and self.reason is None:
                self.reason = Reason.CALLBACK
            return self.stopped()
