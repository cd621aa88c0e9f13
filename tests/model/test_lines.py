"""Main effects that are lines go on beyond the training range; everything else stays at the border."""

from dataclasses import replace

import numpy as np
import pytest

from ahofm import AHOFMClassifier, AHOFMRegressor, Linear, RandomWalk, Spline, SplineIID, load
from ahofm.columns.piecewise import LINE_REACH
from ahofm.explain import contributions, difference, effect, shapley_values, summary
from ahofm.explain.arguments import model_of
from ahofm.model.lines import regression_on_column, with_lines
from ahofm.orders import MAIN

ONE = {"factor_prior": "spline", "n_members": 1, "random_state": 0}
RNG = np.random.default_rng(0)
X = np.column_stack([RNG.uniform(-1, 1, 300), RNG.gamma(2.0, 1.0, 300), RNG.normal(size=300), RNG.integers(0, 2, 300)])
SUM = 3 * X[:, 0] + 2 * X[:, 1] + X[:, 3] + 0.5
FAR = np.array([[2.0, 20.0, 0.0, 0.0], [-3.0, -5.0, 0.2, 1.0], [0.5, 1.0, 0.0, 2.0]])


@pytest.fixture(scope="module")
def pairs():
    """A line, a curve, and a pair of both."""
    y = 2 * X[:, 0] + np.sin(2 * X[:, 2]) + X[:, 0] * X[:, 2] + 0.01 * np.random.default_rng(1).normal(size=300)
    return AHOFMRegressor(order=2, **ONE).fit(X, y)


@pytest.mark.parametrize("kind", [None, Spline(), SplineIID(), Linear()])
def test_exact_sums_stay_exact(kind):
    model = AHOFMRegressor(order=1, columns=kind, random_state=0).fit(X, SUM)
    truth = 3 * FAR[:, 0] + 2 * FAR[:, 1] + np.clip(FAR[:, 3], 0, 1) + 0.5  # two values do not make a line
    np.testing.assert_allclose(model.predict(FAR), truth, atol=2e-3)
    slopes = model.model_.linear_predictors[0].end_slopes
    assert list(slopes) == [0, 1]
    np.testing.assert_allclose(list(slopes.values()), [3.0, 2.0], rtol=1e-4)


@pytest.mark.parametrize("kind", [Spline(outside="clamp"), SplineIID(outside="clamp"), Linear(outside="clamp")])
def test_clamped_if_asked_for(kind):
    model = AHOFMRegressor(order=1, columns=kind, random_state=0).fit(X, SUM)
    inside = np.clip(FAR, X.min(axis=0), X.max(axis=0))
    assert not model.model_.linear_predictors[0].end_slopes
    np.testing.assert_allclose(model.predict(FAR), model.predict(inside), rtol=1e-12)


def test_curves_and_few_values_stay_at_the_border():
    few = np.column_stack([np.sin(np.arange(300)), np.arange(300) % 9])
    model = AHOFMRegressor(order=1, random_state=0).fit(few, few[:, 0] ** 2 + few[:, 1])
    assert not model.model_.linear_predictors[0].end_slopes
    np.testing.assert_array_equal(model.predict([[3.0, 20.0]]), model.predict([[few[:, 0].max(), 8.0]]))


def test_regressions_are_those_of_weighted_least_squares(pairs):
    model = pairs.model_
    book, own = model.encoder.codebooks[2], model.linear_predictors[0]
    values = own.at_codes(2, book)
    slopes, r2 = regression_on_column(book, values)
    x, mass = book.support.values, book.support.mass
    for f in range(values.shape[1]):
        y = values[: len(x), f]
        slope, constant = np.polyfit(x, y, 1, w=np.sqrt(mass))
        rest = mass @ (y - slope * x - constant) ** 2
        assert slopes[f] == pytest.approx(slope, rel=1e-9)
        assert r2[f] == pytest.approx(1.0 - rest / (mass @ (y - np.average(y, weights=mass)) ** 2), abs=1e-12)
    constant = regression_on_column(book, np.ones((book.n_codes, 1)))
    assert constant[0] == pytest.approx(0.0, abs=1e-12)
    assert constant[1] == 0.0


def test_only_the_main_effect_goes_on(pairs):
    own = pairs.model_.linear_predictors[0]
    assert list(own.end_slopes) == [0]
    assert own.orders
    low, high = pairs.model_.encoder.codebooks[0].clamped_range
    rows = X[:40].copy()
    for sign, border in ((-1.0, low), (1.0, high)):
        for far in (1e-3, 1.0, 50.0):
            rows[:, 0] = border
            at_border = pairs.predict(rows)
            rows[:, 0] = border + sign * far
            np.testing.assert_allclose(pairs.predict(rows), at_border + sign * far * own.end_slopes[0], rtol=1e-9)


def test_explanations_add_up_beyond_the_range(pairs):
    eta, pure = pairs.model_.eta(FAR)[:, 0], pairs.model_.linear_predictors[0].pure(pairs.model_.encoder.codebooks)
    np.testing.assert_allclose(shapley_values(pairs, FAR).values.sum(axis=1) + pure.intercept, eta, rtol=1e-9)
    found = contributions(pairs, FAR)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.intercept, eta, rtol=1e-9)
    curve = effect(pairs, 0, {0: [0.9, 3.0]})
    high, slope = pairs.model_.encoder.codebooks[0].clamped_range[1], pure.end_slopes[0]
    assert curve.value[1] - effect(pairs, 0, {0: [high]}).value[0] == pytest.approx((3.0 - high) * slope)
    assert curve.outside.tolist() == [False, True]
    step = difference(pairs, 0, 3.0, 2.0)
    assert step.value[0] == pytest.approx(slope)
    slopes_std = step.std[0]
    assert difference(pairs, 0, 12.0, 10.0).std[0] == pytest.approx(2 * slopes_std)


def test_bands_beyond_the_range_are_those_of_the_line(pairs):
    """Against the covariance of a weighted regression of draws of the main effect on its column."""
    curve, model = effect(pairs, 0, {0: [5.0]}), model_of(pairs, band=True)
    band, book = model.band, model.encoder.codebooks[0]
    root = np.linalg.inv(band.roots[0]).T
    own = band._places(0).main(0)
    rows = root[own]  # draws of the coordinates: root @ normal
    functions = band.mains[0] @ rows
    x, mass = book.support.values, book.support.mass
    slopes = np.polyfit(x, functions[: len(x)], 1, w=np.sqrt(mass))[0]
    value = functions[len(x) - 1] + (5.0 - book.clamped_range[1]) * slopes
    shift = band.shifts[0][own]
    bias = band.mains[0] @ shift
    step = bias[len(x) - 1] + (5.0 - book.clamped_range[1]) * np.polyfit(x, bias[: len(x)], 1, w=np.sqrt(mass))[0]
    assert curve.std[0] == pytest.approx(np.hypot(np.sqrt(value @ value), step), rel=1e-6)


def test_intervals_widen_with_the_distance(pairs):
    rows = np.repeat(X[:1], 4, axis=0)
    rows[:, 0] = [0.0, 2.0, 20.0, 200.0]
    wide = np.ptp(pairs.predict_interval(rows), axis=1)
    assert (np.diff(wide) > 0).all()
    assert wide[3] > 5 * wide[1]
    assert wide[3] == pytest.approx(10 * wide[2], rel=0.1)


def test_finite_at_any_number(pairs):
    rows = np.repeat(X[:1], 4, axis=0)
    rows[:, 0] = [1.7e308, -1.7e308, 1e300, 2.0 + 2 * LINE_REACH]
    found = pairs.predict(rows)
    slope = pairs.model_.linear_predictors[0].end_slopes[0]
    assert np.isfinite(found).all()
    assert np.isfinite(pairs.predict_interval(rows)).all()
    low, high = pairs.model_.encoder.codebooks[0].clamped_range
    rows[0, 0] = high
    assert found[0] == found[2] == found[3]
    assert found[0] == pytest.approx(pairs.predict(rows[:1])[0] + slope * LINE_REACH * (high - low), rel=1e-9)


def test_saved_restricted_and_edited(pairs, tmp_path):
    pairs.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(FAR), pairs.predict(FAR))
    additive = pairs.model_.at_order(1)
    assert list(additive.linear_predictors[0].end_slopes) == [0]
    slope = pairs.model_.linear_predictors[0].end_slopes[0]
    twice = pairs.rescale_effect(0, factor=2.0).model_.linear_predictors[0]
    assert twice.end_slopes[0] == 2 * slope
    clipped = pairs.clip_effect(0, high=0.5)
    assert clipped.predict([[9.0, 1.0, 0.0, 0.0]]) == clipped.predict([[X[:, 0].max(), 1.0, 0.0, 0.0]])
    gone = replace(pairs.model_, linear_predictors=(pairs.model_.linear_predictors[0].without([True] + [False] * 3),))
    assert gone.linear_predictors[0].end_slopes[0] == 0.0
    np.testing.assert_array_equal(gone.eta([[9.0, 1.0, 0.0, 0.0]]), gone.eta([[0.0, 1.0, 0.0, 0.0]]))
    with pytest.raises(ValueError, match="column 3 cannot go on as a line"):
        replace(pairs.model_, linear_predictors=(replace(pairs.model_.linear_predictors[0], end_slopes={3: np.nan}),))


def test_said_in_the_summary(pairs):
    assert "lines beyond the training range: x0" in str(summary(pairs))


def test_monotone_beyond_the_range():
    y = 2 * X[:, 0] + X[:, 2] * (1 + X[:, 0]) + 0.05 * np.random.default_rng(2).normal(size=300)
    model = AHOFMRegressor(order=2, monotonic_cst={0: 1}, **ONE).fit(X, y)
    own = model.model_.linear_predictors[0]
    forced = replace(model.model_, linear_predictors=(replace(own, end_slopes={0: 1.5}),))
    for one in (model.model_, forced):
        grid = np.repeat(X[:20], 60, axis=0)
        grid[:, 0] = np.tile(np.sort(np.concatenate([np.linspace(-1, 1, 40), [-1e9, 1e9], np.linspace(-9, 9, 18)])), 20)
        assert (np.diff(one.eta(grid)[:, 0].reshape(20, 60), axis=1) >= -1e-9).all()


def test_a_class_of_its_own():
    """Columns that are lines in the linear predictor of one class, and not in others."""
    rng = np.random.default_rng(3)
    Z = rng.uniform(-1, 1, size=(400, 2))
    y = np.digitize(2 * Z[:, 0] + 0.5 * rng.logistic(size=400), [-0.7, 0.7])
    model = AHOFMClassifier(columns=Linear(), order=1, random_state=0).fit(Z, y).model_
    assert all(0 in own.end_slopes for own in model.linear_predictors)
    changed = tuple(
        replace(own, end_slopes={0: own.end_slopes[0] * (k != 1), 1: 0.0})
        for k, own in enumerate(model.linear_predictors)
    )
    eta = replace(model, linear_predictors=changed).eta([[3.0, 5.0]])[0]
    border = model.eta([[Z[:, 0].max(), Z[:, 1].max()]])[0]
    slopes = np.array([own.end_slopes[0] for own in changed])
    np.testing.assert_allclose(eta, border + (3.0 - Z[:, 0].max()) * slopes, rtol=1e-9)


def test_uncentred_functions_are_judged_by_their_pure_main_effects():
    model = AHOFMRegressor(order=2, center=False, **ONE).fit(X, SUM).model_
    books = model.encoder.codebooks
    for own in (model.linear_predictors[0], with_lines(model).linear_predictors[0]):
        pure = own.pure(books)
        for j, slope in own.end_slopes.items():
            found, r2 = regression_on_column(books[j], pure.at_codes(j, books[j])[:, [MAIN]])
            assert r2[0] > 0.999
            assert found[0] == slope
    assert {0, 1} <= set(own.end_slopes)


def test_walks_that_are_lines():
    steps = np.repeat(np.arange(20.0), 15)[:, np.newaxis]
    model = AHOFMRegressor(order=1, columns=RandomWalk(), random_state=0).fit(steps, 2 * steps[:, 0])
    assert model.predict([[30.0]])[0] == pytest.approx(60.0, abs=0.5)
