"""Observed against fitted, order and residuals, against sums by hand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.explain import checks, observed_and_fitted
from ahofm.explain.assessment import assess, lorenz, tenths
from ahofm.explain.axis import axis_of

FAST = {"order": 1, "effort": "fast", "random_state": 0}


def claims(n=800):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "area": rng.choice(["town", "land", None], n),
            "value": rng.lognormal(8, 1.2, n),
        }
    )
    e = rng.uniform(0.2, 1.0, n)
    y = rng.poisson(e * np.exp(0.02 * (X["age"] - 40)))
    return X, y, e


@pytest.fixture(scope="module")
def counts():
    X, y, e = claims()
    return AHOFMRegressor(family="poisson", **FAST).fit(X, y, offset=np.log(e)), X, y, e


def test_means_by_level_are_sums_over_exposures(counts):
    model, X, y, e = counts
    found = observed_and_fitted(model, "area")
    assert found.names == ("land", "town", None)
    fitted = model.predict(X, np.log(e))
    for place, rows in enumerate([X["area"] == "land", X["area"] == "town", X["area"].isna()]):
        assert found.size[place] == pytest.approx(e[rows].sum())
        assert found.observed[place] == pytest.approx(y[rows].sum() / e[rows].sum())
        assert found.fitted[place] == pytest.approx(fitted[rows].sum() / e[rows].sum())
        assert found.error[place] == pytest.approx(np.sqrt(((y - fitted)[rows] ** 2).sum()) / e[rows].sum())
    assert found.to_frame()["group"].tolist() == ["land", "town", "missing"]


def test_all_rows_are_in_some_bin_and_some_tenth(counts):
    model, X, y, e = counts
    for found in (observed_and_fitted(model, "value"), observed_and_fitted(model, "age"), tenths(assess(model))):
        assert found.size.sum() == pytest.approx(e.sum())
        assert (found.size * found.observed).sum() == pytest.approx(y.sum())
    assert (np.diff(tenths(assess(model)).fitted) > 0).all()
    few = observed_and_fitted(model, "age", X[:7], y[:7], offset=np.log(e[:7]))
    assert few.size.sum() == pytest.approx(e[:7].sum())


def test_gini_of_two_classes_is_that_of_the_roc_curve():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"a": rng.normal(size=400)})
    y = rng.random(400) < 1 / (1 + np.exp(-X["a"]))
    model = AHOFMClassifier(**FAST).fit(X, y)
    found = lorenz(assess(model))
    auroc = roc_auc_score(y, model.predict_proba(X)[:, 1])
    assert found.gini / found.best == pytest.approx(2 * auroc - 1, abs=1e-6)


def test_axes_show_where_the_rows_are(counts):
    model, X, _, _ = counts
    age, _, value = (book for book in model.model_.encoder.codebooks)
    assert axis_of(value).scale == "log"
    assert axis_of(age).scale == "linear"
    assert axis_of(age).whole
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"tail": np.r_[rng.uniform(0, 1, 995), [50.0, 60, 70, 80, 90]], "month": np.tile(range(1, 11), 100)}
    )
    books = AHOFMRegressor(**FAST).fit(X, X["month"] + rng.normal(size=1000)).model_.encoder.codebooks
    assert axis_of(books[0]).high < 1.01
    assert axis_of(books[0]).beyond == pytest.approx(0.005, abs=0.006)
    assert axis_of(books[1]).points.tolist() == list(range(1, 11))


def test_checks_find_what_is_there():
    rng = np.random.default_rng(0)
    n = 400
    X = pd.DataFrame({"id": np.arange(n), "name": [f"n{k}" for k in range(n)], "x": rng.normal(size=n)})
    X["rare"] = np.where(np.arange(n) < 3, "rare", "often")
    X["twin"] = X["x"] + 0.01 * rng.normal(size=n)
    model = AHOFMRegressor(**FAST).fit(X, X["x"] + 0.5 * rng.normal(size=n))
    found = {check.code: check for check in checks(model)}
    assert ["'id'" in found["identifiers"].found[0], "'name'" in found["identifiers"].found[1]] == [True, True]
    assert any("'rare'" in said for said in found["thin_data"].found)
    assert "'twin'" in found["dependent_columns"].found[0]
    assert found["convergence"].passed
    passed = [check.passed for check in checks(model)]
    assert passed == sorted(passed)
    plain = AHOFMRegressor(**FAST).fit(X[["x"]], X["x"] + rng.normal(size=n))
    assert all(check.passed for check in checks(plain))
