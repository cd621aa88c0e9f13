"""Factors that rows support, before more rows refine them.

Noise alone gives a term that rows determine with f degrees of freedom a variance of f over their information. A factor
whose term has much less, by what all rows know, is left out: it costs time in every pass, and follows their noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.fit.solvers.variational.posterior import Belief
from ahofm.model.shares import symmetric

_LEAST = 0.1
"""Times its noise. Less than once: strengths have shrunk it, and more rows may find more in it."""


def needed(beliefs: Sequence[Belief], information: Sequence[float]) -> list[Belief]:
    """Predictors without the factors that none of them needs; of every order the largest one stays.

    ``information`` is, of every predictor, the sum of its rows' curvatures over the dispersion.
    """
    ranks = beliefs[0].ranks
    if not ranks:
        return list(beliefs)
    # how many times its noise each factor has: (predictors, factors)
    times = np.array(
        [own * _variances(belief) / _freedom(belief) for belief, own in zip(beliefs, information, strict=True)]
    )
    most = times.max(axis=0)
    kept = {
        order: start + np.flatnonzero((most[start:end] > _LEAST) | (most[start:end] == most[start:end].max()))
        for order, (start, end) in zip(ranks, pairwise(np.cumsum([0, *ranks.values()])), strict=True)
    }
    return [_only(belief, kept) for belief in beliefs]


def _variances(belief: Belief) -> Floats:
    """Of each factor's term, over the columns' own distributions."""
    squares = np.array([block.column.mass @ block.mean[:-1, 1:] ** 2 for block in belief.blocks])
    ends = np.cumsum([0, *belief.ranks.values()])
    parts = [symmetric(squares[:, a:b], order) for order, (a, b) in zip(belief.ranks, pairwise(ends), strict=True)]
    return np.concatenate(parts)


def _freedom(belief: Belief) -> Floats:
    """Coefficients of each factor that the rows determine."""
    found = [block.factors.freedom.sum(axis=0) for block in belief.blocks if block.factors is not None]
    return np.asarray(np.maximum(np.sum(found, axis=0), 1.0))


def _only(belief: Belief, kept: dict[int, NDArray[np.intp]]) -> Belief:
    which = np.concatenate(list(kept.values()))
    ranks = {order: len(own) for order, own in kept.items()}
    return replace(belief, ranks=ranks, blocks=tuple(block.only(which) for block in belief.blocks))
