"""First-order random walk: a linear spline with a knot at every code. For rough columns, coordinates, main effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ahofm.columns.basis import (
    BasisOutside,
    Floats,
    Outside,
    Penalty,
    Sparse,
    basis_outside,
    difference_penalty,
    fraction,
    ridge_penalty,
)
from ahofm.columns.kind import NumericKind, Support, check_outside
from ahofm.columns.piecewise import Pieces, exponent_of_width, scale_of_exponent


@dataclass(frozen=True)
class RandomWalk(NumericKind):
    """First-order random walk: a value per code, joined by lines; first differences and values are penalised.

    Parameters
    ----------
    outside : "auto", "clamp" or "linear"
        Outside the training range: "clamp" is the value at the border, "linear" the line of the last two codes. "auto"
        is "clamp", except that a main effect that is a line in training goes on as one.
    max_codes : int, optional
        Overrides the table's ``max_codes`` for this column.

    Examples
    --------
    >>> import numpy as np
    >>> from ahofm import AHOFMRegressor, RandomWalk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 10, size=(300, 1))
    >>> y = (X[:, 0] > 4) + 0.1 * rng.normal(size=300)
    >>> model = AHOFMRegressor(order=1, columns={0: RandomWalk()}, random_state=0).fit(X, y)
    >>> model.predict([[4], [5]]).round(1)  # a jump stays a jump
    array([0., 1.])
    """

    outside: Outside = "auto"
    max_codes: int | None = None

    def validate(self) -> None:
        """Raise ValueError when a setting makes no sense."""
        super().validate()
        check_outside(self, self.outside)

    def learn(self, support: Support) -> RandomWalkBasis:
        """A knot at every code."""
        return RandomWalkBasis(np.asarray(support.values, dtype=np.float64), basis_outside(self.outside))


def hat_functions(knots: Floats, x: Floats, outside: BasisOutside) -> Sparse:
    """Linear interpolation between knots as a matrix: two weights per row."""
    left = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    weight = fraction(x, knots[left], knots[left + 1])
    if outside == "clamp":
        weight = np.clip(weight, 0.0, 1.0)
    rows = np.repeat(np.arange(len(x)), 2)
    cells = np.column_stack([left, left + 1]).ravel()
    weights = np.column_stack([1.0 - weight, weight]).ravel()
    matrix = sp.csr_array((weights, (rows, cells)), shape=(len(x), len(knots)))
    matrix.eliminate_zeros()
    return matrix


def hat_pieces(knots: Floats, outside: BasisOutside) -> Pieces:
    """The same functions as lines between knots."""
    left, right = knots[:-1], knots[1:]
    scales = scale_of_exponent(exponent_of_width(left, right))
    slope = 1.0 / (right * scales - left * scales)
    shape = (len(left), len(knots))
    value = sp.eye_array(*shape, format="csr")
    rise = sp.diags_array([-slope, slope], offsets=[0, 1], shape=shape, format="csr")
    lines = Pieces(knots[1:-1], scales, left * scales, (value, rise))
    return lines if outside == "linear" else lines.bounded(float(knots[0]), float(knots[-1]), 0)


@dataclass(frozen=True)
class RandomWalkBasis:
    """Hat functions; on the support the basis is the identity."""

    knots: Floats
    outside: BasisOutside

    @property
    def size(self) -> int:
        """Number of functions."""
        return len(self.knots)

    @property
    def penalties(self) -> tuple[Penalty, ...]:
        """Steps between neighbours, and the values themselves."""
        return (difference_penalty(self.size, 1), ridge_penalty(self.size))

    @property
    def constant(self) -> Floats:
        """Hats sum to one."""
        return np.ones(self.size)

    @property
    def null_space(self) -> Floats:
        """Nothing is free: the ridge touches all."""
        return np.zeros((self.size, 0))

    def evaluate(self, x: NDArray[Any]) -> Sparse:
        """Functions at ``x``."""
        return hat_functions(self.knots, np.asarray(x, dtype=np.float64), self.outside)

    def pieces(self) -> Pieces:
        """A line between any two knots."""
        return hat_pieces(self.knots, self.outside)
