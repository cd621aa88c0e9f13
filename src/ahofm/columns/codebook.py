"""A codebook: what one column's codes mean. Codes, their basis, their penalties; no rows.

Code k < support.size stands for support.values[k]; then, when training had missing values, the missing code with an
effect of its own; last the neutral code, whose basis is zero: unseen levels, and missing values if training had none.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ahofm import _native
from ahofm.columns.basis import Basis, Floats, Penalty, Sparse, pad_penalty, ridge_penalty
from ahofm.columns.categorical import find_levels
from ahofm.columns.codes import code_type
from ahofm.columns.kind import ColumnKind, Support
from ahofm.columns.piecewise import Pieces, line_ends
from ahofm.columns.table import is_numeric, missing_in

_Values = TypeVar("_Values")


def known_codes(values: _Values) -> _Values:
    """Leave out the neutral code, which is the last one of every column.

    Parameters
    ----------
    values : array of shape (codes, ...)
        Of one column.

    Returns
    -------
    array of shape (codes - 1, ...)
        A view.
    """
    return values[:-1]  # type: ignore[index,no-any-return]


@dataclass(frozen=True)
class Codebook:
    """One column: its name, the kind it became, where it has data and which functions it offers.

    Attributes
    ----------
    name : str
    kind : ColumnKind or None
        None for a constant column, which offers no function.
    support : Support
    edges : array or None
        Between the codes of a column of numbers; None for levels.
    functions : Basis
        Functions of the value, without those for missing values.
    missing_mass : float
        Weight of the missing values in training; the missing code exists when it is positive.
    """

    name: str
    kind: ColumnKind | None
    support: Support
    edges: Floats | None
    functions: Basis
    missing_mass: float

    def __getstate__(self) -> dict[str, Any]:
        """The fields: what follows from them is computed again where a copy or a pickle is used."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @property
    def learns_missing(self) -> bool:
        """Whether missing values have an effect of their own."""
        return self.missing_mass > 0 and self.support.size > 0

    @property
    def n_codes(self) -> int:
        """Number of codes: the support, missing when learned, and the neutral one."""
        return self.support.size + self.learns_missing + 1

    @property
    def neutral_code(self) -> int:
        """The code without effect."""
        return self.n_codes - 1

    def at_codes(self, coef: Floats, centring: Floats, neutral: Floats | float = 0.0) -> Floats:
        """Evaluate functions at the codes.

        Parameters
        ----------
        coef : array of shape (size, width)
            Coefficients of the basis, for each of some functions.
        centring : array of shape (width,)
            Added at every code but the neutral one.
        neutral : array of shape (width,), optional
            The functions at the neutral code, zero by default.

        Returns
        -------
        array of shape (n_codes, width)
            Values of the functions.
        """
        values = np.asarray(self.basis @ coef)
        known_codes(values)[:] += centring
        values[self.neutral_code] = neutral
        return values

    @property
    def distribution(self) -> Floats:
        """Fraction of the training weight at each code: (n_codes,)."""
        return np.asarray(self.mass / max(self.mass.sum(), np.finfo(float).tiny))

    @property
    def missing_code(self) -> int:
        """The code of a missing value."""
        return self.support.size if self.learns_missing else self.neutral_code

    @property
    def size(self) -> int:
        """Number of functions, with the indicator of missing values."""
        return self.functions.size + self.learns_missing

    @property
    def mass(self) -> Floats:
        """Training weight per code."""
        extra = [self.missing_mass, 0.0] if self.learns_missing else [0.0]
        return np.concatenate([self.support.mass, extra])

    @cached_property
    def basis(self) -> Sparse:
        """Functions at the codes: sparse, (n_codes, size)."""
        known = self.functions.evaluate(self.support.values)
        if self.learns_missing:
            known = sp.block_diag([known, sp.csr_array([[1.0]])], format="csr")
        ends = np.append(known.indptr, known.indptr[-1])  # the neutral code's row is empty
        return sp.csr_array((known.data, known.indices, ends), shape=(self.n_codes, self.size))

    @cached_property
    def penalties(self) -> tuple[Penalty, ...]:
        """Penalties on all functions; a ridge on the missing effect comes last."""
        if not self.learns_missing:
            return self.functions.penalties
        kept = tuple(pad_penalty(penalty, 0, 1) for penalty in self.functions.penalties)
        return (*kept, pad_penalty(ridge_penalty(1), self.functions.size, 0))

    @property
    def constant(self) -> Floats | None:
        """Coefficients of the function that is 1 at every code but the neutral one, None if there is none."""
        constant = self.functions.constant
        return constant if constant is None or not self.learns_missing else np.append(constant, 1.0)

    @property
    def null_space(self) -> Floats:
        """Coefficients without a penalty (the null space), one column each."""
        free = self.functions.null_space
        return np.vstack([free, np.zeros((1, free.shape[1]))]) if self.learns_missing else free

    @cached_property
    def pieces(self) -> Pieces | None:
        """Functions of the value as polynomials between breaks; None when its code says all."""
        return self.functions.pieces()

    @cached_property
    def clamped_range(self) -> tuple[float, float] | None:
        """The numbers between which functions vary, and beyond which all are constant; None where that is not so."""
        pieces = self.pieces
        if pieces is None or pieces.period is not None or len(pieces.breaks) < 2 or pieces.scales[[0, -1]].any():
            return None
        return float(pieces.breaks[0]), float(pieces.breaks[-1])

    def beyond(self, values: NDArray[Any]) -> Floats:
        """Tell how far numbers lie beyond the range, as far as a line goes on there.

        Parameters
        ----------
        values : array of shape (n,)
            Raw values, as a Table holds them, of a column with a ``clamped_range``.

        Returns
        -------
        array of shape (n,)
            Negative below the range, positive above, zero inside and where missing.
        """
        assert self.clamped_range is not None
        numbers = np.asarray(self.places(values), dtype=np.float64)
        inside = np.clip(numbers, *self.clamped_range)
        return np.nan_to_num(np.clip(numbers, *line_ends(*self.clamped_range)) - inside)

    def encode(self, values: NDArray[Any]) -> NDArray[Any]:
        """Encode raw values.

        Parameters
        ----------
        values : array of shape (n,)
            Raw values, as a Table holds them.

        Returns
        -------
        array of shape (n,)
            Codes, in the narrowest unsigned type.
        """
        self._check_type(values)
        out = np.empty(len(values), dtype=code_type(self.n_codes))
        if self.support.size == 0:
            out[:] = self.neutral_code
        elif self.edges is not None:
            _native.encode_numbers(values, self.edges, self.missing_code, out)
        else:
            out[:] = at = find_levels(self.support.values, values)
            others = np.flatnonzero(at < 0)
            out[others] = np.where(missing_in(values[others]), self.missing_code, self.neutral_code)
        return out

    def evaluate(self, values: NDArray[Any]) -> Sparse:
        """Evaluate the functions at raw values themselves, not at their codes.

        Parameters
        ----------
        values : array of shape (n,)
            Raw values, as a Table holds them.

        Returns
        -------
        sparse array of shape (n, size)
            Values of the functions.
        """
        self._check_type(values)
        absent = missing_in(values)
        inner = sp.csr_array((len(values), self.functions.size))
        if self.support.size:
            filled = np.where(absent, self.support.values[0], values)
            inner = sp.diags_array((~absent).astype(np.float64)) @ self.functions.evaluate(filled)
        if self.learns_missing:
            inner = sp.hstack([inner, sp.csr_array(absent.astype(np.float64)[:, np.newaxis])])
        return sp.csr_array(inner)

    def places(self, values: NDArray[Any]) -> NDArray[Any]:
        """Tell where curves of this column are evaluated.

        Parameters
        ----------
        values : array of shape (n,)
            Raw values, as a Table holds them.

        Returns
        -------
        array of shape (n,)
            Numbers, or codes when there are no pieces.
        """
        if self.pieces is None:
            return self.encode(values)
        self._check_type(values)
        return values if is_numeric(values) else np.full(len(values), np.nan)

    def describe(self) -> dict[str, object]:
        """Tell what the column became.

        Returns
        -------
        dict
            Name, kind, number of codes and functions, weight of missing values.
        """
        return {
            "column": self.name,
            "kind": "Constant" if self.kind is None else type(self.kind).__name__,
            "codes": self.n_codes,
            "binned": not self.support.exact,
            "functions": self.size,
            "missing": self.missing_mass,
        }

    def _check_type(self, values: NDArray[Any]) -> None:
        learned_numbers = is_numeric(self.support.values)
        if self.support.size and is_numeric(values) != learned_numbers and not missing_in(values).all():
            had, has = ("numbers", "text") if learned_numbers else ("text", "numbers")
            raise TypeError(f"column '{self.name}' held {had} in training and holds {has} now")
