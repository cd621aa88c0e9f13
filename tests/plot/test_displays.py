"""Figures: that each shows the numbers it was given, names its columns and levels, and needs matplotlib only then."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.explain import effect, marginals, shapley_values
from ahofm.plot import (
    DiagnosticsDisplay,
    EffectDisplay,
    ExplanationDisplay,
    FactorsDisplay,
    MarginalsDisplay,
    SharesDisplay,
    SurfaceDisplay,
    TraceDisplay,
)

pytestmark = pytest.mark.slow

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def closed_figures():
    matplotlib.use("Agg")
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, size=(600, 3)), columns=["wind", "rain", "sun"])
    X["season"] = rng.choice(["dry", "wet", "very wet indeed"], size=600)
    X["days"] = rng.integers(1, 6, size=600)
    y = np.sin(3 * X["wind"]) + 2 * X["rain"] * X["sun"] + (X["season"] == "wet") + 0.3 * rng.normal(size=600)
    return X, y.to_numpy()


@pytest.fixture(scope="module")
def fitted(data):
    return AHOFMRegressor(order=3, factor_prior="spline", n_members=1, random_state=0).fit(*data)


def drawn(display):
    display.figure_.canvas.draw()
    return display


def test_a_curve_with_bands(fitted):
    found = drawn(EffectDisplay.from_estimator(fitted, "wind", labels={"wind": "wind (m/s)"}))
    assert found.ax_.get_xlabel() == "wind (m/s)"
    (line,) = [line for line in found.ax_.lines if len(line.get_xdata()) == 100]
    assert np.array_equal(line.get_ydata(), found.effect.value)
    assert len(found.ax_.collections) == 2
    assert len(found.ax_.child_axes) == 1  # where the data are


def test_extrapolation_is_dotted(fitted):
    found = drawn(EffectDisplay.from_estimator(fitted, "wind", grid={"wind": np.linspace(-2, 2, 50)}))
    assert sorted(line.get_linestyle() for line in found.ax_.lines) == ["-", "-", ":"]


def test_levels_have_names_and_numbers_that_are_few_are_dots(fitted):
    found = drawn(EffectDisplay.from_estimator(fitted, "season"))
    assert [text.get_text() for text in found.ax_.get_xticklabels()] == ["dry", "very wet indeed", "wet"]
    found = drawn(EffectDisplay.from_estimator(fitted, "days"))
    assert found.ax_.get_xticks().tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("columns", [("rain", "sun"), ("season", "wind"), ("days", "season")])
def test_surfaces(fitted, columns):
    found = drawn(SurfaceDisplay.from_estimator(fitted, columns))
    assert (found.ax_.get_xlabel(), found.ax_.get_ylabel()) == columns
    mesh = found.ax_.collections[0]
    assert np.array_equal(mesh.get_array().ravel(), found.effect.value.T.ravel())
    assert abs(mesh.get_clim()[0] + mesh.get_clim()[1]) < 1e-12  # no effect is white


def test_the_number_of_columns_has_to_fit(fitted):
    with pytest.raises(ValueError, match="a curve has one column, this effect has 2"):
        EffectDisplay(effect(fitted, ["rain", "sun"])).plot()
    with pytest.raises(ValueError, match="a surface has two columns, this effect has 1"):
        SurfaceDisplay(effect(fitted, "rain")).plot()


def test_marginals_on_given_axes(fitted):
    _, axes = matplotlib.pyplot.subplots(1, 3)
    found = drawn(MarginalsDisplay(marginals(fitted, ["wind", "rain", "sun"])).plot(ax=axes))
    assert found.axes_.tolist() == axes.tolist()
    assert len({panel.get_ylim() for panel in axes}) == 1
    with pytest.raises(ValueError, match="ax holds 2 axes, 3 are needed"):
        MarginalsDisplay(marginals(fitted, ["wind", "rain", "sun"])).plot(ax=axes[:2])


def test_factors_and_shares(fitted):
    found = drawn(FactorsDisplay.from_estimator(fitted, 2))
    assert [panel.get_xlabel() for panel in found.axes_] == ["wind", "rain", "sun", "season", "days"]
    shares = drawn(SharesDisplay.from_estimator(fitted))
    assert [text.get_text() for text in shares.axes_[1].get_yticklabels()][-1] == "rain × sun"
    assert shares.axes_[0].get_yticklabels()[-1].get_text() in ("wind", "rain", "sun")


@pytest.mark.parametrize("terms", [False, True])
def test_one_row_adds_up(fitted, data, terms):
    X = data[0].iloc[:5]
    found = drawn(ExplanationDisplay.from_estimator(fitted, X, 2, terms=terms))
    bars = found.ax_.patches
    assert bars[-1].get_x() + bars[-1].get_width() == pytest.approx(fitted.predict(X)[2])
    if not terms:
        assert any(text.get_text().startswith("season = ") for text in found.ax_.get_yticklabels())
    with pytest.raises(ValueError, match="row must be between 0 and 4, got 5"):
        ExplanationDisplay.of(shapley_values(fitted, X), 5)


@pytest.mark.slow
def test_traces_and_diagnostics(fitted, data):
    drawn(TraceDisplay.from_estimator(fitted))
    found = drawn(DiagnosticsDisplay.from_estimator(fitted, *data))
    assert np.std(found.residuals) == pytest.approx(1.0, abs=0.15)
    X, y = data
    classes = AHOFMClassifier(order=1, random_state=0).fit(X, y > 0)
    drawn(DiagnosticsDisplay.from_estimator(classes, X, y > 0))
    with pytest.raises(ValueError, match="several classes"):
        DiagnosticsDisplay.from_estimator(
            AHOFMClassifier(order=1, random_state=0).fit(X, np.digitize(y, [-1, 1])), X, np.digitize(y, [-1, 1])
        )


def test_weights_count_in_the_calibration(data, fitted):
    X, y = data
    weight = np.where(np.arange(len(y)) % 3, 1.0, 4.0)
    weight[:50] = 0.0

    def points(**options):
        container = drawn(fitted.appraise(**options)).axes_[3].containers[0]
        return np.array(container[0].get_xydata())

    found = points(X=X, y=y, sample_weight=weight)
    mean = fitted.predict(X)
    order = np.argsort(mean, kind="stable")
    for at, group in zip(found, np.array_split(order[weight[order] > 0], len(found)), strict=True):
        expected = [np.average(values[group], weights=weight[group]) for values in (mean, y)]
        np.testing.assert_allclose(at, expected)
    ones = points(X=X, y=y, sample_weight=np.ones(len(y)))
    np.testing.assert_allclose(ones, points(X=X, y=y))
    assert np.abs(found - ones).max() > 0.01


@pytest.mark.slow
def test_matplotlib_is_imported_only_to_draw():
    program = "import sys, ahofm, ahofm.explain, ahofm.plot; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
