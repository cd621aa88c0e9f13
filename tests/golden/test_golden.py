"""Fits are those that were stored, and models that were saved predict what they did."""

import numpy as np
import pytest

import ahofm
from ahofm.columns import Categorical, Cyclic, Linear, RandomWalk, Spline, SplineIID
from ahofm.families import FAMILIES
from ahofm.model.files import VERSION
from tests.golden.fits import FITS
from tests.golden.make import compared, main
from tests.golden.models import kept, rows_of
from tests.golden.record import FITS_FILE, distance, recorded, stored

STORED = stored()

REMEDY = "see tests/golden/make.py, if results are meant to change"


@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_fits_are_as_stored(name):
    within, text = compared(name, recorded(FITS[name]), STORED.get(name))
    assert within, f"{name} has moved: {text}; {REMEDY}"


def test_all_that_is_stored_is_fitted():
    assert STORED.keys() == FITS.keys()
    assert FITS_FILE.stat().st_size < 1_500_000


def test_every_solver_and_family_and_kind_is_there():
    options = [fit.options for fit in FITS.values()]
    assert {"lbfgs", "bcd", "adam", "subsample"} <= {given.get("solver") for given in options}
    assert {"spline", "random_walk", "spline_iid", None} <= {given.get("factor_prior") for given in options}
    families = {ahofm.families.find_family(given["family"]) for given in options if "family" in given}
    targets = {fit.target for fit in FITS.values()}
    assert {"gaussian", "binary", "class"} <= targets  # gaussian, bernoulli and multinomial by default
    classes = {FAMILIES[name] for name in ("gaussian", "bernoulli", "multinomial")}
    assert classes | {type(family) for family in families} == set(FAMILIES.values())
    kinds = next(given["columns"] for given in options if isinstance(given.get("columns"), dict))
    assert {type(kind) for kind in kinds.values()} == {Categorical, Cyclic, Linear, SplineIID, Spline, RandomWalk}


def test_a_small_change_is_noticed():
    found = dict(STORED["kinds"])
    assert compared("kinds", found, STORED["kinds"]) == (True, "")
    for array in ("eta", "model", "smoothing_parameters"):
        changed = found | {array: found[array] * (1.0 + 1e-4)}
        assert not compared("kinds", changed, STORED["kinds"])[0]
    assert not compared("kinds", {"eta": found["eta"]}, STORED["kinds"])[0]
    assert compared("kinds", found, None) == (False, "new")


def test_distances():
    old = np.array([1.0, -4.0, np.nan])
    assert distance(old, old) == 0.0
    assert distance(np.array([1.0, -3.0, np.nan]), old) == 0.25
    assert distance(np.array([1.0, -4.0, 0.0]), old) == distance(old[:2], old) == np.inf
    mixture = np.array(["55% spline_iid at order 3, 45% random_walk at order 2", "4 at order 2"])
    other = np.array(["45% random_walk at order 2, 54% spline_iid at order 3", "4 at order 2"])
    assert distance(other, mixture) == pytest.approx(0.01)
    assert distance(np.array(["100% spline_iid at order 3", "4 at order 2"]), mixture) == np.inf
    assert distance(np.array([mixture[0], "5 at order 2"]), mixture) == np.inf


def test_nothing_is_written_without_being_asked(monkeypatch, capsys):
    fits = {"additive": FITS["additive"]}
    monkeypatch.setattr("tests.golden.make.FITS", fits)
    monkeypatch.setattr("tests.golden.make.stored", dict)
    monkeypatch.setattr("tests.golden.make.store", lambda fits: pytest.fail("was written"))
    assert main([]) == 1
    assert "nothing is written" in capsys.readouterr().out
    monkeypatch.setattr("tests.golden.make.stored", lambda: {"additive": STORED["additive"]})
    assert main([]) == 0


@pytest.mark.parametrize("path", kept(), ids=lambda path: path.stem)
def test_saved_models_predict_what_they_did(path):
    model, (X, eta) = ahofm.load(path).model_, rows_of(path)
    assert model.order >= 3
    assert X.isna().any(axis=None)
    assert model.band is not None
    np.testing.assert_allclose(model.eta(X)[:, 0], eta, rtol=1e-12, atol=1e-12 * np.abs(eta).max())


def test_there_is_a_file_of_every_version():
    assert [path.stem for path in kept()] == [f"model_v{version}" for version in range(1, VERSION + 1)]
