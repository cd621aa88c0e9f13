"""Problem and state of a fit with shared curves: rows and columns, main effects and factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.shared_curves.class_rows import ClassRows
from ahofm.shared_curves.columns import ClassColumn, CodedColumn
from ahofm.shared_curves.factors import SharedFactors
from ahofm.shared_curves.main_effects import ClassMains
from ahofm.training.factor_groups import FactorGroups


@dataclass(frozen=True)
class ClassProblem:
    """Rows and columns of a fit.

    Attributes
    ----------
    rows : ClassRows
    columns : sequence of ClassColumn
    coded : sequence of CodedColumn
    groups : FactorGroups or None
        Columns that may interact.
    compiled : bool
        Whether sweeps are compiled, where these have all priors; otherwise they are those of the reference.
    """

    rows: ClassRows
    columns: Sequence[ClassColumn]
    coded: Sequence[CodedColumn]
    groups: FactorGroups | None = None
    compiled: bool = True

    def take(self, rows: NDArray[np.int64], fraction: Floats | None = None) -> ClassProblem:
        """Some of the rows, each with a ``fraction`` (rows,) of its weight."""
        taken = self.rows.take(rows)
        taken = taken if fraction is None else replace(taken, weight=fraction * taken.weight)
        return replace(self, rows=taken, coded=[column.take(rows) for column in self.coded])


@dataclass
class ClassState:
    """Main effects, factors, and linear predictors (K, n) without offsets."""

    mains: ClassMains
    factors: SharedFactors | None
    eta: Floats
