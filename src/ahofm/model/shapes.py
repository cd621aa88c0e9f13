"""The nearest linear predictor with given shapes, in mean square over the rows.

A constrained column becomes one with values at its codes joined by lines (``Shaped``): for fixed other columns the
linear predictor is then a line between codes, and monotone if it is monotone from code to code. For that, a step of
the main effect must be at least what factors can take away (``ahofm.model.bounds``), over all values of the others:

    m(b + 1) - m(b)  >=  sum_d s_db fall_db        steps of factors of order d shrink by s_db, 0 <= s_db <= 1

1. Fractions s by blocks of codes: least squares with bounds, of the changes of the linear predictor at the rows.
2. The main effect given them: isotonic regression, less the sum of what is required.

Constrained columns that interact are taken in turn. The last pass shrinks all functions of a column towards their mean
by one fraction: values then stay in their convex hull, so that monotonicity in the other columns is preserved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear, nnls
from sklearn.isotonic import isotonic_regression

from ahofm.columns import Codebook, Codes
from ahofm.columns.basis import Floats, Outside
from ahofm.columns.random_walk import RandomWalkBasis
from ahofm.columns.shaped import Shape, Shaped
from ahofm.kernels.symmetric import symmetric
from ahofm.model.bounds import Falls
from ahofm.model.model import Model
from ahofm.model.predictor import Lower, Predictor
from ahofm.model.trace import Choice
from ahofm.orders import FACTORS, MAIN, PRODUCT
from ahofm.tuning.constraints import (
    FEWEST_SHAPE_BLOCKS,
    LEAST_SHAPE_MASS,
    LEAST_SHAPE_RANGE,
    LEAST_SHAPE_WEIGHT,
    MOST_SHAPE_GROUPS,
    SHAPE_BLOCKS,
    SHAPE_HINGE_STEPS,
    SHAPE_PASSES,
    SHAPE_RIDGE,
    SHAPE_ROWS,
    SHAPE_STEP_ROOM,
)

_TOLERANCE = 1e-12
"""Fraction of a main effect's range by which steps may fall short of monotonicity, by rounding."""


@dataclass(frozen=True)
class ShapeRows:
    """Rows over which changes are measured: codes of all columns, and weights (n,)."""

    codes: Codes
    weight: Floats


def constrained(model: Model, shapes: Mapping[int, Shape], codes: Codes, weight: Floats) -> Model:
    """The model with these shapes of its first linear predictor, by position of the column.

    Parameters
    ----------
    model : Model
    shapes : dict of int to Shape
    codes : Codes
        Of all columns, at some rows.
    weight : array of shape (n,)
    """
    if not shapes:
        return model
    step = max(len(weight) // SHAPE_ROWS, 1)
    rows = ShapeRows(codes.take(np.arange(0, len(weight), step)), weight[::step])
    before = model.encoder.codebooks
    books = [_shaped_book(book, shapes.get(j)) for j, book in enumerate(before)]

    def all_of(linear_predictors: Sequence[Predictor]) -> tuple[Predictor, ...]:
        converted = [_converted(linear_predictor, before, books) for linear_predictor in linear_predictors]
        return _shaped(converted[0], books, shapes, rows), *converted[1:]

    encoder = replace(model.encoder, codebooks=tuple(books))
    text = ", ".join(f"{books[j].name} {shape}" for j, shape in sorted(shapes.items()))
    choice = Choice("monotonic_cst", text, "guaranteed for all values of the other columns")
    lower = tuple(Lower(order_model.order, all_of(order_model.linear_predictors)) for order_model in model.lower)
    variances = model.variance_model
    if variances is not None:
        variances = replace(variances, effects=_converted(variances.effects, before, books))
    return replace(
        model,
        encoder=encoder,
        linear_predictors=all_of(model.linear_predictors),
        lower=lower,
        choices=(*model.choices, choice),
        variance_model=variances,
    )


def _shaped_book(book: Codebook, shape: Shape | None) -> Codebook:
    if shape is None:
        return book
    knots = np.asarray(book.support.values, dtype=np.float64)
    outside: Outside = getattr(book.kind, "outside", "clamp")
    return replace(book, kind=Shaped(outside, shape=shape), functions=RandomWalkBasis(knots, "clamp"))


def _converted(predictor: Predictor, before: Sequence[Codebook], books: Sequence[Codebook]) -> Predictor:
    """In the bases of other codebooks with the same codes: values at codes, joined by lines."""
    coef = list(predictor.coef)
    for j, (old, new) in enumerate(zip(before, books, strict=True)):
        if old is not new:
            coef[j] = np.asarray(old.basis @ predictor.coef[j])[:-1]
    return replace(predictor, coef=tuple(coef))


def _shaped(predictor: Predictor, books: Sequence[Codebook], shapes: Mapping[int, Shape], rows: ShapeRows) -> Predictor:
    for j, shape in shapes.items():
        if shape in ("convex", "concave"):
            predictor = _curved(predictor, j, books[j], shape, rows)
    monotone = {j: shape for j, shape in shapes.items() if shape in ("increasing", "decreasing")}
    for number in range(SHAPE_PASSES + 1):
        changed = False
        for j, shape in monotone.items():
            column = _Column.of(predictor, books, j, shape)
            if column.holds():
                continue
            predictor, changed = column.projected(rows, whole=number == SHAPE_PASSES), True
        if not changed:
            break
    return predictor


def _curved(predictor: Predictor, j: int, book: Codebook, shape: Shape, rows: ShapeRows) -> Predictor:
    """A convex or concave main effect: nonnegative least squares on changes of the slope."""
    sign = 1.0 if shape == "convex" else -1.0
    values, knots = sign * predictor.coef[j][: book.support.size, MAIN], np.asarray(book.support.values, dtype=float)
    x = (knots - knots[0]) / (knots[-1] - knots[0])
    hinges = np.maximum(x[:, np.newaxis] - x[1:-1], 0.0)
    root = np.sqrt(np.maximum(book.support.mass / book.support.mass.sum(), LEAST_SHAPE_MASS))[:, np.newaxis]
    lines = np.column_stack([np.ones_like(x), -np.ones_like(x), x, -x])
    found, _ = nnls(root * np.hstack([lines, hinges]), root[:, 0] * values, maxiter=SHAPE_HINGE_STEPS * len(x))
    coef = [column_coef.copy() for column_coef in predictor.coef]
    coef[j][: book.support.size, MAIN] = sign * (np.hstack([lines, hinges]) @ found)
    return replace(predictor, coef=tuple(coef))


@dataclass(frozen=True)
class _Column:
    """A monotone column: its functions at its codes, in the order in which the linear predictor is to increase."""

    predictor: Predictor
    books: Sequence[Codebook]
    j: int
    codes: NDArray[np.intp]  # of the support, in that order
    values: Floats  # (codes, width), with the constants of product factors
    falls: Falls

    @classmethod
    def of(cls, predictor: Predictor, books: Sequence[Codebook], j: int, shape: Shape) -> _Column:
        """Of a linear predictor."""
        codes = np.arange(books[j].support.size)[:: 1 if shape == "increasing" else -1]
        values = _whole(predictor, predictor.at_codes(j, books[j]), j)[codes]
        return cls(predictor, books, j, codes, values, Falls(predictor.curves(books), j))

    def holds(self) -> bool:
        """Whether the linear predictor is monotone already."""
        steps = np.diff(self.values[:, MAIN])
        size = max(float(np.ptp(self.values[:, MAIN])), LEAST_SHAPE_RANGE)
        return bool((steps >= -self.falls.of(np.diff(self.values, axis=0)) - _TOLERANCE * size).all())

    @cached_property
    def mass(self) -> Floats:
        """Fraction of the weight at each code, positive."""
        given = self.books[self.j].support.mass[self.codes]
        positive = np.maximum(given, LEAST_SHAPE_MASS * given.sum())
        return np.asarray(positive / positive.sum())

    def projected(self, rows: ShapeRows, *, whole: bool) -> Predictor:
        """The nearest linear predictor that is monotone; ``whole``: factors shrink by one fraction for all codes.

        Factors are shrunk by a fraction per order, or per loading; the alternative with the smaller change is taken.
        """
        moments = self._moments(_slopes(self.predictor, self.books, self.j, rows), rows)
        best, least = self.values, np.inf
        for groups in self._groupings():
            count = 1 if whole else max(SHAPE_BLOCKS // max(len(groups), 1), FEWEST_SHAPE_BLOCKS)
            found = self._nearest(moments, groups, _blocks(self.mass, count))
            away = found - self.values
            away[:, MAIN] -= moments[:, 0, 0] @ away[:, MAIN] / moments[:, 0, 0].sum()
            change = float(np.einsum("cf,cfg,cg->", away, moments, away))
            if change < least:
                best, least = found, change
        return _with_column(self.predictor, self.j, self.codes, best)

    def _groupings(self) -> list[list[NDArray[np.bool_]]]:
        """Ways to group factors that shrink together: masks of all functions of the column."""
        orders = self.predictor.orders
        by_order = [orders.of_each == order for order in orders]
        by_loading = [
            np.append(False, (orders.of_each[1:] == order) & (np.abs(loadings) == size))
            for order in orders
            for loadings in [np.abs(orders.joined_factors(self.predictor.loadings))]
            for size in np.unique(loadings[orders.of_each[1:] == order])
        ]
        return [by_order, by_loading] if len(by_order) < len(by_loading) <= MOST_SHAPE_GROUPS else [by_order]

    def _nearest(self, moments: Floats, groups: Sequence[NDArray[np.bool_]], blocks: NDArray[np.intp]) -> Floats:
        """Values (codes, width): factors by the fractions of their groups, then the main effect given these."""
        new, steps, mass = self.values.copy(), np.diff(self.values, axis=0), self.mass
        for group, fraction in zip(groups, self._fractions(moments, groups, blocks), strict=True):
            cumulated = _cumulated(fraction[:, np.newaxis] * steps[:, group])
            new[:, group] = mass @ self.values[:, group] + cumulated - mass @ cumulated
        required = np.append(0.0, np.cumsum(-self.falls.of(np.diff(new, axis=0))))
        weight = np.maximum(moments[:, 0, 0], LEAST_SHAPE_WEIGHT * moments[:, 0, 0].sum())
        change = new[:, FACTORS] - self.values[:, FACTORS]
        lost = np.einsum("cf,cf->c", moments[:, 0, FACTORS], change) / weight
        wanted = self.values[:, MAIN] - lost - required
        new[:, MAIN] = isotonic_regression(wanted, sample_weight=weight) + required
        return new

    def _moments(self, slopes: Floats, rows: ShapeRows) -> Floats:
        """Sums by code of products of (1, slopes by the column's factors): (codes, width, width)."""
        design = np.column_stack([np.ones(len(slopes)), slopes])
        found = np.zeros((self.books[self.j].n_codes, design.shape[1], design.shape[1]))
        at = rows.codes.columns[self.j].astype(np.intp)
        order = np.argsort(at, kind="stable")
        starts = np.searchsorted(at[order], np.arange(len(found) + 1))
        for code in range(len(found)):
            rows_of_code = order[starts[code] : starts[code + 1]]
            found[code] = design[rows_of_code].T @ (rows.weight[rows_of_code, np.newaxis] * design[rows_of_code])
        return found[self.codes]

    def _fractions(
        self, moments: Floats, groups: Sequence[NDArray[np.bool_]], blocks: NDArray[np.intp]
    ) -> list[Floats]:
        """Fractions (codes - 1,) of the steps of groups of factors that stay: least squares with bounds, by blocks.

        The sum of the bounds of the groups is at least the bound of all factors together. Additional steps of the main
        effect are proportional to its present steps within a block.
        """
        if not groups:
            return []
        count, mass, main = int(blocks[-1]) + 1, self.mass, self.values[:, MAIN]
        member = (blocks[:, np.newaxis] == np.arange(count)).astype(float)
        steps = np.diff(self.values, axis=0)
        room = np.maximum(steps[:, MAIN], 0.0) + SHAPE_STEP_ROOM * np.ptp(main) / len(blocks)
        design = np.zeros((len(mass), steps.shape[1], (1 + len(groups)) * count))
        design[:, MAIN, :count] = _centred(member * room[:, np.newaxis], mass)
        for g, group in enumerate(groups):
            part = slice((1 + g) * count, (2 + g) * count)
            fall = self.falls.of(np.where(group, steps, 0.0))
            design[:, MAIN, part] = _centred(member * -fall[:, np.newaxis], mass)
            for f in np.flatnonzero(group):
                design[:, f, part] = _centred(member * steps[:, [f]], mass)
        weighted = np.einsum("cfg,cgm->cfm", moments, design).reshape(-1, design.shape[2])
        flat = design.reshape(-1, design.shape[2])
        right = weighted.T @ (self.values - mass @ self.values).ravel()
        gram = flat.T @ weighted
        scale = np.sqrt(np.maximum(np.diag(gram), LEAST_SHAPE_RANGE))
        root = np.linalg.cholesky(gram / np.outer(scale, scale) + SHAPE_RIDGE * np.eye(len(scale)))
        high = np.concatenate([np.full(count, np.inf), scale[count:]])
        found = lsq_linear(root.T, np.linalg.solve(root, right / scale), (0.0, high), method="bvls").x / scale
        return [np.clip(fraction, 0.0, 1.0)[blocks] for fraction in found[count:].reshape(-1, count)]


def _cumulated(steps: Floats) -> Floats:
    """Functions (codes, functions) that begin at zero, with these steps (codes - 1, functions)."""
    return np.vstack([np.zeros((1, steps.shape[1])), np.cumsum(steps, axis=0)])


def _centred(steps: Floats, mass: Floats) -> Floats:
    """The same of mean zero."""
    summed = _cumulated(steps)
    return np.asarray(summed - mass @ summed)


def _blocks(mass: Floats, count: int) -> NDArray[np.intp]:
    """Block (codes - 1,) of every step, at most ``count`` of about equal weight."""
    below = np.cumsum(mass)[:-1] - 0.5 * mass[:-1]
    return np.asarray(np.unique((below * count).astype(np.intp), return_inverse=True)[1])


def _whole(predictor: Predictor, values: Floats, j: int) -> Floats:
    """Functions of a column with the constants of product factors in, and main effects without them."""
    if predictor.product_means is None:
        return values
    part, means = predictor.orders.slices[PRODUCT], predictor.product_means
    others = np.delete(means, j, axis=0).prod(axis=0) * predictor.loadings[PRODUCT]
    found = values.copy()
    found[:, MAIN] -= values[:, part] @ others
    found[:, part] += means[j]
    return found


def _slopes(predictor: Predictor, books: Sequence[Codebook], j: int, rows: ShapeRows) -> Floats:
    """Slopes (n, factors) of the linear predictor by the factors of column j."""
    orders = predictor.orders
    at = np.array(
        [
            _whole(predictor, predictor.at_codes(i, book), i)[rows.codes.columns[i].astype(np.intp)]
            for i, book in enumerate(books)
            if i != j
        ]
    ).reshape(len(books) - 1, len(rows.weight), orders.width)
    found = {}
    for order, part in orders.slices.items():
        factor_values = at[:, :, part]
        value = factor_values.prod(axis=0) if order == PRODUCT else symmetric(factor_values, order - 1)
        found[order] = value * predictor.loadings[order]
    return orders.joined_factors(found, (len(rows.weight),))


def _with_column(predictor: Predictor, j: int, codes: NDArray[np.intp], values: Floats) -> Predictor:
    """With other values (codes, width) of a column, constants of product factors included, at codes of its support."""
    values = values.copy()
    if predictor.product_means is not None:
        part, means = predictor.orders.slices[PRODUCT], predictor.product_means
        values[:, part] -= means[j]
        values[:, MAIN] += values[:, part] @ (np.delete(means, j, axis=0).prod(axis=0) * predictor.loadings[PRODUCT])
    coef = list(predictor.coef)
    coef[j] = coef[j].copy()
    coef[j][codes] = values - predictor.centring[j]
    return replace(predictor, coef=tuple(coef))
