"""The model as a person would write it down: loops over rows, subsets and factors, nothing shared with the package."""

from itertools import combinations
from math import exp, log, log1p, prod

import numpy as np

PRODUCT = 10_000  # in the place of an order: the product over all columns


def eta_of_row(rows, tables):
    """rows: the table row of each column's code."""
    total = tables.intercept + sum(tables.main[r] for r in rows)
    for order, table in tables.factors.items():
        for f in range(table.shape[1]):
            size = len(rows) if order == PRODUCT else order
            own = sum(prod(table[r, f] for r in subset) for subset in combinations(rows, size))
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


def slopes_of_row(rows, tables, column):
    """Derivatives of eta by a column's functions at one row: the main effect, then the factors of each order."""
    others = [row for j, row in enumerate(rows) if j != column]
    u = [1.0]
    for order, table in tables.factors.items():
        for f in range(table.shape[1]):
            size = len(others) if order == PRODUCT else order - 1
            own = sum(prod(table[r, f] for r in subset) for subset in combinations(others, size))
            u.append(own if tables.loadings is None else tables.loadings[order][f] * own)
    return np.array(u)


def loss_of_row(loss, y, eta):
    """Value, slopes and curvatures by each linear predictor, up to terms without eta."""
    if loss == "multinomial":
        total = sum(exp(one) for one in eta)
        p = [exp(one) / total for one in eta]
        own = [float(y == k) for k in range(len(eta))]
        slopes = [a - b for a, b in zip(p, own, strict=True)]
        return log(total) - eta[int(y)], slopes, [one * (1.0 - one) for one in p]
    (x,) = eta
    value, slope, curvature = {
        "gaussian": lambda: ((y - x) ** 2 / 2.0, x - y, 1.0),
        "bernoulli": lambda: (
            log1p(exp(-abs(x))) + max(x, 0.0) - y * x,
            1.0 / (1.0 + exp(-x)) - y,
            1.0 / (2.0 + exp(x) + exp(-x)),
        ),
        "poisson": lambda: (exp(x) - y * x, exp(x) - y, exp(x)),
        "gamma": lambda: (y * exp(-x) + x, 1.0 - y * exp(-x), y * exp(-x)),
    }[loss]()
    return value, [slope], [curvature]


def losses(loss, y, eta):
    """Values (n,), slopes and curvatures (n, K) at linear predictors (n, K)."""
    found = [loss_of_row(loss, *row) for row in zip(y, eta, strict=True)]
    return tuple(np.array([row[part] for row in found]) for part in range(3))


def product_moment(a, b, means, squares):
    """E[e_a e_b] over independent columns, subset by subset."""
    total = np.zeros_like(means[0])
    columns = range(len(means))
    for A in combinations(columns, a):
        for B in combinations(columns, b):
            term = np.ones_like(total)
            for j in {*A, *B}:
                term *= squares[j] if j in A and j in B else means[j]
            total += term
    return total


class RowMoments:
    """Moments of e_{d-1} and e_d of every function of the rows, (n, width), over some columns' moments at the codes."""

    def __init__(self, codes, moments, ranks):
        rows = [codes.columns[part.column] for part in moments]
        means = [part.mean[at] for part, at in zip(moments, rows, strict=True)]
        variances = [part.variance[at] for part, at in zip(moments, rows, strict=True)]
        orders = np.repeat([1, *ranks], [1, *ranks.values()])
        found = {}
        for order in set(orders):
            own = orders == order
            m = [mean[:, own] for mean in means]
            q = [mean[:, own] ** 2 + variance[:, own] for mean, variance in zip(means, variances, strict=True)]
            found[order] = [
                product_moment(a, b, m, q)
                for a, b in ((order - 1, 0), (order - 1, order - 1), (order, 0), (order, order - 1), (order, order))
            ]
        parts = [np.hstack([found[order][k] for order in (1, *ranks)]) for k in range(5)]
        self.g, square, self.rest, across, rest_square = parts
        self.spread = square - self.g**2
        self.covariance = across - self.rest * self.g
        self.variance = rest_square - self.rest**2


def block_sums(codes, moments, ranks, weight, target, column):
    """Gram matrix and right-hand side of a column, per code, at working weights and weighted responses (n,)."""
    rows = RowMoments(codes, [part for part in moments if part.column != column], ranks)
    size, width = codes.sizes[column], rows.g.shape[1]
    gram, rhs = np.zeros((size, width, width)), np.zeros((size, width))
    for i, code in enumerate(codes.columns[column]):
        gram[code] += weight[i] * (np.outer(rows.g[i], rows.g[i]) + np.diag(rows.spread[i]))
        residual = target[i] - weight[i] * rows.rest[i].sum()
        rhs[code] += rows.g[i] * residual - weight[i] * rows.covariance[i]
    return gram, rhs
