"""A device is chosen by name, or is a backend of one's own, which needs nothing but its methods."""

import warnings
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from sklearn.base import clone

from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.backends import Backend, CpuBackend, ReferenceBackend, SweepingBackend, backend_of
from ahofm.fit import Settings, fit_model
from tests.golden.fits import FITS
from tests.golden.make import compared
from tests.golden.record import recorded, stored

BAD = {
    "cuda": (ValueError, "device='cuda': no CUDA backend is installed .* use device='cpu' or 'auto'"),
    "gpu": (ValueError, "device must be 'auto', 'cpu', 'cuda' or a backend, got 'gpu'"),
    "": (ValueError, "device must be 'auto', 'cpu', 'cuda' or a backend, got ''"),
    None: (TypeError, "device must be .* an object with `load` and `curves`; got None"),
    3: (TypeError, "device must be .*; got 3"),
    CpuBackend: (TypeError, "device must be .*; got <class"),  # a class, not an object of it
}


@pytest.mark.parametrize("device", BAD, ids=str)
@pytest.mark.parametrize("estimator", [AHOFMRegressor, AHOFMClassifier])
def test_devices_that_are_not_there(device, estimator):
    kind, message = BAD[device]
    X, y = np.arange(30.0)[:, None], np.arange(30) % 2
    with pytest.raises(kind, match=message):
        estimator(device=device).fit(X, y)
    with pytest.raises(kind, match=message):
        estimator(device=device).forecast(X, y)
    with pytest.raises(kind, match=message):
        fit_model(X, y, settings=Settings(device=device))


def test_names_and_objects():
    assert backend_of() == backend_of("auto") == backend_of("cpu") == CpuBackend()
    own = ReferenceBackend()
    assert backend_of(own) is own
    assert not isinstance(own, SweepingBackend)


@dataclass
class Counting:
    """A backend of a user's own: that of NumPy, with the calls counted."""

    inner: Backend = field(default_factory=ReferenceBackend)
    calls: Counter = field(default_factory=Counter)

    def load(self, source, executor, precision="float64"):
        self.calls["load"] += 1
        return Counted(self.inner.load(source, executor, precision), self.calls)

    def curves(self, linear_predictors):
        self.calls["curves"] += 1
        return self.inner.curves(linear_predictors)


class Counted:
    """Anything, with calls of its methods counted; working rows are counted as well."""

    def __init__(self, inner, calls):
        self._inner, self._calls = inner, calls

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args, **kwargs):
            self._calls[name] += 1
            result = found(*args, **kwargs)
            return Counted(result, self._calls) if name in ("working", "copy") else result

        return call


SEAMS = {
    "weights that are relative": {"swap", "linearise", "main_sums", "evaluate", "dispersion", "gradient"},
    "default, text and gaps": {"swap", "curves", "set_columns", "set_main_effects"},
    "bernoulli": {"swap", "trial", "accept", "loss_along", "loss"},
    "negative binomial": {"learn_parameters"},
    "location and scale": {"trial", "accept"},
    "lbfgs": {"load", "gradient"},
    "bcd": {"column_gram", "gradient"},
    "adam": {"batches", "value"},
    "subsample, counts": {"swap", "gradient", "column_gram"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEAMS)
def test_a_backend_of_ones_own_gives_the_golden_fit(name):
    backend = Counting()
    fit = replace(FITS[name], options={**FITS[name].options, "device": backend})
    within, text = compared(name, recorded(fit), stored()[name])
    assert within, f"{name} is another fit with the reference backend: {text}"
    assert SEAMS[name] <= backend.calls.keys()


@pytest.mark.parametrize("solver", ["auto", "lbfgs"])
def test_a_backend_of_ones_own_from_end_to_end(solver):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(80, 2))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=80)
    backend = Counting()
    settings = {"order": 2, "factor_prior": "spline", "n_members": 1, "random_state": 0, "max_iter": 8}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few iterations
        own = AHOFMRegressor(device=backend, solver=solver, **settings).fit(X, y)
        plain = AHOFMRegressor(solver=solver, **settings).fit(X, y)
    np.testing.assert_allclose(own.predict(X), plain.predict(X), rtol=1e-6, atol=1e-8)
    assert own.get_params()["device"] is backend
    assert backend.calls["load"] > 0


def test_a_device_is_a_parameter_like_others():
    model = AHOFMClassifier(device="cpu")
    assert model.get_params()["device"] == "cpu"
    assert clone(model).device == "cpu"
    assert "device" not in repr(AHOFMRegressor())
    assert AHOFMRegressor().set_params(device=CpuBackend(compiled_sweeps=False)).device.compiled_sweeps is False
