"""Eigenvalues and eigenvectors of a residual's covariance with products of functions: where pairs start from.

With few functions the covariance is a dense matrix, decomposed as a whole. With many columns that would be cubic in
their number: there the leading eigenvectors come from products of the matrix with vectors, without the matrix; and
pairs of columns that stand out are looked for first, in a few functions of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from ahofm.columns import Codes
from ahofm.columns.basis import Floats, Sparse
from ahofm.kernels.blas import one_blas_thread
from ahofm.kernels.native_engine import weighted_grams
from ahofm.priors.column import ColumnPriors, relative_eigenvalues
from ahofm.tuning.starts import (
    COVARIANCE_ROWS,
    FEWEST_LANCZOS_VECTORS,
    LANCZOS_TOL,
    LEAST_SCREENING_RATIO,
    MOST_DENSE_FUNCTIONS,
    NULL_GRADIENTS,
    SCREENED_FUNCTIONS,
    SCREENED_ROWS,
    START_ROWS,
)

_STRIP = 128
"""Columns whose blocks with all others are in memory at a time."""


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues and eigenvectors of the residual's covariance with products of functions.

    The best rank-F approximation of a sum over pairs of columns is close to the leading eigenvectors of the matrix
    ``C = sum_i gradient_i z_i z_i'`` over the stacked functions z of all columns, without the blocks of a column with
    itself. With many columns these are lost in the noise of all pairs together: where some pairs stand out from all
    others, C has their columns only.

    Attributes
    ----------
    values : array of shape (count,)
        Ascending: all m of them, or the largest where functions are many.
    vectors : array of shape (m, count)
    null_eigenvalue : float
        Mean of the largest eigenvalue with random signs of the gradients: the size that noise alone reaches.
    """

    values: Floats
    vectors: Floats
    null_eigenvalue: float

    @classmethod
    def of(cls, columns: Sequence[ColumnPriors], codes: Codes, gradient: Floats, count: int) -> Spectrum:
        """At gradients (n,): of the loss by each row's linear predictor, negative, over the sum of working weights.

        For least squares these are the weighted residuals. At least ``count`` eigenvectors, as far as there are any.
        """
        stacked, (gradient, codes) = stacked_functions(columns), _thinned(gradient, codes)
        rng = np.random.default_rng(0)  # the same for all fits
        signs = np.array([rng.choice([-1.0, 1.0], len(gradient)) for _ in range(NULL_GRADIENTS)])
        if ends_of(stacked)[-1] <= max(MOST_DENSE_FUNCTIONS, count):
            return cls(*_decomposed(stacked, codes, gradient, signs))
        chosen = screened_columns(columns, codes, gradient, signs)
        if not len(chosen):
            return cls(*_leading(stacked, codes, gradient, signs, count))
        some = [stacked[j] for j in chosen]
        codes = codes.of_columns(chosen)
        if ends_of(some)[-1] <= max(MOST_DENSE_FUNCTIONS, count):
            values, vectors, null = _decomposed(some, codes, gradient, signs)
        else:
            values, vectors, null = _leading(some, codes, gradient, signs, count)
        return cls(values[-count:], _zero_padded(vectors[:, -count:], stacked, chosen), null)

    @property
    def n_above_null(self) -> int:
        """Number of eigenvalues, of those computed, above the null eigenvalue."""
        return int((self.values > self.null_eigenvalue).sum())


def stacked_functions(columns: Sequence[ColumnPriors]) -> list[Floats]:
    """Functions (codes, m) of each column, scaled by ``1 / sqrt(1 + w)``, w the relative eigenvalues of the penalty."""
    scales = [1.0 / np.sqrt(1.0 + relative_eigenvalues(column.penalty_eigenvalues)) for column in columns]
    return [column.start * scale for column, scale in zip(columns, scales, strict=True)]


def ends_of(stacked: Sequence[Floats]) -> NDArray[np.int64]:
    """Where the functions of a column begin and end among all."""
    return np.cumsum([0, *(functions.shape[1] for functions in stacked)])


@dataclass(frozen=True)
class _CovarianceOperator:
    """The matrix C as an operator on vectors, without an array of its size, or of that of all functions at the rows.

    Attributes
    ----------
    stacked : sequence of arrays of shape (codes, functions), one per column
    codes : Codes
    at_codes : sparse array of shape (codes of all columns, m)
        Functions at the codes.
    at_rows : sparse array of shape (n, codes of all columns)
        Which code of each column a row has.
    """

    stacked: Sequence[Floats]
    codes: Codes
    at_codes: Sparse
    at_rows: Sparse

    @classmethod
    def of(cls, stacked: Sequence[Floats], codes: Codes) -> _CovarianceOperator:
        starts = np.cumsum([0, *(len(functions) for functions in stacked)])
        n_rows, p = codes.n_rows, len(stacked)
        places = np.empty((n_rows, p), dtype=np.int32)
        for j, column in enumerate(codes.columns):
            places[:, j] = column
            places[:, j] += starts[j]
        at_rows = sp.csr_array(
            (np.ones(places.size), places.ravel(), np.arange(n_rows + 1) * p), shape=(n_rows, starts[-1])
        )
        return cls(stacked, codes, sp.block_diag(stacked, format="csr"), at_rows)

    @one_blas_thread()
    def leading(self, gradient: Floats, count: int) -> tuple[Floats, Floats]:
        """The ``count`` largest eigenvalues, ascending, and their vectors (m, count)."""
        size = self.at_codes.shape[1]
        if not gradient.any():
            return np.zeros(count), np.eye(size, count)
        blocks = self._diagonal_blocks(gradient)

        def times(vector: Floats) -> Floats:
            weighted = gradient * (self.at_rows @ (self.at_codes @ vector.ravel()))
            return np.asarray(self.at_codes.T @ (self.at_rows.T @ weighted) - blocks @ vector.ravel())

        start = np.cos(np.arange(1.0, size + 1.0) ** 2)  # any fixed one without a pattern
        values, vectors = eigsh(
            LinearOperator((size, size), matvec=times, dtype=np.float64),
            k=count,
            which="LA",
            v0=start,
            ncv=min(size, max(2 * count + 1, FEWEST_LANCZOS_VECTORS)),
            tol=LANCZOS_TOL,
        )
        order = np.argsort(values, kind="stable")
        return values[order], vectors[:, order]

    def _diagonal_blocks(self, gradient: Floats) -> Sparse:
        """The block-diagonal matrix (m, m) of ``sum_i gradient_i z_i z_i'`` over functions of the same column."""
        blocks = []
        for functions, column in zip(self.stacked, self.codes.columns, strict=True):
            sums = np.bincount(column, weights=gradient, minlength=len(functions))
            blocks.append(functions.T @ (sums[:, np.newaxis] * functions))
        return sp.block_diag(blocks, format="csr")


def screened_columns(
    columns: Sequence[ColumnPriors], codes: Codes, gradient: Floats, signs: Floats
) -> NDArray[np.intp]:
    """Columns of the pairs whose block of C exceeds the largest one of gradients with random ``signs`` (count, n).

    A block's size is the root mean square of its entries, for a few of the smoothest functions of each column; it has
    to exceed the mean of the largest ones by the factor ``LEAST_SCREENING_RATIO``.
    """
    step = max(len(gradient) // SCREENED_ROWS, 1)
    gradient, signs, codes = gradient[::step], signs[:, ::step], codes.take(np.arange(0, codes.n_rows, step))
    functions, sizes = [], []
    for column, of_rows in zip(columns, codes.columns, strict=True):
        weight = column.penalty_eigenvalues
        kept = np.argsort(weight, kind="stable")[: SCREENED_FUNCTIONS if weight.any() else None]
        functions.append(column.start[:, kept][of_rows])
        sizes.append(len(kept))
    design, ends = np.hstack(functions), np.cumsum([0, *sizes])
    largest = [_largest_blocks(design, ends, gradient * sign) for sign in (1.0, *signs)]
    bound = LEAST_SCREENING_RATIO * float(np.mean([null.max() for null in largest[1:]]))
    return np.flatnonzero(largest[0] > bound)


@one_blas_thread()
def _largest_blocks(design: Floats, ends: NDArray[np.int64], gradient: Floats) -> Floats:
    """For each column the root mean square of its largest block with another one: (columns,)."""
    sizes, largest = np.diff(ends), np.zeros(len(ends) - 1)
    weighted = gradient[:, np.newaxis] * design
    for first in range(0, len(sizes), _STRIP):
        some = np.arange(first, min(first + _STRIP, len(sizes)))
        strip = weighted[:, ends[first] : ends[some[-1] + 1]].T @ design
        squares = np.add.reduceat(strip**2, ends[:-1], axis=1)
        squares = np.add.reduceat(squares, ends[some] - ends[first], axis=0) / np.outer(sizes[some], sizes)
        squares[np.arange(len(some)), some] = 0.0
        largest[some] = np.sqrt(squares.max(axis=1))
    return largest


def _zero_padded(vectors: Floats, stacked: Sequence[Floats], chosen: NDArray[np.intp]) -> Floats:
    """Vectors over the functions of some columns as vectors over those of all, zero elsewhere."""
    ends = ends_of(stacked)
    padded = np.zeros((ends[-1], vectors.shape[1]))
    padded[np.concatenate([np.arange(ends[j], ends[j + 1]) for j in chosen])] = vectors
    return padded


def _decomposed(
    stacked: Sequence[Floats], codes: Codes, gradient: Floats, signs: Floats
) -> tuple[Floats, Floats, float]:
    """All eigenvalues and eigenvectors, and the null eigenvalue."""
    gradients = gradient * np.array([np.ones_like(gradient), *signs])
    matrix, *null_matrices = _covariances(stacked, codes, gradients, ends_of(stacked))
    values, vectors = np.linalg.eigh(matrix)
    null = float(np.mean([np.linalg.eigvalsh(null_matrix)[-1] for null_matrix in null_matrices]))
    return values, vectors, null


def _leading(
    stacked: Sequence[Floats], codes: Codes, gradient: Floats, signs: Floats, count: int
) -> tuple[Floats, Floats, float]:
    """The leading ``count`` of these."""
    operator = _CovarianceOperator.of(stacked, codes)
    values, vectors = operator.leading(gradient, count)
    return values, vectors, float(np.mean([operator.leading(gradient * sign, 1)[0][-1] for sign in signs]))


def _thinned(gradient: Floats, codes: Codes) -> tuple[Floats, Codes]:
    """Every k-th row, with its gradient multiplied by k: at most about ``START_ROWS`` rows."""
    step = max(len(gradient) // START_ROWS, 1)
    return step * gradient[::step], codes.take(np.arange(0, len(gradient), step))


def _covariances(stacked: Sequence[Floats], codes: Codes, gradients: Floats, ends: NDArray[np.int64]) -> Floats:
    """C (count, m, m) at each of several gradients (count, n), in pieces of rows: all at once take much memory."""
    matrices = np.zeros((len(gradients), ends[-1], ends[-1]))
    for start in range(0, gradients.shape[1], COVARIANCE_ROWS):
        rows = slice(start, start + COVARIANCE_ROWS)
        wide = np.hstack([functions[column[rows]] for functions, column in zip(stacked, codes.columns, strict=True)])
        matrices += weighted_grams(wide, gradients[:, rows])
    for a, b in pairwise(ends):
        matrices[:, a:b, a:b] = 0.0
    return matrices
