"""Fits side by side on threads: with records of their iterations, stopped by Ctrl-C, callbacks or a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, Protocol, TypeAlias, TypeVar

from ahofm.kernels.blas import one_blas_thread
from ahofm.model import Reason, Record
from ahofm.threads import thread_count
from ahofm.tuning.numerics import POLL_SECONDS

T = TypeVar("T")

Callback: TypeAlias = Callable[[Record], "bool | None"]
"""Called after every iteration; a fit stops when it returns True."""

Report: TypeAlias = Callable[[float], bool]
"""Called with the mean loss after every sweep of a job; returns whether the job is to stop."""

Job: TypeAlias = Callable[[Report], Any]
"""A fit as a function of ``report``; returns its result."""


@dataclass(frozen=True)
class Deadline:
    """A limit of wall-clock seconds, counted from its construction; None: no limit."""

    seconds: float | None = None
    begun: float = field(default_factory=time.perf_counter)

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.seconds is not None

    @property
    def left(self) -> float:
        """Seconds until the deadline, negative after it."""
        return inf if self.seconds is None else self.begun + self.seconds - time.perf_counter()

    @property
    def over(self) -> bool:
        """Whether the deadline has passed."""
        return self.left <= 0.0


class Saved(Protocol):
    """A store of named parts of a fit, see :class:`ahofm.training.checkpoint.Checkpoint`."""

    def get(self, name: str, *examples: Any) -> Any:
        """The part of that name, or None."""
        ...

    def put(self, name: str, value: Any, *, now: bool = False, instead_of: str | None = None) -> None:
        """Store a part; ``instead_of`` names one to delete."""
        ...


class Runner:
    """Runs fits on threads and keeps the history of their iterations.

    Parameters
    ----------
    n_threads : int or None
        None: all cores.
    n_rows : int
        Number of all rows: a sweep over a part of them counts as that fraction of a pass.
    callbacks : functions of a Record
        Called after every sweep of any fit, one at a time; all fits stop when one returns True.
    expected : float or None
        Expected cost of all fits, in the units of ``report``; records then have the fraction that is done.
    saved : Saved, optional
        Where results of complete fits are stored, and looked up.
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
        """No fit has run yet."""
        self.saved = saved
        self.deadline = deadline or Deadline()
        self.records = [Record(0, 1.0, 0.0, 0.0, 0.0)]  # the objective of the standardised target is 1
        self.reason: Reason | None = None
        self._n_threads = thread_count(n_threads)
        self._n_rows = n_rows
        self._callbacks = callbacks
        self._lock = threading.Lock()
        self._begun = time.perf_counter()
        self._passes = self._done = self._fraction = 0.0
        self._expected = expected
        self._any_begun = False

    def run_jobs(
        self, jobs: Sequence[Job], fraction: float, names: str | Sequence[str] | None = None, *kept: type
    ) -> list[Any]:
        """Results of all jobs; None for jobs that had not begun when the fit was stopped.

        Parameters
        ----------
        jobs : sequence of Job
        fraction : float
            Fraction of all rows that a job sweeps over.
        names : str or sequence of str, optional
            Results are stored under this name and the job's number, or under names of their own.
        kept : types
            Dataclasses that occur in results.
        """
        saved_names: Sequence[str | None] = [None] * len(jobs) if names is None else names
        if isinstance(names, str):
            saved_names = [f"{names} {k}" for k in range(len(jobs))]
        named = zip(jobs, saved_names, strict=True)
        tasks = [partial(self._run_job, job, fraction, saved_name, kept) for job, saved_name in named]
        return self.side_by_side(tasks, min(self._n_threads, max(len(jobs), 1)))

    @one_blas_thread()  # the same bits whatever the number of threads
    def _run_job(self, job: Job, fraction: float, saved_name: str | None, kept: Sequence[type]) -> Any:
        if self.stopped() and (self._any_begun or self.reason is Reason.INTERRUPTED):
            return None
        self._any_begun = True  # after the deadline the first job still makes one sweep, so that there is a model
        if saved_name is not None and self.saved is not None:
            found = self.saved.get(saved_name, *kept)
            if found is not None:
                return found
        before = 1.0

        def report(loss: float) -> bool:
            nonlocal before
            change, before = abs(loss - before), loss
            try:
                return self.report(loss, change, fraction, fraction)
            except KeyboardInterrupt:  # raised by a callback, in this thread
                self.reason = Reason.INTERRUPTED
                return True

        found = job(report)
        if saved_name is not None and self.saved is not None and not self.stopped():
            self.saved.put(saved_name, found)
        return found

    def side_by_side(self, tasks: Sequence[Callable[[], T]], n_threads: int) -> list[T]:
        """Results of all tasks, on so many threads; Ctrl-C sets ``reason``, by which tasks end themselves."""
        with ThreadPoolExecutor(n_threads, thread_name_prefix="ahofm-fit") as pool:
            futures = [pool.submit(task) for task in tasks]
            with self.interruptible():
                while wait(futures, timeout=POLL_SECONDS).not_done:  # a wait without timeout does not see Ctrl-C
                    pass
            return [future.result() for future in futures]

    def stopped(self) -> bool:
        """Whether the fit was interrupted, a callback ended it, or the deadline has passed."""
        if self.reason is None and self.deadline.over:
            self.reason = Reason.TIME
        return self.reason is not None

    def ended(self, max_iter: int | None, *, converged: bool = False) -> Reason:
        """Why the fit has ended: what stopped it, or that it converged, or made all sweeps of its schedule."""
        if self.reason is not None:
            return self.reason
        return Reason.CONVERGED if converged else Reason.ENOUGH if max_iter is None else Reason.MAX_ITER

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Statements that Ctrl-C ends without an exception: ``reason`` is set, earlier results are kept."""
        try:
            yield
        except KeyboardInterrupt:
            self.reason = Reason.INTERRUPTED

    def expect(self, more: float) -> None:
        """Add to the expected cost of all fits."""
        with self._lock:
            self._expected = None if self._expected is None else self._expected + more

    def report(self, value: float, change: float, passes: float, cost: float = 0.0) -> bool:
        """Record an iteration and call the callbacks; returns whether to stop."""
        with self._lock:
            self._passes += passes
            self._done += cost
            seconds = time.perf_counter() - self._begun
            fraction = None if self._expected is None else max(self._fraction, min(self._done / self._expected, 1.0))
            self._fraction = fraction or 0.0  # it never falls, even where more work than planned is added
            record = Record(len(self.records), value, change, self._passes, seconds, fraction=fraction)
            self.records.append(record)
            stops = [callback(record) for callback in self._callbacks]
            if any(stops) and self.reason is None:
                self.reason = Reason.CALLBACK
            return self.stopped()
