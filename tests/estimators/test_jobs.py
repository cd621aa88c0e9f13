"""Threads: as many as were asked for and there are, shared with other workers, and answering to the keyboard."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from ahofm import AHOFMClassifier, AHOFMRegressor, explain
from ahofm.threads import available, checked, cores, limited, thread_count

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(300, 3))
Y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * RNG.normal(size=300)
SHORT = {"order": 2, "max_iter": 3, "random_state": 0}

pytestmark = pytest.mark.filterwarnings("ignore:the fit stopped at max_iter")


def test_more_threads_than_cores_are_of_no_use():
    before, most = threading.active_count(), []
    many = AHOFMRegressor(n_jobs=1000, callbacks=[lambda _: most.append(threading.active_count())], **SHORT).fit(X, Y)
    assert max(most) - before <= 3 * cores() + 1
    assert checked(1000) == cores()
    one = AHOFMRegressor(n_jobs=1, **SHORT).fit(X, Y)
    assert many.predict(X).tobytes() == one.predict(X).tobytes()


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, "two", True])
def test_what_is_no_number_of_threads(n_jobs):
    with pytest.raises(ValueError, match="n_jobs must be None, -1 or a positive integer, got"):
        AHOFMRegressor(n_jobs=n_jobs).fit(X, Y)


def asked(_):
    return available(), checked(None), checked(2)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_workers_share_the_cores(backend):
    found = joblib.Parallel(n_jobs=cores() + 1, backend=backend)(joblib.delayed(asked)(k) for k in range(2))
    assert found == [(1, 1, min(2, cores()))] * 2  # a number that was asked for is obeyed


def test_what_others_say_of_threads_is_heard(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert available() == 1
    assert checked(-1) == cores()
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert available() == cores()
    with limited(7):
        assert thread_count() == 7
        assert thread_count(2) == 2
    assert thread_count() == cores()


def test_calls_with_one_job_leave_other_cores_alone(monkeypatch, tmp_path):
    """Whoever asks for the default number of threads has not been told of n_jobs."""

    def everything():
        raise AssertionError("n_jobs was not passed on")

    monkeypatch.setattr("ahofm.threads.available", everything)
    model = AHOFMRegressor(n_jobs=1, **SHORT).fit(X, Y)
    model.predict(X)
    model.predict(X, return_std=True)
    model.predict_interval(X)
    model.predict_eta(X)
    model.score(X, Y)
    model.summary()
    model.report(tmp_path / "page.html")
    model.save(tmp_path / "model")
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    explain.effect(model, "x0")
    explain.contributions(model, X)
    explain.shapley_values(model, X)
    explain.variance_shares(model)
    classifier = AHOFMClassifier(n_jobs=1, **SHORT).fit(X, Y > 0)
    classifier.predict_proba(X)
    classifier.predict(X)
    classifier.decision_function(X)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_a_grid_search_with_workers(backend):
    search = GridSearchCV(AHOFMRegressor(**SHORT), {"order": [1, 2]}, cv=2, n_jobs=2)
    with joblib.parallel_backend(backend):
        search.fit(X, Y)
    assert search.best_params_ == {"order": 2}


def predictions(model):
    return model.fit(X, Y).predict(X)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks where there are threads
def test_a_fork_after_a_fit_has_threads_of_its_own():
    model = AHOFMRegressor(n_jobs=2, **SHORT)
    expected = predictions(model)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map_async(predictions, [model, model]).get(timeout=300)
    for values in found:
        np.testing.assert_array_equal(values, expected)


INTERRUPTED = """
import numpy as np
from ahofm import AHOFMRegressor
rng = np.random.default_rng(0)
X = rng.normal(size=(500_000, 6))
y = np.sin(X[:, 0]) * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=len(X))
say = lambda record: print("sweep", record.iteration, flush=True)
model = AHOFMRegressor(solver="variational", factor_prior="spline", n_jobs={n_jobs}, callbacks=[say], random_state=0)
try:
    model.fit(X, y)
except KeyboardInterrupt:
    print("kept", model.trace_.reason.name, model.score(X[:1000], y[:1000]) > 0.3, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_keyboard_ends_a_sweep_of_many_rows(n_jobs):
    """The signal comes within a sweep, in native code; the sweep does not come to its end."""
    code = INTERRUPTED.format(n_jobs=n_jobs)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "sweep 9\n":  # the first sweep with factors follows, and takes longest
                break
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=300)[0].splitlines()
    assert rest[-1] == "kept INTERRUPTED True"
    assert len(rest) <= 2
