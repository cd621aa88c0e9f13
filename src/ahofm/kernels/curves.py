"""A linear predictor at true values, not at codes: what prediction evaluates.

    eta(x) = intercept + sum_j main_j(x_j) + sum_d sum_f loading_{d,f} e_d(phi_{1,f}(x_1), ..., phi_{p,f}(x_p))

In the place of an order d, ``ahofm.orders.PRODUCT`` stands for p: the product over all p columns.
Every column has ``width`` functions: its main effect and its factors, where :class:`ahofm.orders.Orders` says.
Functions of a number are polynomials between breaks (``ahofm.columns.Pieces``), those of a level a table by code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import prod
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.piecewise import exponent_of_width, line_ends, scale_of_exponent, turn
from ahofm.kernels.reference import symmetric_polynomial
from ahofm.orders import PRODUCT, Orders


@dataclass(frozen=True)
class NumberCurves:
    """Functions of a number.

    Attributes
    ----------
    breaks : array of shape (pieces - 1,)
    scales, shifts : arrays of shape (pieces,)
    values : array of shape (pieces, degree + 1, width)
        Coefficients of t^0, t^1, ..., ``t = x * scale - shift``; the piece of x is the number of breaks at or below it.
    missing : array of shape (width,)
        The functions where x is missing.
    start, period : float, optional
        With a period, x is first turned into its share of a turn that begins at ``start``.
    """

    breaks: Floats
    scales: Floats
    shifts: Floats
    values: Floats
    missing: Floats
    start: float = 0.0
    period: float | None = None

    def __post_init__(self) -> None:
        """Refuse shapes that do not fit."""
        pieces = len(self.breaks) + 1
        if np.ndim(self.values) != 3 or np.shape(self.values)[0] != pieces or np.shape(self.values)[1] < 1:
            raise ValueError(f"values has shape {np.shape(self.values)}, expected ({pieces}, degree + 1, width)")
        expected = {"scales": (pieces,), "shifts": (pieces,), "missing": (self.width,)}
        for name, shape in expected.items():
            if np.shape(getattr(self, name)) != shape:
                raise ValueError(f"{name} has shape {np.shape(getattr(self, name))}, expected {shape}")
        if self.period is not None and not (np.isfinite(self.period) and self.period > 0):
            raise ValueError(f"period must be a positive number or None, got {self.period!r}")

    @property
    def width(self) -> int:
        """Number of functions."""
        return int(self.values.shape[2])

    @property
    def degree(self) -> int:
        """Highest power."""
        return int(self.values.shape[1]) - 1

    def some(self, which: NDArray[np.intp]) -> NumberCurves:
        """Some of the functions."""
        return replace(self, values=self.values[..., which], missing=self.missing[which])

    def with_lines(self, slopes: Floats) -> NumberCurves:
        """With lines of these slopes (width,) from the first and the last break outwards, where all were constant."""
        border, end = (self.breaks[0], self.breaks[-1]), line_ends(self.breaks[0], self.breaks[-1])
        scale = float(scale_of_exponent(exponent_of_width(*border)))
        powers = max(self.degree, 1) + 1
        values = np.zeros((len(self.breaks) + 3, powers, self.width))
        values[1:-1, : self.degree + 1] = self.values
        for piece, outer, low, far in ((1, 0, border[0], end[0]), (-2, -1, border[1], end[1])):
            values[piece, 1] = slopes / scale
            values[outer, 0] = values[piece, 0] + slopes / scale * (far * scale - low * scale)
        scales = np.concatenate([[0.0, scale], self.scales[1:-1], [scale, 0.0]])
        shifts = np.concatenate([[0.0, border[0] * scale], self.shifts[1:-1], [border[1] * scale, 0.0]])
        return NumberCurves(np.concatenate([end[:1], self.breaks, end[1:]]), scales, shifts, values, self.missing)

    def evaluate(self, x: Floats) -> Floats:
        """Functions at numbers, NaN where missing, the obvious way: (n, width)."""
        absent = np.isnan(x)
        x = np.where(absent, 0.0, x)
        x = x if self.period is None else turn(x, self.start, self.period)
        at = np.searchsorted(self.breaks, x, side="right")
        t = (x * self.scales[at] - self.shifts[at])[:, np.newaxis]
        phi = np.zeros((len(x), self.width))
        for m in range(self.degree, -1, -1):
            phi = phi * t + self.values[at, m]
        return np.where(absent[:, np.newaxis], self.missing, phi)


@dataclass(frozen=True)
class LevelCurves:
    """Functions of a code: values of shape (codes, width)."""

    values: Floats

    def __post_init__(self) -> None:
        """Refuse shapes that do not fit."""
        if np.ndim(self.values) != 2 or np.shape(self.values)[0] < 1:
            raise ValueError(
                f"values has shape {np.shape(self.values)}, expected (codes, width) with at least one code"
            )

    @property
    def width(self) -> int:
        """Number of functions."""
        return int(self.values.shape[1])

    def some(self, which: NDArray[np.intp]) -> LevelCurves:
        """Some of the functions."""
        return LevelCurves(self.values[:, which])

    def evaluate(self, codes: NDArray[Any]) -> Floats:
        """Functions at codes: (n, width)."""
        if len(codes) and int(codes.max()) >= len(self.values):
            row = int(np.argmax(codes >= len(self.values)))
            raise ValueError(f"code {codes[row]} in row {row} is out of range: the column has {len(self.values)} codes")
        return np.asarray(self.values[codes])


def column_curves(
    book: Codebook,
    coef: Floats,
    centring: ArrayLike = 0.0,
    neutral: ArrayLike = 0.0,
    slopes: Floats | None = None,
) -> NumberCurves | LevelCurves:
    """Curves of one column: ``phi(x) = book.evaluate(x) @ coef + centring``, and ``neutral`` where x is neutral.

    Parameters
    ----------
    book : Codebook
    coef : array of shape (book.size, width)
    centring : array of shape (width,), optional
        Added at every value, also at a missing one if training had some; not at unseen levels.
    neutral : array of shape (width,), optional
        The functions at unseen levels, and where x is missing if training had no such rows: zero unless given.
    slopes : array of shape (width,), optional
        Of lines beyond the training range, for a column whose functions are constant there.
    """
    coef = np.asarray(coef, dtype=np.float64)
    if coef.ndim != 2 or coef.shape[0] != book.size:
        raise ValueError(f"coef of column '{book.name}' has shape {coef.shape}, expected ({book.size}, width)")
    if np.shape(centring) not in ((), coef.shape[1:]):
        raise ValueError(f"level of column '{book.name}' has shape {np.shape(centring)}, expected {coef.shape[1:]}")
    pieces = book.pieces
    if pieces is None:
        values = np.asarray(book.basis @ coef)
        values[: book.neutral_code] += centring
        values[book.neutral_code] = neutral
        return LevelCurves(values)
    values = np.stack([power @ coef[: pieces.size] for power in pieces.powers], axis=1)
    values[:, 0] += centring
    missing = coef[-1] + centring if book.learns_missing else np.broadcast_to(neutral, coef.shape[1:])
    curves = NumberCurves(pieces.breaks, pieces.scales, pieces.shifts, values, missing, pieces.start, pieces.period)
    return curves if slopes is None else curves.with_lines(slopes)


@dataclass(frozen=True)
class Curves:
    """One linear predictor: its columns' functions, and how they go together.

    Attributes
    ----------
    intercept : float
    orders : Orders, or dict of order (>= 2) to rank
    columns : tuple of NumberCurves or LevelCurves
        Each of the width of the orders.
    loadings : dict of order to array of shape (rank,), optional
        Weight of each factor's term, of any sign; ones by default.
    means : array of shape (columns, rank of product factors), optional
        Functions of product factors where their column is averaged over, for ``contributions``; zeros by default.
    """

    intercept: float
    orders: Orders
    columns: tuple[NumberCurves | LevelCurves, ...]
    loadings: Mapping[int, Floats] = field(default_factory=dict)
    means: Floats | None = None

    def __post_init__(self) -> None:
        """Refuse what does not fit together."""
        object.__setattr__(self, "orders", Orders(self.orders))
        object.__setattr__(self, "loadings", self.orders.checked_loadings(self.loadings or None))
        if not self.columns:
            raise ValueError("columns is empty; at least one is needed")
        for j, column in enumerate(self.columns):
            if column.width != self.width:
                raise ValueError(f"column {j} has {column.width} functions, but intercept and ranks need {self.width}")
        expected = (len(self.columns), self.orders.get(PRODUCT, 0))
        if self.means is not None and np.shape(self.means) != expected:
            raise ValueError(f"means has shape {np.shape(self.means)}, expected {expected}")

    @property
    def width(self) -> int:
        """Functions of one column: its main effect and all its factors."""
        return self.orders.width

    @property
    def product_means(self) -> Floats:
        """Means of the product factors' functions: (columns, rank)."""
        return np.zeros((len(self.columns), self.orders.get(PRODUCT, 0))) if self.means is None else self.means


@runtime_checkable
class CurveKernel(Protocol):
    """Evaluates linear predictors at true values. Stateless: any number of threads may share one."""

    def eta(self, columns: Sequence[NDArray[Any]]) -> Floats:
        """Linear predictors of each row, (n, linear predictors).

        Parameters
        ----------
        columns : sequence of arrays of shape (n,)
            As ``ahofm.columns.Codebook.places`` gives them: numbers with NaN where missing, codes of levels.
        """
        ...


@dataclass(frozen=True)
class ReferenceCurves:
    """NumPy and itertools. Slow, kept for ever to check others."""

    linear_predictors: tuple[Curves, ...]

    def __post_init__(self) -> None:
        """Refuse linear predictors that do not fit together."""
        object.__setattr__(self, "linear_predictors", check_predictors(self.linear_predictors))

    def eta(self, columns: Sequence[NDArray[Any]]) -> Floats:
        """Linear predictors of each row, (n, linear predictors)."""
        columns = check_columns(self.linear_predictors[0], columns)
        eta = np.empty((len(columns[0]), len(self.linear_predictors)))
        for k, curves in enumerate(self.linear_predictors):
            phi = np.stack([curve.evaluate(column) for curve, column in zip(curves.columns, columns, strict=True)])
            main, factors = curves.orders.split(phi)
            eta[:, k] = curves.intercept + main.sum(axis=0)
            for order, values in factors.items():
                eta[:, k] += symmetric_polynomial(values, order) @ curves.loadings[order]
        return eta

    def contributions(self, columns: Sequence[NDArray[Any]]) -> Floats:
        """What each column has in linear predictors, an equal part of each term: (n, linear predictors, columns)."""
        columns = check_columns(self.linear_predictors[0], columns)
        out = np.empty((len(columns[0]), len(self.linear_predictors), len(columns)))
        for k, curves in enumerate(self.linear_predictors):
            phi = np.stack([curve.evaluate(column) for curve, column in zip(curves.columns, columns, strict=True)])
            main, factors = curves.orders.split(phi)
            for j in range(len(columns)):
                out[:, k, j] = main[j]
                for order, values in factors.items():
                    if order == PRODUCT:
                        terms = _shapley_of_product(
                            values - curves.product_means[:, np.newaxis], curves.product_means, j
                        )
                        out[:, k, j] += terms @ curves.loadings[order]
                        continue
                    others = symmetric_polynomial(np.delete(values, j, axis=0), order - 1)
                    out[:, k, j] += (values[j] * others) @ (curves.loadings[order] / order)
        return out


def _shapley_of_product(parts: Floats, means: Floats, j: int) -> Floats:
    """Of column j: an equal part of every term with it of ``prod_j (means[j] + parts[j])``, (n, rank)."""
    found = np.zeros(parts.shape[1:])
    others = [k for k in range(len(parts)) if k != j]
    for size in range(len(parts)):
        for subset in combinations(others, size):
            rest = [means[k] for k in others if k not in subset]
            found += prod([parts[k] for k in subset], start=parts[j]) * prod(rest, start=1.0) / (size + 1)
    return found


def check_predictors(linear_predictors: Sequence[Curves]) -> tuple[Curves, ...]:
    """Raise ValueError unless there are linear predictors, all of the same columns with the same breaks."""
    if not linear_predictors:
        raise ValueError("linear predictors is empty; at least one is needed")
    first = linear_predictors[0].columns
    for k, curves in enumerate(linear_predictors):
        if len(curves.columns) != len(first):
            raise ValueError(
                f"linear predictor {k} has {len(curves.columns)} columns, linear predictor 0 has {len(first)}"
            )
        for j, (mine, other) in enumerate(zip(curves.columns, first, strict=True)):
            if not _same_places(mine, other):
                raise ValueError(f"column {j} has other pieces in linear predictor {k} than in linear predictor 0")
    return tuple(linear_predictors)


def _same_places(a: NumberCurves | LevelCurves, b: NumberCurves | LevelCurves) -> bool:
    if isinstance(a, LevelCurves) or isinstance(b, LevelCurves):
        return isinstance(a, LevelCurves) and isinstance(b, LevelCurves) and len(a.values) == len(b.values)
    arrays = (a.breaks, b.breaks), (a.scales, b.scales), (a.shifts, b.shifts)
    same = all(mine is other or np.array_equal(mine, other) for mine, other in arrays)
    return same and (a.degree, a.start, a.period) == (b.degree, b.start, b.period)


def check_columns(curves: Curves, columns: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Columns as arrays that can be evaluated; ValueError or TypeError when they do not fit the curves."""
    if len(columns) != len(curves.columns):
        raise ValueError(f"columns: got {len(columns)}, but there are curves of {len(curves.columns)}")
    checked = []
    for j, (curve, column) in enumerate(zip(curves.columns, columns, strict=True)):
        array = np.asarray(column)
        if array.shape != np.shape(columns[0])[:1]:
            raise ValueError(f"column {j} has shape {array.shape}, expected {np.shape(columns[0])[:1]}")
        if isinstance(curve, LevelCurves):
            if array.dtype.kind != "u" or array.dtype.itemsize > 4:
                raise TypeError(f"column {j} must hold codes (uint8, uint16 or uint32), got {array.dtype}")
        elif array.dtype.kind not in "fiub":
            raise TypeError(f"column {j} must hold numbers, got {array.dtype}")
        checked.append(array if isinstance(curve, LevelCurves) else array.astype(np.float64, copy=False))
    return checked
