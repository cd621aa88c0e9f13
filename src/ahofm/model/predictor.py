"""A linear predictor: all functions of all columns, in the columns' own bases. Independent of rows.

    eta = intercept + sum_j f_j(x_j) + sum_d sum_f c_df e_d(phi_1f(x_1), ..., phi_pf(x_p)) + sum_f c_f T_f(x)

with main effects f_j, factors phi_jf, loadings c_df of any sign, and e_d the elementary symmetric polynomial: the sum,
over all sets of d columns, of the product of their functions. Linear predictors with the same curves may differ in
their loadings.

T_f is a product factor, with constants m_jf beside its functions: all terms of two and more columns of a product,

    T_f = sum_{S, |S| >= 2} prod_{j in S} phi_jf prod_{j not in S} m_jf
        = prod_j (m_jf + phi_jf) - prod_j m_jf - sum_j phi_jf prod_{k != j} m_kf

The constant of the product and its terms of single columns are in the intercept and in the main effects.

**Pure terms.** Functions have mean zero over the columns' marginal distributions in training, so that no term contains
a part of another. A model fitted with ``center=True`` has this form; ``pure`` brings others into it (``terms.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.families.links import quiet
from ahofm.kernels import Curves, LevelCurves, NumberCurves, Tables, column_curves
from ahofm.kernels.symmetric import symmetric
from ahofm.model.functions_view import shape_of
from ahofm.model.terms import moved_down, of_one_column
from ahofm.orders import MAIN, PRODUCT, Orders

_CENTRED = 1e-8
"""Means below this fraction of a function's root mean square are rounding."""


@dataclass(frozen=True)
class Predictor:
    """One linear predictor. Operations return a new one.

    Attributes
    ----------
    intercept : float
    coef : sequence of arrays of shape (functions of the column's basis, width)
        One per column: its main effect and its factors, in the layout of :class:`~ahofm.orders.Orders`. A tuple, or
        ``FunctionsView`` where linear predictors share their factors.
    centring : sequence of arrays of shape (width,)
        Added at every value but unseen ones: the centring of functions that lack the constant.
    loadings : dict of order (>= 2) to array of shape (rank,)
        Weight of each factor's term; their lengths are the ranks.
    neutral : tuple of arrays of shape (width,), or None
        The functions at the neutral code, which unseen levels have; None: zero, as in every fitted model.
    product_means : array of shape (columns, rank of product factors), or None
        The constants m of product factors; None where there are none of these.
    end_slopes : dict of column to float
        Slopes of main effects that go on as lines beyond the training range; all other functions are constant there.
    """

    intercept: float
    coef: Sequence[Floats]
    centring: Sequence[Floats]
    loadings: Mapping[int, Floats]
    neutral: tuple[Floats, ...] | None = None
    product_means: Floats | None = None
    end_slopes: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, orders: Mapping[int, int], intercept: float, coef: Sequence[Floats], centring: Sequence[Floats]
    ) -> Predictor:
        """With loadings of one."""
        return cls(float(intercept), tuple(coef), tuple(centring), Orders(orders).ones())

    @classmethod
    def of_products(
        cls,
        orders: Mapping[int, int],
        intercept: float,
        coef: Sequence[Floats],
        centring: Sequence[Floats],
        loadings: Floats,
        means: Floats,
    ) -> Predictor:
        """With product factors given as whole products: ``sum_f loadings[f] prod_j (means[j, f] + phi_jf)``.

        Other factors have loadings of one.
        """
        found = cls(
            float(intercept),
            tuple(coef),
            tuple(centring),
            {**Orders(orders).ones(), PRODUCT: np.asarray(loadings, dtype=np.float64)},
            product_means=np.asarray(means, dtype=np.float64),
        )
        return found._moved(1.0)

    @cached_property
    def orders(self) -> Orders:
        """Orders of the interactions, and the ranks."""
        return Orders({order: len(loadings) for order, loadings in self.loadings.items()})

    def __getstate__(self) -> dict[str, object]:
        """The fields; cached properties are left out and computed again."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def check(self, books: Sequence[Codebook]) -> None:
        """Raise ValueError unless there are functions, in the bases of these columns, for all loadings."""
        self.orders.checked_loadings(self.loadings)
        width, rank = self.orders.width, self.orders.get(PRODUCT, 0)
        means = None if self.product_means is None else np.shape(self.product_means)
        if means != ((len(books), rank) if rank else None):
            raise ValueError(f"means of product factors have shape {means}, expected {(len(books), rank)}")
        for part in (self.coef, self.centring, *(() if self.neutral is None else (self.neutral,))):
            if len(part) != len(books):
                raise ValueError(f"coefficients for {len(part)} columns, but there are {len(books)}")
        for j, book in enumerate(books):
            neutral = (width,) if self.neutral is None else np.shape(self.neutral[j])
            shapes = shape_of(self.coef, j), shape_of(self.centring, j), neutral
            if shapes != ((book.size, width), (width,), (width,)):
                raise ValueError(
                    f"column '{book.name}': coefficients of shape {shapes[0]} and {shapes[1]}, "
                    f"expected {(book.size, width)} and {(width,)}"
                )
        for j, slope in self.end_slopes.items():
            if not 0 <= j < len(books) or books[j].clamped_range is None or not np.isfinite(slope):
                raise ValueError(f"column {j} cannot go on as a line of slope {slope!r} beyond the training range")

    # Scaling and adding

    def scaled(self, shift: float = 0.0, factor: float = 1.0) -> Predictor:
        """The linear predictor ``shift + factor * eta``; factors keep their functions, loadings change."""
        if factor == 1.0:
            return replace(self, intercept=float(shift + self.intercept))
        stretch = np.where(self.orders.of_each == 1, factor, 1.0)
        loadings = {order: factor * loading for order, loading in self.loadings.items()}
        with quiet():  # coefficients of columns of tiny values may overflow; fits raise an error then
            scaled = self._changed(lambda functions: functions * stretch)
        ends = {j: factor * slope for j, slope in self.end_slopes.items()}
        return replace(scaled, intercept=float(shift + factor * self.intercept), loadings=loadings, end_slopes=ends)

    def plus(self, other: Predictor, weight: float = 1.0) -> Predictor:
        """The sum with a multiple of another one: main effects add up, factors stand side by side."""
        return Predictor.weighted_sum([(1.0, self), (weight, other)])

    @staticmethod
    def weighted_sum(parts: Sequence[tuple[float, Predictor]]) -> Predictor:
        """The linear predictor ``sum_k weight_k eta_k``: a factor's weight goes into its loading.

        Parameters
        ----------
        parts : sequence of (weight, Predictor)
            At least one; all of the same columns.
        """
        found = sorted({order for _, part in parts for order in part.orders})

        def together(arrays: Sequence[Floats]) -> Floats:
            """Functions of one column in all parts, in the last axis."""
            split = [part.orders.split(array) for (_, part), array in zip(parts, arrays, strict=True)]
            main = sum(weight * main for (weight, _), (main, _) in zip(parts, split, strict=True))
            factors = {d: np.concatenate([array[d] for _, array in split if d in array], axis=-1) for d in found}
            return Orders({d: array.shape[-1] for d, array in factors.items()}).join(np.asarray(main), factors)

        columns = range(len(parts[0][1].coef))
        with quiet():
            coef = tuple(together([part.coef[j] for _, part in parts]) for j in columns)
            centring = tuple(together([part.centring[j] for _, part in parts]) for j in columns)
            neutral = None
            if any(part.neutral is not None for _, part in parts):
                neutral = tuple(together([part.at_neutral(j) for _, part in parts]) for j in columns)
        loadings = {
            d: np.concatenate([weight * part.loadings[d] for weight, part in parts if d in part.loadings])
            for d in found
        }
        means = [part.product_means for _, part in parts if part.product_means is not None]
        intercept = float(sum(weight * part.intercept for weight, part in parts))
        lines = sorted({j for _, part in parts for j in part.end_slopes})
        ends = {j: float(sum(weight * part.end_slopes.get(j, 0.0) for weight, part in parts)) for j in lines}
        return Predictor(intercept, coef, centring, loadings, neutral, np.hstack(means) if means else None, ends)

    # Restricting

    def at_orders(self, kept: Sequence[int]) -> Predictor:
        """Without the factors of orders that are not kept; main effects stay."""
        return self.keeping({d: np.full(rank, d in kept) for d, rank in self.orders.items()})

    def keeping(self, which: Mapping[int, NDArray[np.bool_]]) -> Predictor:
        """With a selection of the factors by order; orders without factors are removed."""
        columns = np.concatenate([[True], *(which[order] for order in self.orders)])
        loadings = {order: loading[which[order]] for order, loading in self.loadings.items() if which[order].any()}
        means = None if PRODUCT not in loadings or self.product_means is None else self.product_means[:, which[PRODUCT]]
        return replace(self._changed(lambda functions: functions[..., columns]), loadings=loadings, product_means=means)

    def without(self, columns: Sequence[bool], *, main_effects: bool = True) -> Predictor:
        """With zeros for all functions of the columns that are True, and for all main effects unless these are kept."""
        stays = np.ones(self.orders.width)
        stays[MAIN] = float(main_effects)

        def kept(arrays: Sequence[Floats]) -> tuple[Floats, ...]:
            return tuple(array * (0.0 if gone else stays) for array, gone in zip(arrays, columns, strict=True))

        neutral = None if self.neutral is None else kept(self.neutral)
        ends = {j: 0.0 if columns[j] else slope * float(main_effects) for j, slope in self.end_slopes.items()}
        return replace(self, coef=kept(self.coef), centring=kept(self.centring), neutral=neutral, end_slopes=ends)

    def among(self, columns: Sequence[int], sizes: Sequence[int]) -> Predictor:
        """Embed into a table of more columns, with basis sizes ``sizes``; functions of the other columns are zero."""
        width = self.orders.width
        coef, centring = [np.zeros((size, width)) for size in sizes], [np.zeros(width) for _ in sizes]
        neutral = None if self.neutral is None else [np.zeros(width) for _ in sizes]
        for at, j in enumerate(columns):
            coef[j], centring[j] = self.coef[at], self.centring[at]
            if neutral is not None:
                neutral[j] = self.at_neutral(at)
        means = None
        if self.product_means is not None:
            means = np.ones((len(sizes), self.product_means.shape[1]))
            means[list(columns)] = self.product_means
        moved, ends = None if neutral is None else tuple(neutral), {columns[j]: s for j, s in self.end_slopes.items()}
        return Predictor(self.intercept, tuple(coef), tuple(centring), self.loadings, moved, means, ends)

    # Other forms of the same linear predictor

    def balanced(self) -> Predictor:
        """The same with loadings of 1 and -1: each of d functions takes the d-th root of the loading's size.

        Product factors keep their loadings: their functions have constants.
        """
        sizes, signs = self.orders.ones(), dict(self.loadings)
        for order, loading in self.loadings.items():
            if order != PRODUCT:
                sizes[order], signs[order] = np.abs(loading) ** (1.0 / order), np.where(loading < 0.0, -1.0, 1.0)
        stretch = self.orders.join(1.0, sizes)
        return replace(self._changed(lambda functions: functions * stretch), loadings=signs)

    def unloaded(self) -> Predictor | None:
        """The same with loadings of 1; None where there is none: a negative loading of an even order, or products."""
        flat = self.balanced()
        if PRODUCT in self.orders or any(d % 2 == 0 and (w < 0.0).any() for d, w in flat.loadings.items()):
            return None
        stretch = flat.orders.join(1.0, flat.loadings)
        return replace(flat._changed(lambda functions: functions * stretch), loadings=flat.orders.ones())

    def centred(self, books: Sequence[Codebook]) -> Predictor:
        """With main effects of mean zero over the codes' weights, and their means in the intercept.

        The same at all known values. Functions that are zero at unseen levels stay zero, so that the predictions of
        these change by the means.
        """
        intercept, centring = self.intercept, []
        neutral = None if self.neutral is None else [values.copy() for values in self.neutral]
        for j, book in enumerate(books):
            shift = self.centring[j].copy()
            if book.size:
                mean = float(book.distribution @ (book.basis @ self.coef[j][:, MAIN])) + shift[MAIN]
                shift[MAIN] -= mean
                intercept += mean
                if neutral is not None:
                    neutral[j][MAIN] -= mean
            centring.append(shift)
        moved = None if neutral is None else tuple(neutral)
        return replace(self, intercept=float(intercept), centring=tuple(centring), neutral=moved)

    def pure(self, books: Sequence[Codebook]) -> Predictor:
        """The same as a sum of pure terms: all functions have mean zero over the codes' weights of their column."""
        values = [self.at_codes(j, book) for j, book in enumerate(books)]
        means, zero = means_of(values, books)
        if zero:
            return self
        main_means, factor_means = self.orders.split(means)
        intercept = self.intercept + float(main_means.sum())
        unit = np.eye(self.orders.width)
        to_main = np.tile(unit[MAIN], (len(books), 1))
        # order: loadings (F,) and weights of the old functions (p, F, width)
        made, product_means = defaultdict[int, list[tuple[Floats, Floats]]](list), self.product_means
        for order, functions in self.orders.slices.items():
            order_means, loading = factor_means[order], self.loadings[order]
            same = np.broadcast_to(unit[functions], (len(books), *unit[functions].shape))
            if product_means is not None and order == PRODUCT:  # constants get the means; terms of one column move
                before, product_means = product_means, product_means + order_means
                new, old = of_one_column(product_means, loading), of_one_column(before, loading)
                to_main[:, functions] = new - old
                change = product_means.prod(axis=0) - before.prod(axis=0)
                intercept += float(change @ loading - (old * order_means).sum())
                made[order] = [(loading, same)]
                continue
            intercept += float(symmetric(order_means, order) @ loading)
            for j in range(len(books)):
                to_main[j, functions] = loading * symmetric(np.delete(order_means, j, axis=0), order - 1)
            made[order].append((loading, same))
            for lower in range(2, order):
                for weights, scales in moved_down(order_means, order, lower):
                    made[lower].append((loading * weights, scales[:, :, np.newaxis] * unit[functions]))
        orders = sorted(made)
        coef, centring, neutral = [], [], []
        for j in range(len(books)):
            to = np.vstack([to_main[j], *(scales[j] for order in orders for _, scales in made[order])])
            coef.append(self.coef[j] @ to.T)
            centring.append((self.centring[j] - means[j]) @ to.T)
            neutral.append((self.at_neutral(j) - means[j]) @ to.T)
        loadings = {order: np.concatenate([loading for loading, _ in made[order]]) for order in orders}
        found = Predictor(intercept, tuple(coef), tuple(centring), loadings, tuple(neutral), product_means)
        return replace(found, end_slopes=self.end_slopes)

    # Evaluating

    def at_neutral(self, j: int) -> Floats:
        """Functions of a column at its neutral code: (width,)."""
        return np.zeros(self.orders.width) if self.neutral is None else self.neutral[j]

    def at_codes(self, j: int, book: Codebook) -> Floats:
        """Functions of a column at its codes: (codes, width)."""
        return book.at_codes(self.coef[j], self.centring[j], self.at_neutral(j))

    def functions(self, books: Sequence[Codebook]) -> Tables:
        """Main effects and factors at the codes; of product factors without their constants."""
        values = np.vstack([self.at_codes(j, book) for j, book in enumerate(books)])
        return Tables(self.intercept, *self.orders.split(values), self.loadings)

    def tables(self, books: Sequence[Codebook]) -> Tables:
        """At the codes, as a kernel evaluates them."""
        return self.whole.functions(books)

    def curves(self, books: Sequence[Codebook]) -> Curves:
        """At true values."""
        whole = self.whole
        columns = tuple(whole.column_curves(j, book) for j, book in enumerate(books))
        return Curves(whole.intercept, self.orders, columns, self.loadings, self.product_means)

    def column_curves(self, j: int, book: Codebook, which: slice = slice(None)) -> NumberCurves | LevelCurves:
        """Functions of a column at true values, or some of them."""
        slopes = np.zeros(self.orders.width)
        slopes[MAIN] = self.end_slopes.get(j, 0.0)
        some = self.coef[j][:, which], self.centring[j][which], self.at_neutral(j)[which]
        return column_curves(book, *some, slopes[which] if j in self.end_slopes else None)

    @property
    def whole(self) -> Predictor:
        """With functions ``m + phi`` in place of phi, less the constant and main effects of the whole products."""
        means = self.product_means
        if means is None:
            return self
        moved, part = self._moved(-1.0), self.orders.slices[PRODUCT]

        def shifted(arrays: Sequence[Floats]) -> tuple[Floats, ...]:
            found = tuple(np.array(array, order="C") for array in arrays)
            for array, mean in zip(found, means, strict=True):
                array[part] += mean
            return found

        neutral = [moved.at_neutral(j) for j in range(len(self.coef))]
        return replace(moved, centring=shifted(moved.centring), neutral=shifted(neutral))

    def _moved(self, sign: float) -> Predictor:
        """With ``sign`` times the constant and main effects of whole products added to intercept and main effects."""
        assert self.product_means is not None
        part, loading = self.orders.slices[PRODUCT], self.loadings[PRODUCT]
        weights = sign * of_one_column(self.product_means, loading)

        def added(arrays: Sequence[Floats]) -> tuple[Floats, ...]:
            found = tuple(np.array(array, order="C") for array in arrays)
            for array, weight in zip(found, weights, strict=True):
                array[..., MAIN] += array[..., part] @ weight
            return found

        return replace(
            self,
            intercept=self.intercept + sign * float(self.product_means.prod(axis=0) @ loading),
            coef=added(self.coef),
            centring=added(self.centring),
            neutral=None if self.neutral is None else added(self.neutral),
        )

    def _changed(self, change: Callable[[Floats], Floats]) -> Predictor:
        """With ``change`` applied to all functions, which are the last axis of each array."""
        coef, centring = tuple(map(change, self.coef)), tuple(map(change, self.centring))
        neutral = None if self.neutral is None else tuple(map(change, self.neutral))
        return replace(self, coef=coef, centring=centring, neutral=neutral)


def means_of(values: Sequence[Floats], books: Sequence[Codebook]) -> tuple[Floats, bool]:
    """Means (columns, width) of functions (codes, width) over the codes' weights, and whether all are only rounding."""
    masses = [book.distribution for book in books]
    means = np.array([mass @ at_codes for mass, at_codes in zip(masses, values, strict=True)])
    squares = np.array([mass @ at_codes**2 for mass, at_codes in zip(masses, values, strict=True)])
    return means, bool((np.abs(means) <= _CENTRED * np.sqrt(squares.max(axis=0, initial=0.0))).all())


@dataclass(frozen=True)
class Lower:
    """The same fit, ended at a lower order: that order, and its linear predictors."""

    order: int
    linear_predictors: tuple[Predictor, ...]
