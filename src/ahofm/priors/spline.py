"""Penalised splines, or any smooth basis, in coordinates with a diagonal penalty: one dense problem."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import lapack

from ahofm.columns.basis import Floats
from ahofm.priors.base import Coefficients, FunctionPosterior
from ahofm.priors.tensor import TensorMargin, TensorPenalty
from ahofm.tuning import LARGEST_LAM, LARGEST_LOCAL_ERROR, LARGEST_LOCAL_FRACTION, SMALLEST_LAM, SPLINE_JITTER


@dataclass(frozen=True)
class SplinePrior:
    """``lam[group] * relative_penalty * coefficient^2`` for every coordinate.

    Attributes
    ----------
    values : array of shape (codes, m)
        Each coordinate at the codes.
    group : array of shape (m,), integers
        Which smoothing parameter a coordinate has: 0 is that of the first group, and so on.
    relative_penalty : array of shape (m,)
        Penalty of a coordinate, relative to others of its group.
    largest_lam : float
        No smoothing parameter is higher.
    wiggly : array of bool of shape (m,), optional
        Coordinates that are penalised for it; by default those of the first group.
    basis : array of shape (codes, functions), optional
        Functions of which few are not zero at a code, such as B-splines, whose span has the values.
    """

    values: Floats
    group: NDArray[np.intp]
    relative_penalty: Floats
    largest_lam: float = LARGEST_LAM[0]
    wiggly: NDArray[np.bool_] | None = None
    basis: Floats | None = None

    @cached_property
    def local(self) -> tuple[NDArray[np.intp], Floats, Floats] | None:
        """``values = B T`` with few functions that are not zero at a code: places and entries of B, and T.

        Places and entries are (codes, nonzero), T is (functions, m). None where the basis does not span the values, or
        has many functions at each code.
        """
        if self.basis is None:
            return None
        basis = np.column_stack([self.basis, np.eye(len(self.basis))[:, [-1]], np.ones(len(self.basis))])
        for functions in (basis[:, :-2], basis[:, :-1], basis):  # the last code may be that of missing values
            nonzero = int((functions != 0.0).sum(axis=1).max())
            transform = np.asarray(np.linalg.lstsq(functions, self.values, rcond=None)[0], dtype=np.float64)
            exact = np.abs(functions @ transform - self.values).max() <= LARGEST_LOCAL_ERROR * np.abs(self.values).max()
            if exact and nonzero <= LARGEST_LOCAL_FRACTION * self.values.shape[1]:
                places = np.sort(np.argsort(functions == 0.0, axis=1, kind="stable")[:, :nonzero], axis=1)
                return places, np.take_along_axis(functions, places, axis=1), transform
        return None

    @property
    def penalty(self) -> Floats:
        """Diagonal of the penalty (m,): the weights of wiggly coordinates, 0 in the null space."""
        return np.where(self.group == 0 if self.wiggly is None else self.wiggly, self.relative_penalty, 0.0)

    def margin(self, values: Floats, mass: Floats) -> TensorMargin:
        """Functions with those values at the codes, as a margin of tensor products."""
        return TensorMargin(self.values.T @ (mass[:, np.newaxis] * values), self.penalty)

    @property
    def n_groups(self) -> int:
        """Number of smoothing parameters."""
        return int(self.group.max()) + 1

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Smallest and largest smoothing parameters."""
        return np.full(self.n_groups, SMALLEST_LAM), np.full(self.n_groups, self.largest_lam)

    def initial_lam(self, mean_square: float) -> Floats:
        """Smoothing parameters for functions of that mean square; the first group (wiggly) is shrunk most."""
        lam = np.full(self.n_groups, 0.5 / mean_square)
        lam[0] *= 2.0
        return lam

    def solve(
        self, gram: Floats, rhs: Floats, lam: Floats, tensor_penalty: TensorPenalty | None = None
    ) -> FunctionPosterior:
        """The posterior of K functions."""
        return self.solve_right_hand_sides(gram, rhs[:, :, np.newaxis], lam, tensor_penalty)[0]

    def penalty_gradient(self, coef: Coefficients, lam: Floats) -> Coefficients:
        """Half the gradient of the penalty by each coefficient."""
        assert coef.smooth is not None
        return Coefficients(lam[self.group] * self.relative_penalty[:, np.newaxis] * coef.smooth, None)

    def zero_coefficients(self, width: int) -> Coefficients:
        """Coordinates of zero."""
        return Coefficients(np.zeros((self.values.shape[1], width)), None)

    def solve_right_hand_sides(
        self, gram: Floats, rhs: Floats, lam: Floats, tensor_penalty: TensorPenalty | None = None
    ) -> tuple[FunctionPosterior, Floats]:
        """The posterior for the first of several right-hand sides (codes, K, count), and all coefficients."""
        m, width = self.values.shape[1], gram.shape[1]
        factor = self._factored(gram, lam, tensor_penalty)
        right = np.tensordot(self.values, rhs, axes=(0, 0)).reshape(m * width, -1)
        coef = scipy.linalg.cho_solve((factor, True), right, check_finite=False).reshape(m, width, -1)
        covariance, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        variances = np.diag(covariance).reshape(m, width)
        edf = self._group_sizes[:, np.newaxis] - lam * (self._group_weights @ variances)
        quadratic_form = self.quadratic_forms(coef[:, :, 0])
        variance = self._variance(covariance, width)
        posterior = FunctionPosterior(self.values @ coef[:, :, 0], variance, coef[:, :, 0], None, edf, quadratic_form)
        return posterior, coef

    def mean(self, gram: Floats, rhs: Floats, lam: Floats) -> Floats:
        """Posterior means of the coefficients alone, (m, K): a third of the time of :meth:`solve`."""
        factor = self._factored(gram, lam, None)
        right = (self.values.T @ rhs).ravel()
        coef = scipy.linalg.cho_solve((factor, True), right, check_finite=False)
        return np.asarray(coef.reshape(self.values.shape[1], gram.shape[1]))

    def _factored(self, gram: Floats, lam: Floats, tensor_penalty: TensorPenalty | None) -> Floats:
        """Lower Cholesky factor of the posterior precision of all coefficients, (m K, m K)."""
        m, width = self.values.shape[1], gram.shape[1]
        penalty = lam[self.group] * self.relative_penalty[:, np.newaxis]
        matrix = self._gram(gram)
        diagonal = np.einsum("ii->i", matrix)
        diagonal += penalty.ravel() + SPLINE_JITTER * diagonal.mean()
        if tensor_penalty is not None:
            penalty, rank = self.penalty[:, np.newaxis, np.newaxis], tensor_penalty.rank
            diagonal_blocks = np.einsum("afag->afg", matrix.reshape(m, width, m, width))
            diagonal_blocks[:, :rank, :rank] += np.where(
                penalty > 0.0, penalty * tensor_penalty.penalised, tensor_penalty.null
            )
        factor, failed = lapack.dpotrf(matrix, lower=1, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError("the smooth block is not positive definite")
        return np.asarray(factor)

    def quadratic_forms(self, coef: Floats) -> Floats:
        """The quadratic form of each group: (groups, K)."""
        return np.asarray(self._group_weights @ coef**2)

    @cached_property
    def _group_weights(self) -> Floats:
        """Weight of each coordinate in its group: (groups, m)."""
        in_group = np.arange(self.n_groups)[:, np.newaxis] == self.group
        return np.where(in_group, self.relative_penalty, 0.0)

    @cached_property
    def _group_sizes(self) -> Floats:
        """Coordinates of each group."""
        return np.bincount(self.group, minlength=self.n_groups).astype(float)

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
        """Pairs a >= b of coordinates, and their products at the codes: (pairs, codes)."""
        a, b = np.tril_indices(self.values.shape[1])
        return a, b, np.ascontiguousarray((self.values[:, a] * self.values[:, b]).T)

    def _gram(self, gram: Floats) -> Floats:
        """``sum_b values_b values_b' (x) gram_b``: the products over codes are one matrix product."""
        m, width = self.values.shape[1], gram.shape[1]
        _, _, products = self._pairs
        f, g = _lower(width)
        packed = products @ gram[:, f, g]
        return np.asarray(packed.ravel()[_unpacked(m, width)])

    def _variance(self, covariance: Floats, width: int) -> Floats:
        """Of each function at each code, from the lower triangle of the coefficients' covariance."""
        m = self.values.shape[1]
        a, b, products = self._pairs
        covariances = np.einsum("afbf->abf", covariance.reshape(m, width, m, width))[a, b]
        covariances[a != b] *= 2.0
        return np.asarray(np.maximum(products.T @ covariances, 0.0))


@lru_cache(maxsize=64)
def _lower(width: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Places of a lower triangle."""
    return np.tril_indices(width)


@lru_cache(maxsize=64)
def _unpacked(m: int, width: int) -> NDArray[np.intp]:
    """Places of all entries of a matrix (m width, m width) in products of lower triangles (pairs of m, of width)."""
    places = []
    for size in (m, width):
        a, b = np.tril_indices(size)
        at = np.empty((size, size), dtype=np.intp)
        at[a, b] = at[b, a] = np.arange(len(a))
        places.append(at)
    outer, inner = places
    count = width * (width + 1) // 2
    places_of_all = outer[:, np.newaxis, :, np.newaxis] * count + inner[np.newaxis, :, np.newaxis, :]
    return np.ascontiguousarray(places_of_all.reshape(m * width, m * width))
