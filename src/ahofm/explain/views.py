"""Two more views of interactions: marginals, with the standard deviation over the other columns, and latent curves."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.explain.arguments import Fitted, columns_of, linear_predictor_of, model_of, orders_of
from ahofm.explain.effects import grid_of
from ahofm.explain.frames import Framed, frame
from ahofm.explain.pure import Pure, purify
from ahofm.kernels.blas import one_blas_thread
from ahofm.kernels.symmetric import symmetric
from ahofm.orders import main_of
from ahofm.threads import obeys_n_jobs


@dataclass(frozen=True)
class Marginals(Framed):
    """A function of several columns along each of them: its mean over the others, and its standard deviation over them.

    Attributes
    ----------
    columns : tuple of str
    grid : tuple of arrays
    mean, std : tuples of arrays, one per column, of its grid's length
        ``std`` is the standard deviation over the other columns.
    alone : bool
        Whether the function is the interaction alone; its means are then zero.
    """

    columns: tuple[str, ...]
    grid: tuple[NDArray[Any], ...]
    mean: tuple[Floats, ...]
    std: tuple[Floats, ...]
    alone: bool

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per column and grid value, values as text where columns differ in type."""
        numbers = all(values.dtype != object for values in self.grid)
        data = {
            "column": [name for name, values in zip(self.columns, self.grid, strict=True) for _ in values],
            "at": [value if numbers else str(value) for values in self.grid for value in values.tolist()],
            "mean": np.concatenate(self.mean),
            "std": np.concatenate(self.std),
        }
        return frame(data, backend)


@dataclass(frozen=True)
class Factors(Framed):
    """Latent curves of an order: interactions are sums over factors of products of them.

    Attributes
    ----------
    order : int
    columns : tuple of str
    grid : tuple of arrays
    curves : tuple of arrays of shape (points, factors), one per column
    weights : array of shape (factors,)
        Of each factor's products.
    share : array of shape (factors,)
        Variance of each factor's products alone, over that of all of them.
    """

    order: int
    columns: tuple[str, ...]
    grid: tuple[NDArray[Any], ...]
    curves: tuple[Floats, ...]
    weights: Floats
    share: Floats

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per column, grid value and factor."""
        numbers = all(values.dtype != object for values in self.grid)
        rows = [
            (name, value if numbers else str(value), f, float(curves[at, f]))
            for name, values, curves in zip(self.columns, self.grid, self.curves, strict=True)
            for at, value in enumerate(values.tolist())
            for f in range(curves.shape[1])
        ]
        return frame(
            dict(zip(("column", "at", "factor", "value"), map(list, zip(*rows, strict=True)), strict=True)), backend
        )


@obeys_n_jobs
@one_blas_thread()
def marginals(
    fitted: Fitted, columns: Any, grid: Any = None, *, alone: bool = False, linear_predictor: Any = None
) -> Marginals:
    """Compute what the model says about several columns together, seen along each of them.

    Parameters
    ----------
    fitted : estimator or model
        Fitted.
    columns : sequence of names or numbers
        At least two.
    grid : int or dict, optional
        As for ``effect``.
    alone : bool, default False
        Whether to take the interaction of all of them alone; by default everything that depends on no other column.
    linear_predictor : int or class, optional
        Which linear predictor, for families with several.

    Returns
    -------
    Marginals
        Mean and standard deviation along each column.

    Examples
    --------
    >>> from ahofm.explain import marginals
    >>> found = marginals(model, ["rain", "sun"], {"rain": [0.0, 1.0], "sun": [0.0, 1.0]})
    >>> bool(found.std[0][1] > 5 * found.std[0][0])  # what sun adds matters where it rains
    True
    """
    model = model_of(fitted)
    pure = purify(model, linear_predictor_of(model, linear_predictor))
    found = columns_of(model, columns)
    if len(found) < 2:
        raise ValueError("marginals are of at least two columns; effect is for one")
    grids = [grid_of(model, j, grid, 1) for j in found]
    means, stds = [], []
    for j, values in zip(found, grids, strict=True):
        others = [other for other in found if other != j]
        phi = pure.of_column(j, values)
        means.append(np.zeros(len(values)) if alone else main_of(phi))
        sets = [tuple(others)] if alone else _sets(others)
        square = np.zeros(len(values))
        for subset in sets:
            square += _square_over(pure, j, phi, subset, alone=alone)
        stds.append(np.sqrt(np.maximum(square, 0.0)))
    names = tuple(model.encoder.names[j] for j in found)
    return Marginals(names, tuple(grids), tuple(means), tuple(stds), alone)


def _sets(columns: list[int]) -> list[tuple[int, ...]]:
    return [subset for size in range(1, len(columns) + 1) for subset in combinations(columns, size)]


def _square_over(pure: Pure, j: int, phi: Floats, subset: tuple[int, ...], *, alone: bool) -> Floats:
    """Mean square, over the columns of a set, of the terms of that set without and with column j, of functions phi."""
    coef = np.zeros((len(phi), pure.orders.width))  # coefficients of the products over the set, function by function
    if not alone:
        if len(subset) == 1:
            main_of(coef)[:] = 1.0
        else:
            factors = pure.factors_of(len(subset))
            coef[:, factors.which] = factors.outside(subset)
    factors = pure.factors_of(len(subset) + 1)
    coef[:, factors.which] += phi[:, factors.which] * factors.outside((*subset, j))
    return np.asarray(np.einsum("nf,fg,ng->n", coef, np.prod(pure.moments[list(subset)], axis=0), coef))


@obeys_n_jobs
@one_blas_thread()
def factors(fitted: Fitted, order: int = 2, grid: Any = None, *, linear_predictor: Any = None) -> Factors:
    """Compute the latent curves of an order, so that two fits can be compared.

    Factors of pairs may be rotated without changing the model: they are turned to the principal axes of all their
    curves together, the largest first. Those of higher orders are unique and sorted by the variance of their products.
    Signs are such that the column with the largest curve ends higher than it begins (odd orders: as they are).

    Parameters
    ----------
    fitted : estimator or model
        Fitted.
    order : int, default 2
        Of the interactions.
    grid : int or dict, optional
        As for ``effect``.
    linear_predictor : int or class, optional
        Which linear predictor, for families with several.

    Returns
    -------
    Factors
        The strongest factor first.

    Examples
    --------
    >>> from ahofm.explain import factors
    >>> latent = factors(model, order=2, grid=20)
    >>> latent.columns, latent.curves[0].shape[0] == 20
    (('wind', 'rain', 'sun'), True)
    """
    model = model_of(fitted)
    pure = purify(model, linear_predictor_of(model, linear_predictor))
    (order,) = orders_of(model, order)
    if order not in pure.orders:
        raise ValueError(f"the model has no factors of order {order}")
    part = pure.orders.slices[order]
    turned, weights = _canonical(pure, order)
    grids = [grid_of(model, j, grid, 1) for j in pure.active]
    curves = [pure.of_column(j, values)[:, part] @ turned for j, values in zip(pure.active, grids, strict=True)]
    moments = np.einsum("fa,jfg,gb->jab", turned, pure.moments[:, part, part], turned)
    each = weights**2 * symmetric(np.einsum("jff->jf", moments), order)
    total = (np.outer(weights, weights) * symmetric(moments, order)).sum()
    by_size = np.argsort(-each, kind="stable")
    names = tuple(model.encoder.names[j] for j in pure.active)
    curves = [curve[:, by_size] for curve in curves]
    if order % 2 == 0:
        signs = _signs(curves, np.einsum("jff->jf", moments)[pure.active][:, by_size])
        curves = [curve * signs for curve in curves]
    return Factors(
        order, names, tuple(grids), tuple(curves), weights[by_size], each[by_size] / max(total, np.finfo(float).tiny)
    )


def _canonical(pure: Pure, order: int) -> tuple[Floats, Floats]:
    """A matrix that turns the factors and takes the size of their loadings, and the signs that go with them."""
    weights, rank = pure.loadings[order], pure.orders[order]
    signs = np.where(weights < 0.0, -1.0, 1.0)
    if order > 2:
        return np.diag(np.abs(weights) ** (1.0 / order)), signs
    part = pure.orders.slices[order]
    turned = np.zeros((rank, rank))
    for sign in (1.0, -1.0):
        same_sign = np.flatnonzero(signs == sign)
        if len(same_sign):
            root = np.sqrt(np.abs(weights[same_sign]))
            together = pure.moments[:, part, part].sum(axis=0)[np.ix_(same_sign, same_sign)] * np.outer(root, root)
            _, vectors = np.linalg.eigh(together)
            turned[np.ix_(same_sign, same_sign)] = root[:, np.newaxis] * vectors
    return turned, signs


def _signs(curves: list[Floats], squares: Floats) -> Floats:
    """+1 or -1 per factor."""
    out = np.ones(squares.shape[1])
    for f, j in enumerate(squares.argmax(axis=0)):
        curve = curves[j][:, f]
        centre = np.arange(len(curve)) - 0.5 * (len(curve) - 1)
        out[f] = -1.0 if centre @ curve < 0.0 else 1.0
    return out
