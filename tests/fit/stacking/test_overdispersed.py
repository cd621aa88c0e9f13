"""Counts that vary more than a Poisson variable does."""

import numpy as np
import pytest

from ahofm import AHOFMRegressor
from ahofm.inference.dispersion import DispersionWarning


def test_overdispersed_counts_are_not_followed():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (2400, 4))
    eta = 2.5 + 0.5 * np.sin(3.0 * X[:, 0]) + 0.6 * X[:, 1] * X[:, 2]
    y = rng.poisson(np.exp(eta) * rng.gamma(2.0, 0.5, len(eta))).astype(float)
    model = AHOFMRegressor(family="poisson", order=2, factor_prior="random_walk", random_state=0)
    with pytest.warns(DispersionWarning):  # intervals are too narrow, means are not
        model.fit(X, y)
    error = np.sqrt(np.mean((np.log(model.predict(X)) - eta) ** 2))
    assert error < 0.2  # .34 with the variance of a Poisson variable
    assert model.model_.dispersion is None  # the family is still Poisson
