"""What a model has several times is in its file once, and what such a file says is checked."""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save as save_tensors

from ahofm.model import files
from ahofm.model.files import ModelFileError, load, save
from ahofm.model.predictor import Lower
from tests.model.test_files import (
    as_stored,
    assert_same,
    at,
    column,
    drop,
    rich_model,
    round_trip,
    sealed,
    separated,
    shared_model,
)


def test_functions_that_linear_predictors_share_are_stored_once(tmp_path):
    """Of three classes with the same factors: these, a main effect for each, and those of the lower orders."""
    model = shared_model()
    assert_same(round_trip(model, tmp_path), model)
    tensors, _, tree = as_stored("shared")
    assert [part["coef"] for part in tree["linear_predictors"]] == 3 * [{"type": "functions"}]
    widths = tree["stored_once"]["widths"]
    which = np.split(tensors["model.functions.0.which"], np.cumsum(widths)[:-1])
    width = model.linear_predictors[0].orders.width
    assert [len(own) for own in which[:3]] == widths[:3] == 3 * [width]
    assert len(np.unique(np.concatenate(which[:3]))) == width + 2
    assert tensors["model.functions.0"].shape == (
        model.encoder.codebooks[0].size,
        len(np.unique(np.concatenate(which))),
    )


def test_what_is_equal_is_stored_once(tmp_path):
    """A lower order that is the model itself, the levels of a basis, and edges in the middle between values."""
    model = rich_model()
    twice = replace(model, lower=(*model.lower, Lower(3, model.linear_predictors)))
    assert_same(round_trip(twice, tmp_path), twice)
    sizes = []
    for name, one in (("one", model), ("two", twice)):
        save(one, tmp_path / name)
        _, tensors = separated((tmp_path / name).read_bytes())
        sizes.append([tensors[f"model.functions.{j}"].shape for j in range(len(model.encoder.codebooks))])
    assert sizes[0] == sizes[1]
    _, _, tree = as_stored("rich")
    walk = f"model.encoder.codebooks.{column(tree, 'walk')}"
    assert f"{walk}.edges" in tree["stored_once"]["middles"]
    assert tree["stored_once"]["equal"][f"{walk}.functions.knots"] == f"{walk}.support.values"


def once(key, value):
    return at("stored_once", key, value)


def stored(name, function):
    def change(tensors, metadata, tree):
        tensors[f"model.functions.{name}"] = np.ascontiguousarray(function(tensors[f"model.functions.{name}"]))

    return change


SHARING = {
    "no dict": (at("stored_once", []), "should have widths, middles and equal"),
    "lacks a key": (at("stored_once", {"widths": []}), "should have widths, middles and equal"),
    "no widths": (once("widths", []), "widths"),
    "widths are text": (once("widths", ["7", "7", "7"]), "widths"),
    "widths of bools": (once("widths", [True, True, True]), "widths"),
    "negative widths": (once("widths", [-1, 4, 4]), "widths"),
    "other widths": (once("widths", [*range(1, 10)]), "do not fit one another"),
    "wide": (once("widths", [10**12, *range(1, 9)]), "do not fit one another"),
    "widths no list": (once("widths", 3), "not iterable"),
    "equal to nothing": (once("equal", {"model.x": "model.y"}), "which it should equal, is missing"),
    "equal to itself": (once("equal", {"model.functions.0": "model.functions.0"}), "is there twice"),
    "equal to a list": (once("equal", {"model.x": []}), "unhashable"),
    "equal no dict": (once("equal", 3), "not iterable"),
    "equal and more": (once("equal", {"model.x": "model.functions.0"}), "not an intact"),
    "middles of nothing": (once("middles", ["model.x.edges"]), "no numbers that it is between"),
    "middles no text": (once("middles", [3]), "not an intact"),
    "not there": (stored("0.which", lambda which: which + 1e6), "do not fit one another"),
    "negative": (stored("0.which", lambda which: which - 1.0), "do not fit one another"),
    "half": (stored("0.which", lambda which: which / 2.0), "do not fit one another"),
    "none": (stored("0.which", lambda which: which * np.nan), "do not fit one another"),
    "too few": (stored("0.which", lambda which: which[1:]), "do not fit one another"),
    "less centring": (stored("0.centring", lambda centring: centring[1:]), "do not fit one another"),
    "single precision": (stored("0", lambda functions: functions.astype(np.float32)), "do not fit one another"),
    "flat": (stored("0", np.ravel), "do not fit one another"),
    "no which": (lambda tensors, metadata, tree: tensors.pop("model.functions.0.which"), "model.functions.0.which"),
    "no functions": (
        lambda tensors, metadata, tree: tensors.pop("model.functions.0"),
        "model.functions.0|coefficients",
    ),
    "no entry": (drop("stored_once"), "missing"),
}


@pytest.mark.parametrize("name", SHARING)
def test_damage_of_what_is_stored_once_is_refused(name, tmp_path):
    corrupt, message = SHARING[name]
    tensors, metadata, tree = as_stored("shared")
    corrupt(tensors, metadata, tree)
    metadata["model"] = json.dumps(tree)
    (tmp_path / "damaged").write_bytes(save_tensors(tensors, sealed(metadata, tensors)))
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "damaged")


def test_what_is_stored_once_cannot_fill_the_memory(tmp_path, monkeypatch):
    tensors, metadata, tree = as_stored("shared")
    (tmp_path / "model").write_bytes(save_tensors(tensors, metadata | {"model": json.dumps(tree)}))
    monkeypatch.setattr(files, "MOST_RESTORED", 0.01)
    save(shared_model(), tmp_path / "model")
    with pytest.raises(ModelFileError, match="too large for its size"):
        load(tmp_path / "model")
