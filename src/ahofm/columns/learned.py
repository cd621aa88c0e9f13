"""What the rows say of a column, before a kind makes functions of it: where its data are, and which codes they get.

Learned from an array at once here, or from pieces of a table elsewhere; the codebook that follows is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Basis, Floats
from ahofm.columns.categorical import Categorical
from ahofm.columns.codebook import Codebook
from ahofm.columns.kind import ColumnKind, NumericKind, Support
from ahofm.columns.linear import EmptyBasis, Linear
from ahofm.columns.spline import Spline
from ahofm.columns.support import learn_levels, learn_numbers
from ahofm.columns.table import is_numeric, missing_in


@dataclass(frozen=True)
class Learned:
    """One column of a table.

    Attributes
    ----------
    name : str
    support : Support
    edges : array or None
        Between the codes of a column of numbers; None for levels.
    missing : float
        Weight of the missing values.
    """

    name: str
    support: Support
    edges: Floats | None
    missing: float

    def codebook(self, kind: ColumnKind | None, default: ColumnKind | None = None) -> Codebook:
        """Make functions of the column.

        Parameters
        ----------
        kind : ColumnKind or None
            None: chosen by the data.
        default : ColumnKind, optional
            What is chosen for more than two numbers.

        Returns
        -------
        Codebook
            The column as that kind.
        """
        self._refuse(kind)
        if isinstance(kind, Categorical) and self.edges is not None:  # its codes are its distinct numbers
            levels = replace(self.support, low=0.0, high=0.0)
            return replace(self, support=levels, edges=None).codebook(kind)
        resolved = self._resolved(kind, default)
        try:
            functions: Basis = EmptyBasis() if resolved is None else resolved.learn(self.support)
        except ValueError as error:
            raise ValueError(f"column '{self.name}': {error}") from error
        return Codebook(self.name, resolved, self.support, self.edges, functions, self.missing)

    @property
    def n_codes(self) -> int:
        """Codes of the codebook: the support, missing when learned, and the neutral one."""
        return self.support.size + (self.missing > 0 and self.support.size > 0) + 1

    def codes_like(self, other: Learned) -> bool:
        """Tell whether values have the same codes in both columns.

        Parameters
        ----------
        other : Learned
            Another column.

        Returns
        -------
        bool
        """
        same = self.name == other.name and self.n_codes == other.n_codes
        return same and np.array_equal(self.support.values, other.support.values)

    def _refuse(self, kind: ColumnKind | None) -> None:
        by_level, text = self.edges is None, not is_numeric(self.support.values)
        if by_level and isinstance(kind, NumericKind):
            remedy = "use Categorical() or convert it" if text else "its numbers were coded as levels: code it again"
            holds = "text" if text else "levels"
            raise TypeError(f"column '{self.name}' holds {holds} and cannot be {type(kind).__name__}(); {remedy}")
        if not by_level and isinstance(kind, Categorical) and not self.support.exact:
            raise ValueError(
                f"column '{self.name}' was binned and cannot be Categorical() any more: say so when it is coded"
            )
        most = kind.max_codes if isinstance(kind, NumericKind) else None
        if most is not None and self.support.size > most:
            raise ValueError(
                f"column '{self.name}' has {self.support.size} codes, more than max_codes={most} of its kind: "
                "give that when it is coded"
            )

    def _resolved(self, kind: ColumnKind | None, default: ColumnKind | None) -> ColumnKind | None:
        """The kind a column can carry: one value nothing, two numbers a line."""
        if self.support.size <= 1:
            return None
        if self.edges is None:
            return kind or Categorical()
        if self.support.size == 2:
            return kind if isinstance(kind, Linear) else Linear(getattr(kind, "outside", "clamp"))
        return kind or default or Spline()


def learn_column(
    name: str,
    column: NDArray[Any],
    kind: ColumnKind | None,
    max_codes: int | None,
    weight: Floats | None,
    order: Sequence[str] = (),
) -> Learned:
    """From all values of a column; ``order`` is that of levels of text, where they have one."""
    absent = missing_in(column)
    missing = float(np.count_nonzero(absent) if weight is None else weight[absent].sum())
    if isinstance(kind, Categorical) or not is_numeric(column):
        return Learned(name, learn_levels(column, weight, order), None, missing)
    return Learned(name, *learn_numbers(column, weight, codes_of(kind, max_codes)), missing)


def codes_of(kind: ColumnKind | None, max_codes: int | None) -> int | None:
    """Most codes of a column of numbers: what its kind says, or what holds for all."""
    return kind.max_codes if isinstance(kind, NumericKind) and kind.max_codes is not None else max_codes
