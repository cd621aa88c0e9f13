"""Differences and derivatives against what effects say, and their bands against draws."""

import numpy as np
import pandas as pd
import pytest

from ahofm import AHOFMRegressor, Cyclic
from ahofm.explain import derivative, difference, effect


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"x": rng.uniform(0, 10, 600), "g": rng.choice(["a", "b", "c"], 600), "h": rng.uniform(0, 24, 600)}
    )
    y = np.sin(X["x"]) * (X["g"] == "a") + 0.3 * X["x"] + 0.5 * (X["g"] == "b") + np.cos(X["h"] / 24 * 2 * np.pi)
    model = AHOFMRegressor(order=2, columns={"h": Cyclic(period=24)}, effort="fast", random_state=0)
    return model.fit(X, y + 0.2 * rng.normal(size=600))


def test_a_difference_of_levels_is_that_of_their_effects(fitted):
    levels = effect(fitted, "g")
    at = dict(zip(levels.grid[0], levels.value, strict=True))
    found = difference(fitted, "g", "a", "c")
    assert found.value[0] == pytest.approx(at["a"] - at["c"])
    assert found.low[0] < found.value[0] < found.high[0]
    assert found.name == "g: a less c"
    same = difference(fitted, "g", "b", "b")
    assert same.value[0] == same.std[0] == 0.0


def test_along_a_column_it_has_the_interaction(fitted):
    xs = np.array([1.0, 4.0, 8.0])
    found = difference(fitted, "g", "a", "c", along="x", grid={"x": xs})
    pairs = effect(fitted, ["g", "x"], {"x": xs}, alone=False)
    levels = list(pairs.grid[0])
    expected = pairs.value[levels.index("a")] - pairs.value[levels.index("c")]
    np.testing.assert_allclose(found.value, expected, atol=1e-12)
    back = difference(fitted, "g", "c", "a", along="x", grid={"x": xs})
    np.testing.assert_allclose(back.value, -found.value)
    np.testing.assert_allclose(back.std, found.std)


def test_derivatives_are_slopes_of_the_curve(fitted):
    found = derivative(fitted, "x")
    curve = effect(fitted, "x", {"x": found.grid[0]})
    slopes = np.gradient(curve.value, found.grid[0])
    inner = slice(8, -8)
    assert np.corrcoef(found.value[inner], slopes[inner])[0, 1] > 0.95
    assert (found.all_high - found.all_low > found.high - found.low).all()
    with pytest.raises(ValueError, match="column 'g' is not one of at least three different numbers"):
        derivative(fitted, "g")


def test_a_curve_on_a_circle_ends_where_it_began(fitted):
    found = effect(fitted, "h")
    assert found.grid[0][-1] - found.grid[0][0] == pytest.approx(24.0)
    assert found.value[-1] == pytest.approx(found.value[0])
    assert found.std[-1] == pytest.approx(found.std[0])
    assert not found.outside.any()
