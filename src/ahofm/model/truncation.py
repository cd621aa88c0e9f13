"""A linear predictor without terms of many columns, where product factors have terms of every order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.model.predictor import Predictor
from ahofm.orders import PRODUCT

_LEAST_CONSTANT = 1e-15
"""Least absolute value of the constants of product factors where a product is truncated at an order."""


def truncated(predictor: Predictor, highest: int) -> Predictor:
    """Without terms of more columns than ``highest``; product factors leave factors of orders up to it.

    The terms of k columns of a product are those of a factor of order k, with functions phi / m and the product of
    all m for a loading. Constants near zero are replaced by ``_LEAST_CONSTANT``, which changes no digit of a term.
    """
    lower = predictor.at_orders([order for order in predictor.orders if order <= highest])
    if predictor.product_means is None or highest < 2:
        return lower
    products = predictor.keeping({d: np.full(rank, d == PRODUCT) for d, rank in predictor.orders.items()})
    tiny = np.copysign(_LEAST_CONSTANT, predictor.product_means)
    means = np.where(np.abs(predictor.product_means) < _LEAST_CONSTANT, tiny, predictor.product_means)
    loading = products.loadings[PRODUCT] * means.prod(axis=0)
    times = highest - 1

    def repeated(arrays: Sequence[Floats]) -> tuple[Floats, ...]:
        return tuple(
            np.concatenate([0.0 * functions[..., :1], np.tile(functions[..., 1:] / mean, times)], axis=-1)
            for functions, mean in zip(arrays, means, strict=True)
        )

    neutral = None if products.neutral is None else repeated(products.neutral)
    loadings = {order: loading.copy() for order in range(2, highest + 1)}
    return lower.plus(Predictor(0.0, repeated(products.coef), repeated(products.centring), loadings, neutral))
