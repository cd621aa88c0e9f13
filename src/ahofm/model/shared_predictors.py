"""Several linear predictors with the same factors, as the classes of a model have: factors are processed once for all.

    eta_k = intercept_k + sum_j f_jk(x_j) + sum_f c_fk T_f(x)

Main effects f_jk and loadings c_fk are those of linear predictor k, terms T_f and their functions are shared. All of a
column's functions are in one array: the main effects of the K linear predictors, then the factors. Operations are those
of ``Predictor`` with the same names, and have the same results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.families.links import quiet
from ahofm.kernels import Curves, LevelCurves, NumberCurves, Tables, column_curves
from ahofm.model.functions_view import FunctionsView
from ahofm.model.predictor import Predictor, means_of
from ahofm.model.terms import of_one_column
from ahofm.orders import MAIN, PRODUCT, Orders


@dataclass(frozen=True)
class SharedPredictors:
    """Linear predictors with the same factors.

    Attributes
    ----------
    intercepts : array of shape (K,)
    coef : tuple of arrays of shape (functions of the column's basis, K + factors)
        One per column: all main effects, then the factors.
    centring : tuple of arrays of shape (K + factors,)
        Added at every value but unseen ones.
    loadings : dict of order to array of shape (rank, K)
    end_slopes : tuple of dict of column to float
        For each linear predictor: slopes of main effects that go on as lines beyond the training range.
    product_means : array of shape (columns, rank of product factors), or None
        The constants of product factors.
    """

    intercepts: Floats
    coef: tuple[Floats, ...]
    centring: tuple[Floats, ...]
    loadings: Mapping[int, Floats]
    end_slopes: tuple[Mapping[int, float], ...]
    product_means: Floats | None = None

    @classmethod
    def of(cls, predictors: Sequence[Predictor]) -> SharedPredictors | None:
        """All linear predictors in one; None unless they share the arrays of their functions."""
        coef, centring = _shared([one.coef for one in predictors]), _shared([one.centring for one in predictors])
        means = predictors[0].product_means
        alike = all(one.neutral is None and _same(one.product_means, means) for one in predictors)
        if coef is None or centring is None or not alike:
            return None
        loadings = {
            order: np.column_stack([one.loadings[order] for one in predictors]) for order in predictors[0].orders
        }
        intercepts = np.array([one.intercept for one in predictors])
        return cls(intercepts, coef, centring, loadings, tuple(one.end_slopes for one in predictors), means)

    def separate(self) -> tuple[Predictor, ...]:
        """Each linear predictor: they share the arrays of their functions."""
        n = self.n_main
        return tuple(
            Predictor(
                float(self.intercepts[k]),
                FunctionsView(self.coef, k, n),
                FunctionsView(self.centring, k, n),
                {order: loading[:, k].copy() for order, loading in self.loadings.items()},
                product_means=self.product_means,
                end_slopes=self.end_slopes[k],
            )
            for k in range(n)
        )

    @property
    def n_main(self) -> int:
        """Number K of linear predictors: of main effects of a column."""
        return len(self.intercepts)

    @cached_property
    def orders(self) -> Orders:
        """Orders of the interactions, and the ranks."""
        return Orders({order: len(loadings) for order, loadings in self.loadings.items()})

    def split(self, values: Floats) -> tuple[Floats, dict[int, Floats]]:
        """Main effects (..., K) and factors by order (..., rank) of an array (..., K + factors): views."""
        main, factors = values[..., : self.n_main], values[..., self.n_main :]
        return main, {order: factors[..., part] for order, part in self.orders.factor_slices.items()}

    # Operations of linear predictors, for all of them at once

    @staticmethod
    def weighted_sum(parts: Sequence[tuple[float, SharedPredictors]]) -> SharedPredictors:
        """The linear predictors ``sum_m weight_m eta_mk``: a factor's weight goes into its loadings."""
        found = sorted({order for _, part in parts for order in part.orders})

        def together(arrays: Sequence[Floats]) -> Floats:
            """Functions of one column in all parts, in the last axis."""
            split = [part.split(array) for (_, part), array in zip(parts, arrays, strict=True)]
            main = sum(weight * main for (weight, _), (main, _) in zip(parts, split, strict=True))
            factors = [array[order] for order in found for _, array in split if order in array]
            return np.concatenate([np.asarray(main), *factors], axis=-1)

        columns = range(len(parts[0][1].coef))
        with quiet():
            coef = tuple(together([part.coef[j] for _, part in parts]) for j in columns)
            centring = tuple(together([part.centring[j] for _, part in parts]) for j in columns)
        loadings = {
            order: np.concatenate([weight * part.loadings[order] for weight, part in parts if order in part.loadings])
            for order in found
        }
        means = [part.product_means for _, part in parts if part.product_means is not None]
        intercepts = np.asarray(sum(weight * part.intercepts for weight, part in parts))
        ends = []
        for k in range(len(intercepts)):
            lines = sorted({j for _, part in parts for j in part.end_slopes[k]})
            ends.append({j: sum(weight * part.end_slopes[k].get(j, 0.0) for weight, part in parts) for j in lines})
        return SharedPredictors(intercepts, coef, centring, loadings, tuple(ends), np.hstack(means) if means else None)

    def scaled(self, shift: ArrayLike, factor: ArrayLike) -> SharedPredictors:
        """The linear predictors ``shift_k + factor_k eta_k``; factors keep their functions, loadings change."""
        n = self.n_main
        scale = np.broadcast_to(np.asarray(factor, dtype=np.float64), (n,))
        intercepts = np.asarray(shift) + scale * self.intercepts
        if (scale == 1.0).all():
            return replace(self, intercepts=intercepts)

        def stretched(arrays: Sequence[Floats]) -> tuple[Floats, ...]:
            return tuple(np.concatenate([array[..., :n] * scale, array[..., n:]], axis=-1) for array in arrays)

        loadings = {order: scale * loading for order, loading in self.loadings.items()}
        ends = tuple(
            {j: float(stretch * slope) for j, slope in end.items()}
            for stretch, end in zip(scale, self.end_slopes, strict=True)
        )
        with quiet():
            coef, centring = stretched(self.coef), stretched(self.centring)
        return SharedPredictors(intercepts, coef, centring, loadings, ends, self.product_means)

    def keeping(self, which: Mapping[int, NDArray[np.bool_]]) -> SharedPredictors:
        """With a selection of the factors by order; orders without factors are removed."""
        columns = np.concatenate([np.ones(self.n_main, bool), *(which[order] for order in self.orders)])
        loadings = {order: loading[which[order]] for order, loading in self.loadings.items() if which[order].any()}
        means = None if PRODUCT not in loadings or self.product_means is None else self.product_means[:, which[PRODUCT]]
        coef, centring = (tuple(array[..., columns] for array in arrays) for arrays in (self.coef, self.centring))
        return replace(self, coef=coef, centring=centring, loadings=loadings, product_means=means)

    def among(self, columns: Sequence[int], sizes: Sequence[int]) -> SharedPredictors:
        """Embed into a table of more columns, with basis sizes ``sizes``; functions of the other columns are zero."""
        width = self.n_main + self.orders.n_factors
        places = {j: at for at, j in enumerate(columns)}
        nothing = np.zeros(width)
        means = None
        if self.product_means is not None:
            means = np.ones((len(sizes), self.product_means.shape[1]))
            means[list(columns)] = self.product_means
        return replace(
            self,
            coef=tuple(
                self.coef[places[j]] if j in places else np.zeros((size, width)) for j, size in enumerate(sizes)
            ),
            centring=tuple(self.centring[places[j]] if j in places else nothing for j in range(len(sizes))),
            product_means=means,
            end_slopes=tuple({columns[at]: slope for at, slope in end.items()} for end in self.end_slopes),
        )

    def centred(self, books: Sequence[Codebook]) -> SharedPredictors:
        """With main effects of mean zero over the codes' weights, and their means in the intercepts."""
        intercepts, centring, n = self.intercepts, [], self.n_main
        for coef, constants, book in zip(self.coef, self.centring, books, strict=True):
            shift = constants.copy()
            if book.size:
                mean = book.distribution @ (book.basis @ coef[:, :n]) + shift[:n]
                shift[:n] -= mean
                intercepts = intercepts + mean
            centring.append(shift)
        return replace(self, intercepts=intercepts, centring=tuple(centring))

    def from_whole_products(self) -> SharedPredictors:
        """The same linear predictors, of product factors given as whole products ``prod_j (means[j] + phi_j)``.

        As ``Predictor.of_products``: their constants and main effects are moved to intercepts and main effects.
        """
        means = self.product_means
        if means is None:
            return self
        n, part, loading = self.n_main, self.orders.factor_slices[PRODUCT], self.loadings[PRODUCT]
        products = slice(n + part.start, n + part.stop)
        weights = np.stack([of_one_column(means, of_class) for of_class in loading.T], axis=-1)  # (columns, rank, K)

        def moved(arrays: Sequence[Floats]) -> tuple[Floats, ...]:
            return tuple(
                np.concatenate([array[..., :n] + array[..., products] @ weight, array[..., n:]], axis=-1)
                for array, weight in zip(arrays, weights, strict=True)
            )

        intercepts = self.intercepts + means.prod(axis=0) @ loading
        return replace(self, intercepts=intercepts, coef=moved(self.coef), centring=moved(self.centring))

    # Evaluating

    def at_codes(self, j: int, book: Codebook) -> Floats:
        """Functions of a column at its codes: (codes, K + factors)."""
        return book.at_codes(self.coef[j], self.centring[j])

    def pure_main_effects(self, books: Sequence[Codebook]) -> list[Floats] | None:
        """Main effects of each column at its codes, (codes, K); None unless all linear predictors are pure."""
        values = [self.at_codes(j, book) for j, book in enumerate(books)]
        return [at_codes[:, : self.n_main] for at_codes in values] if means_of(values, books)[1] else None

    def curves(self, books: Sequence[Codebook]) -> tuple[Curves, ...]:
        """At true values: functions of a column are worked out once for all."""
        if self.product_means is not None:
            return tuple(one.curves(books) for one in self.separate())
        n, together = self.n_main, zip(books, self.coef, self.centring, strict=True)
        columns = [column_curves(book, coef, centring) for book, coef, centring in together]
        return tuple(
            self._curves_of(k, columns, np.append(k, np.arange(n, n + self.orders.n_factors))) for k in range(n)
        )

    def _curves_of(self, k: int, columns: Sequence[NumberCurves | LevelCurves], which: NDArray[np.intp]) -> Curves:
        """One linear predictor, whose functions ``which`` are of all that columns have."""
        curves = [column.some(which) for column in columns]
        for j, slope in self.end_slopes[k].items():
            slopes, curve = np.zeros(len(which)), curves[j]
            slopes[MAIN] = slope
            curves[j] = curve.with_lines(slopes) if isinstance(curve, NumberCurves) else curve
        loadings = {order: loading[:, k].copy() for order, loading in self.loadings.items()}
        return Curves(float(self.intercepts[k]), self.orders, tuple(curves), loadings)

    def tables(self, books: Sequence[Codebook]) -> tuple[Tables, ...]:
        """At the codes, as a kernel evaluates them; tables of the factors are the same arrays for all."""
        if self.product_means is not None:
            return tuple(one.tables(books) for one in self.separate())
        main, factors = self.split(np.vstack([self.at_codes(j, book) for j, book in enumerate(books)]))
        return tuple(
            Tables(
                float(self.intercepts[k]),
                main[:, k],
                factors,
                {d: loading[:, k] for d, loading in self.loadings.items()},
            )
            for k in range(self.n_main)
        )


def together(predictors: Sequence[Predictor]) -> Sequence[Predictor | SharedPredictors]:
    """Linear predictors in one where they share their factors, otherwise each of them."""
    shared = SharedPredictors.of(predictors)
    return predictors if shared is None else [shared]


def separate(predictors: Sequence[Predictor | SharedPredictors]) -> tuple[Predictor, ...]:
    """Each of the linear predictors that :func:`together` has put in one."""
    return tuple(
        predictor
        for one in predictors
        for predictor in (one.separate() if isinstance(one, SharedPredictors) else [one])
    )


def _shared(functions: Sequence[Sequence[Floats]]) -> tuple[Floats, ...] | None:
    """The arrays that all linear predictors have their functions in; None unless there are such."""
    first = functions[0]
    if not isinstance(first, FunctionsView) or first.n_main != len(functions):
        return None
    same = (
        isinstance(one, FunctionsView) and one.arrays is first.arrays and one.k == k for k, one in enumerate(functions)
    )
    return first.arrays if all(same) else None


def _same(means: Floats | None, others: Floats | None) -> bool:
    """Whether product factors have the same constants; those of files are equal, and arrays of their own."""
    return means is others or (means is not None and others is not None and np.array_equal(means, others))
