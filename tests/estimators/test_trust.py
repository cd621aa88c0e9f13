"""Fits agree with themselves (their state, model and explanations) and with fits that should be the same."""

import numpy as np
import pandas as pd
import pytest
from benchmarks.attack import tables
from benchmarks.attack.outcome import IDENTICAL, REJECTED
from sklearn.metrics import r2_score

from ahofm import AHOFMClassifier, AHOFMRegressor, Linear, Spline, SplineIID
from ahofm.columns import Codes
from ahofm.families import Bernoulli, Gaussian, Poisson
from ahofm.priors import column as column_priors
from ahofm.training.data import Rows, by_relevance, row_counts


def year_and_noise(n=400, seed=0):
    rng = np.random.default_rng(seed)
    year = rng.choice([2019.0, 2020.0], n)
    year[: n // 10] = np.nan
    return np.column_stack([year, rng.normal(size=n)]), rng.normal(size=n)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"order": 1},
        {"order": 1, "columns": Linear()},
        {"columns": {0: Spline()}},
        {"columns": {0: SplineIID()}},
        {"solver": "lbfgs", "smoothing": "df"},
        {"solver": "lbfgs", "smoothing": "df", "center": False},
    ],
    ids=str,
)
def test_two_values_and_missing_ones(settings):
    X, y = year_and_noise()
    model = AHOFMRegressor(random_state=0, **settings).fit(X, y)
    assert 0.0 <= model.score(X, y) < 0.15
    assert np.abs(model.predict([[np.nan, 0.0]])).item() < 1.0


def test_missing_flags_do_not_hide_an_effect():
    rng = np.random.default_rng(1)
    flag = rng.choice([2019.0, 2020.0], 600)
    other = rng.normal(size=600)
    y = 2.0 * (flag == 2020.0) + other + 0.5 * rng.normal(size=600)
    flag[rng.random(600) < 0.1] = np.nan
    X = np.column_stack([flag, other])
    model = AHOFMRegressor(random_state=0).fit(X[:400], y[:400])
    seen = ~np.isnan(flag[400:])
    assert r2_score(y[400:][seen], model.predict(X[400:][seen])) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_ordinary_tables(seed):
    assert tables.check_ordinary(1_000_000 + seed) == []


@pytest.mark.parametrize(
    ("case", "outcome"),
    [
        (801, REJECTED),  # all columns are constant
        (1185, IDENTICAL),  # a line far from zero, with given degrees of freedom
        (550, IDENTICAL),  # steps that were taken back left rounding behind
        (1595, IDENTICAL),  # factors ran away, with partners that vanished
        (774, IDENTICAL),  # sweeps diverged, of losses that are no parabolas
        (1657, IDENTICAL),  # the same, seen in the dispersion alone
        (1916, IDENTICAL),  # losses of validation rows near the end of double precision
    ],
)
def test_tables_that_went_wrong(case, outcome):
    assert tables.attempt_ordinary(case)[0] == outcome


def test_the_oracle_sees_a_level_at_missing_values(monkeypatch):
    """The defect that it was written for: coordinates that keep the centring level where values are missing."""
    right = column_priors.smooth_coordinates

    def wrong(book, functions, *, center):
        found = right(book, functions, center=center)
        if book.learns_missing:
            found.to_basis[-1, : functions.size] = 0.0
        return found

    monkeypatch.setattr(column_priors, "smooth_coordinates", wrong)
    X, y = year_and_noise()
    X[:, 1] = X[:, 1].round(1)  # a code for every value
    case = tables.Case(pd.DataFrame(X), y, None, None, {"order": 1, "random_state": 0})
    monkeypatch.setattr(tables, "ordinary", lambda seed: case)
    found = tables.check_ordinary(0)
    assert any("state and model differ" in text for text in found)
    assert any("worse than a constant" in text for text in found)


@pytest.mark.parametrize("seed", range(24))
def test_nasty_tables(seed):
    outcome, seen = tables.attempt_nasty(1_000_000 + seed)
    assert outcome in (IDENTICAL, REJECTED), seen


@pytest.mark.slow
@pytest.mark.parametrize("family", ["poisson", "negative_binomial", "tweedie", "bernoulli"])
@pytest.mark.parametrize("events", [1, 2, 3])
@pytest.mark.filterwarnings("ignore:linear predictors are beyond:RuntimeWarning")
def test_few_events_are_fitted(family, events):
    rng = np.random.default_rng(events)
    X, y = rng.normal(size=(100, 3)), np.zeros(100)
    y[rng.choice(100, events, replace=False)] = 1.0
    model = AHOFMRegressor(family=family, order=2, random_state=0).fit(X, y)
    predicted = model.predict(X)
    assert np.isfinite(predicted).all()
    assert 0.1 * events < predicted.sum() < 1.5 * events
    if events == 1:  # no validation rows can judge effects of one event: they are shrunk
        assert predicted.max() < 0.05
        assert "no validation rows can judge" in model.model_.choices[0].reason


@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial", "gamma"])
def test_the_order_of_columns_and_a_constant_offset_change_nothing(family):
    rng = np.random.default_rng(3)
    common = rng.normal(size=(300, 1))
    X = 0.7 * rng.normal(size=(300, 5)) + 0.7 * common
    X[:, 1] = np.round(3 * X[:, 1]) / 3
    eta = 0.5 * np.sin(2 * X[:, 0]) + 0.2 * X[:, 1] ** 2
    y = {
        "gaussian": lambda: eta + rng.normal(size=300),
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
        "binomial": lambda: (rng.random(300) < 1 / (1 + np.exp(-eta))).astype(float),
        "gamma": lambda: rng.gamma(2.0, np.exp(eta)),
    }[family]()
    order = np.array([3, 0, 4, 2, 1])

    def fitted(X, **given):
        return AHOFMRegressor(order=1, family=family, random_state=0).fit(X, y, **given).model_.eta(X)[:, 0]

    plain = fitted(X)
    np.testing.assert_allclose(fitted(X[:, order]), plain, atol=1e-6 * plain.std())
    np.testing.assert_allclose(fitted(X, offset=np.full(300, 1.5)) + 1.5, plain, atol=1e-3 * plain.std())


@pytest.mark.slow
def test_the_order_of_columns_does_not_matter_for_interactions_either():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 4))
    y = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=200)
    order = np.array([2, 3, 1, 0])
    plain = AHOFMRegressor(order=2, random_state=0).fit(X, y).predict(X)
    moved = AHOFMRegressor(order=2, random_state=0).fit(X[:, order], y).predict(X[:, order])
    np.testing.assert_allclose(moved, plain, atol=1e-6 * y.std())


@pytest.mark.parametrize("family", ["gaussian", "poisson", "gamma"])
def test_additive_fits_end_at_their_optimum(family, monkeypatch):
    """Many more sweeps change predictions by less than a thousandth of the noise."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 4)) + rng.normal(size=(400, 1))
    eta = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]
    y = {
        "gaussian": lambda: eta + rng.normal(size=400),
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
        "gamma": lambda: rng.gamma(2.0, np.exp(eta)),
    }[family]()
    short = AHOFMRegressor(order=1, family=family, random_state=0).fit(X, y)
    assert short.trace_.reason.name == "CONVERGED"
    monkeypatch.setattr("ahofm.fit.solvers.variational.stage.CONVERGED_CHANGE", 1e-9)
    long = AHOFMRegressor(order=1, family=family, random_state=0, max_iter=1_000).fit(X, y)
    assert long.trace_.reason.name == "CONVERGED"
    assert long.n_iter_ > short.n_iter_
    np.testing.assert_allclose(short.model_.eta(X), long.model_.eta(X), atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("times", [1e-9, 1.25, 1e200])
def test_relative_weights_have_no_unit(times):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(80, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=80)
    weight = rng.uniform(0.5, 2.0, 80)
    one, other = (
        AHOFMRegressor(random_state=0).fit(X, y, sample_weight=own) for own in (weight / weight.mean(), times * weight)
    )
    np.testing.assert_allclose(other.predict(X), one.predict(X), atol=1e-4)
    np.testing.assert_allclose(other.predict_interval(X), one.predict_interval(X), atol=1e-3)
    assert one.score(X, y) < 0.99, "the rows are noisy, and none is there twice"


def test_row_counts():
    np.testing.assert_array_equal(row_counts(np.array([1.0, 3.0, 0.0]), Gaussian()), [1.0, 3.0, 0.0])
    np.testing.assert_allclose(row_counts(np.array([0.5, 1.5, 0.0]), Gaussian()), [0.5, 1.5, 0.0])
    np.testing.assert_allclose(row_counts(np.array([5.0, 15.5]), Gaussian()), np.array([5.0, 15.5]) / 10.25)
    np.testing.assert_allclose(row_counts(np.array([5.0, 15.5]), Poisson()), [5.0, 15.5])
    np.testing.assert_array_equal(row_counts(np.array([1e-300, 1.0]), Bernoulli()), [0.0, 1.0])
    np.testing.assert_allclose(row_counts(np.array([1e300, 3e300]), Gaussian()), [0.5, 1.5])
    with pytest.raises(ValueError, match=r"sample_weight has mean 1e\+250.*divide them"):
        row_counts(np.full(4, 1e250), Poisson())


@pytest.mark.slow
def test_a_code_of_one_heavy_row_is_one_row():
    """Relative weights above 1.5 do not make single rows of a column tell how far its values are apart."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=60)
    model = AHOFMRegressor(factor_prior="spline_iid", random_state=0).fit(X, y, sample_weight=rng.uniform(0.5, 2.0, 60))
    assert model.score(X, y) < 0.985


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "order"),
    [("gaussian", 1), ("gaussian", 2), ("huber", 1), ("quantile", 1), ("gaussian_location_scale", 1)],
)
def test_a_target_far_from_zero_is_fitted_like_one_at_zero(family, order):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(150, 3))
    y = 0.3 * (np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=150))
    near, far = (AHOFMRegressor(order=order, family=family, random_state=0).fit(X, y + at) for at in (0.0, 1e12))
    np.testing.assert_allclose(far.predict(X) - 1e12, near.predict(X), atol=2e-3)


def test_targets_at_the_ends_of_double_precision_are_refused():
    X = np.random.default_rng(9).normal(size=(30, 2))
    for times in (1e200, 1e-200):
        with pytest.raises(ValueError, match="give it in other units"):
            AHOFMRegressor().fit(X, times * X[:, 0])
        with pytest.raises(ValueError, match="give it in other units"):
            AHOFMRegressor(family="gamma").fit(X, times * np.exp(X[:, 0]))


def test_offsets_that_no_intercept_makes_finite_are_refused():
    X = np.random.default_rng(10).normal(size=(30, 2))
    with pytest.raises(ValueError, match=r"offset lies between 0 and 1000 .*logarithm of an exposure"):
        AHOFMRegressor(family="poisson").fit(X, np.ones(30), offset=np.linspace(0.0, 1000.0, 30))


def test_columns_by_relevance():
    y = np.array([0.0, 0.0, 1.0, 1.0])
    codes = Codes((np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])), (3, 3))
    assert by_relevance(codes, Rows(y, np.ones(4), None)) == (1, 0)


def test_classes_are_fitted_whatever_the_order_of_columns():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(200, 3))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=200), [-0.5, 0.5])
    one = AHOFMClassifier(order=1, random_state=0).fit(X, y).predict_proba(X)
    other = AHOFMClassifier(order=1, random_state=0).fit(X[:, ::-1], y).predict_proba(X[:, ::-1])
    np.testing.assert_allclose(other, one, atol=1e-6)


def test_coefficients_beyond_double_precision_are_refused():
    rng = np.random.default_rng(12)
    X = np.column_stack([1e-300 * rng.choice([1.0, 2.0], 60), rng.normal(size=60)])
    y = 1e90 * (X[:, 0] / 1e-300 + rng.normal(size=60))
    with pytest.raises(ValueError, match=r"column 'x0': .*give it in other units"):
        AHOFMRegressor(order=1, random_state=0).fit(X, y)


def test_curves_do_not_overshoot_between_values_that_are_far_apart():
    """Errors there are no larger than at the values themselves; those of splines are one and a half times as large."""
    rng = np.random.default_rng(0)
    values = np.array([1.0, 3.0, 7.0, 14.0, 28.0, 56.0, 90.0, 91.0, 100.0, 120.0, 180.0, 270.0, 360.0, 365.0])
    X = np.column_stack([rng.choice(values, 600), rng.uniform(0, 1, 600)])

    def mean(X):
        return 40.0 * (1.0 - np.exp(-X[:, 0] / 20.0)) * (0.5 + X[:, 1])

    model = AHOFMRegressor(order=2, random_state=0).fit(X, mean(X) + 3.0 * rng.normal(size=600))

    def worst(ages):
        X = np.array([(age, part) for age in ages for part in np.linspace(0.05, 0.95, 20)])
        return np.abs(model.predict(X) - mean(X)).max()

    assert worst([*np.linspace(56, 90, 9), *np.linspace(270, 360, 9)]) < worst(values)
