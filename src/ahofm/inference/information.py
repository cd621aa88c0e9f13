"""Information about the coordinates of a linear predictor, and the Gaussian posterior under penalties of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import lapack

from ahofm.columns.basis import Floats

_LEAST_PENALTY = 1e-6
"""Fraction of the information: penalty of unpenalised coordinates in Woodbury's formula, which needs proper priors."""

_JITTERS = (1e-10, 1e-7, 1e-4)
"""Fractions of the mean diagonal, added to it: the next one where the Cholesky factorisation fails."""


@dataclass(frozen=True)
class Information:
    """Information about P coordinates: a matrix for Q of them, a diagonal for the others, about which it is small.

    With few rows, their Jacobian gives the information about all coordinates jointly.

    Attributes
    ----------
    matrix : array of shape (Q, Q)
    at : array of int of shape (Q,)
        Coordinates of the matrix, in increasing order.
    diagonal : array of shape (P,)
        Diagonal of the information about all coordinates.
    rows : array of shape (n, P) or None
        Jacobian, each row times the root of its curvature.
    """

    matrix: Floats
    at: NDArray[np.intp]
    diagonal: Floats
    rows: Floats | None = None

    @classmethod
    def whole(cls, matrix: Floats) -> Information:
        """With a matrix for all coordinates."""
        return cls(matrix, np.arange(len(matrix)), np.diag(matrix).copy())

    def times(self, theta: Floats) -> Floats:
        """The product with a vector (P,)."""
        if self.rows is not None:
            return np.asarray(self.rows.T @ (self.rows @ theta))
        product = self.diagonal * theta
        product[self.at] = self.matrix @ theta[self.at]
        return product

    def posterior(self, penalty: Floats, slope: Floats) -> tuple[Floats, Floats]:
        """Variances (P,) and means (P,) of the coordinates under penalties (P,), with slopes (P,) at zero."""
        if self.rows is not None:
            prior, reduction = self._by_rows(penalty)
            variance = prior - np.einsum("ij,ij->j", reduction, reduction)
            return variance, prior * slope - reduction.T @ (reduction @ slope)
        variance = 1.0 / np.maximum(self.diagonal + penalty, np.finfo(float).tiny)
        mean = variance * slope
        root = root_of(self.matrix, penalty[self.at])
        mean[self.at] = scipy.linalg.cho_solve((root, True), slope[self.at], check_finite=False)
        variance[self.at] = np.diag(lapack.dpotri(root, lower=1)[0])
        return variance, mean

    def root(self, penalty: Floats) -> Floats:
        """Lower triangle L (Q, Q): ``(L L')^-1`` is the covariance of the coordinates of the matrix."""
        if self.rows is None:
            return root_of(self.matrix, penalty[self.at])
        prior, reduction = self._by_rows(penalty)
        covariance = np.diag(prior[self.at]) - reduction[:, self.at].T @ reduction[:, self.at]
        scale = np.sqrt(np.diag(covariance))
        inverse = np.linalg.inv(covariance / np.outer(scale, scale))
        return root_of(0.5 * (inverse + inverse.T), np.zeros(len(scale))) / scale[:, np.newaxis]

    def _by_rows(self, penalty: Floats) -> tuple[Floats, Floats]:
        """Prior variances D (P,), and U (n, P) with posterior covariance ``diag(D) - U'U``: Woodbury's formula."""
        if self.rows is None:
            raise ValueError("there are no rows")
        prior = 1.0 / np.maximum(penalty, _LEAST_PENALTY * np.maximum(self.diagonal, np.finfo(float).tiny))
        scaled = self.rows * prior
        root = root_of(scaled @ self.rows.T, np.ones(len(scaled)))
        return prior, np.asarray(scipy.linalg.solve_triangular(root, scaled, lower=True, check_finite=False))


def root_of(information: Floats, penalty: Floats) -> Floats:
    """Lower Cholesky factor of the information plus a diagonal of penalties."""
    mean = (np.trace(information) + penalty.sum()) / len(penalty)
    for jitter in _JITTERS:
        try:
            lifted = information.copy()
            np.einsum("ii->i", lifted)[:] += penalty + jitter * mean
            return np.asarray(scipy.linalg.cholesky(lifted, lower=True, overwrite_a=True, check_finite=False))
        except np.linalg.LinAlgError:
            continue
    raise np.linalg.LinAlgError("the information of the rows is not finite")


def variances(root: Floats) -> Floats:
    """Diagonal (P,) of ``(L L')^-1``, L lower triangular: sums of squares of the columns of its inverse."""
    inverse, _ = lapack.dtrtri(root, lower=1)
    return np.asarray(np.einsum("ij,ij->j", inverse, inverse))


def shifts(information: Floats, slope: Floats, penalty: Floats, at: Sequence[slice]) -> tuple[Floats, Floats]:
    """Steps (Q,) from the fit to the best fit: of main effects with factors held fixed, and of all coordinates jointly.

    ``slope`` (Q,) is the gradient of the penalised log-likelihood at the fit, ``at`` has the main effects' coordinates.
    """
    mains = np.concatenate([[0], *(np.arange(block.start, block.stop) for block in at)]).astype(np.intp)
    row_shift = _step(information, slope, penalty, np.arange(len(penalty)))
    shift = row_shift.copy()
    shift[mains] = _step(information, slope, penalty, mains)[mains]
    return shift, row_shift


def _step(information: Floats, slope: Floats, penalty: Floats, moving: NDArray[np.intp]) -> Floats:
    """Step (Q,) of the coordinates ``moving`` given the others, whose entries are zero."""
    root = root_of(information[np.ix_(moving, moving)], penalty[moving])
    step = np.zeros(len(penalty))
    step[moving] = scipy.linalg.cho_solve((root, True), slope[moving])
    return step
