"""Why a row has its prediction: one number per term, or one per column (Shapley values)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.backends import backend_of
from ahofm.columns.basis import Floats
from ahofm.explain.arguments import Fitted, linear_predictor_of, model_of
from ahofm.explain.frames import Framed, frame
from ahofm.explain.pure import purify
from ahofm.kernels.blas import one_blas_thread
from ahofm.orders import PRODUCT
from ahofm.scale.partitions import is_dask, mapped
from ahofm.threads import obeys_n_jobs

MAX_TERMS = 500
"""Of one row, unless more are asked for."""

_ROWS = 10_000


@dataclass(frozen=True)
class Contributions(Framed):
    """Terms of rows; intercept, terms and rest add up to the linear predictor, without an offset.

    Attributes
    ----------
    terms : tuple of tuples of str
        The columns of each term.
    intercept : float
    values : array of shape (n, terms)
    rest : array of shape (n,)
        All terms of more columns than were asked for, and effects of repeated rows.
    """

    terms: tuple[tuple[str, ...], ...]
    intercept: float
    values: Floats
    rest: Floats

    @property
    def names(self) -> tuple[str, ...]:
        """Terms as text."""
        return tuple(" x ".join(term) for term in self.terms)

    def to_frame(self, backend: str | None = None) -> Any:
        """One column per term, and one each for intercept and rest."""
        data: dict[str, Any] = {"intercept": np.full(len(self.values), self.intercept)}
        data |= {name: self.values[:, at] for at, name in enumerate(self.names)}
        return frame(data | {"rest": self.rest}, backend)


@dataclass(frozen=True)
class Shapley(Framed):
    """Shapley values; base and values of a row add up to its linear predictor, without an offset.

    A column's value is its main effect and, of every interaction that it is in, an equal part. That is the Shapley
    value of the game in which columns that do not take part are averaged over, each by its own distribution. Of a
    product factor, parts of all its terms are an integral over (0, 1) of a polynomial, which is exact with few nodes.
    The effect of a repeated row (``Model.repeated``) is one of all columns, each of which has an equal part of it.

    Attributes
    ----------
    columns : tuple of str
    base : float
        The mean prediction under independent columns: the intercept.
    values : array of shape (n, columns)
    data : tuple of arrays of shape (n,)
        The rows.
    """

    columns: tuple[str, ...]
    base: float
    values: Floats
    data: tuple[NDArray[Any], ...]

    def to_frame(self, backend: str | None = None) -> Any:
        """One column per column, and the base."""
        data: dict[str, Any] = {"base": np.full(len(self.values), self.base)}
        return frame(data | {name: self.values[:, j] for j, name in enumerate(self.columns)}, backend)

    def to_shap(self) -> Any:
        """Convert to an explanation of the package shap.

        Returns
        -------
        shap.Explanation
            For that package's plots.
        """
        import shap  # noqa: PLC0415 - only who asks for it needs it

        rows = np.empty(self.values.shape, dtype=object)
        for j, column in enumerate(self.data):
            rows[:, j] = column
        numbers = all(column.dtype != object for column in self.data)
        return shap.Explanation(
            values=self.values,
            base_values=np.full(len(self.values), self.base),
            data=rows.astype(np.float64) if numbers else rows,
            feature_names=list(self.columns),
        )


@obeys_n_jobs
@one_blas_thread()
def contributions(
    fitted: Fitted, X: Any, max_order: int | None = None, *, max_terms: int = MAX_TERMS, linear_predictor: Any = None
) -> Contributions:
    """Compute every term of every row.

    Parameters
    ----------
    fitted : estimator or model
        Fitted.
    X : table of n rows
        With the columns of training; those with names may be in any order. Of a Dask collection, results are Dask
        Arrays, computed when asked for.
    max_order : int, optional
        Most columns of a term; what is above goes into ``rest``. The model's order by default or, where product factors
        have terms of every order, the highest that ``max_terms`` allows.
    max_terms : int, default 500
        More are refused.
    linear_predictor : int or class, optional
        Which linear predictor, for families with several.

    Returns
    -------
    Contributions
        Intercept, terms and rest, which add up to the linear predictor.

    Examples
    --------
    >>> from ahofm.explain import contributions
    >>> parts = contributions(model, X[:4])
    >>> parts.names
    ('wind', 'rain', 'sun', 'wind x rain', 'wind x sun', 'rain x sun')
    >>> bool(np.allclose(parts.intercept + parts.values.sum(axis=1), model.predict(X[:4])))
    True
    """
    model = model_of(fitted)
    k = linear_predictor_of(model, linear_predictor)
    if max_order is not None and (isinstance(max_order, bool) or int(max_order) != max_order or max_order < 1):
        raise ValueError(f"max_order must be an integer of at least 1, got {max_order!r}")
    pure = purify(model, k)
    top = min(int(max_order or pure.order), pure.order)
    orders = [order for order in pure.term_orders if order <= top]
    count = sum(comb(len(pure.active), order) for order in orders)
    while max_order is None and PRODUCT in pure.orders and count > max_terms and len(orders) > 1:
        count -= comb(len(pure.active), orders.pop())
        top = orders[-1]
    if count > max_terms:
        fewer = sum(comb(len(pure.active), order) for order in orders[:-1])
        instead = f"max_order={orders[-2]} makes {fewer}" if len(orders) > 1 else "shapley_values has one per column"
        raise ValueError(
            f"{count} terms a row, more than max_terms={max_terms}: {instead}; top_interactions names the strongest, "
            "shapley_values gives one number per column; or raise max_terms"
        )
    sets = [subset for order in orders for subset in combinations(pure.active, order)]
    names = tuple(tuple(model.encoder.names[j] for j in subset) for subset in sets)
    if is_dask(X):
        own = partial(_rows_of_terms, max_order=max_order, max_terms=max_terms, linear_predictor=linear_predictor)
        lazy = mapped(own, model, X, width=len(sets) + 1)
        return Contributions(names, pure.intercept, lazy[:, :-1], lazy[:, -1])
    table = model.encoder.check(X)
    values = np.empty((table.n_rows, len(sets)))
    for start in range(0, table.n_rows, _ROWS):
        rows = slice(start, min(start + _ROWS, table.n_rows))
        phi = pure.values(table.take(np.arange(rows.start, rows.stop)))
        for at, subset in enumerate(sets):
            values[rows, at] = pure.term(subset, phi[list(subset)])
    eta, intercept = model.eta(table)[:, k], pure.intercept
    left = top < pure.order or model.repeated is not None
    rest = eta - intercept - values.sum(axis=1) if left else np.zeros(table.n_rows)
    return Contributions(names, intercept, values, rest)


def _rows_of_terms(model: Fitted, X: Any, offset: None, **options: Any) -> Floats:
    """Terms and rest of a partition."""
    found = contributions(model, X, **options)
    return np.column_stack([found.values, found.rest])


def _rows_of_shares(model: Fitted, X: Any, offset: None, linear_predictor: Any) -> Floats:
    """Shapley values of a partition."""
    return shapley_values(model, X, linear_predictor=linear_predictor).values


@obeys_n_jobs
@one_blas_thread()
def shapley_values(fitted: Fitted, X: Any, *, linear_predictor: Any = None, n_threads: int | None = None) -> Shapley:
    """Compute exact Shapley values of the linear predictor, by the model's form: no sampling, no coalitions.

    Parameters
    ----------
    fitted : estimator or model
        Fitted.
    X : table of n rows
        With the columns of training; those with names may be in any order. Of a Dask collection, results are Dask
        Arrays, computed when asked for.
    linear_predictor : int or class, optional
        Which linear predictor, for families with several.
    n_threads : int, optional
        All cores by default.

    Returns
    -------
    Shapley
        Base and one value per row and column, which add up to the linear predictor.

    Examples
    --------
    >>> from ahofm.explain import shapley_values
    >>> why = shapley_values(model, X[:4])
    >>> why.values.shape, bool(np.allclose(why.base + why.values.sum(axis=1), model.predict(X[:4])))
    ((4, 3), True)
    """
    model = model_of(fitted)
    pure = purify(model, linear_predictor_of(model, linear_predictor))
    if is_dask(X):
        names = tuple(model.encoder.names)
        lazy = mapped(partial(_rows_of_shares, linear_predictor=linear_predictor), model, X, width=len(names))
        data = tuple(X[name] if hasattr(X, "columns") else X[:, j] for j, name in enumerate(names))
        return Shapley(names, pure.intercept, lazy, data)
    table = model.encoder.check(X)
    places = [book.places(column) for book, column in zip(pure.books, table.columns, strict=True)]
    values = backend_of().curves([pure.curves]).contributions(places, n_threads)[:, 0]
    if model.repeated is not None:
        eta = model.without_repeated.eta(table, n_threads=n_threads)[:, 0]
        of_rows = model.repeated.at(pure.books, table, eta, model.family)
        values[:, pure.active] += of_rows[:, np.newaxis] / len(pure.active)
    return Shapley(tuple(model.encoder.names), pure.intercept, values, table.columns)
