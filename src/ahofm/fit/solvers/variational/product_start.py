"""Initial values of product factors: nearly constant functions, loadings by a regression of the residual on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ahofm.columns import Codes
from ahofm.columns.basis import Floats
from ahofm.fit.solvers.variational.coordinate_ascent import VariationalState
from ahofm.fit.solvers.variational.init import initial_std, random_factors
from ahofm.orders import PRODUCT
from ahofm.priors.column import ColumnPriors
from ahofm.training.factor_groups import FactorGroups
from ahofm.tuning.numerics import LEAST_PRODUCT_VARIANCE
from ahofm.tuning.products import (
    LEAST_START_LOADING,
    PRODUCT_START_COLUMNS,
    PRODUCT_START_RIDGE,
    PRODUCT_START_STD,
)
from ahofm.tuning.starts import START_HALVINGS, START_LOSS_RISE, START_STD


def add_products(
    state: VariationalState,
    columns: Sequence[ColumnPriors],
    codes: Codes,
    rank: int,
    rng: np.random.Generator,
    *,
    reweighted: bool,
    groups: FactorGroups,
) -> None:
    """Add product factors to all linear predictors of a state.

    Parameters
    ----------
    state : VariationalState
    columns : sequence of p ColumnPriors
    codes : Codes
        Codes of the rows.
    rank : int
        Number of product factors.
    rng : Generator
    reweighted : bool
        Whether rows are randomly reweighted in the regression for the loadings.
    groups : FactorGroups
        Columns of each factor; the functions of the others are the constant one.
    """
    state.end()
    response = state.response
    for k, linear_predictor in enumerate(state.linear_predictors):
        functions, constants = _functions(columns, rank, rng)
        left_out = groups.left_out(PRODUCT, rank)
        if left_out is not None:
            functions = [np.where(out, 0.0, own) for own, out in zip(functions, left_out, strict=True)]
            constants = np.where(left_out, 1.0, constants)
        gradient = state.rows.gradient(k)
        if reweighted:
            gradient = gradient * rng.exponential(size=len(gradient))
        products = np.ones((response.n_rows, rank))
        for own, constant, column in zip(functions, constants, codes.columns, strict=True):
            products *= (own + constant)[column]
        std = initial_std(state, k)
        loadings = _loadings(products, gradient, response.weight / response.total, LEAST_START_LOADING * std)
        if not response.quadratic:
            loadings = _limited(state, k, functions, constants, loadings)
        linear_predictor.widen_products(functions, constants, loadings, left_out)


def _functions(columns: Sequence[ColumnPriors], rank: int, rng: np.random.Generator) -> tuple[list[Floats], Floats]:
    """Smooth random functions (codes, rank) of each column and constants (p, rank); sums have root mean square 1."""
    std = PRODUCT_START_STD * min(1.0, np.sqrt(PRODUCT_START_COLUMNS / len(columns)))
    functions, constants = [], []
    for column, start in zip(columns, random_factors(columns, rank, 1.0 / START_STD, rng), strict=True):
        size = np.sqrt(column.mass @ start**2)
        own = np.divide(std * start, size, out=np.zeros_like(start), where=size > 0.0)
        scale = np.sqrt(1.0 + 2.0 * (column.mass @ own) + column.mass @ own**2)
        functions.append(own / scale)
        constants.append(1.0 / scale)
    return functions, np.array(constants)


def _loadings(products: Floats, gradient: Floats, weight: Floats, least: float) -> Floats:
    """Loadings (rank,): ridge regression of the residual on products (n, rank), absolute values at least ``least``."""
    centred = products - weight @ products
    gram = centred.T @ (weight[:, np.newaxis] * centred)
    variance = np.diag(gram) + np.finfo(float).tiny
    ridge = PRODUCT_START_RIDGE * np.diag(variance + LEAST_PRODUCT_VARIANCE)
    loadings = np.linalg.solve(gram + ridge, centred.T @ gradient)
    return np.asarray(np.where(loadings < 0.0, -1.0, 1.0) * np.maximum(np.abs(loadings), least))


def _limited(
    state: VariationalState, k: int, functions: Sequence[Floats], constants: Floats, loadings: Floats
) -> Floats:
    """Loadings, halved until the relative loss rises by at most ``START_LOSS_RISE``."""
    values = [own + constant for own, constant in zip(functions, constants, strict=True)]
    values[0] = values[0] * loadings
    loss, response, scale = state.rows.loss_along(k, PRODUCT, values), state.response, 1.0
    for _ in range(START_HALVINGS):
        if response.remaining(loss(scale)) <= response.remaining(state.rows.loss()) + START_LOSS_RISE:
            break
        scale *= 0.5
    return scale * loadings
