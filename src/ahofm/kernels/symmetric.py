"""Elementary symmetric polynomials of many rows at once, by recursion over the columns."""

from __future__ import annotations

import numpy as np

from ahofm.columns.basis import Floats


def symmetric(values: Floats, order: int) -> Floats:
    """e_order over the first axis."""
    e = np.zeros((order + 1, *values.shape[1:]))
    e[0] = 1.0
    for value in values:
        e[1:] += value * e[:-1].copy()
    return np.asarray(e[order])
