"""A fitted model as plain arrays and text: what every export is written from, and all that it knows of a model.

    eta_k = intercepts[k] + sum_j phi_jk(x_j) + sum_groups sum_f loadings[k, f] e_d(phi_1f(x_1), ..., phi_pf(x_p))

The functions of a column are the main effects of all linear predictors, then the factors of all groups. Factors that
linear predictors share are there once. In a group of product factors e_d is the product over all columns, of functions
that contain their constants ``means``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.spline_iid import SplineIIDBasis
from ahofm.columns.table import is_numeric
from ahofm.export.means import Mean, mean_of
from ahofm.kernels import LevelCurves, NumberCurves, column_curves
from ahofm.model import Model, Predictor
from ahofm.orders import MAIN, PRODUCT


@dataclass(frozen=True)
class Nodes:
    """Functions that are straight lines between nodes, and constant outside.

    Attributes
    ----------
    x : array of shape (nodes,)
        Increasing; at least one.
    values : array of shape (nodes, functions)
    """

    x: Floats
    values: Floats


@dataclass(frozen=True)
class NumberColumn:
    """Functions of a number: polynomials between breaks, plus lines between nodes.

    Attributes
    ----------
    name : str
    breaks : array of shape (pieces - 1,)
        The piece of x is the number of breaks at or below it.
    scales, shifts : arrays of shape (pieces,)
    values : array of shape (pieces, degree + 1, functions)
        Coefficients of t^0, t^1, ..., ``t = x * scale - shift``.
    missing : array of shape (functions,)
    start, period : float, optional
        With a period, x is first turned into its share of a turn that begins at ``start``.
    nodes : Nodes, optional
        At x itself.
    """

    name: str
    breaks: Floats
    scales: Floats
    shifts: Floats
    values: Floats
    missing: Floats
    start: float = 0.0
    period: float | None = None
    nodes: Nodes | None = None

    @property
    def text(self) -> bool:
        """Whether cells are text."""
        return False

    @property
    def used(self) -> bool:
        """Whether any function differs from zero somewhere."""
        return bool(self.values.any() or self.missing.any() or (self.nodes is not None and self.nodes.values.any()))

    @property
    def varies(self) -> bool:
        """Whether any function has different values."""
        first = self.values[0, 0]
        same = (self.values[:, 0] == first).all() and not self.values[:, 1:].any() and (self.missing == first).all()
        return not same or self.nodes is not None


@dataclass(frozen=True)
class LevelColumn:
    """Functions of a level.

    Attributes
    ----------
    name : str
    levels : tuple of str, or of float
        Distinct; numbers increase.
    values : array of shape (levels, functions)
    missing, unseen : arrays of shape (functions,)
    """

    name: str
    levels: tuple[Any, ...]
    values: Floats
    missing: Floats
    unseen: Floats
    text: bool

    @property
    def used(self) -> bool:
        """Whether any function differs from zero somewhere."""
        return bool(self.values.any() or self.missing.any() or self.unseen.any())

    @property
    def varies(self) -> bool:
        """Whether any function has different values."""
        return bool((self.values != self.unseen).any() or (self.missing != self.unseen).any())


Column: TypeAlias = NumberColumn | LevelColumn


@dataclass(frozen=True)
class Group:
    """Factors of one order, or product factors.

    Attributes
    ----------
    order : int
        ``ahofm.orders.PRODUCT`` for product factors.
    first : int
        Which of a column's functions is that of the first factor.
    loadings : array of shape (linear predictors, factors)
    means : array of shape (columns, factors), or None
        Of product factors: their functions where a column is averaged over.
    """

    order: int
    first: int
    loadings: Floats
    means: Floats | None = None

    @property
    def rank(self) -> int:
        """Number of factors."""
        return int(self.loadings.shape[1])

    @property
    def places(self) -> slice:
        """Which of a column's functions belong to it."""
        return slice(self.first, self.first + self.rank)


@dataclass(frozen=True)
class Description:
    """A fitted model, without what it was made from.

    Attributes
    ----------
    columns : tuple of NumberColumn or LevelColumn
        In the order of training.
    groups : tuple of Group
    intercepts : array of shape (linear predictors,)
    mean : Mean
        How linear predictors become means.
    labels : tuple of str
        Names of the linear predictors where there are several; one empty text otherwise.
    classes : tuple or None
        Labels of a classifier.
    pure : bool
        Whether functions have mean zero, so that contributions can be told apart.
    """

    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    intercepts: Floats
    mean: Mean
    labels: tuple[str, ...]
    classes: tuple[Any, ...] | None
    pure: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def n_functions(self) -> int:
        """Functions of a column."""
        return len(self.intercepts) + sum(group.rank for group in self.groups)

    @cached_property
    def used(self) -> tuple[int, ...]:
        """Columns that have an effect."""
        return tuple(j for j, column in enumerate(self.columns) if column.used)

    @cached_property
    def varying(self) -> tuple[int, ...]:
        """Columns whose value matters: product factors have constants of columns that do not vary."""
        return tuple(j for j, column in enumerate(self.columns) if column.varies)

    def quadrature(self) -> tuple[Floats, Floats]:
        """Nodes and weights of integrals over (0, 1) that are exact for the Shapley values of product factors."""
        nodes, weights = np.polynomial.legendre.leggauss(-(-len(self.columns) // 2))
        return 0.5 * (nodes + 1.0), 0.5 * weights

    def probabilities(self) -> tuple[str, ...]:
        """Names of what is predicted beside "prediction": a probability of every class, or of every level."""
        return tuple(f"probability {label}" for label in self.classes or self.mean.levels)


def describe(model: Model, *, pure: bool = False, mean: Mean | None = None) -> Description:
    """Write a model as plain arrays.

    Parameters
    ----------
    model : Model
    pure : bool, default False
        With functions of mean zero, which contributions need. A model that was fitted with ``center=False`` has more
        factors then.
    mean : Mean, optional
        How linear predictors become means; by default what the family says.

    Returns
    -------
    Description

    Raises
    ------
    TypeError
        For a family of a user's own whose mean is none that exports know.
    ValueError
        For a model that remembers repeated rows.
    """
    refuse_repeated(model)
    books = model.encoder.codebooks
    parts = [one.pure(books) if pure else one for one in model.linear_predictors]
    mean = mean or mean_of(model.family)
    wholes = [one.whole for one in parts]
    chosen, groups = _groups(wholes, [one.product_means for one in parts])
    columns = tuple(_column(book, j, wholes, chosen) for j, book in enumerate(books))
    classes = model.classes if model.classes is None else tuple(np.asarray(model.classes).tolist())
    several = len(parts) > 1
    labels = tuple(map(str, classes or range(len(parts)))) if several else ("",)
    intercepts = np.array([one.intercept for one in wholes])
    return Description(columns, groups, intercepts, mean, labels, classes, pure)


def refuse_repeated(model: Model) -> None:
    """Raise ValueError for a model that remembers repeated rows."""
    if model.repeated is not None:
        raise ValueError(
            "the model has effects of copies of training rows, and exports are functions of the columns alone: export "
            "estimator.forget_rows(), or give --forget-rows"
        )


_Chosen: TypeAlias = list[tuple[int, int]]
"""Functions of every column: the number of a linear predictor, and which of its functions."""


def _groups(wholes: Sequence[Predictor], means: Sequence[Floats | None]) -> tuple[_Chosen, tuple[Group, ...]]:
    """Factors of all linear predictors, those that are equal once."""
    chosen: _Chosen = [(k, 0) for k in range(len(wholes))]
    groups = []
    every = [_all_functions(one) for one in wholes]
    for order in sorted({order for one in wholes for order in one.orders}):
        found: dict[bytes, list[float]] = {}
        first, constants = len(chosen), []
        for k, one in enumerate(wholes):
            part = one.orders.slices.get(order, slice(0, 0))
            for f, loading in zip(range(part.start, part.stop), one.loadings.get(order, ()), strict=True):
                key = every[k][f].tobytes()
                if key not in found:
                    found[key] = [0.0] * len(wholes)
                    chosen.append((k, f))
                    own_means = means[k]
                    if order == PRODUCT and own_means is not None:
                        constants.append(own_means[:, f - part.start])
                found[key][k] += float(loading)
        loadings = np.array(list(found.values())).T
        groups.append(Group(order, first, loadings, np.array(constants).T if order == PRODUCT else None))
    return chosen, tuple(groups)


def _all_functions(one: Predictor) -> Floats:
    """Each function of a linear predictor in a row: its coefficients, centring and values at the neutral code."""
    at_neutral = [one.at_neutral(j) for j in range(len(one.coef))]
    return np.ascontiguousarray(np.vstack([*one.coef, *one.centring, *at_neutral]).T)


def _column(book: Codebook, j: int, wholes: Sequence[Predictor], chosen: _Chosen) -> Column:
    def of_all(arrays: Sequence[Floats]) -> Floats:
        return np.stack([arrays[k][..., f] for k, f in chosen], axis=-1)

    coef, centring = of_all([one.coef[j] for one in wholes]), of_all([one.centring[j] for one in wholes])
    neutral = of_all([one.at_neutral(j) for one in wholes])
    slopes = None
    if any(j in one.end_slopes for one in wholes):  # main effects that go on as lines
        slopes = np.array([wholes[k].end_slopes.get(j, 0.0) if f == MAIN else 0.0 for k, f in chosen])
    nodes = None
    if isinstance(book.functions, SplineIIDBasis):  # the spline and the levels apart: a quarter of the numbers
        both, kept = book.functions, [*range(book.functions.smooth.size)]
        nodes = Nodes(both.levels, coef[both.smooth.size : both.size])
        coef = coef[[*kept, *([book.size - 1] if book.learns_missing else [])]]
        book = replace(book, functions=both.smooth)
    curves = column_curves(book, coef, centring, neutral, slopes)
    if isinstance(curves, NumberCurves):
        return NumberColumn(
            book.name,
            curves.breaks,
            curves.scales,
            curves.shifts,
            np.asarray(curves.values),
            np.asarray(curves.missing),
            curves.start,
            curves.period,
            nodes,
        )
    return _by_code(book, curves, neutral)


def _by_code(book: Codebook, curves: LevelCurves, neutral: Floats) -> Column:
    """Levels; or numbers whose code says all, which are constants between the edges of codes."""
    values, missing = curves.values[: book.support.size], curves.values[book.missing_code]
    if book.edges is None:
        numbers = is_numeric(book.support.values)
        levels = tuple(map(float if numbers else str, book.support.values.tolist()))
        return LevelColumn(book.name, levels, values, missing, neutral, text=not numbers)
    if not len(values):
        values = neutral[np.newaxis]
    breaks = np.nextafter(book.edges, np.inf)  # a code is the number of edges strictly below x
    zeros = np.zeros(len(breaks) + 1)
    return NumberColumn(book.name, breaks, zeros, zeros, values[:, np.newaxis], missing)
