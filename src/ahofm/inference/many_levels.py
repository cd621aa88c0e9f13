"""Effective degrees of freedom of columns with more levels than a band has coordinates: a stochastic trace estimate.

With A the design matrix of the main effects of all columns, levels as indicators, W the curvatures and S the penalties,

    edf = tr((A' W A + S)^-1 A' W A)        by column:  E[z_j' u_j]  with  (A' W A + S) u = A' W A z

for z of independent signs (Hutchinson 1990). Systems are solved by conjugate gradients with sparse products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from ahofm.columns import Codes
from ahofm.columns.basis import Floats

_PROBES, _TOLERANCE, _STEPS = 8, 1e-4, 200
"""Number of vectors z; relative tolerance and largest number of steps of conjugate gradients."""


def level_edf(
    codes: Codes, curvature: Floats, mains: Sequence[Floats], penalties: Sequence[Floats], levels: Mapping[int, float]
) -> dict[int, float]:
    """Effective degrees of freedom, by column, of the main effects of the columns in ``levels``.

    Parameters
    ----------
    codes : Codes
    curvature : array of shape (n,)
        Second derivative of each row's loss, divided by the dispersion.
    mains : sequence of arrays of shape (codes, coordinates)
        Values of the coordinates of every column's main effect; not used for columns in ``levels``.
    penalties : sequence of arrays of shape (coordinates,)
        Penalties of these coordinates.
    levels : dict of column to float
        Columns of levels, and the inverse variances of their effects.
    """
    parts = [sparse.csr_matrix(np.ones((codes.n_rows, 1)))]
    diagonal = [np.zeros(1)]
    place = {}
    start = 1
    for j, (values, penalty) in enumerate(zip(mains, penalties, strict=True)):
        own = codes.columns[j].astype(np.intp)
        if j in levels:
            size = len(values)
            part = sparse.csr_matrix((np.ones(len(own)), (np.arange(len(own)), own)), shape=(len(own), size))
            diagonal.append(np.full(size, levels[j]))
            place[j] = slice(start, start + size)
        else:
            part = sparse.csr_matrix(values[own])
            diagonal.append(penalty)
        parts.append(part)
        start += part.shape[1]
    design, ridge = sparse.hstack(parts).tocsr(), np.concatenate(diagonal)
    turned = design.T.tocsr()
    squares = np.asarray(turned.multiply(turned) @ curvature).ravel()
    scale = 1.0 / np.maximum(squares + ridge, np.finfo(float).tiny)

    def seen(z: Floats) -> Floats:
        return np.asarray(turned @ (curvature * (design @ z)))

    size = len(ridge)
    system = LinearOperator((size, size), matvec=lambda z: seen(z) + ridge * z, dtype=np.float64)
    precondition = LinearOperator((size, size), matvec=lambda z: scale * z, dtype=np.float64)
    rng, found = np.random.default_rng(0), dict.fromkeys(place, 0.0)
    for _ in range(_PROBES):
        z = rng.choice([-1.0, 1.0], size=size)
        u, _ = cg(system, seen(z), rtol=_TOLERANCE, maxiter=_STEPS, M=precondition)
        for j, at in place.items():
            found[j] += float(z[at] @ u[at]) / _PROBES
    return found
