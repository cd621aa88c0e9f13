"""Effort and time budget: what is tried, and what there is when the time is over."""

import time
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.families import Gaussian
from ahofm.fit import Settings, TimeBudgetWarning, fit_model
from ahofm.fit.stacking import ensemble
from ahofm.fit.stacking.members import FirstFit
from ahofm.model import Reason
from ahofm.training.runner import Deadline

pytestmark = pytest.mark.filterwarnings("ignore:the fit stopped at max_iter")

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(300, 3))
Y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * RNG.normal(size=300)


def sources(model):
    """Candidates and orders in the choice of interactions."""
    return model.choices[0].value


def test_balanced_is_the_default():
    given, plain = (
        fit_model(X, Y, settings=Settings(order=2, max_iter=3, **more)) for more in ({"effort": "balanced"}, {})
    )
    assert given.predict(X).tobytes() == plain.predict(X).tobytes()
    assert plain.validated.rows == plain.validated.of == 300


def test_fast_is_one_fit_without_a_search():
    fast = fit_model(X, Y, settings=Settings(effort="fast"))
    one = fit_model(X, Y, settings=Settings(factor_prior="random_walk", n_members=1))
    assert fast.trace.seconds["search"] < 0.5 * fast.trace.seconds["fit"]
    assert (fast.gains, fast.validated) == ((), None)
    assert sources(fast) == "100% random_walk at order 3"
    assert one.ranks == fast.ranks
    assert float(np.mean((fast.predict(X) - Y) ** 2)) < 0.1 * Y.var()


def test_what_is_asked_for_counts_whatever_the_effort():
    model = fit_model(X, Y, settings=Settings(effort="fast", factor_prior="spline", n_members=2, order=2, max_iter=3))
    assert sources(model) == "100% spline at order 2"
    assert model.ranks[2] > 4  # of two members of rank 4, before some are dropped


@pytest.mark.slow
def test_best_tries_wide_candidates_too():
    model = fit_model(X, Y, settings=Settings(effort="best", order=2, max_iter=6))
    assert "wide random_walk" in model.choices[0].reason
    assert float(np.mean((model.predict(X) - Y) ** 2)) < 0.1 * Y.var()


@pytest.mark.parametrize("value", [0, -1, -0.5, float("nan"), "fast", True, [3]])
def test_a_budget_is_a_positive_number(value):
    with pytest.raises(ValueError, match="time_budget must be None or a positive number of seconds, got"):
        AHOFMRegressor(time_budget=value).fit(X, Y)


def test_an_effort_is_one_of_three():
    with pytest.raises(ValueError, match="effort must be one of 'fast', 'balanced', 'best', got 'slow'"):
        AHOFMClassifier(effort="slow").fit(X, Y > 0)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"order": 1},
        {"order": "auto"},
        {"effort": "fast"},
        {"factor_prior": "spline"},
        {"smoothing": "df"},
        {"smoothing": "df", "solver": "bcd"},
        {"solver": "subsample"},
        {"family": "gaussian_location_scale"},
    ],
    ids=str,
)
def test_there_is_a_model_however_short_the_time(settings):
    model = AHOFMRegressor(time_budget=1e-9, random_state=0, **settings)
    with pytest.warns(TimeBudgetWarning, match=r"raise time_budget=1e-09, use effort='fast'"):
        model.fit(X, Y)
    assert model.trace_.reason is Reason.TIME
    assert np.isfinite(model.predict(X)).all()
    assert model.score(X, Y) > (0.3 if "smoothing" not in settings else -0.01)


def test_classes_have_a_model_too():
    with pytest.warns(ConvergenceWarning, match="ran out of time_budget"):
        model = AHOFMClassifier(time_budget=1e-9).fit(X, np.digitize(Y, [-0.5, 0.5]))
    assert model.score(X, np.digitize(Y, [-0.5, 0.5])) > 0.5


def test_nothing_is_said_when_all_is_done():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AHOFMRegressor(order=2, time_budget=3600, random_state=0).fit(X, Y)
    assert model.trace_.reason is not Reason.TIME
    free = AHOFMRegressor(order=2, random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), free.predict(X), atol=0.05)


class Clock:
    """Seconds that pass when somebody looks."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


@pytest.mark.parametrize("budget", [1.0, 20.0, 100.0, 300.0, 1000.0])
def test_more_time_is_more_of_the_fit(monkeypatch, budget):
    """A clock that ticks when it is read: what has been done by then depends on nothing else."""
    clock = Clock(0.25)
    monkeypatch.setattr("ahofm.training.runner.time.perf_counter", clock)
    monkeypatch.setattr("ahofm.fit.stacking.ensemble.time.perf_counter", clock)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TimeBudgetWarning)
        model = fit_model(X, Y, settings=Settings(order=2, time_budget=budget, n_threads=1))
    left = float(np.mean((model.predict(X) - Y) ** 2) / Y.var())
    assert left < (0.5 if budget < 100.0 else 0.06)
    if model.trace.reason is not Reason.TIME:
        assert model.validated is not None


def test_unfinished_members_do_not_spoil_a_complete_one(monkeypatch):
    """Time is over in the middle of the second member: the first is the model."""
    complete = ensemble.fit_first

    def hurried(problem, candidates, plan, runner):
        first = complete(problem, candidates, plan, runner)
        runner.deadline = Deadline(1e-9)
        return first

    monkeypatch.setattr(ensemble, "fit_first", hurried)
    with pytest.warns(TimeBudgetWarning):
        model = fit_model(X, Y, settings=Settings(time_budget=3600.0))
    assert sources(model) == "100% random_walk at order 3"
    assert model.choices[0].reason == "not compared: the fit ended before that"
    assert float(np.mean((model.predict(X) - Y) ** 2)) < 0.06 * Y.var()


def test_candidates_have_equal_weights_where_there_is_no_time_to_compare_them(monkeypatch):
    monkeypatch.setattr(FirstFit, "leaves_time", lambda *_: False)
    with pytest.warns(TimeBudgetWarning):
        model = fit_model(X, Y, settings=Settings(order=2, max_iter=6, time_budget=3600.0))
    assert sources(model).count("33%") == 3
    assert model.trace.reason is Reason.TIME


def test_the_same_fit_goes_on_from_its_checkpoint(tmp_path):
    path = tmp_path / "checkpoint"
    settings = {"order": 2, "max_iter": 4, "random_state": 0, "checkpoint": path}
    with pytest.warns(TimeBudgetWarning):
        AHOFMRegressor(time_budget=1e-9, **settings).fit(X, Y)
    assert path.exists()
    model = AHOFMRegressor(**settings).fit(X, Y)  # another budget is no other fit
    assert not path.exists()
    settings.pop("checkpoint")
    assert model.predict(X).tobytes() == AHOFMRegressor(**settings).fit(X, Y).predict(X).tobytes()


@pytest.mark.parametrize("settings", [{"order": 2}, {"smoothing": "df"}], ids=str)
def test_callbacks_and_the_keyboard_come_first(settings):
    model = AHOFMRegressor(time_budget=3600, callbacks=[lambda record: record.iteration == 2], **settings).fit(X, Y)
    assert model.trace_.reason is Reason.CALLBACK

    def interrupt(record):
        raise KeyboardInterrupt

    model = AHOFMRegressor(time_budget=3600, callbacks=[interrupt], **settings)
    with pytest.raises(KeyboardInterrupt, match="best model so far"):
        model.fit(X, Y)
    assert model.trace_.reason is Reason.INTERRUPTED


def test_a_deadline():
    assert not Deadline().limited
    assert Deadline().left == float("inf")
    assert Deadline(1e-9, time.perf_counter() - 1.0).over
    assert 0.0 < Deadline(60.0).left <= 60.0


def test_a_family_that_fails_in_a_sweep_reaches_the_caller():
    class Broken(Gaussian):
        calls = 0

        def loss(self, y, eta):
            Broken.calls += 1
            if Broken.calls > 40:
                raise RuntimeError("no loss today")
            value, slope, curvature = super().loss(y, eta)
            return value + 0.0, slope, curvature

        @property
        def builtin(self):
            return None

    for threads in (1, 2):
        Broken.calls = 0
        with pytest.raises(RuntimeError, match="no loss today"):
            AHOFMRegressor(family=Broken("log"), order=2, n_jobs=threads).fit(X, np.exp(Y))
