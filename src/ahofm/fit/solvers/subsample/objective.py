"""The objective of a refinement: penalised losses of all rows as a function of one vector of coefficients.

    sum_i w_i loss_i / dispersion + u'Q u / 2 + U(u)

u are the coefficients of every function, Q the penalty. U is the expected loss in excess of the loss at the means:
``sum_i w_i h_i var(eta_i) / 2`` over the dispersion, h the curvature of the loss. Variances are inversely proportional
to the number of rows, so that U of all rows is about U of the sample: it is taken from there, to second order around
the sample's coefficients.
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
from ahofm.families import Family, Gaussian
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign
from ahofm.fit.solvers.variational.posterior import Posterior
from ahofm.kernels import BlockSums, ColumnSums, Tables
from ahofm.priors.base import Coefficients, FunctionPosterior, Prior, decoupled, with_zeros
from ahofm.priors.bounds import Bounds
from ahofm.priors.fellner_schall import learned
from ahofm.priors.iid import SplineIIDPrior
from ahofm.priors.posterior import ColumnPosterior
from ahofm.priors.spline import SplinePrior
from ahofm.tuning.subsample import LAM_STEPS, LEAST_FACTOR_SQUARE


@dataclass(frozen=True)
class CoefficientBlock:
    """Coefficients that one block solve is for: the main effect of a column (K = 1), or its K factors.

    Attributes
    ----------
    prior : Prior
    lam : array of shape (groups, K)
        Smoothing parameters.
    coef : Coefficients
        In the fit to the sample.
    rows, columns : slice
        Where the functions' values are in the tables: the codes of the column, and 0 or the factors.
    gram : array of shape (codes, K, K)
        Curvature of the losses of all rows by the values at the codes, with ``variance_curvature`` on the diagonal.
    sample_values : array of shape (codes, K)
        Values of the functions in the fit to the sample, ``v_0``.
    variance_slope, variance_curvature : arrays of shape (codes, K)
        U as a function of the values at the codes: ``slope'(v - v_0) + (v - v_0)' diag(curvature) (v - v_0) / 2``.
    mass : array of shape (codes,)
        Fraction of the weight at each code.
    damping : array of shape (codes, K)
        Added to the diagonal of ``gram`` in block solves.
    estimates_lam : bool
        Whether its smoothing parameters are estimated again.
    left_out : bool array of shape (K,), optional
        Factors in which the column has no function.
    bounds : Bounds, optional
        Of factors. The objective is one of bounded values: otherwise other functions would compensate what is cut.
    """

    prior: Prior
    lam: Floats
    coef: Coefficients
    rows: slice
    columns: slice
    gram: Floats
    sample_values: Floats
    variance_slope: Floats
    variance_curvature: Floats
    mass: Floats
    damping: Floats
    estimates_lam: bool = True
    left_out: NDArray[np.bool_] | None = None
    bounds: Bounds | None = None

    @property
    def basis(self) -> Floats:
        """Values of the smooth coordinates at the codes; none without a smooth part."""
        smooth = self.prior.smooth if isinstance(self.prior, SplineIIDPrior) else self.prior
        return smooth.values if isinstance(smooth, SplinePrior) else np.zeros((len(self.gram), 0))

    def values(self, coef: Coefficients) -> Floats:
        """Values of the functions at the codes, (codes, K), before they are bounded."""
        total = np.zeros(self.gram.shape[:2]) if coef.smooth is None else self.basis @ coef.smooth
        return total if coef.per_code is None else total + coef.per_code

    def bounded_values(self, coef: Coefficients) -> Floats:
        """Values of the functions at the codes, (codes, K)."""
        values = self.values(coef)
        return values if self.bounds is None else self.bounds(values)

    def slope_before_bounds(self, slope: Floats, coef: Coefficients) -> Floats:
        """Slope by the values before they are bounded, (codes, K), from that by the bounded ones."""
        return slope if self.bounds is None else self.bounds.pull_back(slope, self.values(coef))

    def gradient(self, at_codes: Floats, coef: Coefficients) -> Floats:
        """Gradient of the penalised loss by the coefficients, flat, from that by the values at the codes."""
        smooth = None if coef.smooth is None else self.basis.T @ at_codes
        of_losses = Coefficients(smooth, None if coef.per_code is None else at_codes)
        return of_losses.flat() + self.prior.penalty_gradient(coef, self.lam).flat()

    def penalty(self, coef: Coefficients) -> float:
        """u'Q u / 2."""
        return 0.5 * float(coef.flat() @ self.prior.penalty_gradient(coef, self.lam).flat())

    def variance_cost(self, coef: Coefficients) -> tuple[float, Floats]:
        """U, and its gradient by the bounded values at the codes."""
        away = self.bounded_values(coef) - self.sample_values
        cost = float((self.variance_slope * away + 0.5 * self.variance_curvature * away**2).sum())
        return cost, self.variance_slope + self.variance_curvature * away

    def block_solve(self, at_codes: Floats, coef: Coefficients) -> FunctionPosterior:
        """Posterior of the block: minimum of the quadratic approximation with this gradient at the codes."""
        rhs = np.einsum("bfg,bg->bf", self.gram, self.values(coef)) - at_codes
        found = self.prior.solve(self.gram, rhs, self.lam)
        return found if self.left_out is None else with_zeros(found, self.left_out)

    def damped(self, at_codes: Floats, coef: Coefficients) -> CoefficientBlock:
        """The same block with curvature added where a block solve moves a factor by more than its root mean square.

        Near zero a factor is determined by its partners alone, which move at the same time: steps that are right for
        each column are far too long for all of them.
        """
        if self.columns.start == 0:
            return self
        undamped = replace(self, damping=np.zeros_like(self.damping))
        step = self.values(coef.like(undamped.precondition(at_codes, coef)))
        squares = [self.mass @ values**2 for values in (step, self.values(coef))]
        times = np.sqrt(squares[0] / np.maximum(squares[1], LEAST_FACTOR_SQUARE))
        return replace(self, damping=np.einsum("bff->bf", self.gram) * np.maximum(times - 1.0, 0.0))

    def precondition(self, at_codes: Floats, coef: Coefficients) -> Floats:
        """Inverse of the block's Hessian times the gradient, flat; from the gradient at the codes."""
        gram = self.gram.copy()
        np.einsum("bff->bf", gram)[...] += self.damping
        solved = replace(self, gram=gram).block_solve(at_codes, coef)
        return coef.flat() - Coefficients(solved.smooth, solved.per_code).flat()


def blocks_of_column(
    block: ColumnPosterior,
    at: slice,
    gram: Floats,
    variance_slope: Floats,
    variance_curvature: Floats,
    *,
    quadratic: bool,
) -> list[CoefficientBlock]:
    """The blocks of a column: its main effect, and its factors where it has any.

    Unless losses are quadratic, ``spline_iid`` factors keep the sample's smoothing parameters: levels follow events.
    """
    found = []
    main, factors = block.main, block.factors
    assert main is not None
    solves: list[tuple[Prior, FunctionPosterior, Floats, slice]] = [
        (block.column.main, main, block.main_lam, slice(0, 1)),
    ]
    if factors is not None:
        solves.append((block.column.factors, factors, block.lam, slice(1, gram.shape[1])))
    for prior, posterior, lam, columns in solves:
        smooth_only = isinstance(prior, SplinePrior)
        coef = Coefficients(posterior.smooth, None if smooth_only else posterior.per_code)
        curvature = np.ascontiguousarray(gram[:, columns, columns])
        np.einsum("bff->bf", curvature)[...] += variance_curvature[:, columns]
        zeros = np.zeros((len(gram), columns.stop - columns.start))
        slope, left_out = variance_slope[:, columns], None if columns.start == 0 else block.left_out
        if left_out is not None:
            curvature, slope = decoupled(curvature, slope, left_out)
        function = CoefficientBlock(
            prior,
            lam,
            coef,
            at,
            columns,
            curvature,
            posterior.mean,
            slope,
            variance_curvature[:, columns],
            block.column.mass,
            zeros,
            estimates_lam=quadratic or not isinstance(prior, SplineIIDPrior),
            left_out=left_out,
            bounds=None if columns.start == 0 else block.bounds,
        )
        found.append(function)
    return found


def blocks_of_smooth_main(
    posterior: Posterior, additive: AdditiveDesign, j: int, at: slice, gram: Floats
) -> list[CoefficientBlock]:
    """The smooth part of a main effect, which is fitted for all columns jointly, where there is one.

    Its smoothing parameters were learned from all columns together, not by blocks: they do not change.
    """
    found = additive.column(j)
    if found is None:
        return []
    coordinates, indices = found
    lam = posterior.smooth.lam[additive.lam_indices(indices)][:, np.newaxis]
    coef = Coefficients(posterior.smooth.coef[indices, np.newaxis], None)
    zeros = np.zeros((len(gram), 1))
    gram = np.ascontiguousarray(gram[:, :1, :1])
    mass, main = posterior.blocks[j].column.mass, slice(0, 1)
    function = CoefficientBlock(
        coordinates.prior, lam, coef, at, main, gram, zeros, zeros, zeros, mass, zeros, estimates_lam=False
    )
    return [replace(function, sample_values=function.values(coef))]


def variance_cost_derivatives(
    block: ColumnPosterior, expected_sums: BlockSums, sums: ColumnSums, dispersion: float
) -> tuple[Floats, Floats]:
    """Slope and curvature of U at each code: ``expected_sums`` with the partners' variances minus ``sums`` without."""
    slope = np.einsum("bfg,bg->bf", expected_sums.gram, block.mean) - expected_sums.rhs - sums.g
    variance_curvature = np.einsum("bff->bf", expected_sums.gram) - np.einsum("bff->bf", sums.h)
    return known_codes(slope) / dispersion, np.maximum(known_codes(variance_curvature), 0.0) / dispersion


@dataclass(frozen=True)
class LossRows:
    """Rows and the family of their losses, with the sum of their weights."""

    rows: Rows
    family: Family
    total: float

    def sums(self, linear_predictors: tuple[Tables, ...]) -> tuple[float, tuple[Tables, ...]]:
        """Sum of the losses, and its gradient by the values at the codes; one pass."""
        sums = self.rows.gradient(linear_predictors, loss_of(self.family))
        return sums.value, sums.gradient

    def curvature(self, linear_predictors: tuple[Tables, ...], which: int, column: int) -> ColumnSums:
        """Per code of a column, gradient and Hessian of the losses by its functions' values; one pass."""
        return self.rows.column_gram(linear_predictors, loss_of(self.family), which, column)


class RefinementObjective:
    """The objective as a function of one vector: coefficients of all linear predictors, intercepts first."""

    def __init__(
        self,
        posteriors: Sequence[Posterior],
        additive: AdditiveDesign,
        rows: LossRows,
        sample: LossRows,
        expected_sums: Sequence[Sequence[BlockSums]],
        dispersion: float,
    ) -> None:
        """At the posteriors of a fit to the sample, whose curvatures are scaled up to all rows."""
        self.rows, self.dispersion = rows, dispersion
        quadratic = isinstance(rows.family, Gaussian)
        self.ranks = posteriors[0].ranks
        tables = tuple(tables_of(posterior, additive) for posterior in posteriors)
        self.ends = np.cumsum([0, *(block.column.book.n_codes for block in posteriors[0].blocks)])
        scale = rows.total / sample.total / dispersion
        self.blocks_by_eta: list[list[CoefficientBlock]] = []
        self.information = np.empty(len(posteriors))
        for k, (posterior, table) in enumerate(zip(posteriors, tables, strict=True)):
            blocks = []
            for j, block in enumerate(posterior.blocks):
                at = slice(int(self.ends[j]), int(self.ends[j + 1]) - 1)
                sums = sample.curvature(tables, k, j)
                gram = scale * known_codes(sums.h)
                self.information[k] = float(gram[:, 0, 0].sum())
                slope, curvature = variance_cost_derivatives(block, expected_sums[k][j], sums, dispersion)
                blocks += blocks_of_column(block, at, gram, slope, curvature, quadratic=quadratic)
                blocks += blocks_of_smooth_main(posterior, additive, j, at, gram)
            self.blocks_by_eta.append(blocks)
            for function in blocks:
                _add(table, function, -function.sample_values)
        self.base = tables  # what no coefficient of the vector changes
        coefs = [function.coef.flat() for blocks in self.blocks_by_eta for function in blocks]
        self.start = np.concatenate([[posterior.intercept for posterior in posteriors], *coefs])
        sizes = [len(posteriors), *(len(coef) for coef in coefs)]
        self.cuts = list(pairwise(np.cumsum([0, *sizes])))

    def each(self) -> list[tuple[int, CoefficientBlock, slice]]:
        """Every block: its linear predictor, itself, and where its coefficients are in the vector."""
        flat = [(k, function) for k, blocks in enumerate(self.blocks_by_eta) for function in blocks]
        return [(k, function, slice(a, b)) for (k, function), (a, b) in zip(flat, self.cuts[1:], strict=True)]

    def coefficients(self, u: Floats) -> list[Coefficients]:
        """Coefficients of each block."""
        return [function.coef.like(u[at]) for _, function, at in self.each()]

    def at(self, u: Floats) -> tuple[Tables, ...]:
        """The linear predictors at the codes."""
        tables = [
            replace(
                table,
                intercept=float(u[k]),
                main=table.main.copy(),
                factors={order: values.copy() for order, values in table.factors.items()},
            )
            for k, table in enumerate(self.base)
        ]
        for (k, function, _), coef in zip(self.each(), self.coefficients(u), strict=True):
            _add(tables[k], function, function.bounded_values(coef))
        return tuple(tables)

    def value(self, u: Floats) -> tuple[float, list[Floats], Floats]:
        """Objective, gradient by the values at the codes (intercepts first) and by the coefficients; one pass."""
        loss, slopes = self.rows.sums(self.at(u))
        value = loss / self.dispersion
        at_codes = [np.array([tables.intercept for tables in slopes]) / self.dispersion]
        gradient = np.empty_like(u)
        gradient[: len(slopes)] = at_codes[0]
        for (k, function, at), coef in zip(self.each(), self.coefficients(u), strict=True):
            cost, cost_slope = function.variance_cost(coef)
            slope = _take(slopes[k], function) / self.dispersion + cost_slope
            if function.left_out is not None:
                slope[:, function.left_out] = 0.0
            slope = function.slope_before_bounds(slope, coef)
            at_codes.append(slope)
            gradient[at] = function.gradient(slope, coef)
            value += function.penalty(coef) + cost
        return value, at_codes, gradient

    @property
    def smoothing_parameters(self) -> list[Floats]:
        """Smoothing parameters of each block."""
        return [function.lam for _, function, _ in self.each()]

    @property
    def learned(self) -> list[tuple[Floats, Floats]]:
        """Smoothing parameters and dampings of each block: the state besides the coefficients."""
        return [(function.lam, function.damping) for _, function, _ in self.each()]

    def resume(self, found: Sequence[tuple[Floats, Floats]]) -> None:
        """Take over smoothing parameters and dampings, e.g. from a checkpoint."""
        blocks = [function for _, function, _ in self.each()]
        pairs = zip(blocks, found, strict=True)
        self._replace_blocks([replace(function, lam=lam, damping=damping) for function, (lam, damping) in pairs])

    def damp(self, u: Floats, at_codes: Sequence[Floats]) -> None:
        """Damp block solves so that all can be applied at once, from the gradient at these coefficients."""
        blocks = zip(self.each(), self.coefficients(u), at_codes[1:], strict=True)
        self._replace_blocks([function.damped(slope, coef) for (_, function, _), coef, slope in blocks])

    def _replace_blocks(self, new: Sequence[CoefficientBlock]) -> None:
        """Replace all blocks, in the same order."""
        blocks_in_order = iter(new)
        self.blocks_by_eta = [[next(blocks_in_order) for _ in blocks] for blocks in self.blocks_by_eta]

    def learn(self, u: Floats, value: float, at_codes: Sequence[Floats]) -> tuple[float, Floats]:
        """New smoothing parameters; the objective and its gradient at the same coefficients, without a pass."""
        new, coefs = [], self.coefficients(u)
        for (_, function, _), coef, slope in zip(self.each(), coefs, at_codes[1:], strict=True):
            value -= function.penalty(coef)
            ranks = [1] if function.columns.start == 0 else list(self.ranks.values())
            new.append(function)
            for _ in range(LAM_STEPS if function.estimates_lam else 0):
                lam = learned(function.prior, new[-1].block_solve(slope, coef), new[-1].lam, ranks)
                new[-1] = replace(function, lam=lam)
        self._replace_blocks(new)
        gradient = np.empty_like(u)
        gradient[: len(self.blocks_by_eta)] = at_codes[0]
        for (_, function, at), coef, slope in zip(self.each(), coefs, at_codes[1:], strict=True):
            gradient[at] = function.gradient(slope, coef)
            value += function.penalty(coef)
        return value, gradient

    def precondition(self, at_codes: Sequence[Floats], u: Floats) -> Floats:
        """Block solves of a gradient that is given in two parts: by the values at the codes, and Q times u."""
        out = np.empty_like(u)
        out[: len(self.information)] = at_codes[0] / self.information
        for (_, function, at), coef, slope in zip(self.each(), self.coefficients(u), at_codes[1:], strict=True):
            out[at] = function.precondition(slope, coef)
        return out


def tables_of(posterior: Posterior, additive: AdditiveDesign) -> Tables:
    """A linear predictor at the codes of all columns."""
    stage_result = posterior.stage_result(additive, 1.0)
    assert stage_result is not None
    tables = stage_result.predictor.tables([block.column.book for block in posterior.blocks])
    factors = {order: np.ascontiguousarray(table) for order, table in tables.factors.items()}
    return replace(tables, main=tables.main.copy(), factors=factors)


def _take(tables: Tables, function: CoefficientBlock) -> Floats:
    if function.columns.start == 0:
        return np.asarray(tables.main[function.rows, np.newaxis])
    return tables.orders.joined_factors({order: table[function.rows] for order, table in tables.factors.items()})


def _add(tables: Tables, function: CoefficientBlock, values: Floats) -> None:
    if function.columns.start == 0:
        tables.main[function.rows] += values[:, 0]
        return
    for order, columns in tables.orders.factor_slices.items():
        tables.factors[order][function.rows] += values[:, columns]
