"""The column itself: factorization machines, columns with two values, and columns with one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ahofm.columns.basis import BasisOutside, Floats, Outside, Penalty, Sparse, basis_outside, ridge_penalty
from ahofm.columns.kind import NumericKind, Support, check_outside
from ahofm.columns.piecewise import Pieces, exponent_of_width, scale_of_exponent


@dataclass(frozen=True)
class Linear(NumericKind):
    """The function x, and no constant. All columns linear: the model is a (higher-order) factorization machine.

    Parameters
    ----------
    outside : "auto", "clamp" or "linear"
        Outside the training range: "clamp" is the value at the border, "linear" is x as it is. "auto" is
        "clamp", except that a main effect that is a line in training goes on as one.
    max_codes : int, optional
        Overrides the table's ``max_codes`` for this column.

    Examples
    --------
    >>> import numpy as np
    >>> from ahofm import AHOFMRegressor, Linear
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=200)
    >>> machine = AHOFMRegressor(order=2, columns=Linear(), random_state=0).fit(X, y)  # a factorization machine
    >>> machine.predict([[1.0, 2.0]]).round(1)
    array([2.])
    """

    outside: Outside = "auto"
    max_codes: int | None = None

    def validate(self) -> None:
        """Raise ValueError when a setting makes no sense."""
        super().validate()
        check_outside(self, self.outside)

    def learn(self, support: Support) -> LinearBasis:
        """Remember the range."""
        return LinearBasis(support.low, support.high, basis_outside(self.outside))


@dataclass(frozen=True)
class LinearBasis:
    """One function: x."""

    low: float
    high: float
    outside: BasisOutside

    @property
    def size(self) -> int:
        """Number of functions."""
        return 1

    @property
    def penalties(self) -> tuple[Penalty, ...]:
        """A ridge."""
        return (ridge_penalty(1),)

    @property
    def constant(self) -> None:
        """A line through the origin is never the constant."""
        return

    @property
    def null_space(self) -> Floats:
        """Empty: the ridge penalises all."""
        return np.zeros((1, 0))

    def evaluate(self, x: NDArray[Any]) -> Sparse:
        """x as a column."""
        x = np.asarray(x, dtype=np.float64)
        return sp.csr_array((np.clip(x, self.low, self.high) if self.outside == "clamp" else x)[:, np.newaxis])

    def pieces(self) -> Pieces:
        """x in units of a power of two, so that nothing is rounded."""
        scale = scale_of_exponent(exponent_of_width(0.0, np.maximum(abs(self.low), abs(self.high))))
        line = (sp.csr_array([[0.0]]), sp.csr_array([[1.0 / float(scale)]]))
        if self.outside == "linear":
            return Pieces(np.empty(0), np.array([scale]), np.zeros(1), line)
        value = sp.csr_array([[self.low], [0.0], [self.high]])
        slope = sp.csr_array([[0.0], [1.0 / float(scale)], [0.0]])
        return Pieces(np.array([self.low, self.high]), np.array([0.0, scale, 0.0]), np.zeros(3), (value, slope))


@dataclass(frozen=True)
class EmptyBasis:
    """No function at all: what a constant column has."""

    @property
    def size(self) -> int:
        """Number of functions."""
        return 0

    @property
    def penalties(self) -> tuple[Penalty, ...]:
        """None."""
        return ()

    @property
    def constant(self) -> None:
        """Not in the span."""
        return

    @property
    def null_space(self) -> Floats:
        """Empty."""
        return np.zeros((0, 0))

    def evaluate(self, x: NDArray[Any]) -> Sparse:
        """Rows without entries."""
        return sp.csr_array((len(x), 0))

    def pieces(self) -> None:
        """The column may hold numbers or levels; its code says all."""
        return
