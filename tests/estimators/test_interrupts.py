"""Ctrl-C in a fit: it reaches the caller, in whatever phase it comes, and what has been fitted is not lost."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.fit.stacking import cross_validate, ensemble, members, weights
from ahofm.model import Reason
from tests.fit.fits import simulated

X, Y, _ = simulated(400)


def at(iteration):
    def interrupt(record):
        if record.iteration == iteration:
            raise KeyboardInterrupt

    return [interrupt]


@pytest.mark.parametrize("settings", [{"order": 1}, {"order": 1, "smoothing": "df"}])
def test_callers_in_python_end(settings):
    model = AHOFMRegressor(callbacks=at(3), **settings)
    with pytest.raises(KeyboardInterrupt):
        cross_val_score(model, X, Y, cv=2, error_score=0.0)
    with pytest.raises(KeyboardInterrupt):
        GridSearchCV(model, {"ridge": [0.1, 0.2]}, cv=2, error_score=0.0).fit(X, Y)


def test_a_classifier_is_whole_afterwards():
    model = AHOFMClassifier(order=1, callbacks=at(3))
    labels = np.where(Y > 0, "high", "low").astype(object)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, labels)
    assert model.classes_.dtype == object
    assert model.score(X, labels) > 0.7
    assert model.predict_proba(X).shape == (400, 2)


def test_pieces_go_on_afterwards():
    model = AHOFMRegressor(order=1, smoothing="df", callbacks=at(3), max_iter=30)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[:200], Y[:200])
    model.set_params(callbacks=None).partial_fit(X[200:], Y[200:])
    assert model.model_.total == 400.0


def interrupted_once(monkeypatch, module, name):
    """The first call of a function does not come to its end."""
    calls, function = [], getattr(module, name)

    def once(*given, **named):
        calls.append(name)
        found = function(*given, **named)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(module, name, once)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name"),
    [
        (cross_validate, "predict_at"),  # the search is judged
        (weights, "_weights_at"),  # within what follows it
        (ensemble, "merge"),  # members are merged
        (members, "with_original_weights"),
    ],
)
def test_between_sweeps_the_fits_so_far_are_kept(monkeypatch, module, name):
    rng = np.random.default_rng(0)
    X, settings = rng.uniform(-1, 1, size=(2_200, 2)), {"order": 2, "max_iter": 6, "random_state": 0}
    y = np.sin(3 * X[:, 0]) + np.exp(2 * X[:, 1]) * 0.2 * rng.normal(size=len(X))
    interrupted_once(monkeypatch, module, name)
    model = AHOFMRegressor(**settings)
    with pytest.raises(KeyboardInterrupt, match=None if name == "_weights_at" else "best model so far"):
        model.fit(X, y)
    if name != "_weights_at":
        assert model.trace_.reason is Reason.INTERRUPTED
        assert model.score(X, y) > 0.5


@pytest.mark.slow
def test_a_member_that_has_nothing_leaves_what_the_search_has_found(monkeypatch):
    class Impatient(ensemble.StagedRunner):
        def __call__(self, members, name=None, *given):
            if name == "member":
                self.reason = Reason.INTERRUPTED
                return [[] for _ in members]
            return super().__call__(members, name, *given)

    monkeypatch.setattr(ensemble, "StagedRunner", Impatient)
    model = AHOFMRegressor(order=2, random_state=0)
    with pytest.raises(KeyboardInterrupt, match="best model so far"):
        model.fit(X, Y)
    assert model.score(X, Y) > 0.3


@pytest.mark.slow
def test_a_checkpoint_has_all_members_that_were_complete(tmp_path):
    """It is written every few seconds, and at once when the fit is interrupted."""
    settings = {"order": 2, "random_state": 0, "n_jobs": 1, "checkpoint": tmp_path / "c"}
    sweeps = len(AHOFMRegressor(**settings).fit(X, Y).trace_.records)
    model = AHOFMRegressor(callbacks=at(sweeps - 10), **settings)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    again = AHOFMRegressor(**settings).fit(X, Y)
    assert len(again.trace_.records) < sweeps / 2
    assert not (tmp_path / "c").exists()


def test_a_checkpoint_is_a_file(tmp_path):
    with pytest.raises(ValueError, match="checkpoint must be a file, got the directory"):
        AHOFMRegressor(checkpoint=tmp_path).fit(X, Y)
