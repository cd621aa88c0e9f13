"""The noise of new rows: intervals follow it, and are as wide as errors on validation rows say."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import ahofm
from ahofm import AHOFMRegressor
from ahofm.families import Weibull
from ahofm.fit.stacking.variance import Noise, _log_ratio_by_mean, _log_std_factor
from ahofm.model import ErrorQuantiles, VarianceModel

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
    quarters = [held[part].mean() for part in np.array_split(np.argsort(std.to_numpy()), 4)]
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
    assert _log_std_factor(np.abs(rng.normal(size=4000)) * np.exp(log_std), log_std, np.ones(4000)) >= 0.9
    assert _log_std_factor(np.abs(rng.normal(size=4000)), log_std, np.ones(4000)) == 0.0
    half = np.abs(rng.normal(size=4000)) * np.exp(0.5 * log_std)
    assert 0.3 <= _log_std_factor(half, log_std, np.ones(4000)) <= 0.7


def test_ratios_by_the_mean():
    rng = np.random.default_rng(0)
    eta = rng.uniform(0, 1, 2000)
    knots, factors = _log_ratio_by_mean(eta, np.exp(eta), np.ones(2000))
    np.testing.assert_allclose(np.diff(factors) / np.diff(knots), 0.9, atol=0.15)
    knots, factors = _log_ratio_by_mean(np.zeros(200), np.ones(200), np.ones(200))
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


def test_quantiles_between_and_beyond_those_known():
    normal = ErrorQuantiles(np.array([0.5, 0.9]), np.array([0.6744898, 1.6448536]))
    for level in (0.1, 0.5, 0.7, 0.9, 0.999):
        assert normal.reach(level) == pytest.approx(stats.norm.ppf(0.5 + 0.5 * level), rel=1e-6)
    heavy = ErrorQuantiles(np.array([0.5, 0.9]), np.array([0.5, 3.0]))
    reaches = [heavy.reach(level) for level in (0.1, 0.5, 0.7, 0.9, 0.99)]
    assert reaches == sorted(reaches)
    assert reaches[1] == pytest.approx(0.5)
    assert reaches[3] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("levels", "quantiles", "message"),
    [
        ([0.5, 0.9], [1.0], "differ in shape"),
        ([], [], "differ in shape"),
        ([0.9, 0.5], [1.0, 2.0], "increase"),
        ([0.5, 1.0], [1.0, 2.0], "increase"),
        ([0.5, 0.9], [1.0, np.inf], "finite"),
        ([0.5, 0.9], [2.0, 1.0], "not decrease"),
        ([0.5, 0.9], [0.0, 1.0], "positive"),
    ],
)
def test_what_are_no_quantiles_is_refused(levels, quantiles, message):
    with pytest.raises(ValueError, match=message):
        ErrorQuantiles(np.array(levels), np.array(quantiles))


def test_intervals_are_as_wide_as_errors_on_validation_rows(fitted):
    X, _, _ = uneven(1, 200)
    model, known = fitted.model_, fitted.model_.error_quantiles
    reach = known.reach(0.95) * np.sqrt(model.dispersion) * model.relative_std(X)
    low, high = fitted.predict_interval(X, kind="new").T
    usual = fitted.predict_eta(X, return_std=True)[1] <= fitted.band_.usual_std[0]
    assert usual.mean() > 0.9
    np.testing.assert_allclose((high - low)[usual], 2.0 * reach[usual], rtol=1e-9)
    assert (high - low >= 2.0 * reach * (1.0 - 1e-9)).all()


def test_squared_errors_are_between_those_of_parts_and_those_of_the_dispersion(fitted):
    known = ErrorQuantiles(np.array([0.9]), np.array([2.0]))
    model = Noise(None, known, dispersion=16.0 * fitted.model_.dispersion).added_to(fitted.model_)
    assert model.error_quantiles.quantiles[0] == pytest.approx(4.0)
    assert model.variance_model is None
    assert Noise().added_to(fitted.model_).error_quantiles is None


@pytest.mark.slow
def test_heavy_tails_are_known():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(-1, 1, 6000), "b": rng.uniform(-1, 1, 6000)})
    y = np.sin(3 * X.a) + 0.3 * rng.standard_t(3, 6000)
    model = AHOFMRegressor(**QUICK).fit(X[:2000], y[:2000])
    for level in (0.5, 0.8, 0.95, 0.99):
        low, high = model.predict_interval(X[2000:], level, kind="new").T
        assert np.mean((low <= y[2000:]) & (y[2000:] <= high)) == pytest.approx(level, abs=0.25 * (1 - level) + 0.005)


@pytest.mark.slow
def test_counts_whose_dispersion_differs():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(-1, 1, 6000), "b": rng.uniform(-1, 1, 6000)})
    mean = np.exp(3.0 + X.a + 0.5 * X.b)
    dispersion = np.where(X.b > 0, 8.0, 1.5)
    y = rng.negative_binomial(mean / (dispersion - 1.0), 1.0 / dispersion)
    model = AHOFMRegressor(family="quasi_poisson", **QUICK).fit(X[:3000], y[:3000])
    low, high = model.predict_interval(X[3000:], kind="new").T
    held, above = (low <= y[3000:]) & (y[3000:] <= high), X.b[3000:] > 0
    assert (low >= 0.0).all()
    assert 0.92 < held[above].mean() < 0.98
    assert 0.92 < held[~above].mean() < 0.98
    even = model.with_uncertainty()
    even.model_ = replace(even.model_, variance_model=None, error_quantiles=None)
    ends = even.predict_interval(X[3000:], kind="new")
    flat = (ends[:, 0] <= y[3000:]) & (y[3000:] <= ends[:, 1])
    assert flat[above].mean() < 0.93
    assert flat[~above].mean() > 0.985


def test_counts_that_are_nearly_all_zero_have_intervals():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(-1, 1, 800)})
    y = rng.poisson(np.exp(-4.0 + 2.0 * X.a)) * rng.integers(1, 4, 800)
    model = AHOFMRegressor(family="quasi_poisson", random_state=0, order=1, factor_prior="spline").fit(X, y)
    model.model_ = replace(model.model_, error_quantiles=ErrorQuantiles(np.array([0.95]), np.array([2.2])))
    low, high = model.predict_interval(X, kind="new").T
    assert (low == 0.0).all()
    assert (high >= low).all()
    assert np.isfinite(high).all()


@pytest.mark.slow
def test_the_scale_of_censored_times_is_that_of_validation_rows():
    scales = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(rng.uniform(-1, 1, (150, 6)), columns=list("abcdef"))
        lasted = np.exp(1.0 + X.a) * rng.weibull(2.0, 150)
        seen = rng.exponential(8.0, 150)
        y = np.column_stack([np.minimum(lasted, seen), lasted <= seen])
        model = AHOFMRegressor(family="weibull", **QUICK | {"rank": "auto"}).fit(X, y)
        signed = np.where(y[:, 1] == 1, y[:, 0], -y[:, 0])
        closest = replace(model.model_.family, open=True).learned(signed, model.model_.eta(X), np.ones(150))
        scales.append([model.model_.family.scale, closest.scale])
    of_validation, of_training = np.mean(scales, axis=0)
    assert isinstance(model.model_.family, Weibull)
    assert of_training < of_validation
    assert 0.45 < of_validation < 0.65  # the truth is 1 / 2
