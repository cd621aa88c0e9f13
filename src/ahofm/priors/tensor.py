"""Tensor-product smoothing of pairs: each pair of columns has smoothing parameters of its own, instead of each factor.

The surface of columns j and k is ``C = B_j B_k'``, with B the coefficients of their factors in coordinates that are
orthonormal under the rows. Its prior is that of a tensor product of smooth functions,

    sum_ab (along_jk w_a + along_kj w_b + plain_jk [a and b are free]) C_ab^2

with w the roughness of a coordinate, 0 for the free ones. Given the partners it is quadratic in B_j, so that a column
is still solved exactly, with matrices between its factors where single smoothing parameters would be:

    w (x) sum_k along_jk B_k'B_k  +  free (x) sum_k plain_jk B_k' free B_k  +  1 (x) sum_k along_kj B_k' w B_k

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
from ahofm.priors.fellner_schall import updated
from ahofm.tuning import (
    LAM_STEP,
    LARGEST_SURFACE_LAM,
    LEAST_EDF_OF_SURFACE,
    LEAST_QUADRATIC_FORM_OF_SURFACE,
    MOST_SURFACE_PRECISION,
    SMALLEST_LAM,
    SURFACE_DF_PER_COEFFICIENT,
    SURFACE_DF_PER_ROW,
    SURFACE_FIRST_STEP_UP,
    SURFACE_FIRST_STEPS,
    SURFACE_MOST_DF,
)
from ahofm.tuning.numerics import SURFACE_DF_BISECTIONS


@dataclass(frozen=True)
class TensorMargin:
    """Margin of tensor products: the coefficients of one column's factors.

    Attributes
    ----------
    coef : array of shape (coordinates, factors)
        In coordinates that are orthonormal under the rows.
    rough : array of shape (coordinates,)
        Roughness of each, 0 if it is free.
    """

    coef: Floats
    rough: Floats

    @cached_property
    def square(self) -> Floats:
        """``B'B``."""
        return np.asarray(self.coef.T @ self.coef)

    @cached_property
    def stiff(self) -> Floats:
        """``B' w B``."""
        return np.asarray(self.coef.T @ (self.rough[:, np.newaxis] * self.coef))

    @cached_property
    def plain(self) -> Floats:
        """``B'B`` of the free coordinates."""
        free = self.coef[self.rough == 0.0]
        return np.asarray(free.T @ free)


@dataclass(frozen=True)
class TensorPenalty:
    """Penalty matrices between the first factors of a column: for rough coordinates, for free ones, and for all."""

    rough: Floats
    plain: Floats
    all: Floats

    @property
    def rank(self) -> int:
        """Factors that are coupled."""
        return len(self.rough)

    def decoupled(self, left_out: NDArray[np.bool_]) -> TensorPenalty:
        """Without penalties between some factors and the others."""
        both = ~(left_out[:, np.newaxis] | left_out) | np.eye(len(left_out), dtype=bool)
        return TensorPenalty(self.rough * both, self.plain * both, self.all * both)


@dataclass(frozen=True)
class TensorSmoothing:
    """Smoothing parameters of the tensor products of all pairs of columns.

    Attributes
    ----------
    along : array of shape (p, p)
        ``along[j, k]``: of what is rough along column j, in its surface with column k.
    plain : array of shape (p, p)
        Of coefficients that are free in both columns; symmetric.
    edf : float
        Degrees of freedom of all surfaces; 0 until smoothing parameters have been learned.
    age : int
        Number of updates of the smoothing parameters.
    """

    along: Floats
    plain: Floats
    edf: float = 0.0
    age: int = 0

    @classmethod
    def start(cls, margins: Sequence[TensorMargin], information: float, n_rows: float) -> TensorSmoothing:
        """One smoothing parameter for all pairs, in units of each column's least roughness, by degrees of freedom."""
        low, high = np.log(SMALLEST_LAM), np.log(LARGEST_SURFACE_LAM)
        units = np.repeat(_lam_units(margins)[:, np.newaxis], len(margins), axis=1)
        coefficients = sum(len(pairs.own.rough) * len(pairs.others.rough) for pairs in _pairs(margins))
        wanted = min(SURFACE_DF_PER_ROW * n_rows, SURFACE_DF_PER_COEFFICIENT * coefficients)
        unit = cls(units, np.ones_like(units))  # precisions are proportional to the one parameter
        precision = np.concatenate([unit._precision(pairs).ravel() for pairs in _pairs(margins)])
        for _ in range(SURFACE_DF_BISECTIONS):
            middle = 0.5 * (low + high)
            enough = (information / (information + np.exp(middle) * precision)).sum() <= wanted
            low, high = (low, middle) if enough else (middle, high)
        return cls(np.exp(middle) * units, np.full_like(units, np.exp(middle)))

    def _precision(self, pairs: _Pairs) -> Floats:
        """Prior precision of every coefficient of some surfaces."""
        j, k = pairs.j, pairs.partners
        return pairs.precision(np.array([self.along[j, k], self.along[k, j], self.plain[j, k]]))

    def tensor_penalty(self, margins: Sequence[TensorMargin], j: int) -> TensorPenalty:
        """Tensor-product penalty of column j's factors, given its partners."""
        others = [k for k in range(len(margins)) if k != j]
        rough = sum(self.along[j, k] * margins[k].square for k in others)
        plain = sum(self.plain[j, k] * margins[k].plain for k in others)
        total = sum(self.along[k, j] * margins[k].stiff for k in others)
        return TensorPenalty(np.asarray(rough), np.asarray(plain), np.asarray(total))

    def learned(self, margins: Sequence[TensorMargin], information: float) -> TensorSmoothing:
        """New smoothing parameters; first steps up are smaller than steps down, as weak surfaces take time to grow."""
        along, plain, edf = self.along.copy(), self.plain.copy(), 0.0
        lam_units, up = _lam_units(margins), SURFACE_FIRST_STEP_UP if self.age < SURFACE_FIRST_STEPS else LAM_STEP
        least = LEAST_EDF_OF_SURFACE, LEAST_QUADRATIC_FORM_OF_SURFACE
        for pairs in _pairs(margins):
            j, k = pairs.j, pairs.partners
            squares = pairs.squares()
            now = np.array([along[j, k], along[k, j], plain[j, k]])
            quadratic_form = np.array([pairs.sums(form * squares) for form in pairs.forms])
            precision = pairs.precision(now)
            left = information / (precision * (information + precision))
            free = now * np.array([pairs.sums(form * left) for form in pairs.forms])
            most = (
                information
                * MOST_SURFACE_PRECISION
                * np.array([np.full(len(k), lam_units[j]), lam_units[k], np.ones(len(k))])
            )
            bounds = SMALLEST_LAM, np.clip(most, SMALLEST_LAM, LARGEST_SURFACE_LAM)
            now = updated(now, free, quadratic_form, bounds, up=up, least=least)
            along[j, k], along[k, j] = now[0], now[1]
            plain[j, k] = plain[k, j] = now[2]
            edf += float((information / (information + pairs.precision(now))).sum())
        return replace(self, along=along, plain=plain, edf=edf, age=self.age + 1)

    def of(self, j: int) -> tuple[float, float]:
        """Geometric means of a column's smoothing parameters over its partners: along it, and along neither."""
        rough, plain = (np.exp(np.log(np.delete(part[j], j)).mean()) for part in (self.along, self.plain))
        return float(rough), float(plain)

    def variance_trace(self, dispersion: float, total: float) -> float:
        """Trace of the variance of all surfaces over the rows."""
        return dispersion * min(self.edf, SURFACE_MOST_DF * total)


def _lam_units(margins: Sequence[TensorMargin]) -> Floats:
    """Inverse of each column's least positive roughness; 1 where there is none."""
    least = np.array([np.min(margin.rough, where=margin.rough > 0.0, initial=np.inf) for margin in margins])
    return np.where(np.isfinite(least), 1.0 / least, 1.0)


@dataclass(frozen=True)
class _Pairs:
    """A column with all that come after it, whose coordinates stand side by side."""

    j: int
    partners: NDArray[np.intp]  # (pairs,)
    own: TensorMargin
    others: TensorMargin
    starts: NDArray[np.intp]  # of each partner's coordinates

    @cached_property
    def forms(self) -> tuple[Floats, Floats, Floats]:
        """Rough along the column, along the partner, along neither: each to be multiplied with (own, others)."""
        own, others = self.own.rough[:, np.newaxis], self.others.rough[np.newaxis]
        return own, others, ((own == 0.0) & (others == 0.0)).astype(np.float64)

    @cached_property
    def lengths(self) -> NDArray[np.intp]:
        """Coordinates of each partner."""
        return np.diff(np.append(self.starts, len(self.others.rough)))

    def squares(self) -> Floats:
        """Squared coefficients of all surfaces."""
        return np.asarray((self.own.coef @ self.others.coef.T) ** 2)

    def sums(self, values: Floats) -> Floats:
        """Of each surface."""
        return np.asarray(np.add.reduceat(values.sum(axis=0), self.starts))

    def precision(self, lam: Floats) -> Floats:
        """Of the prior of each coefficient, from smoothing parameters (3, pairs)."""
        each = np.repeat(lam, self.lengths, axis=1)
        return np.asarray(sum(form * own for form, own in zip(self.forms, each, strict=True)))


def _pairs(margins: Sequence[TensorMargin]) -> Iterator[_Pairs]:
    ends = np.cumsum([len(margin.rough) for margin in margins])
    coef, rough = np.vstack([margin.coef for margin in margins]), np.concatenate([margin.rough for margin in margins])
    for j, end in enumerate(ends[:-1]):
        yield _Pairs(
            j, np.arange(j + 1, len(margins)), margins[j], TensorMargin(coef[end:], rough[end:]), ends[j:-1] - end
        )
