"""One column of a predictor: what is believed of its functions, and the exact solve that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.fit.priors.base import Posterior, absent, bounded, side_by_side
from ahofm.fit.priors.column import BlockColumn
from ahofm.fit.priors.iid import LevelPrior
from ahofm.fit.priors.spline import SmoothPrior
from ahofm.fit.priors.tensor import Coupling, Side
from ahofm.fit.smoothing.fellner_schall import learned
from ahofm.kernels import BlockSums

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
        self,
        sums: BlockSums,
        noise: float,
        ranks: Sequence[int],
        *,
        learn: bool,
        damping: float = 0.0,
        coupling: Coupling | None = None,
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
                return self._solved(gram, rhs, ranks, coupling, learn=learn and not damping)
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

    @property
    def has_sides(self) -> bool:
        """Whether its factors can have surfaces with strengths of their own."""
        return isinstance(self.column.factors, (SmoothPrior, LevelPrior))

    @property
    def n_levels(self) -> int:
        """Codes that have a level each."""
        return len(self.mean) - 1 if isinstance(self.column.factors, LevelPrior) else 0

    @property
    def n_coordinates(self) -> int:
        """Of one side of its surfaces."""
        prior = self.column.factors
        return prior.values.shape[1] if isinstance(prior, SmoothPrior) else len(self.mean) - 1

    def side(self, rank: int) -> Side:
        """What the first factors bring into surfaces."""
        assert isinstance(self.column.factors, (SmoothPrior, LevelPrior))
        return self.column.factors.side(self.mean[:-1, 1 : 1 + rank], self.column.mass)

    def _solved(
        self, gram: Floats, rhs: Floats, ranks: Sequence[int], coupling: Coupling | None, *, learn: bool
    ) -> Block:
        mean, variance = self.mean.copy(), self.variance.copy()
        own = rhs[:, :1] - np.einsum("bf,bf->b", gram[:, 0, 1:], mean[:-1, 1:])[:, np.newaxis]
        main = self.column.main.solve(gram[:, :1, :1], own, self.main_strength)
        mean[:-1, :1], variance[:-1, :1] = main.mean, main.variance
        factors = None
        if mean.shape[1] > 1:
            rest = rhs[:, 1:] - gram[:, 1:, 0] * main.mean
            factors = self._factors(gram[:, 1:, 1:], rest, coupling)
            if self.column.free:
                factors = bounded(factors, self.column.mass, self.farthest)
            mean[:-1, 1:], variance[:-1, 1:] = factors.mean, factors.variance
        block = replace(self, mean=mean, variance=variance, main=main, factors=factors)
        if learn:
            block.main_strength = learned(self.column.main, main, self.main_strength, [1])
        if learn and factors is not None:
            block.strength = learned(self.column.factors, factors, self.strength, ranks)
            if coupling is not None:  # the strengths of pairs are not the column's
                block.strength[:, : coupling.rank] = self.strength[:, : coupling.rank]
        return block

    def _factors(self, gram: Floats, rhs: Floats, coupling: Coupling | None) -> Posterior:
        """Those of surfaces have matrices for strengths; as these prune them, partners take them as known."""
        prior, strength = self.column.factors, self.strength
        if coupling is None or not isinstance(prior, (SmoothPrior, LevelPrior)):
            return prior.solve(gram, rhs, strength)
        pairs = slice(0, coupling.rank)
        gram, strength = gram.copy(), strength.copy()
        gram[:, pairs, pairs] += self.column.mass[:, np.newaxis, np.newaxis] * coupling.all
        strength[:, pairs] = prior.bounds[0][:, np.newaxis]
        found = prior.solve(gram, rhs, strength, coupling)
        found.variance[:, pairs] = 0.0
        return found
