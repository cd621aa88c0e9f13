"""Changes of a fitted model by hand: each returns a new model, with a record of what was done.

Main effects are changed at their codes, exactly, with lines between them; so that needs a column with a function per
code (those that the data chose, ``RandomWalk``, ``SplineIID``, ``Categorical``). Effects of other kinds, and
interactions, can be rescaled and removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.categorical import CategoricalBasis
from ahofm.columns.random_walk import RandomWalkBasis
from ahofm.columns.spline_iid import SplineIIDBasis
from ahofm.columns.table import is_numeric
from ahofm.model.model import Model
from ahofm.model.predictor import Predictor
from ahofm.model.trace import Edit
from ahofm.model.truncation import truncated
from ahofm.orders import FACTORS, MAIN
from ahofm.tuning.numerics import BALANCE_STEPS, BALANCE_TOL, LARGEST_BALANCE_SHIFT

Change = Callable[[NDArray[Any], Floats], Floats]
"""From values (m,) of a column and its main effect (m,) there to a new main effect."""


def changed_main(model: Model, column: str | int, change: Change, edit: Edit, *, missing: bool, k: int) -> Model:
    """With another main effect of a column at its codes; ``missing``: also that of missing values."""
    j, book = book_of(model, column)
    if not isinstance(book.functions, (CategoricalBasis, RandomWalkBasis, SplineIIDBasis)):
        kind = "constant" if book.kind is None else type(book.kind).__name__
        raise ValueError(
            f"column '{book.name}' is {kind}, whose effect cannot be changed value by value; remove or rescale it, or "
            "fit it as RandomWalk() or SplineIID()"
        )
    predictor = model.linear_predictors[_checked_index(model, k)]
    effect = predictor.at_codes(j, book)[:, MAIN]
    count = book.support.size
    new = np.asarray(change(book.support.values, effect[:count].copy()), dtype=np.float64)
    coef = predictor.coef[j].copy()
    first = book.functions.smooth.size if isinstance(book.functions, SplineIIDBasis) else 0
    coef[:first, MAIN] = 0.0  # lines between codes: a smooth part would leave the bounds between them
    coef[first : first + count, MAIN] = new
    if book.learns_missing:
        absent = effect[count : count + 1].copy()
        coef[first + count, MAIN] = float(change(np.array([np.nan]), absent)[0] if missing else absent[0])
    centring = predictor.centring[j].copy()
    centring[MAIN] = 0.0
    changed = replace(
        _with_functions(predictor, j, coef, centring), end_slopes=_scaled_end_slope(predictor, j, 0.0)
    )  # no line any more
    return _edited(model, changed, k, edit)


def clipped(low: float | None, high: float | None) -> Change:
    """An effect between two numbers."""
    return lambda values, effect: np.clip(effect, -np.inf if low is None else low, np.inf if high is None else high)


def flattened(book: Codebook, low: Any, high: Any) -> Change:
    """An effect that is the same from one value to another: its mean over the training rows there."""

    def change(values: NDArray[Any], effect: Floats) -> Floats:
        inside = within(book, values, low, high)
        mass = book.support.mass[inside]
        level = np.average(effect[inside], weights=mass) if mass.sum() > 0.0 else effect[inside].mean()
        return np.where(inside, level, effect)

    return change


def set_to(book: Codebook, value: float, low: Any, high: Any, levels: Sequence[Any] | None) -> Change:
    """An effect that is a given number from one value to another, or at some levels."""

    def change(values: NDArray[Any], effect: Floats) -> Floats:
        if levels is None:
            return np.where(within(book, values, low, high), value, effect)
        wanted = [level if is_numeric(values) else str(level) for level in levels]
        unknown = [level for level in wanted if level not in set(values.tolist())]
        if unknown:
            present = ", ".join(map(repr, values.tolist()[:10]))
            raise ValueError(f"column '{book.name}' has no level {unknown[0]!r}; there are {present}")
        return np.where(np.isin(values, np.array(wanted, dtype=values.dtype)), value, effect)

    return change


def within(book: Codebook, values: NDArray[Any], low: Any, high: Any) -> NDArray[np.bool_]:
    """Which values lie between two others; raises ValueError where none does, or where they have no order."""
    if book.edges is None and (low is not None or high is not None):
        raise ValueError(f"column '{book.name}' has levels, which lie between nothing; give at=[...]")
    inside = np.ones(len(values), dtype=bool)
    if low is not None:
        inside &= values >= low
    if high is not None:
        inside &= values <= high
    if not inside.any():
        raise ValueError(f"column '{book.name}' has no value between {low} and {high} in training; widen the range")
    return inside


def rescaled(model: Model, column: str | int | None, order: int | None, factor: float, edit: Edit, k: int) -> Model:
    """With the main effect of a column, or all interactions of an order, multiplied by a number."""
    predictor = model.linear_predictors[_checked_index(model, k)]
    if (column is None) == (order is None):
        raise ValueError("give a column, for its main effect, or an order from 2 on, for all of its interactions")
    if order is not None:
        if order not in predictor.loadings:
            raise ValueError(
                f"the model has no factors of order {order}; it has {', '.join(map(str, predictor.loadings))}"
            )
        return _edited(
            model,
            replace(predictor, loadings={**predictor.loadings, order: factor * predictor.loadings[order]}),
            k,
            edit,
        )
    assert column is not None
    j, _ = book_of(model, column)
    coef, centring = predictor.coef[j].copy(), predictor.centring[j].copy()
    coef[:, MAIN] *= factor
    centring[MAIN] *= factor
    changed = replace(_with_functions(predictor, j, coef, centring), end_slopes=_scaled_end_slope(predictor, j, factor))
    return _edited(model, changed, k, edit)


def without_interactions(model: Model, column: str | int, edit: Edit, k: int) -> Model:
    """Without any interaction of a column; its main effect stays."""
    j, _ = book_of(model, column)
    predictor = model.linear_predictors[_checked_index(model, k)]
    coef, centring = predictor.coef[j].copy(), predictor.centring[j].copy()
    coef[:, FACTORS] = 0.0
    centring[FACTORS] = 0.0
    return _edited(model, _with_functions(predictor, j, coef, centring), k, edit)


def without_pair(model: Model, columns: Sequence[str | int], edit: Edit, k: int) -> Model:
    """Without the interaction of two columns by themselves; interactions of more columns stay.

    The same factors, restricted to the two columns and to pure terms of order 2, are subtracted.
    """
    books, predictor = model.encoder.codebooks, model.linear_predictors[_checked_index(model, k)]
    chosen = {book_of(model, column)[0] for column in columns}
    pure = truncated(predictor.pure(books), 2)
    pair = replace(pure.without([j not in chosen for j in range(len(books))], main_effects=False), intercept=0.0)
    return _edited(model, predictor.plus(pair, -1.0) if pair.loadings else predictor, k, edit)


def balanced(model: Model, eta: Floats, y: Floats, weight: Floats, edit: Edit) -> Model:
    """With another intercept, so that predictions add up to the targets, both weighted: the balance property.

    Parameters
    ----------
    model : Model
    eta : array of shape (n, linear predictors)
        Linear predictors of rows, offsets included.
    y, weight : arrays of shape (n,)
    edit : Edit
    """
    family = model.family
    if family.mean(np.zeros((1, family.n_eta))).ndim > 1 or family.censored:
        raise ValueError(f"{family.name} has no means that add up to its targets")
    total = float(weight @ y)

    def deficit(shift: float) -> float:
        moved = eta.copy()
        moved[:, 0] += shift
        return float(weight @ family.mean(moved)) - total

    size = 1.0 if family.logarithmic else max(float(np.abs(y).max()), 1.0)
    reach = size  # the intercept is sought in [-reach, reach]
    while deficit(-reach) * deficit(reach) > 0.0:
        reach *= 2.0
        if reach > LARGEST_BALANCE_SHIFT * size:
            raise ValueError(f"no intercept makes predictions add up to the targets, whose weighted sum is {total:g}")
    shift = brentq(deficit, -reach, reach, xtol=BALANCE_TOL[0] * size, rtol=BALANCE_TOL[1], maxiter=BALANCE_STEPS)
    first, *rest = model.linear_predictors
    moved = (first.scaled(float(shift)), *rest)
    return replace(model, linear_predictors=moved, lower=(), band=None, edits=(*model.edits, edit))


def book_of(model: Model, column: str | int) -> tuple[int, Codebook]:
    """Index and codebook of a column; raises ValueError where there is none."""
    names = model.encoder.names
    if isinstance(column, str) and column not in names:
        raise ValueError(f"no column '{column}' in the model; there are {', '.join(names[:20])}")
    if not isinstance(column, str) and not 0 <= int(column) < len(names):
        raise ValueError(f"no column {column} in the model; there are {len(names)}, from 0 on")
    j = names.index(column) if isinstance(column, str) else int(column)
    return j, model.encoder.codebooks[j]


def _checked_index(model: Model, k: int) -> int:
    if not 0 <= k < len(model.linear_predictors):
        raise ValueError(f"linear_predictor must be from 0 to {len(model.linear_predictors) - 1}, got {k!r}")
    return k


def _scaled_end_slope(predictor: Predictor, j: int, factor: float) -> dict[int, float]:
    """Slopes beyond the training range, that of a column multiplied by a number."""
    return {at: slope * (factor if at == j else 1.0) for at, slope in predictor.end_slopes.items()}


def _with_functions(predictor: Predictor, j: int, coef: Floats, centring: Floats) -> Predictor:
    """With other functions of a column."""
    coefs, centrings = list(predictor.coef), list(predictor.centring)
    coefs[j], centrings[j] = coef, centring
    return replace(predictor, coef=tuple(coefs), centring=tuple(centrings))


def _edited(model: Model, predictor: Predictor, k: int, edit: Edit) -> Model:
    """With one linear predictor changed, main effects centred, and one more record; without band and lower fits.

    Also without effects of copies of training rows, which would bring back what was changed.
    """
    parts = list(model.linear_predictors)
    parts[k] = predictor.centred(model.encoder.codebooks)
    changed = replace(model.without_repeated, linear_predictors=tuple(parts), lower=(), band=None)
    return replace(changed, edits=(*model.edits, edit))
