"""Bands of models with more coordinates of main effects than a covariance can have."""

import numpy as np
import pytest

from ahofm import AHOFMRegressor
from ahofm.explain import effect
from ahofm.inference import implied_smoothing


@pytest.fixture(scope="module")
def rows():
    """Twenty columns: a wave, a slope, levels, a constant and noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 20)).astype(object)
    X[:, 3] = np.array(list("abcdefgh"))[rng.integers(0, 8, 600)]
    X[:, 4] = 1.0
    y = np.sin(3.0 * X[:, 0].astype(float)) + X[:, 1].astype(float) + (X[:, 3] == "a") + 0.5 * rng.normal(size=600)
    return X, y


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("order", [1, 2])
def test_main_effects_keep_the_coordinates_that_the_fit_uses(monkeypatch, rows, order):
    model = AHOFMRegressor(order=order, effort="fast", random_state=0).fit(*rows)
    whole = model.with_uncertainty().model_.band
    sizes = [main.shape[1] for main in whole.mains]
    monkeypatch.setattr(implied_smoothing, "MOST_COORDINATES", 120)
    fewer = AHOFMRegressor(order=order, effort="fast", random_state=0).fit(*rows).with_uncertainty()
    found = [main.shape[1] for main in fewer.model_.band.mains]
    assert sum(sizes) > 200
    assert sum(found) <= 120
    assert found[0] == sizes[0] > 10  # a wave
    assert found[3] == sizes[3] == 8
    assert found[4] == 0
    assert 3 <= min(found[5:]) < 8
    for j in (0, 1, 3):
        ratio = effect(fewer, j).std / effect(model.with_uncertainty(), j).std
        assert 0.9 < np.median(ratio) < 1.15, (j, ratio)
    assert set(fewer.model_.band.tests) == set(whole.tests)
    monkeypatch.setattr(implied_smoothing, "MOST_COORDINATES", 10)
    least = AHOFMRegressor(order=order, effort="fast", random_state=0).fit(*rows).with_uncertainty().model_.band
    assert min(main.shape[1] for main in least.mains[5:]) == 1
    assert least.mains[0].shape[1] == sizes[0]
    assert least.mains[3].shape[1] == 8
