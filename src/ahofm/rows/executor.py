"""Who schedules chunks. Results come back in the order of the chunks, so that folding them is always the same sum."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeVar, runtime_checkable

from ahofm.kernels import Chunk
from ahofm.kernels.blas import one_blas_thread
from ahofm.kernels.native_engine import ThreadBudget
from ahofm.rows.source import Source
from ahofm.threads import thread_count

T = TypeVar("T")


@runtime_checkable
class Executor(Protocol):
    """Applies a task to every chunk of a source."""

    def map(self, task: Callable[[Chunk], T], source: Source) -> Iterator[T]:
        """Results in chunk order; few of them are alive at a time."""
        ...


@dataclass(frozen=True)
class SerialExecutor:
    """One chunk after another."""

    def map(self, task: Callable[[Chunk], T], source: Source) -> Iterator[T]:
        """Results in chunk order."""
        for index in range(source.n_chunks):
            yield task(source.chunk(index))


@dataclass(frozen=True)
class ThreadExecutor:
    """Chunks on threads, for kernels that release the Python lock.

    Threads are started once per process and shared: starting them for every pass costs more than a small pass.

    Parameters
    ----------
    n_threads : int, optional
        All cores by default.
    budget : ThreadBudget, optional
        Threads that fits side by side share: sweeps of the native engine use those that no fit has, whatever
        ``n_threads`` says.
    """

    n_threads: int | None = None
    budget: ThreadBudget | None = None

    def __post_init__(self) -> None:
        """Refuse less than one thread."""
        if self.n_threads is not None and self.n_threads < 1:
            raise ValueError(f"n_threads must be at least 1, got {self.n_threads}")

    def map(self, task: Callable[[Chunk], T], source: Source) -> Iterator[T]:
        """Results in chunk order; at most two per thread wait to be taken."""
        n_threads = thread_count(self.n_threads)
        if min(n_threads, source.n_chunks) == 1:
            yield from SerialExecutor().map(task, source)
            return
        pool = _pool(n_threads - 1)  # and the calling thread, which would only wait otherwise
        waiting: deque[tuple[int, Future[T]]] = deque()
        try:
            for index in range(source.n_chunks):
                if len(waiting) >= 2 * n_threads:
                    yield _first(waiting, task, source)
                waiting.append((index, pool.submit(_run, task, source, index)))
            while waiting:
                yield _first(waiting, task, source)
        finally:  # an error or an interrupt: what has not started is dropped, what runs ends first
            wait([future for _, future in waiting if not future.cancel()])


@one_blas_thread()  # a thread of a pool may have a number of its own
def _run(task: Callable[[Chunk], T], source: Source, index: int) -> T:
    return task(source.chunk(index))


def _first(waiting: deque[tuple[int, Future[T]]], task: Callable[[Chunk], T], source: Source) -> T:
    """Take the oldest result; while another thread is still at it, compute here what has not been started."""
    for place, (index, future) in enumerate(waiting):
        if waiting[0][1].done():
            break
        if future.cancel():
            here: Future[T] = Future()
            here.set_result(_run(task, source, index))
            waiting[place] = index, here
    return waiting.popleft()[1].result()


@lru_cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="ahofm")


if hasattr(os, "register_at_fork"):  # threads do not survive a fork; a child starts its own
    os.register_at_fork(after_in_child=_pool.cache_clear)
