"""Predictions beside what was observed: by tenths of the prediction, by columns, and as quantile residuals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.explain.arguments import Fitted, column_of, model_of, training_of
from ahofm.explain.axis import axis_of
from ahofm.explain.frames import Framed, frame
from ahofm.model import Model
from ahofm.model.scores import pit

_ROWS = 50_000
_BINS = 20
_WHOLE = 31
"""Up to so many whole numbers, such as the hours of a day or the days of a month, are a group each."""


@dataclass(frozen=True)
class Assessment:
    """Rows with their predictions, and what the comparison needs.

    Attributes
    ----------
    model : Model
    table : Table of n rows
    y : array of shape (n,)
        Targets as the family knows them: numbers, or class numbers.
    observed, fitted : arrays of shape (n, groups)
        Per unit of ``size``; a group is the target, or each of several classes (0 or 1, and probabilities).
    size : array of shape (n,)
        Weight of each row, times its exposure where an offset is the logarithm of one.
    shift : array of shape (n,) or (n, linear predictors), or None
        Offsets.
    exposed : bool
        Whether sizes have exposures in them.
    """

    model: Model
    table: Table
    y: Floats
    observed: Floats
    fitted: Floats
    size: Floats
    shift: NDArray[Any] | None
    exposed: bool

    def steps(self) -> Floats:
        """Slope and curvature of the losses by each linear predictor, weighted: (2, n, linear predictors)."""
        eta = self.model.eta(self.table, self.shift)
        _, g, h = self.model.family.loss(self.y, eta)
        exposure = self._exposures()
        return np.stack([g, h]) * (self.size / exposure)[np.newaxis, :, np.newaxis]

    def _exposures(self) -> Floats:
        return np.exp(np.asarray(self.shift, dtype=np.float64)) if self.exposed else np.ones(len(self.size))

    def quantile_residuals(self) -> Floats | None:
        """Residuals (n,) that are normal where the model is right; None for several classes and without a distribution.

        Where each target lies in its fitted distribution, through the normal quantile; counts at random within their
        step.
        """
        if self.observed.shape[1] > 1:
            return None
        try:
            place = pit(self.model, self.table, self.y, 0, self.shift)
        except (NotImplementedError, ValueError):
            return None
        return np.asarray(stats.norm.ppf(np.clip(place, 1e-9, 1.0 - 1e-9)))


def assess(
    fitted: Fitted,
    X: Any = None,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    offset: ArrayLike | None = None,
) -> Assessment | None:
    """Predict rows beside their targets: those given, or those of training; None where neither is at hand.

    Of more than 50,000 rows a random part is taken.
    """
    model = model_of(fitted)
    if model.family.censored:
        raise ValueError(
            f"targets of {model.family.name} may be censored, so there are no observed means to compare; "
            "use pit, concordance or brier_score"
        )
    if X is None:
        training = training_of(fitted)
        if training is None:
            return None
        table, target, weight, shift = training.table, training.y, training.weight, training.offset
    else:
        table, weight, shift = model.encoder.check(X), sample_weight, offset
        if y is None:
            raise ValueError("y is None: with X its targets are needed")
        target = fitted._target(y) if hasattr(fitted, "_target") else y
    found = np.asarray(target, dtype=np.float64)
    rows = np.arange(table.n_rows)
    if len(rows) > _ROWS:
        rows = np.sort(np.random.default_rng(0).permutation(len(rows))[:_ROWS])
    table, found = table.take(rows), found[rows]
    shift = None if shift is None else np.asarray(shift, dtype=np.float64)[rows]
    size = np.ones(len(rows)) if weight is None else np.asarray(weight, dtype=np.float64)[rows]
    mean = model.mean(table, shift)
    if mean.ndim == 2:
        observed = (found[:, np.newaxis] == np.arange(mean.shape[1])).astype(np.float64)
        return Assessment(model, table, found, observed, mean, size, shift, exposed=False)
    exposed = shift is not None and shift.ndim == 1 and getattr(model.family, "link", "") == "log"
    exposure = np.exp(shift) if exposed and shift is not None else np.ones(len(rows))
    per = exposure[:, np.newaxis]
    return Assessment(
        model, table, found, found[:, np.newaxis] / per, mean[:, np.newaxis] / per, size * exposure, shift, exposed
    )


@dataclass(frozen=True)
class Groups(Framed):
    """Groups of rows: means observed and fitted, and how surely.

    Attributes
    ----------
    names : tuple
        Of the groups: numbers (means of their rows), levels, or None for missing values.
    size : array of shape (groups,)
        Rows, or exposure.
    observed, fitted, error : arrays of shape (groups,)
        Means, and the standard error of the observed one about the fitted one.
    """

    names: tuple[Any, ...]
    size: Floats
    observed: Floats
    fitted: Floats
    error: Floats

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per group."""
        names = ["missing" if name is None else name for name in self.names]
        data = {"group": names, "size": self.size, "observed": self.observed}
        return frame(data | {"fitted": self.fitted, "error": self.error}, backend)


def grouped(rows: Assessment, places: NDArray[np.intp], names: tuple[Any, ...], k: int = 0) -> Groups:
    """Means of the rows by their group number."""
    count = len(names)
    size = np.asarray(np.bincount(places, rows.size, minlength=count), dtype=np.float64)
    total = np.maximum(size, np.finfo(float).tiny)
    observed = np.bincount(places, rows.size * rows.observed[:, k], minlength=count) / total
    fitted = np.bincount(places, rows.size * rows.fitted[:, k], minlength=count) / total
    square = (rows.size * (rows.observed[:, k] - rows.fitted[:, k])) ** 2
    return Groups(names, size, observed, fitted, np.sqrt(np.bincount(places, square, minlength=count)) / total)


def tenths(rows: Assessment, k: int = 0, count: int = 10) -> Groups:
    """Rows by tenths of their prediction, from low to high, of equal sizes."""
    order = np.argsort(rows.fitted[:, k], kind="stable")
    before = np.cumsum(rows.size[order]) - 0.5 * rows.size[order]
    count = min(count, len(order))
    places = np.empty(len(order), dtype=np.intp)
    places[order] = np.minimum((count * before / max(rows.size.sum(), np.finfo(float).tiny)).astype(np.intp), count - 1)
    return grouped(rows, places, tuple(range(1, count + 1)), k)


@dataclass(frozen=True)
class Lorenz:
    """How well predictions order the rows.

    Attributes
    ----------
    rows, observed : arrays
        Shares of the rows with the lowest predictions, and of the observed total that they have.
    gini : float
        Of the order by predictions: 1 less twice the area below the curve.
    best : float
        Of the order by the targets themselves, the most that is possible.
    """

    rows: Floats
    observed: Floats
    gini: float
    best: float


def lorenz(rows: Assessment, k: int = 0) -> Lorenz | None:
    """Ordered by prediction; None where targets are negative or all zero."""
    amount = rows.size * rows.observed[:, k]
    if (amount < 0.0).any() or not amount.sum() > 0.0:
        return None

    def curve(by: Floats) -> tuple[Floats, Floats, float]:
        order = np.argsort(by, kind="stable")
        x = np.concatenate([[0.0], np.cumsum(rows.size[order])]) / rows.size.sum()
        y = np.concatenate([[0.0], np.cumsum(amount[order])]) / amount.sum()
        return x, y, float(1.0 - np.sum(np.diff(x) * (y[1:] + y[:-1])))

    x, y, gini = curve(rows.fitted[:, k])
    keep = np.unique(np.linspace(0, len(x) - 1, 60).astype(int))
    return Lorenz(x[keep], y[keep], gini, curve(rows.observed[:, k])[2])


def column_places(rows: Assessment, j: int) -> tuple[NDArray[np.intp], tuple[Any, ...]]:
    """Group number of every row by a column, and the groups: bins of its axis, or the levels with most rows."""
    book, column = rows.model.encoder.codebooks[j], rows.table.columns[j]
    codes = book.encode(column)
    if book.edges is None:
        return _level_places(book, codes, rows.size)
    axis = axis_of(book)
    numbers = np.asarray(column, dtype=np.float64)
    missing = np.isnan(numbers)
    if len(axis.points):
        cuts = 0.5 * (axis.points[1:] + axis.points[:-1])
    else:
        each = axis.whole and axis.scale == "linear" and axis.high - axis.low < _WHOLE
        ends = np.arange(axis.low, axis.high + 2.0) if each else axis.even(_BINS + 1)
        cuts = (ends[1:] - 0.5 * axis.whole)[:-1] if len(ends) > 2 else np.empty(0)
    places = np.where(missing, len(cuts) + 1, np.searchsorted(cuts, numbers, side="right"))
    present, places = np.unique(places, return_inverse=True)
    size = np.bincount(places, rows.size)
    means = np.bincount(places, rows.size * np.where(missing, 0.0, numbers)) / np.maximum(size, np.finfo(float).tiny)
    names = tuple(
        None if old == len(cuts) + 1 else float(mean) for old, mean in zip(present.tolist(), means, strict=True)
    )
    return places.astype(np.intp), names


def _level_places(book: Codebook, codes: NDArray[Any], size: Floats) -> tuple[NDArray[np.intp], tuple[Any, ...]]:
    """The twenty levels with most rows; the others are one group, and so are missing values."""
    mass = np.bincount(codes, size, minlength=book.n_codes)
    levels = np.arange(book.support.size)
    kept = np.sort(levels[np.argsort(-mass[: len(levels)], kind="stable")[:_BINS]])
    kept = kept[mass[kept] > 0.0]
    to = np.full(book.n_codes, len(kept))
    to[kept] = np.arange(len(kept))
    names: list[Any] = [book.support.values[at] for at in kept.tolist()]
    if (mass[: len(levels)] > 0.0).sum() > len(kept):
        names.append("all others")
    if book.learns_missing and mass[book.missing_code] > 0.0:
        to[book.missing_code] = len(names)
        names.append(None)
    if mass[book.neutral_code] > 0.0:
        to[book.neutral_code] = len(names)
        names.append("not in training")
    return to[codes].astype(np.intp), tuple(names)


def observed_and_fitted(
    fitted: Fitted,
    column: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    label: Any = None,
) -> Groups:
    """Compare observed with fitted means by the values of a column.

    Parameters
    ----------
    fitted : estimator or model
        Fitted.
    column : str or int
        Name or number: bins of its numbers, or its levels.
    X : table of n rows, optional
        Best rows that were not fitted; by default those of training.
    y : array of shape (n,), optional
        Their targets; needed with ``X``.
    sample_weight : array of shape (n,), optional
        Weights in the means.
    offset : array of shape (n,), optional
        As in ``fit``; with a log link its exponential is an exposure, and means are per unit of it.
    label : optional
        Which class, for a classifier of several.

    Returns
    -------
    Groups
        One per bin or level that has rows.

    Examples
    --------
    >>> from ahofm.explain import observed_and_fitted
    >>> by_wind = observed_and_fitted(model, "wind")
    >>> bool((abs(by_wind.observed - by_wind.fitted) < 5 * by_wind.error + 0.1).all())
    True
    """
    model = model_of(fitted)
    rows = assess(fitted, X, y, sample_weight, offset)
    if rows is None:
        raise ValueError("X is None and the estimator has no training rows: give X and y")
    classes = list(model.classes or ())
    if len(classes) > 2 and label not in classes:
        raise ValueError(f"label must be one of the classes {', '.join(map(str, classes))}, got {label!r}")
    places, names = column_places(rows, column_of(model, column))
    return grouped(rows, places, names, classes.index(label) if len(classes) > 2 else 0)
