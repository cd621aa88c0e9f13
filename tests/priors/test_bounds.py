"""Bounds of factors."""

import numpy as np
import pytest

from ahofm.priors.bounds import Bounds


def example(scale):
    rng = np.random.default_rng(0)
    mass = rng.dirichlet(np.ones(30))
    values = rng.standard_t(2, (30, 3))
    return Bounds(mass, np.where(mass < 0.02, scale, 2.0 * scale)), values - mass @ values


def test_values_within_their_bounds_stay():
    bounds, values = example(100.0)
    slope = np.ones_like(values)
    assert bounds(values) is values
    assert bounds.pull_back(slope, values) is slope


def test_bounds_are_multiples_of_the_root_mean_square_and_keep_the_mean():
    bounds, values = example(1.0)
    found = bounds(values)
    assert (found != values).any()
    np.testing.assert_allclose(bounds.mass @ found, bounds.mass @ values, atol=1e-12)
    shift = found - np.clip(values, -(limit := np.outer(bounds.times, np.sqrt(bounds.mass @ values**2))), limit)
    np.testing.assert_allclose(shift, shift[:1] * np.ones((30, 1)), atol=1e-12)


def test_slopes_follow_the_chain_rule():
    bounds, values = example(1.0)
    rng = np.random.default_rng(1)
    slope, direction = rng.normal(size=values.shape), rng.normal(size=values.shape)
    up, down = (np.sum(slope * bounds(values + step * direction)) for step in (1e-6, -1e-6))
    assert np.sum(bounds.pull_back(slope, values) * direction) == pytest.approx((up - down) / 2e-6, rel=1e-6)


def test_functions_that_are_zero_stay_zero():
    bounds, values = example(1.0)
    values[:, 1] = 0.0
    assert (bounds(values)[:, 1] == 0.0).all()
    assert np.isfinite(bounds.pull_back(np.ones_like(values), values)).all()
