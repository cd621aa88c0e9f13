"""Smooth main effects of all columns at some rows, and the sums over rows that their normal equations need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats, Sparse
from ahofm.kernels.native_engine import LOCAL, design_gram, design_sums, design_times, weighted_grams

MOST_BLOCKS = 2
"""Of a column whose functions are local: beyond, dense coordinates take fewer numbers."""

CELL_BYTES = 9
"""Memory per entry of a design: an entry, and a quarter of a place."""


@dataclass(frozen=True)
class MainSums:
    """Sums over rows with working weights w and weighted working responses z, for an intercept and coefficients.

    Attributes
    ----------
    total, total_response : float
        ``sum w`` and ``sum z``.
    gram : array of shape (m, m)
        ``D' W D`` of the design D, centred at ``middle``.
    rhs : array of shape (m,)
        ``D' z``, of the centred design.
    middle : array of shape (m,)
        Weighted means of the design.
    """

    total: float
    total_response: float
    gram: Floats
    rhs: Floats
    middle: Floats


@dataclass(frozen=True)
class DesignRows:
    """A design ``D = B F - 1 c'`` at rows, centred by the rows' own weights.

    B are functions of which a row has few that are not zero, such as B-splines: ``LOCAL`` numbers per block, those of
    functions that follow one another. A column has one block, or more where its functions are not local; columns of few
    coordinates share blocks.

    Attributes
    ----------
    places : array of shape (n, blocks), int32
        The first function of each block.
    entries : array of shape (n, blocks, LOCAL)
        Values of that function and those after it.
    transform : array of shape (functions, m)
        F: coordinates in these functions.
    parts : array of shape (parts, 4)
        Where ``transform`` is not zero: first and last row, first and last column, the last ones excluded.
    centre : array of shape (m,)
        c: what is subtracted.
    weight : array of shape (n,)
    """

    places: NDArray[np.int32]
    entries: Floats
    transform: Floats
    parts: Floats
    centre: Floats
    weight: Floats

    @classmethod
    def of(cls, columns: Sequence[tuple[Sparse, Floats]], weight: Floats) -> DesignRows:
        """The products of values of functions (n, size), sparse, and coordinates in them (size, m), one per column.

        Columns of fewer coordinates than a block has numbers, such as indicators, share blocks.
        """
        n, size = len(weight), sum(coordinates.shape[1] for _, coordinates in columns)
        blocks, transforms, parts = [(np.zeros((n, 0), dtype=np.int64), np.zeros((n, 0, LOCAL)))], [], []
        shared: list[Floats] = []
        shared_at: list[int] = []
        first, start = 0, 0
        for values, coordinates in columns:
            end = start + coordinates.shape[1]
            local = _blocks(values) if coordinates.shape[1] >= LOCAL else None
            if local is None:
                shared.append(np.asarray(values @ coordinates))
                shared_at += range(start, end)
            else:
                places, entries, known = local
                transform = np.zeros((len(known), size))
                transform[known >= 0, start:end] = coordinates[known[known >= 0]]
                blocks.append((places + first, entries))
                transforms.append(transform)
                parts.append((first, first + len(known), start, end))
                first += len(known)
            start = end
        if shared_at:
            places, entries, known = _dense_blocks(np.hstack(shared))
            transform = np.zeros((len(known), size))
            transform[np.arange(len(shared_at)), shared_at] = 1.0
            blocks.append((places + first, entries))
            transforms.append(transform)
            parts.append((first, first + len(known), 0, size))
        all_places, all_entries = zip(*blocks, strict=True)
        uncentred = cls(
            np.ascontiguousarray(np.concatenate(all_places, axis=1), dtype=np.int32),
            np.ascontiguousarray(np.concatenate(all_entries, axis=1)),
            np.concatenate([np.zeros((0, size)), *transforms]),
            np.array(parts, dtype=np.float64).reshape(-1, 4),
            np.zeros(size),
            weight,
        )
        return uncentred._centred()

    @classmethod
    def dense(cls, values: Floats, weight: Floats) -> DesignRows:
        """Of a matrix (n, m)."""
        return cls.of([(values, np.eye(values.shape[1]))], weight)

    def _centred(self) -> DesignRows:
        means = design_sums(self.arrays, self.weight) / self.weight.sum()
        return DesignRows(self.places, self.entries, self.transform, self.parts, means, self.weight)

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return len(self.centre)

    @property
    def nbytes(self) -> int:
        """Memory of places and entries."""
        return self.places.nbytes + self.entries.nbytes

    @cached_property
    def arrays(self) -> dict[str, Any]:
        """As compiled code reads it."""
        names = ("places", "entries", "transform", "parts", "centre")
        return {name: getattr(self, name) for name in names}

    @property
    def matrix(self) -> Floats:
        """All rows, dense: (n, m)."""
        local = np.zeros((len(self.weight), len(self.transform)))
        rows = np.arange(len(local))[:, np.newaxis]
        for k in range(LOCAL):
            np.add.at(local, (rows, self.places + k), self.entries[:, :, k])
        return np.asarray(local @ self.transform - self.centre)

    @cached_property
    def gram(self) -> Floats:
        """Gram matrix at the rows' own weights."""
        return self.weighted_gram(self.weight)

    def weighted_gram(self, weight: Floats) -> Floats:
        """``D' W D`` (m, m) at weights (n,)."""
        return design_gram(self.arrays, weight)

    def eta(self, intercept: float, coef: Floats) -> Floats:
        """Main effects of each row: (n,)."""
        return design_times(self.arrays, coef) + intercept

    def sums(self, weight: Floats, weighted_response: Floats, like: MainSums | None = None) -> MainSums:
        """At working weights and weighted working responses, (n,) each; ``like``: earlier sums at the same weights."""
        total, total_response = float(weight.sum()), float(weighted_response.sum())
        none = np.zeros(self.size)
        if not self.size or not total > np.finfo(float).tiny:
            return MainSums(total, total_response, np.zeros((self.size, self.size)), none, none)
        rhs = design_sums(self.arrays, weighted_response)
        if weight is self.weight:  # then the design is centred already
            return MainSums(total, total_response, self.gram, rhs, none)
        if like is not None:
            return MainSums(total, total_response, like.gram, rhs - like.middle * total_response, like.middle)
        middle = design_sums(self.arrays, weight) / total
        gram = self.weighted_gram(weight) - total * np.outer(middle, middle)
        return MainSums(total, total_response, gram, rhs - middle * total_response, middle)


def weighted_gram(design: Floats, weight: Floats) -> Floats:
    """``D' W D`` (m, m) of a dense design (n, m) at weights (n,)."""
    (gram,) = weighted_grams(design, weight[np.newaxis])
    return np.asarray(gram)


_Blocks: TypeAlias = tuple[NDArray[np.int64], Floats, NDArray[np.int64]]
"""Places (n, blocks), entries (n, blocks, LOCAL), and which function is at a place, -1 where there is none."""


def _blocks(values: Any) -> _Blocks | None:
    """Functions (n, size), sparse, in blocks; None where those that are not zero in a row are far from each other.

    On a circle the first functions follow the last ones, and come again there.
    """
    if isinstance(values, np.ndarray):
        return None
    values.sum_duplicates()
    n, size = values.shape
    row, functions = np.repeat(np.arange(n), np.diff(values.indptr)), values.indices.astype(np.int64)
    turned = functions + np.where((_spans(functions, values.indptr)[1] > LOCAL)[row] & (functions < LOCAL), size, 0)
    for at in (functions, turned):
        first, spans = _spans(at, values.indptr)
        count = -(-max(int(spans.max(initial=1)), 1) // LOCAL)
        if count <= MOST_BLOCKS:
            entries = np.zeros((n, count * LOCAL))
            entries[row, at - first[row]] = values.data
            known = np.arange(size + count * LOCAL - 1)
            again = known - size if at is turned else -1
            places = first[:, np.newaxis] + LOCAL * np.arange(count)
            return places, entries.reshape(n, count, LOCAL), np.where(known < size, known, again)
    return None


def _dense_blocks(values: Floats) -> _Blocks:
    """A matrix (n, m) in blocks of its columns."""
    n, size = values.shape
    count = -(-size // LOCAL)
    entries = np.pad(values, ((0, 0), (0, count * LOCAL - size))).reshape(n, count, LOCAL)
    known = np.arange(count * LOCAL)
    places = np.broadcast_to(LOCAL * np.arange(count), (n, count))
    return places, entries, np.where(known < size, known, -1)


def _spans(functions: NDArray[np.int64], start: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first function of each row, and how many there are from it to the last: (n,) each, 0 where there are none."""
    some = np.flatnonzero(np.diff(start) > 0)
    first, spans = np.zeros((2, len(start) - 1), dtype=np.int64)
    if len(some):
        first[some] = np.minimum.reduceat(functions, start[some])
        spans[some] = np.maximum.reduceat(functions, start[some]) - first[some] + 1
    return first, spans
