"""Whether a fit says when targets vary more, or less, than their family does."""

import warnings

import numpy as np
import pytest

from ahofm import AHOFMRegressor
from ahofm.explain import summary
from ahofm.families import NegativeBinomial, Poisson
from ahofm.inference import DispersionWarning

SETTINGS = {"order": 1, "random_state": 0}


def rows(seed, mean=1.0, n=800):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3))
    return X, mean * np.exp(np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]), rng


def test_overdispersed_counts_are_warned_of_with_the_remedy():
    X, mu, rng = rows(0, 20.0)
    y = rng.negative_binomial(5, 5 / (5 + mu))
    with pytest.warns(DispersionWarning, match=r"Poisson: targets vary .* times .* family='quasi_poisson'"):
        model = AHOFMRegressor(family="poisson", **SETTINGS).fit(X, y)
    found = summary(model)
    assert found.pearson_dispersion == pytest.approx(np.mean(1 + mu / 5), rel=0.2)
    assert f"Pearson dispersion: {found.pearson_dispersion:.3g}" in str(found)
    edf = sum(part.sum() for part in model.edf_.values()) + 1
    assert found.pearson_dispersion == pytest.approx(model.model_.pearson_dispersion / (1 - edf / len(y)))
    for family in ("quasi_poisson", "negative_binomial"):  # the remedies are quiet
        wide = AHOFMRegressor(family=family, **SETTINGS).fit(X, y)
        assert summary(wide).pearson_dispersion is None or 0.7 < summary(wide).pearson_dispersion < 1.3
    low, high = AHOFMRegressor(family="quasi_poisson", **SETTINGS).fit(X, y).predict_interval(X, kind="new").T
    assert np.mean((low <= y) & (y <= high)) > 0.92


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0.02, 0.3, 3.0, 200.0])
def test_counts_of_the_family_are_not_warned_of(mean):
    """Also rare ones, whose statistic is noisy: warnings are errors here."""
    for seed in range(3):
        X, mu, rng = rows(10 + seed, mean)
        model = AHOFMRegressor(family="poisson", **SETTINGS).fit(X, rng.poisson(mu))
        assert model.model_.pearson_dispersion > 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("error", DispersionWarning)
            AHOFMRegressor(family="negative_binomial", **SETTINGS).fit(X, rng.negative_binomial(3, 3 / (3 + mu)))


def test_underdispersed_counts_are_warned_of():
    X, mu, rng = rows(20, 30.0)
    y = np.round(mu + 0.2 * np.sqrt(mu) * rng.normal(size=len(mu)))
    with pytest.warns(DispersionWarning, match="intervals are too wide"):
        AHOFMRegressor(family="poisson", **SETTINGS).fit(X, y)


def test_a_size_that_is_given_and_wrong_is_warned_of():
    X, mu, rng = rows(21, 20.0)
    y = rng.negative_binomial(1, 1 / (1 + mu))
    with pytest.warns(DispersionWarning, match="without a size"):
        AHOFMRegressor(family=NegativeBinomial(50.0), **SETTINGS).fit(X, y)


def test_shares_of_trials_are_judged_and_single_trials_are_not():
    X, mu, rng = rows(22)
    X = X.round(1)
    p, trials = mu / (1 + mu), rng.integers(5, 30, len(mu))
    fair = rng.binomial(trials, p) / trials
    model = AHOFMRegressor(family="binomial", **SETTINGS).fit(X, fair, sample_weight=trials)
    assert summary(model).pearson_dispersion == pytest.approx(1.0, abs=0.2)
    together = rng.binomial(trials, rng.beta(5 * p, 5 * (1 - p))) / trials
    with pytest.warns(DispersionWarning, match="family='quasi_binomial'"):
        AHOFMRegressor(family="binomial", **SETTINGS).fit(X, together, sample_weight=trials)
    wide = AHOFMRegressor(family="quasi_binomial", **SETTINGS).fit(X, together, sample_weight=trials)
    assert wide.model_.dispersion > 0.1
    single = AHOFMRegressor(family="binomial", **SETTINGS).fit(X, rng.binomial(1, p))
    assert summary(single).pearson_dispersion is None
    assert Poisson(quasi=True).if_overdispersed is None


def test_the_summary_repeats_the_warning():
    rng = np.random.default_rng(21)
    X = rng.uniform(-1, 1, size=(400, 2))
    y = rng.negative_binomial(1.0, 1.0 / (1.0 + 8.0 * np.exp(X[:, 0]))).astype(float)
    with pytest.warns(DispersionWarning, match="use family='quasi_poisson'") as told:
        model = AHOFMRegressor(family="poisson", order=1, random_state=0).fit(X, y)
    assert str(told[0].message) in summary(model).warnings
    assert all(choice.name != "dispersion" for choice in summary(model).choices)
