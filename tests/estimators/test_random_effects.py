"""Columns of levels as random effects, against lme4 1.1 and mgcv 1.9."""

import numpy as np
import pandas as pd
import pytest

import ahofm
from ahofm import AHOFMRegressor, Linear
from ahofm.explain import contributions

SETTINGS = {"order": 1, "columns": {"x": Linear()}, "random_state": 0, "n_jobs": 1}


def schools(n=3000):
    rng = np.random.default_rng(5)
    school = rng.integers(0, 40, n)
    room, topic = school * 5 + rng.integers(0, 5, n), rng.integers(0, 25, n)
    x = rng.uniform(-1, 1, n)
    y = 2 + x + 0.8 * rng.normal(size=40)[school] + 0.5 * rng.normal(size=200)[room]
    y = y + 0.6 * rng.normal(size=25)[topic] + rng.normal(size=n)
    columns = {"school": ("s", school), "room": ("r", room), "topic": ("t", topic)}
    return pd.DataFrame({"x": x} | {name: [f"{a}{k}" for k in own] for name, (a, own) in columns.items()}), y


def test_crossed_groups_as_lme4_and_mgcv_have_them(tmp_path):
    """lmer(y ~ x + (1|topic) + (1|school), d): VarCorr, ranef; gam(y ~ x + s(school, bs="re") + s(topic, bs="re"),
    method="REML"): gam.vcomp gives .7605555, .6489250, 1.1229594.
    """
    X, y = schools()
    X = X.drop(columns="room")
    model = AHOFMRegressor(**SETTINGS).fit(X, y)
    found = {name: np.sqrt(value) for name, value in model.model_.variance_components.items()}
    assert found == pytest.approx({"school": 0.760542, "topic": 0.648923}, rel=0.005)
    assert np.sqrt(model.model_.dispersion) == pytest.approx(1.122960, rel=0.002)
    effects = contributions(model, X)
    for name, label, expected in [
        ("school", "s0", 1.090943),
        ("school", "s1", 0.3067379),
        ("topic", "t3", -0.2540369),
        ("topic", "t0", -0.8302902),
    ]:
        own = effects.values[(X[name] == label).to_numpy(), list(effects.names).index(name)]
        assert own[0] == pytest.approx(expected, abs=0.02)
    assert "random effect of school: standard deviation 0.760" in str(model.summary())
    model.save(tmp_path / "m.ahofm", uncertainty=False)
    assert ahofm.load(tmp_path / "m.ahofm").model_.variance_components == model.model_.variance_components


def test_nested_groups_predict_known_rooms_as_lme4_does():
    """predict(lmer(y ~ x + (1|school) + (1|room) + (1|topic), d), new)."""
    X, y = schools()
    model = AHOFMRegressor(**SETTINGS).fit(X, y)
    new = pd.DataFrame({"x": [0.0, 0.5, -0.5, 0.0], "school": ["s0", "s1", "s7", "s20"]})
    new["room"], new["topic"] = ["r1", "r7", "r37", "r102"], ["t0", "t3", "t9", "t20"]
    np.testing.assert_allclose(model.predict(new), [2.072307, 2.776995, 2.361368, 1.411776], atol=0.16)
    assert np.sqrt(model.model_.dispersion) == pytest.approx(1.015531, rel=0.01)
    parts = model.model_.variance_components
    assert np.sqrt(parts["topic"]) == pytest.approx(0.664198, rel=0.01)
    assert np.sqrt(parts["room"] + parts["school"]) == pytest.approx(np.hypot(0.525658, 0.705479), rel=0.06)
    assert np.sqrt(parts["school"]) == pytest.approx(0.705479, rel=0.05)
    assert np.sqrt(parts["room"]) == pytest.approx(0.525658, rel=0.15)


def test_levels_of_counts_have_a_variance_too():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(150), 20)
    y = rng.poisson(np.exp(1 + 0.5 * rng.normal(size=150)[group]))
    X = pd.DataFrame({"g": [f"g{k}" for k in group], "x": rng.normal(size=3000)})
    model = AHOFMRegressor(family="poisson", order=1, random_state=0, n_jobs=1).fit(X, y)
    assert np.sqrt(model.model_.variance_components["g"]) == pytest.approx(0.5, rel=0.15)
