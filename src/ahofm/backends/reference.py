"""The obvious backend: NumPy and itertools, in float64. Slow, kept for ever to check others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ahofm.backends.base import Precision
from ahofm.backends.rows import KernelRows
from ahofm.columns.basis import Floats
from ahofm.kernels import Curves, ReferenceCurves, ReferenceKernel, ReferenceRowStateKernel
from ahofm.rows import Executor, Source


@dataclass(frozen=True)
class ReferenceBackend:
    """Sums over all subsets of columns; row states that keep every column's moments, and subtract nothing."""

    def load(self, source: Source, executor: Executor, precision: Precision = "float64") -> KernelRows:
        """Rows to compute on, in float64 whatever ``precision`` says."""
        del precision
        return KernelRows(source, executor, ReferenceKernel(), ReferenceRowStateKernel())

    def curves(self, linear_predictors: Sequence[Curves]) -> ReferencePrediction:
        """Linear predictors at true values."""
        return ReferencePrediction(ReferenceCurves(tuple(linear_predictors)))


@dataclass(frozen=True)
class ReferencePrediction:
    """Curves in NumPy, on one thread."""

    kernel: ReferenceCurves

    @property
    def linear_predictors(self) -> tuple[Curves, ...]:
        """All of the same columns."""
        return self.kernel.linear_predictors

    def eta(self, columns: Sequence[NDArray[Any]], n_threads: int | None = None) -> Floats:
        """Linear predictors of each row, (n, K)."""
        del n_threads
        return self.kernel.eta(columns)

    def contributions(self, columns: Sequence[NDArray[Any]], n_threads: int | None = None) -> Floats:
        """Contributions of the columns to the linear predictors, (n, K, p)."""
        del n_threads
        return self.kernel.contributions(columns)
