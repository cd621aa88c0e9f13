"""Columns of fits with shared curves: priors, the scale of smooth curves, and codes at rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ahofm.columns import Codebook, SplineIID
from ahofm.columns.basis import Floats, Sparse
from ahofm.kernels import code_sums
from ahofm.priors.base import FunctionPosterior
from ahofm.priors.column import ColumnPriors, FactorPrior, all_column_priors, rank_coordinates
from ahofm.priors.spline import SplinePrior


@dataclass(frozen=True)
class ClassColumn:
    """Priors of a column.

    Attributes
    ----------
    priors : ColumnPriors
    in_joint_design : bool
        Whether its main effect is smooth, and solved together with those of other columns.
    in_ranks : bool
        Whether smooth curves are smooth in the ranks of the values, not in the values.
    """

    priors: ColumnPriors
    in_joint_design: bool
    in_ranks: bool = False

    @property
    def coordinates(self) -> Floats:
        """Of a smooth main effect, at the codes: (codes, m); the neutral code is not among them."""
        assert self.priors.main_smooth is not None
        return self.priors.main_smooth.values

    def in_basis(self, posterior: FunctionPosterior, *, main: bool) -> tuple[Floats, Floats]:
        """Coefficients (functions, width) of the codebook's basis, and centrings (width,)."""
        if self.in_ranks:
            posterior = replace(posterior, smooth=None, per_code=posterior.mean)
        return self.priors.function_coefficients(posterior, main=main)


def class_columns(
    books: Sequence[Codebook],
    automatic: Sequence[bool],
    factor_prior: FactorPrior,
    *,
    center: bool,
    counts: Sequence[Floats | None] | None = None,
) -> tuple[ClassColumn, ...]:
    """Of columns that vary, on the scale of values; ``factor_prior`` is for automatic ones."""
    priors = all_column_priors(books, automatic, factor_prior, center=center, counts=counts)
    return tuple(
        ClassColumn(column, column.main_smooth is not None and (auto or isinstance(column.main, SplinePrior)))
        for column, auto in zip(priors, automatic, strict=True)
    )


def columns_in_ranks(
    columns: Sequence[ClassColumn], automatic: Sequence[bool], *, center: bool
) -> tuple[ClassColumn, ...]:
    """The same columns, with curves of automatic ones that are smooth in ranks where they can be."""
    found = []
    for column, auto in zip(columns, automatic, strict=True):
        priors = column.priors
        if not (auto and isinstance(priors.book.kind, SplineIID) and priors.main_smooth is not None):
            found.append(column)
            continue
        smooth = rank_coordinates(priors.book, center=True)
        factors = smooth if center else rank_coordinates(priors.book, center=False)
        smooth_in_ranks = replace(
            priors,
            main_smooth=smooth,
            smooth=factors,
            factors=factors.prior if isinstance(priors.factors, SplinePrior) else priors.factors,
            start=smooth.values,
            penalty_eigenvalues=smooth.penalty_eigenvalues,
        )
        found.append(replace(column, priors=smooth_in_ranks, in_ranks=True))
    return tuple(found)


def scales_differ(books: Sequence[Codebook], automatic: Sequence[bool]) -> bool:
    """Whether any column can be smooth in its ranks instead of its values."""
    return any(auto and isinstance(book.kind, SplineIID) for book, auto in zip(books, automatic, strict=True))


@dataclass(frozen=True)
class CodedColumn:
    """Codes of a column at rows, and sums by code.

    Attributes
    ----------
    codes : array of shape (n,), unsigned integers
    n_codes : int
        With the neutral one, the last.
    """

    codes: NDArray[Any]
    n_codes: int

    @cached_property
    def _indicator(self) -> Sparse:
        """Matrix (codes, n) that sums by code."""
        where = (self.codes, np.arange(len(self.codes)))
        return sp.csr_array((np.ones(len(self.codes)), where), shape=(self.n_codes, len(self.codes)))

    def take(self, rows: NDArray[np.int64]) -> CodedColumn:
        """Some of the rows."""
        return CodedColumn(self.codes[rows], self.n_codes)

    def sums(self, values: Floats) -> Floats:
        """Of values (n, width) by code: (codes without the neutral one, width)."""
        return np.asarray((self._indicator @ values)[:-1])

    def block_sums(self, slopes: Floats, weight: Floats, weighted_response: Floats) -> tuple[Floats, Floats]:
        """``weight slopes slopes'`` and ``slopes weighted_response`` by code, without the neutral one."""
        gram, rhs = code_sums(self.codes, self.n_codes, slopes, weight, weighted_response)
        return gram[:-1], rhs[:-1]
