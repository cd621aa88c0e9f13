"""Functions of one column in a refinement: penalty, cost U of the partners' variance, block solves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.fit.priors.base import Coefficients, FunctionPosterior, Prior
from ahofm.fit.priors.spline import SplinePrior
from ahofm.fit.priors.spline_iid import SplineIIDPrior
from ahofm.fit.solvers.variational.column import ColumnPosterior
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign
from ahofm.fit.solvers.variational.posterior import Posterior
from ahofm.fit.tuning import LEAST_FACTOR_SQUARE
from ahofm.kernels import BlockSums, ColumnSums


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
        return self.prior.solve(self.gram, rhs, self.lam)

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
        function = Functions(
            prior, lam, part, at, columns, own, none, lean[:, columns], ridge[:, columns], block.column.mass, none
        )
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
    return slope[:-1] / noise, np.maximum(ridge[:-1], 0.0) / noise
