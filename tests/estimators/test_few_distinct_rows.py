"""Interactions of tables with few distinct rows: all copies of a row may not be validated together."""

import numpy as np
import pandas as pd
import pytest

from ahofm import AHOFMClassifier, AHOFMRegressor


def cells(n, rng):
    codes = rng.integers(0, 5, (n, 3))
    X = pd.DataFrame({"a": codes[:, 0], "b": codes[:, 1], "c": [f"level {k}" for k in codes[:, 2]]})
    a, b, c = (codes.T - 2.0) / 2.5
    return X, 0.8 * a - 0.5 * c + 1.2 * a * b


def zero_inflated(eta, rng):
    return np.where(rng.uniform(size=len(eta)) < 0.3, 0, rng.poisson(np.exp(0.7 + eta)))


TARGETS = {
    "gaussian": lambda eta, rng: np.round(3.0 + eta + rng.normal(size=len(eta))),
    "poisson": lambda eta, rng: rng.poisson(np.exp(eta)),
    "zero_inflated_poisson": zero_inflated,
}


@pytest.mark.parametrize("family", TARGETS)
def test_a_pair_is_found_among_few_distinct_rows(family):
    rng = np.random.default_rng(500)
    (X, eta), (fresh, truth) = cells(3_000, rng), cells(2_000, rng)
    model = AHOFMRegressor(family=family, random_state=0).fit(X, TARGETS[family](eta, rng))
    found = model.predict_eta(fresh).reshape(len(fresh), -1)[:, 0]
    assert np.std(found - truth) < 0.12  # of main effects alone: .3


def test_a_pair_of_two_classes_is_found_among_few_distinct_rows():
    rng = np.random.default_rng(500)
    (X, eta), (fresh, truth) = cells(3_000, rng), cells(2_000, rng)
    model = AHOFMClassifier(random_state=0).fit(X, rng.uniform(size=3_000) < 1.0 / (1.0 + np.exp(-eta)))
    assert np.std(model.decision_function(fresh) - truth) < 0.2  # of main effects alone: .3


def test_a_pair_of_several_classes_is_found_among_few_distinct_rows():
    rng = np.random.default_rng(501)
    X, eta = cells(3_000, rng)
    p = np.exp(np.stack([eta, np.zeros(len(eta)), -eta], axis=1))
    p /= p.sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.uniform(size=(len(p), 1))).sum(axis=1)
    model = AHOFMClassifier(random_state=0).fit(X, y)
    assert np.mean(np.sum(p * np.log(p / model.predict_proba(X)), axis=1)) < 0.01  # .03 with main effects alone


def test_copies_and_whole_weights_have_the_same_fit():
    rng = np.random.default_rng(2)
    X, eta = cells(400, rng)
    y, weight = rng.poisson(np.exp(eta)), rng.integers(1, 4, 400)
    copies = np.repeat(np.arange(400), weight)
    model = AHOFMRegressor(family="poisson", random_state=0)
    weighted = model.fit(X, y, sample_weight=weight).predict(X)
    np.testing.assert_array_equal(weighted, model.fit(X.iloc[copies], y[copies]).predict(X))
