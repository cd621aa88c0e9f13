"""The estimators are scikit-learn's: its own checks in full, and the machinery people combine them with."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from ahofm import AHOFMClassifier, AHOFMRegressor, Cyclic
from ahofm.explain import shapley_values
from tests.fit.fits import simulated

X, Y, TRUTH = simulated(300)
FAST = {"smoothing": "df", "max_iter": 30, "tol": 1e-2, "random_state": 0}

CHECKS = """
import json, sys, warnings
warnings.simplefilter("ignore")
from sklearn.utils.estimator_checks import check_estimator
import ahofm
found = check_estimator(getattr(ahofm, sys.argv[1])(), on_fail=None, on_skip=None)
keys = ("check_name", "status", "exception", "expected_to_fail")
print(json.dumps([[str(one[key]) for key in keys] for one in found]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["AHOFMRegressor", "AHOFMClassifier"])
def test_check_estimator_in_full(name):
    """In a process of its own: one of the checks is skipped unless SciPy is told at its import to take array APIs."""
    done = subprocess.run(
        [sys.executable, "-c", CHECKS, name],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) > 50
    assert [one for one in found if one[1] != "passed" or one[3] != "False"] == []


def test_clone_keeps_every_parameter():
    model = AHOFMRegressor(order=3, rank={2: 4, 3: 2}, columns={"x0": Cyclic()}, df={1: 5}, random_state=3)
    assert clone(model).get_params() == model.get_params()


def test_fit_does_not_touch_parameters():
    model = AHOFMRegressor(rank={2: 2}, df={"x1": 4}, **FAST)
    before = {name: repr(value) for name, value in model.get_params().items()}
    model.fit(X, Y)
    assert {name: repr(value) for name, value in model.get_params().items()} == before


def test_pickle_predicts_the_same():
    model = AHOFMRegressor(**FAST).fit(X, Y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_grid_search_and_cross_validation():
    search = GridSearchCV(AHOFMRegressor(**FAST), {"order": [1, 2], "rank": [1, 2]}, cv=3).fit(X, Y)
    assert search.best_params_["order"] == 2
    assert cross_val_score(AHOFMRegressor(order=1, **FAST), X, Y, cv=3).mean() > 0.5


def test_pipelines_and_set_output():
    frame = pd.DataFrame(X, columns=list("abcd")).assign(town=np.where(X[:, 3] > 0, "Bonn", "Celle"))
    scale = ColumnTransformer([("scale", StandardScaler(), list("abcd"))], remainder="passthrough")
    pipe = make_pipeline(scale.set_output(transform="pandas"), AHOFMRegressor(**FAST)).fit(frame, Y)
    assert pipe[-1].feature_names_in_.tolist() == [*(f"scale__{name}" for name in "abcd"), "remainder__town"]
    assert [book.describe()["kind"] for book in pipe[-1].model_.encoder.codebooks][-1] == "Categorical"
    assert pipe.score(frame, Y) > 0.7


def test_metadata_routing_of_weights_and_offsets():
    weight, offset = np.random.default_rng(0).uniform(0.5, 2.0, 300), X[:, 0]
    direct = AHOFMRegressor(**FAST).fit(X, Y, sample_weight=weight, offset=offset)
    with sklearn.config_context(enable_metadata_routing=True):
        step = AHOFMRegressor(**FAST).set_fit_request(sample_weight=True, offset=True)
        step = step.set_score_request(sample_weight=True, offset=True).set_predict_request(offset=True)
        pipe = make_pipeline("passthrough", step).fit(X, Y, sample_weight=weight, offset=offset)
        np.testing.assert_array_equal(pipe.predict(X, offset=offset), direct.predict(X, offset=offset))
        score = pipe.score(X, Y, sample_weight=weight, offset=offset)
        assert score == direct.score(X, Y, sample_weight=weight, offset=offset)
        search = GridSearchCV(step, {"order": [1, 2]}, cv=3).fit(X, Y, sample_weight=weight, offset=offset)
        assert search.best_score_ > 0.5


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table, list], ids=["pandas", "polars", "arrow", "list"]
)
def test_every_kind_of_table(make):
    columns = {f"x{j}": X[:, j] for j in range(4)}
    plain = AHOFMRegressor(**FAST).fit(X, Y)
    table = X.tolist() if make is list else make(columns)
    model = AHOFMRegressor(**FAST).fit(table, Y)
    np.testing.assert_allclose(model.predict(table), plain.predict(X), rtol=1e-12)
    theirs = FunctionTransformer().fit(table)  # which tables have names depends on scikit-learn's version
    assert hasattr(model, "feature_names_in_") == hasattr(theirs, "feature_names_in_")
    assert model.model_.encoder.names == tuple(columns)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_columns_with_names_may_be_in_any_order(make):
    columns = {name: X[:, j] for j, name in enumerate("abcd")}
    turned = make({name: columns[name] for name in "cadb"})
    model = AHOFMRegressor(**FAST).fit(make(columns), Y)
    expected = model.predict(make(columns))
    np.testing.assert_array_equal(model.predict(turned), expected)
    np.testing.assert_array_equal(model.predict_interval(turned), model.predict_interval(make(columns)))
    why = shapley_values(model, turned)
    np.testing.assert_allclose(why.base + why.values.sum(axis=1), expected)
    with pytest.raises(ValueError, match=r"not those of training; missing: 'a', 'b'; not seen in training: 'z'"):
        model.predict(make({"c": columns["c"], "d": columns["d"], "z": columns["a"]}))
    with pytest.raises(ValueError, match=r"not those of training; not seen in training: 'id'"):
        model.predict(make({**columns, "id": columns["a"]}))


def test_missing_values_and_text_in_lists():
    rows = [[1.0, "a"], [None, "b"], [2.0, "a"], [3.0, None], [0.5, "b"], [1.5, "a"]] * 20
    y = np.array([1.0, 2.0, 1.0, 0.0, 2.0, 1.0] * 20)
    assert AHOFMRegressor(order=1, **FAST).fit(rows, y).score(rows, y) > 0.9


def test_classifier_with_labels_of_any_kind():
    labels = np.array(["no", "yes"])[(TRUTH > 0.3).astype(int)]
    model = AHOFMClassifier(**FAST).fit(X, labels)
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(X)) <= {"no", "yes"}
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X) == "yes", proba[:, 1] > 0.5)
    np.testing.assert_array_equal(model.decision_function(X) > 0, proba[:, 1] > 0.5)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(proba))
    assert model.score(X, labels) > 0.9
    three = np.digitize(TRUTH, [0.0, 0.7]) * 10
    many = AHOFMClassifier(**FAST).fit(X, three)
    assert many.predict_proba(X).shape == many.decision_function(X).shape == (300, 3)
    assert many.predict(X).dtype == three.dtype
    assert many.score(X, three) > 0.8


def test_trace_and_progress(capfd):
    model = AHOFMRegressor(verbose=1, **FAST).fit(X, Y)
    shown = capfd.readouterr()
    assert "objective" in shown.err
    assert shown.out == ""
    assert model.n_iter_ == model.trace_.n_iter == len(model.trace_.records) - 1
    assert set(model.trace_.seconds) == {"learn", "setup", "rows", "solve"}
    AHOFMRegressor(**FAST).fit(X, Y)
    assert capfd.readouterr() == ("", "")
