"""The objective of a refinement: penalised losses of all rows as a function of one vector of coefficients.

    sum_i w_i loss_i / dispersion + u'Q u / 2 + U(u)

u are the coefficients of every function, Q the strengths. U is what the partners' uncertainty costs, half the sum of
curvature times the predictor's variance. As variances fall with the number of rows, that sum stays what it is on the
sample; it is taken from there, to second order at the sample's coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.families import Family
from ahofm.fit.objective import column_sums, loss_sums
from ahofm.fit.priors.base import Part, Posterior, bounded
from ahofm.fit.smoothing.fellner_schall import learned
from ahofm.fit.solvers.subsample.functions import Functions, functions_of, smooth_main_of, uncertainty_of
from ahofm.fit.solvers.variational.main_effects import Additive
from ahofm.fit.solvers.variational.posterior import Belief
from ahofm.kernels import BlockSums, ColumnSums, Kernel, Tables
from ahofm.rows import Executor, Source, fold

_LEARNING = 5
"""Steps of the rule for strengths at a time: they need no pass, and what is to vanish takes many."""


@dataclass(frozen=True)
class Rows:
    """Where passes go."""

    source: Source
    executor: Executor
    kernel: Kernel
    family: Family
    total: float

    def sums(self, predictors: tuple[Tables, ...]) -> tuple[float, tuple[Tables, ...]]:
        """Loss and slopes; one pass."""
        task = partial(loss_sums, predictors=predictors, kernel=self.kernel, family=self.family)
        sums = fold(task, self.source, self.executor)
        return sums.value, sums.gradient

    def curvature(self, predictors: tuple[Tables, ...], which: int, column: int) -> ColumnSums:
        """Per code of a column, sums of slopes and curvatures with derivatives; one pass."""
        task = partial(
            column_sums, predictors=predictors, kernel=self.kernel, family=self.family, which=which, column=column
        )
        return fold(task, self.source, self.executor)


class Problem:
    """Coefficients of all predictors as one vector, intercepts first."""

    def __init__(
        self,
        beliefs: Sequence[Belief],
        additive: Additive,
        rows: Rows,
        sample: Rows,
        believed: Sequence[Sequence[BlockSums]],
        noise: float,
    ) -> None:
        """Curvatures come from the sample."""
        self.rows, self.noise = rows, noise
        self.ranks = beliefs[0].ranks
        tables = tuple(tables_of(belief, additive) for belief in beliefs)
        self.ends = np.cumsum([0, *(block.column.book.n_codes for block in beliefs[0].blocks)])
        scale = rows.total / sample.total / noise
        self.functions: list[list[Functions]] = []
        self.information = np.empty(len(beliefs))
        for k, (belief, whole) in enumerate(zip(beliefs, tables, strict=True)):
            own = []
            for j, block in enumerate(belief.blocks):
                at = slice(int(self.ends[j]), int(self.ends[j + 1]) - 1)
                known = sample.curvature(tables, k, j)
                gram = scale * known.h[:-1]
                self.information[k] = float(gram[:, 0, 0].sum())
                lean, ridge = uncertainty_of(block, believed[k][j], known, noise)
                own += functions_of(block, at, gram, lean, ridge)
                own += smooth_main_of(belief, additive, j, at, gram)
            self.functions.append(own)
            for function in own:
                _add(whole, function, -function.origin)
        self.base = tables  # what no coefficient here changes
        parts = [function.part.flat() for own in self.functions for function in own]
        self.start = np.concatenate([[belief.intercept for belief in beliefs], *parts])
        sizes = [len(beliefs), *(len(part) for part in parts)]
        self.cuts = list(pairwise(np.cumsum([0, *sizes])))

    def each(self) -> list[tuple[int, Functions, slice]]:
        """Predictor, functions and where their coefficients are."""
        flat = [(k, function) for k, own in enumerate(self.functions) for function in own]
        return [(k, function, slice(a, b)) for (k, function), (a, b) in zip(flat, self.cuts[1:], strict=True)]

    def parts(self, u: Floats) -> list[Part]:
        """Coefficients of each group of functions."""
        return [function.part.like(u[at]) for _, function, at in self.each()]

    def at(self, u: Floats) -> tuple[Tables, ...]:
        """The predictors at the codes."""
        tables = [
            Tables(float(u[k]), table.main.copy(), {order: part.copy() for order, part in table.factors.items()})
            for k, table in enumerate(self.base)
        ]
        for (k, function, _), part in zip(self.each(), self.parts(u), strict=True):
            _add(tables[k], function, function.values(part))
        return tuple(tables)

    def value(self, u: Floats) -> tuple[float, list[Floats], Floats]:
        """Objective, slopes at the codes (intercepts first), and slopes by the coefficients; one pass."""
        loss, slopes = self.rows.sums(self.at(u))
        value = loss / self.noise
        at_codes = [np.array([part.intercept for part in slopes]) / self.noise]
        gradient = np.empty_like(u)
        gradient[: len(slopes)] = at_codes[0]
        for (k, function, at), part in zip(self.each(), self.parts(u), strict=True):
            cost, lean = function.uncertainty(part)
            own = _take(slopes[k], function) / self.noise + lean
            at_codes.append(own)
            gradient[at] = function.slope(own, part)
            value += function.penalty(part) + cost
        return value, at_codes, gradient

    @property
    def strengths(self) -> list[Floats]:
        """Of each group of functions."""
        return [function.strength for _, function, _ in self.each()]

    @property
    def learned(self) -> list[tuple[Floats, Floats]]:
        """Strengths and dampings of each group of functions: all that changes on the way but the coefficients."""
        return [(function.strength, function.damping) for _, function, _ in self.each()]

    def resume(self, found: Sequence[tuple[Floats, Floats]]) -> None:
        """With what was learned before."""
        pairs = zip(self.each(), found, strict=True)
        self._exchange([replace(own, strength=strength, damping=damping) for (_, own, _), (strength, damping) in pairs])

    def damp(self, u: Floats, at_codes: Sequence[Floats]) -> None:
        """Block solves that are safe for all columns at once, from the slopes at these coefficients."""
        given = zip(self.each(), self.parts(u), at_codes[1:], strict=True)
        self._exchange([function.damped(own, part) for (_, function, _), part, own in given])

    def _exchange(self, new: Sequence[Functions]) -> None:
        """Other functions, in the same order."""
        given = iter(new)
        self.functions = [[next(given) for _ in own] for own in self.functions]

    def learn(self, u: Floats, value: float, at_codes: Sequence[Floats]) -> tuple[float, Floats]:
        """New strengths; the objective and its slopes at the same coefficients, for which rows need not be asked."""
        new, parts = [], self.parts(u)
        for (_, function, _), part, own in zip(self.each(), parts, at_codes[1:], strict=True):
            value -= function.penalty(part)
            ranks = [1] if function.columns.start == 0 else list(self.ranks.values())
            new.append(function)
            for _ in range(_LEARNING if function.learns else 0):
                strength = learned(function.prior, new[-1].solved(own, part), new[-1].strength, ranks)
                new[-1] = replace(function, strength=strength)
        self._exchange(new)
        gradient = np.empty_like(u)
        gradient[: len(self.functions)] = at_codes[0]
        for (_, function, at), part, own in zip(self.each(), parts, at_codes[1:], strict=True):
            gradient[at] = function.slope(own, part)
            value += function.penalty(part)
        return value, gradient

    def inverse(self, at_codes: Sequence[Floats], u: Floats) -> Floats:
        """The block solves of slopes in their two parts."""
        out = np.empty_like(u)
        out[: len(self.information)] = at_codes[0] / self.information
        parts = zip(self.each(), self.parts(u), at_codes[1:], strict=True)
        for (_, function, at), part, own in parts:
            out[at] = function.inverse(own, part)
        return out


def tables_of(belief: Belief, additive: Additive) -> Tables:
    """A predictor at the codes of all columns."""
    snapshot = belief.snapshot(additive, 1.0)
    assert snapshot is not None
    parts = []
    for block, coef, level in zip(belief.blocks, snapshot.coef, snapshot.level, strict=True):
        values = np.asarray(block.column.book.basis @ coef)
        values[:-1] += level
        parts.append(values)
    stacked = np.vstack(parts)
    ends = np.cumsum([1, *belief.ranks.values()])
    factors = {d: np.ascontiguousarray(stacked[:, a:b]) for d, (a, b) in zip(belief.ranks, pairwise(ends), strict=True)}
    return Tables(belief.intercept, stacked[:, 0].copy(), factors)


def _take(tables: Tables, function: Functions) -> Floats:
    if function.columns.start == 0:
        return np.asarray(tables.main[function.rows, np.newaxis])
    return np.hstack([table[function.rows] for table in tables.factors.values()])


def _add(tables: Tables, function: Functions, values: Floats) -> None:
    if function.columns.start == 0:
        tables.main[function.rows] += values[:, 0]
        return
    at = 0
    for table in tables.factors.values():
        table[function.rows] += values[:, at : at + table.shape[1]]
        at += table.shape[1]


def beliefs_of(beliefs: Sequence[Belief], additive: Additive, problem: Problem, u: Floats) -> list[Belief]:
    """With the new coefficients in."""
    found = iter(zip(problem.each(), problem.parts(u), strict=True))
    out = []
    for k, belief in enumerate(beliefs):
        blocks, coef = [], belief.smooth.coef.copy()
        for j, block in enumerate(belief.blocks):
            (_, function, _), part = next(found)
            main, main_strength = _moved(block.main, function, part), function.strength
            factors, strength = None, block.strength
            if block.factors is not None:
                (_, function, _), part = next(found)
                factors, strength = _moved(block.factors, function, part), function.strength
            if factors is not None and block.column.free:
                factors = bounded(factors, block.column.mass, block.farthest)
            smooth = additive.part(j)
            if smooth is not None:
                _, part = next(found)
                coef[smooth[1]] = np.ravel(part.flat())
            mean = block.mean.copy()
            mean[:-1] = np.hstack([main.mean, *([] if factors is None else [factors.mean])])
            blocks.append(
                replace(block, mean=mean, main=main, factors=factors, main_strength=main_strength, strength=strength)
            )
        shift = float(additive.middle @ (coef - belief.smooth.coef))  # smooth effects are centred on the sample's rows
        smooth_now = replace(belief.smooth, coef=coef)
        out.append(replace(belief, intercept=float(u[k]) + shift, smooth=smooth_now, blocks=tuple(blocks)))
    return out


def _moved(posterior: Posterior | None, function: Functions, part: Part) -> Posterior:
    assert posterior is not None
    rough = posterior.rough if part.rough is None else part.rough  # of a smooth prior: what bounds have taken off
    extra = 0.0 if part.rough is not None or rough is None else rough
    return replace(posterior, mean=function.values(part) + extra, smooth=part.smooth, rough=rough)
