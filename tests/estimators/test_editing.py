"""Changes of a fitted model by hand: exact, recorded, and never of the estimator itself."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import ahofm
from ahofm import AHOFMClassifier, AHOFMRegressor, Spline
from ahofm.explain import contributions, effect
from ahofm.fit import Candidate

N = 500


def rows(seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.uniform(-2, 2, n), "b": rng.uniform(-1, 1, n), "town": rng.choice(["x", "y", "z"], n)})
    X.loc[::9, "b"] = np.nan
    eta = np.sin(2 * X.a) + X.b.fillna(0.5) * X.a + (X.town == "x")
    return X, eta.to_numpy(), rng


@pytest.fixture(scope="module")
def fitted():
    X, eta, rng = rows()
    return AHOFMRegressor(order=2, random_state=0, n_jobs=1, n_members=1).fit(X, eta + 0.2 * rng.normal(size=N))


def main_effect(model, X, column):
    """By predictions: the effect of a column alone, up to a constant."""
    found = contributions(model, X)
    return found.values[:, list(found.names).index(column)]


def test_clipped_effects_stay_within_their_bounds(fitted):
    X, _, _ = rows(1, 3000)  # values between codes, and beyond the range
    X.loc[:10, "a"] = np.linspace(-5, 5, 11)
    before = main_effect(fitted, X, "a")
    edited = fitted.clip_effect("a", low=-0.4, high=0.3)
    after = main_effect(edited, X, "a")
    shift = after - np.clip(before, -0.4, 0.3)
    assert np.ptp(after) <= 0.7 + 1e-9
    assert np.ptp(before) > 1.0
    assert np.abs(shift - np.median(shift)).max() < 0.02  # lines between codes for curves
    others = (edited.predict(X) - after) - (fitted.predict(X) - before)
    np.testing.assert_allclose(others, others[0], atol=1e-9)


def test_flattened_and_set_effects(fitted):
    X, _, _ = rows(1)
    flat = main_effect(fitted.flatten_effect("a", low=0.5), X, "a")
    assert np.ptp(flat[X.a > 0.6]) < 1e-9
    assert np.ptp(flat[X.a < 0.4]) > 0.5
    whole = fitted.flatten_effect("town")
    assert np.ptp(main_effect(whole, X, "town")) < 1e-9
    own = main_effect(fitted.set_effect("town", 2.0, at=["y"]), X, "town")
    before = main_effect(fitted, X, "town")
    gap = own[X.town == "y"][0] - own[X.town == "x"][0]
    assert gap == pytest.approx(2.0 - before[X.town == "x"][0])
    line = main_effect(fitted.set_effect("a", 0.0, low=-1.0, high=1.0), X, "a")
    assert np.ptp(line[np.abs(X.a) < 0.9]) < 1e-9


def test_missing_values_keep_their_effect_unless_they_are_clipped(fitted):
    X, _, _ = rows(1)
    gone = X.b.isna()
    before = main_effect(fitted, X, "b")
    flat = main_effect(fitted.flatten_effect("b"), X, "b")
    inside = np.average(before[~gone])
    assert (flat[gone][0] - flat[~gone][0]) == pytest.approx(before[gone][0] - inside, abs=0.05)
    assert np.ptp(main_effect(fitted.clip_effect("b", 0.0, 0.0), X, "b")) < 1e-9


def test_removed_and_rescaled_terms(fitted):
    X, _, _ = rows(1)
    half = fitted.rescale_effect("a", 0.5)
    np.testing.assert_allclose(main_effect(half, X, "a"), 0.5 * main_effect(fitted, X, "a"), atol=1e-9)
    none = fitted.remove_effect("a")
    np.testing.assert_allclose(main_effect(none, X, "a"), 0.0, atol=1e-12)
    pairs = fitted.remove_effect(order=2)
    additive = sum(main_effect(fitted, X, name) for name in X) + fitted.predict(X)[0]
    moved = pairs.predict(X) - additive
    np.testing.assert_allclose(moved, moved[0], atol=1e-9)
    lonely = fitted.remove_effect("a", interactions=True)
    first, second = X.copy(), X.copy()
    first["b"], second["b"] = 0.1, -0.7
    gap = lonely.predict(first.assign(town="x")) - lonely.predict(second.assign(town="x"))
    np.testing.assert_allclose(gap, gap[0], atol=1e-9)  # a does not matter for what b does
    doubled = fitted.rescale_effect(order=2, factor=2.0)
    np.testing.assert_allclose(
        doubled.predict(X) - pairs.predict(X), 2 * (fitted.predict(X) - pairs.predict(X)), atol=1e-9
    )


PAIRS = {
    "order 3": {"order": 3, "factor_prior": "spline", "rank": 3},
    "not centred": {"order": 2, "factor_prior": "spline", "rank": 3, "center": False},
    "products": {"factor_prior": [Candidate("spline", 0.7, 0.7, product=True)], "rank": 3},
}


@pytest.mark.parametrize("name", PAIRS)
def test_one_pair_is_removed_and_nothing_else(name):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, (400, 4)), columns=list("abcd"))
    y = X.a * X.b + X.a * X.c - X.b * X.d + X.a * X.b * X.c + X.a + 0.1 * rng.normal(size=400)
    model = AHOFMRegressor(random_state=0, n_jobs=1, n_members=1, **PAIRS[name]).fit(X, y)
    edited = model.remove_effect(("b", "a"))
    assert np.abs(effect(model, ["a", "b"]).value).max() > 0.3
    assert np.abs(effect(edited, ["a", "b"]).value).max() < 1e-10
    triples = [["a", "b", "c"]] if model.model_.order > 2 else []
    for others in (["a"], ["b"], ["c"], ["a", "c"], ["b", "d"], ["c", "d"], *triples):
        np.testing.assert_allclose(effect(edited, others).value, effect(model, others).value, atol=1e-9)
    grid = effect(model, ["a", "b"], grid={"a": X.a[:50].to_numpy(), "b": X.b[:50].to_numpy()})
    change = model.predict(X[:50]) - edited.predict(X[:50])
    np.testing.assert_allclose(change, np.diag(np.asarray(grid.value).reshape(50, 50)), atol=1e-9)
    assert str(edited.model_.edits[0]) == "remove: interaction of b and a"
    again = edited.remove_effect(("a", "b"))
    np.testing.assert_allclose(again.predict(X), edited.predict(X), atol=1e-9)


def test_the_estimator_is_as_it_was_and_edits_are_recorded(fitted, tmp_path):
    X, _, _ = rows(1)
    before = fitted.predict(X)
    edited = fitted.clip_effect("a", high=0.1).remove_effect("town").rescale_effect(order=2, factor=0.5)
    np.testing.assert_array_equal(fitted.predict(X), before)
    assert fitted.model_.edits == ()
    said = [str(edit) for edit in edited.model_.edits]
    assert said == [
        "clip: main effect of a, at most 0.1",
        "remove: main effect of town",
        "rescale: interactions of order 2, times 0.5",
    ]
    assert "edited by hand: clip: main effect of a, at most 0.1" in str(edited.summary())
    edited.report(tmp_path / "page.html")
    data = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', (tmp_path / "page.html").read_text(), re.S
    )
    assert {"value": "edited", "label": "by hand: remove: main effect of town"} in json.loads(data[1])["facts"]
    edited.save(tmp_path / "m.ahofm", uncertainty=False)
    again = ahofm.load(tmp_path / "m.ahofm")
    assert again.model_.edits == edited.model_.edits
    np.testing.assert_array_equal(again.predict(X), edited.predict(X))


@pytest.mark.parametrize("family", ["gaussian", "poisson", "gamma", "quasi_poisson"])
def test_the_intercept_is_balanced_with_exposures_and_weights(family):
    X, eta, rng = rows()
    exposure, weight = rng.uniform(0.2, 3.0, N), rng.integers(1, 4, N)
    offset = 0.3 * exposure if family == "gaussian" else np.log(exposure)
    mean = eta + offset if family == "gaussian" else np.exp(0.5 * eta + offset)
    y = {
        "gaussian": lambda: mean + rng.normal(size=N),
        "gamma": lambda: rng.gamma(2.0, mean / 2),
    }.get(family, lambda: rng.poisson(mean).astype(float))()
    model = AHOFMRegressor(family=family, order=1, random_state=0, n_jobs=1)
    model.fit(X, y, sample_weight=weight, offset=offset)
    edited = model.clip_effect("a", high=0.0)
    assert abs(weight @ edited.predict(X, offset) / (weight @ y) - 1) > 0.01
    even = edited.rebalanced(X, y, sample_weight=weight, offset=offset)
    assert weight @ even.predict(X, offset) == pytest.approx(weight @ y, rel=1e-9)
    assert str(even.model_.edits[-1]) == f"balance: intercept, on {N} rows"
    np.testing.assert_allclose(np.ptp(even.predict_eta(X) - edited.predict_eta(X)), 0.0, atol=1e-9)


def test_two_classes_are_balanced():
    X, eta, rng = rows()
    label = np.where(rng.random(N) < 1 / (1 + np.exp(-eta)), "yes", "no")
    model = AHOFMClassifier(order=1, random_state=0, n_jobs=1).fit(X, label).rescale_effect("a", 0.2)
    even = model.rebalanced(X, label)
    assert even.predict_proba(X)[:, 1].sum() == pytest.approx((label == "yes").sum(), rel=1e-9)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda m: m.clip_effect("a"), "give low, high or both"),
        (lambda m: m.clip_effect("a", 2.0, 1.0), "low=2.0 is above high=1.0"),
        (lambda m: m.clip_effect("age", 0.0), "no column 'age' in the model; there are a, b, town"),
        (lambda m: m.clip_effect(7, 0.0), "no column 7 in the model; there are 3"),
        (lambda m: m.clip_effect("a", 0.0, linear_predictor=3), "linear_predictor must be from 0 to 0, got 3"),
        (lambda m: m.flatten_effect("town", low=1), "has levels, which lie between nothing; give at="),
        (lambda m: m.flatten_effect("a", low=10.0), "has no value between 10.0 and None in training"),
        (lambda m: m.set_effect("town", 1.0, at=["q"]), "column 'town' has no level 'q'; there are 'x', 'y', 'z'"),
        (lambda m: m.set_effect("a", np.nan), "value must be a finite number, got nan"),
        (lambda m: m.rescale_effect("a", np.inf), "factor must be a finite number, got inf"),
        (lambda m: m.remove_effect(), "give a column, for its main effect, or an order from 2 on"),
        (lambda m: m.remove_effect("a", order=2), "give a column, for its main effect, or an order"),
        (lambda m: m.remove_effect(order=5), "the model has no factors of order 5"),
        (lambda m: m.remove_effect(interactions=True), "interactions=True needs a column"),
        (lambda m: m.remove_effect(("a", "a")), r"two different columns, got \('a', 'a'\)"),
        (lambda m: m.remove_effect(["a", "b", "town"]), "two different columns"),
        (lambda m: m.remove_effect(("a", "c")), "no column 'c' in the model"),
        (lambda m: m.remove_effect(("a", "b"), order=2), "give neither interactions= nor order="),
    ],
)
def test_bad_edits(fitted, edit, message):
    with pytest.raises(ValueError, match=message):
        edit(fitted)


def test_effects_of_smooth_kinds_are_rescaled_only():
    X, eta, _ = rows()
    model = AHOFMRegressor(order=1, columns={"a": Spline()}, random_state=0, n_jobs=1).fit(X, eta)
    with pytest.raises(ValueError, match="column 'a' is Spline, whose effect cannot be changed value by value"):
        model.clip_effect("a", 0.0)
    assert np.ptp(main_effect(model.remove_effect("a"), X, "a")) < 1e-12
