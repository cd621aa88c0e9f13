"""One predictor of a member: what is believed of every column's functions, and the rows' states that go with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.fit.block.additive import Additive, Smooth
from ahofm.fit.block.column import BlockColumn
from ahofm.fit.block.prior import Posterior, absent, bounded, side_by_side
from ahofm.fit.block.response import Parabolas
from ahofm.fit.block.rows import BlockRows
from ahofm.fit.block.stages import Snapshot
from ahofm.fit.block.strengths import learned
from ahofm.kernels import BlockSums, ColumnMoments

_JITTERS = (1e-9, 1e-6, 1e-3)
"""Shares of the mean diagonal added to a block's: the first, and what is tried when rounding has made it indefinite."""

_LEAST_SQUARE = 0.3
"""Strengths start no higher than those of factors with this mean square: a factor that starts small is not pruned
before the rows have had their say.
"""

_FARTHEST, _FARTHEST_RARE, _RARE = 10.0, 4.0, 5.0
"""Bounds of factors in units of their root mean square: at codes of many rows, and of fewer than five."""


class FailedError(ArithmeticError):
    """A block that no jitter makes solvable, or sums that are not finite."""


@dataclass
class Block:
    """What is believed of one column."""

    column: BlockColumn
    farthest: Floats
    mean: Floats
    variance: Floats
    main_strength: Floats
    strength: Floats
    main: Posterior | None = None
    factors: Posterior | None = None

    @classmethod
    def empty(cls, column: BlockColumn, n_rows: int, square: float) -> Block:
        """No main effect yet, but one of that mean square expected; no factors."""
        none = np.zeros((column.book.n_codes, 1))
        farthest = np.where(column.mass * n_rows < _RARE, _FARTHEST_RARE, _FARTHEST)
        strength = column.main.start(max(square, 1e-6))[:, np.newaxis]
        return cls(column, farthest, none, none, strength, np.zeros((column.factors.n_groups, 0)))

    def widened(self, start: Floats) -> Block:
        """With factors that start from those values, without uncertainty."""
        rank = start.shape[1]
        start = np.vstack([start, np.zeros((1, rank))])  # the neutral code
        square = max(float((self.column.mass @ start[:-1] ** 2).mean()), _LEAST_SQUARE)
        strength = np.tile(self.column.factors.start(square)[:, np.newaxis], rank)
        return replace(
            self,
            mean=np.hstack([self.mean, start]),
            variance=np.hstack([self.variance, np.zeros_like(start)]),
            strength=np.hstack([self.strength, strength]),
        )

    def only(self, which: NDArray[np.intp]) -> Block:
        """With some of the factors."""
        assert self.factors is not None
        columns = np.append(0, 1 + which)  # the main effect comes first
        mean, variance = (np.ascontiguousarray(part[:, columns]) for part in (self.mean, self.variance))
        factors, strength = self.factors.only(which), self.strength[:, which]
        return replace(self, mean=mean, variance=variance, factors=factors, strength=strength)

    def solved(
        self, sums: BlockSums, noise: float, ranks: Sequence[int], *, learn: bool, damping: float = 0.0
    ) -> Block:
        """After an exact solve: the main effect given the factors, then the factors given the main effect.

        ``damping`` is so many times the curvature that rows have, put in the way of changes; strengths then stay.
        """
        if not (np.isfinite(sums.gram).all() and np.isfinite(sums.rhs).all()):
            raise FailedError("sums over rows are not finite")
        for jitter in _JITTERS:
            gram, rhs = sums.gram[:-1] / noise, sums.rhs[:-1] / noise
            diagonal = np.einsum("bff->bf", gram)
            if damping:
                rhs += damping * diagonal * self.mean[:-1]
                diagonal *= 1.0 + damping
            diagonal += jitter * diagonal.mean(axis=1, keepdims=True)
            try:
                return self._solved(gram, rhs, ranks, learn=learn and not damping)
            except (ValueError, np.linalg.LinAlgError):
                continue
        raise FailedError("a block is not positive definite")

    def at_rest(self) -> Block:
        """As it was solved last: functions that never were are absent."""
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

    def _solved(self, gram: Floats, rhs: Floats, ranks: Sequence[int], *, learn: bool) -> Block:
        mean, variance = self.mean.copy(), self.variance.copy()
        own = rhs[:, :1] - np.einsum("bf,bf->b", gram[:, 0, 1:], mean[:-1, 1:])[:, np.newaxis]
        main = self.column.main.solve(gram[:, :1, :1], own, self.main_strength)
        mean[:-1, :1], variance[:-1, :1] = main.mean, main.variance
        factors = None
        if mean.shape[1] > 1:
            rest = rhs[:, 1:] - gram[:, 1:, 0] * main.mean
            factors = self.column.factors.solve(gram[:, 1:, 1:], rest, self.strength)
            if self.column.free:
                factors = bounded(factors, self.column.mass, self.farthest)
            mean[:-1, 1:], variance[:-1, 1:] = factors.mean, factors.variance
        block = replace(self, mean=mean, variance=variance, main=main, factors=factors)
        if learn:
            block.main_strength = learned(self.column.main, main, self.main_strength, [1])
        if learn and factors is not None:
            block.strength = learned(self.column.factors, factors, self.strength, ranks)
        return block


@dataclass(frozen=True)
class Belief:
    """Everything of a predictor that a failed stage takes back."""

    intercept: float
    smooth: Smooth
    blocks: tuple[Block, ...]
    ranks: Mapping[int, int]

    def snapshot(self, additive: Additive, noise: float) -> Snapshot | None:
        """The fit as it is; None unless every column has been solved with all its factors."""
        width = sum(self.ranks.values())
        parts = []
        for block in self.blocks:
            if block.main is None or (0 if block.factors is None else block.factors.mean.shape[1]) != width:
                return None
            parts.append(block.column.coefficients(block.main, block.factors))
        mains = additive.coefficients(self.smooth.coef, [block.column.book for block in self.blocks])
        for (coef, level), (smooth, constant) in zip(parts, mains, strict=True):
            coef[:, 0] += smooth
            level[0] += constant
        return Snapshot(
            dict(self.ranks),
            self.intercept,
            noise,
            tuple(coef for coef, _ in parts),
            tuple(level for _, level in parts),
            tuple(block.mean for block in self.blocks),
            tuple((block.main_strength, block.strength) for block in self.blocks),
        )


class Predictor:
    """A belief that changes, and the rows' states under it."""

    def __init__(self, belief: Belief, additive: Additive) -> None:
        """Without states."""
        self.belief = belief
        self.blocks = list(belief.blocks)
        self.own_part = additive.design @ belief.smooth.coef + belief.intercept
        self._additive = additive
        self._share = 0.0
        self._rows: BlockRows | None = None

    @property
    def rows(self) -> BlockRows:
        """States, which have been built."""
        if self._rows is None:
            raise RuntimeError("rows have no states yet")
        return self._rows

    def frozen(self) -> Belief:
        """The belief as it is."""
        return replace(self.belief, blocks=tuple(self.blocks))

    def widen(self, order: int, start: Sequence[Floats]) -> None:
        """Add factors of an order, the highest there is or the next, with those values."""
        self.blocks = [block.widened(part) for block, part in zip(self.blocks, start, strict=True)]
        rank = self.belief.ranks.get(order, 0) + start[0].shape[1]
        self.belief = replace(self.belief, ranks={**self.belief.ranks, order: rank})
        self._rows = None

    def move(self, intercept: float, smooth: Smooth) -> None:
        """Another intercept, and other smooth main effects; ``own_part`` is theirs, of all rows."""
        self.belief = replace(self.belief, intercept=intercept, smooth=smooth)
        self.own_part = self._additive.design @ smooth.coef + intercept

    def build(self, rows: BlockRows, share: float) -> None:
        """States with every column in, under a share of the variances."""
        self._rows, self._share = rows, share
        for j in range(len(self.blocks)):
            rows.put_in(self.moments(j))

    def moments(self, j: int) -> ColumnMoments:
        """What the rows are told of a column."""
        return ColumnMoments(j, self.blocks[j].mean, self._share * self.blocks[j].variance)

    def set_work(self, parabolas: Parabolas) -> None:
        """What the blocks are to explain: the target without intercept and smooth main effects."""
        self.rows.set_work(parabolas.weight, parabolas.pull - parabolas.weight * self.own_part)

    def fitted(self) -> tuple[Floats, Floats]:
        """Mean and variance of all rows."""
        mean, variance = self.rows.fitted()
        return mean + self.own_part, variance

    def sweep(self, noise: float, *, learn: bool, backwards: bool) -> None:
        """Solve one column after another, for parabolas that stay what they are."""
        waiting: ColumnMoments | None = None
        ranks, order = list(self.belief.ranks.values()), range(len(self.blocks))
        for j in reversed(order) if backwards else order:
            sums = self.rows.exchange(waiting, self.moments(j))
            self.blocks[j] = self.blocks[j].solved(sums, noise, ranks, learn=learn)
            waiting = self.moments(j)
        if waiting is not None:
            self.rows.put_in(waiting)
