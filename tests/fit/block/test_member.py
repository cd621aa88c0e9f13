"""A member's stages."""

import numpy as np
import pytest

from ahofm import AHOFMRegressor
from ahofm.fit.block import member
from ahofm.fit.block.state import State


def repeated_values(seed):
    """Five columns that are functions of one of twelve shapes, and three with few values; hardly any noise."""
    rng = np.random.default_rng(seed)
    shape = rng.integers(0, 12, 400)
    looks = rng.normal(size=(12, 5))[shape]
    X = np.column_stack([looks, rng.integers(0, 4, 400), rng.integers(0, 4, 400) / 10, rng.integers(0, 6, 400)])
    mean = 2 * np.sin(X[:, 0]) + 3 * X[:, 1] * X[:, 6] + X[:, 0] * X[:, 5] * X[:, 6] + 5 * X[:, 6] * (X[:, 7] > 0)
    return X, mean + 0.02 * rng.normal(size=400), mean


@pytest.mark.filterwarnings("ignore")
def test_a_stage_that_diverges_leaves_the_one_below_it(monkeypatch):
    X, y, mean = repeated_values(3)

    def fitted():
        model = AHOFMRegressor(order=4, interactions="mixed", n_members=1, random_state=0, n_jobs=1)
        return model.fit(X[:300], y[:300])

    assert np.sqrt(np.mean((fitted().predict(X[300:]) - mean[300:]) ** 2)) < 0.1  # was a million
    monkeypatch.setattr(member, "_ASTRAY", 0.0)
    assert fitted().model_.order == 1


def test_steps_that_losses_never_bear_out_leave_constants(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(200, 2))
    y = rng.poisson(np.exp(X[:, 0])).astype(float)
    monkeypatch.setattr(State, "_bears_out", lambda *_: False)
    model = AHOFMRegressor(family="poisson", order=2, interactions="smooth", n_members=1).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y.mean(), rtol=1e-6)
