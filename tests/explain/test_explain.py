"""Every explanation against brute force over all subsets of columns, under the product of their distributions."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest

from ahofm.explain import (
    contributions,
    effect,
    factors,
    marginals,
    purify,
    shapley_values,
    top_interactions,
    variance_shares,
)
from ahofm.families import GaussianLocationScale
from ahofm.orders import PRODUCT
from tests.explain.models import BruteForce, random_model

RANKS = [{}, {2: 2}, {2: 1, 3: 2}, {3: 1}, {2: 3, 4: 2}, {2: 1, 3: 1, 4: 1}, {PRODUCT: 2}, {2: 2, 3: 1, PRODUCT: 3}]
every_model = pytest.mark.parametrize(
    ("ranks", "seed", "centred"), [(ranks, seed, c) for seed, ranks in enumerate(RANKS) for c in (False, True)]
)


def close(a, b):
    """Up to rounding of numbers of the second one's size."""
    return np.abs(np.asarray(a) - b).max() <= 1e-10 * (1.0 + np.abs(b).max())


@every_model
def test_contributions_are_the_terms_of_the_analysis_of_variance(ranks, seed, centred):
    model = random_model(seed, ranks, centred=centred)
    brute = BruteForce(model)
    found = contributions(model, brute.table)
    assert close(found.intercept, brute.probability @ brute.eta)
    assert close(found.intercept + found.values.sum(axis=1) + found.rest, brute.eta)
    names = model.encoder.names
    for term, values in zip(found.terms, found.values.T, strict=True):
        assert close(values, brute.term(tuple(map(names.index, term))))


@every_model
def test_unseen_values_add_up_too(ranks, seed, centred):
    model = random_model(seed, ranks, centred=centred)
    columns = {}
    for book in model.encoder.codebooks:
        text = book.support.values.dtype == object
        columns[book.name] = (
            np.array(["new", None, "level 0.3"], dtype=object) if text else np.array([9.0, np.nan, 0.1])
        )
    import pandas as pd  # noqa: PLC0415

    X = pd.DataFrame(columns)
    found = contributions(model, X)
    assert close(found.intercept + found.values.sum(axis=1), model.eta(X)[:, 0])
    shares = shapley_values(model, X)
    assert close(shares.base + shares.values.sum(axis=1), model.eta(X)[:, 0])


@every_model
def test_shapley_values_are_those_of_the_definition(ranks, seed, centred):
    model = random_model(seed, ranks, centred=centred)
    brute = BruteForce(model)
    found = shapley_values(model, brute.table)
    p = len(found.columns)
    for j in range(p):
        others = [i for i in range(p) if i != j]
        value = 0.0
        for size in range(p):
            for coalition in combinations(others, size):
                weight = factorial(size) * factorial(p - size - 1) / factorial(p)
                with_j = tuple(sorted((*coalition, j)))
                value = value + weight * (brute.means[with_j] - brute.means[coalition])
        assert close(found.values[:, j], value)
    assert close(found.base + found.values.sum(axis=1), brute.eta)


@pytest.mark.parametrize("order", [5, 6])
def test_shapley_values_of_high_orders(order):
    model = random_model(3, {order: 9}, n_columns=6, centred=True)
    brute = BruteForce(random_model(3, {order: 9}, n_columns=6, centred=True))
    rows = np.arange(0, len(brute.codes), 97)
    found = shapley_values(model, brute.table.take(rows))
    for j in range(6):
        sets = [s for s in combinations(range(6), order) if j in s]
        phi = purify(model, 0).values(brute.table.take(rows))
        loading = model.linear_predictors[0].loadings[order]
        value = phi[j, :, 0] + sum(np.prod(phi[list(s), :, 1:], axis=0) @ loading for s in sets) / order
        assert close(found.values[:, j], value)


@every_model
def test_variances_add_up_to_that_of_the_predictor(ranks, seed, centred):
    model = random_model(seed, ranks, centred=centred)
    brute = BruteForce(model)
    found = variance_shares(model)
    p = len(found.columns)
    assert close(found.total, brute.probability @ (brute.eta - brute.probability @ brute.eta) ** 2)
    assert sum(found.orders.values()) == pytest.approx(1.0)
    sets = [s for size in range(1, p + 1) for s in combinations(range(p), size)]
    own = {s: brute.variance(s) / found.total for s in sets}
    for order, share in found.orders.items():
        assert close(share, sum(own[s] for s in sets if len(s) == order))
    assert close(found.main, [own[(j,)] for j in range(p)])
    assert close(found.each, [sum(own[s] for s in sets if j in s) for j in range(p)])
    frame = found.to_frame()
    assert frame["total"].is_monotonic_decreasing
    assert close(frame["main"] + frame["interactions"], frame["total"].to_numpy())


@every_model
def test_effects_are_terms_on_a_grid(ranks, seed, centred):
    model = random_model(seed, ranks, centred=centred)
    brute = BruteForce(model)
    for columns in [s for size in range(1, model.order + 1) for s in combinations(range(4), size)]:
        grid = {j: model.encoder.codebooks[j].support.values for j in columns}
        found = effect(model, columns, grid)
        everything = effect(model, columns, grid, alone=False)
        for at in np.ndindex(found.value.shape):
            row = (brute.codes[:, list(columns)] == at).all(axis=1).argmax()
            assert close(found.value[at], brute.term(columns)[row])
            assert close(everything.value[at], brute.means[columns][row] - brute.probability @ brute.eta)
        assert found.low is None
        assert not found.outside.any()


def test_slices_hold_further_columns():
    model = random_model(5, {2: 2, 3: 2})
    whole = effect(model, ["c0", "c1", "c3"], {"c0": [0.0, 1.0], "c1": [0.3], "c3": [1.7]})
    part = effect(model, "c0", {"c0": [0.0, 1.0]}, at={"c1": 0.3, "c3": 1.7})
    assert part.columns == ("c0",)
    assert close(part.value, whole.value[:, 0, 0])


def test_beyond_the_numbers_of_training_is_marked():
    model = random_model(0, {2: 1})
    found = effect(model, "c0", {"c0": [-1.0, 0.5, 9.0]})
    assert found.outside.tolist() == [True, False, True]
    assert found.to_frame()["outside"].tolist() == [True, False, True]


@every_model
def test_marginals_average_over_the_other_columns(ranks, seed, centred):
    if not ranks:
        return
    model = random_model(seed, ranks, centred=centred)
    brute = BruteForce(model)
    for columns in combinations(range(4), min(3, model.order)):
        grid = {j: model.encoder.codebooks[j].support.values for j in columns}
        for alone in (True, False):
            found = marginals(model, columns, grid, alone=alone)
            function = brute.term(columns) if alone else brute.means[columns] - brute.probability @ brute.eta
            for j, mean, std in zip(columns, found.mean, found.std, strict=True):
                for code in range(len(mean)):
                    rows = brute.codes[:, j] == code
                    weight = brute.probability[rows] / brute.probability[rows].sum()
                    centre = weight @ function[rows]
                    assert close(mean[code], centre)
                    assert close(std[code], np.sqrt(weight @ (function[rows] - centre) ** 2))


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("order", [2, 3, None])
@pytest.mark.parametrize("k", [1, 7, 1000])
@pytest.mark.parametrize("ranks", [{2: 3, 3: 4}, {PRODUCT: 3}, {2: 2, 3: 1, PRODUCT: 2}], ids=str)
def test_the_search_finds_what_enumeration_finds(ranks, order, k, centred):
    model = random_model(11, ranks, n_columns=8 if PRODUCT in ranks else 12, centred=centred)
    found = top_interactions(model, k, order)
    pure = purify(model, 0)
    p = len(pure.books)
    sizes = pure.term_orders[1:] if order is None else (order,)
    values = {}
    for size in sizes:
        part = pure.orders.slices.get(size, slice(0, 0))
        every = pure.orders.slices.get(PRODUCT, slice(0, 0))
        which = [*range(part.start, part.stop), *range(every.start, every.stop)]
        w = np.concatenate([pure.loadings[d] for d in (size, PRODUCT) if d in pure.orders])
        for s in combinations(range(p), size):
            constants = np.ones((p, len(which)))
            if PRODUCT in ranks:
                constants[:, part.stop - part.start :] = pure.linear_predictor.product_means
            own = w * np.prod(constants[[j for j in range(p) if j not in s]], axis=0)
            values[s] = own @ np.prod(pure.moments[list(s)][:, which][:, :, which], axis=0) @ own
    best = sorted(values.items(), key=lambda item: -item[1])[:k]
    assert len(found.terms) == len(best)
    assert close(found.std**2, np.array([value for _, value in best]))
    names = model.encoder.names
    assert [tuple(map(names.index, term)) for term in found.terms] == [s for s, _ in best]


def test_the_search_is_short_when_few_interactions_matter(monkeypatch):
    """At 200 columns a look at all 1.3 million triples would pop 19,900 pairs."""
    import heapq  # noqa: PLC0415

    model = random_model(2, {3: 2}, n_columns=200, centred=True)
    count = []
    pop = heapq.heappop
    monkeypatch.setattr("heapq.heappop", lambda heap: count.append(1) or pop(heap))
    found = top_interactions(model, 5, 3)
    assert len(found.terms) == 5
    assert len(count) < 4000


@pytest.mark.parametrize("ranks", [{2: 3}, {3: 2}, {2: 2, 3: 2}])
def test_factors_make_the_interactions(ranks):
    model = random_model(4, ranks)
    pure = purify(model, 0)
    for order in ranks:
        grid = {j: model.encoder.codebooks[j].support.values for j in range(4)}
        found = factors(model, order, grid)
        for s in combinations(range(4), order):
            values = [found.curves[j][:3] for j in s]
            own = np.prod(values, axis=0) @ found.weights
            term = effect(model, s, grid)
            assert close(own, np.array([term.value[(at,) * order] for at in range(3)]))
        assert (np.diff(found.share) <= 1e-12).all()
        assert len(found.to_frame()) == sum(len(own) for own in found.grid) * pure.orders[order]


def test_factors_of_pairs_do_not_depend_on_a_rotation():
    from dataclasses import replace  # noqa: PLC0415

    model = random_model(6, {2: 3}, centred=True, loaded=False)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    terms = model.linear_predictors[0]
    coef = tuple(np.hstack([c[:, :1], c[:, 1:] @ turn]) for c in terms.coef)
    level = tuple(np.concatenate([v[:1], v[1:] @ turn]) for v in terms.centring)
    other = replace(model, linear_predictors=(replace(terms, coef=coef, centring=level),))
    for a, b in zip(factors(model).curves, factors(other).curves, strict=True):
        assert close(a, b)


def test_several_predictors():
    model = random_model(1, {2: 2}, family=GaussianLocationScale())
    brute = BruteForce(model, 1)
    found = contributions(model, brute.table, linear_predictor=1)
    assert close(found.intercept + found.values.sum(axis=1), brute.eta)
    with pytest.raises(ValueError, match="linear predictor must be between 0 and 1, got 2"):
        contributions(model, brute.table, linear_predictor=2)


def test_all_terms_above_an_order_are_the_rest():
    model = random_model(5, {2: 1, 3: 1, 4: 1})
    brute = BruteForce(model)
    found = contributions(model, brute.table, max_order=1)
    assert len(found.terms) == 4
    assert close(found.intercept + found.values.sum(axis=1) + found.rest, brute.eta)
    assert np.abs(found.rest).max() > 0.1
    assert list(found.to_frame(backend="polars").columns) == ["intercept", *found.names, "rest"]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (lambda m: effect(m, "c9"), "there is no column 'c9'; did you mean 'c"),
        (lambda m: effect(m, "zzz"), "there is no column 'zzz'; there are 'c0', 'c1'"),
        (lambda m: effect(m, ["c0", "c0"]), "column 'c0' is given twice"),
        (lambda m: effect(m, ["c0", "c1", "c2"]), "3 columns, but the model has interactions of up to 2 columns only"),
        (lambda m: effect(m, []), "columns is empty"),
        (lambda m: effect(m, "c0", 1), "grid must be an integer of at least 2"),
        (lambda m: effect(m, "c0", scale="odds"), "scale must be 'link' or 'response'"),
        (lambda m: effect(m, "c0", level=95), "level must lie between 0 and 1"),
        (lambda m: top_interactions(m, 3, 3), "order=3 is above the model's order, 2"),
        (lambda m: top_interactions(m, 0), "k must be an integer of at least 1"),
        (lambda m: marginals(m, ["c0"]), "marginals are of at least two columns"),
        (lambda m: factors(m, 1), "order must be an integer of at least 2"),
        (lambda m: contributions(m, BruteForce(m).table, max_order=0), "max_order must be an integer of at least 1"),
        (
            lambda m: contributions(m, BruteForce(m).table, max_terms=5),
            "10 terms a row, more than max_terms=5: max_order=1 makes 4",
        ),
        (lambda m: contributions(m, BruteForce(m).table, max_terms=2), "10 terms a row, more than max_terms=2"),
        (lambda m: contributions(m, np.zeros((2, 3))), "3 columns, but 4 were seen"),
        (lambda m: variance_shares(m).to_frame(backend="excel"), "backend must be one of pandas"),
    ],
)
def test_bad_input(task, message):
    with pytest.raises(ValueError, match=message):
        task(random_model(1, {2: 2}))


def test_what_is_not_fitted_is_refused():
    with pytest.raises(TypeError, match="call fit first"):
        effect(object(), "x")
