"""Rows that were not fitted, in a report: their scores first, their rows in the diagnostics."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, r2_score

import ahofm
import ahofm.report
from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.report import report
from tests.report.test_page import browser, fitted, opened  # noqa: F401 - fixtures

SCHEMA = json.loads((Path(ahofm.report.__file__).parent / "schema.json").read_text())
FAST = {"order": 1, "effort": "fast", "random_state": 0}


def rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(-1, 1, size=(n, 2)), columns=["a", "b"])
    return X, np.sin(3 * X["a"].to_numpy()), rng


@pytest.fixture(scope="module")
def model():
    X, eta, rng = rows()
    return AHOFMRegressor(**FAST).fit(X, eta + 0.3 * rng.normal(size=len(X)))


def test_scores_of_rows_that_were_not_fitted_come_first(model):
    X, eta, rng = rows(90, seed=1)
    y = eta + 0.3 * rng.normal(size=90)
    made = report(model, X=X, y=y)
    found = json.loads(made.to_json())
    jsonschema.validate(found, SCHEMA)
    said = found["held_out"]
    assert said["rows"] == 90
    assert said["scores"]["R2"] == pytest.approx(r2_score(y, model.predict(X)))
    assert said["scores"]["RMSE"] == pytest.approx(mean_squared_error(y, model.predict(X)) ** 0.5)
    assert said["scores"]["deviance explained"] == pytest.approx(model.score(X, y))
    assert found["facts"][0]["label"] == "R², on 90 rows that were not fitted"
    assert found["diagnostics"]["rows"] == 90
    assert found["diagnostics"]["held_out"]
    np.testing.assert_allclose(found["diagnostics"]["groups"][0]["overall"], y.mean(), rtol=1e-4)
    shown = {row["number"]: row["actual"] for row in found["rows"]}
    assert all(actual == pytest.approx(y[number - 1]) for number, actual in shown.items())
    assert "rows that were not fitted" in made.to_markdown()
    plain = report(model).content
    assert plain["held_out"] is None
    assert not plain["diagnostics"]["held_out"]


def test_classes_weights_and_a_model_without_training_rows(tmp_path):
    X, eta, rng = rows()
    y = np.array(["no", "yes"])[(eta + 0.5 * rng.normal(size=len(X)) > 0).astype(int)]
    AHOFMClassifier(**FAST).fit(X, y).save(tmp_path / "m.ahofm")
    model = ahofm.load(tmp_path / "m.ahofm")
    new, eta, rng = rows(80, seed=2)
    labels = np.array(["no", "yes"])[(eta + 0.5 * rng.normal(size=80) > 0).astype(int)]
    weight = rng.uniform(0.5, 2.0, 80)
    found = model.report(X=new, y=labels, sample_weight=weight).content
    p = model.predict_proba(new)
    scores = found["held_out"]["scores"]
    assert scores["log-loss"] == pytest.approx(log_loss(labels, p, sample_weight=weight))
    assert scores["accuracy"] == pytest.approx(accuracy_score(labels, model.predict(new), sample_weight=weight))
    assert found["diagnostics"]["rows"] == 80  # a loaded model has none of training
    assert len(found["rows"]) == 12
    assert {row["actual"] for row in found["rows"]} <= {"no", "yes"}


def test_exposures_and_censored_times():
    X, eta, rng = rows()
    exposure = rng.uniform(0.2, 1.0, len(X))
    counts = rng.poisson(exposure * np.exp(eta))
    model = AHOFMRegressor(family="poisson", **FAST).fit(X, counts, offset=np.log(exposure))
    found = report(model, X=X[:50], y=counts[:50], offset=np.log(exposure[:50])).content
    expected = mean_squared_error(counts[:50], model.predict(X[:50], offset=np.log(exposure[:50]))) ** 0.5
    assert found["held_out"]["scores"]["RMSE"] == pytest.approx(expected)
    assert found["exposed"]
    times = np.exp(eta) * rng.exponential(size=len(X))
    y = np.column_stack([np.minimum(times, 2.0), times <= 2.0])
    lasting = AHOFMRegressor(family="weibull", **FAST).fit(X, y)
    found = report(lasting, X=X[:50], y=y[:50]).content
    assert 0.5 < found["held_out"]["scores"]["concordance"] <= 1.0
    assert found["diagnostics"] is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": [1.0]}, "y is given without X"),
        ({"X": rows(3)[0]}, "y is None: the rows of X were not fitted"),
        ({"X": rows(3)[0], "y": [1.0, 2.0]}, "a target for each of the 3 rows of X, got shape"),
        ({"X": rows(3)[0][["a"]], "y": [1.0, 2.0, 3.0]}, "b"),
        ({"X": rows(3)[0], "y": [1.0, np.nan, 3.0]}, "y"),
        ({"X": rows(3)[0], "y": [1.0, 2.0, 3.0], "sample_weight": [1.0]}, "sample_weight has shape"),
        ({"X": rows(3)[0], "y": [1.0, 2.0, 3.0], "offset": [1.0]}, "offset has shape"),
        ({"X": rows(3)[0][:0], "y": []}, "no rows|0 sample|empty"),
    ],
)
def test_what_makes_no_sense_is_refused(model, given, message):
    with pytest.raises(ValueError, match=message):
        report(model, **given)


def test_one_row_that_was_not_fitted(model):
    X, _, _ = rows(1)
    found = report(model, X=X, y=[0.5]).content
    assert found["held_out"]["rows"] == 1
    assert any("1 row that was not fitted" in fact["label"] for fact in found["facts"])
    assert set(found["held_out"]["scores"]) == {"RMSE"}  # there is no variance to explain


def test_targets_that_are_all_alike_have_no_variance_to_explain(model):
    X, _, _ = rows(20)
    scores = report(model, X=X, y=np.full(20, 0.5)).content["held_out"]["scores"]
    assert set(scores) == {"RMSE"}
    assert "R2" in report(model, X=X, y=np.arange(20.0), sample_weight=np.ones(20)).content["held_out"]["scores"]


@pytest.mark.slow
def test_the_page_says_whose_rows_they_are(opened, model, tmp_path):  # noqa: F811
    X, eta, _ = rows(60, seed=3)
    one = opened(model, made={"X": X, "y": eta})
    assert one.locator("#diagnostics-note").text_content() == "60 rows that were not fitted."
    assert "not fitted" in one.locator("#facts li").first.text_content()


@pytest.mark.slow
def test_a_page_of_a_single_row(opened, model):  # noqa: F811
    X, eta, _ = rows(1)
    one = opened(model, made={"X": X, "y": eta})
    assert one.locator("#start-row option").count() == 2
    one.select_option("#start-row", "0")
    assert "row 1: actual" in one.locator("#prediction-note").text_content()
    assert one.locator("#columns figure").count() == 2
