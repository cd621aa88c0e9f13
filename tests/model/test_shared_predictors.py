"""Linear predictors that share their factors: the same as each of them alone, with one array of factors for all."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from ahofm import AHOFMClassifier
from ahofm.columns import Codes
from ahofm.families import Multinomial, Units
from ahofm.kernels.reference import symmetric_polynomial
from ahofm.model import Lower, Model, Predictor, load, rounding
from ahofm.model.functions_view import FunctionsView
from ahofm.model.lines import with_lines
from ahofm.model.mixture import MixturePart, mixture
from ahofm.model.rounding import rounded
from ahofm.model.shared_predictors import SharedPredictors, together
from ahofm.orders import PRODUCT, Orders
from tests import brute_force
from tests.explain.models import random_model

RANKS = [{}, {2: 3}, {2: 2, 3: 1}, {2: 1, 3: 2, 4: 2}, {PRODUCT: 2}, {2: 2, PRODUCT: 3}]
every_rank = pytest.mark.parametrize("ranks", RANKS, ids=str)
N_COLUMNS, N_CLASSES = 5, 3
BOOKS = random_model(0, {}, N_COLUMNS).encoder.codebooks


def sharing(ranks, seed=0):
    """Linear predictors with the same random factors, and main effects and loadings of their own."""
    rng = np.random.default_rng(seed)
    width = N_CLASSES + sum(ranks.values())
    ends = next({j: 0.5} for j, book in enumerate(BOOKS) if book.clamped_range is not None)
    return SharedPredictors(
        rng.normal(size=N_CLASSES),
        tuple(rng.normal(size=(book.size, width)) for book in BOOKS),
        tuple(rng.normal(size=width) for _ in BOOKS),
        {order: rng.normal(size=(rank, N_CLASSES)) for order, rank in ranks.items()},
        ({}, ends, {}),
        rng.normal(size=(N_COLUMNS, ranks[PRODUCT])) if PRODUCT in ranks else None,
    )


@every_rank
def test_whole_products_have_their_constants_and_main_effects_apart(ranks):
    shared = sharing(ranks)
    means = shared.product_means
    for mine, one in zip(shared.from_whole_products().separate(), shared.separate(), strict=True):
        values = [one.at_codes(j, book)[:-1] for j, book in enumerate(BOOKS)]  # less the neutral code
        codes = [np.random.default_rng(j).integers(0, len(own), 20) for j, own in enumerate(values)]
        rows = [own[at] for own, at in zip(values, codes, strict=True)]
        expected = one.intercept + sum(row[:, 0] for row in rows)
        for order, loading in one.loadings.items():
            columns = [row[:, 1:][:, shared.orders.factor_slices[order]] for row in rows]
            if order == PRODUCT:
                expected = expected + np.prod(np.stack(columns) + means[:, np.newaxis], axis=0) @ loading
            else:
                expected = expected + symmetric_polynomial(np.stack(columns), order) @ loading
        given = Codes(tuple(c.astype(np.uint8) for c in codes), tuple(book.n_codes for book in BOOKS))
        np.testing.assert_allclose(brute_force.eta(given, [mine.tables(BOOKS)])[:, 0], expected, atol=1e-9)


def apart(predictors):
    """The same linear predictors with arrays of their own."""
    return tuple(replace(one, coef=tuple(one.coef), centring=tuple(one.centring)) for one in predictors)


def assert_same(shared, expected):
    """Linear predictors that share arrays, and are those."""
    again = SharedPredictors.of(shared)
    assert again is not None
    assert again.coef is shared[0].coef.arrays
    for mine, theirs in zip(shared, expected, strict=True):
        assert list(mine.orders.items()) == list(theirs.orders.items())
        assert mine.intercept == pytest.approx(theirs.intercept, rel=1e-13)
        assert dict(mine.end_slopes) == pytest.approx(dict(theirs.end_slopes))
        for order, loading in theirs.loadings.items():
            np.testing.assert_allclose(mine.loadings[order], loading, rtol=1e-14)
        for ours, others in ((mine.coef, theirs.coef), (mine.centring, theirs.centring)):
            for j, array in enumerate(others):
                np.testing.assert_allclose(ours[j], array, rtol=0, atol=1e-13 * max(1.0, np.abs(array).max(initial=0)))
        assert (mine.product_means is None) == (theirs.product_means is None)
        if theirs.product_means is not None:
            np.testing.assert_array_equal(mine.product_means, theirs.product_means)


def etas(predictors, books=BOOKS):
    """At some known values: centring main effects changes nothing there."""
    rng = np.random.default_rng(1)
    codes = tuple(rng.integers(0, max(book.n_codes - 1, 1), 30).astype(np.uint8) for book in books)
    return brute_force.eta(
        Codes(codes, tuple(book.n_codes for book in books)), [one.tables(books) for one in predictors]
    )


def kept_of(ranks, seed):
    """Some of the factors; all of the highest order go."""
    rng = np.random.default_rng(seed)
    kept = {order: rng.random(rank) < 0.6 for order, rank in ranks.items()}
    return kept | {order: np.zeros(ranks[order], bool) for order in [max(ranks, default=0)] if len(ranks) > 1}


@every_rank
def test_functions_are_put_together_when_asked_for(ranks):
    shared = sharing(ranks)
    predictors = shared.separate()
    for k, one in enumerate(predictors):
        one.check(BOOKS)
        assert isinstance(one.coef, FunctionsView)
        assert one.coef.arrays is shared.coef
        assert len(one.coef) == len(one.coef[1:]) + 1 == N_COLUMNS
        for j, array in enumerate(one.coef):
            assert array.shape == one.coef.shape(j) == (BOOKS[j].size, Orders(ranks).width)
            np.testing.assert_array_equal(array[:, 0], shared.coef[j][:, k])
            np.testing.assert_array_equal(array[:, 1:], shared.coef[j][:, N_CLASSES:])
    assert_same(predictors, apart(predictors))


def test_linear_predictors_that_differ_in_a_factor_share_nothing():
    predictors = sharing({2: 3}).separate()
    assert SharedPredictors.of(apart(predictors)) is None
    assert SharedPredictors.of(predictors[:2]) is None, "arrays hold main effects of a third one"
    assert SharedPredictors.of(predictors[::-1]) is None
    assert SharedPredictors.of([*predictors[:2], predictors[2].scaled(0.0, 2.0)]) is None
    assert SharedPredictors.of([*predictors[:2], sharing({2: 3}).separate()[2]]) is None
    assert len(together(predictors)) == 1
    assert list(together(apart(predictors)[:1])) != []


def test_copies_and_pickles_hold_factors_once():
    predictors = sharing({2: 200}).separate()
    again = pickle.loads(pickle.dumps(predictors))
    assert_same(again, apart(predictors))
    assert len(pickle.dumps(predictors)) < 0.5 * len(pickle.dumps(apart(predictors)))


@every_rank
def test_operations_are_those_of_each_alone(ranks):
    shared = sharing(ranks)
    alone, kept = apart(shared.separate()), kept_of(ranks, 0)
    assert_same(shared.keeping(kept).separate(), [one.keeping(kept) for one in alone])
    assert_same(shared.centred(BOOKS).separate(), [one.centred(BOOKS) for one in alone])
    assert_same(shared.scaled(0.3, 1.0).separate(), [one.scaled(0.3, 1.0) for one in alone])
    shifts, factors = [0.1, 0.2, 0.3], [1.0, -2.0, 3.0]
    expected = [one.scaled(shift, factor) for one, shift, factor in zip(alone, shifts, factors, strict=True)]
    assert_same(shared.scaled(shifts, factors).separate(), expected)
    columns, sizes = [1, 2, 4, 5, 6], [3, *(BOOKS[j].size for j in (0, 1)), 2, *(BOOKS[j].size for j in (2, 3, 4))]
    assert_same(shared.among(columns, sizes).separate(), [one.among(columns, sizes) for one in alone])


@pytest.mark.parametrize("second", RANKS, ids=str)
@every_rank
def test_mixtures_are_sums_of_separate_ones(ranks, second):
    both = [sharing(ranks), sharing(second, seed=1)]
    parts = [
        MixturePart(weight, shared.separate(), kept_of(own, seed))
        for seed, (weight, shared, own) in enumerate(zip((0.3, 0.5), both, (ranks, second), strict=True))
    ]
    units = Units(0.0, 1.0, (0.1, 0.0, -0.1), (1.0, 2.0, 0.5))
    table, columns = BOOKS, list(range(N_COLUMNS))
    found = mixture(parts, table, columns, [1.0, 2.0, 3.0], units)
    separate = [replace(part, linear_predictors=apart(part.linear_predictors)) for part in parts]
    assert_same(found, mixture(separate, table, columns, [1.0, 2.0, 3.0], units))
    total = 0.2 * np.array([1.0, 2.0, 3.0]) + sum(
        part.weight * etas([one.keeping(part.kept) for one in part.linear_predictors]) for part in separate
    )
    np.testing.assert_allclose(etas(found), np.array(units.shift) + np.array(units.factor) * total, atol=1e-9)


def models(ranks, seed=0, *, line=False):
    """A model of several classes whose linear predictors share their factors, and one in which they do not."""
    model = replace(random_model(seed, ranks, N_COLUMNS, family=Multinomial(N_CLASSES)), classes=("a", "b", "c"))
    rng, books = np.random.default_rng(seed), model.encoder.codebooks
    main = [rng.normal(size=(book.size, N_CLASSES)) for book in books]
    first: Predictor = model.linear_predictors[0]
    shared = SharedPredictors(
        rng.normal(size=N_CLASSES),
        tuple(np.hstack([own, coef[:, 1:]]) for own, coef in zip(main, first.coef, strict=True)),
        tuple(np.concatenate([np.zeros(N_CLASSES), shift[1:]]) for shift in first.centring),
        {d: np.column_stack([own.loadings[d] for own in model.linear_predictors]) for d in ranks},
        ({},) * N_CLASSES,
        first.product_means,
    )
    if line:
        shared = shared.centred(books)
    predictors = shared.separate()
    lower = (Lower(1, shared.keeping({d: np.zeros(rank, bool) for d, rank in ranks.items()}).separate()),)
    alone = (Lower(1, apart(lower[0].linear_predictors)),)
    return replace(model, linear_predictors=predictors, lower=lower), replace(
        model, linear_predictors=apart(predictors), lower=alone
    )


@every_rank
def test_models_are_the_same_whether_they_share_or_not(ranks, tmp_path, monkeypatch):
    monkeypatch.setattr(rounding, "EXACT_COEFFICIENTS", 0)
    shared, alone = models(ranks)
    for change in (lambda model: model, rounded, with_lines, lambda model: with_lines(rounded(model))):
        mine, theirs = change(shared), change(alone)
        assert_same(mine.linear_predictors, theirs.linear_predictors)
        assert_same(mine.lower[0].linear_predictors, theirs.lower[0].linear_predictors)
        assert mine.negligible() == theirs.negligible()
        assert mine.choices == theirs.choices
        for ours, others in zip(mine.tables(), theirs.tables(), strict=True):
            np.testing.assert_allclose(ours.main, others.main, atol=1e-12)
            assert ours.intercept == pytest.approx(others.intercept)
            for order, table in others.factors.items():
                np.testing.assert_array_equal(ours.factors[order], table)
    shared.save(tmp_path / "shared.ahofm")
    alone.save(tmp_path / "alone.ahofm")
    assert (tmp_path / "shared.ahofm").read_bytes() == (tmp_path / "alone.ahofm").read_bytes()
    back = load(tmp_path / "shared.ahofm")
    assert_same(back.linear_predictors, alone.linear_predictors)
    assert_same(back.lower[0].linear_predictors, alone.lower[0].linear_predictors)
    back.save(tmp_path / "again.ahofm")
    assert (tmp_path / "again.ahofm").read_bytes() == (tmp_path / "alone.ahofm").read_bytes()
    for ours, others in zip(back.tables(), alone.tables(), strict=True):
        assert ours.main.tobytes() == others.main.tobytes()
    np.testing.assert_array_equal(etas(back.linear_predictors), etas(alone.linear_predictors))


def test_tables_of_factors_are_the_same_arrays_for_all():
    first, *others = models({2: 3, 3: 2})[0].tables()
    assert all(other.factors[order] is table for other in others for order, table in first.factors.items())


@every_rank
def test_curves_are_those_of_each_alone(ranks):
    shared = sharing(ranks)
    for mine, one in zip(shared.curves(BOOKS), shared.separate(), strict=True):
        expected = one.curves(BOOKS)
        assert mine.intercept == expected.intercept
        assert all(np.array_equal(mine.loadings[d], expected.loadings[d]) for d in expected.orders)
        for j, (own, other) in enumerate(zip(mine.columns, expected.columns, strict=True)):
            values = BOOKS[j].support.values
            at = BOOKS[j].places(np.append(values, values[:1])) if len(values) else np.zeros(1, dtype=np.intp)
            np.testing.assert_array_equal(own.evaluate(at), other.evaluate(at))


def test_a_lower_order_that_is_the_model_itself_is_changed_once():
    model: Model = models({2: 3})[0]
    model = replace(model, lower=(*model.lower, Lower(2, model.linear_predictors)))
    calls = []

    def change(predictors):
        calls.append(predictors)
        return tuple(one.scaled(1.0, 1.0) for one in predictors)

    changed = model.with_each(change)
    assert len(calls) == 2
    assert changed.lower[1].linear_predictors is changed.linear_predictors
    assert changed.lower[0].order == 1


def test_factors_of_a_model_and_its_lower_orders_are_rounded_alike(monkeypatch):
    """To the digits that the class and the order need for which they matter most; the same tuples stay the same."""
    monkeypatch.setattr(rounding, "EXACT_COEFFICIENTS", 0)
    model: Model = models({2: 3, 3: 2})[0]
    shared = SharedPredictors.of(model.linear_predictors)
    of_classes = np.array([1e-3, 1.0, 1e-2])
    weak = replace(shared, loadings={d: 1e-2 * of_classes * loading for d, loading in shared.loadings.items()})
    both = (Lower(2, weak.separate()), Lower(3, model.linear_predictors))
    found = rounded(replace(model, lower=both))
    assert found.lower[1].linear_predictors is found.linear_predictors
    first, second = (SharedPredictors.of(own) for own in (found.linear_predictors, found.lower[0].linear_predictors))
    for mine, theirs in zip(first.coef, second.coef, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    alone = replace(
        model, linear_predictors=apart(model.linear_predictors), lower=(Lower(2, apart(both[0].linear_predictors)),)
    )
    for mine, theirs in zip(found.linear_predictors, rounded(alone).linear_predictors, strict=True):
        for ours, others in zip(mine.coef, theirs.coef, strict=True):
            np.testing.assert_array_equal(ours, others)
    only_weak = rounded(replace(model, linear_predictors=weak.separate(), lower=())).linear_predictors
    assert any(
        (ours != others).any() for ours, others in zip(only_weak[0].coef, second.separate()[0].coef, strict=True)
    )


def test_models_of_classes_share_their_factors_when_they_are_read(tmp_path):
    """And predict the same to the last bit; what they have is saved as it was."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.argmax(np.column_stack([X[:, 0] * X[:, 1], X[:, 2], X[:, 3]]) + 0.3 * rng.normal(size=(300, 3)), axis=1)
    model = AHOFMClassifier(order=2, effort="fast", random_state=0).fit(X, y)
    model.save(tmp_path / "model", uncertainty=False)
    back = load(tmp_path / "model")
    for fit, fitted in ((back, model.model_), (back.lower[0], model.model_.lower[0])):
        shared, expected = (SharedPredictors.of(one.linear_predictors) for one in (fit, fitted))
        for mine, theirs in zip((*shared.coef, *shared.centring), (*expected.coef, *expected.centring), strict=True):
            assert mine.tobytes() == theirs.tobytes()
    assert back.eta(X).tobytes() == model.model_.eta(X).tobytes()
    assert back.negligible() == model.model_.negligible()
    back.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
