"""Chunks on a Dask cluster: tables go out, and sums come back.

Everything a worker holds is a task that the scheduler can run again, so that a worker that dies costs time only; and
sums are added in an order that partitions alone decide, so that it changes nothing.
"""

from __future__ import annotations

import copy
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar, cast

import numpy as np

from ahofm.kernels import Chunk
from ahofm.kernels.blas import one_blas_thread
from ahofm.rows import MappedSource, Source

T = TypeVar("T")
S = TypeVar("S")

_TOGETHER = 8
"""Results that one task adds up."""


@dataclass(frozen=True)
class ClusterSource:
    """Chunks of partitions that workers hold.

    Parameters
    ----------
    client : distributed.Client
    partitions : sequence of futures of Chunk
    rows : sequence of int
        Of each partition: a multiple of ``chunk_rows`` but for the last.
    chunk_rows : int
        Of each chunk but the last.
    """

    client: Any
    partitions: Sequence[Any]
    rows: Sequence[int]
    chunk_rows: int

    @property
    def n_rows(self) -> int:
        """Rows over all chunks."""
        return sum(self.rows)

    @cached_property
    def starts(self) -> list[int]:
        """Number of the first chunk of each partition, and of all."""
        return [0, *accumulate(-(-rows // self.chunk_rows) for rows in self.rows)]

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return self.starts[-1]

    def chunk(self, index: int) -> Chunk:
        """One chunk, fetched from its worker."""
        if not 0 <= index < self.n_chunks:
            raise IndexError(f"chunk {index} is out of range: there are {self.n_chunks}")
        at = int(np.searchsorted(self.starts, index, side="right")) - 1
        future = self.client.submit(_chunk, self.partitions[at], index - self.starts[at], self.chunk_rows, pure=False)
        return cast("Chunk", future.result())


@dataclass(frozen=True)
class ClusterExecutor:
    """Chunks of a :class:`ClusterSource`, on the workers that hold them."""

    client: Any

    def map(self, task: Callable[[Chunk], T], source: Source) -> Iterator[T]:
        """Results in chunk order; those of few partitions are alive at a time."""
        inner, payload = self._sent(task, source)
        most = 2 * max(len(self.client.scheduler_info(n_workers=-1)["workers"]), 1)
        waiting: deque[Any] = deque()
        try:
            for at, partition in enumerate(inner.partitions):
                if len(waiting) >= most:
                    yield from waiting.popleft().result()
                waiting.append(self._submit(_mapped, payload, partition, inner, at))
            while waiting:
                yield from waiting.popleft().result()
        finally:
            self.client.cancel(list(waiting))

    def fold(self, task: Callable[[Chunk], S], source: Source) -> S | None:
        """The sum over partitions of sums over their chunks; neighbours are added where they are."""
        inner, payload = self._sent(task, source)
        parts = [self._submit(_folded, payload, partition, inner, at) for at, partition in enumerate(inner.partitions)]
        if not parts:
            return None
        while len(parts) > 1:
            groups = [parts[k : k + _TOGETHER] for k in range(0, len(parts), _TOGETHER)]
            parts = [self.client.submit(_added, *group, pure=False) for group in groups]
        return cast("S", parts[0].result())

    def _sent(self, task: Callable[[Chunk], Any], source: Source) -> tuple[ClusterSource, Any]:
        """The partitions, and what to do with their chunks as a task of its own: it goes out once."""
        changes = []
        while isinstance(source, MappedSource):
            changes.append(source.change)
            source = source.inner
        if not isinstance(source, ClusterSource):
            raise TypeError(f"a cluster computes chunks that it holds, not those of {type(source).__name__}")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")  # tables of many codes: once a pass
            return source, self.client.submit(_same, (task, changes[::-1]), pure=False)

    def _submit(
        self, function: Callable[..., Any], payload: Any, partition: Any, source: ClusterSource, at: int
    ) -> Any:
        return self.client.submit(function, partition, payload, source.starts[at], source.chunk_rows, pure=False)


# What follows runs on workers.


def _same(value: T) -> T:
    return value


def _chunk(rows: Chunk, index: int, chunk_rows: int) -> Chunk:
    return rows.rows(index * chunk_rows, min((index + 1) * chunk_rows, rows.n_rows))


def _results(rows: Chunk, payload: Any, first: int, chunk_rows: int) -> Iterator[Any]:
    """Of all chunks of a partition, in their order."""
    task, changes = payload
    for index in range(-(-rows.n_rows // chunk_rows)):
        chunk = _chunk(rows, index, chunk_rows)
        for change in changes:
            chunk = change(chunk, first + index)
        yield task(chunk)


@one_blas_thread()
def _mapped(*given: Any) -> list[Any]:
    return list(_results(*given))


@one_blas_thread()
def _folded(*given: Any) -> Any:
    total: Any = None
    for part in _results(*given):
        if total is None:
            total = part
        else:
            total += part
    return total


def _added(*parts: Any) -> Any:
    """The sum of results; they stay what they are, should they be needed again."""
    total = copy.deepcopy(parts[0])
    for part in parts[1:]:
        total += part
    return total
