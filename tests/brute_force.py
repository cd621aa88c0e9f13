"""The model as a person would write it down: loops over rows, subsets and factors, nothing shared with the package."""

from itertools import combinations
from math import prod

import numpy as np


def eta_of_row(rows, tables):
    """rows: the table row of each column's code."""
    total = tables.intercept + sum(tables.main[r] for r in rows)
    for order, table in tables.factors.items():
        for f in range(table.shape[1]):
            own = sum(prod(table[r, f] for r in subset) for subset in combinations(rows, order))
            total += own if tables.loadings is None else tables.loadings[order][f] * own
    return total


def table_rows(codes):
    starts = np.concatenate([[0], np.cumsum(codes.sizes)])
    return np.stack([starts[j] + column.astype(int) for j, column in enumerate(codes.columns)], axis=1)


def eta(codes, linear_predictors):
    return np.array([[eta_of_row(rows, tables) for tables in linear_predictors] for rows in table_rows(codes)])


def newton_girard(phi, degree):
    """e_degree of the numbers phi from power sums: cancels badly, but is an independent way."""
    e = [1.0]
    powers = [np.sum(np.asarray(phi) ** t) for t in range(degree + 1)]
    for d in range(1, degree + 1):
        e.append(sum((-1) ** (t + 1) * e[d - t] * powers[t] for t in range(1, d + 1)) / d)
    return e[degree]
