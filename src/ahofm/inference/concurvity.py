"""How far one column's main effect can be written as a function of another column: pairwise concurvity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ahofm.columns.basis import Floats

_LEAST_EFFECT = 0.01
"""Main effects with a smaller share of the variation of all main effects get a concurvity of zero."""

_RANK_TOLERANCE = 1e-10
"""Ratio of singular values of a column's information below which a direction is dropped."""


def concurvity_of(information: Floats, theta: Floats, at: Sequence[slice]) -> Floats:
    """Entry (i, j): share of the variation of main effect j that a function of column i reproduces, (columns, columns).

    Parameters
    ----------
    information : array of shape (P, P)
        ``J' diag(curvature) J`` of the rows' Jacobian.
    theta : array of shape (P,)
        Coordinates of the fit.
    at : sequence of slices
        Coordinates of each column's main effect.
    """
    sizes = np.array([float(theta[block] @ information[block, block] @ theta[block]) for block in at])
    concurvity = np.zeros((len(at), len(at)))
    for i, block in enumerate(at):
        others = [j for j in range(len(at)) if j != i and sizes[j] > _LEAST_EFFECT * sizes.sum()]
        if block.start == block.stop or not others:
            continue
        # Least squares of main effect j on the functions of column i: X_i'X_i b = X_i'X_j theta_j
        right = np.column_stack([information[block, at[j]] @ theta[at[j]] for j in others])
        coef = np.linalg.lstsq(information[block, block], right, rcond=_RANK_TOLERANCE)[0]
        concurvity[i, others] = np.einsum("mj,mj->j", right, coef) / sizes[others]
    return np.clip(concurvity, 0.0, 1.0)
