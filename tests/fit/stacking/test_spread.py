"""The variance model of Gaussian fits: intervals for new rows follow the noise."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ahofm
from ahofm import AHOFMRegressor
from ahofm.fit.stacking.variance import _of_mean, _sharpness
from ahofm.model import VarianceModel

QUICK = {"random_state": 0, "n_members": 1, "order": 2, "rank": 2, "n_jobs": 1}


def uneven(seed, n=1500):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.uniform(-1, 1, n), "b": rng.uniform(-1, 1, n)})
    std = 0.2 * np.exp(1.2 * X.a)
    return X, np.sin(3 * X.b) + X.a * X.b + std * rng.normal(size=n), std


@pytest.fixture(scope="module")
def fitted():
    X, y, _ = uneven(0)
    return AHOFMRegressor(**QUICK).fit(X, y)


def test_intervals_follow_the_noise_and_hold(fitted):
    X, y, std = uneven(1, 4000)
    relative = fitted.model_.relative_std(X)
    assert np.corrcoef(np.log(relative), np.log(std))[0, 1] > 0.9
    assert 0.8 < np.polyfit(np.log(std), np.log(relative), 1)[0] < 1.2
    low, high = fitted.predict_interval(X, kind="new").T
    held = (low <= y) & (y <= high)
    quarters = [held[part].mean() for part in np.array_split(np.argsort(std), 4)]
    assert all(0.92 < part < 0.98 for part in quarters)
    even = fitted.with_uncertainty()
    even.model_ = replace(even.model_, variance_model=None)
    wide = even.predict_interval(X, kind="new")
    flat = (wide[:, 0] <= y) & (y <= wide[:, 1])
    assert flat[std > 0.4].mean() < 0.9 < flat[std < 0.1].mean()
    assert np.mean(high - low) < np.mean(wide[:, 1] - wide[:, 0])


def test_means_and_their_intervals_do_not_change(fitted):
    X, _, _ = uneven(1, 100)
    even = fitted.with_uncertainty()
    even.model_ = replace(even.model_, variance_model=None)
    np.testing.assert_array_equal(even.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(even.predict_interval(X), fitted.predict_interval(X))


def test_it_is_part_of_the_file(fitted, tmp_path):
    X, _, _ = uneven(1, 100)
    fitted.save(tmp_path / "m.ahofm")
    again = ahofm.load(tmp_path / "m.ahofm")
    np.testing.assert_allclose(again.model_.relative_std(X), fitted.model_.relative_std(X), rtol=1e-12)
    np.testing.assert_allclose(again.predict_interval(X, kind="new"), fitted.predict_interval(X, kind="new"), rtol=1e-5)


def test_even_noise_has_none_and_one_has_mean_square_one(fitted):
    X, _, _ = uneven(0)
    rng = np.random.default_rng(0)
    even = AHOFMRegressor(**QUICK).fit(X, X.a + 0.3 * rng.normal(size=1500))
    assert even.model_.variance_model is None
    np.testing.assert_array_equal(even.model_.relative_std(X), np.ones(1500))
    assert np.mean(fitted.model_.relative_std(X) ** 2) == pytest.approx(1.0, abs=0.02)


def test_noise_that_grows_with_the_mean():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (2000, 2))
    mean = np.exp(1 + 2 * X[:, 0] * X[:, 1])
    model = AHOFMRegressor(**QUICK).fit(X, mean * (1 + 0.2 * rng.normal(size=2000)))
    new = rng.uniform(0, 1, (500, 2))
    expected = np.log(np.exp(1 + 2 * new[:, 0] * new[:, 1]))
    assert np.corrcoef(np.log(model.model_.relative_std(new)), expected)[0, 1] > 0.9


def test_offsets_are_part_of_the_mean():
    X, y, _ = uneven(0)
    shift = np.linspace(0, 5, len(y))
    model = AHOFMRegressor(**QUICK).fit(X, y + shift, offset=shift)
    plain = AHOFMRegressor(**QUICK).fit(X, y)
    close = np.log(model.model_.relative_std(X, shift) / plain.model_.relative_std(X))
    assert np.abs(close).mean() < 0.15


def test_the_part_that_is_taken_has_the_best_interval_score():
    rng = np.random.default_rng(0)
    log_std = rng.normal(size=4000)
    assert _sharpness(np.abs(rng.normal(size=4000)) * np.exp(log_std), log_std, np.ones(4000)) >= 0.9
    assert _sharpness(np.abs(rng.normal(size=4000)), log_std, np.ones(4000)) == 0.0
    half = np.abs(rng.normal(size=4000)) * np.exp(0.5 * log_std)
    assert 0.3 <= _sharpness(half, log_std, np.ones(4000)) <= 0.7


def test_ratios_by_the_mean():
    rng = np.random.default_rng(0)
    eta = rng.uniform(0, 1, 2000)
    knots, factors = _of_mean(eta, np.exp(eta), np.ones(2000))
    np.testing.assert_allclose(np.diff(factors) / np.diff(knots), 0.9, atol=0.15)
    knots, factors = _of_mean(np.zeros(200), np.ones(200), np.ones(200))
    assert len(knots) == 1
    assert factors[0] == 0.0


def test_parts_that_do_not_belong_together(fitted):
    own = fitted.model_.variance_model
    with pytest.raises(ValueError, match="differ in shape"):
        VarianceModel(own.effects, own.knots, own.log_factors[:-1])
    with pytest.raises(ValueError, match="knots must increase"):
        VarianceModel(own.effects, own.knots[::-1].copy(), own.log_factors)
    with pytest.raises(ValueError, match="main effects only"):
        VarianceModel(fitted.model_.linear_predictors[0], own.knots, own.log_factors)


def test_location_and_scale_has_the_mean_of_the_gaussian():
    X, y, std = uneven(0)
    new, new_y, new_std = uneven(1, 1000)
    both = AHOFMRegressor(family="gaussian_location_scale", **QUICK).fit(X, y)
    mean = AHOFMRegressor(**QUICK).fit(X, y)
    np.testing.assert_allclose(both.predict(new), mean.predict(new), rtol=1e-9)
    eta = both.predict_eta(new)
    assert 0.75 < np.polyfit(np.log(new_std), eta[:, 1], 1)[0] < 1.2
    assert abs(np.mean(eta[:, 1] - np.log(new_std))) < 0.15
    assert both.log_likelihood(new, new_y) > mean.log_likelihood(new, new_y) + 100
    low, high = both.predict_interval(new, kind="new").T
    assert 0.92 < np.mean((low <= new_y) & (new_y <= high)) < 0.98
    assert both.model_.at_order(1).eta(new).shape == (1000, 2)
    assert "scale" in {choice.name for choice in both.model_.choices}
    assert np.isfinite(std).all()
