"""How predictions compare with the rows: calibration, order, residuals, and every column's bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from ahofm.columns.basis import Floats
from ahofm.explain import effect
from ahofm.explain.assessment import Assessment, Groups, column_places, grouped, lorenz, tenths
from ahofm.model import Model
from ahofm.report.numbers import cell, listed, short

_DOTS, _QUANTILES, _BARS = 600, 200, 40
_MOST_GROUPS = 240
"""Columns times classes whose bins a page has."""


def diagnostics(
    rows: Assessment, columns: Sequence[int], labels: Sequence[Any], *, held_out: bool = False
) -> dict[str, Any]:
    """Everything that compares predictions with rows, for the target or for each class; strongest columns first."""
    count = max(5, _MOST_GROUPS // max(rows.observed.shape[1], 1))
    names = labels if rows.observed.shape[1] > 1 else [None]
    steps = rows.steps()
    return {
        "rows": len(rows.size),
        "held_out": held_out,
        "size": "exposure" if rows.exposed else "rows",
        "groups": [
            {
                "name": "" if name is None else str(name),
                "overall": short(np.average(rows.observed[:, k], weights=rows.size)),
                "tenths": _bins(tenths(rows, k)),
                "order": _order(rows, k),
                "columns": [_column(rows, j, k, name, steps) for j in columns[:count]],
            }
            for k, name in enumerate(names)
        ],
        "residuals": _residuals(rows),
    }


def _bins(found: Groups) -> dict[str, Any]:
    return {
        "at": [cell(name) for name in found.names],
        "size": listed(found.size),
        "observed": listed(found.observed),
        "fitted": listed(found.fitted),
        "error": listed(found.error),
    }


def _order(rows: Assessment, k: int) -> dict[str, Any] | None:
    found = lorenz(rows, k)
    if found is None:
        return None
    return {
        "rows": listed(found.rows),
        "observed": listed(found.observed),
        "gini": short(found.gini),
        "best": short(found.best),
    }


def _column(rows: Assessment, j: int, k: int, label: Any, steps: Floats) -> dict[str, Any]:
    """Bins of a column, with the step of the linear predictor that would fit each: its mean partial residual."""
    places, names = column_places(rows, j)
    found = _bins(grouped(rows, places, names, k))
    slope, curvature = (np.bincount(places, part[:, k], minlength=len(names)) for part in steps)
    with np.errstate(divide="ignore", invalid="ignore"):
        step = -slope / curvature
        error = np.sqrt(np.bincount(places, steps[0][:, k] ** 2, minlength=len(names))) / curvature
    own = _main_effects(rows.model, j, names, label)
    return {"column": j, **found, "step": listed(step), "step_error": listed(error), "partial": listed(own + step)}


def _main_effects(model: Model, j: int, names: Sequence[Any], label: Any) -> Floats:
    """At the bins; NaN for groups of several levels and for missing values."""
    book = model.encoder.codebooks[j]
    known = set(book.support.values.tolist()) if book.edges is None else None
    at = [place for place, name in enumerate(names) if name is not None and (known is None or name in known)]
    found = np.full(len(names), np.nan)
    if at and book.size:
        found[at] = effect(model, j, {j: [names[place] for place in at]}, linear_predictor=label).value
    return found


def _residuals(rows: Assessment) -> dict[str, Any] | None:
    residual = rows.quantile_residuals()
    if residual is None:
        return None
    n = len(residual)
    dots = np.random.default_rng(0).permutation(n)[:_DOTS]
    at = np.unique(np.linspace(0, n - 1, _QUANTILES).astype(int))
    band = [stats.norm.ppf(stats.beta.ppf(level, at + 1, n - at)) for level in (0.025, 0.975)]
    counts, edges = np.histogram(np.clip(residual, -4.0, 4.0), _BARS, (-4.0, 4.0))
    return {
        "fitted": listed(rows.fitted[dots, 0]),
        "residual": listed(residual[dots]),
        "normal": listed(stats.norm.ppf((at + 0.5) / n)),
        "ordered": listed(np.sort(residual)[at]),
        "low": listed(band[0]),
        "high": listed(band[1]),
        "histogram": {"from": float(edges[0]), "to": float(edges[-1]), "counts": counts.tolist()},
    }
