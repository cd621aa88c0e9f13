"""Rows on a Dask cluster: coded where they are; tables go out and sums come back.

Everything a worker holds is a task that the scheduler can run again, so that a worker that dies costs time only; and
sums are added in an order that partitions alone decide, so that it changes nothing.
"""

from __future__ import annotations

import copy
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import ColumnKind, Encoder, Learned
from ahofm.columns.encode import Kinds, check_max_codes, requested_kinds
from ahofm.columns.table import read_table
from ahofm.kernels import Chunk
from ahofm.rows import Known, MappedSource, Source, Target, default_chunk_rows, known_rows
from ahofm.scale.partitions import Partitions
from ahofm.scale.piece import Piece, TableSketch, joined, joined_chunks
from ahofm.scale.sketch import ColumnSketch

T = TypeVar("T")
S = TypeVar("S")

_TOGETHER = 8
"""Results that one task adds up."""


@dataclass(frozen=True)
class Coded:
    """A partition after coding: all its rows, and true values of those that are known."""

    chunk: Chunk
    known: Known | None


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


class ClusterDataset:
    """Dask collections as rows that a fit can use; see :class:`ahofm.rows.Dataset`.

    Parameters
    ----------
    X : Dask DataFrame, or Dask Array of shape (n, columns)
    y, weight : Dask Series or Arrays of shape (n,)
    offset : Dask Series or Array of shape (n,) or (n, predictors)
        All with the partitions of X.
    columns, max_codes
        As for an estimator.
    learned : sequence of Learned, optional
        Columns that were learned before.
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        weight: Any = None,
        offset: Any = None,
        *,
        columns: Kinds = None,
        max_codes: int | None = None,
        learned: Sequence[Learned] | None = None,
    ) -> None:
        """Two passes over the partitions: one learns the columns, one codes the rows."""
        check_max_codes(max_codes)
        client = current_client()
        given = Partitions.of(X, y, weight, offset)
        kinds = requested_kinds(columns, given.names)
        sketches = client.compute([given.task(i, _sketch, given.names, kinds) for i in range(len(given))])
        counts = client.gather(client.map(_count, sketches, pure=False))
        found: TableSketch = _tree(client, sketches).result()
        del sketches
        if not found.n_rows:
            raise ValueError("X has no rows of positive weight (0 sample(s)); at least one is needed")
        fresh = tuple(column.learned(kinds.get(j), max_codes) for j, column in enumerate(found.columns))
        self.columns: Sequence[Learned] = fresh if learned is None else tuple(learned)
        self.named, self.total, self.target = given.named, found.total, found.target.learned()
        starts, numbers = [0, *accumulate(counts)], known_rows(found.n_rows)
        encoder = Encoder(tuple(column.codebook(None) for column in self.columns), given.named)
        plan = given.shared((encoder, self.target, not found.ones))
        tasks = []
        for i in range(len(given)):
            own = numbers[slice(*np.searchsorted(numbers, starts[i : i + 2]))] - starts[i]
            tasks.append(given.task(i, _code, given.names, own, plan))
        coded = client.compute(tasks)
        self._client = client
        self.known: Known = joined([part for part in client.gather(client.map(_known, coded, pure=False)) if part])
        chunk_rows = default_chunk_rows(found.n_rows, sum(column.n_codes for column in self.columns))
        self.source = _aligned(client, coded, counts, chunk_rows)

    def executor(self, n_threads: int | None) -> ClusterExecutor:
        """The cluster, whatever the number of threads here."""
        del n_threads
        return ClusterExecutor(self._client)


def current_client() -> Any:
    """The client of this process; raises ValueError when there is none."""
    from distributed import get_client  # noqa: PLC0415 - only who has a cluster needs it

    try:
        return get_client()
    except ValueError as error:
        raise ValueError("Dask collections need a cluster: start one with distributed.Client()") from error


def _aligned(client: Any, coded: Sequence[Any], counts: Sequence[int], chunk_rows: int) -> ClusterSource:
    """Partitions of whole chunks: a chunk is where its first row is, and the same however rows are partitioned.

    Rows within a chunk are summed in single precision where there are many; sums would otherwise differ in the
    seventh digit between partitionings.
    """
    ends = [0, *accumulate(counts)]
    cuts = [min(-(-end // chunk_rows) * chunk_rows, ends[-1]) for end in ends]
    partitions, rows = [], []
    for i, (start, stop) in enumerate(pairwise(cuts)):
        if stop > start:
            last = int(np.searchsorted(ends, stop))
            partitions.append(client.submit(_cut, start - ends[i], stop - start, *coded[i:last], pure=False))
            rows.append(stop - start)
    return ClusterSource(client, partitions, rows, chunk_rows)


def _tree(client: Any, futures: Sequence[Any]) -> Any:
    """The sum of sketches, pairwise."""
    level = list(futures)
    while len(level) > 1:
        pairs = [level[k : k + 2] for k in range(0, len(level), 2)]
        level = [client.submit(_sum, *pair, pure=False) if len(pair) > 1 else pair[0] for pair in pairs]
    return level[0]


# What follows runs on workers. Partitions have their number with them, for messages.


def _piece(names: Sequence[str], i: int, X: Any, y: Any, weight: Any, offset: Any) -> Piece | None:
    """A partition, checked; None when it has no rows."""
    where = f"partition {i}"
    for name, part in (("y", y), ("sample_weight", weight), ("offset", offset)):
        if part is not None and len(part) != len(X):
            raise ValueError(f"{where}: {name} has {len(part)} rows, X has {len(X)}; partition both alike")
    own = tuple(map(str, getattr(X, "columns", names)))
    if own != tuple(names):
        raise ValueError(f"{where} has the columns {', '.join(own)}, but X has {', '.join(names)}")
    if len(X) == 0:
        return None
    try:
        table = read_table(X)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where}: {error}") from error
    target = read_table(np.asarray(y, dtype=None if np.asarray(y).dtype.kind in "fiub" else object).reshape(-1, 1))
    return Piece.of(table, target.columns[0], weight, offset, where)


def _sketch(names: Sequence[str], kinds: Mapping[int, ColumnKind], i: int, *parts: Any) -> TableSketch:
    piece = _piece(names, i, *parts)
    if piece is not None:
        return TableSketch.of(piece, kinds)
    empty = TableSketch.of(Piece.of(read_table(np.zeros((1, len(names)))), np.zeros(1), [0.0], None, ""), {})
    columns = tuple(ColumnSketch(name, 0.0) for name in names)
    return TableSketch(columns, empty.target, 0, 0.0, True)


def _code(names: Sequence[str], known: NDArray[np.int64], plan: Any, i: int, *parts: Any) -> Coded | None:
    piece = _piece(names, i, *parts)
    if piece is None:
        return None
    encoder, target, weighted = cast("tuple[Encoder, Target, bool]", plan)
    chunk = piece.coded(encoder, target)
    chunk = chunk if weighted else Chunk(chunk.codes, chunk.y, None, chunk.offset)
    if weighted and chunk.weight is None:
        chunk = Chunk(chunk.codes, chunk.y, np.ones(chunk.n_rows), chunk.offset)
    return Coded(chunk, piece.known(known, target) if len(known) else None)


def _count(sketch: TableSketch) -> int:
    return sketch.n_rows


def _known(coded: Coded | None) -> Known | None:
    return None if coded is None else coded.known


def _sum(a: TableSketch, b: TableSketch) -> TableSketch:
    return a + b


def _same(value: T) -> T:
    return value


def _cut(start: int, n_rows: int, *coded: Coded) -> Chunk:
    """Rows of neighbouring partitions as one."""
    return joined_chunks([part.chunk for part in coded if part is not None]).rows(start, start + n_rows)


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


def _mapped(*given: Any) -> list[Any]:
    return list(_results(*given))


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
