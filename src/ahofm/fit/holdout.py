"""Rows set held, for a solver that stops when these get worse."""

from __future__ import annotations

from functools import partial

import numpy as np

from ahofm.kernels import Chunk
from ahofm.rows import ArraySource, MappedSource, Source


def hold_out(source: Source, fraction: float, seed: int) -> tuple[Source, Source | None]:
    """A source without a fraction of its rows, and the rest; None when there is none.

    Rows in memory are shuffled as well: neighbours in the table need not fraction a batch. Others stay in their chunks,
    of which each gives its fraction.
    """
    n_rows = source.n_rows
    count = round(fraction * n_rows)
    if isinstance(source, ArraySource):
        order = np.random.default_rng(seed).permutation(n_rows)
        train = _take(source, order[count:])
        return train, _take(source, order[:count]) if count else None
    if not count:
        return source, None
    part = partial(_part, fraction=fraction, seed=seed)
    return (
        MappedSource(source, partial(part, held=False), n_rows - count),
        MappedSource(source, partial(part, held=True), count),
    )


def _take(source: ArraySource, rows: np.ndarray) -> ArraySource:
    whole = Chunk(source.codes, source.y, source.weight, source.offset).take(rows)
    return ArraySource(whole.codes, whole.y, whole.weight, whole.offset)


def _part(chunk: Chunk, index: int, fraction: float, seed: int, held: bool) -> Chunk:
    order = np.random.default_rng([seed, index]).permutation(chunk.n_rows)
    count = round(fraction * chunk.n_rows)
    return chunk.take(np.sort(order[:count] if held else order[count:]))
