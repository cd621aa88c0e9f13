"""Candidates: kinds of main effects, which of them are tried, and what validation rows make of them."""

import numpy as np
import pytest

from ahofm import AHOFMClassifier, AHOFMRegressor, Spline
from ahofm.backends import Response
from ahofm.columns import Encoder, SplineIID
from ahofm.families import Bernoulli
from ahofm.fit import Candidate
from ahofm.fit.stacking.candidates import BERNOULLI_CANDIDATES, CANDIDATES
from ahofm.fit.stacking.weights import Scores, stacking_weights
from ahofm.model.prediction_scores import calibration_error
from ahofm.priors.column import column_priors, rank_coordinates

WALKS = Candidate("spline", 0.7, 0.7, smooth_main_effects=False)
RANKS = Candidate("spline", 0.7, 0.7, scale="ranks")


def long_tailed(n, seed=0):
    """Columns with long tails, and classes that depend on their logarithms."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(size=(n, 3))
    y = rng.uniform(size=n) < 1 / (1 + np.exp(-1.5 * np.sin(1.5 * logs[:, 0]) - np.tanh(3 * logs[:, 1])))
    return np.exp(1.5 * logs), y.astype(int)


@pytest.fixture(scope="module")
def book():
    """A codebook with repeated values, long tails and missing values."""
    rng = np.random.default_rng(1)
    x = np.round(np.exp(rng.normal(size=200)), 1)
    x[::17] = np.nan
    return Encoder.learn(x[:, np.newaxis], default=SplineIID(n_basis=7)).codebooks[0], x


@pytest.mark.parametrize("center", [True, False])
def test_coordinates_of_ranks_are_the_same_at_codes_at_values_and_in_the_basis(book, center):
    book, x = book
    found = rank_coordinates(book, center=center)
    assert found.centring.tolist() == [0.0] * found.values.shape[1]
    at_codes = np.asarray(book.basis @ found.to_basis)[:-1]
    np.testing.assert_allclose(at_codes, found.values, atol=1e-12)
    functions, coordinates = found.functions_at(book, x)
    at_x = functions @ coordinates + found.centring
    np.testing.assert_allclose(at_x, np.vstack([found.values, 0 * found.values[:1]])[book.encode(x)])


def test_coordinates_of_ranks_do_not_change_with_the_scale_of_a_column():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(150, 1))
    one, other = (
        rank_coordinates(Encoder.learn(values, default=SplineIID(n_basis=7)).codebooks[0], center=True)
        for values in (x, np.exp(3 * x))
    )
    np.testing.assert_allclose(np.abs(one.values), np.abs(other.values), atol=1e-9)


def test_main_effects_and_factors_of_a_column_are_on_the_same_scale(book):
    ranked = column_priors(book[0], "spline", center=True, scale="ranks")
    plain = column_priors(book[0], "spline", center=True)
    np.testing.assert_array_equal(ranked.smooth.values, rank_coordinates(book[0], center=True).values)
    assert ranked.main_smooth is ranked.smooth
    assert not np.allclose(ranked.smooth.values, plain.smooth.values)
    asked = column_priors(book[0], None, center=True, scale="ranks")  # a kind that was asked for is in the values
    np.testing.assert_array_equal(asked.smooth.values, plain.smooth.values)


@pytest.mark.parametrize(("candidate", "order"), [(WALKS, 1), (RANKS, 1), (RANKS, 2)])
def test_random_walks_and_ranks_do_not_see_the_scale_of_a_column(candidate, order):
    X, y = long_tailed(200)  # few enough for a code per value
    settings = {"factor_prior": [candidate], "order": order, "random_state": 0}
    one = AHOFMClassifier(**settings).fit(X, y).predict_proba(X)
    other = AHOFMClassifier(**settings).fit(np.log(X), y).predict_proba(np.log(X))
    np.testing.assert_allclose(one, other, atol=1e-4)


def test_smooth_functions_of_values_see_it():
    X, y = long_tailed(200)
    plain = AHOFMClassifier(order=1, factor_prior="spline", random_state=0)
    assert np.abs(plain.fit(X, y).predict_proba(X) - plain.fit(np.log(X), y).predict_proba(np.log(X))).max() > 0.02


def test_two_classes_have_three_kinds_of_main_effects():
    assert len({(own.smooth_main_effects, own.scale) for own in BERNOULLI_CANDIDATES}) == 3
    assert [own.factor_prior for own in BERNOULLI_CANDIDATES] == [own.factor_prior for own in CANDIDATES]
    X, y = long_tailed(300)
    model = AHOFMClassifier(order=1, random_state=0).fit(X, y).model_
    assert model.choices[0].value.count("at order 1") > 1
    assert model.validated.rows == 300
    assert model.validated.scores["ECE"] < 0.1


def test_main_effects_of_numbers_leave_no_choice():
    X, y = long_tailed(300)
    model = AHOFMRegressor(order=1, random_state=0).fit(X, y.astype(float)).model_
    assert model.choices[0].value == "100% spline_iid at order 1"
    assert model.validated is None


@pytest.mark.parametrize("settings", [{"factor_prior": "spline"}, {"columns": Spline()}, {"effort": "fast"}])
def test_one_candidate_is_not_cross_validated(settings):
    X, y = long_tailed(200)
    assert AHOFMClassifier(order=1, random_state=0, **settings).fit(X, y).model_.validated is None


def test_long_tails_do_not_spoil_probabilities():
    def loss(seed, **settings):
        X, y = long_tailed(1200, seed)
        model = AHOFMClassifier(order=1, random_state=0, **settings).fit(X[:200], y[:200])
        return -np.log(model.predict_proba(X[200:])[np.arange(1000), y[200:]]).mean()

    assert np.mean([loss(seed) - loss(seed, factor_prior=[CANDIDATES[1]]) for seed in range(3)]) < -0.005


def test_folds_have_the_same_smooth_part_as_members():
    """Columns of 13 coefficients each, more in all than the rows of a fold."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 12))
    y = (X[:, 0] + 0.5 * rng.normal(size=150) > 0).astype(int)
    scores = []
    for candidate in (WALKS, CANDIDATES[1]):
        fitted = AHOFMClassifier(order=1, factor_prior=[candidate, candidate], random_state=0).fit(X, y)
        scores.append(fitted.model_.validated.scores["log-loss"])
    assert abs(scores[0] - scores[1]) > 1e-3


def test_weights_go_to_one_carrier_of_each_kind_of_main_effects():
    rng = np.random.default_rng(4)
    y = (rng.uniform(size=300) < 0.5).astype(float)
    noise = rng.normal(size=(300, 4))
    main = [4 * (2 * (y - 0.5) + noise[:, k]) for k in range(2)]  # their mean is the logit
    mains = [main[0], main[1], main[0], main[1]]
    pairs = [0.1 * noise[:, 2], 0.1 * noise[:, 3], mains[2] + 0.01, mains[3] - 0.01]
    predicted = np.array([mains, pairs]).transpose(2, 1, 0)[:, np.newaxis]
    scores = Scores((1, 2), predicted, Response(Bernoulli(), y, np.ones(300), None))
    assert scores.main_effects == [0, 1, 0, 1]
    weights = stacking_weights(scores, (1, 2), 3)
    assert sum(weights[1].values()) == pytest.approx(1.0)
    assert len(weights[1]) == 2  # one of each kind
    assert {scores.main_effects[k] for k, _ in weights[1]} == {0, 1}


def test_calibration_error_is_the_mean_distance_by_tenths():
    rng = np.random.default_rng(5)
    p = rng.uniform(size=1000)
    happened = rng.uniform(size=1000) < p**2
    parts = np.array_split(np.argsort(p), 10)
    expected = np.mean([abs(p[part].mean() - happened[part].mean()) for part in parts])
    assert calibration_error(happened, p, np.ones(1000)) == pytest.approx(expected)
    twice = np.where(np.arange(1000) < 300, 2.0, 1.0)
    again = np.concatenate([np.arange(1000), np.arange(300)])
    found = calibration_error(happened[again], p[again], np.ones(1300))
    assert calibration_error(happened, p, twice) == pytest.approx(found)


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
def test_calibration_error_of_a_constant_is_its_distance_from_the_share(p):
    happened = np.arange(100) < 40
    assert calibration_error(happened, np.full(100, p), np.ones(100)) == pytest.approx(abs(p - 0.4))
