"""Which targets a family takes, as data: what checks refuse and tests draw from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats


@dataclass(frozen=True)
class TargetRange:
    """An interval of finite numbers.

    Attributes
    ----------
    low, high : float
    low_included, high_included : bool
    whole : bool
        Whole numbers only.
    nonzero : bool
        Zero is excluded: times, with a minus sign where they are censored.
    """

    low: float = -np.inf
    high: float = np.inf
    low_included: bool = False
    high_included: bool = False
    whole: bool = False
    nonzero: bool = False

    def includes(self, y: Floats) -> NDArray[np.bool_]:
        """Tell which targets lie in the range.

        Parameters
        ----------
        y : array of shape (n,)
            Targets.

        Returns
        -------
        array of bool of shape (n,)
            False for NaN.
        """
        above = y >= self.low if self.low_included else y > self.low
        below = y <= self.high if self.high_included else y < self.high
        allowed = above & below & np.isfinite(y) & ((y == np.floor(y)) if self.whole else True)
        return np.asarray(allowed & ((y != 0.0) if self.nonzero else True))

    def __str__(self) -> str:
        """In words."""
        if self.nonzero:
            return "positive times (negative: censored)"
        numbers = "whole numbers" if self.whole else "finite numbers"
        if not np.isfinite(self.low) and not np.isfinite(self.high):
            return numbers
        left, right = "[" if self.low_included else "(", "]" if self.high_included else ")"
        return f"{numbers} in {left}{self.low:g}, {self.high:g}{right}"


def refuse_all_zero(family: str, y: Floats) -> None:
    """Raise ValueError when no target is positive: the mean would have to be zero, which a log link never reaches."""
    if not (y > 0).any():
        raise ValueError(f"y has no positive value; {family} needs at least one")
