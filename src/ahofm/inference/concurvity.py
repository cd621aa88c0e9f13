"""How far one column's main effect can be written as a function of another column: pairwise concurvity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ahofm.columns.basis import Floats

_LEAST_EFFECT = 0.01
"""Main effects with a smaller share of the variation of all main effects get a concurvity of zero."""


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
    found = np.zeros((len(at), len(at)))
    for i, block in enumerate(at):
        wanted = [j for j in range(len(at)) if j != i and sizes[j] > _LEAST_EFFECT * sizes.sum()]
        if block.start == block.stop or not wanted:
            continue
        moved = np.column_stack([information[block, at[j]] @ theta[at[j]] for j in wanted])
        back = np.linalg.lstsq(information[block, block], moved, rcond=1e-10)[0]
        found[i, wanted] = np.einsum("mj,mj->j", moved, back) / sizes[wanted]
    return np.clip(found, 0.0, 1.0)
