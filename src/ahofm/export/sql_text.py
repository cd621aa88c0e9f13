"""Pieces of SQL that all databases read alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ahofm.columns.basis import Floats


def number(value: Any) -> str:
    """A literal in double precision that reads back as the same number."""
    written = repr(float(value))
    return written if "e" in written else written.removesuffix(".0") + "e0"


def total(terms: Sequence[str]) -> str:
    """A sum in a balanced tree: databases limit the depth of expressions."""
    if len(terms) < 9:
        return " + ".join(terms) if terms else "0e0"
    half = len(terms) // 2
    return f"({total(terms[:half])}) + ({total(terms[half:])})"


def weighted(pairs: Sequence[tuple[float, str]]) -> list[str]:
    """Terms of a sum; those of weight zero are left out, and a weight of one is not written."""
    return [name if weight == 1.0 else f"{number(weight)} * {name}" for weight, name in pairs if weight != 0.0]


def code(x: str, breaks: Floats) -> str:
    """How many of the breaks are at or below x, by bisection."""

    def between(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        return (
            f"CASE WHEN {x} < {number(breaks[middle])} THEN {between(low, middle)} ELSE {between(middle + 1, high)} END"
        )

    return between(0, len(breaks))


def exponential(eta: str) -> str:
    """Without an error where a database refuses results that are zero or infinite."""
    return f"CASE WHEN {eta} < -745e0 THEN 0e0 ELSE EXP({eta}) END"


def logistic(eta: str) -> str:
    """By an exponential of negative numbers only."""
    small = exponential(f"(-ABS({eta}))")
    return f"CASE WHEN {eta} >= 0e0 THEN 1e0 ELSE {small} END / (1e0 + {small})"


def nonzero(powers: Floats) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which coefficients of which functions differ from zero at any code: (degree + 1, functions)."""
    return np.asarray((powers != 0.0).any(axis=0))
