"""What a column kind is: a frozen request, which learns a basis from the support of a column."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ahofm.columns.basis import Basis, Floats


@dataclass(frozen=True)
class Support:
    """Where a column has data: the values that codes stand for, and how much data each holds.

    Attributes
    ----------
    values : array of shape (codes,)
        Increasing numbers (distinct values, or the mean of each bin), or sorted levels.
    mass : array of shape (codes,)
        Sum of weights per code.
    low, high : float
        Range of the training data (0 and 0 for levels).
    exact : bool
        Whether each code is one distinct value.
    """

    values: NDArray[Any]
    mass: Floats
    low: float
    high: float
    exact: bool

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self.values)


class ColumnKind(ABC):
    """A column kind. Subclasses are frozen dataclasses: equal settings are equal kinds."""

    @property
    def name(self) -> str:
        """How it is called in tables and reports, e.g. "random_walk"."""
        return re.sub("(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).lower()

    @abstractmethod
    def learn(self, support: Support) -> Basis:
        """Learn the basis of a column.

        Parameters
        ----------
        support : Support
            Where the column has data.

        Returns
        -------
        Basis
            Functions of the column.

        Raises
        ------
        ValueError
            When the data do not allow what was asked for.
        """

    @abstractmethod
    def validate(self) -> None:
        """Raise ValueError when a setting makes no sense."""


class NumericKind(ColumnKind):
    """A kind for numbers: codes are ordered, and more than ``max_codes`` distinct values are binned."""

    max_codes: int | None

    def validate(self) -> None:
        """Raise ValueError when a setting makes no sense."""
        check_at_least(self, "max_codes", self.max_codes, 2)


def check_at_least(kind: ColumnKind, name: str, value: int | None, least: int) -> None:
    """Raise when an integer setting is below what makes sense."""
    if value is not None and (isinstance(value, bool) or not float(value).is_integer() or value < least):
        raise ValueError(f"{type(kind).__name__}: {name} must be an integer of at least {least}, got {value!r}")


def check_outside(kind: ColumnKind, outside: str) -> None:
    """Raise when ``outside`` is not one of its three values."""
    if outside not in ("auto", "clamp", "linear"):
        raise ValueError(f"{type(kind).__name__}: outside must be 'auto', 'clamp' or 'linear', got {outside!r}")
