"""A candidate whose main effects are lines, for censored times of few rows."""

import numpy as np
import pandas as pd
import pytest

from ahofm import AHOFMHazard, AHOFMRegressor
from ahofm.backends import Response
from ahofm.families import Gaussian
from ahofm.fit.stacking.candidates import LINES
from ahofm.fit.stacking.weights import Scores
from ahofm.tuning import LINE_ROWS


def times(n, curve=0.0, seed=0):
    """Log-normal times with a line in a, a level of c, and perhaps a curve in b; a few values of a are missing."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "c": rng.choice(["x", "y"], n)})
    eta = 0.8 * X.a + 0.5 * (X.c == "x") + curve * np.sin(3.0 * X.b)
    lasted, seen = np.exp(eta + 0.7 * rng.normal(size=n)), 3.0 * rng.exponential(size=n)
    X.loc[::23, "a"] = np.nan
    return X, np.column_stack([np.minimum(lasted, seen), lasted <= seen])


def lines_of(estimator):
    """Stacking weights and their reasons, as text."""
    found = next(choice for choice in estimator.model_.choices if choice.name == "interactions")
    return f"{found.value}; {found.reason}"


@pytest.mark.parametrize("order", [1, 2])
def test_main_effects_are_lines_beside_missing_values(order):
    X, y = times(150, curve=0.5)
    model = AHOFMRegressor(family="log_normal", factor_prior=[LINES], order=order, random_state=0).fit(X, y)
    grid = pd.DataFrame({"a": np.linspace(-1.4, 1.4, 8), "b": 0.1, "c": "x"})
    np.testing.assert_allclose(np.diff(np.log(model.predict(grid)), 2), 0.0, atol=1e-6)
    level = np.log(model.predict(grid.assign(a=np.nan)))
    assert not np.isclose(level[0], np.log(model.predict(grid.assign(a=0.0)))[0], atol=1e-3)


def test_few_rows_of_linear_times_have_lines():
    X, y = times(120)
    assert "lines" in lines_of(AHOFMRegressor(family="weibull", random_state=0).fit(X, y))
    hazard = AHOFMHazard(AHOFMRegressor(random_state=0), n_intervals=4).fit(X, y)
    assert "lines" in lines_of(hazard.regressor_)


def test_a_clear_curve_stays_and_many_rows_do_not_try_lines():
    X, y = times(240, curve=2.0)
    curved = AHOFMRegressor(family="log_normal", random_state=0).fit(X, y)
    assert "spline" in lines_of(curved)
    grid = pd.DataFrame({"a": 0.0, "b": np.linspace(-1.4, 1.4, 8), "c": "x"})
    steps = np.diff(np.log(curved.predict(grid)))
    assert steps.min() < -0.3 < 0.3 < steps.max()
    X, y = times(LINE_ROWS)
    model = AHOFMRegressor(family="log_normal", order=1, random_state=0).fit(X, y)
    assert "lines" not in lines_of(model)


def test_curves_and_pairs_have_to_beat_lines():
    """Scores by hand: two candidates, lines the second; pairs of the first are as good as they are said to be."""
    rng = np.random.default_rng(3)
    y = rng.normal(size=400)
    response = Response(Gaussian(), y, np.ones(400), None)

    def scores(curve, pair):
        line = 0.5 * y + 0.3 * rng.normal(size=400)
        first = np.stack([line + curve * (y - line), line + pair * (y - line)], axis=1)
        second = np.stack([line, line], axis=1)
        predicted = np.stack([first, second], axis=1)[:, np.newaxis]
        return Scores((1, 2), predicted, response, ((1, 2), (1,)), lines=(1,))

    assert scores(0.0, 0.0).supported(2) == 0
    assert set(scores(0.0, 0.0).stacking_weights(2)) == {(1, 1)}
    assert scores(0.9, 0.0).supported(1) == 1
    weights = scores(0.9, 0.0).stacking_weights(1)
    assert weights[0, 1] > 0.7
    assert scores(0.0, 0.9).supported(2) == 2
    assert (0, 2) in scores(0.0, 0.9).stacking_weights(2)
