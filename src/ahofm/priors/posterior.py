"""Posterior of one column's functions in a linear predictor, and the exact solve that updates it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.backends import FailedError
from ahofm.columns import known_codes
from ahofm.columns.basis import Floats
from ahofm.kernels import BlockSums
from ahofm.orders import FACTORS, MAIN, factors_of
from ahofm.priors.arrays import function_posteriors, posterior_arrays, prior_arrays
from ahofm.priors.base import FunctionPosterior, bounded, concatenated, decoupled, with_zeros, zero_posterior
from ahofm.priors.bounds import Bounds
from ahofm.priors.column import ColumnPriors
from ahofm.priors.fellner_schall import updated_by_order
from ahofm.priors.iid import IIDPrior
from ahofm.priors.spline import SplinePrior
from ahofm.priors.tensor import TensorMargin, TensorPenalty
from ahofm.tuning import (
    COLUMN_JITTERS,
    LARGEST_FACTOR_VALUE,
    LARGEST_RARE_FACTOR_VALUE,
    LEAST_START_SQUARE,
    RARE_CODE_ROWS,
)
from ahofm.tuning.numerics import LEAST_MAIN_SQUARE
from ahofm.tuning.products import CONSTANT_PRECISION, LEAST_PRODUCT_SCALE


@dataclass
class ColumnPosterior:
    """Posterior of one column: main effect, then factors, with their smoothing parameters.

    Attributes
    ----------
    column : ColumnPriors
    relative_bounds : array of shape (codes,)
        Bounds of factors, in units of their root mean square.
    mean, variance : arrays of shape (codes + 1, 1 + factors)
        At the codes; the last row is the neutral code.
    main_lam, lam : arrays of shape (groups, 1) and (groups, factors)
        Smoothing parameters of the main effect and of each factor; a group of coefficients has one.
    main, factors : FunctionPosterior or None
        None before the first solve.
    constants : array of shape (rank of product factors,)
        Of product factors, which come last: each of their functions is a constant and a function as any factor has.
        ``mean`` and ``variance`` are of both together, ``factors`` is without the constants.
    left_out : array of bool of shape (factors,), or None
        Factors in which the column has no function: it is zero there, and the constant one in product factors. None
        where there are no such factors.
    """

    column: ColumnPriors
    relative_bounds: Floats
    mean: Floats
    variance: Floats
    main_lam: Floats
    lam: Floats
    main: FunctionPosterior | None = None
    factors: FunctionPosterior | None = None
    constants: Floats = field(default_factory=lambda: np.zeros(0))
    left_out: NDArray[np.bool_] | None = None

    @classmethod
    def empty(cls, column: ColumnPriors, n_rows: int, square: float) -> ColumnPosterior:
        """Without functions; the initial smoothing parameter is for a main effect of mean square ``square``."""
        none = np.zeros((column.book.n_codes, 1))
        relative_bounds = np.where(
            column.mass * n_rows < RARE_CODE_ROWS, LARGEST_RARE_FACTOR_VALUE, LARGEST_FACTOR_VALUE
        )
        lam = column.main.initial_lam(max(square, LEAST_MAIN_SQUARE))[:, np.newaxis]
        return cls(column, relative_bounds, none, none, lam, np.zeros((column.factors.n_groups, 0)))

    def with_column(self, column: ColumnPriors) -> ColumnPosterior:
        """The same main effect, with the priors of another candidate."""
        return replace(self, column=column, lam=np.zeros((column.factors.n_groups, 0)))

    def with_factors(
        self, start: Floats, constants: Floats | None = None, left_out: NDArray[np.bool_] | None = None
    ) -> ColumnPosterior:
        """With more factors: values ``start`` (codes, rank), variance 0; product factors have ``constants`` (rank,)."""
        rank = start.shape[1]
        if left_out is not None:
            before = np.zeros(self.mean.shape[1] - 1, dtype=bool) if self.left_out is None else self.left_out
            left_out = np.concatenate([before, left_out])
        start = np.vstack([start, np.zeros((1, rank))])  # the neutral code
        squares = self.column.mass @ known_codes(start) ** 2
        if left_out is not None:
            squares = squares[~left_out[len(left_out) - rank :]]
        square = max(float(squares.mean()) if len(squares) else 0.0, LEAST_START_SQUARE)
        lam = np.tile(self.column.factors.initial_lam(square)[:, np.newaxis], rank)
        return replace(
            self,
            mean=np.hstack([self.mean, start if constants is None else start + constants]),
            variance=np.hstack([self.variance, np.zeros_like(start)]),
            lam=np.hstack([self.lam, lam]),
            constants=self.constants if constants is None else np.concatenate([self.constants, constants]),
            left_out=left_out,
        )

    @property
    def bounds(self) -> Bounds | None:
        """Bounds of its factors; None for a basis that cannot represent any bounded values."""
        return Bounds(self.column.mass, self.relative_bounds) if self.column.saturated else None

    @property
    def product_scale(self) -> Floats:
        """Root mean squares (rank,) of the functions of product factors; 1 where they have vanished."""
        rank = len(self.constants)
        scale = np.sqrt(self.column.mass @ known_codes(self.mean)[:, self.mean.shape[1] - rank :] ** 2)
        kept = scale > LEAST_PRODUCT_SCALE
        if self.left_out is not None:
            kept &= ~self.left_out[len(self.left_out) - rank :]
        return np.where(kept, scale, 1.0)

    def rescaled(self, scale: Floats) -> ColumnPosterior:
        """The posterior with functions of product factors divided by ``scale`` (rank,)."""
        scales = np.ones(self.mean.shape[1])
        scales[len(scales) - len(scale) :] = scale
        factors = (
            None if self.factors is None else self.factors.rescaled(factors_of(scales)[: self.factors.mean.shape[1]])
        )
        mean, variance = self.mean / scales, self.variance / scales**2
        return replace(self, mean=mean, variance=variance, factors=factors, constants=self.constants / scale)

    def only(self, which: NDArray[np.intp]) -> ColumnPosterior:
        """The posterior with a selection of the factors."""
        assert self.factors is not None
        columns = np.append(MAIN, factors_of(np.arange(self.mean.shape[1]))[which])
        mean, variance = (np.ascontiguousarray(moment[:, columns]) for moment in (self.mean, self.variance))
        factors, lam = self.factors.only(which), self.lam[:, which]
        left_out = None if self.left_out is None else self.left_out[which]
        return replace(self, mean=mean, variance=variance, factors=factors, lam=lam, left_out=left_out)

    def solved(
        self,
        sums: BlockSums,
        dispersion: float,
        ranks: Sequence[int],
        *,
        update_lam: bool,
        damping: float = 0.0,
        tensor_penalty: TensorPenalty | None = None,
    ) -> ColumnPosterior:
        """After an exact solve: the main effect given the factors, then the factors given the main effect.

        Parameters
        ----------
        sums : BlockSums
            Sums over the rows per code, ``gram`` (codes + 1, 1 + factors, 1 + factors) and ``rhs``.
        dispersion : float
            Divides both.
        ranks : sequence of int
            Numbers of factors of the orders; factors of one order share smoothing parameters.
        update_lam : bool
            Whether smoothing parameters are updated after the solve.
        damping : float
            This multiple of the curvature of the losses is added to it, around the present means (Levenberg–Marquardt);
            smoothing parameters are not updated then.
        tensor_penalty : TensorPenalty, optional
            Of the factors of pairs, given the partners.
        """
        if not (np.isfinite(sums.gram).all() and np.isfinite(sums.rhs).all()):
            raise FailedError("sums over rows are not finite")
        for jitter in COLUMN_JITTERS:
            gram, rhs = known_codes(sums.gram) / dispersion, known_codes(sums.rhs) / dispersion
            diagonal = np.einsum("bff->bf", gram)
            if damping:
                rhs += damping * diagonal * known_codes(self.mean)
                diagonal *= 1.0 + damping
            diagonal += jitter * diagonal.mean(axis=1, keepdims=True)
            try:
                return self._solved(gram, rhs, ranks, tensor_penalty, update_lam=update_lam and not damping)
            except (ValueError, np.linalg.LinAlgError):
                continue
        raise FailedError("a block is not positive definite")

    def without_unsolved(self) -> ColumnPosterior:
        """The posterior of the last solve; functions that have initial values only, never solved, are zero."""
        main, factors, codes, width = self.main, self.factors, len(self.mean) - 1, self.mean.shape[1]
        if main is None:
            main = zero_posterior(self.column.main, codes, 1)
        n_solved = 1 if factors is None else 1 + factors.mean.shape[1]
        if n_solved == width:
            return replace(self, main=main)
        unsolved = zero_posterior(self.column.factors, codes, width - n_solved)
        mean, variance = self.mean.copy(), self.variance.copy()
        dropped = np.arange(width) >= n_solved
        if self.left_out is not None:
            dropped[1:] &= ~self.left_out  # functions that are fixed at zero
        mean[:, dropped] = variance[:, dropped] = 0.0
        factors = unsolved if factors is None else concatenated(factors, unsolved)
        constants = np.where(dropped[width - len(self.constants) :], 0.0, self.constants)
        return replace(self, mean=mean, variance=variance, main=main, factors=factors, constants=constants)

    def prior_arrays(self) -> dict[str, Any]:
        """Constant arrays of the column for a sweeper: see ``ahofm.backends.SweepArrays``."""
        column = self.column
        return {
            "n_codes": column.book.n_codes,
            "mass": column.mass,
            "relative_bounds": self.relative_bounds,
            "bounded": column.saturated,
            "left_out": None if self.left_out is None else self.left_out.astype(np.float64),
            "main": prior_arrays(column.main),
            "factors": prior_arrays(column.factors),
        }

    def arrays(self) -> dict[str, Any]:
        """Copies of the arrays that a sweeper changes."""
        return {
            "mean": np.array(self.mean, order="C"),
            "variance": np.array(self.variance, order="C"),
            "main_lam": self.main_lam[:, 0].copy(),
            "lam": np.array(self.lam, order="C"),
            "constants": self.constants.copy(),
            **posterior_arrays(self.column, self.mean.shape[1] - 1, self.main, self.factors),
        }

    def with_arrays(self, arrays: Mapping[str, Any], solved: int) -> ColumnPosterior:
        """The posterior with the arrays of a sweeper; functions that have not been solved have none."""
        main, factors = function_posteriors(self.column, arrays, solved)
        constants = arrays["constants"]
        if factors is not None and len(constants) and factors.mean.shape[1] == arrays["mean"].shape[1] - 1:
            factors = replace(factors, mean=_plus_constants(factors.mean, -constants))
        return ColumnPosterior(
            self.column,
            self.relative_bounds,
            arrays["mean"],
            arrays["variance"],
            arrays["main_lam"][:, np.newaxis],
            arrays["lam"],
            main,
            factors,
            constants,
            self.left_out,
        )

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
        self, gram: Floats, rhs: Floats, ranks: Sequence[int], tensor_penalty: TensorPenalty | None, *, update_lam: bool
    ) -> ColumnPosterior:
        mean, variance = self.mean.copy(), self.variance.copy()
        values, variances = known_codes(mean), known_codes(variance)
        by_factors = np.einsum("bf,bf->b", gram[:, MAIN, FACTORS], values[:, FACTORS])
        main_sums = gram[:, MAIN, MAIN, np.newaxis, np.newaxis], (rhs[:, MAIN] - by_factors)[:, np.newaxis]
        main = self.column.main.solve(*main_sums, self.main_lam)
        values[:, MAIN], variances[:, MAIN] = main.mean[:, 0], main.variance[:, 0]
        factors, constants = None, self.constants
        if mean.shape[1] > 1:
            factor_rhs = rhs[:, FACTORS] - gram[:, FACTORS, MAIN] * main.mean
            factor_gram = gram[:, FACTORS, FACTORS]
            constant_variance = np.zeros(len(constants))
            if len(constants):
                constants, constant_variance = self._constants(
                    factor_gram, factor_rhs, _plus_constants(values[:, FACTORS], -constants)
                )
                factor_rhs -= factor_gram[:, :, factor_rhs.shape[1] - len(constants) :] @ constants
            factors = self._factors(factor_gram, factor_rhs, tensor_penalty)
            if self.bounds is not None:
                factors = bounded(factors, self.bounds)
            values[:, FACTORS] = _plus_constants(factors.mean, constants)
            variances[:, FACTORS] = _plus_constants(factors.variance, constant_variance)
            mean[-1, mean.shape[1] - len(constants) :] = constants
        block = replace(self, mean=mean, variance=variance, main=main, factors=factors, constants=constants)
        if update_lam:
            block.main_lam = updated_by_order(self.column.main, main, self.main_lam, [1])
        if update_lam and factors is not None:
            block.lam = updated_by_order(self.column.factors, factors, self.lam, ranks)
            if tensor_penalty is not None:  # the smoothing parameters of pairs are not the column's
                block.lam[:, : tensor_penalty.rank] = self.lam[:, : tensor_penalty.rank]
        return block

    def _factors(self, gram: Floats, rhs: Floats, tensor_penalty: TensorPenalty | None) -> FunctionPosterior:
        """Posterior of the factors, of pairs under a tensor-product penalty where there is one.

        That penalty prunes pairs by itself: variances of their factors, which prune otherwise, are set to zero.
        """
        prior, lam, left_out = self.column.factors, self.lam, self.left_out
        if tensor_penalty is None or not isinstance(prior, (SplinePrior, IIDPrior)):
            return self._solved_without_tensor_penalty(gram, rhs, lam)
        pairs = slice(0, tensor_penalty.rank)
        gram, lam = gram.copy(), lam.copy()
        gram[:, pairs, pairs] += self.column.mass[:, np.newaxis, np.newaxis] * tensor_penalty.all
        lam[:, pairs] = prior.bounds[0][:, np.newaxis]
        if left_out is not None:
            gram, rhs = decoupled(gram, rhs, left_out)
            tensor_penalty = tensor_penalty.decoupled(left_out[pairs])
        posterior = prior.solve(gram, rhs, lam, tensor_penalty)
        posterior.variance[:, pairs] = 0.0
        return posterior if left_out is None else with_zeros(posterior, left_out)

    def _solved_without_tensor_penalty(self, gram: Floats, rhs: Floats, lam: Floats) -> FunctionPosterior:
        """Factors under the column's prior alone; those in which it has no function are not part of the solve."""
        if self.left_out is None:
            return self.column.factors.solve(gram, rhs, lam)
        return with_zeros(self.column.factors.solve(*decoupled(gram, rhs, self.left_out), lam), self.left_out)

    def _constants(self, gram: Floats, rhs: Floats, functions: Floats) -> tuple[Floats, Floats]:
        """Means and variances (rank,) of the constants of product factors given the functions (codes, factors).

        ``precision = sum_b gram_b + CONSTANT_PRECISION I`` and ``mean = precision^-1 sum_b (rhs_b - gram_b f_b)``, with
        the block of product factors; constants of columns without a function in a factor are fixed.
        """
        rank = len(self.constants)
        products = slice(gram.shape[1] - rank, None)
        residual = rhs[:, products] - np.einsum("bfg,bg->bf", gram[:, products], functions)
        precision = gram[:, products, products].sum(axis=0) + CONSTANT_PRECISION * np.eye(rank)
        if self.left_out is None:
            covariance = np.linalg.inv(precision)
            return covariance @ residual.sum(axis=0), np.diag(covariance).copy()
        estimated = ~self.left_out[products]
        mean, variance = self.constants.copy(), np.zeros(rank)
        covariance = np.linalg.inv(precision[np.ix_(estimated, estimated)])
        mean[estimated] = covariance @ (residual.sum(axis=0) - precision[:, ~estimated] @ mean[~estimated])[estimated]
        variance[estimated] = np.diag(covariance)
        return mean, variance


def _plus_constants(values: Floats, constants: Floats) -> Floats:
    """Values (codes, factors), the last of them plus the constants (rank,) of product factors."""
    return np.asarray(values + np.concatenate([np.zeros(values.shape[1] - len(constants)), constants]))
