"""P-values of main effects: their distributions, their level and their power."""

import numpy as np
import pytest
from benchmarks import p_values
from scipy import stats

from ahofm import AHOFMRegressor
from ahofm.columns import Linear
from ahofm.explain import summary
from ahofm.inference.tests_of_effects import Statistic, p_value, weighted_chi2_tail


@pytest.mark.parametrize("value", [0.5, 3.0, 9.0, 25.0])
def test_tails_of_weighted_sums_are_those_of_simulations(value):
    weights, dfs = np.array([1.0, 0.6, 0.3, 0.05]), np.array([1.0, 2.0, 1.0, 5.0])
    draws = np.random.default_rng(0).chisquare(dfs, size=(400_000, 4)) @ weights
    share = (draws > value).mean()
    assert weighted_chi2_tail(weights, dfs, value) == pytest.approx(share, rel=0.05, abs=4 * np.sqrt(share / 400_000))


def test_tails_of_equal_weights_are_chi_square_and_f():
    assert weighted_chi2_tail(np.full(3, 0.5), np.ones(3), 2.0) == pytest.approx(stats.chi2.sf(4.0, 3))
    for value in (1.0, 7.0, 40.0):
        one = Statistic(value, np.ones(2))
        assert p_value([one], None) == pytest.approx(stats.chi2.sf(value, 2))
        assert p_value([one], 30.0) == pytest.approx(stats.f.sf(value / 2, 2, 30), rel=0.05)
    mean = weighted_chi2_tail(np.array([1.0, 0.5]), np.ones(2), 1.5)
    assert mean == pytest.approx(weighted_chi2_tail(np.array([1.0, 0.5]), np.ones(2), 1.501), abs=5e-3)


def test_a_line_alone_has_the_p_value_of_its_slope():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2))
    y = 0.15 * X[:, 0] + rng.normal(size=200)
    found = summary(AHOFMRegressor(order=1, columns=Linear(), random_state=0).fit(X, y)).p_main
    Z = np.column_stack([np.ones(200), X])
    coef, rest, _, _ = np.linalg.lstsq(Z, y, rcond=None)
    t = coef / np.sqrt(rest[0] / 197 * np.diag(np.linalg.inv(Z.T @ Z)))
    np.testing.assert_allclose(found, 2 * stats.t.sf(np.abs(t[1:]), 197), rtol=0.15)


@pytest.mark.slow
def test_level_and_power():
    """Power was 27 % where a t-test has 95 %: the dimension of the basis was taken for degrees of freedom."""
    p = np.array([p_values.replication(seed, "gaussian", 0.0) for seed in range(9_000, 9_040)])
    line, curve, t_test = (np.mean(p[:, j] < 0.05) for j in (0, 1, 6))
    assert line > t_test - 0.15
    assert curve > 0.9
    nothing = p[:, 2:6].ravel()
    assert 0.01 < np.mean(nothing < 0.05) < 0.12
    assert 0.35 < np.mean(nothing) < 0.6


def test_columns_that_repeat_each_other_are_not_significant_alone():
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, 400)
    y = np.sin(2 * x) + rng.normal(size=400)
    found = summary(AHOFMRegressor(order=1, random_state=0).fit(np.column_stack([x, x]), y)).p_main
    assert (found > 0.05).all()
