"""Dask collections: the same fit as in memory, however they are partitioned, and also when a worker dies."""

import os
import signal

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("dask.dataframe", reason="clusters need Dask: pip install 'ahofm[scale]'")
pytest.importorskip("distributed", reason="clusters need Dask: pip install 'ahofm[scale]'")

import dask.array as da
import dask.dataframe as dd
import distributed

from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.explain import contributions, shapley_values
from ahofm.kernels import NativeKernel
from ahofm.rows import Dataset, Executor, Folding, Source, fold
from ahofm.scale.collection import ClusterDataset
from tests.problems import random_tables
from tests.scale.rows import FEATURES, coefficients, difference, simulated

TABLE = simulated()


@pytest.fixture(scope="module")
def client():
    """Two workers in this process."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def frame_of(*parts):
    """A Dask DataFrame of tables, without divisions; nobody looks whether they fit the first."""
    return dd.from_map(lambda part: part, parts, meta=parts[0].iloc[:0], enforce_metadata=False)


def cut(table, *cuts):
    """Partitions at given rows; some may be empty."""
    return frame_of(*(table.iloc[a:b] for a, b in zip((0, *cuts), (*cuts, len(table)), strict=True)))


def fitted(table, kind=AHOFMRegressor, target="y", weight=None, offset=None, **settings):
    given = {name: table[column] for name, column in (("sample_weight", weight), ("offset", offset)) if column}
    return kind(random_state=3, **settings).fit(table[FEATURES], table[target], **given)


FITS = {
    "subsample": {"order": 2, "max_iter": 4, "factor_prior": "spline"},
    "classes of text": {"kind": AHOFMClassifier, "smoothing": "df", "target": "sold"},
    "numbers as classes": {"kind": AHOFMClassifier, "smoothing": "df", "order": 1, "target": "grade"},
    "counts": {"smoothing": "df", "family": "poisson", "target": "count", "weight": "w", "offset": "exposure"},
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", FITS)
def test_the_fit_in_memory(name, client, small_raw_sample, monkeypatch):
    monkeypatch.setattr("ahofm.scale.collection.default_chunk_rows", lambda *_: 300)
    whole = fitted(TABLE, **FITS[name])
    own = fitted(cut(TABLE, 100, 100, 1_700, 3_999), **FITS[name])
    assert difference(whole, own) < 1e-8
    assert own.model_.trace.n_iter == whole.model_.trace.n_iter


def test_few_rows_are_taken_into_memory(client):
    table = TABLE.iloc[:400]
    settings = {"order": 1}
    np.testing.assert_array_equal(
        coefficients(fitted(table, **settings)), coefficients(fitted(cut(table, 150, 160), **settings))
    )


def test_files_keep_their_partitions(client, tmp_path):
    """Dask reads several small files at once where few of their columns are needed: targets would have fewer parts."""
    table = TABLE.iloc[:600]
    for k in range(3):
        table.iloc[200 * k : 200 * (k + 1)].to_parquet(tmp_path / f"rows-{k}.parquet")
    read = dd.read_parquet(tmp_path)
    own = AHOFMRegressor(order=1, random_state=3).fit(read[FEATURES], read["y"])
    np.testing.assert_array_equal(coefficients(fitted(table, order=1)), coefficients(own))
    np.testing.assert_array_equal(own.predict(read[FEATURES]).compute(), own.predict(table[FEATURES]))


def test_arrays_of_unknown_length(client, small_raw_sample):
    X, y = TABLE[["x0", "x1", "x2"]].to_numpy(), TABLE["y"].to_numpy()
    whole = AHOFMRegressor(smoothing="df", order=1).fit(X, y)
    own = AHOFMRegressor(smoothing="df", order=1).fit(da.from_array(X, chunks=(700, 2)), da.from_array(y, chunks=700))
    assert difference(whole, own) < 1e-8
    assert not hasattr(own, "feature_names_in_")
    frame = cut(TABLE, 900)
    unknown = AHOFMRegressor(smoothing="df", order=1).fit(frame[["x0", "x1", "x2"]].values, frame["y"].values)
    assert difference(whole, unknown) < 1e-8


def test_predictions_wait(client):
    own = AHOFMRegressor(smoothing="df").fit(TABLE[FEATURES], TABLE["y"])
    frame = cut(TABLE, 100, 100, 2_000)
    lazy = own.predict(frame[FEATURES])
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(), own.predict(TABLE[FEATURES]))
    np.testing.assert_allclose(
        own.predict(frame[FEATURES], offset=frame["exposure"]).compute(),
        own.predict(TABLE[FEATURES], offset=TABLE["exposure"]),
    )
    np.testing.assert_allclose(own.predict_eta(frame[FEATURES]).compute(), own.predict_eta(TABLE[FEATURES]))
    terms, whole = contributions(own, frame[FEATURES], max_order=1), contributions(own, TABLE[FEATURES], max_order=1)
    assert terms.terms == whole.terms
    np.testing.assert_allclose(terms.values.compute(), whole.values)
    np.testing.assert_allclose(terms.rest.compute(), whole.rest, atol=1e-12)
    shapley = shapley_values(own, frame[FEATURES])
    np.testing.assert_allclose(shapley.values.compute(), shapley_values(own, TABLE[FEATURES]).values)
    with pytest.raises(ValueError, match="return_std is for tables in memory"):
        own.predict(frame[FEATURES], return_std=True)


def test_predicted_classes_wait(client):
    own = AHOFMClassifier(smoothing="df", order=1).fit(TABLE[FEATURES], TABLE["grade"])
    frame = cut(TABLE, 2_000)
    assert (own.predict(frame[FEATURES]).compute() == own.predict(TABLE[FEATURES])).all()
    proba = own.predict_proba(frame[FEATURES])
    assert proba.shape[1] == 3
    np.testing.assert_allclose(proba.compute(), own.predict_proba(TABLE[FEATURES]))
    np.testing.assert_allclose(own.decision_function(frame[FEATURES]).compute(), own.decision_function(TABLE[FEATURES]))


@pytest.fixture
def dataset(client, small_raw_sample, monkeypatch):
    monkeypatch.setattr("ahofm.scale.collection.default_chunk_rows", lambda *_: 300)
    frame = cut(TABLE, 100, 100, 1_700, 1_710, 3_999)
    return ClusterDataset(frame[FEATURES], frame["y"])


def test_source_and_executor_keep_their_promises(dataset):
    """As the contracts of rows/ ask for, where the cluster does the work."""
    source, executor = dataset.source, dataset.executor(None)
    assert isinstance(dataset, Dataset)
    assert isinstance(source, Source)
    assert isinstance(executor, Executor)
    assert isinstance(executor, Folding)
    assert source.n_rows == 4_000
    chunks = [source.chunk(index) for index in range(source.n_chunks)]
    assert [chunk.n_rows for chunk in chunks] == [300] * 13 + [100], "whatever the partitions"
    np.testing.assert_array_equal(np.concatenate([chunk.y for chunk in chunks]), TABLE["y"])
    assert list(executor.map(lambda chunk: chunk.y[0], source)) == list(TABLE["y"][::300])
    for index in (-1, 14):
        with pytest.raises(IndexError, match=f"chunk {index} is out of range: there are 14"):
            source.chunk(index)
    tables = [random_tables(np.random.default_rng(1), sum(chunks[0].codes.sizes), {2: 3}, scale=0.2)]

    def task(chunk):
        return NativeKernel("float64").value_and_gradient(chunk, tables, "gaussian")

    totals = [fold(task, source, executor) for _ in range(2)]
    assert totals[0].value == totals[1].value
    np.testing.assert_array_equal(totals[0].gradient[0].main, totals[1].gradient[0].main)
    serial = sum(task(chunk).value for chunk in chunks)
    assert totals[0].value == pytest.approx(serial, rel=1e-13)
    assert fold(lambda chunk: float(chunk.n_rows), source, executor) == 4_000.0

    def fail(chunk):
        raise RuntimeError("no chunk will do")

    with pytest.raises(RuntimeError, match="no chunk will do"):
        fold(fail, source, executor)
    assert len(list(executor.map(lambda chunk: 0.0, source))) == 14, "and it can be used again"


def test_columns_that_are_missing_in_a_partition(client):
    table = TABLE.iloc[:300].copy()
    table.loc[:99, "x0"] = np.nan
    table.loc[:99, "town"] = None
    frame = cut(table.astype({"town": object}), 100, 200)
    own, whole = (
        ClusterDataset(frame[FEATURES], frame["y"]),
        AHOFMRegressor(order=1).fit(table[FEATURES], table["y"]),
    )
    assert [column.missing for column in own.columns] == [book.missing_mass for book in whole.model_.encoder.codebooks]
    assert own.raw_sample.table.columns[3][:100].tolist() == [None] * 100


def bad_partition(change):
    return frame_of(TABLE.iloc[:50], change(TABLE.iloc[50:100].copy()))


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda t: t.assign(x0=np.inf), ValueError, "partition 1: column 'x0' is infinite"),
        (lambda t: t.assign(x0="a"), TypeError, "column 'x0' holds numbers in partition 0 and text in partition 1"),
        (lambda t: t.assign(y=np.nan), ValueError, "partition 1: the target is missing in row 0"),
        (lambda t: t.assign(w=-1.0), ValueError, "partition 1: weights must be finite and not negative"),
        (lambda t: t.assign(x0=pd.Timedelta("1D")), TypeError, "partition 1: column 'x0' has type Duration"),
    ],
)
def test_bad_partitions_are_named(client, change, kind, message):
    frame = bad_partition(change)
    with pytest.raises(kind, match=message):
        AHOFMRegressor().fit(frame[FEATURES], frame["y"], sample_weight=frame["w"])


def test_partitions_that_do_not_go_together(client):
    frame, other, short = cut(TABLE, 100), cut(TABLE, 100, 200), cut(TABLE, 99)
    with pytest.raises(ValueError, match="y has 3 partitions, X has 2; partition both alike"):
        AHOFMRegressor().fit(frame[FEATURES], other["y"])
    with pytest.raises(ValueError, match=r"partition [01]: y has (99|3901) rows, X has (100|3900)"):
        AHOFMRegressor().fit(frame[FEATURES], short["y"])
    with pytest.raises(TypeError, match="y is of type Series, but X is a Dask collection"):
        AHOFMRegressor().fit(frame[FEATURES], TABLE["y"])
    with pytest.raises(ValueError, match="y is None: a Dask collection needs its targets"):
        AHOFMRegressor().fit(frame[FEATURES])
    X = frame_of(TABLE[FEATURES].iloc[:50], TABLE[FEATURES[::-1]].iloc[50:100])
    y = da.concatenate([da.from_array(TABLE["y"].to_numpy()[:50]), da.from_array(TABLE["y"].to_numpy()[50:100])])
    with pytest.raises(ValueError, match="partition 1 has the columns town, x2, x1, x0, but X has x0, x1, x2, town"):
        AHOFMRegressor().fit(X, y)
    empty = cut(TABLE.iloc[:0])
    with pytest.raises(ValueError, match="X has no rows of positive weight"):
        AHOFMRegressor().fit(empty[FEATURES], empty["y"])


def test_without_a_cluster(monkeypatch):
    def none():
        raise ValueError("No global client found and no address provided")

    monkeypatch.setattr(distributed, "get_client", none)
    frame = cut(TABLE, 100)
    with pytest.raises(ValueError, match=r"Dask collections need a cluster: start one with distributed.Client\(\)"):
        AHOFMRegressor().fit(frame[FEATURES], frame["y"])


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
@pytest.mark.filterwarnings("ignore::RuntimeWarning:distributed", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_worker_that_dies_changes_nothing(small_raw_sample):
    """Two processes; one is killed in the middle of a fit, with the codes that it holds."""
    killed = []

    def kill(record):
        if record.iteration == 3:
            workers = client.run(os.getpid)
            killed.append(next(iter(workers.values())))
            os.kill(killed[0], signal.SIGKILL)

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        frame = cut(TABLE, 1_000, 2_000, 3_000)
        calm = fitted(frame, smoothing="df", max_iter=12)
        hit = fitted(frame, smoothing="df", max_iter=12, callbacks=[kill])
        assert killed
        assert killed[0] not in client.run(os.getpid).values()
    assert difference(calm, hit) < 1e-10
    assert len(hit.trace_.records) == len(calm.trace_.records)
