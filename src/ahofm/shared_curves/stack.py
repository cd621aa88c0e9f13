"""Stacking weights of linear predictors of all classes, by their losses on validation rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize

from ahofm.columns.basis import Floats
from ahofm.shared_curves.class_rows import ClassRows
from ahofm.tuning.classes import EQUAL_CLASS_WEIGHTS_ROWS
from ahofm.tuning.numerics import CLASS_STACKING_START, CLASS_STACKING_TOL


def class_stacking_weights(etas: Sequence[Floats], rows: ClassRows) -> Floats:
    """Weights (count,) of linear predictors (K, n) with the least loss: not negative, of sum 1 at most.

    What they lack to 1 is the weight of constants. A small ridge shrinks them to equal weights.
    """
    constants = rows.constants()[:, np.newaxis]
    columns = np.stack([eta - constants for eta in etas])
    count, offset = len(columns), constants if rows.offset is None else constants + rows.offset
    shifted = ClassRows(rows.y, rows.weight, np.broadcast_to(offset, columns.shape[1:]), rows.n_classes)
    equal = np.full(count, 1.0 / count)

    def loss(weights: Floats) -> tuple[float, Floats]:
        working = shifted.working_response(np.tensordot(weights, columns, axes=1))
        away = weights - equal
        value = working.loss + 0.5 * EQUAL_CLASS_WEIGHTS_ROWS * float(away @ away)
        slopes = -np.einsum("ckn,kn->c", columns, working.slope, optimize=True) + EQUAL_CLASS_WEIGHTS_ROWS * away
        return value / rows.total, slopes / rows.total

    sum_at_most_one = {"type": "ineq", "fun": lambda v: 1.0 - v.sum(), "jac": lambda v: -np.ones(len(v))}
    solution = minimize(
        loss,
        CLASS_STACKING_START * equal,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * count,
        constraints=[sum_at_most_one],
        tol=CLASS_STACKING_TOL,
    )
    weights = np.clip(np.nan_to_num(solution.x), 0.0, 1.0)
    return np.asarray(weights / max(weights.sum(), 1.0))
