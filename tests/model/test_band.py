"""Standard errors of rows are those of each row alone, however many rows there are, and a band keeps nothing else."""

import pickle

import numpy as np
import pytest

from ahofm import AHOFMRegressor
from ahofm.columns.table import read_table
from ahofm.model import band as band_module


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 3))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=300)
    return AHOFMRegressor(order=2, effort="fast", random_state=0).fit(X, y), X


def test_standard_errors_are_those_of_the_covariance(fitted, monkeypatch):
    """Of a few rows by solving, of many by the triangle of the covariance, which chunks of rows share."""
    model, X = fitted
    codes = model.model_.encoder.encode(read_table(X))
    every = model.band_.eta(codes)
    few = model.band_.eta(model.model_.encoder.encode(read_table(X[:4])))
    np.testing.assert_allclose(every[:4], few, rtol=1e-10)
    monkeypatch.setattr(band_module, "_ROWS", 128)
    np.testing.assert_allclose(model.band_.eta(codes), every, rtol=1e-12)


def test_pickles_of_a_band_hold_its_fields_alone(fitted):
    model, X = fitted
    model.predict_interval(X)
    assert "_last_upper" in vars(model.band_)
    back = pickle.loads(pickle.dumps(model.band_))
    assert vars(back).keys() == set(model.band_.__dataclass_fields__)
    codes = model.model_.encoder.encode(read_table(X))
    np.testing.assert_array_equal(back.eta(codes), model.band_.eta(codes))
