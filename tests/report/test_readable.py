"""What a reader stumbles over: steps in bands, hours that share a bar, two numbers for one thing."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ahofm import AHOFMClassifier, AHOFMRegressor, Cyclic
from ahofm.cli.words import in_words
from ahofm.explain import checks, effect, observed_and_fitted, summary
from ahofm.inference.dispersion import DispersionWarning
from ahofm.model.trace import Gain, Validated
from ahofm.report import report
from ahofm.report.made import facts
from tests.report.test_families import weibull
from tests.report.test_page import NODE, browser, fitted, opened, run_node, script  # noqa: F401 - fixtures

FAST = {"order": 1, "effort": "fast", "random_state": 0}
needs_node = pytest.mark.skipif(NODE is None, reason="needs node")


def test_bands_have_no_steps_where_numbers_are_far_apart():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0, 10, 300), [15.0, 22.0, 32.0]])
    model = AHOFMRegressor(**FAST).fit(pd.DataFrame({"x": x}), np.sin(x / 3) + 0.2 * rng.normal(size=len(x)))
    found = effect(model, "x", {"x": [22.0, 26.9, 27.1, 32.0]})
    for band in (found.std, found.low, found.high, found.all_low, found.all_high):
        assert abs(band[2] - band[1]) < 0.05 * abs(band[3] - band[0]) + 0.01 * found.std[0]
    assert found.std[1] == pytest.approx(found.std[0] + 0.49 * (found.std[3] - found.std[0]))
    assert effect(model, "x", {"x": [32.0, 40.0]}).std[0] == effect(model, "x", {"x": [32.0, 40.0]}).std[1]


def test_bands_of_circles_close():
    rng = np.random.default_rng(0)
    x = rng.uniform(1, 23, 400)
    X = pd.DataFrame({"hour": x})
    model = AHOFMRegressor(**FAST, columns={"hour": Cyclic(period=24)}).fit(X, np.sin(x / 4) + rng.normal(size=400))
    found = effect(model, "hour", {"hour": [x.max(), 23.999, 24.0, 0.001, x.min()]})
    np.testing.assert_allclose(found.std[1:3], found.std[3], rtol=1e-3)
    assert found.std[[0, 4]].min() - 1e-12 <= found.std[2] <= found.std[[0, 4]].max() + 1e-12


def test_a_missing_value_has_the_band_of_missing_values():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(300) < 0.2, np.nan, rng.normal(size=300))
    model = AHOFMRegressor(**FAST).fit(pd.DataFrame({"x": x}), np.isnan(x) + 0.1 * rng.normal(size=300))
    alone, among = (effect(model, "x", {"x": values}) for values in ([np.nan], [np.nan, 0.123]))
    assert alone.std[0] > 0.0
    assert alone.std[0] == pytest.approx(among.std[0], rel=1e-12)


def test_every_hour_is_a_group():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"hour": np.repeat(np.arange(24), 30), "price": rng.uniform(1, 1000, 720).round()})
    model = AHOFMRegressor(**FAST).fit(X, np.sin(X["hour"] / 4) + rng.normal(size=720))
    hours = observed_and_fitted(model, "hour")
    assert hours.names == tuple(range(24))
    assert (hours.size == 30).all()
    assert len(observed_and_fitted(model, "price").names) <= 21


def test_both_statistics_of_the_dispersion_say_what_they_are_over():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=200), "town": rng.integers(0, 30, 200).astype(str)})
    with pytest.warns(DispersionWarning):
        model = AHOFMRegressor(family="poisson", **FAST).fit(X, rng.negative_binomial(0.8, 0.2, 200))
    (check,) = [one for one in checks(model) if one.code == "overdispersion"]
    by_row = f"vary {model.model_.pearson_dispersion:.3g} times as much as the family says (Pearson's statistic by row"
    assert by_row in check.found[0]
    assert any(by_row in one for one in summary(model).warnings)
    by_df = f"{summary(model).pearson_dispersion:.3g}"
    label = "Pearson's statistic by residual degree of freedom; 1 is right"
    assert {"value": by_df, "label": label} in report(model).content["facts"]


def test_what_was_not_checked_is_not_fine():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=100)})
    assert "overdispersion" not in {one.code for one in checks(AHOFMRegressor(**FAST).fit(X, rng.normal(size=100)))}
    poisson = AHOFMRegressor(family="poisson", **FAST).fit(X, rng.poisson(2.0, size=100))
    assert "overdispersion" in {one.code for one in checks(poisson)}


def test_one_level_has():
    X = pd.DataFrame({"town": ["a"] * 40 + ["b"] * 40 + ["c"]})
    (thin,) = [one for one in checks(AHOFMRegressor(**FAST).fit(X, np.arange(81.0))) if one.code == "thin_data"]
    assert thin.found == ("column 'town': 1 of 3 levels has fewer than 5 rows",)


def test_effects_of_a_constant_target_are_zero():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=100), "b": rng.choice(list("xyz"), 100)})
    model = AHOFMRegressor(**FAST).fit(X, np.full(100, 3.0))
    (own,) = report(model).content["predictors"]
    assert own["each"] == own["std"] == [0.0, 0.0]
    assert not any(any(one["value"]) for one in own["effects"])
    assert not [one for one in checks(model) if one.code == "dependent_columns" and one.found]
    (own,) = report(AHOFMRegressor(**FAST).fit(X, 1e6 + 1e-3 * X["a"])).content["predictors"]
    assert own["each"][0] > 0.9


@needs_node
def test_numbers_of_a_list_end_at_the_same_place():
    calls = {
        "alike(0.42, 12.46)": "0.42",
        "alike(1.33e-6, 0.6061)": "0.0000",
        "alike(12345.6, 34567.8)": "12,346",
        "alike(2e-9, 3e-8)": "2.00e-9",
        "signed(0.00397, 0.6061)": "+0.0040",
        "signed(-1.33e-6, 0.6061)": "0.0000",
        "signed(1.33e-6, 0.6061)": "0.0000",
        "signed(-2.5, 4.546)": "-2.500",
        "signed(12345, 12345)": "+12,345",
        "signed(0, 0)": "0",
        "signed(2.7e-33, 3e-12)": "0",
        "undirected('a\\u202eb')": "ab",
    }
    asked = f"{script('format')}; console.log(JSON.stringify([{','.join(calls)}]))"
    assert dict(zip(calls, run_node(asked), strict=True)) == calls


@needs_node
def test_curves_of_whole_numbers_are_read_at_them():
    axis = '{ scale: "linear", low: 0, high: 23 }'
    column = f"{{ axis: {axis}, low: 0, high: 23, points: [], whole: true, period: null }}"
    asked = f"{script('format')}; console.log(JSON.stringify(axisOf({column}).spread(48)))"
    assert run_node(asked) == list(range(24))
    asked = asked.replace("whole: true", "whole: false")
    assert len(run_node(asked)) == 48


@pytest.mark.slow
def test_a_page_of_censored_times_says_why_it_has_no_diagnostics(opened):  # noqa: F811
    one = opened(weibull())
    assert one.locator("#diagnostics").is_visible()
    assert "may be censored" in one.locator("#diagnostics-note").text_content()
    assert not one.locator("#residual-words").is_visible()
    assert not one.locator("#bycolumn").is_visible()


@pytest.mark.slow
def test_a_probability_says_of_what(opened):  # noqa: F811
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300)})
    model = AHOFMClassifier(**FAST).fit(X, (X["a"] + rng.normal(size=300) > 0).astype(int))
    one = opened(model, {"target": "default"})
    assert one.locator("#prediction").text_content().startswith("default = 1: ")


@pytest.mark.slow
def test_numbers_of_a_row_fit_their_fields(opened):  # noqa: F811
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300) / 30, "weight": rng.integers(100_000, 300_000, 300)})
    one = opened(AHOFMRegressor(**FAST).fit(X, X["a"] + X["weight"] / 1e6))
    one.select_option("#start-row", "1")
    cells = one.evaluate("ahofm.data.rows[1].cells")
    shown = [float(one.locator(f"#in-{j}").input_value()) for j in range(2)]
    assert shown == [float(f"{cells[0]:.4g}"), cells[1]]
    assert one.evaluate(
        "[...document.querySelectorAll('.field [type=number]')].every((n) => n.scrollWidth <= n.clientWidth)"
    )


def test_a_page_speaks_only_of_what_its_model_has():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=400), "b": rng.normal(size=400)})
    said = report(AHOFMClassifier(order=2, random_state=0, n_jobs=1).fit(X, X["a"] + rng.normal(size=400) > 0)).content
    assert said["made"]["family_words"].startswith("two classes (binomial);")
    head, first, *dropped = said["fit"]["orders"]
    assert first[:2] == ["1", "100.0%"]
    assert [row[:2] for row in dropped] == [["2", "not kept"]]
    assert "validation rows" in dropped[0][head.index("on validation rows")]
    gaussian = report(AHOFMRegressor(**FAST).fit(X, rng.normal(size=400))).content
    assert "variance of the noise (dispersion)" in {one["label"] for one in gaussian["facts"]}
    with_shares = AHOFMRegressor(family="binomial", **FAST).fit(X, rng.integers(0, 2, 400).astype(float))
    assert "two classes" not in report(with_shares).content["made"]["family_words"]


def test_scores_do_not_count_rows_that_nobody_gave():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300)})
    model = AHOFMRegressor(**FAST).fit(X, np.sin(X["a"]) + 0.3 * rng.normal(size=300))
    validated = Validated(rows=150, of=200, scores={"R2": 0.9, "RMSE": 0.3})  # 200 of the 300 that differ
    told = replace(summary(model), validated=validated)
    assert "R², cross-validated on 150 rows" in {one["label"] for one in facts(model.model_, told, 1)}
    assert "cross-validated on 150 rows, each" in str(told)
    told = replace(told, validated=replace(validated, of=300))
    assert "cross-validated on 150 of 300 rows, each" in str(told)
    assert "RMSE, cross-validated on 150 of 300 rows" in {one["label"] for one in facts(model.model_, told, 1)}


def test_copies_of_rows_that_are_all_validated_are_all_rows():
    """A copy of a row may be validated in another part than the next one: there are more parts of rows than rows."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(100, 2)).round(2), columns=["a", "b"]).sample(300, replace=True, random_state=0)
    y = rng.binomial(2, 1 / (1 + np.exp(-X["a"])))
    model = AHOFMRegressor(family="ordinal", order=2, random_state=0, n_jobs=1).fit(X, y)
    found = model.model_.validated
    assert found.rows == found.of < 300
    assert "cross-validated on all rows" in str(model.summary())
    assert "cross-validated on all rows" in model._repr_html_()


def test_counts_are_judged_by_their_deviance_first():
    """Comparable with that of training, which R² is not; with the offset also in what it is compared with."""
    rng = np.random.default_rng(0)
    X, exposure = pd.DataFrame(rng.normal(size=(600, 2)), columns=["a", "b"]), rng.uniform(0.1, 1.0, 600)
    y = rng.poisson(exposure * np.exp(0.5 * X["a"]))
    model = AHOFMRegressor(family="poisson", order=2, random_state=0, n_jobs=1)
    model.fit(X, y, offset=np.log(exposure))
    scores, told = model.model_.validated.scores, summary(model)
    assert list(scores) == ["deviance explained", "R2", "RMSE"]
    assert 0.5 * told.deviance_explained < scores["deviance explained"] < told.deviance_explained
    first = facts(model.model_, told, 1)[0]
    assert first == {
        "value": f"{scores['deviance explained']:.1%}",
        "label": "deviance explained, cross-validated on all rows",
    }
    gaussian = AHOFMRegressor(order=2, random_state=0, n_jobs=1).fit(X, X["a"] + y)
    assert list(gaussian.model_.validated.scores) == ["R2", "RMSE"]


def test_an_order_that_was_not_kept_has_a_direction():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300)})
    told = summary(AHOFMRegressor(**FAST).fit(X, np.sin(X["a"]) + 0.3 * rng.normal(size=300)))
    for gain, said in (
        (0.0019, "lowered the loss on rows that were not fitted by only 0.19 ± 0.08 %"),
        (-0.003, "raised"),
    ):
        assert said in " ".join(in_words(replace(told, gains=(Gain(2, 1, gain, 0.0008, 100),)), 300))


@pytest.mark.slow
def test_no_level_of_ordered_ones_is_the_chosen_one(opened):  # noqa: F811
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300)})
    one = opened(AHOFMRegressor(family="ordinal", **FAST).fit(X, rng.binomial(2, 1 / (1 + np.exp(-X["a"])))))
    assert one.locator("#class-bars i.main").count() == 3
    assert one.locator("#class-bars i.more").count() == 0


@pytest.mark.slow
def test_long_names_of_classes_stay_on_the_page(opened):  # noqa: F811
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300)})
    y = np.array(["no", "yes " + "z" * 200, "perhaps"])[rng.binomial(2, 1 / (1 + np.exp(-X["a"])))]
    one = opened(AHOFMClassifier(**FAST).fit(X, y))
    one.select_option("#linear-predictor", "2")
    assert "z" * 200 in one.locator("#diagnostics-note").text_content()
    assert one.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.slow
def test_tall_figures_leave_room_beside_them(opened):  # noqa: F811
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"town": rng.integers(0, 60, 900).astype(str)} | {name: rng.normal(size=900) for name in "abcd"})
    y = rng.normal(size=60)[X["town"].astype(int)] + 0.3 * X["a"] + 0.2 * X["b"] + 0.1 * X["c"]
    one = opened(AHOFMRegressor(**FAST).fit(X, y))
    tops = [box.bounding_box()["y"] for box in one.locator("#curves figure").all()]
    assert len(tops) == 5
    tall = one.locator("#curves figure").first.bounding_box()
    assert tops[3] < tall["y"] + tall["height"] - 100  # the second row begins beside the levels, not below them


def test_gains_read_as_sentences():
    assert str(Gain(2, 1, 0.231, 0.012, 3476)) == (
        "order 2 predicts 3,476 validation rows better than order 1: mean loss 23 ± 1.2 % lower"
    )
    assert "worse than order 2: mean loss 0.085 ± 0.024 % higher" in str(Gain(3, 2, -0.00085, 0.00024, 100))
    assert str(Gain(3, 2, 0.0, 0.0, 1064)) == "order 3 predicts 1,064 validation rows exactly as order 2 does"
