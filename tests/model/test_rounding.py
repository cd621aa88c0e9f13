"""Coefficients of large models are rounded where rows cannot tell the difference, and nothing else changes."""

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

import ahofm
from ahofm import AHOFMRegressor, Linear, SplineIID
from ahofm.fit import api
from ahofm.model import rounding
from ahofm.model.predictor import Lower, Predictor
from ahofm.model.rounding import _mean_squares, rounded
from ahofm.orders import PRODUCT
from ahofm.tuning.numerics import ROUNDED_BITS, ROUNDED_SHARE


def rows(n=400):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": 1e6 + 1e3 * rng.random(n), "town": rng.choice(list("uvw"), n)})
    X["count"] = rng.integers(0, 40, n)
    return X, np.sin(2 * X.a) + X.a * (X.town == "u") + 0.02 * X["count"] + 0.1 * rng.normal(size=n)


@cache
def fitted():
    return AHOFMRegressor(order=2, effort="fast", random_state=0, columns={"b": Linear()}).fit(*rows())


@cache
def rounded_model():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounding, "EXACT_COEFFICIENTS", 0)
        return rounded(fitted().model_)


def all_predictors(model):
    return [*model.linear_predictors, *(one for part in model.lower for one in part.linear_predictors)]


def test_small_models_keep_all_digits():
    assert rounded(fitted().model_) is fitted().model_


def test_shapes_keep_all_digits(monkeypatch):
    X, y = rows()
    monkeypatch.setattr(rounding, "EXACT_COEFFICIENTS", 0)
    model = AHOFMRegressor(order=1, effort="fast", random_state=0, monotonic_cst={"a": 1}).fit(X, y).model_
    assert rounded(model) is model


def test_linear_predictors_move_by_parts_in_ten_million_and_functions_keep_their_means():
    old, new = fitted().model_, rounded_model()
    for before, after in zip(all_predictors(old), all_predictors(new), strict=True):
        for j, book in enumerate(old.encoder.codebooks):
            values, moved = before.at_codes(j, book), after.at_codes(j, book)
            size = np.abs(values).max(axis=0)
            assert (np.abs(moved - values) <= 2.0 ** -(ROUNDED_BITS[0] - 2) * size).all()
            means = book.distribution @ moved - book.distribution @ values
            # Values are sums of basis @ coef and the centring: column b, at a million, has terms that cancel
            terms = np.abs(book.basis @ before.coef[j]).max(axis=0) + np.abs(before.centring[j])
            assert (np.abs(means) <= 4 * np.finfo(np.float64).eps * terms).all()
        assert any((a != b).any() for a, b in zip(before.coef, after.coef, strict=True))
    X, _ = rows()
    for order in (1, 2):
        was = old.at_order(order).eta(X)
        gap = (new.at_order(order).eta(X) - was) / was.std()
        assert 0.0 < np.sqrt(np.mean(gap**2)) < 2.0 * ROUNDED_SHARE
        assert np.abs(gap).max() < 10.0 * ROUNDED_SHARE


def test_coefficients_have_few_digits():
    for predictor in all_predictors(rounded_model()):
        for coef in predictor.coef:
            exponents = np.frexp(np.abs(coef).max(axis=0))[1] - ROUNDED_BITS[1] - 6  # functions may be less than these
            multiples = np.ldexp(coef, -exponents)
            np.testing.assert_array_equal(multiples, np.rint(multiples))
            assert not np.signbit(coef[coef == 0.0]).any()


def test_rounding_again_changes_nothing(monkeypatch):
    monkeypatch.setattr(rounding, "EXACT_COEFFICIENTS", 0)
    once = rounded_model()
    twice = rounded(once)
    for before, after in zip(all_predictors(once), all_predictors(twice), strict=True):
        for a, b in zip(before.coef, after.coef, strict=True):
            np.testing.assert_array_equal(a, b)


def test_files_of_large_fits_are_small_and_predict_the_same_to_the_last_bit(tmp_path, monkeypatch):
    X, y = rows()
    monkeypatch.setattr(rounding, "EXACT_COEFFICIENTS", 0)
    model = AHOFMRegressor(order=2, effort="fast", random_state=0).fit(X, y)
    model.save(tmp_path / "rounded", uncertainty=False)
    monkeypatch.setattr(api, "rounded", lambda model: model)
    whole = AHOFMRegressor(order=2, effort="fast", random_state=0).fit(X, y)
    whole.save(tmp_path / "whole", uncertainty=False)
    assert (tmp_path / "rounded").stat().st_size < 0.75 * (tmp_path / "whole").stat().st_size
    for path, saved in ((tmp_path / "rounded", model), (tmp_path / "whole", whole)):
        back = ahofm.load(path)
        assert back.predict(X).tobytes() == saved.predict(X).tobytes()
        assert back.model_.eta(X).tobytes() == saved.model_.eta(X).tobytes()


def test_zero_functions_stay_zero(monkeypatch):
    model = fitted().model_
    flat = tuple(
        replace(one, coef=tuple(0.0 * coef for coef in one.coef), centring=tuple(0.0 * c for c in one.centring))
        for one in model.linear_predictors
    )
    monkeypatch.setattr(rounding, "EXACT_COEFFICIENTS", 0)
    found = rounded(replace(model, linear_predictors=flat)).linear_predictors
    assert not any(coef.any() for one in found for coef in one.coef)


def independent(orders, product_means=None):
    """A linear predictor of four columns with one number for every function."""
    rng = np.random.default_rng(3)
    width = 1 + sum(orders.values())
    coef = tuple(np.exp(rng.normal(size=(1, width))) for _ in range(4))
    loadings = {order: rng.normal(size=rank) for order, rank in orders.items()}
    zero = tuple(np.zeros(width) for _ in range(4))
    return Predictor(0.7, coef, zero, loadings, product_means=product_means)


@pytest.mark.parametrize("orders", [{}, {2: 2}, {3: 1, 4: 1}, {2: 1, PRODUCT: 1}])
def test_mean_squares_are_those_of_independent_columns(orders):
    means = np.random.default_rng(4).normal(size=(4, 1)) if PRODUCT in orders else None
    predictor = independent(orders, means)
    scales = np.vstack(predictor.coef)
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=scales.size))).reshape(-1, *scales.shape)

    def eta(functions):
        total = functions[..., 0].sum(axis=1)
        for order, part in predictor.orders.slices.items():
            own, loading = functions[..., part], predictor.loadings[order]
            if order == PRODUCT:
                one = sum((own[:, j] * np.delete(means, j, axis=0).prod(axis=0) for j in range(4)), means.prod(axis=0))
                total = total + ((means + own).prod(axis=1) - one) @ loading
            else:
                sets = itertools.combinations(range(4), order)
                total = total + sum(own[:, list(columns)].prod(axis=1) for columns in sets) @ loading
        return total

    functions = signs * scales
    derivatives, terms = _mean_squares(predictor, scales**2)
    weights = np.concatenate([[], *predictor.loadings.values()]) ** 2
    total = (scales[:, 0] ** 2).sum() + terms @ weights
    assert total == pytest.approx(np.mean(eta(functions) ** 2))
    derivatives = derivatives * np.concatenate([[1.0], weights])
    for j, k in np.ndindex(scales.shape):
        step = np.zeros_like(scales)
        step[j, k] = 1.0
        derivative = eta(functions + step) - eta(functions)  # exact: it is linear in each function
        assert derivatives[j, k] == pytest.approx(np.mean(derivative**2))


def test_functions_that_matter_less_have_fewer_digits(monkeypatch):
    monkeypatch.setattr(rounding, "EXACT_COEFFICIENTS", 0)
    model = fitted().model_
    (own,) = model.linear_predictors
    weak = {order: np.r_[1e-3 * loading[:1], loading[1:]] for order, loading in own.loadings.items()}
    (small,) = rounded(replace(model, linear_predictors=(replace(own, loadings=weak),), lower=())).linear_predictors
    (usual,) = rounded(replace(model, lower=())).linear_predictors
    for j, more in ((0, 500.0), (3, 10.0)):  # the second is tiny: it keeps the least number of bits
        errors = [np.abs(one.coef[j] - own.coef[j]).max(axis=0) for one in (small, usual)]
        assert errors[0][1] > more * errors[1][1] > 0.0
        assert errors[0][1] <= 2.0 ** -ROUNDED_BITS[0] * np.abs(own.coef[j][:, 1]).max()
        np.testing.assert_array_equal(errors[0][[0, 2]], errors[1][[0, 2]])


def test_functions_that_linear_predictors_share_stay_equal(monkeypatch):
    monkeypatch.setattr(rounding, "EXACT_COEFFICIENTS", 0)
    model = fitted().model_
    (own,) = model.linear_predictors
    weak = replace(own, loadings={order: 1e-2 * loading for order, loading in own.loadings.items()})
    found = rounded(replace(model, lower=(Lower(2, (weak,)),)))
    for a, b in zip(found.linear_predictors[0].coef, found.lower[0].linear_predictors[0].coef, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_files_of_columns_with_many_values_are_small(tmp_path):
    """Of some 1,900 values of five columns: the values, edges between them, and an effect for each factor."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6_000, 5)).round(3)
    y = np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 4] + 0.5 * rng.normal(size=len(X))
    model = AHOFMRegressor(order=3, effort="fast", columns=SplineIID(max_codes=2_000), random_state=0).fit(X, y)
    sizes = [book.size for book in model.model_.encoder.codebooks]
    count = sum(coef.size for one in all_predictors(model.model_) for coef in one.coef)
    assert min(sizes) > 1_000
    assert count > rounding.EXACT_COEFFICIENTS
    model.save(tmp_path / "model", uncertainty=False)
    assert (tmp_path / "model").stat().st_size < 200_000  # of version 8: 342,097
    back = ahofm.load(tmp_path / "model")
    assert back.predict(X).tobytes() == model.predict(X).tobytes()
