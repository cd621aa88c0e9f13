"""Lower-order terms of factors whose functions have means other than zero.

With ``phi = m + psi``, m the mean of a function, an order-d factor has for each set S of k < d columns the term

    prod_{j in S} psi_j * e_{d-k}(m of the others)
    e_{d-k}(m of the others) = sum_i (-1)^i e_{d-k-i}(m) h_i(m of S)      h_i complete homogeneous

h_i is the coefficient of z^i in ``prod_{j in S} (1 + m_j z + (m_j z)^2 + ...)``. Evaluated at k (d - k) + 1 values of z
that is a sum of products over S again: factors ``psi_j (1 + m_j z + ... + (m_j z)^(d-k))`` of order k, with loadings.

A product factor has the term ``prod_{j in S} psi_j prod_{j not in S} m_j`` for every set S.
"""

from __future__ import annotations

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.kernels.symmetric import symmetric, without_each


def of_one_column(means: Floats, loading: Floats) -> Floats:
    """Weights ``loading * prod_{k != j} means_k`` of psi_j in the main effects of whole products: (columns, rank)."""
    return np.asarray(loading * without_each(means, np.zeros_like(means), 0)[0])


def moved_down(means: Floats, order: int, lower: int) -> list[tuple[Floats, Floats]]:
    """Terms of ``lower`` columns of order-d factors with means (p, F): loadings (F,) and scales (p, F) of factors."""
    rest = order - lower
    largest = np.maximum(np.abs(means).max(axis=0), np.finfo(float).tiny)
    count = lower * rest + 1
    nodes = np.cos(np.pi * (np.arange(count) + 0.5) / count)
    extract = np.linalg.inv(np.vander(nodes, increasing=True))  # (powers, nodes)
    powers = [(-largest) ** m * symmetric(means, rest - m) for m in range(rest + 1)]
    found = []
    for q, node in enumerate(nodes):
        steps = (means / largest * node)[np.newaxis] ** np.arange(rest + 1)[:, np.newaxis, np.newaxis]
        weights = sum((extract[m, q] * power for m, power in enumerate(powers)), np.zeros(means.shape[1]))
        found.append((weights, steps.sum(axis=0)))
    return found
