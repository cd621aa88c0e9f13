"""Class weights, importances, and figures in one call."""

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_selection import SelectFromModel

from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.explain import variance_shares

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.uniform(-1, 1, size=(300, 3)), columns=["wind", "rain", "sun"])
Y = np.sin(3 * X.wind) + 2 * X.rain * X.sun + 0.1 * RNG.normal(size=300)
FAST = {"order": 2, "factor_prior": "spline", "n_members": 1, "random_state": 0}
RARE = np.where(Y + 0.5 * RNG.normal(size=300) > 1.2, "rare", "usual")


def fitted(labels=RARE, rows=X, sample_weight=None, **settings):
    model = AHOFMClassifier(**{"smoothing": "df", "order": 1, "random_state": 0, **settings})
    return model.fit(rows, labels, sample_weight=sample_weight)


def test_class_weights_multiply_those_of_rows():
    own = RNG.integers(1, 4, size=300)
    expected = fitted(sample_weight=own * np.where(RARE == "rare", 3, 1)).predict_proba(X)
    np.testing.assert_array_equal(fitted(sample_weight=own, class_weight={"rare": 3}).predict_proba(X), expected)
    weights = {"rare": 1, "usual": 1, "never seen": 5}
    np.testing.assert_allclose(fitted(class_weight=weights).predict_proba(X), fitted().predict_proba(X), rtol=1e-6)


def test_balanced_classes_have_equal_sums_of_weights():
    model = fitted(class_weight="balanced")
    weight = np.asarray(model.training_.weight)
    assert weight.sum() == pytest.approx(300)
    assert weight[RARE == "rare"].sum() == pytest.approx(150)
    assert np.average(model.predict_proba(X)[:, 0], weights=weight) == pytest.approx(0.5, abs=0.01)
    assert np.mean(fitted().predict(X) == "rare") < np.mean(model.predict(X) == "rare")
    again = model.with_uncertainty(X, RARE)
    np.testing.assert_array_equal(again.training_.weight, weight)
    absent = np.where(np.arange(300) < 150, 1.0, 0.0)
    half = fitted(sample_weight=absent, class_weight="balanced")
    np.testing.assert_allclose(
        half.predict_proba(X),
        fitted(RARE[:150], X[:150], class_weight="balanced").predict_proba(X),
        rtol=1e-3,
        atol=1e-4,
    )


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ("even", "class_weight must be None, 'balanced' or a dict of labels to numbers, got 'even'"),
        (3, "class_weight must be None"),
        ({"rare": -1.0}, "class_weight must hold finite numbers that are not negative"),
        ({"rare": 1.0, "odd": 1.0}, "usual"),
    ],
)
def test_bad_class_weights(weights, said):
    with pytest.raises(ValueError, match=said):
        fitted(class_weight=weights)


def test_class_weights_in_pieces():
    model = AHOFMClassifier(smoothing="df", order=1, random_state=0, class_weight={"rare": 2})
    model.partial_fit(X[:200], RARE[:200]).partial_fit(X[200:], RARE[200:])
    assert model.model_.total == 300 + np.sum(RARE == "rare")
    with pytest.raises(ValueError, match="class_weight='balanced' needs all rows at once"):
        model.set_params(class_weight="balanced").partial_fit(X, RARE)


def test_importances_share_interactions_out():
    model = AHOFMRegressor(**FAST).fit(X, Y)
    found, shares = model.feature_importances_, variance_shares(model)
    assert found.shape == (3,)
    assert found.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(found, shares.main + 0.5 * (shares.each - shares.main), rtol=1e-10)
    assert found[0] > 0.4
    assert SelectFromModel(model, prefit=True, threshold=0.3).get_support().tolist() == (found >= 0.3).tolist()
    many = fitted(np.digitize(Y, [-0.5, 0.5]))
    assert many.feature_importances_.sum() == pytest.approx(1.0)


def test_importances_of_a_constant_model():
    model = AHOFMRegressor(order=1, smoothing="df").fit(X, np.full(300, 2.0))
    np.testing.assert_array_equal(model.feature_importances_, [0.0, 0.0, 0.0])


def test_plot():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    model = AHOFMRegressor(**FAST).fit(X, Y)
    found = model.plot(labels={"wind": "wind (m/s)"})
    drawn = [effect.columns for effect in found.effects]
    assert ("wind",) in drawn
    assert ("rain", "sun") in drawn
    assert len(found.axes_) == len(drawn)
    assert found.axes_[drawn.index(("wind",))].get_xlabel() == "wind (m/s)"
    assert len(model.plot(most=1).axes_) == 1
    assert model.plot("sun", scale="response").effects[0].scale == "response"
    _, given = plt.subplots(1, 2)
    assert model.plot([0, ("sun", "rain")], ax=given).axes_[1] is given[1]
    plt.close("all")
