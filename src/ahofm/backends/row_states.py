"""All rows' states, chunk by chunk, and the sums that a block needs of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.kernels import BlockSums, Chunk, ColumnMoments, RowState, RowStateKernel
from ahofm.orders import PRODUCT
from ahofm.rows import Executor, Source, fold

T = TypeVar("T")


@dataclass(frozen=True)
class _States:
    """States in the place of chunks: an executor visits them as it visits chunks."""

    states: Sequence[RowState]

    @property
    def n_rows(self) -> int:
        return sum(len(state.fitted()[0]) for state in self.states)

    @property
    def n_chunks(self) -> int:
        return len(self.states)

    def chunk(self, index: int) -> Any:
        return self.states[index]


class RowStates:
    """Rows with a state.

    Parameters
    ----------
    source : Source
        Chunks of codes.
    executor : Executor
    kernel : RowStateKernel
    ranks : dict of order (>= 2) to rank
    loadings : array of shape (rank,), optional
        Of product factors.
    """

    def __init__(
        self,
        source: Source,
        executor: Executor,
        kernel: RowStateKernel,
        ranks: Mapping[int, int],
        loadings: Floats | None = None,
    ) -> None:
        """States without columns."""
        self._loadings = None if PRODUCT not in ranks else loadings
        self._source, self._executor, self._kernel, self._ranks = source, executor, kernel, ranks
        self.clear()
        lengths = [source.chunk(index).n_rows for index in range(source.n_chunks)]
        self._ends = np.cumsum([0, *lengths])

    def clear(self) -> None:
        """Row states without any column and without a working response."""
        kernel, ranks, loadings = self._kernel, self._ranks, self._loadings
        self._states = _States([])  # their memory is needed
        self._states = _States(
            list(self._executor.map(lambda chunk: kernel.state(chunk, ranks, loadings), self._source))
        )

    def set_working_response(self, weight: Floats, target: Floats) -> None:
        """Weights, and weighted targets, of all rows."""
        for state, start, end in zip(self._states.states, self._ends[:-1], self._ends[1:], strict=True):
            state.set_working_response(weight[start:end], target[start:end])

    def add_column(self, moments: ColumnMoments) -> None:
        """Add a column."""
        self._each(lambda state: state.swap(moments, None))

    def swap_columns(self, add_column: ColumnMoments | None, remove_column: ColumnMoments) -> BlockSums:
        """Add a column, remove another one and return its sums."""
        task = cast("Callable[[Chunk], BlockSums]", lambda state: state.swap(add_column, remove_column))
        return fold(task, self._states, self._executor)

    def fitted(self) -> tuple[Floats, Floats]:
        """Mean and variance of every row's linear predictor, without intercept."""
        fits = self._each(lambda state: state.fitted())
        return np.concatenate([mean for mean, _ in fits]), np.concatenate([variance for _, variance in fits])

    def _each(self, task: Callable[[RowState], T]) -> list[T]:
        return list(self._executor.map(cast("Callable[[Chunk], T]", task), self._states))
