"""Initial values of new factors: leading eigenvectors of residual covariances for pairs, random for higher orders.

Product factors start with nearly constant functions, and loadings by a regression of the residual on the products.

Coordinate ascent finds a local optimum; which one depends on the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ahofm.backends import WorkingRows
from ahofm.columns import Codes, known_codes
from ahofm.columns.basis import Floats
from ahofm.fit.solvers.variational.coordinate_ascent import VariationalState
from ahofm.kernels.symmetric import symmetric
from ahofm.model.coordinates import canonical_rotation
from ahofm.orders import PRODUCT, factors_of
from ahofm.priors.column import ColumnPriors, relative_eigenvalues
from ahofm.training.factor_groups import ColumnGroup, FactorGroups
from ahofm.training.spectrum import Spectrum, ends_of, is_dense, stacked_functions
from ahofm.tuning import IDLE_FACTOR_VARIANCE
from ahofm.tuning.numerics import LEAST_PRODUCT_VARIANCE
from ahofm.tuning.products import (
    LEAST_START_LOADING,
    PRODUCT_START_COLUMNS,
    PRODUCT_START_RIDGE,
    PRODUCT_START_STD,
)
from ahofm.tuning.starts import (
    RANDOM_START_FRACTION,
    START_ETA_STD,
    START_HALVINGS,
    START_LOSS_RISE,
    START_PENALTY,
    START_STD,
    START_TERM_STD,
    UNSUPPORTED_EIGENVALUE_FACTOR,
)


def random_factors(columns: Sequence[ColumnPriors], rank: int, std: float, rng: np.random.Generator) -> list[Floats]:
    """Smooth random functions at the codes, (codes, rank) per column: coefficients have variance 1 / (1 + 10 w)."""
    factors = []
    for column in columns:
        coef_std = 1.0 / np.sqrt(1.0 + START_PENALTY * relative_eigenvalues(column.penalty_eigenvalues))
        coef = rng.normal(size=(len(coef_std), rank)) * coef_std[:, np.newaxis]
        factors.append(column.start @ coef * (START_STD * std))
    return factors


def spectral_factors(
    columns: Sequence[ColumnPriors],
    spectrum: Spectrum,
    rank: int,
    std: float,
    rng: np.random.Generator,
    *,
    most: float,
) -> list[Floats]:
    """Pairwise factors from leading eigenvectors: (codes, rank) per column.

    The factors are the ``rank`` leading eigenvectors times the roots of their eigenvalues. Eigenvalues that gradients
    of random sign reach as well are multiplied by ``UNSUPPORTED_EIGENVALUE_FACTOR``.

    Parameters
    ----------
    columns : sequence of ColumnPriors
    spectrum : Spectrum
        Of the residuals.
    rank : int
    std : float
        Standard deviation of the residual; a tenth of it is added at random.
    most : float
        Upper bound of the eigenvalues.
    """
    stacked = stacked_functions(columns)
    ends, values = ends_of(stacked), spectrum.values
    supported = values > spectrum.null_eigenvalue
    values = np.minimum(np.where(supported, values, UNSUPPORTED_EIGENVALUE_FACTOR * values), most)
    count = min(rank, len(values))
    values, vectors = values[::-1][:count], spectrum.vectors[:, ::-1][:, :count]
    vectors = vectors @ canonical_rotation(vectors, spectrum.values[::-1][:count])
    leading = vectors * np.sqrt(np.maximum(values, 0.0))
    factors = random_factors(columns, rank, RANDOM_START_FRACTION * std, rng)
    for j, functions in enumerate(stacked):
        factors[j][:, :count] += functions @ leading[ends[j] : ends[j + 1]]
    return factors


def limited_factors(
    columns: Sequence[ColumnPriors], rows: WorkingRows, k: int, order: int, factors: Sequence[Floats], most_std: float
) -> list[Floats]:
    """Factors (codes, rank) scaled so that the sum of their terms has at most the standard deviation ``most_std``.

    Also halved until they raise the remaining loss by at most ``START_LOSS_RISE``.
    """
    squares = np.array([column.mass @ values**2 for column, values in zip(columns, factors, strict=True)])
    std = float(np.sqrt(symmetric(squares, order).sum()))
    scale = _halved(min(1.0, most_std / std if std > 0.0 else 1.0), rows, rows.loss_along(k, order, factors))
    return [scale ** (1.0 / order) * values for values in factors]


def _halved(scale: float, rows: WorkingRows, loss: Callable[[float], float]) -> float:
    """The scale, halved until ``loss`` of it raises the remaining loss of the rows by at most ``START_LOSS_RISE``."""
    response = rows.response
    for _ in range(START_HALVINGS):
        if response.remaining(loss(scale)) <= response.remaining(rows.loss()) + START_LOSS_RISE:
            break
        scale *= 0.5
    return scale


def add_factors(
    state: VariationalState,
    columns: Sequence[ColumnPriors],
    order: int,
    rank: int,
    rng: np.random.Generator,
    spectrum: Callable[[int, ColumnGroup, int], Spectrum],
    *,
    tensor_smoothing: bool,
    groups: FactorGroups,
) -> None:
    """More factors of an order for all linear predictors.

    Parameters
    ----------
    state : VariationalState
    columns : sequence of ColumnPriors
    order, rank : int
    rng : Generator
    spectrum : function of k, a group of columns and a number
        Of the residuals of linear predictor k with pairs of these columns; so many eigenvectors are needed.
    tensor_smoothing : bool
        Whether pairs have tensor product penalties, with two smoothing parameters per pair of columns.
    groups : FactorGroups
        Columns of each factor.
    """
    state.release_sweeper()
    response, left_out = state.response, groups.left_out(order, rank)
    from_one_spectrum = order == 2 and left_out is not None and is_dense(columns)
    places = [(tuple(range(len(columns))), np.arange(rank))] if from_one_spectrum else groups.places(order, rank)
    starts = [
        _initial_factors(state, k, columns, order, rank, rng, spectrum, places)
        for k in range(len(state.linear_predictors))
    ]
    if from_one_spectrum:  # factors of all linear predictors are of the same columns
        squares = [[column.mass @ values**2 for column, values in zip(columns, one, strict=True)] for one in starts]
        left_out = groups.left_out_of(np.array(squares).sum(axis=0), order)
        starts = [[np.where(out, 0.0, values) for out, values in zip(left_out, one, strict=True)] for one in starts]
    for k, (linear_predictor, new) in enumerate(zip(state.linear_predictors, starts, strict=True)):
        if not response.quadratic:
            most_std = START_TERM_STD * initial_std(state, k) if order > 2 else np.inf
            new = limited_factors(columns, state.rows, k, order, new, most_std)  # noqa: PLW2901
        linear_predictor.add_factors(order, new, left_out)
        if order == 2 and tensor_smoothing and linear_predictor.posterior.tensor_smoothing is None:
            linear_predictor.begin_tensor_smoothing(state.information(k), response.total)


def _initial_factors(
    state: VariationalState,
    k: int,
    columns: Sequence[ColumnPriors],
    order: int,
    rank: int,
    rng: np.random.Generator,
    spectrum: Callable[[int, ColumnGroup, int], Spectrum],
    places: Sequence[tuple[ColumnGroup, NDArray[np.intp]]],
) -> list[Floats]:
    """Initial values of new factors of linear predictor k, (codes, rank) per column, each group's at its places."""
    std, most = initial_std(state, k), np.inf if state.response.quadratic else 1.0
    new = [np.zeros((column.start.shape[0], rank)) for column in columns]
    for group, where in places:
        group_columns = [columns[j] for j in group]
        if order == 2:
            leading = spectrum(k, group, len(where))
            factors = spectral_factors(group_columns, leading, len(where), std, rng, most=most)
        else:
            factors = random_factors(group_columns, len(where), std, rng)
        for j, values in zip(group, factors, strict=True):
            new[j][:, where] = values
    return new


def has_idle_factors(state: VariationalState) -> bool:
    """Whether some pairwise factors have shrunk to almost nothing in every linear predictor."""
    state.sync_posteriors()
    for k, linear_predictor in enumerate(state.linear_predictors):
        squares = np.array(
            [block.column.mass @ factors_of(known_codes(block.mean)) ** 2 for block in linear_predictor.blocks]
        )
        row_variance = state.response.total / state.information(k)
        if float(symmetric(squares, 2).min()) >= IDLE_FACTOR_VARIANCE * row_variance:
            return False
    return True


def initial_std(state: VariationalState, k: int) -> float:
    """Standard deviation to scale new factors by: the residual's, or that of the linear predictor so far."""
    if state.response.quadratic:
        return float(np.sqrt(2.0 * state.rows.loss()))
    return float(np.clip(state.rows.eta_std(k), *START_ETA_STD))


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
    state.release_sweeper()
    response = state.response
    for k, linear_predictor in enumerate(state.linear_predictors):
        functions, constants = _product_functions(columns, rank, rng)
        left_out = groups.left_out(PRODUCT, rank)
        if left_out is not None:
            functions = [np.where(out, 0.0, values) for values, out in zip(functions, left_out, strict=True)]
            constants = np.where(left_out, 1.0, constants)
        gradient = state.rows.gradient(k)
        if reweighted:
            gradient = gradient * rng.exponential(size=len(gradient))
        products = np.ones((response.n_rows, rank))
        for values, constant, column in zip(functions, constants, codes.columns, strict=True):
            products *= (values + constant)[column]
        std = initial_std(state, k)
        loadings = _product_loadings(products, gradient, response.weight / response.total, LEAST_START_LOADING * std)
        if not response.quadratic:
            loadings = _limited_loadings(state, k, functions, constants, loadings)
        linear_predictor.add_products(functions, constants, loadings, left_out)


def _product_functions(
    columns: Sequence[ColumnPriors], rank: int, rng: np.random.Generator
) -> tuple[list[Floats], Floats]:
    """Smooth random functions (codes, rank) of each column and constants (p, rank); sums have root mean square 1."""
    std = PRODUCT_START_STD * min(1.0, np.sqrt(PRODUCT_START_COLUMNS / len(columns)))
    functions, constants = [], []
    for column, start in zip(columns, random_factors(columns, rank, 1.0 / START_STD, rng), strict=True):
        size = np.sqrt(column.mass @ start**2)
        values = np.divide(std * start, size, out=np.zeros_like(start), where=size > 0.0)
        scale = np.sqrt(1.0 + 2.0 * (column.mass @ values) + column.mass @ values**2)
        functions.append(values / scale)
        constants.append(1.0 / scale)
    return functions, np.array(constants)


def _product_loadings(products: Floats, gradient: Floats, weight: Floats, least: float) -> Floats:
    """Loadings (rank,): ridge regression of the residual on products (n, rank), absolute values at least ``least``."""
    centred = products - weight @ products
    gram = centred.T @ (weight[:, np.newaxis] * centred)
    variance = np.diag(gram) + np.finfo(float).tiny
    ridge = PRODUCT_START_RIDGE * np.diag(variance + LEAST_PRODUCT_VARIANCE)
    loadings = np.linalg.solve(gram + ridge, centred.T @ gradient)
    return np.asarray(np.where(loadings < 0.0, -1.0, 1.0) * np.maximum(np.abs(loadings), least))


def _limited_loadings(
    state: VariationalState, k: int, functions: Sequence[Floats], constants: Floats, loadings: Floats
) -> Floats:
    """Loadings, halved until the relative loss rises by at most ``START_LOSS_RISE``."""
    values = [function + constant for function, constant in zip(functions, constants, strict=True)]
    values[0] = values[0] * loadings
    return _halved(1.0, state.rows, state.rows.loss_along(k, PRODUCT, values)) * loadings
