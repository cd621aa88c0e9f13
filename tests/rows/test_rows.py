"""In-memory rows: bounds, bad input, memory."""

import numpy as np
import pytest

from ahofm.columns import Codes
from ahofm.rows import ArraySource, SerialExecutor, ThreadExecutor, fold
from ahofm.rows.source import default_chunk_rows
from tests.problems import random_codes


def test_chunks_are_views():
    codes = random_codes(np.random.default_rng(0), 100, (3, 3))
    y = np.zeros(100)
    chunk = ArraySource(codes, y, chunk_rows=10).chunk(4)
    assert np.shares_memory(chunk.y, y)
    assert np.shares_memory(chunk.codes.columns[1], codes.columns[1])


@pytest.mark.parametrize(
    ("n_rows", "n_codes", "expected"),
    [(100, 50, 8_192), (100_000, 2_560, 12_500), (10_000_000, 2_560, 65_536), (10_000_000, 100_000, 400_000)],
)
def test_chunk_rows_follow_the_data(n_rows, n_codes, expected):
    assert default_chunk_rows(n_rows, n_codes) == expected


def test_lengths_must_agree():
    codes = random_codes(np.random.default_rng(0), 10, (3, 3))
    with pytest.raises(ValueError, match="y has 9 rows, expected 10"):
        ArraySource(codes, np.zeros(9))
    with pytest.raises(ValueError, match=r"offset has 1 dimension\(s\), expected 2"):
        ArraySource(codes, np.zeros(10), offset=np.zeros(10))
    with pytest.raises(ValueError, match="chunk_rows must be at least 1, got 0"):
        ArraySource(codes, chunk_rows=0)


def test_threads_must_be_positive():
    with pytest.raises(ValueError, match="n_threads must be at least 1, got 0"):
        ThreadExecutor(0)


def test_nothing_to_fold():
    empty = ArraySource(Codes((np.empty(0, np.uint8),), (2,)))
    with pytest.raises(ValueError, match="no rows"):
        fold(lambda chunk: 0.0, empty, SerialExecutor())
