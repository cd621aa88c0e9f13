"""The number of BLAS threads: one while a public call runs, what it was before afterwards, however calls overlap."""

import os
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

import ahofm
from ahofm import AHOFMClassifier, AHOFMRegressor, explain
from ahofm.columns import Codes
from ahofm.kernels import blas
from ahofm.kernels.blas import one_blas_thread
from ahofm.rows import ArraySource, ThreadExecutor
from tests.fit.fits import simulated
from tests.scale.rows import coefficients

BEFORE = 2


def threads():
    """BLAS threads of the process, over all libraries."""
    return {
        library.get_num_threads() for library in ThreadpoolController().lib_controllers if library.user_api == "blas"
    }


@pytest.fixture(autouse=True)
def several():
    """More threads than one to come back to, whatever the machine."""
    with threadpool_limits(BEFORE, user_api="blas"):
        if threads() != {BEFORE}:
            pytest.skip("this BLAS has one thread only")
        yield
        assert threads() == {BEFORE}


def in_threads(*tasks):
    """Run tasks side by side; raises what one of them raises."""
    failed = []

    def run(task):
        try:
            task()
        except BaseException as error:
            failed.append(error)

    running = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
    if failed:
        raise failed[0]


def test_calls_that_overlap_restore_what_was_there_before():
    """In the order that leaves one thread behind when each call restores what it has found."""
    first_in, second_in, first_out = (threading.Event() for _ in range(3))
    seen = []

    def first():
        with one_blas_thread():
            first_in.set()
            assert second_in.wait(30)
        seen.append(threads())  # the second one is still inside
        first_out.set()

    def second():
        assert first_in.wait(30)
        with one_blas_thread():
            second_in.set()
            assert first_out.wait(30)
            seen.append(threads())

    in_threads(first, second)
    assert seen == [{1}, {1}]
    assert threads() == {BEFORE}


def test_nested_calls_and_exceptions():
    @one_blas_thread()
    def inner():
        raise ValueError("inner")

    @one_blas_thread()
    def outer():
        with pytest.raises(ValueError, match="inner"):
            inner()
        assert threads() == {1}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outer()
    assert threads() == {BEFORE}


class PerThread(threading.local):
    """A BLAS on OpenMP: every thread has its own number."""

    threading_layer, number = "openmp", 4

    def get_num_threads(self):
        return self.number

    def set_num_threads(self, number):
        self.number = number


def test_a_library_with_a_number_per_thread(monkeypatch):
    library = PerThread()
    found = blas._LIMIT._libraries
    monkeypatch.setattr(
        blas._LIMIT, "_libraries", lambda *, per_thread: [library] if per_thread else found(per_thread=False)
    )
    seen = []

    def task(chunk):
        time.sleep(0.01)  # or the calling thread has done all before another starts
        return threading.get_ident(), library.get_num_threads()

    with one_blas_thread():
        in_threads(lambda: seen.append(library.get_num_threads()))
        with one_blas_thread():
            pass
        assert library.get_num_threads() == 1, "the outer call is still inside"
        chunks = ArraySource(Codes((np.zeros(20, np.uint8),), (1,)), np.zeros(20), chunk_rows=1)
        done = list(ThreadExecutor(3).map(task, chunks))
    assert seen == [4], "that thread has not entered"
    assert len({thread for thread, _ in done}) > 1
    assert {number for _, number in done} == {1}
    assert library.get_num_threads() == 4


@pytest.mark.parametrize("at", ["enter", "leave"])
def test_an_interrupt_inside_the_limit_itself(at, monkeypatch):
    """Between saving and setting, or on the way out, before anything was restored."""
    setting, calls = blas._set, []

    def interrupted(numbers):
        calls.append(numbers)
        if len(calls) == (1 if at == "enter" else 2):
            raise KeyboardInterrupt
        setting(numbers)

    monkeypatch.setattr(blas, "_set", interrupted)
    with pytest.raises(KeyboardInterrupt), one_blas_thread():
        pass
    assert threads() == {BEFORE}


@contextmanager
def somebody_inside():
    """A call in another thread."""
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with one_blas_thread():
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=stay)
    thread.start()
    assert inside.wait(30)
    try:
        yield
    finally:
        leave.set()
        thread.join(30)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("own", [False, True], ids=["of another thread", "of the forking thread"])
def test_a_fork_while_calls_run(own):
    """The child has no other threads: their calls will never leave. Its own will."""
    with somebody_inside():
        call = one_blas_thread()
        if own:
            call.__enter__()
        child = os.fork()
        if child == 0:
            right = threads() == ({1} if own else {BEFORE})
            if own:
                call.__exit__(None, None, None)
            with one_blas_thread():
                right &= threads() == {1}
            os._exit(0 if right and threads() == {BEFORE} else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        if own:
            call.__exit__(None, None, None)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("settings", [{"max_iter": 3, "n_members": 1}, {"smoothing": "df", "max_iter": 10}], ids=str)
def test_fits_in_threads_are_fits_alone_to_the_bit(settings):
    X, y, _ = simulated(n=1_000, p=6)
    begun, seen, fitted = threading.Barrier(2), [], {}

    def fit(name, barrier=None):
        def meet(record):
            seen.append(threads())
            if record.iteration == 2 and barrier is not None:
                barrier.wait(60)

        model = AHOFMRegressor(order=2, random_state=0, callbacks=[meet], **settings).fit(X, y)
        fitted[name] = np.concatenate([coefficients(model), model.predict_interval(X[:20]).ravel()])

    fit("alone")
    in_threads(lambda: fit("first", begun), lambda: fit("second", begun))
    assert all(numbers == {1} for numbers in seen)
    assert threads() == {BEFORE}
    np.testing.assert_array_equal(fitted["first"], fitted["alone"])
    np.testing.assert_array_equal(fitted["second"], fitted["alone"])


@pytest.fixture(scope="module")
def model():
    X, y, _ = simulated(n=120)
    return AHOFMRegressor(order=2, max_iter=2, n_members=1, factor_prior="spline", random_state=0).fit(X, y)


X, Y, _ = simulated(n=60)

PUBLIC = {
    "predict": lambda m: m.predict(X, return_std=True),
    "predict_eta": lambda m: m.predict_eta(X, return_std=True),
    "predict_interval": lambda m: m.predict_interval(X, kind="new"),
    "score": lambda m: m.score(X, Y),
    "sample": lambda m: m.sample(X),
    "pit": lambda m: m.pit(X, Y),
    "log_likelihood": lambda m: m.log_likelihood(X, Y),
    "aic": lambda m: m.aic(X, Y),
    "with_uncertainty": lambda m: m.with_uncertainty(X, Y),
    "summary": lambda m: m.summary(),
    "forecast": lambda m: m.forecast(X, Y),
    "fit": lambda m: AHOFMRegressor(smoothing="df", order=1).fit(X, Y),
    "partial_fit": lambda m: AHOFMRegressor(smoothing="df", order=1).partial_fit(X, Y),
}
EXPLAIN = {
    "checks": explain.checks,
    "derivative": lambda m: explain.derivative(m, "x0"),
    "difference": lambda m: explain.difference(m, "x0", 0.1, 0.5),
    "observed_and_fitted": lambda m: explain.observed_and_fitted(m, "x0"),
    "contributions": lambda m: explain.contributions(m, X),
    "effect": lambda m: explain.effect(m, "x0"),
    "factors": explain.factors,
    "marginals": lambda m: explain.marginals(m, ["x0", "x1"]),
    "purify": lambda m: explain.purify(m.model_, 0),
    "shapley_values": lambda m: explain.shapley_values(m, X),
    "summary": explain.summary,
    "top_interactions": explain.top_interactions,
    "variance_shares": explain.variance_shares,
}
NO_NUMBERS = {
    "report",
    "plot",
    "save",
    "set_params",
    "get_params",
    "get_metadata_routing",
    "set_score_request",
    "set_fit_request",
}
NO_NUMBERS |= {"set_partial_fit_request", "set_predict_request", "set_predict_proba_request"}
NO_NUMBERS |= {
    "forget_rows",
    "appraise",
    "clip_effect",
    "flatten_effect",
    "rescale_effect",
    "remove_effect",
    "set_effect",
}
BY_WAY_OF_ETA = {"rebalanced", "predict_proba", "predict_survival", "concordance", "brier_score"}


def test_no_public_call_is_left_out():
    assert set(EXPLAIN) == {name for name in explain.__all__ if name[0].islower()}
    methods = {
        name for name in dir(AHOFMRegressor) if not name.startswith("_") and callable(getattr(AHOFMRegressor, name))
    }
    assert methods - NO_NUMBERS - BY_WAY_OF_ETA == set(PUBLIC)
    of_classes = {name for name in dir(AHOFMClassifier) if name.startswith(("predict", "decision"))} - {"predict_eta"}
    assert of_classes - {"predict_interval"} == {
        "predict",
        "predict_proba",
        "predict_log_proba",
        "decision_function",
    }, "by way of Model.eta"
    assert hasattr(AHOFMClassifier.predict_interval, "__wrapped__")
    assert hasattr(ahofm.model.Model.eta, "__wrapped__")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [*PUBLIC, *EXPLAIN])
def test_public_calls_run_with_one_thread(name, model, monkeypatch):
    entered, enter = [], blas._LIMIT.enter
    monkeypatch.setattr(blas._LIMIT, "enter", lambda call: (enter(call), entered.append(threads())))
    {**PUBLIC, **EXPLAIN}[name](model)
    assert entered
    assert all(numbers == {1} for numbers in entered)
