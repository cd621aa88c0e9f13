"""One member of a fit: main effects, then the pairs, then triples, each stage from where the last one ended.

Mean-field variational Bayes by column blocks. eta is affine in all functions of one column, so given what is believed
of the others, a column's posterior is one exact solve; its uncertainty then counts in the others' problems. That is
what prunes: a factor that the rows do not support has partners that are all variance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ahofm.columns import Codes
from ahofm.columns.basis import Floats
from ahofm.fit.block.additive import Additive
from ahofm.fit.block.column import BlockColumn
from ahofm.fit.block.prior import Posterior, bounded
from ahofm.fit.block.rows import BlockRows
from ahofm.fit.block.stages import Report, Schedule, Snapshot, Sweep
from ahofm.fit.block.start import random_factors, spectral_factors
from ahofm.fit.block.strengths import learned
from ahofm.kernels import BlockKernel, BlockSums, ColumnMoments
from ahofm.rows import ArraySource, Executor

_JITTERS = (1e-9, 1e-6, 1e-3)
"""Shares of the mean diagonal added to a block's: the first, and what is tried when rounding has made it indefinite."""

_LEAST_SQUARE = 0.3
"""Strengths start no higher than those of factors with this mean square: a factor that starts small is not pruned
before the rows have had their say.
"""


_FARTHEST, _FARTHEST_RARE, _RARE = 10.0, 4.0, 5.0
"""Bounds of factors in units of their root mean square: at codes of many rows, and of fewer than five."""


class _FailedError(ArithmeticError):
    """A block that no jitter makes solvable, or sums that are not finite."""


@dataclass
class _Block:
    """What is believed of one column."""

    column: BlockColumn
    farthest: Floats
    mean: Floats
    variance: Floats
    main_strength: Floats
    strength: Floats
    main: Posterior | None = None
    factors: Posterior | None = None

    def widened(self, start: Floats) -> _Block:
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

    def solved(self, sums: BlockSums, noise: float, ranks: Sequence[int], *, learn: bool) -> _Block:
        """After an exact solve: the main effect given the factors, then the factors given the main effect."""
        if not (np.isfinite(sums.gram).all() and np.isfinite(sums.rhs).all()):
            raise _FailedError("sums over rows are not finite")
        for jitter in _JITTERS:
            gram, rhs = sums.gram[:-1] / noise, sums.rhs[:-1] / noise
            diagonal = np.einsum("bff->bf", gram)
            diagonal += jitter * diagonal.mean(axis=1, keepdims=True)
            try:
                return self._solved(gram, rhs, ranks, learn=learn)
            except (ValueError, np.linalg.LinAlgError):
                continue
        raise _FailedError("a block is not positive definite")

    def _solved(self, gram: Floats, rhs: Floats, ranks: Sequence[int], *, learn: bool) -> _Block:
        mean, variance = self.mean.copy(), self.variance.copy()
        own = rhs[:, :1] - np.einsum("bf,bf->b", gram[:, 0, 1:], mean[:-1, 1:])[:, np.newaxis]
        main = self.column.main.solve(gram[:, :1, :1], own, self.main_strength)
        mean[:-1, :1], variance[:-1, :1] = main.mean, main.variance
        factors = None
        if mean.shape[1] > 1:
            rest = rhs[:, 1:] - gram[:, 1:, 0] * main.mean
            factors = self.column.factors.solve(gram[:, 1:, 1:], rest, self.strength)
            factors = bounded(factors, self.column.mass, self.farthest)
            mean[:-1, 1:], variance[:-1, 1:] = factors.mean, factors.variance
        block = replace(self, mean=mean, variance=variance, main=main, factors=factors)
        if learn:
            block.main_strength = learned(self.column.main, main, self.main_strength, [1])
        if learn and factors is not None:
            block.strength = learned(self.column.factors, factors, self.strength, ranks)
        return block


@dataclass
class Member:
    """A staged fit of one predictor to a weighted, standardised target.

    Parameters
    ----------
    columns : sequence of BlockColumn
        Those that vary.
    codes : Codes
        Of those columns.
    target, weight : arrays of shape (n,)
    additive : Additive
        Smooth main effects at the true values of the rows.
    ranks : dict of order to rank
    tempering : float or None
        Share of the partners' variance that counts: 1 is mean field, 0 takes partners as known. None: one and a half
        times the noise's standard deviation, between a quarter and one.
    rng : Generator
    reweighted : bool
        Whether factors start from randomly reweighted rows, so that another member is another one.
    """

    columns: Sequence[BlockColumn]
    codes: Codes
    target: Floats
    weight: Floats
    additive: Additive
    ranks: Mapping[int, int]
    tempering: float | None
    rng: np.random.Generator
    reweighted: bool
    kernel: BlockKernel
    executor: Executor
    schedule: Schedule = field(default_factory=Schedule)
    snapshots: list[Snapshot] = field(default_factory=list)
    settled: bool = False

    def run(self, report: Report) -> list[Snapshot]:
        """Snapshots at orders 1, 2, ...: the last of them is the fit. A stage that fails leaves the one below it."""
        self._total = float(self.weight.sum())
        self._intercept = float(np.average(self.target, weights=self.weight))
        self._smooth = self.additive.start(self.target - self._intercept)
        residual = self.target - self._intercept - self._smooth_part()
        square = float(np.average(residual**2, weights=self.weight))
        self._noise, self._share = max(square, 1e-9), 1.0
        self._orders: dict[int, int] = {}
        self._blocks = [
            _Block(
                column,
                np.where(column.mass * len(self.target) < _RARE, _FARTHEST_RARE, _FARTHEST),
                np.zeros((column.book.n_codes, 1)),
                np.zeros((column.book.n_codes, 1)),
                column.main.start(max(2.0 * square, 1e-6))[:, np.newaxis],
                np.zeros((column.factors.n_groups, 0)),
            )
            for column in self.columns
        ]
        for order in (1, *self.ranks):
            before = list(self._blocks), self._noise, self._intercept, dict(self._orders), self._smooth
            try:
                if order > 1:
                    self._add_factors(order, residual)
                residual, stopped = self._stage(order, report)
            except _FailedError:
                if not self.snapshots:
                    raise
                self._blocks, self._noise, self._intercept, self._orders, self._smooth = before
                self.snapshots.append(self.snapshots[-1])
                continue
            self.snapshots.append(self.snapshot())
            if stopped:
                break
        return self.snapshots

    def snapshot(self) -> Snapshot:
        """The fit as it is: also in the middle of a sweep, once every column has been solved."""
        widths = {1 + sum(self._orders.values())}
        parts = []
        for block in self._blocks:
            if block.main is None or {1 + (0 if block.factors is None else block.factors.mean.shape[1])} != widths:
                return self.snapshots[-1]
            parts.append(block.column.coefficients(block.main, block.factors))
        books = [block.column.book for block in self._blocks]
        mains = self.additive.coefficients(self._smooth.coef, books)
        for (coef, level), (smooth, constant) in zip(parts, mains, strict=True):
            coef[:, 0] += smooth
            level[0] += constant
        return Snapshot(
            dict(self._orders),
            self._intercept,
            self._noise,
            tuple(coef for coef, _ in parts),
            tuple(level for _, level in parts),
            tuple(block.mean for block in self._blocks),
            tuple((block.main_strength, block.strength) for block in self._blocks),
        )

    def _add_factors(self, order: int, residual: Floats) -> None:
        rank = self.ranks[order]
        if order == 2:
            weight, reweighted = self.weight, self.reweighted
            new = spectral_factors(self.columns, self.codes, residual, weight, rank, self.rng, reweighted=reweighted)
        else:
            spread = float(np.sqrt(np.average(residual**2, weights=self.weight)))
            new = random_factors(self.columns, rank, spread, self.rng)
        self._blocks = [block.widened(start) for block, start in zip(self._blocks, new, strict=True)]
        self._orders = {**self._orders, order: rank}

    def _stage(self, order: int, report: Report) -> tuple[Floats, bool]:
        """Sweep until the noise variance settles: the residual, and whether somebody asked to stop."""
        schedule = self.schedule
        highest = order == max(self.ranks, default=1)
        limit = schedule.main if order == 1 else schedule.last if highest else schedule.inner
        rows, quiet, stopped, change = None, 0, False, np.inf
        residual = self.target
        for number in range(limit):
            warm = order > 1 and number < schedule.warm
            share = 0.0 if warm else self._tempering()
            if rows is None or abs(share - self._share) > 0.02 * share or number % schedule.rebuild == 0:
                self._share = share
                rows = self._rows()
            self._sweep(rows, learn=not warm, backwards=number % 2 == 1)
            before = self._noise
            residual = self._update_noise(rows, floor=0.7 * before if warm else 0.0)
            change = abs(float(np.log(self._noise / before)))
            spread = float(np.sqrt(np.average(residual**2, weights=self.weight)))
            stopped = report(Sweep(order, number, float(np.sqrt(self._noise)), spread, change))
            quiet = quiet + 1 if change < schedule.tol else 0
            if stopped or (order > 1 and number + 1 >= schedule.fewest and quiet >= 3):
                break
        self.settled = change < schedule.tol
        return residual, stopped

    def _tempering(self) -> float:
        if self.tempering is not None:
            return self.tempering
        return float(np.clip(1.5 * np.sqrt(self._noise), 0.25, 1.0))

    def _rows(self) -> BlockRows:
        """States with every column in."""
        rows = BlockRows(ArraySource(self.codes), self.executor, self.kernel, self._orders)
        self._set_work(rows)
        for j in range(len(self._blocks)):
            rows.put_in(self._moments(j))
        return rows

    def _moments(self, j: int) -> ColumnMoments:
        return ColumnMoments(j, self._blocks[j].mean, self._share * self._blocks[j].variance)

    def _sweep(self, rows: BlockRows, *, learn: bool, backwards: bool) -> None:
        waiting: ColumnMoments | None = None
        ranks, order = list(self._orders.values()), range(len(self._blocks))
        for j in reversed(order) if backwards else order:
            sums = rows.exchange(waiting, self._moments(j))
            self._blocks[j] = self._blocks[j].solved(sums, self._noise, ranks, learn=learn)
            waiting = self._moments(j)
        if waiting is not None:
            rows.put_in(waiting)

    def _update_noise(self, rows: BlockRows, floor: float) -> Floats:
        fitted, variance = rows.fitted()
        rest = self.target - fitted
        self._intercept = float(np.average(rest - self._smooth_part(), weights=self.weight))
        self._smooth = self.additive.step(self._smooth, rest - self._intercept, self._noise)
        residual = rest - self._intercept - self._smooth_part()
        noise = (float(self.weight @ (residual**2 + variance)) + self._smooth.spread) / self._total
        if not np.isfinite(noise):
            raise _FailedError("the noise variance is not finite")
        self._noise = max(noise, floor, 1e-9)
        self._set_work(rows)
        return residual

    def _smooth_part(self) -> Floats:
        return np.asarray(self.additive.design @ self._smooth.coef)

    def _set_work(self, rows: BlockRows) -> None:
        """What the blocks explain: the target without intercept and smooth main effects."""
        rows.set_work(self.weight, self.weight * (self.target - self._intercept - self._smooth_part()))
