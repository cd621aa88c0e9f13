"""How far a default fit can scale: spans of its jobs on one thread, and what list scheduling makes of them on several.

``make bench-engine-trace DATA=folder``. A fit runs on one thread. Recorded are, in processor seconds: what it does
between jobs, each job (a candidate on a fold, or an ensemble member) as a sequence of Python and of native sweeps,
and inside sweeps the regions that run in parallel, task by task. Simulated is the runner on 2, 4, 8 and 16 threads:
longest job first, one Python statement at a time, jobs that wait for the main effects of their fold, and threads
without a job as helpers in the regions of the others. What the simulation leaves out: memory bandwidth, the time to
start a region (about a microsecond), and NumPy calls that release Python's lock, which count as holding it.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ahofm.backends.cpu import CpuSweeper
from ahofm.fit.solvers.variational.staged_fit import StagedFit
from ahofm.fit.stacking.runner import StagedRunner
from ahofm.shared_curves.sweeps import CompiledSweeps
from ahofm.training.runner import Runner
from benchmarks.engine_fit import _TEST, data, estimator
from benchmarks.table import Row, finish, require, show

JOBS = ("concrete", "california", "adult", "vowel", "million")
THREADS = (1, 2, 4, 8, 16)
"""As in ``RegionSpans`` of src/native/pool.h."""


@dataclass
class Segment:
    """A part of a job: Python, or native code with its duration on 1, 2, 4, 8 and 16 threads.

    ``waits`` is the lock that the segment needs, of main effects that several jobs share.
    """

    seconds: tuple[float, ...]
    native: bool
    waits: int | None = None


@dataclass
class Phase:
    """Jobs that may run side by side; one job alone is what the calling thread does."""

    jobs: list[list[Segment]] = field(default_factory=list)


class Recorder:
    """Spans of one fit on one thread."""

    def __init__(self) -> None:
        """Nothing has run."""
        self.phases: list[Phase] = [Phase([[]])]
        self._job = self.phases[0].jobs[0]
        self._lock: int | None = None
        self._timing = _seconds_of_timing()
        self._since = time.thread_time()

    def python(self) -> None:
        """The time since the last event was Python's."""
        now = time.thread_time()
        self._job.append(Segment((now - self._since,) * len(THREADS), False, self._lock))
        self._since = now

    def native(self, call: Callable[[], Any], engine: Any = None) -> Any:
        """A native call: what is not in parallel regions takes as long on any number of threads."""
        self.python()
        seconds = (lambda: [0.0] * (len(THREADS) + 1)) if engine is None else engine.region_seconds
        before = np.array(seconds())
        try:
            return call()
        finally:
            now = time.thread_time()
            *regions, tasks = np.array(seconds()) - before
            rest = max(now - self._since - regions[0] - tasks * self._timing, 0.0)
            self._job.append(Segment(tuple(rest + np.array(regions)), True, self._lock))
            self._since = now

    @contextmanager
    def phase(self) -> Iterator[None]:
        """Jobs that are independent of each other."""
        self.python()
        self.phases.append(Phase())
        try:
            yield
        finally:
            self.phases.append(Phase([[]]))
            self._job, self._since = self.phases[-1].jobs[0], time.thread_time()

    @contextmanager
    def job(self) -> Iterator[None]:
        """One of them."""
        self._job, self._since = [], time.thread_time()
        self.phases[-1].jobs.append(self._job)
        try:
            yield
        finally:
            self.python()

    @contextmanager
    def locked(self, lock: int) -> Iterator[None]:
        """What only one job at a time does; others wait."""
        self.python()
        self._lock = lock
        try:
            yield
        finally:
            self.python()
            self._lock = None


def _seconds_of_timing() -> float:
    """What the two readings of the clock around a task take beside it."""
    first = time.thread_time()
    for _ in range(1000):
        time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID)
    return (time.thread_time() - first) / 1000


@contextmanager
def recorded() -> Iterator[Recorder]:
    """Record all fits inside."""
    recorder = Recorder()
    kept = [(owner, name, getattr(owner, name)) for owner, name in _PATCHED]
    call, run, main, job, side = (method for _, _, method in kept[:5])
    build, sweep, init = (method for _, _, method in kept[5:8])

    def traced(self: Any, *given: Any, **named: Any) -> None:
        init(self, *given, **named)
        self._native.trace_regions(True)

    def phase(method: Any) -> Any:
        def wrapped(self: Any, *given: Any, **named: Any) -> Any:
            with recorder.phase():
                return method(self, *given, **named)

        return wrapped

    def one(method: Any) -> Any:
        def wrapped(self: Any, *given: Any, **named: Any) -> Any:
            with recorder.job():
                return method(self, *given, **named)

        return wrapped

    def locked(self: Any, *given: Any) -> Any:
        with recorder.locked(id(self.main_stage)):
            return main(self, *given)

    def native(method: Any) -> Any:
        return lambda self, *given, **named: recorder.native(lambda: method(self, *given, **named), self._native)

    def alone(method: Any) -> Any:
        return lambda self, *given, **named: recorder.native(lambda: method(self, *given, **named))

    wrapped = [phase(call), one(run), locked, one(job), phase(side), native(build), native(sweep), traced]
    wrapped += [alone(method) for _, _, method in kept[8:]]
    for (owner, name, _), new in zip(kept, wrapped, strict=True):
        setattr(owner, name, new)
    try:
        yield recorder
    finally:
        recorder.python()
        for owner, name, old in kept:
            setattr(owner, name, old)


_PATCHED: Sequence[tuple[Any, str]] = (
    (StagedRunner, "__call__"),
    (StagedRunner, "_run"),
    (StagedFit, "_fit_main_effects"),
    (Runner, "_run_job"),
    (Runner, "run_jobs"),
    (CpuSweeper, "build"),
    (CpuSweeper, "sweep"),
    (CpuSweeper, "__init__"),
    (CompiledSweeps, "sweep_mains"),
    (CompiledSweeps, "sweep"),
    (CompiledSweeps, "loss"),
)


def simulated(phases: Sequence[Phase], threads: int, *, lock: bool = True) -> float:
    """Seconds of the clock on so many threads; without ``lock`` Python statements run side by side."""
    return sum(_phase(phase, threads, lock=lock) for phase in phases)


def _phase(phase: Phase, threads: int, *, lock: bool) -> float:
    total = [sum(segment.seconds[0] for segment in job) for job in phase.jobs]
    waiting = sorted((k for k in range(len(total)) if total[k] > 0.0), key=lambda k: -total[k])
    done = dict.fromkeys(waiting, 0)
    left = {k: _length(phase.jobs[k][0]) for k in waiting}
    running: list[int] = []
    held: dict[int, int] = {}
    shared: set[int] = set()
    clock = 0.0
    while waiting or running:
        while waiting and len(running) < threads:
            running.append(waiting.pop(0))
        active, interpreter = [], False
        for k in running:
            segment = phase.jobs[k][done[k]]
            if segment.waits is not None and held.setdefault(segment.waits, k) != k and segment.waits not in shared:
                continue
            if not segment.native and lock:
                if interpreter:
                    continue
                interpreter = True
            active.append(k)
        helpers = (threads - len(active)) // max(sum(phase.jobs[k][done[k]].native for k in active), 1)
        speed = {}
        for k in active:
            segment = phase.jobs[k][done[k]]
            place = max(p for p, count in enumerate(THREADS) if count <= max(1 + helpers, 1)) if segment.native else 0
            speed[k] = _length(segment) / max(segment.seconds[place], 1e-12)
        step = min(left[k] / speed[k] for k in active)
        clock += step
        for k in active:
            left[k] -= step * speed[k]
            while left[k] <= 1e-12:
                segment = phase.jobs[k][done[k]]
                done[k] += 1
                after = phase.jobs[k][done[k]] if done[k] < len(phase.jobs[k]) else None
                if segment.waits is not None and (after is None or after.waits != segment.waits):
                    shared.add(segment.waits)
                if after is None:
                    running.remove(k)
                    break
                left[k] = _length(after)
    return clock


def _length(segment: Segment) -> float:
    return max(segment.seconds[0], 1e-12)


def one_job(job: str, folder: Path) -> list[Row]:
    """Spans of one data set, and what they allow."""
    X, y, classes = data(job, folder)
    test = np.random.default_rng(1).random(len(y)) < _TEST.get(job, 0.2)
    warm = np.random.default_rng(0).normal(size=(200, 3))
    estimator("ahofm", 1, classes=False, job="").fit(warm, warm[:, 0] * warm[:, 1])
    one = estimator("ahofm", 1, classes=classes, job=job)
    with recorded() as recorder:
        one.fit(X[~test], y[~test])
    phases = recorder.phases
    segments = [(len(phase.jobs) > 1, segment) for phase in phases for own in phase.jobs for segment in own]
    total = sum(segment.seconds[0] for _, segment in segments)
    python = sum(segment.seconds[0] for _, segment in segments if not segment.native)
    alone = sum(segment.seconds[0] for several, segment in segments if not several)
    serial = sum(2 * segment.seconds[1] - segment.seconds[0] for _, segment in segments if segment.native)
    rows = [
        Row(f"{job}: processor seconds on one thread", total, "s"),
        Row(f"{job}: jobs", float(sum(len(phase.jobs) for phase in phases if len(phase.jobs) > 1)), ""),
        Row(f"{job}: in Python", python / total, "of it"),
        Row(f"{job}: between jobs, or in one alone", alone / total, "of it"),
        Row(f"{job}: serial parts of sweeps, at most", max(serial, 0.0) / total, "of it"),
    ]
    for count in THREADS[1:]:
        found = total / simulated(phases, count)
        least = 5.0 if count == 8 else None
        rows.append(require(f"{job}: possible speed-up on {count} threads", found, "x", least=least))
    free = total / simulated(phases, 8, lock=False)
    rows.append(Row(f"{job}: on 8, if Python's lock were free", free, "x"))
    return rows


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the data sets")
    parser.add_argument("--jobs", nargs="*", default=list(JOBS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    table: list[Row] = []
    for job in given.jobs:
        table += (rows := one_job(job, given.data))
        show(rows)
    finish("engine_trace", table, written=set(JOBS) <= set(given.jobs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
