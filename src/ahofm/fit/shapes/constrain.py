"""The nearest linear predictor with given shapes, in mean square over the rows.

A constrained column becomes one with values at its codes joined by lines (``Shaped``): for fixed other columns the
linear predictor is then a line between codes, and monotone if it is monotone from code to code. For that, a step of
the main effect must be at least what factors can take away (``bounds``), over all values of the others:

    m(b + 1) - m(b)  >=  sum_d s_db fall_db        steps of factors of order d shrink by s_db, 0 <= s_db <= 1

1. Fractions s by blocks of codes: least squares with bounds, of the changes of the linear predictor at the rows.
2. The main effect given them: isotonic regression, less the sum of what is required.

Constrained columns that interact are taken in turn. The last pass shrinks all functions of a column towards their mean
by one fraction: values then stay in their convex hull, so that it takes nothing from the guarantee of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear, nnls
from sklearn.isotonic import isotonic_regression

from ahofm.columns import Codebook, Codes
from ahofm.columns.basis import Floats
from ahofm.columns.random_walk import RandomWalkBasis
from ahofm.columns.shaped import Shape, Shaped
from ahofm.fit.shapes.bounds import Falls
from ahofm.kernels.symmetric import symmetric
from ahofm.model import Choice, Lower, Model, Predictor
from ahofm.orders import MAIN, PRODUCT
from ahofm.tuning.constraints import SHAPE_BLOCKS, SHAPE_PASSES, SHAPE_ROWS

_TOLERANCE = 1e-12


@dataclass(frozen=True)
class ShapeRows:
    """Rows that weigh changes: codes of all columns, and weights (n,)."""

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
        converted = [_converted(own, before, books) for own in linear_predictors]
        return _shaped(converted[0], books, shapes, rows), *converted[1:]

    encoder = replace(model.encoder, codebooks=tuple(books))
    text = ", ".join(f"{books[j].name} {shape}" for j, shape in sorted(shapes.items()))
    choice = Choice("monotonic_cst", text, "guaranteed for all values of the other columns")
    lower = tuple(Lower(own.order, all_of(own.linear_predictors)) for own in model.lower)
    found = all_of(model.linear_predictors)
    return replace(model, encoder=encoder, linear_predictors=found, lower=lower, choices=(*model.choices, choice))


def _shaped_book(book: Codebook, shape: Shape | None) -> Codebook:
    if shape is None:
        return book
    knots = np.asarray(book.support.values, dtype=np.float64)
    return replace(book, kind=Shaped(shape=shape), functions=RandomWalkBasis(knots, "clamp"))


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
    root = np.sqrt(np.maximum(book.support.mass / book.support.mass.sum(), 1e-12))[:, np.newaxis]
    free = np.column_stack([np.ones_like(x), -np.ones_like(x), x, -x])
    found, _ = nnls(root * np.hstack([free, hinges]), root[:, 0] * values, maxiter=50 * len(x))
    coef = [own.copy() for own in predictor.coef]
    coef[j][: book.support.size, MAIN] = sign * (np.hstack([free, hinges]) @ found)
    return replace(predictor, coef=tuple(coef))


@dataclass(frozen=True)
class _Column:
    """A constrained column: its functions at its codes in ascending order of what is to increase."""

    predictor: Predictor
    books: Sequence[Codebook]
    j: int
    codes: NDArray[np.intp]  # of the support, in that order
    values: Floats  # (codes, width): as products see them
    falls: Mapping[int, Floats]  # by order: (codes - 1,), at most 0

    @classmethod
    def of(cls, predictor: Predictor, books: Sequence[Codebook], j: int, shape: Shape) -> _Column:
        codes = np.arange(books[j].support.size)[:: 1 if shape == "increasing" else -1]
        values = _whole(predictor, predictor.at_codes(j, books[j]), j)[codes]
        falls = Falls(predictor.curves(books), j).of(np.diff(values, axis=0))
        return cls(predictor, books, j, codes, values, falls)

    @property
    def required(self) -> Floats:
        """Least steps of the main effect with all of the factors."""
        return -np.asarray(sum(self.falls.values(), start=np.zeros(len(self.codes) - 1)))

    def holds(self) -> bool:
        """Whether the linear predictor is monotone already."""
        steps = np.diff(self.values[:, MAIN])
        return bool((steps >= self.required - _TOLERANCE * max(float(np.ptp(self.values[:, MAIN])), 1e-300)).all())

    def projected(self, rows: ShapeRows, *, whole: bool) -> Predictor:
        """The nearest linear predictor that is monotone; ``whole``: factors shrink by one fraction for all codes."""
        orders, main = self.predictor.orders, self.values[:, MAIN]
        mass = np.maximum(self.books[self.j].support.mass[self.codes], 1e-12 * self.books[self.j].support.mass.sum())
        mass = mass / mass.sum()
        slopes = _slopes(self.predictor, self.books, self.j, rows)
        moments = self._moments(slopes, rows)
        blocks = np.zeros(len(self.codes) - 1, dtype=np.intp) if whole else _blocks(mass)
        fractions = self._fractions(moments, mass, blocks)
        new = self.values.copy()
        for order, part in orders.slices.items():
            steps = fractions[order][:, np.newaxis] * np.diff(self.values[:, part], axis=0)
            cumulated = np.vstack([np.zeros((1, steps.shape[1])), np.cumsum(steps, axis=0)])
            new[:, part] = mass @ self.values[:, part] + cumulated - mass @ cumulated
        needed = sum((-fractions[order] * fall for order, fall in self.falls.items()), start=np.zeros(len(main) - 1))
        required = np.append(0.0, np.cumsum(np.asarray(needed)))
        change = new[:, orders.width - orders.n_factors :] - self.values[:, orders.width - orders.n_factors :]
        weight = np.maximum(moments[:, 0, 0], 1e-9 * moments[:, 0, 0].sum())
        lost = np.einsum("cf,cf->c", moments[:, 0, 1:], change) / weight
        new[:, MAIN] = isotonic_regression(main - lost - required, sample_weight=weight) + required
        return _with_column(self.predictor, self.books, self.j, self.codes, new)

    def _moments(self, slopes: Floats, rows: ShapeRows) -> Floats:
        """Sums by code of products of (1, slopes by the column's factors): (codes, 1 + factors, 1 + factors)."""
        design = np.column_stack([np.ones(len(slopes)), slopes])
        found = np.zeros((self.books[self.j].n_codes, design.shape[1], design.shape[1]))
        at = rows.codes.columns[self.j].astype(np.intp)
        order = np.argsort(at, kind="stable")
        starts = np.searchsorted(at[order], np.arange(len(found) + 1))
        for code in range(len(found)):
            own = design[order[starts[code] : starts[code + 1]]]
            found[code] = own.T @ (rows.weight[order[starts[code] : starts[code + 1]], np.newaxis] * own)
        return found[self.codes]

    def _fractions(self, moments: Floats, mass: Floats, blocks: NDArray[np.intp]) -> dict[int, Floats]:
        """Fractions (codes - 1,) of the factors' steps that stay, by order: bounded least squares by blocks."""
        orders, count = self.predictor.orders, int(blocks[-1]) + 1
        if not orders:
            return {}
        member = (blocks[:, np.newaxis] == np.arange(count)).astype(float)
        steps = np.diff(self.values, axis=0)

        def centred(own: Floats) -> Floats:
            """Functions (codes, blocks) with these steps (codes - 1, blocks), of mean zero."""
            summed = np.vstack([np.zeros((1, own.shape[1])), np.cumsum(own, axis=0)])
            return np.asarray(summed - mass @ summed)

        width = orders.width
        shape = np.maximum(np.diff(self.values[:, MAIN]), 0.0) + 1e-6 * np.ptp(self.values[:, MAIN]) / len(blocks)
        extra = centred(member * shape[:, np.newaxis])  # of the main effect, beyond what is required
        parts = [np.zeros((len(mass), width, count))]
        parts[0][:, MAIN] = extra
        for order, fall in self.falls.items():
            own = np.zeros((len(mass), width, count))
            own[:, MAIN] = centred(member * -fall[:, np.newaxis])
            for f in range(orders.slices[order].start, orders.slices[order].stop):
                own[:, f] = centred(member * steps[:, [f]])
            parts.append(own)
        design = np.concatenate(parts, axis=2)
        target = self.values - mass @ self.values
        gram = np.einsum("cfn,cfg,cgm->nm", design, moments, design, optimize=True)
        right = np.einsum("cfn,cfg,cg->n", design, moments, target, optimize=True)
        scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
        scaled = gram / np.outer(scale, scale) + 1e-8 * np.eye(len(scale))
        root = np.linalg.cholesky(scaled + 1e-10 * np.eye(len(scale)))
        low = np.zeros(len(scale))
        high = np.concatenate([np.full(count, np.inf), scale[count:] + 1e-12])
        found = lsq_linear(root.T, np.linalg.solve(root, right / scale), (low, high), method="bvls").x / scale
        fractions = np.clip(found[count:].reshape(-1, count), 0.0, 1.0)
        return {order: fractions[g][blocks] for g, order in enumerate(self.falls)}


def _blocks(mass: Floats) -> NDArray[np.intp]:
    """Block (codes - 1,) of every step."""
    share = np.cumsum(mass)[:-1] - 0.5 * mass[:-1]
    return np.unique((share * SHAPE_BLOCKS).astype(np.intp), return_inverse=True)[1]


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
        own = at[:, :, part]
        value = own.prod(axis=0) if order == PRODUCT else symmetric(own, order - 1)
        found[order] = value * predictor.loadings[order]
    return orders.joined_factors(found, (len(rows.weight),))


def _with_column(
    predictor: Predictor, books: Sequence[Codebook], j: int, codes: NDArray[np.intp], values: Floats
) -> Predictor:
    """With other values (codes, width) of a column, as products see them, at codes of its support."""
    values = values.copy()
    if predictor.product_means is not None:
        part, means = predictor.orders.slices[PRODUCT], predictor.product_means
        values[:, part] -= means[j]
        values[:, MAIN] += values[:, part] @ (np.delete(means, j, axis=0).prod(axis=0) * predictor.loadings[PRODUCT])
    coef = list(predictor.coef)
    coef[j] = coef[j].copy()
    coef[j][codes] = values - predictor.centring[j]
    return replace(predictor, coef=tuple(coef))
