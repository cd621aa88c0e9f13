"""Coefficients of large models as multiples of powers of two, far below what rows can tell, so that files are small.

A column of numbers may have an effect of each value, for each factor: a million bytes of digits, most of which are far
below standard errors. They are rounded once, at the end of a fit: a model and its file then agree to the last bit.
Small models are left alone, and so are models with shapes (monotone, convex or concave columns), which are guaranteed
to the last digit.

The errors of all functions of a linear predictor are to change it alike. With s the root mean square of the linear
predictor less its intercept, N functions phi, and d the root mean square of its derivative with respect to one of them,
both for independent columns, the steps

    step = ROUNDED_SHARE * s * sqrt(12 / N) / d

change the linear predictor by ``ROUNDED_SHARE * s`` (root mean square): a function that matters less has fewer digits.
Functions that several linear predictors share, or that lower orders have too, take the least of their steps: they stay
equal, and are stored once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.shaped import Shaped
from ahofm.kernels.symmetric import without_each
from ahofm.model.model import Model
from ahofm.model.predictor import Predictor
from ahofm.model.repeated import RepeatedRows
from ahofm.model.shared_predictors import SharedPredictors, separate, together
from ahofm.orders import PRODUCT
from ahofm.tuning.numerics import EXACT_COEFFICIENTS, ROUNDED_BITS, ROUNDED_SHARE

Exponents: TypeAlias = NDArray[np.int64]

_Predictors: TypeAlias = Predictor | SharedPredictors
"""One linear predictor, or K that share their factors: functions of a column are K main effects, then F factors."""


def rounded(model: Model) -> Model:
    """The model with rounded coefficients, those of lower orders and of the variance included, if it has many.

    Linear predictors that share their factors share them afterwards.
    """
    books, variance = model.encoder.codebooks, model.variance_model
    effects = () if variance is None else (variance.effects,)
    fits = (model.linear_predictors, *(part.linear_predictors for part in model.lower), effects)
    count = sum(book.size for book in books) * sum(predictor.orders.width for fit in fits for predictor in fit)
    if count <= EXACT_COEFFICIENTS or any(isinstance(book.kind, Shaped) for book in books):
        return model
    parts = {id(fit): together(fit) for fit in fits if fit}
    steps = {id(part): _exponents(part, books) for fit in parts.values() for part in fit}
    _equalise([(part, steps[id(part)]) for fit in parts.values() for part in fit])

    def change(fit: tuple[Predictor, ...]) -> tuple[Predictor, ...]:
        return separate([_rounded(part, books, steps[id(part)]) for part in parts[id(fit)]])

    return replace(
        model.with_each(change),
        variance_model=variance and replace(variance, effects=change(effects)[0]),
        repeated=model.repeated and _rounded_effects(model.repeated),
    )


def _exponents(predictors: _Predictors, books: Sequence[Codebook]) -> Exponents:
    """Of the steps of all functions, as powers of two: (columns, K + F).

    A function keeps between the first and the second number of ``ROUNDED_BITS`` bits of its size: its largest value, or
    the largest coefficient where that is less. Functions of a basis that is large have small coefficients, and
    coefficients that are large may cancel.
    """
    values = [predictors.at_codes(j, book) for j, book in enumerate(books)]
    with np.errstate(all="ignore"):
        squares = np.array([book.distribution @ at_codes**2 for book, at_codes in zip(books, values, strict=True)])
        of_unit = np.array([book.distribution @ np.asarray(book.basis.power(2).sum(axis=1)) for book in books])
        exponents = np.floor(np.log2(ROUNDED_SHARE * _steps(predictors, squares) / np.sqrt(of_unit)[:, np.newaxis]))
        exponents = np.nan_to_num(exponents, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    sizes = [
        np.minimum(np.abs(coef).max(axis=0, initial=0.0), np.abs(at_codes).max(axis=0))
        for coef, at_codes in zip(predictors.coef, values, strict=True)
    ]
    highest = np.frexp(np.array(sizes))[1]
    least, most = ROUNDED_BITS
    return np.asarray(np.clip(exponents, highest - most, highest - least), dtype=np.int64)


def _steps(predictors: _Predictors, squares: Floats) -> Floats:
    """Errors of functions that change linear predictors alike, relative to these: (columns, K + F).

    ``s * sqrt(12 / N) / d``; of a factor, the least of the K linear predictors.
    """
    n_main = predictors.n_main if isinstance(predictors, SharedPredictors) else 1
    loadings = [np.reshape(loading, (-1, n_main)) for loading in predictors.loadings.values()]
    weights = np.concatenate([np.zeros((0, n_main)), *loadings]) ** 2  # (F, K)
    derivatives, terms = _mean_squares(predictors, squares)
    nonzero = np.count_nonzero(derivatives * squares, axis=0)
    counts = np.maximum(nonzero[:n_main] + nonzero[n_main:] @ (weights > 0.0), 1)
    of_main = (squares[:, :n_main].sum(axis=0) + terms @ weights) / counts
    return np.sqrt(12.0 * np.concatenate([of_main, (of_main / weights).min(axis=1)]) / derivatives)


def _mean_squares(predictors: _Predictors, squares: Floats) -> tuple[Floats, Floats]:
    """Of derivatives with respect to functions, (columns, K + F), and of the terms of factors, (F,).

    With loadings of 1. Columns are taken to be independent, and functions, whose mean squares (columns, K + F) are
    given, of mean zero.
    """
    n_factors = predictors.orders.n_factors
    n_main = squares.shape[1] - n_factors
    derivatives, terms = np.ones_like(squares), np.zeros(n_factors)
    for order, part in predictors.orders.factor_slices.items():
        of_order = slice(n_main + part.start, n_main + part.stop)
        factors = squares[:, of_order]
        if order == PRODUCT and predictors.product_means is not None:
            means, none = predictors.product_means**2, np.zeros_like(factors)
            of_means = without_each(means, none, 0)[0]
            derivatives[:, of_order] = np.maximum(without_each(means + factors, none, 0)[0] - of_means, 0.0)
            products = (means + factors).prod(axis=0) - means.prod(axis=0) - (factors * of_means).sum(axis=0)
            terms[part] = np.maximum(products, 0.0)
        else:
            derivatives[:, of_order] = without_each(np.ones_like(factors), factors, order - 1)[order - 1]
            # A term of d columns is counted d times.
            terms[part] = (factors * derivatives[:, of_order]).sum(axis=0) / order
    return derivatives, terms


def _equalise(steps: Sequence[tuple[_Predictors, Exponents]]) -> None:
    """The least exponent for functions that several linear predictors have."""
    for j in range(len(steps[0][1])):
        functions = [[function.tobytes() for function in predictors.coef[j].T.copy()] for predictors, _ in steps]
        least: dict[bytes, int] = {}
        for keys, (_, exponents) in zip(functions, steps, strict=True):
            for key, exponent in zip(keys, exponents[j].tolist(), strict=True):
                least[key] = min(exponent, least.get(key, exponent))
        for keys, (_, exponents) in zip(functions, steps, strict=True):
            exponents[j] = [least[key] for key in keys]


def _rounded(predictors: _Predictors, books: Sequence[Codebook], exponents: Exponents) -> _Predictors:
    """Functions keep their means: terms that are pure stay so."""
    coefs, centrings = [], []
    for j, book in enumerate(books):
        coef, centring = predictors.coef[j], predictors.centring[j]
        new = _to_multiples(coef, exponents[j]) if book.size else coef
        coefs.append(new)
        centrings.append(centring + book.distribution @ (book.basis @ (coef - new)) if book.size else centring)
    return replace(predictors, coef=tuple(coefs), centring=tuple(centrings))


def _rounded_effects(repeated: RepeatedRows) -> RepeatedRows:
    """Effects of copies of rows, to the largest number of bits."""
    exponent = np.frexp(np.abs(repeated.effects).max())[1] - ROUNDED_BITS[1]
    return replace(repeated, effects=_to_multiples(repeated.effects, exponent))


def _to_multiples(numbers: Floats, exponents: NDArray[np.integer]) -> Floats:
    """Numbers to multiples of two to the power of ``exponents``, where that does not overflow."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        steps, per_step = np.ldexp(1.0, exponents), np.ldexp(1.0, -exponents)  # products with these are exact
        new = np.rint(numbers * per_step) * steps + 0.0  # no negative zeros
    return np.where(np.isfinite(new), new, numbers)
