"""Sums by code against the obvious loop."""

import numpy as np
import pytest

from ahofm.kernels import code_sums


@pytest.mark.parametrize("width", [1, 3, 4, 5, 8, 33])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
def test_sums_are_those_of_a_loop(width: int, kind: type) -> None:
    rng = np.random.default_rng(width)
    codes = rng.integers(0, 7, 50).astype(kind)
    slopes, weighted_response, weight = rng.normal(size=(50, width)), rng.normal(size=(50, width)), rng.uniform(size=50)
    gram, rhs = code_sums(codes, 8, slopes, weight, weighted_response)
    expected, right = np.zeros((8, width, width)), np.zeros((8, width))
    for code, w, s, r in zip(codes, weight, slopes, weighted_response, strict=True):
        expected[code] += w * np.outer(s, s)
        right[code] += s * r
    np.testing.assert_allclose(gram, expected, atol=1e-12)
    np.testing.assert_allclose(rhs, right, atol=1e-12)
    assert not gram[7].any()


def test_a_code_out_of_range_is_named() -> None:
    with pytest.raises(ValueError, match="code 3 in row 1"):
        code_sums(np.array([0, 3], dtype=np.uint8), 3, np.ones((2, 2)), np.ones(2), np.ones((2, 2)))
