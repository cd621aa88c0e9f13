"""Posterior of one linear predictor: of all functions of all columns, and the row states that go with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.families.links import quiet
from ahofm.fit.priors.tensor import TensorMargin, TensorPenalty, TensorSmoothing
from ahofm.fit.solvers.variational.column import ColumnPosterior
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign, MainEffects
from ahofm.fit.solvers.variational.row_states import RowStates
from ahofm.fit.solvers.variational.working import WorkingResponse
from ahofm.fit.tuning import FAR_VALUE, MOST_SURFACE_COORDINATES, ROWS_PER_CELL
from ahofm.kernels import ColumnMoments


@dataclass(frozen=True)
class StageResult:
    """One linear predictor at the end of a stage, in the units of the standardised target.

    Attributes
    ----------
    ranks : dict of order to rank
    intercept, noise : float
        ``noise`` is the dispersion.
    coef, centring : tuples of arrays of shape (functions, 1 + factors) and (1 + factors,), one per column
    values : tuple of arrays of shape (codes, 1 + factors)
        Means at the codes, without the smooth main effects, which ``coef`` and ``centring`` include.
    smoothing_parameters : tuple of pairs of arrays of shape (groups, 1) and (groups, factors)
    """

    ranks: Mapping[int, int]
    intercept: float
    noise: float
    coef: tuple[Floats, ...]
    centring: tuple[Floats, ...]
    values: tuple[Floats, ...]
    smoothing_parameters: tuple[tuple[Floats, Floats], ...]


Fit: TypeAlias = tuple[StageResult, ...]
"""All linear predictors."""


@dataclass(frozen=True)
class Posterior:
    """Posterior of one linear predictor; a stage that fails is undone by going back to it."""

    intercept: float
    smooth: MainEffects
    blocks: tuple[ColumnPosterior, ...]
    ranks: Mapping[int, int]
    surfaces: TensorSmoothing | None = None

    def stage_result(self, additive: AdditiveDesign, noise: float) -> StageResult | None:
        """The stage's result; None unless every column has been solved with all its factors."""
        width = sum(self.ranks.values())
        parts = []
        for block in self.blocks:
            if block.main is None or (0 if block.factors is None else block.factors.mean.shape[1]) != width:
                return None
            parts.append(block.column.coefficients(block.main, block.factors))
        mains = additive.coefficients(self.smooth.coef, [block.column.book for block in self.blocks])
        for (coef, centring), (smooth, constant) in zip(parts, mains, strict=True):
            coef[:, 0] += smooth
            centring[0] += constant
        return StageResult(
            dict(self.ranks),
            self.intercept,
            noise,
            tuple(coef for coef, _ in parts),
            tuple(centring for _, centring in parts),
            tuple(block.mean for block in self.blocks),
            tuple((block.main_lam, self._lam(j)) for j, block in enumerate(self.blocks)),
        )

    def _lam(self, j: int) -> Floats:
        """Smoothing parameters of a column's factors; for pairs, geometric means over its tensor products."""
        lam = self.blocks[j].lam
        if self.surfaces is None:
            return lam
        rough, plain = self.surfaces.of(j)
        lam = lam.copy()
        lam[0, : self.ranks[2]], lam[1:, : self.ranks[2]] = rough, plain
        return lam


class LinearPredictor:
    """A posterior that changes from solve to solve, and the row states under it."""

    def __init__(self, posterior: Posterior, additive: AdditiveDesign) -> None:
        """Without states."""
        self.posterior = posterior
        self.blocks = list(posterior.blocks)
        self.main_eta = additive.design @ posterior.smooth.coef + posterior.intercept
        self._additive = additive
        self._tempering = 0.0
        self._rows: RowStates | None = None
        self._solved_margins: dict[int, tuple[ColumnPosterior, TensorMargin]] = {}

    @property
    def rows(self) -> RowStates:
        """States, which have been built."""
        if self._rows is None:
            raise RuntimeError("rows have no states yet")
        return self._rows

    @property
    def largest(self) -> float:
        """The largest value of any function."""
        return max((float(np.abs(block.mean).max()) for block in self.blocks), default=0.0)

    def frozen(self) -> Posterior:
        """The posterior as it is."""
        return replace(self.posterior, blocks=tuple(self.blocks))

    def widen(self, order: int, start: Sequence[Floats]) -> None:
        """Add factors of an order, the highest there is or the next, with those values."""
        self.blocks = [block.widened(part) for block, part in zip(self.blocks, start, strict=True)]
        rank = self.posterior.ranks.get(order, 0) + start[0].shape[1]
        self.posterior = replace(self.posterior, ranks={**self.posterior.ranks, order: rank})
        self._rows = None

    def begin_surfaces(self, information: float, n_rows: float) -> None:
        """From now on pairs have smoothing parameters of their own, where that is of use."""
        if len(self.blocks) > 1 and all(block.has_margins for block in self.blocks):
            cells = prod(sorted(block.n_levels for block in self.blocks)[-2:])
            if (
                cells * ROWS_PER_CELL <= n_rows
                and sum(block.n_coordinates for block in self.blocks) <= MOST_SURFACE_COORDINATES
            ):
                self.posterior = replace(
                    self.posterior, surfaces=TensorSmoothing.start(self._margins(), information, n_rows)
                )

    def learn_surfaces(self, information: float) -> None:
        """New smoothing parameters of pairs."""
        if self.posterior.surfaces is not None:
            self.posterior = replace(
                self.posterior, surfaces=self.posterior.surfaces.learned(self._margins(), information)
            )

    def tensor_penalty(self, j: int) -> TensorPenalty | None:
        """Tensor-product penalty of a column's factors, given its partners."""
        return None if self.posterior.surfaces is None else self.posterior.surfaces.tensor_penalty(self._margins(), j)

    def variance_trace(self, noise: float, total: float) -> float:
        """Trace of the variance of smooth main effects and tensor products over all rows."""
        own = 0.0 if self.posterior.surfaces is None else self.posterior.surfaces.variance_trace(noise, total)
        return self.posterior.smooth.trace + own

    def _margins(self) -> list[TensorMargin]:
        """Margins of all columns; those of columns that have not been solved since are kept."""
        rank = self.posterior.ranks[2]
        for j, block in enumerate(self.blocks):
            if j not in self._solved_margins or self._solved_margins[j][0] is not block:
                self._solved_margins[j] = block, block.margin(rank)
        return [self._solved_margins[j][1] for j in range(len(self.blocks))]

    def move(self, intercept: float, smooth: MainEffects) -> None:
        """Another intercept, and other smooth main effects; ``main_eta`` is theirs, of all rows."""
        self.posterior = replace(self.posterior, intercept=intercept, smooth=smooth)
        self.main_eta = self._additive.design @ smooth.coef + intercept

    def build(self, rows: RowStates, tempering: float) -> None:
        """Row states with every column added; variances are multiplied by the tempering."""
        self._rows, self._tempering = rows, tempering
        for j in range(len(self.blocks)):
            rows.add_column(self.moments(j))

    def take_back(self, j: int, old: ColumnPosterior) -> None:
        """Remove a column whose solve was rejected, before its former values are added again.

        Row states are sums of products, and to remove a column is to subtract: values that were far too large leave
        nothing but rounding. The states are then built from the other columns.
        """
        reached, usual = (np.abs(block.mean).max(axis=0) for block in (self.blocks[j], old))
        if (reached <= FAR_VALUE * usual).all():
            self.rows.swap_columns(None, self.moments(j))
            return
        self.rows.clear()
        for other in range(len(self.blocks)):
            if other != j:
                self.rows.add_column(self.moments(other))

    def moments(self, j: int) -> ColumnMoments:
        """Means and tempered variances of a column's functions."""
        return ColumnMoments(j, self.blocks[j].mean, self._tempering * self.blocks[j].variance)

    def set_working_response(self, working_response: WorkingResponse) -> None:
        """Working response of the blocks: without intercept and smooth main effects."""
        with quiet():  # sums that are not finite are found where they are used
            rest = working_response.weighted_response - working_response.weight * self.main_eta
        self.rows.set_working_response(working_response.weight, rest)

    def fitted(self) -> tuple[Floats, Floats]:
        """Mean and variance of all rows."""
        mean, variance = self.rows.fitted()
        return mean + self.main_eta, variance

    def sweep(self, noise: float, *, learn: bool, backwards: bool) -> None:
        """Solve one column after another, at the same working response."""
        waiting: ColumnMoments | None = None
        ranks, order = list(self.posterior.ranks.values()), range(len(self.blocks))
        for j in reversed(order) if backwards else order:
            sums = self.rows.swap_columns(waiting, self.moments(j))
            self.blocks[j] = self.blocks[j].solved(
                sums, noise, ranks, learn=learn, tensor_penalty=self.tensor_penalty(j)
            )
            waiting = self.moments(j)
        if waiting is not None:
            self.rows.add_column(waiting)
