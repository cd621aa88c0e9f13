"""Checks of what families are given by hand: errors name the family, the argument, the value seen and the remedy."""

from __future__ import annotations

from numbers import Real

import numpy as np


def check_between(family: str, argument: str, value: object, low: float, *, high: float = np.inf, remedy: str) -> None:
    """Raise ValueError when a setting is not a number strictly between two others."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low < float(value) < high:
        bounds = f"a finite number above {low:g}" if high == np.inf else f"a number between {low:g} and {high:g}"
        raise ValueError(f"{family}: {argument} must be {bounds}, got {value!r}; {remedy}")


def filled_in(family: str, argument: str, value: float | None) -> float:
    """A setting that may be left open; raises ValueError when it still is."""
    if value is None:
        raise ValueError(
            f"{family}: {argument} is still None; give a number in the units of y, "
            "or take the family that `filled(y, weight)` or `standardised(y, weight)` returns"
        )
    return value
