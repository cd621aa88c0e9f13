"""Variances of a linear predictor's parts against explicit sums over all combinations of codes."""

from itertools import product

import numpy as np
import pytest

from ahofm.columns import Categorical, Encoder
from ahofm.kernels import Tables
from ahofm.model.shares import all_variances, variances
from ahofm.orders import PRODUCT
from tests import brute_force
from tests.problems import random_loadings

LEVELS = (3, 2, 4)


def books_of(levels=LEVELS, missing=False):
    """Columns whose codes weigh differently."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.concatenate([np.arange(k), rng.integers(0, k, 60 - k)]).astype(float) for k in levels])
    if missing:
        X[::6, 0] = np.nan
    weight = rng.uniform(0.1, 3.0, len(X))
    return Encoder.learn(X, Categorical(), sample_weight=weight).codebooks


def random_tables(books, ranks, *, center, seed=0):
    """Values at every code, the neutral one included: it weighs nothing."""
    rng = np.random.default_rng(seed)
    sizes = [book.n_codes for book in books]
    factors = {order: [rng.normal(size=(size, rank)) for size in sizes] for order, rank in ranks.items()}
    if center:
        for parts in factors.values():
            for book, part in zip(books, parts, strict=True):
                part[:] -= book.mass @ part / book.mass.sum()
    main = rng.normal(size=sum(sizes))
    stacked = {order: np.vstack(parts) for order, parts in factors.items()}
    return Tables(float(rng.normal()), main, stacked, random_loadings(rng, ranks))


class Distribution:
    """All combinations of codes, and how likely each is when columns are independent."""

    def __init__(self, books):
        starts = np.cumsum([0, *(book.n_codes for book in books)])
        self.codes = list(product(*(range(book.n_codes) for book in books)))
        self.rows = [[start + code for start, code in zip(starts, codes, strict=False)] for codes in self.codes]
        shares = [book.mass / book.mass.sum() for book in books]
        self.weight = np.array(
            [np.prod([share[code] for share, code in zip(shares, codes, strict=True)]) for codes in self.codes]
        )

    def eta(self, tables):
        return np.array([brute_force.eta_of_row(rows, tables) for rows in self.rows])

    def variance(self, values):
        return self.weight @ (values - self.weight @ values) ** 2

    def variance_by_column(self, values, column):
        """E[Var(values | all other columns)]."""
        others = [codes[:column] + codes[column + 1 :] for codes in self.codes]
        _, at = np.unique(others, axis=0, return_inverse=True)
        total = np.bincount(at, self.weight)
        mean = np.bincount(at, self.weight * values) / np.maximum(total, 1e-300)
        return self.weight @ (values - mean[at]) ** 2


def part_of(tables, order):
    if order == 1:
        return Tables(0.0, tables.main, {})
    loadings = {order: tables.loadings[order]}
    return Tables(0.0, np.zeros_like(tables.main), {order: tables.factors[order]}, loadings)


every_rank = pytest.mark.parametrize("ranks", [{}, {2: 1}, {2: 3}, {3: 2}, {2: 2, 3: 3}], ids=str)
either = pytest.mark.parametrize("center", [True, False], ids=["centred", "free"])
missing = pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])


@every_rank
@either
@missing
def test_variance_of_each_order(ranks, center, missing):
    books = books_of(missing=missing)
    tables = random_tables(books, ranks, center=center)
    everything = Distribution(books)
    found = variances(tables, books).orders
    assert list(found) == [1, *ranks]
    for order, variance in found.items():
        assert variance == pytest.approx(everything.variance(everything.eta(part_of(tables, order))), rel=1e-10)


@every_rank
@missing
def test_variance_of_everything_that_involves_a_column(ranks, missing):
    books = books_of(missing=missing)
    tables = random_tables(books, ranks, center=True)
    everything = Distribution(books)
    eta = everything.eta(tables)
    expected = [everything.variance_by_column(eta, j) for j in range(len(books))]
    np.testing.assert_allclose(variances(tables, books).columns, expected, rtol=1e-10)


@every_rank
def test_total_is_the_variance_of_the_predictor(ranks):
    books = books_of()
    tables = random_tables(books, ranks, center=True)
    everything = Distribution(books)
    assert variances(tables, books).total == pytest.approx(everything.variance(everything.eta(tables)), rel=1e-10)


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("center", [True, False])
def test_product_factors_count_with_their_interactions(count, center):
    """Main effects have what products say of one column; all together is the variance of the linear predictor."""
    books = books_of((2, 3, 2, 3)[:count])
    tables = random_tables(books, {PRODUCT: 3}, center=center)
    everything = Distribution(books)
    eta, found = everything.eta(tables), variances(tables, books)
    assert found.total == pytest.approx(everything.variance(eta), rel=1e-10)
    expected = [everything.variance_by_column(eta, j) for j in range(count)]
    np.testing.assert_allclose(found.columns, expected, rtol=1e-10)


def test_four_columns():
    books = books_of((2, 3, 2, 3))
    tables = random_tables(books, {2: 2, 3: 2}, center=True)
    everything = Distribution(books)
    eta, found = everything.eta(tables), variances(tables, books)
    assert found.orders[3] == pytest.approx(everything.variance(everything.eta(part_of(tables, 3))), rel=1e-10)
    expected = [everything.variance_by_column(eta, j) for j in range(4)]
    np.testing.assert_allclose(found.columns, expected, rtol=1e-10)


def test_interactions_of_more_columns_than_there_are_have_none():
    books = books_of()
    tables = random_tables(books, {4: 2}, center=False)
    found = variances(tables, books)
    assert found.orders[4] == 0.0
    np.testing.assert_allclose(found.columns.sum(), found.orders[1], rtol=1e-10)


def test_a_column_without_functions_carries_nothing():
    books = books_of()
    tables = random_tables(books, {2: 2, 3: 1}, center=True)
    gone = slice(books[0].n_codes, books[0].n_codes + books[1].n_codes)
    tables.main[gone] = 0.0
    for table in tables.factors.values():
        table[gone] = 0.0
    found = variances(tables, books)
    assert found.columns[1] == 0.0
    assert found.orders[3] == 0.0
    assert (found.columns[[0, 2]] > 0.0).all()


def test_a_column_that_was_missing_everywhere_carries_nothing():
    X = np.column_stack([np.tile([0.0, 1.0], 10), np.full(20, np.nan)])
    with pytest.warns(UserWarning, match="constant"):
        books = Encoder.learn(X, {0: Categorical()}).codebooks
    main = np.concatenate([[-1.0, 1.0, 0.0], np.zeros(books[1].n_codes)])
    found = variances(Tables(0.0, main, {2: main[:, None]}), books)
    np.testing.assert_allclose(found.columns, [1.0, 0.0])
    assert found.orders == {1: 1.0, 2: 0.0}


def test_linear_predictors_that_share_factors_have_the_variances_of_each_alone():
    books, ranks = books_of(), {2: 3, 3: 2}
    first = random_tables(books, ranks, center=False)
    others = [random_tables(books, ranks, center=False, seed=seed) for seed in (1, 2)]
    all_of_them = [
        first,
        Tables(0.0, others[0].main, {**first.factors}, others[0].loadings),
        Tables(0.0, others[1].main, {2: first.factors[2].copy(), 3: others[1].factors[3]}, others[1].loadings),
        Tables(0.0, first.main, {}, {}),
    ]
    for together, tables in zip(all_variances(all_of_them, books), all_of_them, strict=True):
        alone = variances(tables, books)
        assert together.orders == alone.orders
        np.testing.assert_array_equal(together.columns, alone.columns)
