"""The report as data, as text and in notebooks; and models that are odd in every way."""

import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest

import ahofm.report
from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.explain import effect
from ahofm.explain.arguments import model_of
from ahofm.report import report
from tests.explain.models import random_model
from tests.report.test_page import MAKERS, browser, content_of, fitted, model_named, opened  # noqa: F401 - fixtures

pytestmark = pytest.mark.filterwarnings(
    "ignore::ahofm.columns.encode.ConstantColumnWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)
SCHEMA = json.loads((Path(ahofm.report.__file__).parent / "schema.json").read_text())
FAST = {"order": 1, "effort": "fast", "random_state": 0}


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_the_json_is_what_its_schema_says(fitted, name, tmp_path):  # noqa: F811
    path = model_named(fitted, name).report(tmp_path / "report.json", target="sales", command="ahofm fit x.csv")
    found = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(found, SCHEMA)
    assert found["made"]["command"] == "ahofm fit x.csv"
    page = content_of(report(model_named(fitted, name), target="sales", command="ahofm fit x.csv").to_html())
    page["made"]["date"] = found["made"]["date"]
    assert found == {part: value for part, value in page.items() if part not in ("model", "band", "numbers")}


def test_a_model_without_rows_has_such_a_json_too():
    jsonschema.validate(json.loads(report(random_model(1, {2: 2})).to_json()), SCHEMA)
    with pytest.raises(jsonschema.ValidationError):  # the schema refuses what it does not know
        jsonschema.validate(json.loads(report(random_model(1, {2: 2})).to_json()) | {"more": 1}, SCHEMA)


def odd_rows(n=120):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a|b": rng.normal(size=n), "<img src=x onerror=alert(1)>": rng.choice(["x|y", "<b>", "*"], n)})
    return X, X["a|b"].to_numpy() + rng.normal(size=n)


def test_markdown_is_a_text_with_tables(tmp_path):
    X, y = odd_rows()
    model = AHOFMRegressor(**FAST).fit(X, y)
    text = model.report(tmp_path / "report.md", target="a *star*").read_text(encoding="utf-8")
    assert text.startswith("# What the model says about a \\*star\\*\n")
    for said in (text, model.summary().to_markdown()):
        assert "<img" not in said.replace("\\<img", "")
        tables = re.findall(r"(?:^\|.*\n)+", said, re.MULTILINE)
        assert tables
        for table in tables:
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_notebooks_show_results_with_names_as_text():
    X, y = odd_rows()
    model = AHOFMRegressor(**FAST).fit(X, y)
    shown = {
        "estimator": model._repr_mimebundle_()["text/html"],
        "summary": model.summary()._repr_html_(),
        "curve": effect(model, "a|b")._repr_html_(),
        "levels": effect(model, 1)._repr_html_(),
    }
    for name, text in shown.items():
        assert "<img" not in text, name
    assert "&lt;img" in shown["estimator"]
    assert "&lt;img" in shown["summary"]
    assert "<polygon" in shown["curve"]
    assert "<td>&lt;b&gt;</td>" in shown["levels"]
    assert "text/html" in AHOFMRegressor()._repr_mimebundle_()


def long_names():
    X, y = odd_rows()
    X.columns = ["n" * 200, "😀 \"quoted\" 'name' <script>alert(1)</script>"]
    X.iloc[:, 1] = X.iloc[:, 1].map({"x|y": "l" * 200, "<b>": "</script><script>window.hit = 1</script>", "*": "😀"})
    return AHOFMRegressor(**FAST).fit(X, y)


def one_column():
    X, y = odd_rows()
    return AHOFMRegressor(**FAST).fit(X[["a|b"]], y)


def no_effects():
    X, _ = odd_rows()
    return AHOFMRegressor(**FAST).fit(X, np.random.default_rng(1).normal(size=len(X)))


def few_rows():
    X, y = odd_rows(4)
    return AHOFMRegressor(**FAST).fit(X, y)


def two_rows():
    X, _ = odd_rows(2)
    return AHOFMRegressor(**FAST).fit(X, [0.0, 1.0])


def many_columns():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 500))).add_prefix("x")
    return AHOFMRegressor(**FAST).fit(X, X["x3"] + rng.normal(size=300)).model_  # without its band, which takes minutes


def fifty_classes():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(600, 2)), columns=["a", "b"])
    return AHOFMClassifier(**FAST).fit(X, [f"class {k}" for k in rng.integers(0, 50, 600)])


ODD = [long_names, one_column, no_effects, few_rows, two_rows, many_columns, fifty_classes]


@pytest.mark.slow
@pytest.mark.parametrize("make", ODD)
def test_the_page_stays_usable(opened, make):  # noqa: F811
    model = make()
    target = "😀 \"quoted\" <img src=x onerror='window.hit = 1'> " + "t" * 200
    one = opened(model, made={"target": target}, viewport={"width": 390, "height": 844})
    assert one.evaluate("window.hit") is None
    assert target in one.locator("#title").text_content()
    assert one.evaluate("document.documentElement.scrollWidth") <= 390
    assert one.locator("script").count() == 2
    assert one.locator("#prediction").text_content()
    for button in ("#more-curves", "#more-columns", "#more-inputs"):
        if one.locator(button).is_visible():
            one.click(button)
    assert one.locator("#curves figure").count() == sum(book.size > 0 for book in model_of(model).encoder.codebooks)
    jsonschema.validate(json.loads(report(model).to_json()), SCHEMA)
