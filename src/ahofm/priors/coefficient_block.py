"""Coefficients of a column's main effect or factors as a block of a large optimisation problem, with its own solve.

Given the losses' gradient by the values of the functions at the codes, a block has its gradient by coefficients, and
its block solve: the exact minimum of the quadratic approximation with the curvature ``gram`` and the prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.priors.base import Coefficients, FunctionPosterior, Prior, decoupled, with_zeros
from ahofm.priors.bounds import Bounds
from ahofm.priors.iid import SplineIIDPrior, spline_of
from ahofm.priors.posterior import ColumnPosterior
from ahofm.priors.spline import SplinePrior
from ahofm.tuning.subsample import LEAST_FACTOR_SQUARE, LONGEST_MAIN_STEP


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
    quadratic: bool = False

    @property
    def basis(self) -> Floats:
        """Values of the smooth coordinates at the codes; none without a smooth part."""
        smooth = spline_of(self.prior)
        return np.zeros((len(self.gram), 0)) if smooth is None else smooth.values

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

    def with_likely_start(self) -> CoefficientBlock:
        """The same block with other initial coefficients, where the prior makes those of the sample improbable.

        Under the prior the expected penalty is half the number of coefficients. What bounds cut off in the fit to the
        sample is kept as coefficients of the codes, whose penalties are of another size: quasi-Newton steps would first
        reduce these and not the losses. The penalised least squares fit to the same values takes their place.
        """
        if self.bounds is None or self.penalty(self.coef) <= self.coef.flat().size:
            return self
        solved = self.block_solve(np.zeros(self.gram.shape[:2]), self.coef)
        per_code = None if self.coef.per_code is None else solved.per_code
        return replace(self, coef=Coefficients(solved.smooth, per_code))

    def variance_cost(self, coef: Coefficients) -> tuple[float, Floats]:
        """U, and its gradient by the bounded values at the codes."""
        difference = self.bounded_values(coef) - self.sample_values
        cost = float((self.variance_slope * difference + 0.5 * self.variance_curvature * difference**2).sum())
        return cost, self.variance_slope + self.variance_curvature * difference

    def block_solve(self, at_codes: Floats, coef: Coefficients) -> FunctionPosterior:
        """Posterior of the block: minimum of the quadratic approximation with this gradient at the codes."""
        rhs = np.einsum("bfg,bg->bf", self.gram, self.values(coef)) - at_codes
        posterior = self.prior.solve(self.gram, rhs, self.lam)
        return posterior if self.left_out is None else with_zeros(posterior, self.left_out)

    def damped(self, at_codes: Floats, coef: Coefficients) -> CoefficientBlock:
        """The same block with curvature added where a block solve moves a factor by more than its root mean square.

        With r the ratio of the two, ``max(r - 1, 0)`` times the diagonal of the curvature. Near zero a factor is
        determined by its partners alone, which move at the same time: steps that are right for each column are far too
        long for all of them.
        """
        if self.columns.start == 0 and self.quadratic:
            return self
        undamped = replace(self, damping=np.zeros_like(self.damping))
        step = self.values(coef.like(undamped.precondition(at_codes, coef)))
        if self.columns.start == 0:
            ratio = np.abs(step) / LONGEST_MAIN_STEP
        else:
            squares = [self.mass @ values**2 for values in (step, self.values(coef))]
            root = np.sqrt(np.maximum(squares[1], LEAST_FACTOR_SQUARE))
            ratio = np.broadcast_to(np.sqrt(squares[0]) / root, step.shape)
            if self.bounds is not None and not self.quadratic:
                ratio = np.maximum(ratio, np.abs(step) / np.outer(self.bounds.times, root))
        return replace(self, damping=np.einsum("bff->bf", self.gram) * np.maximum(ratio - 1.0, 0.0))

    def precondition(self, at_codes: Floats, coef: Coefficients) -> Floats:
        """Inverse of the block's Hessian times the gradient, flat; from the gradient at the codes."""
        gram = self.gram.copy()
        np.einsum("bff->bf", gram)[...] += self.damping
        solved = replace(self, gram=gram).block_solve(at_codes, coef)
        return coef.flat() - Coefficients(solved.smooth, solved.per_code).flat()


def blocks_of_column(
    column_posterior: ColumnPosterior,
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
    blocks = []
    main, factors = column_posterior.main, column_posterior.factors
    assert main is not None
    solves: list[tuple[Prior, FunctionPosterior, Floats, slice]] = [
        (column_posterior.column.main, main, column_posterior.main_lam, slice(0, 1)),
    ]
    if factors is not None:
        solves.append((column_posterior.column.factors, factors, column_posterior.lam, slice(1, gram.shape[1])))
    for prior, posterior, lam, columns in solves:
        smooth_only = isinstance(prior, SplinePrior)
        coef = Coefficients(posterior.smooth, None if smooth_only else posterior.per_code)
        curvature = np.ascontiguousarray(gram[:, columns, columns])
        np.einsum("bff->bf", curvature)[...] += variance_curvature[:, columns]
        zeros = np.zeros((len(gram), columns.stop - columns.start))
        slope, left_out = variance_slope[:, columns], None if columns.start == 0 else column_posterior.left_out
        if left_out is not None:
            curvature, slope = decoupled(curvature, slope, left_out)
        block = CoefficientBlock(
            prior,
            lam,
            coef,
            at,
            columns,
            curvature,
            posterior.mean,
            slope,
            variance_curvature[:, columns],
            column_posterior.column.mass,
            zeros,
            estimates_lam=quadratic or not isinstance(prior, SplineIIDPrior),
            left_out=left_out,
            bounds=None if columns.start == 0 else column_posterior.bounds,
            quadratic=quadratic,
        )
        blocks.append(block)
    return blocks
