"""A spline plus an independent effect per value: numeric columns with ties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ahofm.columns.basis import Floats, Outside, Penalty, Sparse, pad_penalty, ridge_penalty
from ahofm.columns.kind import NumericKind, Support
from ahofm.columns.piecewise import Pieces
from ahofm.columns.random_walk import hat_functions, hat_pieces
from ahofm.columns.spline import Spline, SplineBasis, knots_as_tuple


@dataclass(frozen=True)
class SplineIID(NumericKind):
    """A spline plus an independent effect per value: the effects are shrunk by a ridge.

    Between codes the effects are interpolated.

    Parameters
    ----------
    n_basis, degree, penalty_order, knots, outside, max_codes
        As for ``Spline``.

    Examples
    --------
    >>> import numpy as np
    >>> from ahofm import AHOFMRegressor, SplineIID
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 10, size=(300, 1))
    >>> y = 0.1 * X[:, 0] + (X[:, 0] == 7) + 0.05 * rng.normal(size=300)
    >>> model = AHOFMRegressor(order=1, columns={0: SplineIID()}, random_state=0).fit(X, y)
    >>> model.predict([[6], [7], [8]]).round(1)  # a line, and one value of its own
    array([0.6, 1.7, 0.8])
    """

    n_basis: int | None = None
    degree: int = 3
    penalty_order: int = 2
    knots: Literal["quantile", "uniform"] | tuple[float, ...] = "quantile"
    outside: Outside = "auto"
    max_codes: int | None = None

    def __post_init__(self) -> None:
        """Keep given knots as a tuple, so that kinds stay comparable and hashable."""
        if not isinstance(self.knots, str):
            object.__setattr__(self, "knots", knots_as_tuple(self.knots))

    @property
    def smooth(self) -> Spline:
        """The kind of the smooth part."""
        return Spline(self.n_basis, self.degree, self.penalty_order, self.knots, self.outside, self.max_codes)

    def validate(self) -> None:
        """Raise ValueError when a setting makes no sense."""
        self.smooth.validate()

    def learn(self, support: Support) -> SplineIIDBasis:
        """A spline on the support, and a level at every code."""
        return SplineIIDBasis(self.smooth.learn(support), np.asarray(support.values, dtype=np.float64))


@dataclass(frozen=True)
class SplineIIDBasis:
    """The functions of the spline first, then one hat per level."""

    smooth: SplineBasis
    levels: Floats

    @property
    def size(self) -> int:
        """Number of functions."""
        return self.smooth.size + len(self.levels)

    @property
    def penalties(self) -> tuple[Penalty, ...]:
        """The spline's differences, and a ridge on the levels."""
        smooth = tuple(pad_penalty(penalty, 0, len(self.levels)) for penalty in self.smooth.penalties)
        return (*smooth, pad_penalty(ridge_penalty(len(self.levels)), self.smooth.size, 0))

    @property
    def constant(self) -> Floats:
        """The spline's, without the levels."""
        return np.concatenate([self.smooth.constant, np.zeros(len(self.levels))])

    @property
    def null_space(self) -> Floats:
        """The spline's, without the levels."""
        free = self.smooth.null_space
        return np.vstack([free, np.zeros((len(self.levels), free.shape[1]))])

    def evaluate(self, x: NDArray[Any]) -> Sparse:
        """Functions at ``x``; outside the range a level effect stays that of the border."""
        x = np.asarray(x, dtype=np.float64)
        return sp.csr_array(sp.hstack([self.smooth.evaluate(x), hat_functions(self.levels, x, "clamp")], format="csr"))

    def pieces(self) -> Pieces:
        """Between the knots of both parts."""
        return self.smooth.pieces().beside(hat_pieces(self.levels, "clamp"))
