"""The objective of a refinement: penalised losses of all rows as a function of one vector of coefficients.

    sum_i w_i loss_i / dispersion + u'Q u / 2 + U(u)

u are the coefficients of every function, Q the penalty. U is the cost of the partners' variance: half the sum of
curvature times the variance of the linear predictor. Variances fall with the number of rows, so that this sum stays
what it is on the sample; it is taken from there, to second order at the sample's coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ahofm.backends import Rows, loss_of
from ahofm.columns import known_codes
from ahofm.columns.basis import Floats
from ahofm.families import Family
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign
from ahofm.fit.solvers.variational.posterior import Posterior
from ahofm.kernels import BlockSums, ColumnSums, Tables
from ahofm.priors.base import Coefficients, FunctionPosterior, Prior, bounded, decoupled, vanished
from ahofm.priors.fellner_schall import learned
from ahofm.priors.iid import SplineIIDPrior
from ahofm.priors.posterior import ColumnPosterior
from ahofm.priors.spline import SplinePrior
from ahofm.tuning import LAM_STEPS, LEAST_FACTOR_SQUARE


@dataclass(frozen=True)
class Functions:
    """Some functions of one column: its main effect, or its factors."""

    prior: Prior
    lam: Floats
    part: Coefficients
    rows: slice  # of the tables
    columns: slice  # of the tables
    gram: Floats
    origin: Floats  # values in the fit to the sample
    lean: Floats  # slope of U there
    ridge: Floats  # curvature of U there
    mass: Floats  # fraction of the weight at each code
    damping: Floats  # curvature added in block solves
    learns: bool = True  # whether its smoothing parameters change
    left_out: NDArray[np.bool_] | None = None  # factors in which the column has no function

    @property
    def basis(self) -> Floats:
        """Values of the smooth coordinates at the codes; none without a smooth part."""
        smooth = self.prior.smooth if isinstance(self.prior, SplineIIDPrior) else self.prior
        return smooth.values if isinstance(smooth, SplinePrior) else np.zeros((len(self.gram), 0))

    def values(self, part: Coefficients) -> Floats:
        """At the codes."""
        total = np.zeros(self.gram.shape[:2]) if part.smooth is None else self.basis @ part.smooth
        return total if part.rough is None else total + part.rough

    def slope(self, at_codes: Floats, part: Coefficients) -> Floats:
        """Of the penalised loss by the coefficients: flat."""
        smooth = None if part.smooth is None else self.basis.T @ at_codes
        own = Coefficients(smooth, None if part.rough is None else at_codes)
        return own.flat() + self.prior.penalty_gradient(part, self.lam).flat()

    def penalty(self, part: Coefficients) -> float:
        """u'Q u / 2."""
        return 0.5 * float(part.flat() @ self.prior.penalty_gradient(part, self.lam).flat())

    def uncertainty(self, part: Coefficients) -> tuple[float, Floats]:
        """U, and its slope at the codes."""
        away = self.values(part) - self.origin
        return float((self.lean * away + 0.5 * self.ridge * away**2).sum()), self.lean + self.ridge * away

    def solved(self, at_codes: Floats, part: Coefficients) -> FunctionPosterior:
        """Minimum of the quadratic approximation with this gradient."""
        rhs = np.einsum("bfg,bg->bf", self.gram, self.values(part)) - at_codes
        found = self.prior.solve(self.gram, rhs, self.lam)
        return found if self.left_out is None else vanished(found, self.left_out)

    def damped(self, at_codes: Floats, part: Coefficients) -> Functions:
        """With curvature added where a block solve moves a factor by more than its own root mean square.

        Near zero a factor is determined by its partners alone, which move at the same time: steps that are right for
        each column are far too long for all of them.
        """
        if self.columns.start == 0:
            return self
        plain = replace(self, damping=np.zeros_like(self.damping))
        step = self.values(part.like(plain.inverse(at_codes, part)))
        squares = [self.mass @ values**2 for values in (step, self.values(part))]
        times = np.sqrt(squares[0] / np.maximum(squares[1], LEAST_FACTOR_SQUARE))
        return replace(self, damping=np.einsum("bff->bf", self.gram) * np.maximum(times - 1.0, 0.0))

    def inverse(self, at_codes: Floats, part: Coefficients) -> Floats:
        """Block solve of (slope at codes + Q coefficients): flat."""
        gram = self.gram.copy()
        np.einsum("bff->bf", gram)[...] += self.damping
        solved = replace(self, gram=gram).solved(at_codes, part)
        return part.flat() - Coefficients(solved.smooth, solved.rough).flat()


def functions_of(block: ColumnPosterior, at: slice, gram: Floats, lean: Floats, ridge: Floats) -> list[Functions]:
    """The main effect and the factors of a column, each on its own."""
    found = []
    main, factors = block.main, block.factors
    assert main is not None
    given: list[tuple[Prior, FunctionPosterior, Floats, slice]] = [
        (block.column.main, main, block.main_lam, slice(0, 1)),
    ]
    if factors is not None:
        given.append((block.column.factors, factors, block.lam, slice(1, gram.shape[1])))
    for prior, posterior, lam, columns in given:
        smooth_only = isinstance(prior, SplinePrior)
        part = Coefficients(posterior.smooth, None if smooth_only else posterior.rough)
        own = np.ascontiguousarray(gram[:, columns, columns])
        np.einsum("bff->bf", own)[...] += ridge[:, columns]
        none = np.zeros((len(gram), columns.stop - columns.start))
        slope, left_out = lean[:, columns], None if columns.start == 0 else block.left_out
        if left_out is not None:
            own, slope = decoupled(own, slope, left_out)
        function = Functions(
            prior, lam, part, at, columns, own, none, slope, ridge[:, columns], block.column.mass, none
        )
        function = replace(function, left_out=left_out)
        found.append(replace(function, origin=function.values(part)))
    return found


def smooth_main_of(posterior: Posterior, additive: AdditiveDesign, j: int, at: slice, gram: Floats) -> list[Functions]:
    """The smooth part of a main effect, which is fitted for all columns jointly, where there is one.

    Its smoothing parameters were learned from all columns together, not by blocks: they do not change.
    """
    found = additive.part(j)
    if found is None:
        return []
    own, places = found
    lam = posterior.smooth.lam[additive.lam_indices(places)][:, np.newaxis]
    part = Coefficients(posterior.smooth.coef[places, np.newaxis], None)
    none = np.zeros((len(gram), 1))
    gram = np.ascontiguousarray(gram[:, :1, :1])
    mass = posterior.blocks[j].column.mass
    function = Functions(own.prior, lam, part, at, slice(0, 1), gram, none, none, none, mass, none, learns=False)
    return [replace(function, origin=function.values(part))]


def uncertainty_of(
    block: ColumnPosterior, expected_sums: BlockSums, plain: ColumnSums, noise: float
) -> tuple[Floats, Floats]:
    """Slope and curvature of U at each code: what sums with variances have over sums without."""
    slope = np.einsum("bfg,bg->bf", expected_sums.gram, block.mean) - expected_sums.rhs - plain.g
    ridge = np.einsum("bff->bf", expected_sums.gram) - np.einsum("bff->bf", plain.h)
    return known_codes(slope) / noise, np.maximum(known_codes(ridge), 0.0) / noise


@dataclass(frozen=True)
class LossRows:
    """Rows with a family: where passes go."""

    rows: Rows
    family: Family
    total: float

    def sums(self, linear_predictors: tuple[Tables, ...]) -> tuple[float, tuple[Tables, ...]]:
        """Loss and slopes; one pass."""
        sums = self.rows.gradient(linear_predictors, loss_of(self.family))
        return sums.value, sums.gradient

    def curvature(self, linear_predictors: tuple[Tables, ...], which: int, column: int) -> ColumnSums:
        """Per code of a column, sums of slopes and curvatures with derivatives; one pass."""
        return self.rows.column_gram(linear_predictors, loss_of(self.family), which, column)


class RefinementObjective:
    """Coefficients of all linear predictors as one vector, intercepts first."""

    def __init__(
        self,
        posteriors: Sequence[Posterior],
        additive: AdditiveDesign,
        rows: LossRows,
        sample: LossRows,
        expected_sums: Sequence[Sequence[BlockSums]],
        noise: float,
    ) -> None:
        """Curvatures come from the sample."""
        self.rows, self.noise = rows, noise
        self.ranks = posteriors[0].ranks
        tables = tuple(tables_of(posterior, additive) for posterior in posteriors)
        self.ends = np.cumsum([0, *(block.column.book.n_codes for block in posteriors[0].blocks)])
        scale = rows.total / sample.total / noise
        self.functions: list[list[Functions]] = []
        self.information = np.empty(len(posteriors))
        for k, (posterior, whole) in enumerate(zip(posteriors, tables, strict=True)):
            own = []
            for j, block in enumerate(posterior.blocks):
                at = slice(int(self.ends[j]), int(self.ends[j + 1]) - 1)
                known = sample.curvature(tables, k, j)
                gram = scale * known_codes(known.h)
                self.information[k] = float(gram[:, 0, 0].sum())
                lean, ridge = uncertainty_of(block, expected_sums[k][j], known, noise)
                own += functions_of(block, at, gram, lean, ridge)
                own += smooth_main_of(posterior, additive, j, at, gram)
            self.functions.append(own)
            for function in own:
                _add(whole, function, -function.origin)
        self.base = tables  # what no coefficient here changes
        parts = [function.part.flat() for own in self.functions for function in own]
        self.start = np.concatenate([[posterior.intercept for posterior in posteriors], *parts])
        sizes = [len(posteriors), *(len(part) for part in parts)]
        self.cuts = list(pairwise(np.cumsum([0, *sizes])))

    def each(self) -> list[tuple[int, Functions, slice]]:
        """Linear predictor, functions and where their coefficients are."""
        flat = [(k, function) for k, own in enumerate(self.functions) for function in own]
        return [(k, function, slice(a, b)) for (k, function), (a, b) in zip(flat, self.cuts[1:], strict=True)]

    def parts(self, u: Floats) -> list[Coefficients]:
        """Coefficients of each group of functions."""
        return [function.part.like(u[at]) for _, function, at in self.each()]

    def at(self, u: Floats) -> tuple[Tables, ...]:
        """The linear predictors at the codes."""
        tables = [
            replace(
                table,
                intercept=float(u[k]),
                main=table.main.copy(),
                factors={order: part.copy() for order, part in table.factors.items()},
            )
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
            if function.left_out is not None:
                own[:, function.left_out] = 0.0
            at_codes.append(own)
            gradient[at] = function.slope(own, part)
            value += function.penalty(part) + cost
        return value, at_codes, gradient

    @property
    def smoothing_parameters(self) -> list[Floats]:
        """Of each group of functions."""
        return [function.lam for _, function, _ in self.each()]

    @property
    def learned(self) -> list[tuple[Floats, Floats]]:
        """Smoothing parameters and dampings of each group of functions: the state besides the coefficients."""
        return [(function.lam, function.damping) for _, function, _ in self.each()]

    def resume(self, found: Sequence[tuple[Floats, Floats]]) -> None:
        """With what was learned before."""
        pairs = zip(self.each(), found, strict=True)
        self._replace_functions([replace(own, lam=lam, damping=damping) for (_, own, _), (lam, damping) in pairs])

    def damp(self, u: Floats, at_codes: Sequence[Floats]) -> None:
        """Block solves that are safe for all columns at once, from the slopes at these coefficients."""
        given = zip(self.each(), self.parts(u), at_codes[1:], strict=True)
        self._replace_functions([function.damped(own, part) for (_, function, _), part, own in given])

    def _replace_functions(self, new: Sequence[Functions]) -> None:
        """Other functions, in the same order."""
        given = iter(new)
        self.functions = [[next(given) for _ in own] for own in self.functions]

    def learn(self, u: Floats, value: float, at_codes: Sequence[Floats]) -> tuple[float, Floats]:
        """New smoothing parameters; the objective and its gradient at the same coefficients, without a pass."""
        new, parts = [], self.parts(u)
        for (_, function, _), part, own in zip(self.each(), parts, at_codes[1:], strict=True):
            value -= function.penalty(part)
            ranks = [1] if function.columns.start == 0 else list(self.ranks.values())
            new.append(function)
            for _ in range(LAM_STEPS if function.learns else 0):
                lam = learned(function.prior, new[-1].solved(own, part), new[-1].lam, ranks)
                new[-1] = replace(function, lam=lam)
        self._replace_functions(new)
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


def tables_of(posterior: Posterior, additive: AdditiveDesign) -> Tables:
    """A linear predictor at the codes of all columns."""
    stage_result = posterior.stage_result(additive, 1.0)
    assert stage_result is not None
    tables = stage_result.predictor.tables([block.column.book for block in posterior.blocks])
    factors = {order: np.ascontiguousarray(own) for order, own in tables.factors.items()}
    return replace(tables, main=tables.main.copy(), factors=factors)


def _take(tables: Tables, function: Functions) -> Floats:
    if function.columns.start == 0:
        return np.asarray(tables.main[function.rows, np.newaxis])
    return tables.orders.joined_factors({order: table[function.rows] for order, table in tables.factors.items()})


def _add(tables: Tables, function: Functions, values: Floats) -> None:
    if function.columns.start == 0:
        tables.main[function.rows] += values[:, 0]
        return
    for order, part in tables.orders.factor_slices.items():
        tables.factors[order][function.rows] += values[:, part]


def posteriors_of(
    posteriors: Sequence[Posterior], additive: AdditiveDesign, objective: RefinementObjective, u: Floats
) -> list[Posterior]:
    """With the new coefficients in."""
    found = iter(zip(objective.each(), objective.parts(u), strict=True))
    out = []
    for k, posterior in enumerate(posteriors):
        blocks, coef = [], posterior.smooth.coef.copy()
        for j, block in enumerate(posterior.blocks):
            (_, function, _), part = next(found)
            main, main_lam = _moved(block.main, function, part), function.lam
            factors, lam = None, block.lam
            if block.factors is not None:
                (_, function, _), part = next(found)
                factors, lam = _moved(block.factors, function, part), function.lam
            if factors is not None and block.column.free:
                factors = bounded(factors, block.column.mass, block.farthest)
            smooth = additive.part(j)
            if smooth is not None:
                _, part = next(found)
                coef[smooth[1]] = np.ravel(part.flat())
            mean = block.mean.copy()
            known_codes(mean)[:] = np.hstack([main.mean, *([] if factors is None else [factors.mean])])
            blocks.append(replace(block, mean=mean, main=main, factors=factors, main_lam=main_lam, lam=lam))
        shift = float(
            additive.middle @ (coef - posterior.smooth.coef)
        )  # smooth effects are centred on the sample's rows
        smooth_now = replace(posterior.smooth, coef=coef)
        out.append(replace(posterior, intercept=float(u[k]) + shift, smooth=smooth_now, blocks=tuple(blocks)))
    return out


def _moved(posterior: FunctionPosterior | None, function: Functions, part: Coefficients) -> FunctionPosterior:
    assert posterior is not None
    rough = posterior.rough if part.rough is None else part.rough  # of a spline prior: the change by bounds
    extra = 0.0 if part.rough is not None or rough is None else rough
    return replace(posterior, mean=function.values(part) + extra, smooth=part.smooth, rough=rough)
