"""Functions of one of several linear predictors that share their factors, as a view: no copy of these is kept for each.

An array of a column holds the main effects of all K linear predictors, then the factors that they share, in its last
axis. Functions of linear predictor k are its main effect and the factors, put together when they are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from ahofm.columns.basis import Floats


@dataclass(frozen=True)
class FunctionsView(Sequence[Floats]):
    """Arrays (..., 1 + factors) of all columns, of one linear predictor.

    Attributes
    ----------
    arrays : tuple of arrays of shape (..., K + factors)
        One per column: the same tuple for all linear predictors that share it.
    k : int
        Number of the linear predictor.
    n_main : int
        Number K of linear predictors.
    """

    arrays: tuple[Floats, ...]
    k: int
    n_main: int

    def __len__(self) -> int:
        """Number of columns."""
        return len(self.arrays)

    @overload
    def __getitem__(self, j: int) -> Floats: ...

    @overload
    def __getitem__(self, j: slice) -> tuple[Floats, ...]: ...

    def __getitem__(self, j: int | slice) -> Floats | tuple[Floats, ...]:
        """Functions of a column, its main effect first: a new array."""
        if isinstance(j, slice):
            return tuple(self)[j]
        array, n = self.arrays[j], self.n_main
        return np.concatenate([array[..., self.k : self.k + 1], array[..., n:]], axis=-1)

    def shape(self, j: int) -> tuple[int, ...]:
        """Shape of a column's array, without putting it together."""
        shape = self.arrays[j].shape
        return (*shape[:-1], 1 + shape[-1] - self.n_main)


def shape_of(functions: Sequence[Floats], j: int) -> tuple[int, ...]:
    """Shape of a column's functions."""
    return functions.shape(j) if isinstance(functions, FunctionsView) else np.shape(functions[j])
