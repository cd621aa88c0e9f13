"""Differences of two levels, and derivatives of curves, with bands."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from ahofm.columns.basis import Floats
from ahofm.explain.arguments import Fitted, column_of, linear_predictor_of, model_of
from ahofm.explain.effects import Effect, Grid, column_values, density_of, grid_of, in_first_turn, value_of
from ahofm.explain.pure import purify
from ahofm.kernels.blas import one_blas_thread
from ahofm.model import Model
from ahofm.model.lines import beyond_range
from ahofm.threads import obeys_n_jobs

_STEP = 1.0 / 40.0
"""Of the range of a column: half the distance over which a derivative is taken."""


@obeys_n_jobs
@one_blas_thread()
def difference(
    fitted: Fitted,
    column: Any,
    value: Any,
    other: Any,
    *,
    along: Any = None,
    grid: Grid = None,
    level: float = 0.95,
    linear_predictor: Any = None,
) -> Effect:
    """Compute how much the linear predictor differs between two values of a column.

    Parameters
    ----------
    fitted : estimator or model
        Fitted.
    column : str or int
        Name or number.
    value, other
        Two values of the column; the result is the first less the second.
    along : str or int, optional
        A column along which the difference is a curve, with the interaction of the two columns; by default the
        difference of main effects alone.
    grid : int or dict, optional
        As for ``effect``, of ``along``.
    level : float, default 0.95
        Of the bands.
    linear_predictor : int or class, optional
        Which linear predictor, for families with several.

    Returns
    -------
    Effect
        On the scale of the linear predictor, with bands.

    Examples
    --------
    >>> from ahofm.explain import difference
    >>> found = difference(model, "wind", 0.5, -0.5)
    >>> bool(found.low[0] < 2.0 < found.high[0])
    True
    """
    model = model_of(fitted, band=True)
    k = linear_predictor_of(model, linear_predictor)
    j = column_of(model, column)
    columns: tuple[int, ...] = (j,) if along is None else (j, column_of(model, along))
    if len(set(columns)) < len(columns):
        raise ValueError(f"along={along!r} is the column itself; name another one")
    pure = purify(model, k)
    places = np.zeros(1) if along is None else grid_of(model, columns[1], grid, 1)
    terms = [columns[:1]] if along is None or model.order < 2 else [columns[:1], columns]
    sides = []
    for one in (value, other):
        given = column_values(model, j, [one] * len(places))
        sides.append([given] if along is None else [given, places])
    found = value_of(pure, columns, sides[0], terms) - value_of(pure, columns, sides[1], terms)
    std = reach = None
    if model.band is not None:
        books, band = model.encoder.codebooks, model.band
        jacobians, others, of_levels = [], np.zeros(len(places)), np.zeros(len(places))
        for side in sides:
            codes = {j: books[j].encode(in_first_turn(books[j], v)) for j, v in zip(columns, side, strict=True)}
            lines = beyond_range(model, band.mains, dict(zip(columns, side, strict=True)), k)
            parts = [band.term(term, [codes[j] for j in term], k, lines) for term in terms]
            jacobians.append(np.sum(parts, axis=0))
            others += sum(band.uncorrelated_variance(term, [codes[j] for j in term], k) for term in terms)
            of_levels += band.random_effect_variance(columns[:1], [codes[j]], k)
        derivatives = jacobians[0] - jacobians[1]
        std = np.hypot(band.std(derivatives, k), np.sqrt(others + of_levels))
        reach = band.reach(derivatives, level, k, of_levels) * std
    name = model.encoder.names[j]
    shown = (np.array([f"{value} - {other}"], dtype=object),) if along is None else (places,)
    label = (name,) if along is None else (model.encoder.names[columns[1]],)
    rows = np.ones(1) if along is None else density_of(model.encoder.codebooks[columns[1]], places)
    return _banded(label, shown, found, std, reach, level, f"{name}: {value} less {other}", rows)


@obeys_n_jobs
@one_blas_thread()
def derivative(
    fitted: Fitted, column: Any, grid: Grid = None, *, level: float = 0.95, linear_predictor: Any = None
) -> Effect:
    """Compute the slope of a column's main effect, with bands: where they leave zero, the curve rises or falls.

    Slopes are those between values a fortieth of the column's range to the left and to the right.

    Parameters
    ----------
    fitted : estimator or model
        Fitted.
    column : str or int
        Name or number of a column of numbers.
    grid : int or dict, optional
        As for ``effect``.
    level : float, default 0.95
        Of the bands.
    linear_predictor : int or class, optional
        Which linear predictor, for families with several.

    Returns
    -------
    Effect
        Slopes of the linear predictor, with bands.

    Examples
    --------
    >>> from ahofm.explain import derivative
    >>> slope = derivative(model, "wind", {"wind": [0.0]})  # of sin(3 wind)
    >>> bool(abs(slope.value[0] - 3.0) < 0.3)
    True
    """
    model = model_of(fitted, band=True)
    k, j = linear_predictor_of(model, linear_predictor), column_of(model, column)
    book = model.encoder.codebooks[j]
    if book.edges is None or book.support.size < 3:
        raise ValueError(f"column '{book.name}' is not one of at least three different numbers; use difference")
    at = np.asarray(grid_of(model, j, grid, 1), dtype=np.float64)
    codes, near = _either_side(model, j, at)
    curve = purify(model, k).main_of_column(j, near.ravel()).reshape(near.shape)
    wide = near[1] - near[0]
    std = reach = None
    if model.band is not None:
        parts = [model.band.term((j,), [side], k) for side in codes]
        slopes = (parts[1] - parts[0]) / wide[:, np.newaxis]
        std = model.band.std(slopes, k)
        reach = model.band.reach(slopes, level, k) * std
    slope, name = (curve[1] - curve[0]) / wide, "derivative of the effect"
    return _banded((book.name,), (at,), slope, std, reach, level, name, density_of(book, at))


def _either_side(model: Model, j: int, at: Floats) -> tuple[Floats, Floats]:
    """Codes, and the numbers that they stand for, to the left and to the right of numbers: (2, n) each."""
    book = model.encoder.codebooks[j]
    values = np.asarray(book.support.values, dtype=np.float64)
    step = _STEP * (values[-1] - values[0])
    left = np.searchsorted(values, np.clip(at, values[0], values[-1]) - step, side="right") - 1
    right = np.searchsorted(values, np.clip(at, values[0], values[-1]) + step, side="left")
    left, right = np.clip(left, 0, len(values) - 2), np.clip(right, 1, len(values) - 1)
    right = np.maximum(right, left + 1)
    codes = np.stack([left, right])
    return codes, values[codes]


def _banded(
    columns: tuple[str, ...],
    grid: tuple[Any, ...],
    value: Floats,
    std: Floats | None,
    reach: Floats | None,
    level: float,
    name: str,
    density: Floats,
) -> Effect:
    half = None if std is None else std * float(stats.norm.ppf(0.5 + 0.5 * level))
    return Effect(
        columns=columns,
        grid=grid,
        value=value,
        low=None if half is None else value - half,
        high=None if half is None else value + half,
        all_low=None if reach is None else value - reach,
        all_high=None if reach is None else value + reach,
        std=std,
        outside=np.zeros(len(value), dtype=bool),
        level=level,
        scale="link",
        alone=True,
        density=(density,),
        name=name,
    )
