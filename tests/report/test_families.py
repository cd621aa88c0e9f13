"""The page of every family: what it says of effects, means that it cannot evaluate, censored times, edits."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest

import ahofm.report
from ahofm import AHOFMHazard, AHOFMRegressor
from ahofm.explain import observed_and_fitted
from ahofm.families import FAMILIES, Gaussian, Multinomial, find_family
from ahofm.report import report
from ahofm.report.made import family_words
from tests.report.test_page import browser, fitted, opened  # noqa: F401 - fixtures

SCHEMA = json.loads((Path(ahofm.report.__file__).parent / "schema.json").read_text())
FAST = {"order": 2, "effort": "fast", "random_state": 0}


def rows(n=200):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, size=(n, 2)), columns=["a", "b"])
    return X, X["a"].to_numpy() + X["a"].to_numpy() * X["b"].to_numpy(), rng


def times():
    X, eta, rng = rows()
    lifetime, end = np.exp(eta) * rng.exponential(size=len(X)), rng.exponential(2.0, len(X))
    return X, np.column_stack([np.minimum(lifetime, end), lifetime <= end])


def targets(name):
    X, eta, rng = rows()
    made = {
        "ordinal": lambda: np.digitize(eta + rng.logistic(size=len(X)), [-1.0, 0.5]),
        "beta": lambda: rng.beta(5 / (1 + np.exp(-eta)), 5 / (1 + np.exp(eta))),
        "zero_inflated_poisson": lambda: rng.poisson(np.exp(1 + eta)) * (rng.random(len(X)) > 0.3),
    }
    return (X, made[name]()) if name in made else times()


LINKS = {
    "ordinal": "levels",
    "beta": "logit",
    "zero_inflated_poisson": "zero_inflated",
    "log_normal": "log",
    "log_logistic": "log",
    "weibull": "log",
}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_words(name):
    family = Multinomial(n_classes=3) if name == "multinomial" else find_family(name)
    words = family_words(family, "log")
    assert words.count(";") >= 1
    assert not words.startswith(f"{family.name};")


@pytest.mark.slow
def test_parts_of_a_prediction_are_factors_where_effects_are(opened):  # noqa: F811
    X, eta, rng = rows()
    exposure = rng.uniform(0.2, 1.0, len(X))
    model = AHOFMRegressor(family="poisson", **FAST).fit(
        X, rng.poisson(exposure * np.exp(eta)), offset=np.log(exposure)
    )
    one = opened(model)
    shares = one.evaluate("ahofm.explain(0, [0.25, -0.5]).shares")
    one.locator("#in-0").fill("0.25")
    one.locator("#in-1").fill("-0.5")
    read = [float(text.removeprefix("× ")) for text in one.locator("#parts .number").all_text_contents()]
    assert sorted(read) == pytest.approx(sorted(np.exp(shares)), rel=1e-3)
    assert "These factors multiply" in one.locator("#parts").text_content()
    assert "95 % interval of the mean per unit of exposure" in one.locator("#prediction-note").text_content()
    one.select_option("#scale-choice", "link")
    read = [float(text) for text in one.locator("#parts .number").all_text_contents()]
    assert sorted(read) == pytest.approx(sorted(shares), abs=1e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ahofm.inference.dispersion.DispersionWarning")
@pytest.mark.parametrize("name", LINKS)
def test_new_families_have_a_report(name):
    X, y = targets(name)
    model = AHOFMRegressor(family=name, **FAST).fit(X, y)
    found = json.loads(report(model).to_json())
    jsonschema.validate(found, SCHEMA)
    assert found["link"] == LINKS[name]
    assert (found["diagnostics"] is None) == model.model_.family.censored


def weibull():
    X, y = times()
    return AHOFMRegressor(family="weibull", **FAST).fit(X, y)


def test_censored_times_are_told_and_not_averaged():
    model = weibull()
    actual = [row["actual"] for row in report(model).content["rows"]]
    assert any(isinstance(one, str) and one.startswith("more than ") for one in actual)
    assert all(one > 0.0 for one in actual if not isinstance(one, str))
    with pytest.raises(ValueError, match="may be censored, so there are no observed means"):
        observed_and_fitted(model, "a")


def test_hazards_are_rates():
    X, y = times()
    hazard = AHOFMHazard(AHOFMRegressor(order=1, effort="fast", random_state=0), n_intervals=4).fit(X, y)
    found = report(hazard.regressor_).content
    assert found["exposed"]
    assert found["made"]["family_words"].startswith("counts (Poisson) per unit of exposure: rates, or hazards; ")


def test_edits_are_in_every_form():
    X, eta, rng = rows()
    model = AHOFMRegressor(**FAST).fit(X, eta + 0.1 * rng.normal(size=len(X))).clip_effect("a", -0.5, 0.5)
    (edit,) = model.model_.edits
    made = report(model)
    assert made.content["made"]["edits"] == [str(edit)]
    assert "- edit: " in made.to_markdown()
    assert f"edited by hand: {edit}" in str(model.summary())
    assert "- edited by hand: " in model.summary().to_markdown()
    assert "edited by hand: " in model.summary()._repr_html_()


@dataclass(frozen=True)
class SinhMean(Gaussian):
    """A family of a user, whose mean is no link that the page knows."""

    def mean(self, eta):
        return np.sinh(eta[:, 0])


@pytest.mark.slow
def test_a_page_whose_mean_is_unknown_says_so(opened):  # noqa: F811
    X, eta, rng = rows()
    model = AHOFMRegressor(family=SinhMean(), **FAST).fit(X, eta + 0.1 * rng.normal(size=len(X)))
    one = opened(model)
    X = pd.DataFrame([{"a": 0.25, "b": -0.5}])
    found = one.evaluate("ahofm.predict([0.25, -0.5])")
    assert found["etas"][0] == pytest.approx(model.model_.eta(X)[0, 0], rel=1e-9)
    assert one.locator("#prediction").text_content().startswith("linear predictor ")
    assert "95 % interval of the linear predictor" in one.locator("#prediction-note").text_content()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ahofm.inference.dispersion.DispersionWarning")
@pytest.mark.parametrize("name", LINKS)
def test_pages_predict_what_the_family_predicts(opened, name):  # noqa: F811
    """Medians of times, expected levels with their probabilities, counts with zeros: as in Python, with intervals."""
    X, y = targets(name)
    model = AHOFMRegressor(family=name, **FAST).fit(X, y)
    one = opened(model)
    new = pd.DataFrame({"a": [0.25, -0.9, 1.5], "b": [-0.5, 0.0, 0.3]})
    found = one.evaluate("rows => rows.map(row => ahofm.predict(row).mean)", new.to_numpy().tolist())
    np.testing.assert_allclose(found, model.predict(new), rtol=1e-9)
    start = one.evaluate("ahofm.data.rows[2].cells")
    one.select_option("#start-row", "2")
    row = pd.DataFrame([start], columns=["a", "b"])
    if name != "zero_inflated_poisson":
        np.testing.assert_allclose(one.evaluate("ahofm.last.interval"), model.predict_interval(row)[0], rtol=2e-2)
    if name in ("log_normal", "log_logistic", "weibull"):
        assert one.locator("#prediction").text_content().startswith("median ")
    if name == "ordinal":
        said = one.locator("#class-bars .name").all_text_contents()
        assert said == ["level 0", "level 1", "level 2"]
        shown = [float(text.strip(" %<")) for text in one.locator("#class-bars .number").all_text_contents()]
        np.testing.assert_allclose(shown, 100 * model.predict_proba(row)[0], atol=0.6)


@pytest.mark.slow
def test_each_linear_predictor_has_scales_of_its_own(opened):  # noqa: F811
    X, eta, rng = rows(400)
    y = eta + np.exp(0.5 * X["b"]) * rng.normal(size=len(X))
    one = opened(AHOFMRegressor(family="gaussian_location_scale", **FAST).fit(X, y))
    assert one.locator("#linear-predictor option").all_text_contents() == ["mean", "standard deviation"]
    mean = one.locator("#scale-choice option").all_text_contents()
    one.select_option("#linear-predictor", label="standard deviation")
    assert one.locator("#scale-choice option").all_text_contents() != mean
    assert one.locator("#scale-choice option").first.text_content() == "factor of the standard deviation"
    assert "× ÷" in one.locator("#column-shares .number").first.text_content()


def test_estimated_parameters_are_said_with_four_digits():
    X, y = times()
    family = report(AHOFMRegressor(family="weibull", **FAST).fit(X, y)).content["made"]["family"]
    assert re.fullmatch(r"Weibull\(scale=\d(\.\d{1,4})?\)", family)
