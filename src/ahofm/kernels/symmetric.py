"""Terms of factors at many rows at once: products, and elementary symmetric polynomials by recursion over columns."""

from __future__ import annotations

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.orders import PRODUCT


def symmetric(values: Floats, order: int) -> Floats:
    """e_order over the first axis."""
    e = np.zeros((order + 1, *values.shape[1:]))
    e[0] = 1.0
    for value in values:
        e[1:] += value * e[:-1].copy()
    return np.asarray(e[order])


def terms(values: Floats, order: int) -> Floats:
    """Terms of factors of an order, or of product factors, over the first axis: their sum over sets of columns."""
    return np.asarray(np.prod(values, axis=0)) if order == PRODUCT else symmetric(values, order)


def truncated(means: Floats, parts: Floats, degree: int) -> Floats:
    """Coefficients of t^0 ... t^degree of ``prod_j (means[j] + t parts[j])`` over the first axis: (degree + 1, ...).

    Of a product factor with functions ``mean + part``, the coefficient of t^k is the sum of its terms of k columns.
    """
    found = np.zeros((degree + 1, *np.broadcast_shapes(means.shape[1:], parts.shape[1:])))
    found[0] = 1.0
    for mean, part in zip(means, parts, strict=True):
        found[1:] = mean * found[1:] + part * found[:-1]
        found[0] *= mean
    return found


def without_each(means: Floats, parts: Floats, degree: int) -> Floats:
    """The same without one entry of the first axis, for each of them: (degree + 1, columns, ...), nothing divided."""
    count, shape = len(parts), np.broadcast_shapes(means.shape[1:], parts.shape[1:])
    before, after = np.zeros((2, count + 1, degree + 1, *shape))
    before[0, 0] = after[count, 0] = 1.0
    for j in range(count):
        at = count - 1 - j
        for to, product, column in ((before[j + 1], before[j], j), (after[at], after[at + 1], at)):
            to[:] = means[column] * product
            to[1:] += parts[column] * product[:-1]
    return np.array([sum(before[:-1, q] * after[1:, d - q] for q in range(d + 1)) for d in range(degree + 1)])
