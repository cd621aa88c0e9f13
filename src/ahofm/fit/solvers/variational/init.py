"""Where factors of a new order start. The iteration finds a local optimum; a start near the signal decides which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codes
from ahofm.columns.basis import Floats
from ahofm.families.links import quiet
from ahofm.fit.solvers.variational.working import LossDerivatives, Response
from ahofm.model.shares import symmetric
from ahofm.priors.column import ColumnPriors
from ahofm.tuning import START_HALVINGS, START_ROWS, START_STD, UNSUPPORTED_START


def random_factors(columns: Sequence[ColumnPriors], rank: int, std: float, rng: np.random.Generator) -> list[Floats]:
    """Smooth random functions at the codes, (codes, rank) per column."""
    factors = []
    for column in columns:
        size = 1.0 / np.sqrt(1.0 + 10.0 * _relative(column.stiffness))
        coef = rng.normal(size=(len(size), rank)) * size[:, np.newaxis]
        factors.append(column.start @ coef * (START_STD * std))
    return factors


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues and eigenvectors of the residual's covariance with products of functions.

    The best rank-F approximation of a sum over pairs of columns is close to the leading eigenvectors of the matrix
    ``C = sum_i gradient_i z_i z_i'`` over the stacked functions z of all columns, without the blocks of a column with
    itself.

    Attributes
    ----------
    values : array of shape (m,)
        Ascending.
    vectors : array of shape (m, m)
    noise : float
        The highest eigenvalue that gradients of random sign reach, on average.
    """

    values: Floats
    vectors: Floats
    noise: float

    @classmethod
    def of(cls, columns: Sequence[ColumnPriors], codes: Codes, gradient: Floats) -> Spectrum:
        """At gradients (n,): of the loss by each row's linear predictor, negative, over the sum of working weights.

        For least squares these are the weighted residuals.
        """
        stacked = _stacked(columns)
        ends = _ends(stacked)
        gradient, codes = _thinned(gradient, codes)
        values, vectors = np.linalg.eigh(_covariance(stacked, codes, gradient, ends))
        noise = _noise(stacked, codes, gradient, ends, np.random.default_rng(0))  # the same for all fits
        return cls(values, vectors, noise)

    @property
    def n_found(self) -> int:
        """How many eigenvalues are more than random signs reach."""
        return int((self.values > self.noise).sum())


def spectral_factors(
    columns: Sequence[ColumnPriors],
    spectrum: Spectrum,
    rank: int,
    std: float,
    rng: np.random.Generator,
    *,
    most: float,
) -> list[Floats]:
    """Pairwise factors from leading eigenvectors: (codes, rank) per column.

    Eigenvalues that gradients of random sign reach as well start small.

    Parameters
    ----------
    std : float
        Standard deviation of the residual; a tenth of it is added at random.
    most : float
        No eigenvalue counts for more.
    """
    stacked = _stacked(columns)
    ends, values = _ends(stacked), spectrum.values
    values = np.minimum(np.where(values > spectrum.noise, values, UNSUPPORTED_START * values), most)
    count = min(rank, len(values))
    values, vectors = values[::-1][:count], spectrum.vectors[:, ::-1][:, :count]
    leading = vectors * np.sqrt(np.maximum(values, 0.0))
    factors = random_factors(columns, rank, 0.1 * std, rng)
    for j, part in enumerate(stacked):
        factors[j][:, :count] += part @ leading[ends[j] : ends[j + 1]]
    return factors


def _stacked(columns: Sequence[ColumnPriors]) -> list[Floats]:
    """Functions at the codes, stiff ones smaller."""
    scales = [1.0 / np.sqrt(1.0 + _relative(column.stiffness)) for column in columns]
    return [column.start * scale for column, scale in zip(columns, scales, strict=True)]


def _ends(stacked: Sequence[Floats]) -> NDArray[np.int64]:
    """Where the functions of a column begin and end among all."""
    return np.cumsum([0, *(part.shape[1] for part in stacked)])


def _thinned(gradient: Floats, codes: Codes) -> tuple[Floats, Codes]:
    """Every so many rows, each for all of them."""
    step = max(len(gradient) // START_ROWS, 1)
    return step * gradient[::step], codes.take(np.arange(0, len(gradient), step))


def _covariance(stacked: Sequence[Floats], codes: Codes, gradient: Floats, ends: NDArray[np.int64]) -> Floats:
    """C, block by block, in pieces of rows that fit the cache."""
    matrix = np.zeros((ends[-1], ends[-1]))
    for start in range(0, len(gradient), 4096):
        rows = slice(start, start + 4096)
        wide = np.hstack([part[column[rows]] for part, column in zip(stacked, codes.columns, strict=True)])
        matrix += (wide * gradient[rows, np.newaxis]).T @ wide
    for a, b in pairwise(ends):
        matrix[a:b, a:b] = 0.0
    return matrix


def _noise(
    stacked: Sequence[Floats], codes: Codes, gradient: Floats, ends: NDArray[np.int64], rng: np.random.Generator
) -> float:
    """The highest eigenvalue where there is nothing to find: residuals with random signs, on average."""
    tops = []
    for _ in range(3):
        signs = rng.choice([-1.0, 1.0], len(gradient))
        tops.append(np.linalg.eigvalsh(_covariance(stacked, codes, gradient * signs, ends))[-1])
    return float(np.mean(tops))


def _relative(stiffness: Floats) -> Floats:
    stiff = stiffness > 0.0
    return stiffness / stiffness[stiff].mean() if stiff.any() else stiffness


def harmless(
    columns: Sequence[ColumnPriors],
    codes: Codes,
    response: Response,
    derivatives: LossDerivatives,
    k: int,
    order: int,
    factors: Sequence[Floats],
    most: float,
) -> list[Floats]:
    """Factors whose terms have at most that standard deviation, and raise the loss by a twentieth at most."""
    squares = np.array([column.mass @ part**2 for column, part in zip(columns, factors, strict=True)])
    size = float(np.sqrt(symmetric(squares, order).sum()))
    values = np.stack([part[own] for part, own in zip(factors, codes.columns, strict=True)])
    terms, scale = symmetric(values, order).sum(axis=1), min(1.0, most / size if size > 0.0 else 1.0)
    for _ in range(START_HALVINGS):
        eta = derivatives.eta.copy()
        eta[:, k] += scale * terms
        with quiet():
            if response.remaining(response.derivatives(eta)) <= response.remaining(derivatives) + 0.05:
                break
        scale *= 0.5
    return [scale ** (1.0 / order) * part for part in factors]
