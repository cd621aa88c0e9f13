"""Monotone effects hold for all combinations of the others, at codes, between them and beyond them."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

import ahofm
from ahofm import AHOFMClassifier, AHOFMRegressor, Cyclic, Spline
from ahofm.columns.shaped import Shaped
from ahofm.explain import effect, summary
from ahofm.fit import Candidate
from ahofm.kernels.curves import NumberCurves
from ahofm.model.bounds import control_points

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ROUNDING = 1e-11
PRODUCTS = {"factor_prior": [Candidate("spline", 0.7, 0.7, product=True)], "n_members": 1}
FITS = {
    "default": {"max_iter": 15},
    "pairs": {"order": 2, "factor_prior": "spline", "n_members": 1},
    "random walks of order 3": {"order": 3, "factor_prior": "random_walk", "n_members": 1, "max_iter": 15},
    "order 4": {"order": 4, "factor_prior": "spline", "n_members": 1, "max_iter": 15},
    "products": {**PRODUCTS, "max_iter": 15},
    "lbfgs": {"order": 3, "solver": "lbfgs", "rank": 2, "max_iter": 20},
    "subsample": {"order": 3, "solver": "subsample", "factor_prior": "spline", "n_members": 1, "max_iter": 10},
}


def rows(n=150, seed=0, levels=5):
    """Few distinct values, noise, and an effect that is not monotone."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, levels, (n, 4)).astype(float)
    Z = X / (levels - 1) * 2.0 - 1.0
    eta = np.sin(3.0 * Z[:, 0]) + Z[:, 1] + 2.0 * Z[:, 0] * Z[:, 2] + 2.0 * Z[:, 1] * Z[:, 2] * Z[:, 3]
    return X, eta + 0.5 * rng.normal(size=n)


def steps_along(model, j, values, others, predict="predict"):
    """Differences of predictions along column j, for all combinations of the others."""
    rest = np.array(list(product(*others)))
    tables = [np.insert(rest, j, value, axis=1) for value in values]
    return np.diff([getattr(model, predict)(table) for table in tables], axis=0)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_all_combinations_of_codes_and_between(fit):
    X, y = rows()
    settings = {"random_state": 0, "n_jobs": 1, **FITS[fit]}
    model = AHOFMRegressor(monotonic_cst={0: 1, 1: -1}, **settings).fit(X, y)
    dense, codes = np.linspace(-1.0, 5.0, 61), [-2.0, 0.0, 0.5, 1.0, 1.7, 2.0, 3.0, 3.3, 4.0, 9.0, np.nan]
    for j, sign in ((0, 1.0), (1, -1.0)):
        steps = sign * steps_along(model, j, dense, [codes] * 3)
        assert steps.min() > -ROUNDING
    free = AHOFMRegressor(**settings).fit(X, y)
    assert steps_along(free, 0, dense, [codes] * 3).min() < -0.01
    assert np.ptp(model.predict(X)) > 0.2 * np.ptp(free.predict(X))  # it is not constant


def test_what_is_monotone_already_stays():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (300, 2))
    y = 3.0 * X[:, 0] + X[:, 0] * X[:, 1] + 0.05 * rng.normal(size=300)
    settings = {"order": 2, "factor_prior": "spline", "n_members": 1, "random_state": 0}
    free, model = (AHOFMRegressor(monotonic_cst=cst, **settings).fit(X, y) for cst in (None, [1, 0]))
    assert np.abs(model.predict(X) - free.predict(X)).max() < 1e-3 * np.ptp(y)  # lines between codes


@pytest.mark.slow
def test_error_where_the_truth_is_monotone():
    """Within 3 % with many rows, better with few."""

    def truth(X):
        return 2.0 * X[:, 0] + X[:, 0] * X[:, 2] + 1.2 * X[:, 1] + 0.9 * X[:, 1] * X[:, 3]

    ratios = {}
    for n in (60, 1_000):
        errors = []
        for seed in range(3):
            rng = np.random.default_rng(seed)
            X, fresh = rng.uniform(-1.0, 1.0, (n, 4)), rng.uniform(-1.0, 1.0, (2_000, 4))
            y = truth(X) + 0.7 * rng.normal(size=n)
            settings = {"order": 3, "factor_prior": "spline", "n_members": 1, "random_state": 0}
            fits = [AHOFMRegressor(monotonic_cst=cst, **settings).fit(X, y) for cst in (None, [1, 1, 0, 0])]
            errors.append([np.sqrt(np.mean((own.predict(fresh) - truth(fresh)) ** 2)) for own in fits])
        ratios[n] = np.divide(*np.mean(errors, axis=0)[::-1])
    assert ratios[1_000] < 1.03
    assert ratios[60] < 1.0


@pytest.mark.parametrize("family", ["poisson", "gamma", "gaussian_location_scale"])
def test_families_of_a_monotone_mean(family):
    X, y = rows(200)
    target = np.maximum(np.round(y + 4.0), 1.0)
    settings = {"order": 2, "factor_prior": "spline", "n_members": 1, "max_iter": 10, "random_state": 0}
    model = AHOFMRegressor(family=family, monotonic_cst={1: 1}, **settings).fit(X, target)
    steps = steps_along(model, 1, np.linspace(-0.5, 4.5, 21), [range(5)] * 3)
    assert steps.min() > -ROUNDING * target.max()


def test_two_classes_and_missing_values():
    X, y = rows(300)
    X[::9, 2] = np.nan
    model = AHOFMClassifier(monotonic_cst=[1, 0, 0, 0], order=2, max_iter=8, n_members=1, random_state=0).fit(X, y > 0)
    rest = np.array(list(product(*[[*range(5), np.nan]] * 3)))
    steps = np.diff([model.predict_proba(np.insert(rest, 0, v, axis=1))[:, 1] for v in range(5)], axis=0)
    assert steps.min() > -ROUNDING


@pytest.mark.parametrize("shape", ["convex", "concave"])
def test_curvature_of_main_effects(shape):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (200, 2))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=200)
    model = AHOFMRegressor(order=2, exclude=[0], monotonic_cst={0: shape}, random_state=0, max_iter=5).fit(X, y)
    grid = np.linspace(X[:, 0].min(), X[:, 0].max(), 200)
    bends = np.diff(model.predict(np.column_stack([grid, np.zeros(200)])), 2)
    assert ((bends if shape == "convex" else -bends) > -1e-9).all()
    with pytest.raises(ValueError, match=r"is for columns without interactions: add exclude=\['x0'\], or fit order=1"):
        AHOFMRegressor(order=2, monotonic_cst={0: shape}).fit(X, y)


def test_bands_files_and_summaries(tmp_path):
    X, y = rows(200, levels=30)
    frame = pd.DataFrame(X, columns=["age", "b", "c", "d"])
    settings = {"order": 2, "factor_prior": "spline", "n_members": 1, "max_iter": 10, "random_state": 0}
    model = AHOFMRegressor(monotonic_cst={"age": 1}, **settings).fit(frame, y)
    curve = effect(model, "age")
    for part in (curve.value, curve.low, curve.high, curve.all_low, curve.all_high):
        assert np.diff(part).min() > -ROUNDING
    assert (curve.low <= curve.value + ROUNDING).all()
    assert (curve.value <= curve.high + ROUNDING).all()
    assert "monotonic_cst: age increasing (guaranteed for all values of the other columns)" in str(summary(model))
    model.save(tmp_path / "model.ahofm")
    back = ahofm.load(tmp_path / "model.ahofm")
    np.testing.assert_array_equal(back.predict(frame), model.predict(frame))
    assert back.model_.encoder.codebooks[0].kind == Shaped(shape="increasing")


def test_control_points_bound_polynomials():
    rng = np.random.default_rng(0)
    breaks = np.array([0.0, 0.5, 2.0])
    scales, shifts = np.array([0.0, 2.0, 0.5, 0.0]), np.array([0.0, 0.0, 0.25, 0.0])
    values = rng.normal(size=(4, 4, 3))
    values[[0, -1], 1:] = 0.0
    curves = NumberCurves(breaks, scales, shifts, values, rng.normal(size=3))
    points, at = control_points(curves), curves.evaluate(np.append(np.linspace(-1.0, 3.0, 2_001), np.nan))
    for _ in range(20):
        direction = rng.normal(size=3)
        assert (points @ direction).min() <= (at @ direction).min() + 1e-12
        assert (at @ direction).max() <= (points @ direction).max() + 1e-12


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"monotonic_cst": {"z": 1}}, "monotonic_cst names column 'z', which X does not have"),
        ({"monotonic_cst": {"t": 1}}, "names column 't', which holds levels without an order; convert it to numbers"),
        ({"monotonic_cst": {"a": 2}}, "of column 'a' must be 1 .increasing., -1 .decreasing., 0, 'convex'"),
        ({"monotonic_cst": {"a": True}}, "of column 'a' must be 1"),
        ({"monotonic_cst": [1, 0]}, "monotonic_cst has 2 entries, and X has 3 columns"),
        ({"monotonic_cst": "a"}, "monotonic_cst must be a dict"),
        ({"monotonic_cst": {"a": 1, 0: -1}}, "asks for two shapes of column 'a': increasing and decreasing"),
        ({"monotonic_cst": {"a": 1}, "columns": {"a": Cyclic(period=10)}}, "column 'a', which is cyclic"),
        ({"monotonic_cst": {"a": 1}, "columns": {"b": Spline(outside="linear")}}, "'b' has outside='linear'"),
    ],
)
def test_bad_shapes(settings, message):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": np.arange(40.0), "b": rng.normal(size=40), "t": ["u", "v"] * 20})
    with pytest.raises(ValueError, match=message):
        AHOFMRegressor(**settings).fit(X, np.arange(40.0))


def test_several_classes_are_refused():
    X, y = rows()
    with pytest.raises(ValueError, match="families of one linear predictor, not for Multinomial with 3"):
        AHOFMClassifier(monotonic_cst={0: 1}).fit(X, np.digitize(y, [-1.0, 1.0]))
