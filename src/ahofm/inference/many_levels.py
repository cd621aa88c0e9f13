"""Columns with more levels than a band has coordinates: random effects of the other levels.

The other levels l of a column have independent effects with inverse variance lam. With w_l the sum of their rows'
curvatures and b_l that of curvatures times derivatives J by the coordinates, marginal information about coordinates and
variance of an effect are

    H - sum_l b_l b_l' / (w_l + lam)        1 / (w_l + lam) + g_l V g_l',  g_l = b_l / (w_l + lam)

with V the covariance of coordinates: the Schur complement, whose block for levels is diagonal because a row has one
level of a column.

Effective degrees of freedom of the whole column are a stochastic trace estimate. With A the design matrix of the main
effects of all columns, levels as indicators, W the curvatures and S the penalties,

    edf = tr((A' W A + S)^-1 A' W A)        by column:  E[z_j' u_j]  with  (A' W A + S) u = A' W A z

for z of independent signs (Hutchinson 1990). Systems are solved by conjugate gradients with sparse products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from ahofm.columns import Codes, known_codes
from ahofm.columns.basis import Floats

_ROWS_IN_MEMORY = 2_000
"""Rows, at least, whose derivatives (rows, Q) are in memory at a time."""

_TRACE_PROBES, _CG_TOLERANCE, _CG_STEPS = 8, 1e-4, 200
"""Number of vectors z; relative tolerance and largest number of steps of conjugate gradients."""


@dataclass(frozen=True)
class OtherLevels:
    """The levels of one column that have no coordinate.

    Attributes
    ----------
    column : int
    others : array of bool of shape (codes,)
        Which codes they are; the neutral code is not among them.
    lam : float
        Inverse variance of their effects.
    """

    column: int
    others: NDArray[np.bool_]
    lam: float

    @classmethod
    def of(cls, column: int, main: Floats, lam: float) -> OtherLevels:
        """Of a column whose coordinates are indicators of levels, up to constants: ``main`` (codes, coordinates)."""
        others = np.ones(len(main), dtype=bool)
        others[known_codes(main).argmax(axis=0)] = False
        others[-1] = False
        return cls(column, others, lam)

    def sums(
        self, codes: Codes, rows: NDArray[np.intp], curvature: Floats, derivatives: Callable[[Codes], Floats]
    ) -> Iterator[tuple[NDArray[np.intp], Floats, Floats]]:
        """Levels (m,), sums of curvatures (m,) and of curvatures times derivatives (m, Q) over the ``rows`` of each.

        ``curvature`` (len(rows),) belongs to ``rows``; all levels are yielded, some at a time.
        """
        of_rows = codes.columns[self.column][rows]
        inside = np.flatnonzero(self.others[of_rows])
        order = inside[np.argsort(of_rows[inside], kind="stable")]
        levels, starts = np.unique(of_rows[order], return_index=True)
        ends = np.append(starts[1:], len(order))
        first = 0
        while first < len(levels):
            last = max(int(np.searchsorted(ends, starts[first] + _ROWS_IN_MEMORY)), first + 1)
            at = order[starts[first] : ends[last - 1]]
            weighted = curvature[at, np.newaxis] * derivatives(codes.take(rows[at]))
            inner = starts[first:last] - starts[first]
            yield (
                levels[first:last].astype(np.intp),
                np.add.reduceat(curvature[at], inner),
                np.add.reduceat(weighted, inner, axis=0),
            )
            first = last

    def marginal(self, information: Floats, sums: Iterator[tuple[NDArray[np.intp], Floats, Floats]]) -> Floats:
        """Information (Q, Q) about coordinates with the effects of these levels integrated out."""
        marginal = information.copy()
        for _, weight, total in sums:
            scaled = total / np.sqrt(np.maximum(weight, 0.0) + self.lam)[:, np.newaxis]
            marginal -= scaled.T @ scaled
        return marginal

    def variances(self, root: Floats, sums: Iterator[tuple[NDArray[np.intp], Floats, Floats]]) -> Floats:
        """Variances (codes,) of the effects of these levels, ``(L L')^-1`` being the covariance of coordinates; at the
        neutral code that of a level which training rows do not have, at other codes 0.
        """
        variance = np.where(self.others, 1.0 / self.lam, 0.0)
        variance[-1] = 1.0 / self.lam
        for levels, weight, total in sums:
            precision = np.maximum(weight, 0.0) + self.lam
            half = scipy.linalg.solve_triangular(root, (total / precision[:, np.newaxis]).T, lower=True)
            variance[levels] = 1.0 / precision + np.einsum("ij,ij->j", half, half)
        return variance


def most_others(others: Mapping[int, OtherLevels]) -> OtherLevels:
    """The column with most levels that have no coordinate: its effects are integrated out of the information."""
    return max(others.values(), key=lambda one: int(one.others.sum()))


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
        of_rows = codes.columns[j].astype(np.intp)
        if j in levels:
            size = len(values)
            indicators = np.ones(codes.n_rows), (np.arange(codes.n_rows), of_rows)
            part = sparse.csr_matrix(indicators, shape=(codes.n_rows, size))
            diagonal.append(np.full(size, levels[j]))
            place[j] = slice(start, start + size)
        else:
            part = sparse.csr_matrix(values[of_rows])
            diagonal.append(penalty)
        parts.append(part)
        start += part.shape[1]
    design, ridge = sparse.hstack(parts).tocsr(), np.concatenate(diagonal)
    transposed = design.T.tocsr()
    squares = np.asarray(transposed.multiply(transposed) @ curvature).ravel()
    scale = 1.0 / np.maximum(squares + ridge, np.finfo(float).tiny)

    def information_times(z: Floats) -> Floats:
        return np.asarray(transposed @ (curvature * (design @ z)))

    size = len(ridge)
    system = LinearOperator((size, size), matvec=lambda z: information_times(z) + ridge * z, dtype=np.float64)
    precondition = LinearOperator((size, size), matvec=lambda z: scale * z, dtype=np.float64)
    rng, edf = np.random.default_rng(0), dict.fromkeys(place, 0.0)
    for _ in range(_TRACE_PROBES):
        z = rng.choice([-1.0, 1.0], size=size)
        u, _ = cg(system, information_times(z), rtol=_CG_TOLERANCE, maxiter=_CG_STEPS, M=precondition)
        for j, at in place.items():
            edf[j] += float(z[at] @ u[at]) / _TRACE_PROBES
    return edf
