"""Priors and posteriors of a column as plain arrays, and the way back: for compiled sweepers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.priors.base import FunctionPosterior, Prior
from ahofm.priors.column import ColumnPriors
from ahofm.priors.iid import IIDPrior, SplineIIDPrior, prior_trace, spline_of
from ahofm.priors.random_walk import RandomWalkPrior
from ahofm.priors.spline import SplinePrior

_KINDS: Mapping[type, str] = {
    SplinePrior: "spline",
    RandomWalkPrior: "random_walk",
    IIDPrior: "iid",
    SplineIIDPrior: "spline_iid",
}


def prior_kind(prior: Prior) -> str | None:
    """Name of a prior's kind; None for a class outside the package."""
    return _KINDS.get(type(prior))


def prior_arrays(prior: Prior) -> dict[str, Any]:
    """A prior with m smooth coordinates at B - 1 codes.

    Returns
    -------
    dict
        ``kind``, ``low`` and ``high`` (groups,), ``mass`` (B - 1,) or None. With smooth coordinates ``values``
        (B - 1, m), ``group``, ``relative_penalty`` and ``penalty`` (m,), and a local basis (``places``, ``entries``,
        ``transform``) or None. Of a random walk ``edges`` (B - 2,) and ``penalty_eigenvalues``; of independent effects
        ``repeated`` (B - 1,) and ``prior_trace``.
    """
    low, high = prior.bounds
    spec: dict[str, Any] = {"kind": prior_kind(prior), "low": low, "high": high}
    spec["mass"] = getattr(prior, "mass", None)
    smooth = spline_of(prior)
    if smooth is not None:
        spec |= {"values": np.ascontiguousarray(smooth.values), "group": smooth.group.astype(np.float64)}
        spec |= {"relative_penalty": smooth.relative_penalty, "penalty": smooth.penalty}
        places, entries, transform = smooth.local or (None, None, None)
        spec["places"] = None if places is None else places.ravel().astype(np.float64)
        spec |= {"entries": entries, "transform": transform}
    if isinstance(prior, RandomWalkPrior):
        spec |= {"edges": prior.edges, "penalty_eigenvalues": prior.penalty_eigenvalues}
    if isinstance(prior, (IIDPrior, SplineIIDPrior)):
        spec |= {"repeated": prior.repeated.astype(np.float64), "prior_trace": prior_trace(prior.mass, prior.repeated)}
    return spec


def coordinate_count(prior: Prior) -> int:
    """Number of coordinates of a prior's smooth part."""
    smooth = spline_of(prior)
    return 0 if smooth is None else smooth.values.shape[1]


def posterior_arrays(
    column: ColumnPriors, width: int, main: FunctionPosterior | None, factors: FunctionPosterior | None
) -> dict[str, Any]:
    """Coefficients of a column's functions, zero where they have not been solved; copies.

    Parameters
    ----------
    column : ColumnPriors
    width : int
        Number of factors.
    main, factors : FunctionPosterior or None
        As far as they have been solved.

    Returns
    -------
    dict
        ``main_smooth`` (m,), ``main_per_code`` (B - 1,), ``smooth`` (m, width), ``per_code`` (B - 1, width), ``edf``
        (groups, width), and ``solved``, the number of functions that have a posterior.
    """
    codes = column.book.n_codes - 1
    n_solved = 0 if factors is None else factors.mean.shape[1]
    arrays: dict[str, Any] = {
        "main_smooth": np.zeros(coordinate_count(column.main)),
        "main_per_code": np.zeros(codes),
        "smooth": np.zeros((coordinate_count(column.factors), width)),
        "per_code": np.zeros((codes, width)),
        "edf": np.zeros((column.factors.n_groups, width)),
        "solved": 0 if main is None else 1 + n_solved,
    }
    if main is not None:
        _fill(arrays["main_smooth"], None if main.smooth is None else main.smooth[:, 0])
        _fill(arrays["main_per_code"], None if main.per_code is None else main.per_code[:, 0])
    if factors is not None:
        _fill(arrays["smooth"][:, :n_solved], factors.smooth)
        _fill(arrays["per_code"][:, :n_solved], factors.per_code)
        _fill(arrays["edf"][:, :n_solved], factors.edf)
    return arrays


def function_posteriors(
    column: ColumnPriors, arrays: Mapping[str, Any], solved: int
) -> tuple[FunctionPosterior | None, FunctionPosterior | None]:
    """Main effect and factors from such arrays and ``mean`` and ``variance`` (B, 1 + width); None if not solved."""
    mean, variance, main, factors = arrays["mean"], arrays["variance"], None, None
    if solved > 0:
        zero = np.zeros((column.main.n_groups, 1))
        per_code = None if isinstance(column.main, SplinePrior) else arrays["main_per_code"][:, np.newaxis]
        smooth = arrays["main_smooth"][:, np.newaxis] if coordinate_count(column.main) else None
        main = FunctionPosterior(mean[:-1, :1], variance[:-1, :1], smooth, per_code, zero, zero)
    if solved > 1:
        only = slice(0, solved - 1)
        bound = isinstance(column.factors, SplinePrior) and not column.saturated
        per_code = None if bound else arrays["per_code"][:, only]
        smooth = arrays["smooth"][:, only] if coordinate_count(column.factors) else None
        edf = arrays["edf"][:, only]
        factors = FunctionPosterior(
            mean[:-1, 1:solved], variance[:-1, 1:solved], smooth, per_code, edf, np.zeros_like(edf)
        )
    return main, factors


def _fill(to: Floats, values: Floats | None) -> None:
    if values is not None:
        to[...] = values
