"""The compiled kernel. Rows in float32 (or float64 on request), sums in float64, no Python lock while it runs.

Float32 rows because tables and bins then fit the second-level cache twice as well, and a row's eta needs no more than
seven digits; sums over many rows do, and are float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ahofm import _native
from ahofm.columns.basis import Floats
from ahofm.kernels.losses import check_loss
from ahofm.kernels.protocol import Chunk, ColumnSums, Sums, Tables, check_tables

INSTRUCTION_SETS: tuple[str, ...] = tuple(_native.instruction_sets())
"""Usable on this machine, narrowest first."""


_LinearPredictor: TypeAlias = tuple[float, Floats, Floats | None, list[tuple[int, Floats, Floats, Floats | None]]]


@dataclass(frozen=True)
class NativeSettings:
    """Settings of compiled kernels.

    Parameters
    ----------
    precision : "float32" or "float64"
        Of a row's numbers. Sums are float64 in either case.
    instruction_set : str, optional
        One of ``INSTRUCTION_SETS``; the best by default.
    """

    precision: Literal["float32", "float64"] = "float32"
    instruction_set: str = INSTRUCTION_SETS[-1]

    def __post_init__(self) -> None:
        """Refuse settings that do not exist."""
        if self.precision not in ("float32", "float64"):
            raise ValueError(f"precision must be 'float32' or 'float64', got {self.precision!r}")
        if self.instruction_set not in INSTRUCTION_SETS:
            raise ValueError(f"instruction_set must be one of {INSTRUCTION_SETS}, got {self.instruction_set!r}")


@dataclass(frozen=True)
class NativeKernel(NativeSettings):
    """Compiled kernel, with the settings of :class:`NativeSettings`."""

    def eta(self, chunk: Chunk, linear_predictors: Sequence[Tables]) -> Floats:
        """Linear predictors of each row, with the offset."""
        check_tables(chunk, linear_predictors)
        out = np.empty((chunk.n_rows, len(linear_predictors)))
        _native.eta(
            *self._settings(chunk), [_given(tables, None) for tables in linear_predictors], _reals(chunk.offset), out
        )
        return out

    def value_and_gradient(self, chunk: Chunk, linear_predictors: Sequence[Tables], loss: str) -> Sums:
        """Weighted sum of a built-in loss, and its derivatives."""
        check_tables(chunk, linear_predictors)
        check_loss(loss, len(linear_predictors))
        sums = [_zeros_like(tables) for tables in linear_predictors]
        given = [_given(tables, out) for tables, out in zip(linear_predictors, sums, strict=True)]
        value, intercepts = _native.value_and_gradient(
            *self._settings(chunk), given, loss, _reals(chunk.y), _reals(chunk.weight), _reals(chunk.offset)
        )
        return Sums(value, _with_intercepts(sums, intercepts))

    def pull_back(self, chunk: Chunk, linear_predictors: Sequence[Tables], g: Floats) -> tuple[Tables, ...]:
        """Derivatives of ``sum(g * eta)`` by every table entry."""
        check_tables(chunk, linear_predictors)
        sums = [_zeros_like(tables) for tables in linear_predictors]
        given = [_given(tables, out) for tables, out in zip(linear_predictors, sums, strict=True)]
        return _with_intercepts(sums, _native.pull_back(*self._settings(chunk), given, _doubles(g)))

    def leave_one_out(self, chunk: Chunk, tables: Tables, column: int) -> Floats:
        """Derivatives u of eta by the values of one column's functions."""
        check_tables(chunk, [tables])
        u = np.empty((chunk.n_rows, tables.width))
        _native.column(*self._settings(chunk), [_given(tables, None)], column, None, None, u, None, None)
        return u

    def column_sums(self, chunk: Chunk, tables: Tables, column: int, g: Floats, h: Floats) -> ColumnSums:
        """Per-code sums of ``g u`` and ``h u u'`` for one column."""
        check_tables(chunk, [tables])
        if not 0 <= column < len(chunk.codes.sizes):
            raise ValueError(f"column {column} is out of range: there are {len(chunk.codes.sizes)}")
        size = chunk.codes.sizes[column]
        sums = ColumnSums(np.zeros((size, tables.width)), np.zeros((size, tables.width, tables.width)))
        given = [_given(tables, None)]
        _native.column(*self._settings(chunk), given, column, _doubles(g), _doubles(h), None, sums.g, sums.h)
        return sums

    def _settings(self, chunk: Chunk) -> tuple[str, bool, list[NDArray[Any]], list[int]]:
        columns = [contiguous(column) for column in chunk.codes.columns]
        return self.instruction_set, self.precision == "float64", columns, list(chunk.codes.sizes)


def contiguous(array: Any, dtype: Any = None) -> NDArray[Any]:
    """An array as the compiled module reads it. What came in a message, from a cluster, may lie at any address."""
    whole = np.ascontiguousarray(array, dtype)
    return whole if whole.flags.aligned else whole.copy()


def _doubles(array: Any) -> Floats:
    return contiguous(array, dtype=np.float64)


def _reals(array: Any) -> Any:
    """float32 and float64 go in as they are, anything else as float64."""
    if array is None:
        return None
    array = np.asarray(array)
    return contiguous(array, dtype=array.dtype if array.dtype == np.float32 else np.float64)


def _zeros_like(tables: Tables) -> Tables:
    return Tables(
        0.0, np.zeros(len(tables.main)), {order: np.zeros(np.shape(table)) for order, table in tables.factors.items()}
    )


def _given(tables: Tables, sums: Tables | None) -> _LinearPredictor:
    """A linear predictor as the compiled module takes it: values, and where their sums go."""
    factors = [
        (order, _doubles(table), _doubles(tables.loading(order)), None if sums is None else sums.factors[order])
        for order, table in tables.factors.items()
    ]
    return float(tables.intercept), _doubles(tables.main), None if sums is None else sums.main, factors


def _with_intercepts(sums: Sequence[Tables], intercepts: Sequence[float]) -> tuple[Tables, ...]:
    return tuple(Tables(value, tables.main, tables.factors) for value, tables in zip(intercepts, sums, strict=True))
