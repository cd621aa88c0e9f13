"""Rows on kernels: what any backend has that computes chunk by chunk. Sums of chunks add, in chunk order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ahofm.backends.base import Loss
from ahofm.backends.design import DesignRows
from ahofm.backends.response import Response
from ahofm.backends.working_rows import KernelWorkingRows
from ahofm.columns.basis import Floats
from ahofm.kernels import Chunk, ColumnSums, Kernel, RowStateKernel, Sums, Tables
from ahofm.kernels.losses import check_loss
from ahofm.rows import Executor, MappedSource, SerialExecutor, Source, fold


@dataclass(frozen=True)
class KernelRows:
    """Coded rows, and the kernels that compute on a chunk of them.

    Attributes
    ----------
    source : Source
    executor : Executor
    kernel : Kernel
    block_kernel : RowStateKernel
        For row states of variational fits.
    """

    source: Source
    executor: Executor
    kernel: Kernel
    block_kernel: RowStateKernel

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.source.n_rows

    def value(self, tables: Sequence[Tables], loss: Loss) -> float:
        """Weighted sum of the losses."""
        task = partial(_value, tables=tuple(tables), kernel=self.kernel, loss=loss)
        return float(fold(task, self.source, self.executor))

    def gradient(self, tables: Sequence[Tables], loss: Loss) -> Sums:
        """Weighted sum of the losses, and its derivatives by every table entry."""
        task = partial(_gradient, tables=tuple(tables), kernel=self.kernel, loss=loss)
        return fold(task, self.source, self.executor)

    def column_gram(self, tables: Sequence[Tables], loss: Loss, k: int, column: int) -> ColumnSums:
        """Slopes and curvatures of the loss by one column's functions, per code."""
        task = partial(_column_gram, tables=tuple(tables), kernel=self.kernel, loss=loss, k=k, column=column)
        return fold(task, self.source, self.executor)

    def eta(self, tables: Sequence[Tables]) -> Floats:
        """Linear predictors with the offset."""
        task = partial(self.kernel.eta, linear_predictors=tuple(tables))
        return np.concatenate(list(self.executor.map(task, self.source)))

    def leave_one_out(self, tables: Tables, column: int) -> Floats:
        """Derivatives of one linear predictor by a column's functions."""
        task = partial(self.kernel.leave_one_out, tables=tables, column=column)
        return np.concatenate(list(self.executor.map(task, self.source)))

    def pull_back(self, tables: Sequence[Tables], g: Floats) -> tuple[Tables, ...]:
        """Derivatives of ``sum(g * eta)`` by every table entry."""
        if np.shape(g) != (self.n_rows, len(tables)):
            raise ValueError(f"g has shape {np.shape(g)}, expected ({self.n_rows}, {len(tables)})")
        source = MappedSource(self.source, partial(_with_g, g=g, ends=self._ends))
        return fold(partial(_pull_back, tables=tuple(tables), kernel=self.kernel), source, self.executor).gradient

    def batches(self, size: int, rng: np.random.Generator) -> Iterator[tuple[KernelRows, float]]:
        """All rows once in random order, with their sums of weights."""
        for index in rng.permutation(self.source.n_chunks):
            chunk = self.source.chunk(int(index))
            shuffled = chunk.take(rng.permutation(chunk.n_rows))
            ends = np.linspace(0, chunk.n_rows, max(round(chunk.n_rows / size), 1) + 1).astype(int)
            for start, stop in pairwise(ends):
                batch = shuffled.rows(start, stop)
                weight = float(batch.n_rows if batch.weight is None else batch.weight.sum())
                yield replace(self, source=_OneChunk(batch), executor=SerialExecutor()), weight

    def working(self, response: Response, design: DesignRows) -> KernelWorkingRows:
        """Rows of a variational fit."""
        return KernelWorkingRows(self.source, self.executor, self.block_kernel, response, design)

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """First row of every chunk, and the end of the last."""
        return np.cumsum([0, *self.executor.map(_length, self.source)])


@dataclass(frozen=True)
class _OneChunk:
    only: Chunk

    @property
    def n_rows(self) -> int:
        return self.only.n_rows

    @property
    def n_chunks(self) -> int:
        return 1

    def chunk(self, index: int) -> Chunk:
        del index
        return self.only


def _weighted(chunk: Chunk, values: Floats) -> Floats:
    if chunk.weight is None:
        return values
    return np.asarray(values * (chunk.weight if values.ndim == 1 else chunk.weight[:, np.newaxis]))


def _row_losses(chunk: Chunk, tables: tuple[Tables, ...], kernel: Kernel, loss: Loss) -> tuple[Floats, ...]:
    """Weighted values (n,), slopes and curvatures (n, K) of a chunk's rows."""
    if chunk.y is None:
        raise ValueError("the source has no target")
    function = check_loss(loss, len(tables)) if isinstance(loss, str) else loss
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # an infinite loss is an answer
        return tuple(_weighted(chunk, values) for values in function(chunk.y, kernel.eta(chunk, tables)))


def _value(chunk: Chunk, tables: tuple[Tables, ...], kernel: Kernel, loss: Loss) -> float:
    return float(_row_losses(chunk, tables, kernel, loss)[0].sum())


def _gradient(chunk: Chunk, tables: tuple[Tables, ...], kernel: Kernel, loss: Loss) -> Sums:
    if isinstance(loss, str):
        return kernel.value_and_gradient(chunk, tables, loss)
    value, g, _ = _row_losses(chunk, tables, kernel, loss)
    return Sums(float(value.sum()), kernel.pull_back(chunk, tables, g))


def _column_gram(
    chunk: Chunk, tables: tuple[Tables, ...], kernel: Kernel, loss: Loss, k: int, column: int
) -> ColumnSums:
    _, g, h = _row_losses(chunk, tables, kernel, loss)
    return kernel.column_sums(chunk, tables[k], column, g[:, k], h[:, k])


def _with_g(chunk: Chunk, index: int, g: Floats, ends: NDArray[np.int64]) -> Chunk:
    """A chunk whose offset, which derivatives do not depend on, is its part of g: it goes where the chunk goes."""
    return replace(chunk, offset=g[ends[index] : ends[index + 1]])


def _pull_back(chunk: Chunk, tables: tuple[Tables, ...], kernel: Kernel) -> Sums:
    assert chunk.offset is not None
    return Sums(0.0, kernel.pull_back(chunk, tables, chunk.offset))


def _length(chunk: Chunk) -> int:
    return chunk.n_rows
