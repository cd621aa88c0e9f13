"""Tensor-product smoothing of pairs: smoothing parameters belong to pairs of columns, not to factors.

The surface of columns j and k is ``C = B_j B_k'``, with B the coefficients of their factors in coordinates that are
orthonormal under the rows. Its prior is that of a tensor product smooth: a marginal penalty along each column, and a
ridge on the null space of both,

    sum_ab (margin_jk w_a + margin_kj w_b + null_jk [w_a = w_b = 0]) C_ab^2

with w the diagonal of a column's marginal penalty, 0 in its null space. Given the partners it is quadratic in B_j, so
that a column is still solved exactly, with matrices between its factors where single smoothing parameters would be
(N selects the null space):

    w (x) sum_k margin_jk B_k'B_k  +  N (x) sum_k null_jk B_k' N B_k  +  1 (x) sum_k margin_kj B_k' w B_k

With enough factors this is the exact fit of all surfaces. Smoothing parameters follow from the generalised
Fellner–Schall rule, with the variances that coefficients would have if the columns were independent: no rows, and no
matrix of all surfaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.priors.edf import lam_with_edf
from ahofm.priors.fellner_schall import updated
from ahofm.tuning import (
    FIRST_SURFACE_STEPS,
    INITIAL_SURFACE_EDF_PER_COEFFICIENT,
    INITIAL_SURFACE_EDF_PER_ROW,
    LARGEST_FIRST_SURFACE_LAM_RATIO,
    LARGEST_LAM_RATIO,
    LARGEST_SURFACE_EDF_PER_ROW,
    LARGEST_SURFACE_LAM,
    LEAST_EDF_OF_SURFACE,
    LEAST_QUADRATIC_FORM_OF_SURFACE,
    MOST_SURFACE_PRECISION,
    SMALLEST_LAM,
)
from ahofm.tuning.numerics import SURFACE_LAM_HALVINGS


@dataclass(frozen=True)
class TensorMargin:
    """Margin of tensor products: the coefficients of one column's factors.

    Attributes
    ----------
    coef : array of shape (coordinates, factors)
        B, in coordinates that are orthonormal under the rows.
    penalty : array of shape (coordinates,)
        w, the diagonal of the marginal penalty; 0 in its null space.
    """

    coef: Floats
    penalty: Floats

    @cached_property
    def gram(self) -> Floats:
        """``B'B``."""
        return np.asarray(self.coef.T @ self.coef)

    @cached_property
    def penalised_gram(self) -> Floats:
        """``B' w B``."""
        return np.asarray(self.coef.T @ (self.penalty[:, np.newaxis] * self.coef))

    @cached_property
    def null_gram(self) -> Floats:
        """``B' N B``: that of the null space of the penalty."""
        null = self.coef[self.penalty == 0.0]
        return np.asarray(null.T @ null)


@dataclass(frozen=True)
class TensorPenalty:
    """Penalty matrices (rank, rank) between the first factors of a column, given its partners.

    ``penalised`` is multiplied by the marginal penalty of a coordinate, ``null`` is that of coordinates in its null
    space, ``all`` that of all coordinates.
    """

    penalised: Floats
    null: Floats
    all: Floats

    @property
    def rank(self) -> int:
        """Number of factors of pairs."""
        return len(self.penalised)

    def decoupled(self, left_out: NDArray[np.bool_]) -> TensorPenalty:
        """Without penalties between some factors and the others."""
        both = ~(left_out[:, np.newaxis] | left_out) | np.eye(len(left_out), dtype=bool)
        return TensorPenalty(self.penalised * both, self.null * both, self.all * both)


@dataclass(frozen=True)
class TensorSmoothing:
    """Smoothing parameters of the tensor products of all pairs of columns.

    Attributes
    ----------
    margin_lam : array of shape (p, p)
        ``margin_lam[j, k]``: of the marginal penalty of column j, in its surface with column k.
    null_lam : array of shape (p, p)
        Of coefficients in the null spaces of both penalties; symmetric.
    edf : float
        Effective degrees of freedom of all surfaces; 0 until smoothing parameters have been learned.
    age : int
        Number of updates of the smoothing parameters.
    """

    margin_lam: Floats
    null_lam: Floats
    edf: float = 0.0
    age: int = 0

    @classmethod
    def start(cls, margins: Sequence[TensorMargin], information: float, n_rows: float) -> TensorSmoothing:
        """Initial values: one smoothing parameter of all pairs, relative to the columns' least positive penalties.

        It is that at which all surfaces together have ``INITIAL_SURFACE_EDF_PER_ROW`` effective degrees of freedom per
        row or, if that is less, ``INITIAL_SURFACE_EDF_PER_COEFFICIENT`` per coefficient.
        """
        units = np.repeat(_lam_units(margins)[:, np.newaxis], len(margins), axis=1)
        coefficients = sum(len(pairs.margin.penalty) * len(pairs.others.penalty) for pairs in _pairs(margins))
        most = min(INITIAL_SURFACE_EDF_PER_ROW * n_rows, INITIAL_SURFACE_EDF_PER_COEFFICIENT * coefficients)
        unit = cls(units, np.ones_like(units))  # precisions are proportional to the one parameter
        precision = np.concatenate([unit._precision(pairs).ravel() for pairs in _pairs(margins)])
        low, high = np.log([[SMALLEST_LAM], [LARGEST_SURFACE_LAM]])
        with np.errstate(divide="ignore", over="ignore"):  # losses that are flat have hardly any information
            ratios = precision[np.newaxis] / information
        (lam,) = lam_with_edf(ratios, np.array([most]), low, high, SURFACE_LAM_HALVINGS)
        return cls(lam * units, np.full_like(units, lam))

    def _precision(self, pairs: _Pairs) -> Floats:
        """Prior precision of every coefficient of the surfaces of one column with all after it."""
        j, k = pairs.j, pairs.partners
        return pairs.precision(np.array([self.margin_lam[j, k], self.margin_lam[k, j], self.null_lam[j, k]]))

    def tensor_penalty(self, margins: Sequence[TensorMargin], j: int) -> TensorPenalty:
        """Tensor-product penalty of column j's factors, given its partners."""
        others = [k for k in range(len(margins)) if k != j]
        penalised = sum(self.margin_lam[j, k] * margins[k].gram for k in others)
        null = sum(self.null_lam[j, k] * margins[k].null_gram for k in others)
        total = sum(self.margin_lam[k, j] * margins[k].penalised_gram for k in others)
        return TensorPenalty(np.asarray(penalised), np.asarray(null), np.asarray(total))

    def updated(self, margins: Sequence[TensorMargin], information: float) -> TensorSmoothing:
        """One step of the Fellner–Schall rule for the smoothing parameters of all pairs.

        A coefficient of prior precision ``d = sum_m lam_m s_m`` has the posterior variance ``1 / (i + d)``, i being the
        information of the rows, as if columns were independent; ``edf_m = lam_m sum s_m (1 / d - 1 / (i + d))``.
        First steps up are smaller than steps down: coefficients of weak surfaces take several sweeps to grow.
        """
        margin_lam, null_lam, total_edf = self.margin_lam.copy(), self.null_lam.copy(), 0.0
        first = self.age < FIRST_SURFACE_STEPS
        largest_increase = LARGEST_FIRST_SURFACE_LAM_RATIO if first else LARGEST_LAM_RATIO
        lam_units = _lam_units(margins)
        least = LEAST_EDF_OF_SURFACE, LEAST_QUADRATIC_FORM_OF_SURFACE
        for pairs in _pairs(margins):
            j, k = pairs.j, pairs.partners
            squares = pairs.squares()
            lam = np.array([margin_lam[j, k], margin_lam[k, j], null_lam[j, k]])
            quadratic_form = np.array([pairs.sums(form * squares) for form in pairs.forms])
            precision = pairs.precision(lam)
            reduction = information / (precision * (information + precision))  # prior minus posterior variance
            edf = lam * np.array([pairs.sums(form * reduction) for form in pairs.forms])
            units = np.array([np.full(len(k), lam_units[j]), lam_units[k], np.ones(len(k))])
            most = information * MOST_SURFACE_PRECISION * units
            bounds = SMALLEST_LAM, np.clip(most, SMALLEST_LAM, LARGEST_SURFACE_LAM)
            lam = updated(lam, edf, quadratic_form, bounds, largest_increase=largest_increase, least=least)
            margin_lam[j, k], margin_lam[k, j] = lam[0], lam[1]
            null_lam[j, k] = null_lam[k, j] = lam[2]
            total_edf += float((information / (information + pairs.precision(lam))).sum())
        return replace(self, margin_lam=margin_lam, null_lam=null_lam, edf=total_edf, age=self.age + 1)

    def geometric_means(self, j: int) -> tuple[float, float]:
        """Geometric means over a column's partners: of its marginal smoothing parameters, and of the null spaces'."""
        margin, null = (np.exp(np.log(np.delete(lam[j], j)).mean()) for lam in (self.margin_lam, self.null_lam))
        return float(margin), float(null)

    def variance_trace(self, dispersion: float, total: float) -> float:
        """Trace of the variance of all surfaces over the rows."""
        return dispersion * min(self.edf, LARGEST_SURFACE_EDF_PER_ROW * total)


def _lam_units(margins: Sequence[TensorMargin]) -> Floats:
    """Inverse of each column's least positive penalty; 1 where there is none."""
    least = np.array([np.min(margin.penalty, where=margin.penalty > 0.0, initial=np.inf) for margin in margins])
    return np.where(np.isfinite(least), 1.0 / least, 1.0)


@dataclass(frozen=True)
class _Pairs:
    """Surfaces of a column with all columns after it, whose coordinates are concatenated."""

    j: int
    partners: NDArray[np.intp]  # (pairs,)
    margin: TensorMargin
    others: TensorMargin
    starts: NDArray[np.intp]  # of each partner's coordinates

    @cached_property
    def forms(self) -> tuple[Floats, Floats, Floats]:
        """Penalties along the column, along its partners, and of both null spaces: they broadcast over coefficients."""
        margin, others = self.margin.penalty[:, np.newaxis], self.others.penalty[np.newaxis]
        return margin, others, ((margin == 0.0) & (others == 0.0)).astype(np.float64)

    @cached_property
    def lengths(self) -> NDArray[np.intp]:
        """Coordinates of each partner."""
        return np.diff(np.append(self.starts, len(self.others.penalty)))

    def squares(self) -> Floats:
        """Squared coefficients of all surfaces."""
        return np.asarray((self.margin.coef @ self.others.coef.T) ** 2)

    def sums(self, values: Floats) -> Floats:
        """Sums over the coefficients of each surface."""
        return np.asarray(np.add.reduceat(values.sum(axis=0), self.starts))

    def precision(self, lam: Floats) -> Floats:
        """Prior precisions of all coefficients, from smoothing parameters (3, pairs)."""
        by_coefficient = np.repeat(lam, self.lengths, axis=1)
        return np.asarray(sum(form * row for form, row in zip(self.forms, by_coefficient, strict=True)))


def _pairs(margins: Sequence[TensorMargin]) -> Iterator[_Pairs]:
    ends = np.cumsum([len(margin.penalty) for margin in margins])
    coef, penalty = (np.concatenate([getattr(margin, name) for margin in margins]) for name in ("coef", "penalty"))
    for j, end in enumerate(ends[:-1]):
        others = TensorMargin(coef[end:], penalty[end:])
        yield _Pairs(j, np.arange(j + 1, len(margins)), margins[j], others, ends[j:-1] - end)
