"""A linear predictor as a sum of terms that do not overlap: functions of mean zero, so that no term hides a part of
another.

    eta = intercept + sum_j main_j + sum_d sum_f weight_df e_d(psi_1f, ..., psi_pf)

Means are those over the columns' own distributions in training. A model fitted with ``center=True`` is of this form.
For others, ``phi = c + psi`` with the mean c, and what an order-d factor says about a set S of k < d columns is

    prod_{j in S} psi_j * e_{d-k}(c of the others)
    e_{d-k}(c of the others) = sum_m (-1)^m e_{d-k-m}(c) h_m(c of S)      h_m complete homogeneous

h_m is the coefficient of z^m in ``prod_{j in S} (1 + c_j z + (c_j z)^2 + ...)``. Evaluated at k (d - k) + 1 values of z
that is a sum of products over S again: factors ``psi_j (1 + c_j z + ... + (c_j z)^(d-k))`` of order k, with weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.kernels import Curves, LevelCurves, NumberCurves
from ahofm.kernels.blas import one_blas_thread
from ahofm.model import Model
from ahofm.model.shares import symmetric

_CENTRED = 1e-8
"""Means below this share of a function's root mean square are rounding."""


@dataclass(frozen=True)
class Pure:
    """One linear predictor in pure terms.

    Attributes
    ----------
    curves : Curves
        Its functions, all of mean zero.
    weights : dict of order to array of shape (rank,)
        Of each factor's terms; 1 unless lower-order parts had to be moved.
    books : tuple of Codebook
    maps : tuple of pairs of arrays of shape (old width,) and (width, old width), or None
        How a column's functions come from the model's: without their means, as linear combinations. None: they are the
        model's.
    """

    curves: Curves
    weights: Mapping[int, Floats]
    books: tuple[Codebook, ...]
    maps: tuple[tuple[Floats, Floats], ...] | None = None

    @property
    def order(self) -> int:
        """Highest order."""
        return max(self.curves.ranks, default=1)

    @property
    def slices(self) -> dict[int, slice]:
        """Which functions of a column are the factors of each order; 0 is the main effect."""
        return self.curves.slices

    @property
    def active(self) -> list[int]:
        """Columns that have functions."""
        return [j for j, book in enumerate(self.books) if book.size > 0]

    @cached_property
    def masses(self) -> tuple[Floats, ...]:
        """Share of the training weight at each code of a column."""
        return tuple(masses_of(book) for book in self.books)

    @cached_property
    def at_codes(self) -> tuple[Floats, ...]:
        """Functions at the codes of training: (codes, width) per column."""
        return tuple(map(_at_codes, self.curves.columns, self.books))

    @cached_property
    def moments(self) -> Floats:
        """Mean products of functions, (columns, width, width)."""
        return np.array([v.T @ (mass[:, np.newaxis] * v) for v, mass in zip(self.at_codes, self.masses, strict=True)])

    def values(self, table: Table) -> Floats:
        """Evaluate the functions at the rows of a table.

        Parameters
        ----------
        table : Table
            Of n rows.

        Returns
        -------
        array of shape (columns, n, width)
            The main effect and the factors of each column.
        """
        pairs = zip(self.curves.columns, self.books, table.columns, strict=True)
        return np.stack([curve.evaluate(book.places(column)) for curve, book, column in pairs])

    def of_column(self, j: int, values: object) -> Floats:
        """Evaluate the functions of one column at raw values.

        Parameters
        ----------
        j : int
            Number of the column.
        values : array of shape (n,)
            Raw values.

        Returns
        -------
        array of shape (n, width)
            Its main effect and its factors.
        """
        return self.curves.columns[j].evaluate(self.books[j].places(np.asarray(values)))


def masses_of(book: Codebook) -> Floats:
    """Share of the training weight at each code."""
    return np.asarray(book.mass / max(book.mass.sum(), np.finfo(float).tiny))


@one_blas_thread()
def purify(model: Model, k: int) -> Pure:
    """Write a linear predictor as a sum of pure terms.

    Parameters
    ----------
    model : Model
        E.g. ``estimator.model_``.
    k : int
        Number of the linear predictor.

    Returns
    -------
    Pure
        Exact also at unseen levels and missing values.

    Examples
    --------
    >>> from ahofm.explain import purify
    >>> pure = purify(model.model_, 0)
    >>> bool(np.allclose([mass @ values for mass, values in zip(pure.masses, pure.at_codes)], 0.0))
    True
    """
    curves, books = model.curves[k], model.encoder.codebooks
    values = [_at_codes(curve, book) for curve, book in zip(curves.columns, books, strict=True)]
    masses = [masses_of(book) for book in books]
    means = np.array([mass @ own for mass, own in zip(masses, values, strict=True)])
    squares = np.array([mass @ own**2 for mass, own in zip(masses, values, strict=True)])
    if (np.abs(means) <= _CENTRED * np.sqrt(squares.max(axis=0, initial=0.0))).all():
        return Pure(curves, {order: np.ones(rank) for order, rank in curves.ranks.items()}, tuple(books))
    intercept = curves.intercept + float(means[:, 0].sum())
    to_main = np.zeros((len(books), curves.width))
    to_main[:, 0] = 1.0
    made: dict[
        int, list[tuple[Floats, Floats]]
    ] = {}  # order: (weights (F,), scales of the old functions (p, F, width))
    for order, part in curves.slices.items():
        c, eye = means[:, part], np.eye(curves.width)[part]
        intercept += float(symmetric(c, order).sum())
        for j in range(len(books)):
            to_main[j, part] = symmetric(np.delete(c, j, axis=0), order - 1)
        made.setdefault(order, []).append((np.ones(c.shape[1]), np.broadcast_to(eye, (len(books), *eye.shape))))
        for lower in range(2, order):
            for weights, scales in _moved_down(c, order, lower):
                made.setdefault(lower, []).append((weights, scales[:, :, np.newaxis] * eye))
    orders = sorted(made)
    maps = []
    for j in range(len(books)):
        parts = [scales[j] for order in orders for _, scales in made[order]]
        maps.append((means[j], np.vstack([to_main[j], *parts])))
    columns = [_mapped(curve, *own) for curve, own in zip(curves.columns, maps, strict=True)]
    by_order = {order: np.concatenate([own for own, _ in made[order]]) for order in orders}
    ranks = {order: len(own) for order, own in by_order.items()}
    return Pure(Curves(intercept, ranks, tuple(columns)), by_order, tuple(books), tuple(maps))


def _moved_down(c: Floats, order: int, lower: int) -> list[tuple[Floats, Floats]]:
    """What order-d factors with means c (p, F) say about sets of fewer columns: weights (F,) and scales (p, F)."""
    rest = order - lower
    largest = np.maximum(np.abs(c).max(axis=0), np.finfo(float).tiny)
    count = lower * rest + 1
    nodes = np.cos(np.pi * (np.arange(count) + 0.5) / count)
    extract = np.linalg.inv(np.vander(nodes, increasing=True))  # (powers, nodes)
    powers = [(-largest) ** m * symmetric(c, rest - m) for m in range(rest + 1)]
    found = []
    for q, node in enumerate(nodes):
        steps = (c / largest * node)[np.newaxis] ** np.arange(rest + 1)[:, np.newaxis, np.newaxis]
        weights = sum((extract[m, q] * power for m, power in enumerate(powers)), np.zeros(c.shape[1]))
        found.append((weights, steps.sum(axis=0)))
    return found


def _mapped(curve: NumberCurves | LevelCurves, means: Floats, to: Floats) -> NumberCurves | LevelCurves:
    """The functions without their means, and linear combinations (new, old) of them."""
    return LevelCurves((curve.values - means) @ to.T) if isinstance(curve, LevelCurves) else mapped(curve, means, to)


def mapped(curve: NumberCurves, means: Floats, to: Floats) -> NumberCurves:
    """Functions of a number without their means, and linear combinations (new, old) of them."""
    values = curve.values.copy()
    values[:, 0] -= means
    return replace(curve, values=values @ to.T, missing=(curve.missing - means) @ to.T)


def _at_codes(curve: NumberCurves | LevelCurves, book: Codebook) -> Floats:
    if isinstance(curve, LevelCurves):
        return curve.values
    missing = np.full(book.n_codes - book.support.size, np.nan)
    return curve.evaluate(np.concatenate([np.asarray(book.support.values, dtype=np.float64), missing]))
