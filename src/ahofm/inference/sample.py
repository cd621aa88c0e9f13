"""The sample of rows that the information of a band is computed from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Categorical, Codebook, Codes
from ahofm.columns.basis import Floats
from ahofm.inference.many_levels import OtherLevels, most_others

MOST_ROWS, _FEWEST_SAMPLED = 20_000, 20
"""Most rows that H is computed from; more are sampled. Slopes are those of all rows: with those of a sample, the shift
would contain the sample's noise. Rows with a number of which the sample would have fewer rows than the second number
are in it for certain, up to half of it: functions of such numbers have slopes, and would have no information."""


def rare_rows(codes: Codes, books: Sequence[Codebook]) -> NDArray[np.bool_]:
    """Rows (n,) with a number of which a sample would have few rows: the rarest ones, at most half a sample."""
    rarest = np.full(codes.n_rows, codes.n_rows)
    for book, of_rows in zip(books, codes.columns, strict=True):
        if book.size and not isinstance(book.kind, Categorical):
            rarest = np.minimum(rarest, np.bincount(of_rows, minlength=book.n_codes)[of_rows])
    limit = -(-_FEWEST_SAMPLED * codes.n_rows // MOST_ROWS)
    if codes.n_rows > MOST_ROWS:
        limit = min(limit, int(np.partition(rarest, MOST_ROWS // 2)[MOST_ROWS // 2]))
    return np.asarray(rarest < limit)


def sample_of(
    codes: Codes, weight: Floats, rare: NDArray[np.bool_], others: Mapping[int, OtherLevels], seed: int
) -> tuple[NDArray[np.intp], Floats]:
    """About ``MOST_ROWS`` rows, and the number of rows that each stands for: all rare ones, and a sample of the rest.

    Rows of levels that are integrated out are sampled level by level.
    """
    n, rng = codes.n_rows, np.random.default_rng(seed)
    if n <= MOST_ROWS:
        return np.arange(n), np.ones(n)
    rest = rng.permutation(np.flatnonzero(~rare))
    size = MOST_ROWS - int(rare.sum())
    if others:
        column = most_others(others)
        of_rows = codes.columns[column.column]
        counts = np.bincount(of_rows[rest], minlength=len(column.others)) * column.others
        levels = rng.permutation(np.flatnonzero(counts))
        chosen = np.zeros(len(counts), dtype=bool)
        chosen[levels[np.cumsum(counts[levels]) <= max(size * counts.sum() // len(rest), 1)]] = True
        single = rest[~column.others[of_rows[rest]]]
        sampled = np.concatenate([rest[chosen[of_rows[rest]]], single[: size * len(single) // len(rest)]])
    else:
        sampled = rest[:size]
    scale_up = np.ones(n)
    scale_up[sampled] = weight[rest].sum() / weight[sampled].sum()
    seen = np.sort(np.concatenate([sampled, np.flatnonzero(rare)]))
    return seen, scale_up[seen]
