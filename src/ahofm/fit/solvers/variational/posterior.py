"""Posterior of one linear predictor: of all functions of all columns, with the exact solve that updates a column's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import known_codes
from ahofm.columns.basis import Floats
from ahofm.families.links import quiet
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign, MainEffects
from ahofm.fit.solvers.variational.row_states import RowStates
from ahofm.fit.solvers.variational.working import WorkingResponse
from ahofm.kernels import BlockSums, ColumnMoments
from ahofm.model import Predictor
from ahofm.orders import FACTORS, MAIN, Orders, factors_of
from ahofm.priors.base import FunctionPosterior, absent, bounded, side_by_side
from ahofm.priors.column import ColumnPriors
from ahofm.priors.fellner_schall import learned
from ahofm.priors.iid import IIDPrior
from ahofm.priors.spline import SplinePrior
from ahofm.priors.tensor import TensorMargin, TensorPenalty, TensorSmoothing
from ahofm.tuning import (
    COLUMN_JITTERS,
    FAR_VALUE,
    FARTHEST_RARE_VALUE,
    FARTHEST_VALUE,
    LEAST_START_SQUARE,
    MOST_SURFACE_COORDINATES,
    RARE_CODE_ROWS,
    ROWS_PER_CELL,
)


class FailedError(ArithmeticError):
    """A block that no jitter makes solvable, or sums that are not finite."""


@dataclass
class ColumnPosterior:
    """Posterior of one column: main effect, then factors, with their smoothing parameters.

    Attributes
    ----------
    column : ColumnPriors
    farthest : array of shape (codes,)
        Bounds of factors, in units of their root mean square.
    mean, variance : arrays of shape (codes + 1, 1 + factors)
        At the codes; the last row is the neutral code.
    main_lam, lam : arrays of shape (groups, 1) and (groups, factors)
    main, factors : FunctionPosterior or None
        None before the first solve.
    """

    column: ColumnPriors
    farthest: Floats
    mean: Floats
    variance: Floats
    main_lam: Floats
    lam: Floats
    main: FunctionPosterior | None = None
    factors: FunctionPosterior | None = None

    @classmethod
    def empty(cls, column: ColumnPriors, n_rows: int, square: float) -> ColumnPosterior:
        """No main effect yet, but one of that mean square expected; no factors."""
        none = np.zeros((column.book.n_codes, 1))
        farthest = np.where(column.mass * n_rows < RARE_CODE_ROWS, FARTHEST_RARE_VALUE, FARTHEST_VALUE)
        lam = column.main.initial_lam(max(square, 1e-6))[:, np.newaxis]
        return cls(column, farthest, none, none, lam, np.zeros((column.factors.n_groups, 0)))

    def widened(self, start: Floats) -> ColumnPosterior:
        """With factors that start from those values, without uncertainty."""
        rank = start.shape[1]
        start = np.vstack([start, np.zeros((1, rank))])  # the neutral code
        square = max(float((self.column.mass @ known_codes(start) ** 2).mean()), LEAST_START_SQUARE)
        lam = np.tile(self.column.factors.initial_lam(square)[:, np.newaxis], rank)
        return replace(
            self,
            mean=np.hstack([self.mean, start]),
            variance=np.hstack([self.variance, np.zeros_like(start)]),
            lam=np.hstack([self.lam, lam]),
        )

    def only(self, which: NDArray[np.intp]) -> ColumnPosterior:
        """With some of the factors."""
        assert self.factors is not None
        columns = np.append(MAIN, factors_of(np.arange(self.mean.shape[1]))[which])
        mean, variance = (np.ascontiguousarray(part[:, columns]) for part in (self.mean, self.variance))
        factors, lam = self.factors.only(which), self.lam[:, which]
        return replace(self, mean=mean, variance=variance, factors=factors, lam=lam)

    def solved(
        self,
        sums: BlockSums,
        noise: float,
        ranks: Sequence[int],
        *,
        learn: bool,
        damping: float = 0.0,
        tensor_penalty: TensorPenalty | None = None,
    ) -> ColumnPosterior:
        """After an exact solve: the main effect given the factors, then the factors given the main effect.

        ``damping`` is so many times the curvature that rows have, put in the way of changes; smoothing parameters then
        stay.
        """
        if not (np.isfinite(sums.gram).all() and np.isfinite(sums.rhs).all()):
            raise FailedError("sums over rows are not finite")
        for jitter in COLUMN_JITTERS:
            gram, rhs = known_codes(sums.gram) / noise, known_codes(sums.rhs) / noise
            diagonal = np.einsum("bff->bf", gram)
            if damping:
                rhs += damping * diagonal * known_codes(self.mean)
                diagonal *= 1.0 + damping
            diagonal += jitter * diagonal.mean(axis=1, keepdims=True)
            try:
                return self._solved(gram, rhs, ranks, tensor_penalty, learn=learn and not damping)
            except (ValueError, np.linalg.LinAlgError):
                continue
        raise FailedError("a block is not positive definite")

    def at_rest(self) -> ColumnPosterior:
        """As it was solved last; functions that never were solved are zero."""
        main, factors, codes, width = self.main, self.factors, len(self.mean) - 1, self.mean.shape[1]
        if main is None:
            main = absent(self.column.main, codes, 1)
        known = 1 if factors is None else 1 + factors.mean.shape[1]
        if known == width:
            return replace(self, main=main)
        new = absent(self.column.factors, codes, width - known)
        mean, variance = self.mean.copy(), self.variance.copy()
        mean[:, known:] = variance[:, known:] = 0.0
        factors = new if factors is None else side_by_side(factors, new)
        return replace(self, mean=mean, variance=variance, main=main, factors=factors)

    @property
    def has_margins(self) -> bool:
        """Whether its factors can have tensor-product penalties."""
        return isinstance(self.column.factors, (SplinePrior, IIDPrior))

    @property
    def n_levels(self) -> int:
        """Number of codes with an independent effect each."""
        return len(self.mean) - 1 if isinstance(self.column.factors, IIDPrior) else 0

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates of its margin in tensor products."""
        prior = self.column.factors
        return prior.values.shape[1] if isinstance(prior, SplinePrior) else len(self.mean) - 1

    def margin(self, rank: int) -> TensorMargin:
        """Margin of the first factors in tensor products."""
        assert isinstance(self.column.factors, (SplinePrior, IIDPrior))
        return self.column.factors.margin(factors_of(known_codes(self.mean))[:, :rank], self.column.mass)

    def _solved(
        self, gram: Floats, rhs: Floats, ranks: Sequence[int], tensor_penalty: TensorPenalty | None, *, learn: bool
    ) -> ColumnPosterior:
        mean, variance = self.mean.copy(), self.variance.copy()
        known, spread = known_codes(mean), known_codes(variance)
        others = np.einsum("bf,bf->b", gram[:, MAIN, FACTORS], known[:, FACTORS])
        own = gram[:, MAIN, MAIN, np.newaxis, np.newaxis], (rhs[:, MAIN] - others)[:, np.newaxis]
        main = self.column.main.solve(*own, self.main_lam)
        known[:, MAIN], spread[:, MAIN] = main.mean[:, 0], main.variance[:, 0]
        factors = None
        if mean.shape[1] > 1:
            rest = rhs[:, FACTORS] - gram[:, FACTORS, MAIN] * main.mean
            factors = self._factors(gram[:, FACTORS, FACTORS], rest, tensor_penalty)
            if self.column.free:
                factors = bounded(factors, self.column.mass, self.farthest)
            known[:, FACTORS], spread[:, FACTORS] = factors.mean, factors.variance
        block = replace(self, mean=mean, variance=variance, main=main, factors=factors)
        if learn:
            block.main_lam = learned(self.column.main, main, self.main_lam, [1])
        if learn and factors is not None:
            block.lam = learned(self.column.factors, factors, self.lam, ranks)
            if tensor_penalty is not None:  # the smoothing parameters of pairs are not the column's
                block.lam[:, : tensor_penalty.rank] = self.lam[:, : tensor_penalty.rank]
        return block

    def _factors(self, gram: Floats, rhs: Floats, tensor_penalty: TensorPenalty | None) -> FunctionPosterior:
        """Factors of pairs have a tensor-product penalty; as it prunes, their variances do not count for partners."""
        prior, lam = self.column.factors, self.lam
        if tensor_penalty is None or not isinstance(prior, (SplinePrior, IIDPrior)):
            return prior.solve(gram, rhs, lam)
        pairs = slice(0, tensor_penalty.rank)
        gram, lam = gram.copy(), lam.copy()
        gram[:, pairs, pairs] += self.column.mass[:, np.newaxis, np.newaxis] * tensor_penalty.all
        lam[:, pairs] = prior.bounds[0][:, np.newaxis]
        found = prior.solve(gram, rhs, lam, tensor_penalty)
        found.variance[:, pairs] = 0.0
        return found


@dataclass(frozen=True)
class StageResult:
    """One linear predictor at the end of a stage, in the units of the standardised target.

    Attributes
    ----------
    predictor : Predictor
        Of the columns that vary.
    noise : float
        The dispersion.
    values : tuple of arrays of shape (codes, 1 + factors)
        Means at the codes, without the smooth main effects, which the linear predictor includes.
    smoothing_parameters : tuple of pairs of arrays of shape (groups, 1) and (groups, factors)
    """

    predictor: Predictor
    noise: float
    values: tuple[Floats, ...]
    smoothing_parameters: tuple[tuple[Floats, Floats], ...]

    @property
    def orders(self) -> Orders:
        """Orders of the interactions, and the ranks."""
        return self.predictor.orders


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
        orders = Orders(self.ranks)
        parts = []
        for block in self.blocks:
            if block.main is None or (0 if block.factors is None else block.factors.mean.shape[1]) != orders.n_factors:
                return None
            parts.append(block.column.coefficients(block.main, block.factors))
        mains = additive.coefficients(self.smooth.coef, [block.column.book for block in self.blocks])
        for (coef, centring), (smooth, constant) in zip(parts, mains, strict=True):
            coef[:, MAIN] += smooth
            centring[MAIN] += constant
        return StageResult(
            Predictor.of(orders, self.intercept, [coef for coef, _ in parts], [centring for _, centring in parts]),
            noise,
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
        pairs = Orders(self.ranks).factor_slices[2]
        lam[0, pairs], lam[1:, pairs] = rough, plain
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
