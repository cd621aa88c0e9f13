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

from ahofm.backends import Rows, loss_of
from ahofm.columns import known_codes
from ahofm.columns.basis import Floats
from ahofm.families import Family, Gaussian
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign
from ahofm.fit.solvers.variational.posterior import Posterior
from ahofm.kernels import BlockSums, ColumnSums, Tables
from ahofm.priors.base import Coefficients
from ahofm.priors.coefficient_block import CoefficientBlock, blocks_of_column
from ahofm.priors.fellner_schall import updated_by_order
from ahofm.priors.posterior import ColumnPosterior
from ahofm.tuning.subsample import FELLNER_SCHALL_STEPS


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
    block = CoefficientBlock(
        coordinates.prior, lam, coef, at, main, gram, zeros, zeros, zeros, mass, zeros, estimates_lam=False
    )
    return [replace(block, sample_values=block.values(coef))]


def variance_cost_derivatives(
    column_posterior: ColumnPosterior, expected_sums: BlockSums, sums: ColumnSums, dispersion: float
) -> tuple[Floats, Floats]:
    """Slope and curvature of U at each code: ``expected_sums`` with the partners' variances minus ``sums`` without."""
    slope = np.einsum("bfg,bg->bf", expected_sums.gram, column_posterior.mean) - expected_sums.rhs - sums.g
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
        self.ends = np.cumsum([0, *(column_posterior.column.book.n_codes for column_posterior in posteriors[0].blocks)])
        scale = rows.total / sample.total / dispersion
        self.blocks_by_eta: list[list[CoefficientBlock]] = []
        self.information = np.empty(len(posteriors))
        for k, (posterior, table) in enumerate(zip(posteriors, tables, strict=True)):
            blocks = []
            for j, column_posterior in enumerate(posterior.blocks):
                at = slice(int(self.ends[j]), int(self.ends[j + 1]) - 1)
                sums = sample.curvature(tables, k, j)
                gram = scale * known_codes(sums.h)
                self.information[k] = float(gram[:, 0, 0].sum())
                slope, curvature = variance_cost_derivatives(column_posterior, expected_sums[k][j], sums, dispersion)
                found = blocks_of_column(column_posterior, at, gram, slope, curvature, quadratic=quadratic)
                blocks += [block.with_likely_start() for block in found]
                blocks += blocks_of_smooth_main(posterior, additive, j, at, gram)
            self.blocks_by_eta.append(blocks)
            for block in blocks:
                _add_values(table, block, -block.sample_values)
        self.fixed_part = tables  # of the linear predictors: without the functions whose coefficients are in the vector
        coefs = [block.coef.flat() for blocks in self.blocks_by_eta for block in blocks]
        self.start = np.concatenate([[posterior.intercept for posterior in posteriors], *coefs])
        sizes = [len(posteriors), *(len(coef) for coef in coefs)]
        self.coefficient_ranges = list(pairwise(np.cumsum([0, *sizes])))

    def blocks(self) -> list[tuple[int, CoefficientBlock, slice]]:
        """Every block: the number of its linear predictor, itself, and the slice of its coefficients in the vector."""
        flat = [(k, block) for k, blocks in enumerate(self.blocks_by_eta) for block in blocks]
        return [(k, block, slice(a, b)) for (k, block), (a, b) in zip(flat, self.coefficient_ranges[1:], strict=True)]

    def coefficients(self, u: Floats) -> list[Coefficients]:
        """Coefficients of each block."""
        return [block.coef.like(u[at]) for _, block, at in self.blocks()]

    def linear_predictors(self, u: Floats) -> tuple[Tables, ...]:
        """The linear predictors at the codes, with coefficients u."""
        tables = [
            replace(
                table,
                intercept=float(u[k]),
                main=table.main.copy(),
                factors={order: values.copy() for order, values in table.factors.items()},
            )
            for k, table in enumerate(self.fixed_part)
        ]
        for (k, block, _), coef in zip(self.blocks(), self.coefficients(u), strict=True):
            _add_values(tables[k], block, block.bounded_values(coef))
        return tuple(tables)

    def loss(self, u: Floats) -> float:
        """Sum of the losses of all rows at coefficients u; one pass."""
        return self.rows.rows.value(self.linear_predictors(u), loss_of(self.rows.family))

    def value_and_gradient(self, u: Floats) -> tuple[float, list[Floats], Floats]:
        """The objective at u, with one pass over the rows.

        Returns
        -------
        value : float
        at_codes : list of arrays
            Gradient by the intercepts (K,), then by the values at the codes (codes, functions) of each block, without
            the penalty.
        gradient : array like u
            Gradient by the coefficients.
        """
        loss, slopes = self.rows.sums(self.linear_predictors(u))
        value = loss / self.dispersion
        at_codes = [np.array([tables.intercept for tables in slopes]) / self.dispersion]
        gradient = np.empty_like(u)
        gradient[: len(slopes)] = at_codes[0]
        for (k, block, at), coef in zip(self.blocks(), self.coefficients(u), strict=True):
            cost, cost_slope = block.variance_cost(coef)
            slope = _slope_of(slopes[k], block) / self.dispersion + cost_slope
            if block.left_out is not None:
                slope[:, block.left_out] = 0.0
            slope = block.slope_before_bounds(slope, coef)
            at_codes.append(slope)
            gradient[at] = block.gradient(slope, coef)
            value += block.penalty(coef) + cost
        return value, at_codes, gradient

    @property
    def smoothing_parameters(self) -> list[Floats]:
        """Smoothing parameters of each block."""
        return [block.lam for _, block, _ in self.blocks()]

    @property
    def lam_and_damping(self) -> list[tuple[Floats, Floats]]:
        """Smoothing parameters and dampings of each block: the state besides the coefficients."""
        return [(block.lam, block.damping) for _, block, _ in self.blocks()]

    def restore(self, lam_and_damping: Sequence[tuple[Floats, Floats]]) -> None:
        """Take over smoothing parameters and dampings, e.g. from a checkpoint."""
        blocks = [block for _, block, _ in self.blocks()]
        pairs = zip(blocks, lam_and_damping, strict=True)
        self._replace_blocks([replace(block, lam=lam, damping=damping) for block, (lam, damping) in pairs])

    def damp(self, u: Floats, at_codes: Sequence[Floats]) -> None:
        """Damp block solves so that all can be applied at once, from the gradient at these coefficients."""
        blocks = zip(self.blocks(), self.coefficients(u), at_codes[1:], strict=True)
        self._replace_blocks([block.damped(slope, coef) for (_, block, _), coef, slope in blocks])

    def _replace_blocks(self, new: Sequence[CoefficientBlock]) -> None:
        """Replace all blocks, in the same order."""
        blocks_in_order = iter(new)
        self.blocks_by_eta = [[next(blocks_in_order) for _ in blocks] for blocks in self.blocks_by_eta]

    def update_lam(self, u: Floats, value: float, at_codes: Sequence[Floats]) -> tuple[float, Floats]:
        """Fellner–Schall steps for the smoothing parameters, at the curvature of the sample.

        Returns the objective and its gradient with the new ones at the same coefficients; no pass over the rows.
        """
        new, coefs = [], self.coefficients(u)
        for (_, block, _), coef, slope in zip(self.blocks(), coefs, at_codes[1:], strict=True):
            value -= block.penalty(coef)
            ranks = [1] if block.columns.start == 0 else list(self.ranks.values())
            new.append(block)
            for _ in range(FELLNER_SCHALL_STEPS if block.estimates_lam else 0):
                lam = updated_by_order(block.prior, new[-1].block_solve(slope, coef), new[-1].lam, ranks)
                new[-1] = replace(block, lam=lam)
        self._replace_blocks(new)
        gradient = np.empty_like(u)
        gradient[: len(self.blocks_by_eta)] = at_codes[0]
        for (_, block, at), coef, slope in zip(self.blocks(), coefs, at_codes[1:], strict=True):
            gradient[at] = block.gradient(slope, coef)
            value += block.penalty(coef)
        return value, gradient

    def precondition(self, at_codes: Sequence[Floats], u: Floats) -> Floats:
        """The inverse of the block-diagonal Hessian times a gradient, which is given by the values at codes and Q u."""
        out = np.empty_like(u)
        out[: len(self.information)] = at_codes[0] / self.information
        for (_, block, at), coef, slope in zip(self.blocks(), self.coefficients(u), at_codes[1:], strict=True):
            out[at] = block.precondition(slope, coef)
        return out


def tables_of(posterior: Posterior, additive: AdditiveDesign) -> Tables:
    """A linear predictor at the codes of all columns."""
    stage_result = posterior.stage_result(additive, 1.0)
    assert stage_result is not None
    tables = stage_result.predictor.tables([column_posterior.column.book for column_posterior in posterior.blocks])
    factors = {order: np.ascontiguousarray(table) for order, table in tables.factors.items()}
    return replace(tables, main=tables.main.copy(), factors=factors)


def _slope_of(tables: Tables, block: CoefficientBlock) -> Floats:
    if block.columns.start == 0:
        return np.asarray(tables.main[block.rows, np.newaxis])
    return tables.orders.joined_factors({order: table[block.rows] for order, table in tables.factors.items()})


def _add_values(tables: Tables, block: CoefficientBlock, values: Floats) -> None:
    if block.columns.start == 0:
        tables.main[block.rows] += values[:, 0]
        return
    for order, columns in tables.orders.factor_slices.items():
        tables.factors[order][block.rows] += values[:, columns]
