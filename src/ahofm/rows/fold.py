"""Sums of chunks into one, in chunk order: 1 thread and 16 threads agree to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from ahofm.kernels import Chunk
from ahofm.rows.executor import Executor
from ahofm.rows.source import Source

S = TypeVar("S")  # whatever adds to its kind: Sums, ColumnSums, a number


def fold(task: Callable[[Chunk], S], source: Source, executor: Executor) -> S:
    """``task(chunk 0) + task(chunk 1) + ...``, added up in the memory of the first: a task must return a new object."""
    results = executor.map(task, source)
    total: Any = next(results, None)
    if total is None:
        raise ValueError("the source has no rows; at least one is needed")
    for part in results:
        total += part
    return cast("S", total)
