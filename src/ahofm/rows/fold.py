"""Sums of chunks into one, in chunk order: 1 thread and 16 threads agree to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from ahofm.kernels import Chunk
from ahofm.rows.executor import Executor
from ahofm.rows.source import Source

S = TypeVar("S")  # whatever adds to its kind: Sums, ColumnSums, a number


@runtime_checkable
class Folding(Protocol):
    """An executor that adds up where chunks are, so that one sum comes back and not one per chunk."""

    def fold(self, task: Callable[[Chunk], S], source: Source) -> S | None:
        """The sum, always added up in the same order; None without any chunks."""
        ...


def fold(task: Callable[[Chunk], S], source: Source, executor: Executor) -> S:
    """``task(chunk 0) + task(chunk 1) + ...``, added up in the memory of the first: a task must return a new object."""
    total: Any
    if isinstance(executor, Folding):
        total = executor.fold(task, source)
    else:
        results = executor.map(task, source)
        total = next(results, None)
        for part in results:
            total += part
    if total is None:
        raise ValueError("the source has no rows; at least one is needed")
    return cast("S", total)
