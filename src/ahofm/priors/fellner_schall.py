"""Smoothing parameter estimation by the generalised Fellner–Schall update (Wood and Fasiolo 2017).

For a penalty ``lam_j b' S_j b`` of coefficients b with posterior covariance V, one step is

    lam_j  <-  edf_j / b' S_j b        edf_j = rank(S_j) - lam_j tr(V S_j)

with V and b at the present smoothing parameters: the coefficients that the data determine, over their quadratic form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.tuning import LARGEST_LAM_RATIO, LEAST_EDF, LEAST_QUADRATIC_FORM

if TYPE_CHECKING:
    from ahofm.priors.base import FunctionPosterior, Prior


def updated(
    lam: Floats,
    edf: Floats,
    quadratic_form: Floats,
    bounds: tuple[Floats | float, Floats | float],
    *,
    largest_increase: float = LARGEST_LAM_RATIO,
    least: tuple[float, float] = (LEAST_EDF, LEAST_QUADRATIC_FORM),
) -> Floats:
    """One step of the rule, for smoothing parameters of any shape.

    Parameters
    ----------
    lam, edf, quadratic_form : arrays of one shape
        The present smoothing parameters, and the effective degrees of freedom and quadratic forms with them.
    bounds : pair of arrays or numbers
        Smallest and largest smoothing parameter.
    largest_increase : float
        Largest ratio of a new smoothing parameter to the present one; the smallest is ``1 / LARGEST_LAM_RATIO``.
    least : pair of numbers
        Lower bounds of the effective degrees of freedom and of the quadratic form.
    """
    new = np.maximum(edf, least[0]) / np.maximum(quadratic_form, least[1])
    return np.asarray(np.clip(np.clip(new, lam / LARGEST_LAM_RATIO, lam * largest_increase), *bounds))


def updated_by_order(prior: Prior, posterior: FunctionPosterior, lam: Floats, ranks: Sequence[int]) -> Floats:
    """One step of the rule for the smoothing parameters (groups, functions) of a column.

    Functions of one order share theirs: degrees of freedom and quadratic forms are added up over them. ``ranks`` are
    their numbers.
    """
    out = np.empty_like(lam)
    start = 0
    for rank in ranks:
        functions = slice(start, start + rank)
        edf, quadratic_form = (
            posterior.edf[:, functions].sum(axis=1),
            posterior.quadratic_form[:, functions].sum(axis=1),
        )
        out[:, functions] = updated(lam[:, start], edf, quadratic_form, prior.bounds)[:, np.newaxis]
        start += rank
    return out
