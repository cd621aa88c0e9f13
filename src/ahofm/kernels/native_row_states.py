"""Row states and small solves of the variational solver in compiled code, without the Python lock while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm import _native
from ahofm.columns.basis import Floats
from ahofm.kernels.native import INSTRUCTION_SETS, NativeSettings, contiguous
from ahofm.kernels.protocol import Chunk
from ahofm.kernels.row_states import BlockSums, ColumnMoments
from ahofm.orders import PRODUCT, Orders

MAX_STATE_ORDER: int = _native.MAX_STATE_ORDER
"""Highest order of a factor."""

_WEIGHT, _WEIGHTED_RESPONSE = 2, 3  # where a row keeps them


@dataclass(frozen=True)
class NativeRowStateKernel(NativeSettings):
    """Compiled row states, with the settings of :class:`NativeSettings`."""

    def state(self, chunk: Chunk, ranks: Mapping[int, int], loadings: Floats | None = None) -> NativeRowState:
        """A state without columns."""
        return NativeRowState(self.instruction_set, self.precision, chunk, ranks, loadings)


class NativeRowState:
    """One array of numbers, in blocks of rows."""

    def __init__(
        self, instruction_set: str, precision: str, chunk: Chunk, ranks: Mapping[int, int], loadings: Floats | None
    ) -> None:
        """No column was added yet."""
        self._instruction_set, self._chunk = instruction_set, chunk
        self._ranks = list(ranks.items())
        numbers = _native.state_size(self._ranks, precision == "float64")  # refuses orders that are not built
        self._width = Orders(ranks).width
        blocks = -(-chunk.n_rows // _native.STATE_BLOCK)
        self._state: NDArray[Any] = np.zeros((blocks, _native.STATE_BLOCK * numbers), dtype=precision)
        if PRODUCT in ranks:
            given = np.ones(ranks[PRODUCT]) if loadings is None else contiguous(loadings, np.float64)
            _native.start_state(instruction_set, self._state, chunk.n_rows, self._ranks, given)

    def set_working_response(self, weight: Floats, weighted_response: Floats) -> None:
        """Working weights, and weighted working responses."""
        for name, array in (("weight", weight), ("weighted_response", weighted_response)):
            if np.shape(array) != (self._chunk.n_rows,):
                raise ValueError(f"{name} has shape {np.shape(array)}, expected ({self._chunk.n_rows},)")
        rows, head = _native.STATE_BLOCK, _native.STATE_HEAD
        heads = self._state[:, : rows * head].reshape(-1, rows, head)
        padded = np.zeros((2, len(heads) * rows))
        padded[0, : len(weight)], padded[1, : len(weighted_response)] = weight, weighted_response
        heads[:, :, _WEIGHT], heads[:, :, _WEIGHTED_RESPONSE] = padded.reshape(2, -1, rows)

    def swap(self, add_column: ColumnMoments | None, remove_column: ColumnMoments | None) -> BlockSums | None:
        """Add one column, then remove one and return its sums."""
        enters = None if add_column is None else self._given(add_column)
        if remove_column is None:
            _native.swap_columns(
                self._instruction_set, self._state, self._chunk.n_rows, self._ranks, enters, None, None, None
            )
            return None
        size = len(remove_column.mean)
        sums = BlockSums(np.zeros((size, self._width, self._width)), np.zeros((size, self._width)))
        leaves = self._given(remove_column)
        n = self._chunk.n_rows
        _native.swap_columns(self._instruction_set, self._state, n, self._ranks, enters, leaves, sums.gram, sums.rhs)
        return sums

    def fitted(self) -> tuple[Floats, Floats]:
        """Mean and variance of each row's linear predictor."""
        mean, variance = np.empty(self._chunk.n_rows), np.empty(self._chunk.n_rows)
        _native.read_state(self._instruction_set, self._state, self._ranks, mean, variance)
        return mean, variance

    def _given(self, moments: ColumnMoments) -> tuple[int, NDArray[Any], Floats, Floats]:
        codes = contiguous(self._chunk.codes.columns[moments.column])
        return moments.column, codes, contiguous(moments.mean), contiguous(moments.variance)


def inverses(matrices: Floats) -> Floats:
    """Inverse of each of many small symmetric positive definite matrices: (count, n, n)."""
    out = np.array(matrices, order="C")
    _native.inverses(INSTRUCTION_SETS[-1], out)
    return out


def chain(
    gram: Floats, rhs: Floats, edges: Floats, lam_difference: Floats, lam_value: Floats
) -> tuple[Floats, Floats, Floats]:
    """Solve a chain of small problems, and read the diagonal of its inverse.

    The matrix has blocks ``gram[b] + diag(lam_difference (edges[b - 1] + edges[b]) + lam_value)`` and beside them
    ``-diag(lam_difference edges[b])``.

    Parameters
    ----------
    gram : array of shape (codes, K, K)
    rhs : array of shape (codes, K, count)
    edges : array of shape (codes - 1,)
    lam_difference, lam_value : arrays of shape (K,)

    Returns
    -------
    solved : array of shape (codes, K, count)
    variance : array of shape (codes, K)
        Diagonal of the inverse.
    differences : array of shape (K,)
        ``sum_b edges[b] * variance(x[b + 1] - x[b])``.
    """
    solved, variance, differences = np.empty(rhs.shape), np.empty(rhs.shape[:2]), np.empty(rhs.shape[1])
    gram, rhs, edges, lam_difference, lam_value = (
        contiguous(array) for array in (gram, rhs, edges, lam_difference, lam_value)
    )
    _native.chain(INSTRUCTION_SETS[-1], gram, rhs, edges, lam_difference, lam_value, solved, variance, differences)
    return solved, variance, differences


def code_sums(
    codes: NDArray[Any], n_codes: int, slopes: Floats, weight: Floats, weighted_response: Floats
) -> tuple[Floats, Floats]:
    """Sum over the rows of each code.

    Parameters
    ----------
    codes : array of shape (n,), uint8, uint16 or uint32
    n_codes : int
    slopes, weighted_response : arrays of shape (n, width)
    weight : array of shape (n,)

    Returns
    -------
    gram : array of shape (n_codes, width, width)
        Sums of ``weight slopes slopes'``.
    rhs : array of shape (n_codes, width)
        Sums of ``slopes weighted_response``.
    """
    gram, rhs = np.zeros((n_codes, slopes.shape[1], slopes.shape[1])), np.zeros((n_codes, slopes.shape[1]))
    codes, slopes, weight, weighted_response = (
        contiguous(array) for array in (codes, slopes, weight, weighted_response)
    )
    _native.code_sums(INSTRUCTION_SETS[-1], codes, slopes, weight, weighted_response, gram, rhs)
    return gram, rhs
