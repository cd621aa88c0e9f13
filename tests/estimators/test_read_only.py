"""A fitted estimator does not change: whatever it is asked, by however many threads, in copies and pickles."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import joblib
import numpy as np
import pandas as pd
import pytest

from ahofm import AHOFMClassifier, AHOFMRegressor, explain, plot
from ahofm.estimators import training

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.uniform(-1, 1, size=(200, 3)), columns=["wind", "rain", "sun"])
Y = np.sin(3 * X.wind) + 2 * X.rain * X.sun + 0.1 * RNG.normal(size=200)
FAST = {"order": 2, "factor_prior": "spline", "n_members": 1, "random_state": 0}


@pytest.fixture
def model():
    return AHOFMRegressor(**FAST).fit(X, Y)


@pytest.fixture
def classifier():
    return AHOFMClassifier(**FAST).fit(X, np.where(Y + RNG.logistic(size=200) > 0, "yes", "no"))


def state_of(estimator):
    """Every attribute by identity, and the whole of it by value."""
    return {name: id(value) for name, value in vars(estimator).items()}, joblib.hash(estimator)


ASKED = {
    "predict": lambda m, _: m.predict(X),
    "predict_eta": lambda m, _: m.predict_eta(X, return_std=True),
    "edf_": lambda m, _: m.edf_,
    "feature_importances_": lambda m, _: m.feature_importances_,
    "with_uncertainty": lambda m, _: m.with_uncertainty(),
    "summary": lambda m, _: m.summary(),
    "save": lambda m, folder: m.save(folder / "model"),
    "report": lambda m, folder: m.report(folder / "page.html"),
    "plot": lambda m, _: m.plot(),
    "sample": lambda m, _: m.sample(X),
    "effect": lambda m, _: explain.effect(m, ["rain", "sun"]),
    "contributions": lambda m, _: explain.contributions(m, X),
    "shapley_values": lambda m, _: explain.shapley_values(m, X),
    "variance_shares": lambda m, _: explain.variance_shares(m),
    "top_interactions": lambda m, _: explain.top_interactions(m),
    "marginals": lambda m, _: explain.marginals(m, ["rain", "sun"]),
    "factors": lambda m, _: explain.factors(m),
    "shares": lambda m, _: plot.SharesDisplay.from_estimator(m),
    "trace": lambda m, _: plot.TraceDisplay.from_estimator(m),
}
OF_MEANS = {
    "predict_interval": lambda m, _: m.predict_interval(X),
    "new": lambda m, _: m.predict_interval(X, kind="new"),
    "pit": lambda m, _: m.pit(X, Y),
    "aic": lambda m, _: m.aic(X, Y),
    "score": lambda m, _: m.score(X, Y),
    "diagnostics": lambda m, _: plot.DiagnosticsDisplay.from_estimator(m, X, Y),
}


@pytest.mark.parametrize("kind", ["model", "classifier"])
def test_questions_do_not_change_an_estimator(kind, request, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    estimator = request.getfixturevalue(kind)
    before = state_of(estimator)
    for name, ask in (ASKED | (OF_MEANS if kind == "model" else {})).items():
        ask(estimator, tmp_path)
        assert state_of(estimator) == before, name
    plt.close("all")
    assert estimator.model_.band is None


def test_threads_get_equal_results_and_the_band_is_computed_once(model, monkeypatch):
    computed, own, start = [], training.band_of, Barrier(8)

    def counted(*given):
        computed.append(1)
        return own(*given)

    monkeypatch.setattr(training, "band_of", counted)

    def ask(k):
        asked = copy.deepcopy(model) if k % 4 == 0 else copy.copy(model) if k % 4 == 1 else model
        start.wait()
        return asked.predict_interval(X), explain.effect(asked, "wind").low, str(asked.summary()), asked.band_

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert sum(computed) == 1
    for intervals, low, said, band in found[1:]:
        np.testing.assert_array_equal(intervals, found[0][0])
        np.testing.assert_array_equal(low, found[0][1])
        assert said == found[0][2]
        assert band is found[0][3]


def test_with_uncertainty_is_a_copy(model):
    made = model.with_uncertainty()
    assert made is not model
    assert made.model_.band is model.band_
    assert model.model_.band is None
    assert type(made.with_uncertainty()) is AHOFMRegressor
    again = pickle.loads(pickle.dumps(made))
    assert again.training_ is None
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))


def test_training_rows_are_public_and_not_pickled(model):
    rows = model.training_
    assert (rows.n_rows, rows.table.names, rows.weight, rows.offset) == (200, ("wind", "rain", "sun"), None, None)
    np.testing.assert_array_equal(rows.y, Y)
    assert rows.model is rows.model
    model.predict_interval(X)
    left = pickle.loads(pickle.dumps(model))
    assert left.training_ is None
    assert len(pickle.dumps(model)) < len(pickle.dumps(model.with_uncertainty()))
    for ask in (lambda: left.save("model"), lambda: left.predict_interval(X), lambda: left.edf_):
        with pytest.raises(ValueError, match=r"training rows are not here any more.*with_uncertainty\(X, y\)"):
            ask()
    with pytest.raises(ValueError, match="y is None"):
        left.with_uncertainty(X)
    back = left.with_uncertainty(X, Y)
    np.testing.assert_array_equal(back.predict_interval(X), model.predict_interval(X))
    assert back.summary().deviance_explained == model.summary().deviance_explained


def test_another_fit_has_another_band(model):
    first = model.band_
    assert model.fit(X, Y + X.wind).band_ is not first
