"""Integers come back to the last bit, curves that are smooth in ranks take few bits, and damage is refused."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ahofm.model import packed_arrays
from ahofm.model.packed_arrays import pack, unpack
from ahofm.model.predicted_integers import LARGEST, decode, encode

RNG = np.random.default_rng(0)
MASS = RNG.integers(1, 30, 400).astype(float)
NAMES = "model.functions.0", "model.encoder.codebooks.0.support.mass"


def there_and_back(numbers, mass):
    exponents = np.arange(numbers.shape[1]) - 20
    data = encode(numbers, exponents, mass)
    np.testing.assert_array_equal(decode(data, numbers.shape, mass), np.ldexp(numbers.astype(float), exponents))
    return len(data)


def curves(before=12):
    """Cubic splines of the cumulated mass, below coefficients of a basis that have nothing to do with it."""
    place = (np.cumsum(MASS) - 0.5 * MASS) / MASS.sum()
    knots = np.linspace(0.0, 0.9, 10)
    basis = np.column_stack([place, place**2, *(np.maximum(place[:, np.newaxis] - knots, 0.0) ** 3).T])
    smooth = basis @ RNG.normal(size=(basis.shape[1], 30)) * 2.0**20
    return np.rint(np.vstack([RNG.normal(size=(before, 30)) * 1e5, smooth])).astype(np.int64)


def test_curves_of_ranks_take_few_bits():
    numbers = curves()
    sizes = [there_and_back(numbers, mass) for mass in (MASS, None)]
    assert sizes[0] < 0.6 * sizes[1]
    assert sizes[0] < 8 * numbers.size / 8


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(0, 5), st.integers(1, 4), st.integers(0, 43))
def test_any_integers_come_back(seed, codes, before, width, bits):
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-(2**bits), 2**bits, size=(codes + before, width))
    mass = rng.choice([0.0, 1e-300, 1.0, 2.5, 1e300, np.inf, np.nan], codes)
    there_and_back(numbers, mass)
    there_and_back(np.cumsum(numbers % 7, axis=0), mass)
    there_and_back(numbers, None)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_integers_come_back(sign):
    largest = sign * (int(LARGEST) - 1)
    there_and_back(np.resize([largest, -largest], (50, 2)), MASS[:40])


def test_functions_are_packed_by_the_mass_of_their_codes():
    functions = np.ldexp(curves().astype(float), -24)
    given_mass = dict(zip(NAMES, (functions, MASS), strict=True))
    packed = pack(given_mass)
    for name, array in unpack(packed).items():
        assert array.tobytes() == given_mass[name].tobytes()
    (alone,) = pack({NAMES[0]: functions}).values()
    assert packed[f"{NAMES[0]}.packed"].nbytes < 0.6 * alone.nbytes


def test_a_mass_that_equals_another_is_found():
    functions, other = np.ldexp(curves().astype(float), -24), "model.encoder.codebooks.3.support.mass"
    equal = {NAMES[1]: other}
    packed = pack({NAMES[0]: functions, other: MASS}, equal)
    assert unpack(packed, equal)[NAMES[0]].tobytes() == functions.tobytes()
    with pytest.raises(ValueError, match="its codes have no mass"):
        unpack(packed)


def test_a_basis_with_fewer_functions_than_codes_comes_back():
    """A line, of a column with two or more values, and many factors."""
    functions = np.ldexp(RNG.integers(-(2**20), 2**20, size=(1, 300)).astype(float), -24)
    packed = pack(dict(zip(NAMES, (functions, MASS), strict=True)))
    assert f"{NAMES[0]}.packed" in packed
    assert unpack(packed)[NAMES[0]].tobytes() == functions.tobytes()


def test_functions_of_fewer_rows_than_codes_are_refused():
    packed = pack(dict(zip(NAMES, (np.ldexp(curves().astype(float), -24), MASS), strict=True)))
    packed[f"{NAMES[1]}"] = np.ones(1_000)
    del packed[f"{NAMES[1]}.packed"]
    with pytest.raises(ValueError, match="its codes have no mass"):
        unpack(packed)


def stream(content, bits=b"", which=0, length=None, packed=None):
    packed = zlib.compress(content) if packed is None else packed
    return struct.pack("<BI", which, len(packed) if length is None else length) + packed + bits


GOOD = bytes(3) + bytes([3] * 10)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (stream(GOOD), "0 bytes for 20 bits"),
        (stream(GOOD, bytes(4)), "4 bytes for 20 bits"),
        (stream(GOOD, bytes(3), which=2), "compression 2"),
        (stream(GOOD, bytes(3), which=1), "Invalid data stream"),
        (stream(GOOD, bytes(3), length=10**6), "1000000 bytes of"),
        (stream(GOOD[:-1], bytes(3)), "is not the 13 bytes"),
        (stream(GOOD + b"a", bytes(3)), "is not the 13 bytes"),
        (stream(b"", bytes(3), packed=b"no stream"), "incorrect header"),
        (stream(bytes([0, 0, 4]) + bytes(10)), "differences of a high order"),
        (stream(bytes(3) + bytes([51] * 10)), "or large ones"),
        (stream(bytes([0, 0, 3]) + bytes(10)), "its codes have no mass"),
    ],
)
def test_what_was_not_encoded_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        decode(data, (10, 1), None)
    head = struct.pack("<BBQ", 4, 1, 10)
    with pytest.raises(ValueError, match="is not a packed array"):
        unpack({"a.packed": np.frombuffer(head + data, np.uint8)})


def test_integers_of_version_9_are_read():
    walk = np.cumsum(RNG.integers(-500, 500, size=(300, 3)), axis=0) * 2.0**-20
    content = packed_arrays._as_integers(np.ascontiguousarray(walk.T))
    packed = packed_arrays._with_header(packed_arrays._INTEGERS, walk, content)
    assert unpack({"a.packed": np.frombuffer(packed, np.uint8)})["a"].tobytes() == walk.tobytes()
