"""The compiled evaluation of curves, in float64, on threads. Rows are independent, so that threads change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ahofm import _native
from ahofm.columns.basis import Floats
from ahofm.kernels.curves import Curves, LevelCurves, NumberCurves, check_columns, check_predictors
from ahofm.kernels.native import INSTRUCTION_SETS, contiguous
from ahofm.orders import PRODUCT
from ahofm.threads import thread_count

BLOCK_ROWS = 16_384
"""Rows of one call of the compiled module: milliseconds of work against microseconds of checks."""

_Place: TypeAlias = tuple[Floats, Floats, Floats, int, float, float] | int
_Products: TypeAlias = tuple[Floats, Floats, Floats]
_LinearPredictor: TypeAlias = tuple[float, Floats, list[tuple[int, Floats, Floats, _Products | None]]]


@dataclass(frozen=True)
class NativeCurves:
    """C++. Make one and keep it: the first call lays the functions out as the compiled code reads them.

    Parameters
    ----------
    linear_predictors : sequence of Curves
        All of the same columns.
    instruction_set : str, optional
        One of ``INSTRUCTION_SETS``; the best by default.
    """

    linear_predictors: tuple[Curves, ...]
    instruction_set: str = INSTRUCTION_SETS[-1]

    def __post_init__(self) -> None:
        """Refuse what does not fit together or does not exist."""
        object.__setattr__(self, "linear_predictors", check_predictors(self.linear_predictors))
        if self.instruction_set not in INSTRUCTION_SETS:
            raise ValueError(f"instruction_set must be one of {INSTRUCTION_SETS}, got {self.instruction_set!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        """The layout is made again where it is needed."""
        return NativeCurves, (self.linear_predictors, self.instruction_set)

    def eta(self, columns: Sequence[NDArray[Any]], n_threads: int | None = None) -> Floats:
        """Linear predictors of each row, (n, linear predictors).

        Parameters
        ----------
        columns : sequence of arrays of shape (n,)
            As ``ahofm.columns.Codebook.places`` gives them: numbers with NaN where missing (columns of a row-major
            matrix are read in place), codes of levels.
        n_threads : int, optional
            All cores by default.
        """
        return self._run(columns, self._layout[1], (len(self.linear_predictors),), n_threads)

    def contributions(self, columns: Sequence[NDArray[Any]], n_threads: int | None = None) -> Floats:
        """What each column has in the linear predictors, (n, linear predictors, columns).

        Its main effect, and of every term of several columns an equal part: from a factor of order d its function times
        e_{d-1} of the other columns, times the loading over d. Of a product factor all terms count, also those of one
        column: an integral of a polynomial of degree p - 1, for which ceil(p / 2) Gauss-Legendre nodes are exact.

        Parameters
        ----------
        columns : sequence of arrays of shape (n,)
        n_threads : int, optional
            All cores by default.
        """
        linear_predictors = [
            (intercept, main, [(d, panels, w if d == PRODUCT else w / d, rest) for d, panels, w, rest in groups])
            for intercept, main, groups in self._layout[1]
        ]
        return self._run(columns, linear_predictors, (len(linear_predictors), len(columns)), n_threads)

    def _run(
        self,
        columns: Sequence[NDArray[Any]],
        linear_predictors: list[_LinearPredictor],
        shape: tuple[int, ...],
        n_threads: int | None,
    ) -> Floats:
        if n_threads is not None and n_threads < 1:
            raise ValueError(f"n_threads must be at least 1, got {n_threads}")
        checked = check_columns(self.linear_predictors[0], columns)
        places = self._layout[0]
        codes = [isinstance(place, int) for place in places]
        arrays = [contiguous(a) if is_code else a for a, is_code in zip(checked, codes, strict=True)]
        n = len(arrays[0])
        out = np.empty((n, *shape))

        def run(start: int) -> None:
            rows = slice(start, start + BLOCK_ROWS)
            _native.curves(
                self.instruction_set, [array[rows] for array in arrays], places, linear_predictors, out[rows]
            )

        starts = range(0, n, BLOCK_ROWS)
        count = min(thread_count(n_threads), len(starts))
        if count <= 1:
            for start in starts:
                run(start)
        else:
            with ThreadPoolExecutor(count) as pool:
                list(pool.map(run, starts))
        return out

    @cached_property
    def _layout(self) -> tuple[list[_Place], list[_LinearPredictor]]:
        """Where values find their table rows, and the tables: the main effect, and panels of factors of each order."""
        places = [_place(column) for column in self.linear_predictors[0].columns]
        linear_predictors: list[_LinearPredictor] = []
        shared: dict[int, tuple[Floats, Floats]] = {}  # by order: factors of a linear predictor, often of the next, too
        for curves in self.linear_predictors:
            main, factors = curves.orders.split(np.concatenate([_table(column) for column in curves.columns]))
            for order, lanes in factors.items():
                if order not in shared or not np.array_equal(shared[order][0], lanes):
                    shared[order] = lanes, _panels(lanes)
            panels = [(order, shared[order][1]) for order in factors]
            groups = [
                (
                    order,
                    lanes,
                    _lanes(curves.loadings[order], len(lanes)),
                    _products(curves) if order == PRODUCT else None,
                )
                for order, lanes in panels
            ]
            linear_predictors.append((float(curves.intercept), contiguous(main), groups))
        return places, linear_predictors


def _products(curves: Curves) -> _Products:
    """Means of product functions in panels (panels, columns, lanes); nodes and weights of integrals over (0, 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(-(-len(curves.columns) // 2))
    return _panels(curves.product_means), 0.5 * (nodes + 1.0), 0.5 * weights


def _place(column: NumberCurves | LevelCurves) -> _Place:
    if isinstance(column, LevelCurves):
        return len(column.values)
    breaks, scales, shifts = (contiguous(a, np.float64) for a in (column.breaks, column.scales, column.shifts))
    if column.period is None:
        return breaks, scales, shifts, column.degree, 0.0, 0.0
    return breaks, scales, shifts, column.degree, float(np.mod(column.start, column.period)), float(column.period)


def _table(column: NumberCurves | LevelCurves) -> Floats:
    """Rows of a column: its codes, or the powers of each piece; the piece after the last holds the missing value."""
    if isinstance(column, LevelCurves):
        return np.asarray(column.values, dtype=np.float64)
    missing = np.zeros((1, *column.values.shape[1:]))
    missing[0, 0] = column.missing
    return np.concatenate([column.values, missing]).reshape(-1, column.width)


def _panels(table: Floats) -> Floats:
    """Factors in panels of a few lanes, padded with zeros: (panels, rows, lanes); a row of one fills a cache line."""
    lanes = _native.CURVE_LANES
    rows, rank = table.shape
    count = -(-rank // lanes)
    panels = _aligned_zeros(count * rows * lanes).reshape(count, rows, lanes)
    for q in range(count):
        part = table[:, q * lanes : (q + 1) * lanes]
        panels[q, :, : part.shape[1]] = part
    return panels


def _lanes(weights: Floats, count: int) -> Floats:
    """One weight per lane of so many panels, padded with zeros."""
    out = np.zeros(count * _native.CURVE_LANES)
    out[: len(weights)] = weights
    return out.reshape(count, _native.CURVE_LANES)


def _aligned_zeros(size: int, line: int = 64) -> Floats:
    memory = np.zeros(size * 8 + line, dtype=np.uint8)
    start = -memory.ctypes.data % line
    return memory[start : start + size * 8].view(np.float64)
