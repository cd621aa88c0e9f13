"""A file gives back a fitted estimator of the right class, whose answers are those of the one that was saved."""

import copy
import json

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

import ahofm
from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.model import ModelFileError
from ahofm.model.files import VERSION, _digest
from tests.golden.models import kept, rows_of

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.uniform(-1, 1, size=(200, 3)), columns=["wind", "rain", "sun"])
X["town"] = RNG.choice(["Aachen", "Bonn"], 200)
Y = np.sin(3 * X.wind) + 2 * X.rain * X.sun + (X.town == "Bonn") + 0.1 * RNG.normal(size=200)
FAST = {"order": 2, "factor_prior": "spline", "n_members": 1, "random_state": 0}


def there_and_back(estimator, folder, **settings):
    estimator.save(folder / "model.ahofm", **settings)
    return ahofm.load(folder / "model.ahofm")


def test_a_regressor(tmp_path):
    model = AHOFMRegressor(**FAST).fit(X, Y)
    back = there_and_back(model, tmp_path)
    assert type(back) is AHOFMRegressor
    assert back.feature_names_in_.tolist() == ["wind", "rain", "sun", "town"]
    assert (back.n_features_in_, back.n_iter_, back.negligible_) == (4, model.n_iter_, model.negligible_)
    assert back.get_params() == {**AHOFMRegressor().get_params(), "order": 2, "family": model.model_.family}
    turned = X[["town", "sun", "wind", "rain"]]
    for asked in (X, turned):
        np.testing.assert_array_equal(back.predict(asked), model.predict(X))
        intervals = back.predict_interval(asked, kind="new"), model.predict_interval(X, kind="new")
        np.testing.assert_allclose(*intervals, rtol=1e-6)  # covariances are stored in single precision
        assert back.score(asked, Y) == model.score(X, Y)
    np.testing.assert_array_equal(back.feature_importances_, model.feature_importances_)
    assert back.summary().edf.keys() == {1, 2}
    assert back.summary().deviance_explained is None
    assert back.report(tmp_path / "page.html").stat().st_size > 10_000
    np.testing.assert_array_equal(copy.deepcopy(back).predict(X), back.predict(X))


@pytest.mark.parametrize("cuts", [[0.0], [-0.5, 0.5]], ids=["two", "three"])
def test_a_classifier(cuts, tmp_path):
    labels = np.array(["a", "b", "c"])[np.digitize(Y, cuts)]
    model = AHOFMClassifier(**{**FAST, "order": 1}).fit(X, labels)
    back = there_and_back(model, tmp_path)
    assert type(back) is AHOFMClassifier
    assert back.classes_.tolist() == model.classes_.tolist()
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    np.testing.assert_array_equal(back.predict_proba(X[X.columns[::-1]]), model.predict_proba(X))
    np.testing.assert_allclose(back.predict_eta(X, return_std=True), model.predict_eta(X, return_std=True), rtol=1e-6)
    assert back.score(X, labels) == model.score(X, labels)
    assert back.log_likelihood(X, labels) == model.log_likelihood(X, labels)


def test_arrays_have_no_names(tmp_path):
    numbers = X[["wind", "rain"]].to_numpy()
    back = there_and_back(AHOFMRegressor(**FAST).fit(numbers, Y), tmp_path)
    assert not hasattr(back, "feature_names_in_")
    assert back.predict(numbers).shape == (200,)
    with pytest.raises(ValueError, match="X has 1 features, but AHOFMRegressor is expecting 2 features"):
        back.predict(numbers[:, :1])


def test_without_uncertainty(tmp_path):
    model = AHOFMRegressor(**FAST).fit(X, Y)
    back = there_and_back(model, tmp_path, uncertainty=False)
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert back.summary().edf is None
    with pytest.raises(ValueError, match="training rows are not here any more"):
        back.predict_interval(X)
    np.testing.assert_array_equal(back.with_uncertainty(X, Y).predict_interval(X), model.predict_interval(X))


def test_it_can_be_fitted_again(tmp_path):
    back = there_and_back(AHOFMRegressor(**FAST).fit(X, Y), tmp_path)
    with pytest.raises(ValueError, match="rows of the earlier fit are not here any more"):
        back.partial_fit(X, Y)
    back.set_params(n_members=1, factor_prior="spline").fit(X[["sun", "wind"]], Y)
    assert back.feature_names_in_.tolist() == ["sun", "wind"]


def versioned(path, version):
    """The file with another version in it."""
    data = path.read_bytes()
    metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    tensors = load_tensors(data)
    path.write_bytes(
        save_tensors(tensors, {**metadata, "version": version, "sha256": _digest(metadata["model"], tensors)})
    )


@pytest.mark.parametrize("path", kept(), ids=lambda path: path.stem)
def test_files_of_every_version_so_far(path):
    back, (rows, eta) = ahofm.load(path), rows_of(path)
    assert type(back) is AHOFMRegressor
    assert back.feature_names_in_.tolist() == list(rows)
    np.testing.assert_allclose(back.predict_eta(rows), eta, rtol=1e-12, atol=1e-12 * np.abs(eta).max())
    assert back.predict_interval(rows).shape == (len(rows), 2)


def test_there_is_a_file_of_every_version_so_far():
    assert {path.stem for path in kept()} == {f"model_v{version}" for version in range(1, VERSION + 1)}


def test_a_file_of_a_newer_version(tmp_path):
    AHOFMRegressor(**FAST).fit(X, Y).save(tmp_path / "model", uncertainty=False)
    versioned(tmp_path / "model", str(VERSION + 1))
    with pytest.raises(ModelFileError, match=f"newer ahofm; upgrade to read version {VERSION + 1} of model files"):
        ahofm.load(tmp_path / "model")
