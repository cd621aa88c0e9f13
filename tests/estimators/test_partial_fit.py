"""partial_fit and warm_start: fixed codebooks, all rows so far, and a start where the last fit ended."""

import pickle

import numpy as np
import pytest

from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.fit import fit_model
from ahofm.fit.solvers.subsample import refine
from ahofm.fit.stacking import problem
from ahofm.rows import dataset
from ahofm.training import data
from tests.scale.rows import FEATURES, coefficients, difference, simulated

TABLE = simulated(1_800)
DF = {"smoothing": "df", "order": 2, "random_state": 0, "max_iter": 300, "tol": 1e-9}


def pieces(*cuts):
    return [TABLE.iloc[a:b] for a, b in zip((0, *cuts), (*cuts, len(TABLE)), strict=True)]


def in_pieces(model, parts, **others):
    for part in parts:
        model.partial_fit(part[FEATURES], part["y"], **{name: part[column] for name, column in others.items()})
    return model


@pytest.fixture
def small_raw_sample(monkeypatch):
    for module in (dataset, data):
        monkeypatch.setattr(module, "RAW_SAMPLE_ROWS", 900)
    monkeypatch.setattr(data, "MERGED_ROWS", 500)
    monkeypatch.setattr(problem, "SUBSAMPLE_ROWS", 900)
    monkeypatch.setattr(refine, "SAMPLE_ROWS", 600)


def with_codebooks_of(first, **settings):
    """All rows at once, with the codebooks of the first piece."""
    model = AHOFMRegressor(**settings)
    fitted = AHOFMRegressor(**settings).fit(first[FEATURES], first["y"])
    asked = model._settings()
    return fit_model(TABLE[FEATURES], TABLE["y"], settings=asked, earlier=fitted.model_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("many_rows", [False, True])
def test_pieces_give_the_fit_of_all_rows(many_rows, request):
    """Learned smoothing parameters start anew, so that the order of pieces after the first does not matter at all."""
    if many_rows:
        request.getfixturevalue("small_raw_sample")
    settings = {"order": 2, "factor_prior": "spline", "n_members": 1, "max_iter": 3, "random_state": 0}
    parts = pieces(700, 1_100)
    own = in_pieces(AHOFMRegressor(**settings), parts).model_
    whole = with_codebooks_of(parts[0], **settings)
    for mine, theirs in zip(own.linear_predictors[0].coef, whole.linear_predictors[0].coef, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)
    assert own.total == len(TABLE)


def test_a_penalised_fit_starts_where_the_last_one_ended():
    own = in_pieces(AHOFMRegressor(**{**DF, "order": 1}), pieces(900, 1_300), sample_weight="w", offset="exposure")
    first = TABLE.iloc[:900]
    fitted = AHOFMRegressor(**{**DF, "order": 1}).fit(
        first[FEATURES], first["y"], sample_weight=first["w"], offset=first["exposure"]
    )
    fitted.warm_start = True
    fitted.fit(TABLE[FEATURES], TABLE["y"], sample_weight=TABLE["w"], offset=TABLE["exposure"])
    assert difference(fitted, own) < 1e-4, "a convex objective has one minimum"


def test_fit_and_then_pieces():
    parts = pieces(900, 1_300)
    one = AHOFMRegressor(**DF).fit(parts[0][FEATURES], parts[0]["y"])
    np.testing.assert_array_equal(
        coefficients(in_pieces(one, parts[1:])), coefficients(in_pieces(AHOFMRegressor(**DF), parts))
    )


def test_a_warm_start_takes_few_iterations():
    X, y = TABLE[FEATURES], TABLE["y"]
    model = AHOFMRegressor(**{**DF, "tol": 1e-6}, warm_start=True).fit(X, y)
    first, books, reached = model.n_iter_, model.model_.encoder, model.trace_.records[-1].objective
    model.fit(X, y)
    assert model.trace_.records[0].objective == pytest.approx(reached, rel=1e-9)
    assert model.n_iter_ < 0.5 * first
    assert model.model_.encoder is books
    model.set_params(rank=2).fit(X, y)
    assert model.model_.ranks == {2: 2}, "another shape starts anew"


def test_a_warm_start_with_many_levels():
    """More levels than are decomposed densely."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 600, size=(6_000, 1)).astype(str).astype(object)
    y = np.sin(X[:, 0].astype(float)) + 0.1 * rng.normal(size=6_000)
    model = AHOFMRegressor(smoothing="df", order=1, tol=1e-8, warm_start=True).fit(X, y)
    reached = model.trace_.records[-1].objective
    assert model.fit(X, y).trace_.records[0].objective == pytest.approx(reached, rel=1e-9)


def test_classes_in_pieces():
    parts = pieces(900)
    model = AHOFMClassifier(smoothing="df", order=1)
    rare = parts[0][parts[0]["grade"] < 5]
    with pytest.raises(ValueError, match="y has no row of class 2"):
        model.partial_fit(rare[FEATURES], rare["grade"], classes=[1, 3, 5])
    assert not hasattr(model, "model_")
    for part in parts:
        model.partial_fit(part[FEATURES], part["grade"], classes=[1, 3, 5])
    assert model.classes_.tolist() == [1, 3, 5]
    assert model.score(TABLE[FEATURES], TABLE["grade"]) > 0.45
    with pytest.raises(ValueError, match="y has classes that were not there in training"):
        model.partial_fit(parts[0][FEATURES], parts[0]["grade"] + 1)


def test_unseen_levels_and_other_columns():
    parts = pieces(900)
    model = in_pieces(AHOFMRegressor(smoothing="df", order=1), parts[:1])
    model.partial_fit(parts[1][FEATURES].assign(town="z"), parts[1]["y"])
    assert model.model_.total == 1_800
    with pytest.raises(ValueError, match="missing: 'town'; not seen in training: 'city'"):
        model.partial_fit(parts[1][FEATURES].rename(columns={"town": "city"}), parts[1]["y"])
    with pytest.raises(ValueError, match="offset: give it with every piece, or with none"):
        model.partial_fit(parts[1][FEATURES], parts[1]["y"], offset=parts[1]["exposure"])


def test_after_pickling():
    parts = pieces(900)
    model = pickle.loads(pickle.dumps(in_pieces(AHOFMRegressor(smoothing="df", order=1), parts[:1])))
    assert in_pieces(model, parts[1:]).model_.total == 1_800, "pieces are part of the estimator"
    fitted = AHOFMRegressor(smoothing="df", order=1).fit(parts[0][FEATURES], parts[0]["y"])
    with pytest.raises(ValueError, match="the rows of the earlier fit are not here any more"):
        in_pieces(pickle.loads(pickle.dumps(fitted)), parts[1:])
