"""Posterior of one linear predictor: of all functions of all columns, and the result of a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ahofm.backends import SweptPredictor
from ahofm.columns.basis import Floats
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign, MainEffects
from ahofm.kernels import BlockSums, ColumnMoments
from ahofm.model import Predictor
from ahofm.orders import MAIN, PRODUCT, Orders
from ahofm.priors.posterior import ColumnPosterior
from ahofm.priors.tensor import TensorMargin, TensorPenalty, TensorSmoothing
from ahofm.tuning import (
    MOST_SURFACE_COORDINATES,
    ROWS_PER_CELL,
)


@dataclass(frozen=True)
class StageResult:
    """One linear predictor at the end of a stage, in the units of the standardised target.

    Attributes
    ----------
    predictor : Predictor
        Of the columns that vary.
    dispersion : float
        The dispersion.
    values : tuple of arrays of shape (codes, 1 + factors)
        Means at the codes, without the smooth main effects, which the linear predictor includes.
    smoothing_parameters : tuple of pairs of arrays of shape (groups, 1) and (groups, factors)
    """

    predictor: Predictor
    dispersion: float
    values: tuple[Floats, ...]
    smoothing_parameters: tuple[tuple[Floats, Floats], ...]

    @property
    def orders(self) -> Orders:
        """Orders of the interactions, and the ranks."""
        return self.predictor.orders


Fit: TypeAlias = tuple[StageResult, ...]
"""Results of a stage, one per linear predictor."""


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Posterior at the end of a stage, from which that stage of a fit to other rows may start; of arrays alone.

    Attributes
    ----------
    ranks : dict of order to rank
    linear_predictors : tuple of dict
        Their ``Posterior.arrays``, and ``left_out`` of each column.
    centre : array of shape (m,)
        What was subtracted from the coordinates of smooth main effects: their means over the rows.
    dispersion : float
    """

    ranks: Mapping[int, int]
    linear_predictors: tuple[dict[str, Any], ...]
    centre: Floats
    dispersion: float

    @classmethod
    def of(cls, posteriors: Sequence[Posterior], centre: Floats, dispersion: float) -> WarmStart:
        """From the posteriors of all linear predictors."""
        arrays = tuple(
            {**posterior.arrays(), "left_out": [block.left_out for block in posterior.blocks]}
            for posterior in posteriors
        )
        return cls(posteriors[0].ranks, arrays, centre, dispersion)


@dataclass(frozen=True)
class Posterior:
    """Posterior of one linear predictor; a stage that fails is undone by going back to it.

    Attributes
    ----------
    intercept : float
    smooth : MainEffects
        Smooth main effects of all columns.
    blocks : tuple of ColumnPosterior
        One per column.
    ranks : dict of order to rank
    tensor_smoothing : TensorSmoothing or None
        Smoothing parameters of pairs, where they have tensor product penalties.
    loadings : array of shape (rank of product factors,)
        Of product factors, whose functions have a root mean square of one.
    """

    intercept: float
    smooth: MainEffects
    blocks: tuple[ColumnPosterior, ...]
    ranks: Mapping[int, int]
    tensor_smoothing: TensorSmoothing | None = None
    loadings: Floats = field(default_factory=lambda: np.zeros(0))

    def stage_result(self, additive: AdditiveDesign, dispersion: float) -> StageResult | None:
        """The stage's result; None unless every column has been solved with all its factors.

        Without factors a column that has not been solved has its smooth main effect alone.
        """
        orders = Orders(self.ranks)
        columns = []
        for block in self.blocks:
            if (0 if block.factors is None else block.factors.mean.shape[1]) != orders.n_factors:
                return None
            columns.append(block.column.coefficients(block.main, block.factors))
        mains = additive.coefficients(self.smooth.coef, [block.column.book for block in self.blocks])
        for (coef, centring), (smooth, constant) in zip(columns, mains, strict=True):
            coef[:, MAIN] += smooth
            centring[MAIN] += constant
        arguments = orders, self.intercept, [coef for coef, _ in columns], [centring for _, centring in columns]
        predictor = Predictor.of(*arguments)
        if PRODUCT in orders:
            means = np.array([block.constants for block in self.blocks])
            predictor = Predictor.of_products(*arguments, self.loadings, means)
        return StageResult(
            predictor,
            dispersion,
            tuple(block.mean for block in self.blocks),
            tuple((block.main_lam, self._lam(j)) for j, block in enumerate(self.blocks)),
        )

    def arrays(self) -> dict[str, Any]:
        """What a sweeper changes: see ``ahofm.backends.SweepArrays``."""
        tensor_smoothing = self.tensor_smoothing
        return {
            "columns": [block.arrays() for block in self.blocks],
            "coef": self.smooth.coef.copy(),
            "lam": self.smooth.lam.copy(),
            "intercept": self.intercept,
            "trace": self.smooth.trace,
            "margin_lam": None if tensor_smoothing is None else tensor_smoothing.margin_lam.copy(),
            "null_lam": None if tensor_smoothing is None else tensor_smoothing.null_lam.copy(),
            "edf": 0.0 if tensor_smoothing is None else tensor_smoothing.edf,
            "age": 0 if tensor_smoothing is None else tensor_smoothing.age,
            "loadings": self.loadings.copy(),
        }

    def warm_start(self, start: WarmStart, k: int, centre: Floats) -> Posterior:
        """The posterior of linear predictor k in a fit to other rows; ``centre`` (m,) is that of these rows' design."""
        given = start.linear_predictors[k]
        columns = zip(self.blocks, given["columns"], given["left_out"], strict=True)
        margin_lam, null_lam, edf, age = (given[name] for name in ("margin_lam", "null_lam", "edf", "age"))
        return replace(
            self,
            intercept=given["intercept"] + float((centre - start.centre) @ given["coef"]),
            smooth=MainEffects(given["coef"], given["lam"], given["trace"]),
            blocks=tuple(replace(block, left_out=out).with_arrays(one, one["solved"]) for block, one, out in columns),
            ranks=start.ranks,
            tensor_smoothing=None if margin_lam is None else TensorSmoothing(margin_lam, null_lam, edf, age),
            loadings=given["loadings"],
        )

    def with_arrays(self, arrays: Mapping[str, Any], scalars: SweptPredictor) -> Posterior:
        """The posterior with the arrays and scalars of a sweeper."""
        columns = zip(self.blocks, arrays["columns"], scalars.solved, strict=True)
        blocks = tuple(block.with_arrays(column_arrays, solved) for block, column_arrays, solved in columns)
        tensor_smoothing = self.tensor_smoothing
        if tensor_smoothing is not None:
            lam = {name: arrays[name] for name in ("margin_lam", "null_lam")}
            tensor_smoothing = replace(tensor_smoothing, **lam, edf=scalars.edf, age=scalars.age)
        smooth = MainEffects(arrays["coef"], arrays["lam"], scalars.trace)
        return replace(
            self,
            intercept=scalars.intercept,
            smooth=smooth,
            blocks=blocks,
            tensor_smoothing=tensor_smoothing,
            loadings=arrays["loadings"],
        )

    def _lam(self, j: int) -> Floats:
        """Smoothing parameters of a column's factors; for pairs, geometric means over its tensor products."""
        lam = self.blocks[j].lam
        if self.tensor_smoothing is None:
            return lam
        lam, pairs = lam.copy(), Orders(self.ranks).factor_slices[2]
        lam[0, pairs], lam[1:, pairs] = self.tensor_smoothing.geometric_means(j)
        return lam


class LinearPredictor:
    """A posterior that changes from solve to solve."""

    def __init__(self, posterior: Posterior) -> None:
        """At a posterior; ``tempering`` multiplies the variances in the moments of a column."""
        self.posterior = posterior
        self.blocks = list(posterior.blocks)
        self.tempering = 0.0
        self._solved_margins: dict[int, tuple[ColumnPosterior, TensorMargin]] = {}

    @property
    def largest_value(self) -> float:
        """The largest value of any function."""
        return max((float(np.abs(block.mean).max()) for block in self.blocks), default=0.0)

    def frozen(self) -> Posterior:
        """The present posterior, immutable."""
        return replace(self.posterior, blocks=tuple(self.blocks))

    def warm_start(self, start: WarmStart, k: int, centre: Floats) -> None:
        """Continue from the posterior of linear predictor k in a fit to other rows."""
        self.posterior = self.frozen().warm_start(start, k, centre)
        self.blocks, self._solved_margins = list(self.posterior.blocks), {}

    def add_factors(self, order: int, start: Sequence[Floats], left_out: NDArray[np.bool_] | None = None) -> None:
        """Add factors of an order, the highest there is or the next, with those values.

        ``left_out`` (columns, rank): in which of them a column has no function.
        """
        rows: Sequence[Any] = [None] * len(start) if left_out is None else list(left_out)
        columns = zip(self.blocks, start, rows, strict=True)
        self.blocks = [block.with_factors(values, left_out=out) for block, values, out in columns]
        rank = self.posterior.ranks.get(order, 0) + start[0].shape[1]
        self.posterior = replace(self.posterior, ranks={**self.posterior.ranks, order: rank})

    def add_products(
        self,
        start: Sequence[Floats],
        constants: Floats,
        loadings: Floats,
        left_out: NDArray[np.bool_] | None = None,
    ) -> None:
        """Add product factors with functions ``start + constants``: (codes, rank) and (columns, rank)."""
        rows: Sequence[Any] = [None] * len(start) if left_out is None else list(left_out)
        columns = zip(self.blocks, start, constants, rows, strict=True)
        self.blocks = [block.with_factors(values, constant, out) for block, values, constant, out in columns]
        ranks = {**self.posterior.ranks, PRODUCT: self.posterior.ranks.get(PRODUCT, 0) + len(loadings)}
        both = np.concatenate([self.posterior.loadings, loadings])
        self.posterior = replace(self.posterior, ranks=ranks, loadings=both)

    def rescale_products(self) -> bool:
        """Scale functions of product factors to root mean square 1, loadings by the inverse; whether there are any.

        It is not identified: what multiplies one function and divides another changes nothing. A factor that the rows
        do not support loses a part of its loading in every sweep.
        """
        if not len(self.posterior.loadings):
            return False
        scales = np.array([block.product_scale for block in self.blocks])
        self.blocks = [block.rescaled(scale) for block, scale in zip(self.blocks, scales, strict=True)]
        self.posterior = replace(self.posterior, loadings=self.posterior.loadings * scales.prod(axis=0))
        return True

    def begin_tensor_smoothing(self, information: float, n_rows: float) -> None:
        """Give pairs tensor-product smoothing parameters, where rows per cell suffice."""
        if len(self.blocks) > 1 and all(block.has_margins for block in self.blocks):
            cells = prod(sorted(block.n_levels for block in self.blocks)[-2:])
            if (
                cells * ROWS_PER_CELL <= n_rows
                and sum(block.n_coordinates for block in self.blocks) <= MOST_SURFACE_COORDINATES
            ):
                self.posterior = replace(
                    self.posterior, tensor_smoothing=TensorSmoothing.start(self._margins(), information, n_rows)
                )

    def update_tensor_smoothing(self, information: float) -> None:
        """One Fellner–Schall step for the smoothing parameters of pairs, where they have tensor product penalties."""
        if self.posterior.tensor_smoothing is not None:
            self.posterior = replace(
                self.posterior, tensor_smoothing=self.posterior.tensor_smoothing.updated(self._margins(), information)
            )

    def tensor_penalty(self, j: int) -> TensorPenalty | None:
        """Tensor-product penalty of a column's factors, given its partners."""
        return (
            None
            if self.posterior.tensor_smoothing is None
            else self.posterior.tensor_smoothing.tensor_penalty(self._margins(), j)
        )

    def variance_trace(self, dispersion: float, total: float) -> float:
        """Trace of the variance of smooth main effects and tensor products over all rows."""
        smoothing = self.posterior.tensor_smoothing
        tensor_trace = 0.0 if smoothing is None else smoothing.variance_trace(dispersion, total)
        return self.posterior.smooth.trace + tensor_trace

    def _margins(self) -> list[TensorMargin]:
        """Margins of all columns; those of columns that have not been solved since are kept."""
        rank = self.posterior.ranks[2]
        for j, block in enumerate(self.blocks):
            if j not in self._solved_margins or self._solved_margins[j][0] is not block:
                self._solved_margins[j] = block, block.margin(rank)
        return [self._solved_margins[j][1] for j in range(len(self.blocks))]

    def set_main_effects(self, intercept: float, smooth: MainEffects) -> None:
        """Replace intercept and smooth main effects."""
        self.posterior = replace(self.posterior, intercept=intercept, smooth=smooth)

    def moments(self, j: int) -> ColumnMoments:
        """Means and tempered variances of a column's functions."""
        return ColumnMoments(j, self.blocks[j].mean, self.tempering * self.blocks[j].variance)

    def solve(self, j: int, sums: BlockSums, dispersion: float, *, update_lam: bool, damping: float = 0.0) -> None:
        """Solve a column's block given its sums over rows."""
        ranks, tensor_penalty = list(self.posterior.ranks.values()), self.tensor_penalty(j)
        self.blocks[j] = self.blocks[j].solved(
            sums, dispersion, ranks, update_lam=update_lam, damping=damping, tensor_penalty=tensor_penalty
        )
