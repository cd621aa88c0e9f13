"""Every source yields the same rows in fixed chunks. A new source is tested by its line in SOURCES."""

import atexit
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

from ahofm.kernels import Chunk
from ahofm.rows import ArraySource, MappedSource, Source
from tests.problems import random_chunk


def array_source(table, chunk_rows):
    return ArraySource(table.codes, table.y, table.weight, table.offset, chunk_rows)


def mapped_source(table, chunk_rows):
    return MappedSource(array_source(table, chunk_rows), lambda chunk, index: chunk.rows(0, chunk.n_rows))


def store_source(table, chunk_rows):
    """Chunks that were written to files; two of them are read ahead."""
    parts = pytest.importorskip("ahofm.scale.parts", reason="a store needs pyarrow")
    folder, whole = Path(tempfile.mkdtemp(prefix="ahofm-")), array_source(table, chunk_rows)
    atexit.register(shutil.rmtree, folder)
    for part in range(-(-whole.n_chunks // parts.CHUNKS)):
        numbers = range(part * parts.CHUNKS, min((part + 1) * parts.CHUNKS, whole.n_chunks))
        parts.write_part(parts.part_path(folder, part), (whole.chunk(index) for index in numbers), "test", part)
    return parts.StoreSource(folder, "test", whole.n_rows, whole.n_chunks, table.codes.sizes, ahead=2)


# name -> function of a whole table, as a chunk, and of rows per chunk
SOURCES = {"array": array_source, "mapped": mapped_source, "store": store_source}
every_source = pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)


@pytest.fixture
def table():
    return random_chunk(np.random.default_rng(0), 103, (3, 5, 4), weighted=True, offset=True)


@every_source
@pytest.mark.parametrize("chunk_rows", [1, 10, 103, 1000])
def test_chunks_are_the_rows_in_order(make, table, chunk_rows):
    source = make(table, chunk_rows)
    assert isinstance(source, Source)
    chunks = [source.chunk(index) for index in range(source.n_chunks)]
    assert all(isinstance(chunk, Chunk) for chunk in chunks)
    assert source.n_rows == sum(chunk.n_rows for chunk in chunks) == 103
    for name in ("y", "weight", "offset"):
        np.testing.assert_array_equal(np.concatenate([getattr(chunk, name) for chunk in chunks]), getattr(table, name))
    for j, column in enumerate(table.codes.columns):
        np.testing.assert_array_equal(np.concatenate([chunk.codes.columns[j] for chunk in chunks]), column)
    assert all(chunk.codes.sizes == table.codes.sizes for chunk in chunks)


@every_source
def test_the_same_chunk_twice(make, table):
    source = make(table, 10)
    np.testing.assert_array_equal(source.chunk(3).y, source.chunk(3).y)


@every_source
def test_what_is_absent_stays_absent(make, table):
    chunk = make(Chunk(table.codes), 10).chunk(0)
    assert chunk.y is None
    assert chunk.weight is None
    assert chunk.offset is None


@every_source
@pytest.mark.parametrize("index", [-1, 11])
def test_chunks_out_of_range(make, table, index):
    with pytest.raises(IndexError, match=f"chunk {index} is out of range: there are 11"):
        make(table, 10).chunk(index)
