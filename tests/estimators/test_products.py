"""Product factors from end to end: what they find, what they leave alone, every family and column kind, bad input."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ahofm
from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.columns.table import read_table
from ahofm.explain import contributions, shapley_values, summary, top_interactions, variance_shares
from ahofm.explain.shares import importances
from ahofm.families import Gamma, GaussianLocationScale, Poisson, Quantile
from ahofm.fit import Candidate
from ahofm.inference.uncertainty import band_of
from ahofm.kernels import Chunk, NativeKernel
from ahofm.model.jacobian import jacobian, pulled_back, tables_at
from ahofm.orders import PRODUCT

pytestmark = pytest.mark.filterwarnings("ignore:the fit stopped at max_iter", "ignore:1 constant column")

SPARSE = Candidate("spline", 1.0, 1.0, product=True)
DENSE = Candidate("spline", 0.5, 0.5, product=True)


def regressor(*candidates, **settings):
    return AHOFMRegressor(factor_prior=candidates or (SPARSE,), **{"n_members": 1, "random_state": 0, **settings})


def product_of(X, count):
    return np.prod([0.5 + np.sin(2.5 * X[:, j] + 0.5 * j) for j in range(count)], axis=0)


def drawn(n, p, count, noise=0.1, seed=0):
    """A product of functions of the first columns, with noise in units of its standard deviation."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n + 1000, p))
    truth = product_of(X, count)
    y = truth + noise * truth.std() * rng.normal(size=len(X))
    return X[:n], y[:n], X[n:], truth[n:]


def error(model, X, truth):
    return np.sqrt(np.mean((model.predict(X) - truth) ** 2)) / truth.std()


@pytest.fixture(scope="module")
def fitted():
    X, y, _, _ = drawn(800, 4, 3)
    return regressor(DENSE).fit(X, y), X


@pytest.mark.slow
def test_an_interaction_of_five_columns_is_found():
    X, y, held, truth = drawn(2500, 8, 5)
    model = regressor().fit(X, y)
    order_four = AHOFMRegressor(order=4, factor_prior="spline", n_members=1, random_state=0).fit(X, y)
    assert error(model, held, truth) < error(order_four, held, truth) / 3.0
    assert error(model, held, truth) < 0.05
    shares = variance_shares(model)
    assert shares.orders[5] > 0.01
    assert sum(shares.orders[d] for d in (6, 7, 8)) < 0.01


def test_an_additive_truth_keeps_no_product():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, (1000, 6))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2 + 0.4 * rng.normal(size=1000)
    assert PRODUCT not in regressor().fit(X, y).model_.ranks


def test_products_are_weighed_against_other_candidates():
    X, y, held, truth = drawn(700, 5, 4)
    plain = Candidate("spline", 0.7, 0.7)
    model = regressor(plain, SPARSE, order=3, n_members=3).fit(X, y)
    assert {gain.order for gain in model.model_.gains} == {2, 3, PRODUCT}
    assert model.model_.gains[-1].gain > 0.1
    assert "with product factors" in str(model.model_.gains[-1])
    assert "products" in model.model_.choices[0].value
    assert [part.order for part in model.model_.lower] == [1, 2, 3]
    assert PRODUCT not in model.model_.at_order(3).ranks
    alone = regressor(plain, order=3).fit(X, y)
    assert error(model, held, truth) < 0.7 * error(alone, held, truth)


def test_lower_orders_of_products_are_those_terms(fitted):
    model, X = fitted
    parts = contributions(model, X[:50])
    assert model.model_.order == 4
    for order in (2, 3):
        cut = model.model_.at_order(order)
        sets = [at for at, term in enumerate(parts.terms) if len(term) <= order]
        expected = parts.intercept + parts.values[:, sets].sum(axis=1)
        np.testing.assert_allclose(cut.predict(X[:50]), expected, atol=1e-9)
        assert cut.order == order
    assert model.model_.at_order(1).order == 1
    assert model.model_.at_order(4) is model.model_


def test_explanations_add_up(fitted):
    model, X = fitted
    parts, why = contributions(model, X[:50]), shapley_values(model, X[:50])
    np.testing.assert_allclose(parts.intercept + parts.values.sum(axis=1), model.predict(X[:50]), atol=1e-9)
    np.testing.assert_allclose(why.base + why.values.sum(axis=1), model.predict(X[:50]), atol=1e-9)
    assert importances(model).sum() == pytest.approx(1.0)
    assert "product factors" in str(summary(model))
    assert top_interactions(model, 3).shares[0] > 0.0


def test_bands_have_the_derivatives_of_the_predictor_and_of_its_terms(fitted):
    """Against differences, at coordinates that are not those of the fit; at the fit's own they predict as it does."""
    model, X = fitted
    own, y = model.model_, model.predict(X) + 0.1 * np.random.default_rng(0).normal(size=len(X))
    band = band_of(own, read_table(X), y)
    codes, means = own.encoder.encode(X[:40]), band.means_of(0)
    rng = np.random.default_rng(1)

    def tables(theta):
        return tables_at(theta, band.mains, band.factors, band.ranks, band.loadings_of(0), means)

    def eta(theta):
        return NativeKernel("float64").eta(Chunk(codes), [tables(theta)])[:, 0]

    np.testing.assert_allclose(eta(band.thetas[0]), own.eta(X[:40])[:, 0], atol=0.1 * np.std(y))
    theta = band.thetas[0] + 0.1 * rng.normal(size=len(band.thetas[0]))
    step, g = 1e-6 * rng.normal(size=len(theta)), rng.normal(size=40)
    J = jacobian(Chunk(codes), tables(theta), band.mains, band.factors)
    np.testing.assert_allclose(eta(theta + step) - eta(theta - step), 2 * J @ step, atol=1e-9)
    found = pulled_back(Chunk(codes), tables(theta), band.mains, band.factors, g)
    np.testing.assert_allclose(found, J.T @ g, atol=1e-9)
    here, starts = replace(band, thetas=(theta,), correlated=()), np.cumsum([0, *map(len, band.mains)])

    def term(theta, subset):
        phi = tables(theta).factors[PRODUCT]
        rows = [starts[j] + codes.columns[j].astype(np.int64) for j in range(4)]
        inside = [phi[rows[j]] - means[j] if j in subset else means[j] for j in range(4)]
        return np.prod(np.broadcast_arrays(*inside), axis=0) @ band.loadings_of(0)[PRODUCT]

    for subset in ((0, 2), (1, 2, 3), (0, 1, 2, 3)):
        slopes = here.term(subset, [codes.columns[j] for j in subset])
        np.testing.assert_allclose(
            term(theta + step, subset) - term(theta - step, subset), 2 * slopes @ step, atol=1e-9
        )


def test_intervals_of_products():
    X, y, held, truth = drawn(800, 4, 3)
    model = regressor(DENSE).fit(X, y).with_uncertainty()
    _, std = model.predict(held, return_std=True)
    assert np.mean(np.abs(model.predict(held) - truth) <= 2.0 * std) > 0.6
    assert "edf all" in str(summary(model))


def test_models_with_products_are_saved(fitted, tmp_path):
    model, X = fitted
    model.save(tmp_path / "model.ahofm")
    again = ahofm.load(tmp_path / "model.ahofm")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.model_.ranks == model.model_.ranks


@pytest.mark.parametrize(
    "family", ["poisson", "gamma", GaussianLocationScale(), Quantile(0.7), Poisson(), Gamma()], ids=str
)
def test_every_family_of_numbers(family):
    rng = np.random.default_rng(2)
    X = rng.uniform(-1.0, 1.0, (400, 3))
    mean = np.exp(0.8 * product_of(X, 3))
    y = rng.poisson(mean) if "oisson" in str(family) else mean * rng.gamma(4.0, 0.25, size=400)
    model = regressor(DENSE, family=family, order=2, max_iter=15).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert model.score(X, y) > (0.0 if "Quantile" in str(family) else 0.1)


@pytest.mark.parametrize("classes", [2, 3])
def test_classes(classes):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.0, 1.0, (600, 3))
    score = 3.0 * (product_of(X, 3) - 0.3) + rng.logistic(size=600)
    y = np.digitize(score, np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]))
    model = AHOFMClassifier(factor_prior=[SPARSE], n_members=1, random_state=0, max_iter=15, order=2).fit(X, y)
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    assert model.score(X, y) > 1.2 / classes


def table(n, seed=0):
    """Numbers, levels, missing values in both, few and many distinct values, and a constant."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "smooth": rng.normal(size=n),
            "missing": np.where(rng.random(n) < 0.2, np.nan, rng.uniform(size=n)),
            "level": rng.choice(["a", "b", "c", None], n),
            "few": rng.integers(0, 4, n).astype(float),
            "constant": 1.0,
        }
    )
    y = (1.0 + X["smooth"]) * np.where(X["level"] == "a", 2.0, 0.5) * (1.0 + X["missing"].fillna(0.3))
    return X, y.to_numpy() + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("factor_prior", ["spline", "random_walk", "spline_iid"])
def test_every_column_kind_with_missing_and_unseen_values(factor_prior):
    X, y = table(500)
    model = regressor(Candidate(factor_prior, 0.7, 0.7, product=True)).fit(X, y)
    assert model.score(X, y) > 0.8
    odd = pd.DataFrame(
        {
            "smooth": [np.nan, 1e300, -1e300, 0.0],
            "missing": [np.nan, 5.0, -5.0, 0.5],
            "level": ["unseen", None, "a", "b"],
            "few": [np.nan, 9.0, -9.0, 2.5],
            "constant": [np.nan, 2.0, 1.0, 0.0],
        }
    )
    found, spread = model.predict(odd), y.max() - y.min()
    assert (np.abs(found - y.mean()) < 5.0 * spread).all()
    parts = contributions(model, odd, max_terms=1000)
    np.testing.assert_allclose(parts.intercept + parts.values.sum(axis=1) + parts.rest, found, atol=1e-8)


def test_an_unseen_value_is_averaged_over():
    """At it the linear predictor is its mean over the column's training values, whatever the other columns are."""
    X, y = table(500, seed=1)
    model = regressor(DENSE).fit(X, y)
    row = X.iloc[[0]].copy()
    row["level"] = "unseen"
    others = pd.concat([X.iloc[[0]]] * len(X), ignore_index=True)
    others["level"] = X["level"].to_numpy()
    assert model.predict(row)[0] == pytest.approx(model.predict(others).mean(), abs=1e-8)


def test_one_column_alone():
    rng = np.random.default_rng(4)
    x = rng.uniform(-1.0, 1.0, (300, 1))
    y = np.sin(3.0 * x[:, 0]) + 0.1 * rng.normal(size=300)
    model = regressor(DENSE).fit(x, y)
    assert model.score(x, y) > 0.95
    why = shapley_values(model, x)
    np.testing.assert_allclose(why.base + why.values[:, 0], model.predict(x))


def test_every_value_distinct_with_few_rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 4))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=60)
    for kind in ("spline", "random_walk", "spline_iid"):
        model = regressor(Candidate(kind, 0.5, 0.5, product=True)).fit(X, y)
        assert np.isfinite(model.predict(10.0 * X)).all()


@pytest.mark.slow
@pytest.mark.parametrize("tempering", [0.5, 1.0])
def test_two_hundred_columns(tempering):
    """Nothing under- or overflows, in training, far outside it, or in explanations."""
    rng = np.random.default_rng(6)
    X = rng.integers(0, 6, size=(300, 200)) - 2.5
    y = (1.0 + 0.5 * X[:, 0]) * (1.0 + 0.5 * X[:, 1]) + 0.2 * rng.normal(size=300)
    model = regressor(Candidate("spline", tempering, tempering, product=True), max_iter=12).fit(X, y)
    far = np.where(rng.random((50, 200)) < 0.5, 1e6, -1e6)
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite(model.predict(far)).all()
    assert np.isfinite(shapley_values(model, X[:3]).values).all()
    assert np.isfinite(variance_shares(model).each).all()


def test_products_are_not_refined_on_more_rows():
    X, y, _, _ = drawn(300, 3, 2)
    with pytest.raises(ValueError, match="product factors cannot be refined"):
        regressor(solver="subsample").fit(X, y)
