"""Where chunks of rows come from. Boundaries depend on the data only, never on the executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from ahofm.columns import Codes
from ahofm.kernels import Chunk


@runtime_checkable
class Source(Protocol):
    """A fixed sequence of chunks. An executor asks for a chunk where it will be computed."""

    @property
    def n_rows(self) -> int:
        """Rows over all chunks."""
        ...

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        ...

    def chunk(self, index: int) -> Chunk:
        """Chunk 0 <= index < n_chunks; may be called by several threads at once."""
        ...


def default_chunk_rows(n_rows: int, n_codes: int) -> int:
    """Rows of a chunk: many more than codes, so that setting up and folding its sums stays a small share of the work,
    and at least eight chunks to share out once there are rows enough for that.
    """
    return max(8_192, 4 * n_codes, min(n_rows // 8, 65_536))


@dataclass(frozen=True)
class ArraySource:
    """Rows in memory; chunks are views.

    Parameters
    ----------
    codes : Codes
    y, weight : arrays of shape (n,), optional
    offset : array of shape (n, linear predictors), optional
    chunk_rows : int, optional
        Rows of a chunk.
    """

    codes: Codes
    y: NDArray[Any] | None = None
    weight: NDArray[Any] | None = None
    offset: NDArray[Any] | None = None
    chunk_rows: int | None = None

    def __post_init__(self) -> None:
        """Refuse columns of different lengths."""
        if self.chunk_rows is not None and self.chunk_rows < 1:
            raise ValueError(f"chunk_rows must be at least 1, got {self.chunk_rows}")
        for name in ("y", "weight", "offset"):
            array = getattr(self, name)
            if array is not None and len(array) != self.n_rows:
                raise ValueError(f"{name} has {len(array)} rows, expected {self.n_rows}")
        if self.offset is not None and self.offset.ndim != 2:
            raise ValueError(f"offset has {self.offset.ndim} dimension(s), expected 2: (rows, linear predictors)")

    @property
    def n_rows(self) -> int:
        """Rows over all chunks."""
        return self.codes.n_rows

    @property
    def rows_per_chunk(self) -> int:
        """Rows of every chunk but the last."""
        return self.chunk_rows or default_chunk_rows(self.n_rows, self.codes.n_codes)

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return -(-self.n_rows // self.rows_per_chunk)

    def chunk(self, index: int) -> Chunk:
        """A view of the rows of one chunk."""
        if not 0 <= index < self.n_chunks:
            raise IndexError(f"chunk {index} is out of range: there are {self.n_chunks}")
        start = index * self.rows_per_chunk
        whole = Chunk(self.codes, self.y, self.weight, self.offset)
        return whole.rows(start, min(start + self.rows_per_chunk, self.n_rows))


@dataclass(frozen=True)
class MappedSource:
    """Another source whose chunks are changed on the way, where they are computed.

    Parameters
    ----------
    inner : Source
    change : function of a Chunk and its number
        Picklable, for executors in other processes.
    rows : int, optional
        How many are left, when some go.
    """

    inner: Source
    change: Callable[[Chunk, int], Chunk]
    rows: int | None = None

    @property
    def n_rows(self) -> int:
        """Rows over all chunks."""
        return self.inner.n_rows if self.rows is None else self.rows

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return self.inner.n_chunks

    def chunk(self, index: int) -> Chunk:
        """The changed chunk."""
        return self.change(self.inner.chunk(index), index)


def selected(source: Source, columns: Sequence[int]) -> Source:
    """Some of the columns of a source."""
    if isinstance(source, ArraySource):
        return replace(source, codes=source.codes.of_columns(columns))
    return MappedSource(source, partial(_select, columns=tuple(columns)))


def _select(chunk: Chunk, index: int, columns: Sequence[int]) -> Chunk:
    del index
    return replace(chunk, codes=chunk.codes.of_columns(columns))
