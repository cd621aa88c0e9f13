"""Sums of chunks into one, in chunk order: 1 thread and 16 threads agree to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from ahofm.kernels import Chunk
from ahofm.rows.executor import Executor
from ahofm.rows.source import Source


class Addable(Protocol):
    """Anything two of which add up to one of its kind."""

    def __add__(self, other: Any) -> Any:
        """Sum."""
        ...


S = TypeVar("S", bound=Addable)


def fold(task: Callable[[Chunk], S], source: Source, executor: Executor) -> S:
    """``task(chunk 0) + task(chunk 1) + ...``"""
    results = executor.map(task, source)
    total = next(results, None)
    if total is None:
        raise ValueError("the source has no rows; at least one is needed")
    for part in results:
        total = total + part
    return total
