"""Who schedules chunks. Results come back in the order of the chunks, so that folding them is always the same sum."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from ahofm.kernels import Chunk
from ahofm.rows.source import Source

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


def _run(task: Callable[[Chunk], T], source: Source, index: int) -> T:
    return task(source.chunk(index))


@dataclass(frozen=True)
class ThreadExecutor:
    """Chunks on threads, for kernels that release the Python lock.

    Parameters
    ----------
    n_threads : int, optional
        All cores by default.
    """

    n_threads: int | None = None

    def __post_init__(self) -> None:
        """Refuse less than one thread."""
        if self.n_threads is not None and self.n_threads < 1:
            raise ValueError(f"n_threads must be at least 1, got {self.n_threads}")

    def map(self, task: Callable[[Chunk], T], source: Source) -> Iterator[T]:
        """Results in chunk order; at most two per thread wait to be taken."""
        n_threads = min(self.n_threads or os.cpu_count() or 1, source.n_chunks)
        if n_threads <= 1:
            yield from SerialExecutor().map(task, source)
            return
        pool = ThreadPoolExecutor(n_threads, thread_name_prefix="ahofm")
        waiting: deque[Future[T]] = deque()
        try:
            for index in range(source.n_chunks):
                if len(waiting) >= 2 * n_threads:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(_run, task, source, index))
            while waiting:
                yield waiting.popleft().result()
        finally:  # an error or an interrupt: what has not started is dropped, what runs ends first
            pool.shutdown(wait=True, cancel_futures=True)
