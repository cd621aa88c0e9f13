"""Which share of the partners' variance counts, by rows, noise and kinds."""

import warnings

import numpy as np
import pytest

from ahofm import AHOFMRegressor, RandomWalk, Spline
from ahofm.fit.stacking.candidates import ConstantTempering, noise_tempering, signal_tempering
from ahofm.fit.stacking.problem import TrainingProblem


@pytest.mark.parametrize("left", [0.0, 0.3, 1.0, 2.0])
def test_shares(left):
    assert ConstantTempering(0.7)(left) == 0.7
    assert 0.25 <= noise_tempering(left) <= 1.0
    assert 0.1 <= signal_tempering(0.5, left) <= 0.5


def test_shares_follow_the_noise():
    assert noise_tempering(0.1) < noise_tempering(0.3)
    assert signal_tempering(0.5, 0.1) > signal_tempering(0.5, 0.6)
    np.testing.assert_allclose(signal_tempering(0.5, 0.4), 0.3)


def chosen(monkeypatch, n, **settings):
    """Shares at two levels of noise, of the members of a fit."""
    found = []
    original = TrainingProblem.tempering

    def spy(self, candidate):
        found.append((candidate.factor_prior, original(self, candidate)))
        return found[-1][1]

    monkeypatch.setattr(TrainingProblem, "tempering", spy)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    model = AHOFMRegressor(order=2, rank=1, n_members=1, max_iter=2, random_state=0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two sweeps are not enough
        model.fit(X, X[:, 0] * X[:, 1] + rng.normal(size=n))
    return {name: (round(rule(0.2), 3), round(rule(0.8), 3)) for name, rule in found}


def test_few_rows_by_the_noise_whatever_the_kind(monkeypatch):
    shares = chosen(monkeypatch, 500)
    assert shares.keys() == {"spline", "spline_iid", "random_walk"}
    assert len(set(shares.values())) == 1
    assert shares["spline"][0] < shares["spline"][1]


def test_many_rows_by_kind(monkeypatch):
    shares = chosen(monkeypatch, 2500)
    assert shares["spline"] == (0.7, 0.7)
    assert shares["spline_iid"][0] == shares["spline_iid"][1] < shares["random_walk"][0] == shares["random_walk"][1]


def test_smooth_pairs_without_strengths_of_their_own_against_the_noise(monkeypatch):
    assert chosen(monkeypatch, 2500, solver="subsample")["spline"] == (0.4, 0.1)


@pytest.mark.parametrize(("kind", "name"), [(Spline(), "spline"), (RandomWalk(), "spline_iid")])
def test_given_kinds_are_fitted_by_the_how_that_is_like_them(monkeypatch, kind, name):
    assert chosen(monkeypatch, 2500, columns=kind).keys() == {name}


def test_a_number_is_taken_as_it_is(monkeypatch):
    assert set(chosen(monkeypatch, 2500, tempering=0.3).values()) == {(0.3, 0.3)}
