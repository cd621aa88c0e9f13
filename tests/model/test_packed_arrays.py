"""Packed arrays come back bit by bit, are smaller, and never inflate to more than a multiple of their bytes."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ahofm.model import packed_arrays
from ahofm.model.packed_arrays import pack, unpack

RNG = np.random.default_rng(0)
WALK = np.cumsum(RNG.integers(-500, 500, size=(300, 3)), axis=0) * 2.0**-20
CENTS = np.sort(RNG.integers(200, 4_000, size=900)) / 100.0


def there_and_back(array):
    packed = pack({"a": array})
    (back,) = unpack(packed).values()
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, np.ascontiguousarray(array).tobytes())
    (stored,) = packed.values()
    assert array.nbytes <= 100 * stored.nbytes
    return stored


@pytest.mark.parametrize(
    ("array", "most"),
    [
        (WALK, 0.2),
        (np.cumsum(WALK, axis=0), 0.25),
        (np.arange(2_000.0), 0.1),
        (np.zeros((5_000, 30)), 0.1),
        (np.full(4_000, np.pi), 0.3),
        (np.where(RNG.random((400, 5)) < 0.9, 0.0, RNG.normal(size=(400, 5))), 0.3),
        (RNG.normal(size=900), 1.0),
        (CENTS, 0.2),
        (0.5 * CENTS[1:] + 0.5 * CENTS[:-1], 0.3),
        (np.where(RNG.random(900) < 0.7, CENTS, CENTS + RNG.random(900)), 0.5),
        (np.sort(RNG.integers(-4_000, 4_000, size=(900, 2)), axis=0) / 1e5, 0.25),
        (np.frombuffer(b'["a town", "another town"]' * 99, np.uint8), 0.2),
        (np.zeros(20_000, np.uint8), 0.2),
    ],
    ids=[
        "walk",
        "smooth",
        "line",
        "zeros",
        "constant",
        "sparse",
        "noise",
        "cents",
        "middles",
        "some cents",
        "decimals",
        "text",
        "no text",
    ],
)
def test_it_comes_back_and_is_smaller(array, most):
    assert there_and_back(array).nbytes <= most * array.nbytes


@pytest.mark.parametrize(
    "array",
    [
        np.full(100, -0.0),
        np.r_[WALK[:, 0], -0.0],
        np.r_[WALK[:, 0], 1e300, 5e-324],
        np.r_[np.full(100, 2.0**31 - 1), np.full(100, -(2.0**31) + 1)],
        np.tile([2.0**31 - 1, 1 - 2.0**31], 100),
        np.full(100, np.inf),
        np.full(100, np.nan),
        np.full((9, 100), 5e-324),
        np.r_[np.arange(100.0) / 10.0, -0.0],
        np.r_[np.arange(100.0) / 10.0, np.nextafter(0.3, 1.0)],
        np.r_[np.arange(100.0) / 10.0, 1e300],
        np.full(100, 2.0**31 + 0.1),
        np.zeros((0, 5)),
        np.zeros(()),
        np.zeros((4, 4, 40)),
        RNG.normal(size=(200, 3)).astype(np.float32),
        np.asfortranarray(WALK),
    ],
    ids=lambda array: f"{array.shape}-{array.ravel()[-1:]}",
)
def test_odd_arrays_come_back(array):
    there_and_back(array)


@settings(max_examples=60, deadline=None)
@given(
    arrays.arrays(np.float64, arrays.array_shapes(max_dims=2, max_side=9)), st.integers(-60, 60), st.integers(64, 99)
)
def test_any_array_comes_back(array, exponent, repeats):
    rows = np.repeat(array, repeats, axis=0)
    there_and_back(rows)
    with np.errstate(all="ignore"):
        there_and_back(np.ldexp(np.rint(rows), exponent))


def test_small_arrays_are_stored_as_they_are():
    assert list(pack({"a": np.zeros(10), "b": np.zeros(100)})) == ["a", "b.packed"]


def stored(encoding, shape, content, stream=None):
    data = struct.pack(f"<BB{len(shape)}Q", encoding, len(shape), *shape)
    return np.frombuffer(data + (zlib.compress(content, 9) if stream is None else stream), np.uint8)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (stored(1, (10**9,), bytes(10**6)), "too large for"),
        (stored(1, (2**63, 2**63), b""), "too large for"),
        (stored(2, (0, 2**60), b""), "too large for"),
        (stored(0, (10**6,), bytes(10**6)), "too large for"),
        (stored(1, (10,), bytes(81)), "is not the 80 bytes"),
        (stored(1, (10,), bytes(79)), "is not the 80 bytes"),
        (stored(1, (10,), b"", zlib.compress(bytes(80)) + b"more"), "is not the 80 bytes"),
        (stored(1, (10,), b"", zlib.compress(bytes(80))[:-3]), "is not the 80 bytes"),
        (stored(1, (10,), b"", b"no zlib stream"), "not a packed array"),
        (stored(2, (10,), bytes([0, 0, 9]) + bytes(40)), "differences of a high order"),
        (stored(3, (10,), bytes(124)), "0 decimals"),
        (stored(3, (10,), b"\xff" + bytes(123)), "255 decimals"),
        (stored(3, (10,), bytes(123)), "is not the 124 bytes"),
        (stored(3, (10,), b"\x02" + bytes(80) + bytes([0, 0, 9]) + bytes(40)), "differences of a high order"),
        (stored(5, (10,), bytes(80)), "encoding 5"),
        (stored(1, (2, 2, 2), bytes(64)), "3 dimensions"),
        (np.zeros(1, np.uint8), "not a packed array"),
        (np.frombuffer(b"\x01\x02\x00", np.uint8), "not a packed array"),
        (np.zeros(9), "not made of bytes"),
        (np.zeros((9, 2), np.uint8), "not made of bytes"),
    ],
)
def test_what_was_not_packed_is_refused(tensor, message):
    with pytest.raises(ValueError, match=message):
        unpack({"a.packed": tensor})


def test_a_bomb_is_not_inflated(monkeypatch):
    monkeypatch.setattr(packed_arrays.zlib, "decompressobj", lambda: pytest.fail("was inflated"))
    with pytest.raises(ValueError, match="too large"):
        unpack({"a.packed": stored(1, (10**8,), bytes(8 * 10**8)[: 10**7])})


def test_an_array_is_there_once():
    with pytest.raises(ValueError, match="twice"):
        unpack({**pack({"a": np.zeros(100)}), "a": np.zeros(100)})


@pytest.mark.parametrize("array", [WALK, RNG.normal(size=900).round(2), np.frombuffer(b"a town " * 99, np.uint8)])
def test_damaged_streams_are_refused_or_give_an_array_of_bounded_size(array):
    (stored_bytes,) = pack({"a": array}).values()
    rng = np.random.default_rng(1)
    for _ in range(300):
        data = stored_bytes.copy()
        data[rng.integers(min(len(data), rng.choice([20, len(data)])), size=rng.integers(1, 4))] = rng.integers(256)
        try:
            (found,) = unpack({"a.packed": data}).values()
        except ValueError:
            continue
        assert found.nbytes <= 100 * data.nbytes
