"""Explanations of fitted estimators: bands, scales, classes, the summary."""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.explain import contributions, effect, shapley_values, summary, top_interactions

SETTINGS = {"factor_prior": "spline", "n_members": 1, "random_state": 0}


def rows(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(-1, 1, size=(n, 4)), columns=["wind", "rain", "sun", "noise"])
    X["season"] = rng.choice(["dry", "wet"], size=n)
    eta = np.sin(3 * X["wind"]) + 2 * X["rain"] * X["sun"] + 0.5 * (X["season"] == "wet")
    return X, eta.to_numpy(), rng


@pytest.fixture(scope="module")
def fitted():
    X, eta, rng = rows()
    return AHOFMRegressor(order=2, **SETTINGS).fit(X, eta + 0.3 * rng.normal(size=len(X)))


def test_bands_hold_the_truth_and_wider_ones_all_of_it(fitted):
    curve = effect(fitted, "wind")
    truth = np.sin(3 * curve.grid[0])
    inside = (curve.low <= truth) & (truth <= curve.high)
    assert inside.mean() > 0.8
    assert ((curve.all_low <= truth) & (truth <= curve.all_high)).all()
    assert (curve.all_low < curve.low).all()
    assert (curve.all_high > curve.high).all()
    assert curve.density[0].sum() == pytest.approx(1.0)
    surface = effect(fitted, ["rain", "sun"])
    truth = 2 * np.outer(*surface.grid)
    assert surface.value.shape == (40, 40)
    assert ((surface.low <= truth) & (truth <= surface.high)).mean() > 0.8


def test_levels_are_on_the_grid(fitted):
    found = effect(fitted, ["season", "wind"], 7)
    assert found.grid[0].tolist() == ["dry", "wet"]
    assert found.value.shape == (2, 7)
    assert found.to_frame()["season"].tolist() == ["dry"] * 7 + ["wet"] * 7
    assert effect(fitted, "season", {"season": ["dry", "snow"]}).outside.tolist() == [False, True]


def test_a_model_has_bands_when_it_carries_them(fitted):
    bare = fitted.model_
    assert effect(bare, "wind").low is None
    assert summary(bare).edf is None
    assert summary(bare).n_rows is None
    assert "wind" in str(summary(bare))
    assert effect(fitted.with_uncertainty().model_, "wind").low is not None


def test_response_scale_goes_through_the_link():
    X, eta, rng = rows()
    model = AHOFMRegressor(family="poisson", order=2, **SETTINGS).fit(X, rng.poisson(np.exp(eta)))
    link, response = (effect(model, "wind", 9, scale=scale) for scale in ("link", "response"))
    base = contributions(model, X).intercept
    assert np.allclose(response.value, np.exp(base + link.value))
    assert (response.low < response.value).all()
    assert (response.value < response.high).all()


def test_classes_are_named():
    X, eta, rng = rows()
    scores = np.column_stack([eta, np.zeros(len(X)), -eta]) + rng.gumbel(size=(len(X), 3))
    y = np.array(["a", "b", "c"])[scores.argmax(axis=1)]
    model = AHOFMClassifier(order=2, **SETTINGS).fit(X, y)
    with pytest.raises(ValueError, match="linear predictor: name one of the classes a, b, c"):
        shapley_values(model, X)
    with pytest.raises(ValueError, match="'d' is not one of the classes a, b, c"):
        shapley_values(model, X, linear_predictor="d")
    found = shapley_values(model, X, linear_predictor="c")
    assert np.allclose(found.base + found.values.sum(axis=1), model.predict_eta(X)[:, 2])
    curve = effect(model, "wind", 5, scale="response", linear_predictor="a")
    assert ((curve.low > 0) & (curve.high < 1)).all()
    assert "edf 2" in str(summary(model))


def test_the_summary_says_what_matters(fitted):
    found = summary(fitted)
    text = str(found)
    assert found.n_rows == 1500
    assert found.deviance_explained == pytest.approx(0.9, abs=0.05)
    assert found.dispersion == pytest.approx(0.09, abs=0.01)
    p = dict(zip(found.columns, found.p_main, strict=True))
    assert p["wind"] < 1e-4
    assert p["season"] < 1e-4
    assert p["noise"] > 0.01
    edf = dict(zip(found.columns, found.edf[1], strict=True))
    assert edf["noise"] < 2
    assert edf["wind"] > 4
    assert not found.warnings
    assert "deviance explained" in text
    assert "season" in text
    frame = found.to_frame()
    assert frame["kind"].tolist() == ["spline_iid"] * 4 + ["categorical"]
    assert top_interactions(fitted, 1).terms == (("rain", "sun"),)


def test_main_effects_that_are_not_there_look_so():
    """P-values of nothing are not small more often than they should be."""
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(400, 4))
        model = AHOFMRegressor(order=1, random_state=0).fit(X, X[:, 0] + rng.normal(size=400))
        found += summary(model).p_main[1:].tolist()
    assert np.mean(np.array(found) < 0.05) <= 0.15
    assert np.mean(found) > 0.3


def test_orders_have_what_validation_rows_said_of_them():
    X, eta, rng = rows(600)
    both = AHOFMRegressor(order=2, random_state=0).fit(X, eta + 0.5 * rng.normal(size=600))
    (gain,) = summary(both).gains
    assert (gain.order, gain.over, gain.rows) == (2, 1, 600)
    assert gain.gain > 3 * gain.error > 0.0
    assert str(gain) in str(summary(both))
    additive = AHOFMRegressor(order=2, random_state=0).fit(X, np.sin(3 * X.wind) + rng.normal(size=600))
    (gain,) = summary(additive).gains
    assert gain.gain < 3 * gain.error
    given = AHOFMRegressor(order=2, **SETTINGS).fit(X, eta)
    assert summary(given).gains == ()
    assert "validation" not in str(summary(given))


def test_dependent_columns_are_warned_of():
    X, eta, rng = rows()
    X["wind too"] = X["wind"] + 0.2 * rng.normal(size=len(X))
    model = AHOFMRegressor(order=1, **SETTINGS).fit(X, eta + rng.normal(size=len(X)))
    said = summary(model).warnings
    assert any("'wind' and 'wind too' (rank correlation 0.9" in warning for warning in said)


def test_columns_that_share_an_effect_are_named():
    X, eta, rng = rows()
    X["wind too"] = X["wind"] + 0.1 * rng.normal(size=len(X))
    model = AHOFMRegressor(order=1, **SETTINGS).fit(X, eta + rng.normal(size=len(X)))
    for said in (summary(model).warnings, effect(model, "wind").warnings, effect(model, "wind too").warnings):
        (warning,) = (text for text in said if "share an effect" in text)
        assert "'wind'" in warning
        assert "'wind too'" in warning
        assert "concurvity" in warning
    assert effect(model, "season").warnings == ()
    (found,) = model.band_.concurvity
    assert found[0, 5] > 0.9 or found[5, 0] > 0.9
    assert found[2].max() < 0.1


def test_explanations_for_shap(fitted, monkeypatch):
    made = SimpleNamespace(Explanation=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "shap", made)
    X, _, _ = rows(20, seed=1)
    found = shapley_values(fitted, X)
    for_shap = found.to_shap()
    assert for_shap.values is found.values
    assert for_shap.feature_names == list(X.columns)
    assert for_shap.data[:, 4].tolist() == X["season"].tolist()
    assert np.allclose(for_shap.base_values + for_shap.values.sum(axis=1), fitted.predict(X))
    assert list(found.to_frame().columns) == ["base", *X.columns]


def test_density_has_no_holes_between_bins():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 2))
    model = AHOFMRegressor(order=1, random_state=0).fit(X, X[:, 0] + rng.normal(size=5000))
    found = effect(model, 0)
    middle = np.abs(found.grid[0]) < 2.0
    assert not model.model_.encoder.codebooks[0].support.exact
    assert (found.density[0][middle] > 0.002).all()
    assert found.density[0].sum() == pytest.approx(1.0)
