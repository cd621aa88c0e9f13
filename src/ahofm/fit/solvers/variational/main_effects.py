"""Smooth main effects of all columns jointly, at the true values: the start of a fit, and a step of every sweep.

Block updates change one column at a time (backfitting): with high concurvity they converge slowly, and they depend on
values through their codes only. The additive model in smooth coordinates is one small dense penalised regression, which
is solved for all columns jointly at the true values, once per sweep; block updates add random walks and interactions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from ahofm.backends import DesignRows, MainSums
from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.kernels.native_engine import LOCAL
from ahofm.priors.column import SmoothCoordinates
from ahofm.priors.fellner_schall import updated
from ahofm.tuning import (
    FEWEST_FIRST_STEPS,
    FIRST_STEPS_TOL,
    LARGEST_MAIN_LAM,
    MAIN_FIRST_STEPS,
    MOST_DESIGN_CELLS,
    MOST_MAIN_COEFFICIENTS,
    SMALLEST_MAIN_LAM,
)
from ahofm.tuning.numerics import LEAST_MAIN_DISPERSION, MAIN_JITTER


@dataclass(frozen=True)
class MainEffects:
    """Smooth main effects of all columns.

    Attributes
    ----------
    coef : array of shape (m,)
        Coefficients of the coordinates of all columns.
    lam : array of shape (groups,)
        Smoothing parameters.
    trace : float
        ``tr(gram covariance)``: sum of the variances of the effects over the rows.
    """

    coef: Floats
    lam: Floats
    trace: float


@dataclass(frozen=True)
class AdditiveDesign:
    """Smooth coordinates of the columns at some rows.

    Attributes
    ----------
    coordinates : tuple of SmoothCoordinates or None
        None for columns without, such as levels.
    rows : DesignRows
        The coordinates at the rows, centred.
    """

    coordinates: tuple[SmoothCoordinates | None, ...]
    rows: DesignRows

    @classmethod
    def of(
        cls,
        books: Sequence[Codebook],
        coordinates: Sequence[SmoothCoordinates | None],
        columns: Sequence[NDArray[Any]],
        weight: Floats,
    ) -> AdditiveDesign:
        """At raw values. Without any coordinates when there would be too many of them."""
        size = sum(smooth.values.shape[1] for smooth in coordinates if smooth is not None)
        cells = LOCAL * len(weight) * sum(smooth is not None for smooth in coordinates)
        if size > MOST_MAIN_COEFFICIENTS or cells > MOST_DESIGN_CELLS:
            coordinates = [None] * len(books)
        functions = [
            smooth.functions_at(book, column)
            for book, smooth, column in zip(books, coordinates, columns, strict=True)
            if smooth is not None
        ]
        return cls(tuple(coordinates), DesignRows.of(functions, weight))

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return self.rows.size

    @property
    def weight(self) -> Floats:
        """Weights of the rows: (n,)."""
        return self.rows.weight

    @property
    def means(self) -> Floats:
        """Means of the coordinates at the rows, which are subtracted from them: (coefficients,)."""
        centrings = [smooth.centring for smooth in self._smooths]
        return np.asarray(self.rows.centre + np.concatenate([np.zeros(0), *centrings]))

    def zero_effects(self) -> MainEffects:
        """Zero effects, with initial smoothing parameters."""
        return MainEffects(np.zeros(self.size), np.ones(len(self._counts)), 0.0)

    def initial(self, sums: MainSums, square: float, residual_squares: Callable[[Floats], float]) -> MainEffects:
        """The additive least squares fit to a centred target of mean square ``square``.

        ``residual_squares`` is the weighted sum of squared residuals with given coefficients (m,).
        """
        smooth, dispersion = self.zero_effects(), max(square, LEAST_MAIN_DISPERSION)
        for step in range(MAIN_FIRST_STEPS if self.size else 0):
            smooth = self._solved(smooth, sums.gram, sums.rhs, dispersion) or smooth
            before, dispersion = (
                dispersion,
                max((residual_squares(smooth.coef) + smooth.trace) / sums.total, LEAST_MAIN_DISPERSION),
            )
            if step >= FEWEST_FIRST_STEPS and abs(np.log(dispersion / before)) < FIRST_STEPS_TOL:
                break
        return smooth

    def step(
        self, smooth: MainEffects, sums: MainSums, dispersion: float, *, update_lam: bool = True
    ) -> tuple[float, MainEffects]:
        """Solve for an intercept and the effects; new smoothing parameters by the generalised Fellner–Schall rule.

        There is one smoothing parameter per column and group; without ``update_lam`` they are fixed.
        """
        if not self.size:
            return sums.total_response / sums.total, smooth
        solved = self._solved(smooth, sums.gram, sums.rhs, dispersion) or smooth
        smooth = solved if update_lam else replace(solved, lam=smooth.lam)
        return sums.total_response / sums.total - float(sums.middle @ smooth.coef), smooth

    def _solved(self, smooth: MainEffects, gram: Floats, right: Floats, dispersion: float) -> MainEffects | None:
        """Solution of the normal equations; None where these are numerically indefinite."""
        matrix = gram / dispersion
        diagonal = np.einsum("ii->i", matrix)
        diagonal += smooth.lam[self._group] * self._relative_penalty + MAIN_JITTER * diagonal.mean()
        factor, failed = lapack.dpotrf(matrix, lower=1, overwrite_a=1)
        if failed:
            return None
        coef, _ = lapack.dpotrs(factor, right / dispersion, lower=1)
        covariance, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        variance = np.diag(covariance)
        edf = self._counts - smooth.lam * (self._penalties @ variance)
        lam = updated(smooth.lam, edf, self._penalties @ coef**2, (SMALLEST_MAIN_LAM, self._largest_lam))
        trace = 2.0 * float((gram * covariance).sum()) - float(np.diag(gram) @ variance)
        return MainEffects(np.asarray(coef), lam, trace)

    def coefficients(self, coef: Floats, books: Sequence[Codebook]) -> list[tuple[Floats, float]]:
        """Per column the coefficients of its basis, and the centring to add."""
        out: list[tuple[Floats, float]] = []
        start = 0
        for smooth, book in zip(self.coordinates, books, strict=True):
            if smooth is None:
                out.append((np.zeros(book.size), 0.0))
                continue
            column_coef = coef[start : start + smooth.values.shape[1]]
            centre = self.rows.centre[start : start + len(column_coef)]
            out.append((smooth.to_basis @ column_coef, -float(centre @ column_coef)))
            start += len(column_coef)
        return out

    def column(self, j: int) -> tuple[SmoothCoordinates, slice] | None:
        """The coordinates of column j, and where their coefficients are; None when it has none."""
        smooth = self.coordinates[j]
        if smooth is None:
            return None
        start = sum(other.values.shape[1] for other in self.coordinates[:j] if other is not None)
        return smooth, slice(start, start + smooth.values.shape[1])

    def lam_indices(self, coefficients: slice) -> NDArray[np.intp]:
        """Indices of the smoothing parameters of some coefficients, one per group."""
        return np.unique(self._group[coefficients])

    @cached_property
    def arrays(self) -> dict[str, Any]:
        """As a sweeper reads it: the design, and which smoothing parameter each coefficient has."""
        return {
            "design": self.rows.arrays,
            "group": self._group.astype(np.float64),
            "relative_penalty": self._relative_penalty,
            "counts": self._counts,
            "largest_lam": self._largest_lam,
        }

    @cached_property
    def _smooths(self) -> list[SmoothCoordinates]:
        return [smooth for smooth in self.coordinates if smooth is not None]

    @cached_property
    def _group(self) -> NDArray[np.intp]:
        """Index of the smoothing parameter of each coefficient."""
        named = [smooth.group + 4 * k for k, smooth in enumerate(self._smooths)]
        return np.unique(np.concatenate([np.zeros(0, dtype=np.intp), *named]), return_inverse=True)[1]

    @cached_property
    def _relative_penalty(self) -> Floats:
        return np.concatenate([np.zeros(0), *(smooth.relative_penalty for smooth in self._smooths)])

    @cached_property
    def _largest_lam(self) -> float:
        return max([LARGEST_MAIN_LAM, *(smooth.largest_lam for smooth in self._smooths)])

    @cached_property
    def _counts(self) -> Floats:
        return np.bincount(self._group).astype(float)

    @cached_property
    def _penalties(self) -> Floats:
        """Relative penalties (groups, coefficients): zero outside of the group."""
        return np.where(np.arange(len(self._counts))[:, np.newaxis] == self._group, self._relative_penalty, 0.0)
