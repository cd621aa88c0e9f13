"""Numbers as JSON shows them: short, and never NaN or infinite, which JSON does not have."""

from __future__ import annotations

from typing import Any

import numpy as np


def short(value: Any) -> float | None:
    """Five digits; None for what is no number."""
    number = float(value)
    return float(f"{number:.5g}") if np.isfinite(number) else None


def listed(values: Any) -> list[float | None]:
    """An array of any shape as a flat list."""
    numbers = np.asarray(values, dtype=np.float64).ravel()
    pairs = zip(numbers.tolist(), np.isfinite(numbers).tolist(), strict=True)
    return [float(f"{number:.5g}") if finite else None for number, finite in pairs]


def cell(value: Any) -> Any:
    """A cell of a table: a number, a text, or None where it is missing."""
    if value is None or (isinstance(value, (float, np.floating)) and np.isnan(value)):
        return None
    return float(value) if isinstance(value, (int, float, np.number)) else str(value)
