"""The dispersion at the end of a stage is that of row states without rounding errors."""

import numpy as np
import pytest

from ahofm import AHOFMRegressor
from ahofm.fit.solvers.variational.coordinate_ascent import VariationalState


def test_rounding_errors_of_row_states_are_not_in_the_dispersion(monkeypatch):
    sweep = VariationalState.sweep

    def rounded(self, **options):
        sweep(self, **options)
        self.dispersion *= 1.5  # what the last sweep leaves; it is estimated anew in the next one

    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (600, 2))
    mean = np.exp(1.5 + X[:, 0] + X[:, 0] * X[:, 1])
    y = rng.negative_binomial(3.0, 3.0 / (3.0 + mean))
    monkeypatch.setattr(VariationalState, "sweep", rounded)
    model = AHOFMRegressor(order=2, family="quasi_poisson", effort="fast", random_state=0).fit(X, y)
    fitted = model.predict(X)
    assert model.model_.dispersion == pytest.approx(np.mean((y - fitted) ** 2 / fitted), rel=0.2)


@pytest.mark.parametrize(
    ("estimates", "kept"), [([5.6, 5.58], 5.6), ([10.3, 5.7, 5.6, 5.599], 5.6), ([97.9], 98.0), ([98.1], 98.0)]
)
def test_differences_that_are_no_rounding_errors_change_nothing(monkeypatch, estimates, kept):
    state = object.__new__(VariationalState)
    state.dispersion = 98.0
    left = list(estimates)
    monkeypatch.setattr(
        VariationalState, "_update_dispersion", lambda self, floor: setattr(self, "dispersion", left.pop(0))
    )
    state.refresh_dispersion()
    assert state.dispersion == kept
    assert not left
