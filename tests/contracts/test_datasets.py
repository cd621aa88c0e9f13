"""Every dataset has the same rows, and gives the same fit. A new dataset is tested by its line in DATASETS."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.backends import CpuBackend, ReferenceBackend
from ahofm.columns import Encoder
from ahofm.columns.table import read_table
from ahofm.rows import (
    ArraySource,
    Dataset,
    Executor,
    RawSample,
    SerialExecutor,
    Source,
    Target,
    ThreadExecutor,
    dataset,
    fold,
    raw_sample_rows,
)
from ahofm.training import data
from tests.problems import random_tables
from tests.scale.rows import FEATURES, coefficients, simulated

pytestmark = pytest.mark.slow

TABLE = simulated(900)
ROLES = {
    "numbers": {"target": "y"},
    "text": {"target": "sold"},
    "weights and offsets": {"target": "count", "weight": "w", "offset": "exposure"},
}
CODES = 500
"""More than any column has values: datasets and estimators bin differently by default."""

OTHERS = [name for name in TABLE if name not in FEATURES]


class InMemory:
    """The obvious one: a table in memory, coded."""

    named = True

    def __init__(self, table, target, weight=None, offset=None):
        table = table if weight is None else table[table[weight] > 0]
        weights = np.ones(len(table)) if weight is None else table[weight].to_numpy()
        encoder = Encoder.learn(table[FEATURES], sample_weight=weights, max_codes=CODES)
        y, labels = table[target].to_numpy(), np.unique(table[target])
        text = y.dtype == object
        y = np.searchsorted(labels, y).astype(float) if text else y.astype(float)
        shift = None if offset is None else table[[offset]].to_numpy()
        self.columns, self.total = encoder.learned, float(weights.sum())
        self.target = Target(tuple(labels) if len(labels) <= 1000 else None, text, y.min(), y.max())
        codes = encoder.encode(table[FEATURES])
        self.source = ArraySource(codes, y, None if weight is None else weights, shift, chunk_rows=200)
        rows = raw_sample_rows(len(y))
        some = None if shift is None else shift[rows]
        self.raw_sample = RawSample(read_table(table[FEATURES]).take(rows), y[rows], weights[rows], some)

    def executor(self, n_threads):
        return ThreadExecutor(n_threads)


def in_memory(roles, folder):
    return InMemory(TABLE, **roles)


def store(roles, folder):
    """Codes on disk."""
    pytest.importorskip("pyarrow", reason="a store needs pyarrow")
    from ahofm.scale import CodeStore  # noqa: PLC0415 - of an extra

    TABLE.to_parquet(folder / "t.parquet")
    drop = [name for name in OTHERS if name not in roles.values()]
    return CodeStore.build(folder / "codes", folder / "t.parquet", drop=drop, max_codes=CODES, chunk_rows=200, **roles)


def dask_collection(roles, folder):
    """Partitions of a Dask collection, one of them empty."""
    dd = pytest.importorskip("dask.dataframe", reason="clusters need Dask")
    pytest.importorskip("distributed", reason="clusters need Dask")
    from ahofm.scale.collection import ClusterDataset  # noqa: PLC0415 - of an extra

    cuts = [0, 100, 100, 730, len(TABLE)]
    parts = [TABLE.iloc[a:b] for a, b in pairwise(cuts)]
    frame = dd.from_map(lambda part: part, parts, meta=TABLE.iloc[:0], enforce_metadata=False)
    given = {name: frame[column] for name, column in roles.items() if name != "target"}
    return ClusterDataset(frame[FEATURES], frame[roles["target"]], max_codes=CODES, **given)


# name -> function of which columns are target, weight and offset, and of a folder
DATASETS = {"memory": in_memory, "store": store, "dask": dask_collection}


@dataclass
class Case:
    """A dataset, and the same rows in memory."""

    roles: dict
    made: Dataset
    expected: InMemory
    table: object


@pytest.fixture(scope="module")
def client():
    """Two workers in this process, where there is Dask."""
    try:
        import distributed  # noqa: PLC0415 - of an extra
    except ImportError:
        yield None
        return
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(params=ROLES)
def roles(request):
    return ROLES[request.param]


@pytest.fixture(params=DATASETS)
def case(request, roles, client, tmp_path, monkeypatch):
    for module in (dataset, data):  # as if 300 rows were many
        monkeypatch.setattr(module, "RAW_SAMPLE_ROWS", 300)
    monkeypatch.setattr(data, "MERGED_ROWS", 300)
    monkeypatch.setattr("ahofm.scale.collection.default_chunk_rows", lambda *_: 200)
    table = TABLE[TABLE["w"] > 0] if "weight" in roles else TABLE
    return Case(roles, DATASETS[request.param](roles, tmp_path), in_memory(roles, tmp_path), table)


def joined(chunks, part):
    parts = [getattr(chunk, part) for chunk in chunks]
    return None if parts[0] is None else np.concatenate(parts)


def test_what_is_known_of_the_rows(case):
    made, expected = case.made, case.expected
    assert isinstance(made, Dataset)
    assert isinstance(made.source, Source)
    assert made.named
    assert [column.name for column in made.columns] == FEATURES
    assert all(mine.codes_like(theirs) for mine, theirs in zip(made.columns, expected.columns, strict=True))
    assert made.total == pytest.approx(expected.total)
    text, values = case.roles["target"] == "sold", np.unique(case.table[case.roles["target"]])
    assert made.target.text == text
    assert made.target.labels is not None
    assert list(made.target.labels) == list(values)
    if not text:
        assert (made.target.low, made.target.high) == (values[0], values[-1])


def test_rows_of_positive_weight_in_their_order(case):
    source = case.made.source
    chunks = [source.chunk(index) for index in range(source.n_chunks)]
    assert source.n_rows == len(case.table) == sum(chunk.n_rows for chunk in chunks)
    assert len(chunks) > 1
    for j, column in enumerate(case.expected.source.codes.columns):
        np.testing.assert_array_equal(np.concatenate([chunk.codes.columns[j] for chunk in chunks]), column)
        assert {chunk.codes.sizes[j] for chunk in chunks} == {case.expected.source.codes.sizes[j]}
    np.testing.assert_array_equal(joined(chunks, "y"), case.expected.source.y)
    for part in ("weight", "offset"):
        own, other = joined(chunks, part), getattr(case.expected.source, part)
        assert (own is None) == (other is None)
        if own is not None:
            np.testing.assert_array_equal(own, other)
    for index in (-1, source.n_chunks):
        with pytest.raises(IndexError, match=f"chunk {index} is out of range"):
            source.chunk(index)


def test_the_raw_sample(case):
    found, expected = case.made.raw_sample, case.expected.raw_sample
    assert len(found.y) == 300
    np.testing.assert_array_equal(found.y, expected.y)
    np.testing.assert_array_equal(found.weight, expected.weight)
    assert (found.offset is None) == (expected.offset is None)
    if expected.offset is not None:
        np.testing.assert_array_equal(np.reshape(found.offset, (300, -1)), expected.offset)
    for own, other in zip(found.table.columns, expected.table.columns, strict=True):
        kind = np.float64 if np.asarray(other).dtype.kind == "f" else str
        np.testing.assert_array_equal(np.asarray(own).astype(kind), np.asarray(other).astype(kind))


def test_its_executor_visits_the_chunks(case):
    source, executor = case.made.source, case.made.executor(2)
    assert isinstance(executor, Executor)
    chunks = [source.chunk(index) for index in range(source.n_chunks)]
    assert list(executor.map(lambda chunk: float(chunk.y[0]), source)) == [chunk.y[0] for chunk in chunks]
    assert fold(lambda chunk: float(chunk.n_rows), source, executor) == source.n_rows


@pytest.mark.parametrize("backend", [ReferenceBackend(), CpuBackend()], ids=["reference", "cpu"])
def test_backends_load_it(case, backend):
    """Sums over rows are those of the rows in memory."""
    source = case.expected.source
    tables = [random_tables(np.random.default_rng(1), source.codes.n_codes, {2: 2}, scale=0.2)]
    expected = CpuBackend().load(source, SerialExecutor()).gradient(tables, "gaussian")
    rows = backend.load(case.made.source, case.made.executor(2))
    sums = rows.gradient(tables, "gaussian")
    assert rows.n_rows == source.n_rows
    assert sums.value == pytest.approx(expected.value, rel=1e-12)
    np.testing.assert_allclose(sums.gradient[0].main, expected.gradient[0].main, rtol=1e-9, atol=1e-9)
    assert rows.value(tables, "gaussian") == pytest.approx(expected.value, rel=1e-12)
    gram = rows.column_gram(tables, "gaussian", 0, 1)
    whole = CpuBackend().load(source, SerialExecutor()).column_gram(tables, "gaussian", 0, 1)
    np.testing.assert_allclose(gram.h, whole.h, rtol=1e-9, atol=1e-9 * np.abs(whole.h).max())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_fit_is_that_of_the_table(case):
    roles = case.roles
    kind = AHOFMClassifier if roles["target"] == "sold" else AHOFMRegressor
    family = {"family": "poisson"} if roles["target"] == "count" else {}
    settings = {"smoothing": "df", "order": 1, "max_iter": 20, "random_state": 3, "n_jobs": 1, **family}
    names = {"weight": "sample_weight", "offset": "offset"}
    given = {names[role]: TABLE[column] for role, column in roles.items() if role in names}
    whole = kind(max_codes=CODES, **settings).fit(TABLE[FEATURES], TABLE[roles["target"]], **given)
    own = kind(**settings).fit(case.made)
    np.testing.assert_allclose(coefficients(own), coefficients(whole), rtol=1e-6, atol=1e-8)
