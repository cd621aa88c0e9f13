"""Operations on a linear predictor, against what they say about eta at codes and at true values."""

import pickle
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from ahofm.columns import Codes
from ahofm.kernels import Chunk, ReferenceCurves, ReferenceKernel
from ahofm.model import Layout, Predictor
from ahofm.model.truncation import truncated
from ahofm.orders import PRODUCT
from tests import brute_force
from tests.explain.models import random_model

RANKS = [{}, {2: 3}, {3: 2}, {2: 2, 3: 1}, {4: 2, 2: 1}, {2: 1, 3: 1, 4: 1, 5: 1}, {PRODUCT: 2}, {2: 2, PRODUCT: 3}]
every_rank = pytest.mark.parametrize("ranks", RANKS, ids=str)
N_COLUMNS = 5


def problem(ranks, seed=0, scale=1.0, **options):
    """A linear predictor with loadings of any sign, the columns it is of, and rows: unseen and missing values too."""
    model = random_model(seed, ranks, N_COLUMNS, **options)
    books, rng = model.encoder.codebooks, np.random.default_rng(seed)
    predictor = model.linear_predictors[0]
    if scale != 1.0:
        predictor = replace(predictor, coef=tuple(scale * own for own in predictor.coef))
    codes = tuple(rng.integers(0, book.n_codes, 30).astype(np.uint8) for book in books)
    return predictor, books, Codes(codes, tuple(book.n_codes for book in books))


def eta(predictor, books, codes):
    """Subset by subset, at the codes; the reference kernel agrees."""
    tables = predictor.tables(books)
    found = brute_force.eta(codes, [tables])[:, 0]
    np.testing.assert_allclose(ReferenceKernel().eta(Chunk(codes), [tables])[:, 0], found, rtol=1e-9, atol=1e-9)
    return found


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-11 * max(1.0, np.abs(expected).max()))


@every_rank
@pytest.mark.parametrize("factor", [1.0, -2.5, 1e3, 0.0])
def test_scaling(ranks, factor):
    predictor, books, codes = problem(ranks, scale=10.0)
    scaled = predictor.scaled(0.7, factor)
    assert_close(eta(scaled, books, codes), 0.7 + factor * eta(predictor, books, codes))
    for mine, theirs in zip(scaled.coef, predictor.coef, strict=True):  # curves of factors are shared
        np.testing.assert_array_equal(mine[:, 1:], theirs[:, 1:])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {2: 2}),
        ({2: 3}, {2: 1, 3: 2}),
        ({4: 1, 2: 2}, {3: 1}),
        ({}, {}),
        ({2: 1}, {PRODUCT: 2}),
        ({PRODUCT: 1}, {3: 1, PRODUCT: 2}),
    ],
)
def test_sums(first, second):
    a, books, codes = problem(first)
    model = random_model(0, second, N_COLUMNS)
    b = replace(model.linear_predictors[0], intercept=3.0).scaled(0.0, -1.5)
    expected = eta(a, books, codes) - 0.4 * eta(b, books, codes)
    both = a.plus(b, -0.4)
    assert_close(eta(both, books, codes), expected)
    assert list(both.orders) == sorted({*first, *second})
    assert both.orders == {d: first.get(d, 0) + second.get(d, 0) for d in both.orders}
    three = Predictor.weighted_sum([(0.2, a), (-0.4, b), (0.8, a)])
    assert_close(eta(three, books, codes), expected)


@every_rank
def test_restricting(ranks):
    predictor, books, codes = problem(ranks)
    tables = predictor.tables(books)
    for kept in ([], [2], [2, 3], list(ranks)):
        if PRODUCT in ranks and PRODUCT not in kept:
            continue  # main effects then keep what products say of single columns: see below
        part = predictor.at_orders(kept)
        assert part.orders == {d: rank for d, rank in ranks.items() if d in kept}
        own = {d: tables.factors[d] for d in part.orders}
        whole = replace(tables, factors=own, loadings={d: tables.loadings[d] for d in own})
        assert_close(eta(part, books, codes), brute_force.eta(codes, [whole])[:, 0])
    gone = [j in (1, 3) for j in range(N_COLUMNS)]
    without = predictor.without(gone, main_effects=False)
    neutral = tuple(
        np.full_like(own, book.neutral_code) if zero else own
        for own, book, zero in zip(codes.columns, books, gone, strict=True)
    )
    mains = replace(predictor, loadings=predictor.loadings).at_orders([]).tables(books).main
    factors_only = replace(tables, main=tables.main - mains)
    expected = brute_force.eta(Codes(neutral, codes.sizes), [factors_only])[:, 0]
    assert_close(eta(without, books, codes), expected)


@every_rank
def test_other_forms_are_the_same_linear_predictor(ranks):
    predictor, books, codes = problem(ranks)
    expected = eta(predictor, books, codes)
    balanced = predictor.balanced()
    assert all(set(np.abs(own)) <= {1.0} for d, own in balanced.loadings.items() if d != PRODUCT)
    assert_close(eta(balanced, books, codes), expected)
    centred = predictor.centred(books)
    assert_close(eta(centred, books, codes)[known(books, codes)], expected[known(books, codes)])
    for j, book in enumerate(books):
        assert abs(book.distribution @ centred.at_codes(j, book)[:, 0]) < 1e-10
    plain = predictor.unloaded()
    signs = [np.sign(own) for d, own in predictor.loadings.items() if d % 2 == 0 and d != PRODUCT]
    assert (plain is None) == (PRODUCT in ranks or any((own < 0.0).any() for own in signs))
    if plain is not None:
        assert all((own == 1.0).all() for own in plain.loadings.values())
        assert_close(eta(plain, books, codes), expected)
    if PRODUCT in ranks:
        return
    positive = replace(predictor, loadings={d: np.abs(own) for d, own in predictor.loadings.items()})
    assert_close(eta(positive.unloaded(), books, codes), eta(positive, books, codes))


def known(books, codes):
    """Rows without a neutral code: centring moves what unseen levels have."""
    return np.all([own < book.neutral_code for own, book in zip(codes.columns, books, strict=True)], axis=0)


@every_rank
def test_pure_terms_are_the_same_linear_predictor(ranks):
    """At unseen levels too; all functions have mean zero; and what can be done to it can be done to pure terms."""
    predictor, books, codes = problem(ranks)
    expected = eta(predictor, books, codes)
    pure = predictor.pure(books)
    assert_close(eta(pure, books, codes), expected)
    for j, book in enumerate(books):
        np.testing.assert_allclose(book.distribution @ pure.at_codes(j, book), 0.0, atol=1e-10)
    assert pure.pure(books) is pure
    assert_close(eta(pure.balanced(), books, codes), expected)
    assert_close(eta(pure.centred(books), books, codes), expected)
    assert_close(eta(pure.scaled(1.0, -2.0), books, codes), 1.0 - 2.0 * expected)
    assert_close(eta(pure.plus(predictor, 2.0), books, codes), 3.0 * expected)
    assert_close(eta(predictor.plus(pure), books, codes), 2.0 * expected)
    gone = [True] + [False] * (N_COLUMNS - 1)
    assert eta(pure.without(gone), books, codes).shape == expected.shape


@every_rank
def test_tables_and_curves_agree(ranks):
    predictor, books, codes = problem(ranks)
    for own in (predictor, predictor.pure(books)):
        columns, rows = [], []
        for book, column in zip(books, codes.columns, strict=True):
            levels = book.support.values
            rows.append(np.minimum(column, book.support.size - 1))
            columns.append(book.places(levels[rows[-1]]))
        found = ReferenceCurves((own.curves(books),)).eta(columns)[:, 0]
        assert_close(found, eta(own, books, Codes(tuple(rows), codes.sizes)))


def test_a_predictor_of_some_columns_is_one_of_all():
    predictor, books, codes = problem({2: 2, 3: 1, PRODUCT: 2})
    places = [3, 0, 4]
    predictor.product_means[[1, 2]] = 1.0
    some = Predictor(
        predictor.intercept,
        tuple(predictor.coef[j] for j in places),
        tuple(predictor.centring[j] for j in places),
        predictor.loadings,
        product_means=predictor.product_means[places],
    )
    whole = some.among(places, [book.size for book in books])
    whole.check(books)
    assert_close(eta(whole, books, codes), eta(predictor.without([j not in places for j in range(5)]), books, codes))


@pytest.mark.parametrize("center", [True, False])
def test_coordinates_come_back(center):
    _, books, _ = problem({2: 2, 3: 1})
    layout = Layout.of(books, {2: 2, 3: 1}, center=center)
    theta = np.random.default_rng(0).normal(size=layout.size)
    np.testing.assert_allclose(layout.theta(layout.linear_predictor(theta)), theta, atol=1e-8)
    turned = layout.linear_predictor(theta).scaled(0.5, 4.0).scaled(-0.5 / 4.0, 0.25)
    np.testing.assert_allclose(layout.theta(turned), theta, atol=1e-8)
    assert layout.theta(layout.linear_predictor(theta).scaled(0.0, -1.0)) is None, "pairs with negative loadings"


@pytest.mark.parametrize("ranks", [{PRODUCT: 2}, {2: 1, 3: 2, PRODUCT: 2}], ids=str)
@pytest.mark.parametrize("centred", [True, False])
def test_product_factors_are_all_terms_of_two_and_more_columns(ranks, centred):
    """Of subsets of the columns, one by one; without them main effects stay, and truncation leaves the lower orders."""
    predictor, books, codes = problem(ranks, centred=centred)
    part, loadings = predictor.orders.slices[PRODUCT], predictor.loadings[PRODUCT]
    phi = np.stack([predictor.at_codes(j, book)[codes.columns[j]][:, part] for j, book in enumerate(books)])
    by_order = np.zeros((N_COLUMNS + 1, len(codes.columns[0])))
    for size in range(N_COLUMNS + 1):
        for subset in combinations(range(N_COLUMNS), size):
            inside = [phi[j] if j in subset else predictor.product_means[j] for j in range(N_COLUMNS)]
            by_order[size] += np.prod(np.broadcast_arrays(*inside), axis=0) @ loadings
    lower = predictor.at_orders([d for d in ranks if d != PRODUCT])
    assert_close(eta(predictor, books, codes), eta(lower, books, codes) + by_order[2:].sum(axis=0))
    for highest in range(1, N_COLUMNS + 1):
        cut = truncated(predictor, highest)
        expected = eta(predictor.at_orders([d for d in ranks if d <= highest]), books, codes)
        assert_close(eta(cut, books, codes), expected + by_order[2 : highest + 1].sum(axis=0))
    whole = Predictor.of_products(
        {PRODUCT: ranks[PRODUCT]},
        0.3,
        [own[:, [0, *range(part.start, part.stop)]] for own in predictor.coef],
        [own[[0, *range(part.start, part.stop)]] for own in predictor.centring],
        loadings,
        predictor.product_means,
    )
    main = sum(predictor.at_codes(j, book)[codes.columns[j], 0] for j, book in enumerate(books))
    assert_close(eta(whole, books, codes), 0.3 + main + by_order.sum(axis=0))


def test_predictors_are_pickled_and_checked():
    predictor, books, _ = problem({2: 2})
    assert predictor.orders == {2: 2}
    assert pickle.loads(pickle.dumps(predictor)).orders == {2: 2}
    predictor.check(books)
    for wrong in (
        replace(predictor, loadings={2: np.ones(3)}),
        replace(predictor, coef=predictor.coef[1:]),
        replace(predictor, neutral=(np.zeros(2),) * 5),
        replace(predictor, centring=tuple(own[1:] for own in predictor.centring)),
    ):
        with pytest.raises(ValueError, match="coefficients"):
            wrong.check(books)


def test_linear_predictors_may_share_curves_and_differ_in_loadings():
    """What classes with common curves need: other loadings are another linear predictor of the same functions."""
    predictor, books, codes = problem({2: 2, 3: 2})
    own = predictor.tables(books)
    for k in range(3):
        loadings = {d: np.random.default_rng(k).normal(size=2) for d in (2, 3)}
        other = replace(predictor, loadings=loadings)
        assert other.coef is predictor.coef
        assert_close(eta(other, books, codes), brute_force.eta(codes, [replace(own, loadings=loadings)])[:, 0])
