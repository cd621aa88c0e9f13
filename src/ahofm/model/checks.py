"""Offsets and weights of rows, as arrays that make sense."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ahofm.columns.basis import Floats
from ahofm.families import Family


def check_offset(offset: ArrayLike, n_rows: int, family: Family) -> Floats:
    """An offset as an array of shape (n, linear predictors)."""
    n_eta, flat = family.n_eta, family.takes_flat_offset
    values = np.asarray(offset, dtype=np.float64)
    if flat and values.shape == (n_rows,):
        values = np.column_stack([values, np.zeros((n_rows, n_eta - 1))])
    if values.shape != (n_rows, n_eta):
        shapes = [f"({n_rows},)"] * flat + [f"({n_rows}, {n_eta})"] * (n_eta > 1)
        raise ValueError(f"offset has shape {np.shape(offset)}, expected {' or '.join(shapes)}: as many rows as X")
    if not np.isfinite(values).all():
        raise ValueError("offset must be finite; replace NaN and infinities, e.g. the log of a zero exposure")
    return values


def check_weight(weight: ArrayLike | None, n_rows: int) -> Floats:
    """Weights as an array of shape (n,), ones when there are none."""
    if weight is None:
        return np.ones(n_rows)
    weights = np.asarray(weight, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {weights.shape}, expected ({n_rows},): one number per row of X")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight must be finite and not negative")
    if not weights.any():
        raise ValueError("sample_weight is zero everywhere; at least one row must count")
    return weights
