"""One term on a grid: a curve, a surface, a slice of any order, with bands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.cyclic import CyclicBasis
from ahofm.columns.shaped import Shaped
from ahofm.columns.table import is_numeric
from ahofm.explain.arguments import Fitted, column_of, columns_of, linear_predictor_of, model_of
from ahofm.explain.axis import FEW
from ahofm.explain.concurvity import shared_effects
from ahofm.explain.frames import Framed, frame
from ahofm.explain.html import effect_html
from ahofm.explain.pure import Pure, purify
from ahofm.kernels.blas import one_blas_thread
from ahofm.model import Model
from ahofm.model.beyond import Beyond
from ahofm.model.lines import beyond_range
from ahofm.threads import obeys_n_jobs

Grid: TypeAlias = int | Mapping[Any, ArrayLike] | None

_POINTS = {1: 100, 2: 40}
"""Of a grid, per column of numbers; 15 for more columns."""


@dataclass(frozen=True)
class Effect(Framed):
    """A term on a grid.

    Attributes
    ----------
    columns : tuple of str
    grid : tuple of arrays
        Values of each column: numbers or levels.
    value : array of shape (points of the first column, of the second, ...)
    low, high : arrays of the same shape, or None
        Ends of a band around ``value`` that holds ``level`` of the points on average; None when the model has no band.
    all_low, all_high : arrays of the same shape, or None
        Ends of a band that holds everywhere at once with that probability.
    std : array of the same shape, or None
        Standard error on the scale of the linear predictor: root of the estimated mean squared error.
    outside : array of bool of the same shape
        Where a number lies beyond those of training.
    level : float
    scale : "link" or "response"
    alone : bool
        Whether it is the interaction of all these columns only, or everything that depends on them alone.
    density : tuple of arrays
        Share of the training weight near each grid value.
    warnings : tuple of str
        Which columns share the effect with others, so that rows cannot tell whose it is (concurvity).
    edf : float or None
        Effective degrees of freedom of a main effect, where there is a band.
    name : str
        What ``value`` is: an effect, a difference of levels, or a derivative.
    """

    columns: tuple[str, ...]
    grid: tuple[NDArray[Any], ...]
    value: Floats
    low: Floats | None
    high: Floats | None
    all_low: Floats | None
    all_high: Floats | None
    std: Floats | None
    outside: NDArray[np.bool_]
    level: float
    scale: str
    alone: bool
    density: tuple[Floats, ...]
    warnings: tuple[str, ...] = ()
    edf: float | None = None
    name: str = "effect"

    def _repr_html_(self) -> str:
        """A small picture, for notebooks."""
        return effect_html(self)

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per point of the grid."""
        at = np.meshgrid(*(np.arange(len(values)) for values in self.grid), indexing="ij")
        data: dict[str, Any] = {}
        for name, values, places in zip(self.columns, self.grid, at, strict=True):
            data[name] = values[places.ravel()].tolist()
        names = ("value", "low", "high", "all_low", "all_high", "std", "outside")
        data |= {name: getattr(self, name).ravel() for name in names if getattr(self, name) is not None}
        return frame(data, backend)


@obeys_n_jobs
@one_blas_thread()
def effect(
    fitted: Fitted,
    columns: Any,
    grid: Grid = None,
    *,
    at: Mapping[Any, Any] | None = None,
    alone: bool = True,
    scale: Literal["link", "response"] = "link",
    level: float = 0.95,
    linear_predictor: Any = None,
) -> Effect:
    """Compute what the model says about one column, or about several together.

    Parameters
    ----------
    fitted : estimator or model
        An estimator computes its band; a model has one if it was made ``with_uncertainty``.
    columns : name, number, or sequence of them
        One for a main effect, two for the surface of a pair, and so on.
    grid : int or dict, optional
        Points per column of numbers; or values by column name, for the columns that it names. All levels otherwise.
    at : dict, optional
        Values at which further columns of the term are held: a slice. They count as columns of the term.
    alone : bool, default True
        Whether to leave out the terms of fewer columns. False adds them all.
    scale : "link" or "response", default "link"
        "response" is the family's mean where all other columns say nothing: the intercept and the effect, through the
        link.
    level : float, default 0.95
        Of the bands.
    linear_predictor : int or class, optional
        Which linear predictor, for families with several.

    Returns
    -------
    Effect
        Values on the grid, with bands.

    Examples
    --------
    >>> from ahofm.explain import effect
    >>> curve = effect(model, "wind", {"wind": [-0.5, 0.5]})
    >>> bool(np.allclose(curve.value, [-1.0, 1.0], atol=0.15))
    True
    >>> bool(np.all((curve.low < curve.value) & (curve.value < curve.high)))
    True
    >>> effect(model, ["rain", "sun"], 10).value.shape
    (10, 10)
    """
    model = model_of(fitted, band=True)
    k = linear_predictor_of(model, linear_predictor)
    held = {column_of(model, name): value for name, value in (at or {}).items()}
    free = columns_of(model, columns)
    if scale not in ("link", "response"):
        raise ValueError(f"scale must be 'link' or 'response', got {scale!r}")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    everything = columns_of(model, [*free, *held])
    grids = [grid_of(model, j, grid, len(free)) for j in free]
    shape = tuple(len(values) for values in grids)
    places = np.meshgrid(*(np.arange(size) for size in shape), indexing="ij")
    raw = [values[place.ravel()] for values, place in zip(grids, places, strict=True)]
    raw += [column_values(model, j, [value] * int(np.prod(shape))) for j, value in held.items()]
    pure = purify(model, k)
    terms = [everything] if alone else _subsets(everything)
    value = value_of(pure, everything, raw, terms)
    outside = np.any([_outside(model.encoder.codebooks[j], v) for j, v in zip(everything, raw, strict=True)], axis=0)
    band = _band(model, k, everything, raw, terms, level, with_intercept=scale == "response")

    def shown(values: Floats) -> Floats:
        return (_response(model, pure, values, k) if scale == "response" else values).reshape(shape)

    low = high = all_low = all_high = std = None
    if band is not None:
        std, all_reach = band
        low, high = ends_of(shown, value, std * float(stats.norm.ppf(0.5 + 0.5 * level)))
        all_low, all_high = ends_of(shown, value, all_reach)
        std = std.reshape(shape)
        if len(everything) == 1:
            book, order = model.encoder.codebooks[free[0]], np.argsort(grids[0])
            low, high = _monotone(book, order, low, high, rising=_rises(shown(value), order))
            all_low, all_high = _monotone(book, order, all_low, all_high, rising=_rises(shown(value), order))
    return Effect(
        columns=tuple(model.encoder.names[j] for j in free),
        grid=tuple(grids),
        value=shown(value),
        low=low,
        high=high,
        all_low=all_low,
        all_high=all_high,
        std=std,
        outside=outside.reshape(shape),
        level=level,
        scale=scale,
        alone=alone,
        density=tuple(density_of(model.encoder.codebooks[j], values) for j, values in zip(free, grids, strict=True)),
        warnings=tuple(shared_effects(model, k, everything)),
        edf=float(model.band.edf[k][1][free[0]]) if model.band is not None and len(everything) == 1 else None,
    )


def ends_of(shown: Callable[[Floats], Floats], value: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """Ends of a band around the fit; a link may turn them round."""
    ends = shown(value - reach), shown(value + reach)
    return np.minimum(*ends), np.maximum(*ends)


def _rises(value: Floats, order: NDArray[np.intp]) -> bool:
    return bool(value[order[-1]] >= value[order[0]])


def _monotone(
    book: Codebook, order: NDArray[np.intp], low: Floats, high: Floats, *, rising: bool
) -> tuple[Floats, Floats]:
    """Ends of a band of a monotone effect: no lower end is below one before it, no upper end above one after it.

    The true effect is in the band of every point; if it is monotone, it is in this band too.
    """
    if not isinstance(book.kind, Shaped) or book.kind.shape not in ("increasing", "decreasing"):
        return low, high
    along = order if rising else order[::-1]
    new_low, new_high = low.copy(), high.copy()
    new_low[along] = np.maximum.accumulate(low[along])
    new_high[along] = np.minimum.accumulate(high[along][::-1])[::-1]
    return new_low, new_high


def value_of(pure: Pure, columns: Sequence[int], raw: Sequence[NDArray[Any]], terms: Sequence[Sequence[int]]) -> Floats:
    """Sum of the terms of some sets of columns."""
    if all(len(term) == 1 for term in terms):
        at = dict(zip(columns, raw, strict=True))
        return sum((pure.main_of_column(j, at[j]) for (j,) in terms), np.zeros(len(raw[0])))
    functions = {j: pure.of_column(j, values) for j, values in zip(columns, raw, strict=True)}
    total = np.zeros(len(raw[0]))
    for term in terms:
        total += pure.term(term, np.stack([functions[j] for j in term]))
    return total


def _subsets(columns: Sequence[int]) -> list[tuple[int, ...]]:
    return [subset for size in range(1, len(columns) + 1) for subset in combinations(columns, size)]


def _band(
    model: Model,
    k: int,
    columns: Sequence[int],
    raw: Sequence[NDArray[Any]],
    terms: Sequence[Sequence[int]],
    level: float,
    *,
    with_intercept: bool,
) -> tuple[Floats, Floats] | None:
    """Standard errors, and how far a band reaches that holds everywhere at once."""
    if model.band is None:
        return None
    books = model.encoder.codebooks
    codes = {j: books[j].encode(in_first_turn(books[j], values)) for j, values in zip(columns, raw, strict=True)}
    lines = beyond_range(model, model.band.mains, dict(zip(columns, raw, strict=True)), k)
    if len(columns) == 1 and not lines:  # known at codes: in between it goes from one to the next, as the curve does
        below, above, share = between_codes(books[columns[0]], codes[columns[0]], raw[0])
        present, at = np.unique(np.stack([below, above, codes[columns[0]]]), return_inverse=True)
        at = at.reshape(3, -1)
        std, derivatives, of_levels = _std(model, k, terms, {columns[0]: present}, lines, with_intercept)
        reach = model.band.reach(derivatives[at[2]], level, k, of_levels[at[2]])
        std = (1.0 - share) * std[at[0]] + share * std[at[1]]
    else:
        std, derivatives, of_levels = _std(model, k, terms, codes, lines, with_intercept)
        reach = model.band.reach(derivatives, level, k, of_levels)
    return std, reach * std


def _std(
    model: Model,
    k: int,
    terms: Sequence[Sequence[int]],
    codes: Mapping[int, NDArray[Any]],
    lines: Mapping[int, Beyond],
    with_intercept: bool,
) -> tuple[Floats, Floats, Floats]:
    """Standard errors at codes, derivatives by the coordinates, variances by levels without one."""
    assert model.band is not None
    n = len(next(iter(codes.values())))
    derivatives = sum(
        (model.band.term(term, [codes[j] for j in term], k, lines) for term in terms),
        np.zeros((n, len(model.band.shifts[k]))),
    )
    if with_intercept:
        derivatives[:, 0] = 1.0
    places = [(term, [codes[j] for j in term]) for term in terms]
    of_levels = sum((model.band.random_effect_variance(*place, k) for place in places), np.zeros(n))
    others = sum((model.band.uncorrelated_variance(*place, k) for place in places), of_levels)
    return np.hypot(model.band.std(derivatives, k), np.sqrt(others)), derivatives, of_levels


def between_codes(
    book: Codebook, codes: NDArray[Any], values: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], Floats]:
    """Codes on both sides of each value, and how far it is from the first to the second; no distance for levels."""
    centres = np.asarray(book.support.values)
    if book.edges is None or len(centres) < 2 or not is_numeric(values):
        return codes, codes, np.zeros(len(codes))
    numbers = np.asarray(in_first_turn(book, values), dtype=np.float64)
    ends = centres
    if isinstance(book.functions, CyclicBasis):  # the last code is followed by the first, a turn later
        ends = np.append(centres, centres[0] + book.functions.period)
        numbers = np.where(numbers < centres[0], numbers + book.functions.period, numbers)
    below = np.clip(np.searchsorted(ends, numbers, side="right") - 1, 0, len(ends) - 2)
    share = np.clip((numbers - ends[below]) / np.diff(ends)[below], 0.0, 1.0)
    missing = np.isnan(numbers)
    above = np.where(missing, codes, (below + 1) % len(centres))
    return np.where(missing, codes, below), above, np.where(missing, 0.0, share)


def in_first_turn(book: Codebook, values: NDArray[Any]) -> NDArray[Any]:
    """Numbers on a circle as those of the turn in which training was: codes are known there."""
    if not isinstance(book.functions, CyclicBasis):
        return values
    start, period = book.functions.start, book.functions.period
    return np.asarray(
        np.where((values < start) | (values >= start + period), start + (values - start) % period, values)
    )


def _response(model: Model, pure: Pure, value: Floats, k: int) -> Floats:
    """The mean where other columns, and other linear predictors, say nothing."""
    intercepts = np.array([purify(model, other).intercept for other in range(model.family.n_eta)])
    eta = np.tile(intercepts, (len(value), 1))
    eta[:, k] = pure.intercept + value
    mean = model.family.mean(eta)
    return np.asarray(mean[:, k] if mean.ndim == 2 else mean)


def grid_of(model: Model, j: int, grid: Grid, n_columns: int) -> NDArray[Any]:
    """Values of a column: those asked for, all levels, or evenly spaced numbers, fewer when columns are many."""
    book = model.encoder.codebooks[j]
    if isinstance(grid, Mapping):
        named = {column_of(model, name): values for name, values in grid.items()}
        if j in named:
            return column_values(model, j, named[j])
    elif grid is not None and (isinstance(grid, bool) or not isinstance(grid, (int, np.integer)) or grid < 2):
        raise ValueError(f"grid must be an integer of at least 2 or a dict of values by column, got {grid!r}")
    values = book.support.values
    if book.edges is None:
        return np.asarray(values)
    points = int(grid) if isinstance(grid, (int, np.integer)) else _POINTS.get(n_columns, 15)
    turn = book.functions if isinstance(book.functions, CyclicBasis) else None
    if book.support.exact and len(values) <= points:
        closed = turn is not None and len(values) > FEW  # a curve, which ends where it began
        ends = [turn.start + turn.period] if turn is not None and closed else []
        return np.concatenate([np.asarray(values, dtype=np.float64), ends])
    high = book.support.high if turn is None else turn.start + turn.period
    return np.linspace(book.support.low, high, points)


def column_values(model: Model, j: int, values: Any) -> NDArray[Any]:
    """Values of a column as a table would hold them."""
    book = model.encoder.codebooks[j]
    if book.support.size and not is_numeric(book.support.values):
        out = np.empty(len(values), dtype=object)
        out[:] = [None if value is None else str(value) for value in values]
        return out
    try:
        return np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(f"column '{book.name}' holds numbers, got {values!r}") from error


def _outside(book: Codebook, values: NDArray[Any]) -> NDArray[np.bool_]:
    if book.edges is None or not is_numeric(values):
        return np.asarray(book.encode(values) == book.neutral_code)
    if isinstance(book.functions, CyclicBasis):  # every number is somewhere on the circle
        return np.zeros(len(values), dtype=bool)
    return np.asarray((values < book.support.low) | (values > book.support.high))


def density_of(book: Codebook, values: NDArray[Any]) -> Floats:
    """Share of the training weight that is nearest to each grid value."""
    total = max(float(book.mass.sum()), np.finfo(float).tiny)
    if book.edges is None or not is_numeric(values):
        return np.asarray(book.mass[book.encode(values)] / total)
    if len(values) == 1:
        return np.ones(1)
    order = np.argsort(values, kind="stable")
    between = 0.5 * (values[order][1:] + values[order][:-1])
    codes, mass = np.asarray(book.support.values, dtype=np.float64), book.support.mass
    out = np.empty(len(values))
    if book.support.exact:
        near = np.bincount(np.searchsorted(between, codes), weights=mass, minlength=len(values))
    else:  # a bin's mass lies around its mean, not at it
        below = np.interp(between, codes, np.cumsum(mass) - 0.5 * mass, left=0.0, right=float(mass.sum()))
        near = np.diff(below, prepend=0.0, append=float(mass.sum()))
    out[order] = near / total
    return out
