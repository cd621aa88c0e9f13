"""Drop factors that the rows do not support, before more rows refine the fit.

Noise alone gives a term with f effective degrees of freedom a variance of f over the rows' information. A factor whose
term has much less, by the information of all rows, is dropped: it costs time in every pass, and follows their noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.fit.solvers.variational.posterior import Posterior
from ahofm.fit.tuning import LEAST_OVER_NOISE
from ahofm.model.shares import symmetric


def pruned(posteriors: Sequence[Posterior], information: Sequence[float]) -> list[Posterior]:
    """Posteriors without the factors that none of them supports; of every order the largest one stays.

    ``information`` is, of every linear predictor, the sum of its rows' curvatures over the dispersion.
    """
    ranks = posteriors[0].ranks
    if not ranks:
        return list(posteriors)
    # how many times its noise each factor has: (linear predictors, factors)
    times = np.array(
        [own * _variances(posterior) / _edf(posterior) for posterior, own in zip(posteriors, information, strict=True)]
    )
    most = times.max(axis=0)
    kept = {
        order: start + np.flatnonzero((most[start:end] > LEAST_OVER_NOISE) | (most[start:end] == most[start:end].max()))
        for order, (start, end) in zip(ranks, pairwise(np.cumsum([0, *ranks.values()])), strict=True)
    }
    return [_only(posterior, kept) for posterior in posteriors]


def _variances(posterior: Posterior) -> Floats:
    """Of each factor's term, over the columns' own distributions."""
    squares = np.array([block.column.mass @ block.mean[:-1, 1:] ** 2 for block in posterior.blocks])
    ends = np.cumsum([0, *posterior.ranks.values()])
    parts = [symmetric(squares[:, a:b], order) for order, (a, b) in zip(posterior.ranks, pairwise(ends), strict=True)]
    return np.concatenate(parts)


def _edf(posterior: Posterior) -> Floats:
    """Effective degrees of freedom of each factor."""
    found = [block.factors.edf.sum(axis=0) for block in posterior.blocks if block.factors is not None]
    return np.asarray(np.maximum(np.sum(found, axis=0), 1.0))


def _only(posterior: Posterior, kept: dict[int, NDArray[np.intp]]) -> Posterior:
    which = np.concatenate(list(kept.values()))
    ranks = {order: len(own) for order, own in kept.items()}
    return replace(posterior, ranks=ranks, blocks=tuple(block.only(which) for block in posterior.blocks))
