"""Dask collections as rows that a fit can use: learned by a tree of sketches, coded on the workers that hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import ColumnKind, Encoder, Learned
from ahofm.columns.encode import Kinds, check_max_codes, requested_kinds
from ahofm.columns.table import read_table
from ahofm.kernels import Chunk
from ahofm.rows import RawSample, Target, default_chunk_rows, raw_sample_rows
from ahofm.scale.batch import Piece, TableSketch, TargetSketch, joined, joined_chunks
from ahofm.scale.cluster import ClusterExecutor, ClusterSource
from ahofm.scale.partitions import Partitions
from ahofm.scale.sketch import ColumnSketch


@dataclass(frozen=True)
class Coded:
    """A partition after coding: all its rows, and true values of those that are known."""

    chunk: Chunk
    raw_sample: RawSample | None


class ClusterDataset:
    """Dask collections as rows that a fit can use; see :class:`ahofm.rows.Dataset`.

    Parameters
    ----------
    X : Dask DataFrame, or Dask Array of shape (n, columns)
    y, weight : Dask Series or Arrays of shape (n,)
    offset : Dask Series or Array of shape (n,) or (n, linear predictors)
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
        starts, numbers = [0, *accumulate(counts)], raw_sample_rows(found.n_rows)
        encoder = Encoder(tuple(column.codebook(None) for column in self.columns), given.named)
        plan = given.shared((encoder, self.target, not found.ones))
        tasks = []
        for i in range(len(given)):
            own = numbers[slice(*np.searchsorted(numbers, starts[i : i + 2]))] - starts[i]
            tasks.append(given.task(i, _code, given.names, own, plan))
        coded = client.compute(tasks)
        self._client = client
        self.raw_sample: RawSample = joined(
            [part for part in client.gather(client.map(_raw_sample, coded, pure=False)) if part]
        )
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
    columns = tuple(ColumnSketch(name, 0.0) for name in names)
    return TableSketch(columns, TargetSketch.of(np.empty(0), ""), 0, 0.0, True)


def _code(names: Sequence[str], raw_sample: NDArray[np.int64], plan: Any, i: int, *parts: Any) -> Coded | None:
    piece = _piece(names, i, *parts)
    if piece is None:
        return None
    encoder, target, weighted = cast("tuple[Encoder, Target, bool]", plan)
    chunk = piece.coded(encoder, target)
    chunk = chunk if weighted else Chunk(chunk.codes, chunk.y, None, chunk.offset)
    if weighted and chunk.weight is None:
        chunk = Chunk(chunk.codes, chunk.y, np.ones(chunk.n_rows), chunk.offset)
    return Coded(chunk, piece.raw_sample(raw_sample, target) if len(raw_sample) else None)


def _count(sketch: TableSketch) -> int:
    return sketch.n_rows


def _raw_sample(coded: Coded | None) -> RawSample | None:
    return None if coded is None else coded.raw_sample


def _sum(a: TableSketch, b: TableSketch) -> TableSketch:
    return a + b


def _cut(start: int, n_rows: int, *coded: Coded) -> Chunk:
    """Rows of neighbouring partitions as one."""
    return joined_chunks([part.chunk for part in coded if part is not None]).rows(start, start + n_rows)
