"""A checksum of anything: equal values have equal ones, and nothing that differs is overlooked."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from ahofm.rows.digest import digest_of


@dataclass(frozen=True)
class One:
    a: object
    b: object = None


@dataclass(frozen=True)
class Two:
    a: object
    b: object = field(default=None, compare=False)


class Plain:
    def __init__(self, value):
        self.value = value


LONG = np.arange(5_000.0)

DIFFERENT = {
    "numbers": [0, 1, 0.0, False, None, "0", b"0", np.float32(0), np.float64(0), np.int64(0), -0.0, 0.1],
    "text": ["", "a", "b", "ab", "a\udc80", ["a", "b"], ("a", "b"), ["ab"], [["a"], "b"], ["a", ["b"]], {"a": "b"}],
    "arrays": [
        np.zeros(4), np.zeros((2, 2)), np.zeros((4, 1)), np.zeros(4, np.float32), np.zeros(4, np.int64),
        np.zeros(4, ">f8"), np.zeros(0), np.zeros((0, 3)), np.zeros(8, np.int32), np.zeros(4, "M8[s]"), [0.0] * 4,
    ],
    "long arrays": [LONG, np.where(LONG == 2_500, 1e9, LONG), np.where(LONG == 2_500, LONG + 1e-9, LONG)],
    "objects": [
        np.array(["a", None], object), np.array(["a", "None"], object), np.array(["a", np.nan], object),
        np.array([["a"], [None]], object), np.array([1, "1"], object), np.array(["1", 1], object),
    ],
    "classes": [One(1), One(2), One(1, 2), Two(1), Two(1, 2), Plain(1), Plain(2), Plain, One, {"a": 1, "b": None}],
    "mappings": [{1: 2}, {2: 1}, {"1": 2}, {1: 2, 2: 1}, {1: {2: 1}}, {1}, {1, 2}, [1, 2]],
    "functions": [lambda x: x, lambda x: -x, len, max],
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_has_another_checksum(name):
    values = DIFFERENT[name]
    digests = [digest_of(value) for value in values]
    assert len(set(digests)) == len(values)
    assert [digest_of(value) for value in values] == digests


def test_equal_values_have_equal_ones():
    assert digest_of({1: "a", 2: "b"}) == digest_of({2: "b", 1: "a"})
    assert digest_of(np.arange(6.0).reshape(2, 3)) == digest_of(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    assert digest_of(np.arange(10)[::2]) == digest_of(np.arange(0, 10, 2))
    assert digest_of(One(LONG, Plain([1]))) == digest_of(One(LONG.copy(), Plain([1])))
    assert digest_of(1, 2) != digest_of((1, 2))
