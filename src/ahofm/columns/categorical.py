"""Levels without an order: text, categories, numbers that are names."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ahofm.columns.basis import Floats, Penalty, Sparse, ridge_penalty
from ahofm.columns.kind import ColumnKind, Support


@dataclass(frozen=True)
class Categorical(ColumnKind):
    """An effect per level, shrunk by a ridge. Levels not seen in training are neutral.

    All levels are kept, however many: ``max_codes`` does not apply.

    Examples
    --------
    >>> import numpy as np
    >>> from ahofm import AHOFMRegressor, Categorical
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(1, 4, size=(200, 1))  # numbers that are names
    >>> y = np.array([2.0, 1.0, -1.0])[X[:, 0] - 1] + 0.1 * rng.normal(size=200)
    >>> model = AHOFMRegressor(order=1, columns={0: Categorical()}, random_state=0).fit(X, y)
    >>> model.predict([[1], [2], [3]]).round(1)
    array([ 2.,  1., -1.])
    """

    def validate(self) -> None:
        """Nothing to set, nothing to check."""

    def learn(self, support: Support) -> CategoricalBasis:
        """A function per level."""
        return CategoricalBasis(support.values)


def find_levels(levels: NDArray[Any], values: NDArray[Any]) -> NDArray[np.int64]:
    """Position of each value among the sorted levels, -1 where it is none of them."""
    if len(levels) == 0:
        return np.full(len(values), -1)
    if levels.dtype != object:
        at = np.minimum(np.searchsorted(levels, values), len(levels) - 1)
        return np.where(levels[at] == values, at, -1).astype(np.int64)
    position = {level: k for k, level in enumerate(levels.tolist())}
    return np.fromiter(map(position.get, values.tolist(), repeat(-1)), dtype=np.int64, count=len(values))


@dataclass(frozen=True)
class CategoricalBasis:
    """Indicators of the levels."""

    levels: NDArray[Any]

    @property
    def size(self) -> int:
        """Number of functions."""
        return len(self.levels)

    @property
    def penalties(self) -> tuple[Penalty, ...]:
        """A ridge."""
        return (ridge_penalty(self.size),)

    @property
    def constant(self) -> Floats:
        """Indicators sum to one."""
        return np.ones(self.size)

    @property
    def null_space(self) -> Floats:
        """Empty: the ridge penalises all."""
        return np.zeros((self.size, 0))

    def evaluate(self, x: NDArray[Any]) -> Sparse:
        """Indicators at ``x``; a row of zeros for an unseen level."""
        at = find_levels(self.levels, x)
        seen = np.flatnonzero(at >= 0)
        return sp.csr_array((np.ones(len(seen)), (seen, at[seen])), shape=(len(x), self.size))

    def pieces(self) -> None:
        """Levels have no order, hence no pieces: their code says all."""
        return
