"""JSON and tensors of a model in one tensor come back, and what is no such tensor is refused."""

import json
import struct
import zlib

import numpy as np
import pytest

from ahofm.model.archive import NAME, merged, separate

RNG = np.random.default_rng(0)
TREE = {"names": ["a", "ü €"], "number": 0.1}
TENSORS = {
    "large": RNG.normal(size=(100, 2)),
    "small": RNG.normal(size=3),
    "text": np.frombuffer(b"abc", np.uint8),
    "triangle": RNG.normal(size=6).astype(np.float32),
    "none": np.zeros((0, 4)),
    "bytes": np.frombuffer(RNG.bytes(5_000), np.uint8),
}


def test_json_and_tensors_come_back():
    text, tensors = merged(json.dumps(TREE), TENSORS)
    assert (text, list(tensors)) == ("", [NAME])
    tree, back = separate(text, tensors)
    assert tree == TREE
    assert back.keys() == TENSORS.keys()
    for name, array in back.items():
        assert (array.dtype, array.shape) == (TENSORS[name].dtype, TENSORS[name].shape)
        assert array.tobytes() == TENSORS[name].tobytes()


def test_names_of_many_tensors_take_little():
    many = {f"model.encoder.codebooks.{j}.support.values": np.array([1.0 * j]) for j in range(1_000)}
    _, tensors = merged("{}", many)
    assert tensors[NAME].nbytes < 20_000


def test_json_that_would_inflate_too_much_stays_outside():
    text = json.dumps(["a"] * 100_000)
    few = {"a": np.zeros(1)}
    assert merged(text, few) == (text, few)
    assert separate(text, few) == (json.loads(text), few)


def archive(entries, content=b"", extra=b"", tree=TREE, json_size=None, head=None):
    listed = json.dumps({"model": tree, "tensors": entries}).encode()
    stream = zlib.compress(listed + content)
    sizes = (len(stream), len(listed) if json_size is None else json_size, len(content)) if head is None else head
    return np.frombuffer(struct.pack("<QQQ", *sizes) + stream + extra, np.uint8)


ENTRY = ["a", "float64", [2]]
LISTED = json.dumps({"model": TREE, "tensors": [ENTRY]}).encode()


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (archive([ENTRY]), "tensor a is not whole"),
        (archive([ENTRY], bytes(17)), "1 bytes belong to no tensor"),
        (archive([ENTRY], bytes(16), b"more"), "4 bytes belong to no tensor"),
        (archive([ENTRY, ENTRY], bytes(32)), "is there twice"),
        (archive([["a", "object", [2]]], bytes(16)), "of an unknown type"),
        (archive([[3, "float64", [2]]], bytes(16)), "of an unknown type"),
        (archive([["a", "float64", 2]], bytes(16)), "of an unknown type"),
        (archive([["a", "float64", [-2]]], bytes(16)), "has shape"),
        (archive([["a", "float64", [2.0]]], bytes(16)), "has shape"),
        (archive([["a", "float64", [1, 1, 2]]], bytes(16)), "has shape"),
        (archive([["a", "float64", [2**62, 2**62]]], bytes(16)), "not whole"),
        (archive([ENTRY], bytes(16), json_size=10**9), "too large for its size"),
        (archive([ENTRY], bytes(16), json_size=12), "of another size"),
        (archive([ENTRY], head=(7, len(LISTED), 0)), "of another size"),
        (np.frombuffer(struct.pack("<QQQ", 9, 4, 0) + b"no stream", np.uint8), "damaged stream"),
        (np.zeros(5, np.uint8), "or of too few"),
        (np.zeros(500), "not made of bytes"),
        (np.zeros((50, 2), np.uint8), "not made of bytes"),
    ],
)
def test_what_was_not_merged_is_refused(tensor, message):
    with pytest.raises(ValueError, match=message):
        separate("", {NAME: tensor})


def test_json_of_something_else_is_refused():
    stream = zlib.compress(b"[1]")
    data = np.frombuffer(struct.pack("<QQQ", len(stream), 3, 0) + stream, np.uint8)
    with pytest.raises(ValueError, match="no model and tensors"):
        separate("", {NAME: data})
    with pytest.raises(json.JSONDecodeError):
        separate("", {"other": data})
