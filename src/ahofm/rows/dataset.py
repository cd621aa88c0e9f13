"""Rows that are coded already and need not be in memory: what a fit asks of them.

Passes over all rows see codes. Whatever needs true values, or all of a target at once (units, starts, smoothing
parameters, the choice between candidates), is learned from a *raw sample*: all rows when there are at most
:data:`RAW_SAMPLE_ROWS`, else so many, which :func:`raw_sample_rows` picks by their numbers alone. A table in memory, a
store on disk and partitions on a cluster then give the same fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Learned
from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.rows.executor import Executor
from ahofm.rows.source import Source

RAW_SAMPLE_ROWS = 200_000
"""Rows of the raw sample, at most."""

_AT_A_TIME = 1 << 22


@dataclass(frozen=True)
class RawSample:
    """Raw values of some rows, in their order, with their targets, weights and offsets."""

    table: Table
    y: Floats
    weight: Floats
    offset: Floats | None


@dataclass(frozen=True)
class Target:
    """What is known of a target without its rows.

    Attributes
    ----------
    labels : tuple or None
        Its distinct values in order, where they are few. A target of text is held as their numbers.
    text : bool
    low, high : float
    """

    labels: tuple[Any, ...] | None
    text: bool
    low: float
    high: float


@runtime_checkable
class Dataset(Protocol):
    """Coded rows of positive weight."""

    @property
    def columns(self) -> Sequence[Learned]:
        """What was learned of each column."""
        ...

    @property
    def named(self) -> bool:
        """Whether the names of the columns came with the data."""
        ...

    @property
    def target(self) -> Target:
        """What is known of the target."""
        ...

    @property
    def total(self) -> float:
        """Sum of the weights."""
        ...

    @property
    def source(self) -> Source:
        """All rows: codes, targets as they are, weights unless all are 1, offsets of as many columns as were given."""
        ...

    @property
    def raw_sample(self) -> RawSample:
        """All rows, or :func:`raw_sample_rows` of them."""
        ...

    def executor(self, n_threads: int | None) -> Executor:
        """Who computes the chunks of ``source``."""
        ...


def raw_sample_rows(n_rows: int) -> NDArray[np.int64]:
    """Numbers of the rows of the raw sample, in order: the smallest hashes, however rows are cut into pieces."""
    if n_rows <= RAW_SAMPLE_ROWS:
        return np.arange(n_rows)
    likely = np.uint64(int(2.0**64 * min(1.0, 1.1 * RAW_SAMPLE_ROWS / n_rows)) - 1)
    rows, hashes = [], []
    for start in range(0, n_rows, _AT_A_TIME):
        some = np.arange(start, min(start + _AT_A_TIME, n_rows))
        own = hashed(some)
        rows.append(some[own <= likely])
        hashes.append(own[own <= likely])
    smallest = np.argpartition(np.concatenate(hashes), RAW_SAMPLE_ROWS - 1)[:RAW_SAMPLE_ROWS]
    return np.sort(np.concatenate(rows)[smallest])


def hashed(numbers: NDArray[Any]) -> NDArray[np.uint64]:
    """Whole numbers of 64 bits, mixed (the last step of SplitMix64; Steele, Lea and Flood, 2014): one to one."""
    z = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))
