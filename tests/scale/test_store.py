"""A store on disk: the same fit as in memory, whatever happens on the way; what is wrong with it has a name."""

import errno
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyarrow", reason="a store needs pyarrow: pip install 'ahofm[scale]'")

from ahofm import AHOFMClassifier, AHOFMRegressor, Categorical, Spline
from ahofm.columns import ConstantColumnWarning
from ahofm.rows import Dataset, Source
from ahofm.scale import CodeStore, StoreError
from tests.scale.rows import FEATURES, coefficients, difference, simulated

TABLE = simulated()
OTHERS = ["y", "count", "sold", "grade", "w", "exposure"]


@pytest.fixture
def files(tmp_path):
    """The table in two files."""
    folder = tmp_path / "table"
    folder.mkdir()
    TABLE.iloc[:1_300].to_parquet(folder / "a.parquet")
    TABLE.iloc[1_300:].to_parquet(folder / "b.parquet", row_group_size=700)
    return folder


def build(tmp_path, data, name="codes", **given):
    given = {"target": "y", **given}
    special = [given["target"], given.get("weight"), given.get("offset")]
    return CodeStore.build(tmp_path / name, data, drop=[other for other in OTHERS if other not in special], **given)


FITS = {
    "subsample": (AHOFMRegressor, {"order": 2, "max_iter": 6}, {"target": "y"}),
    "newton, classes of text": (
        AHOFMClassifier,
        {"order": 2, "max_iter": 4, "factor_prior": "spline"},
        {"target": "sold"},
    ),
    "lbfgs, numbers as classes": (AHOFMClassifier, {"smoothing": "df"}, {"target": "grade"}),
    "lbfgs, counts, weights and offsets": (
        AHOFMRegressor,
        {"smoothing": "df", "family": "poisson", "df": {"x0": 4}},
        {"target": "count", "weight": "w", "offset": "exposure"},
    ),
    "bcd": (AHOFMRegressor, {"smoothing": "df", "solver": "bcd", "max_iter": 5}, {"target": "y", "weight": "w"}),
    "negative binomial": (
        AHOFMRegressor,
        {"family": "negative_binomial", "order": 1, "max_iter": 5},
        {"target": "count"},
    ),
}


def in_memory(kind, settings, roles):
    others = {"sample_weight": roles.get("weight"), "offset": roles.get("offset")}
    given = {name: TABLE[column] for name, column in others.items() if column}
    return kind(random_state=3, max_codes=500, **settings).fit(TABLE[FEATURES], TABLE[roles["target"]], **given)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:linear predictors are beyond 20:RuntimeWarning")  # after a few passes
@pytest.mark.parametrize("name", FITS)
def test_many_rows_give_the_fit_in_memory(name, files, tmp_path, small_raw_sample):
    kind, settings, roles = FITS[name]
    store = build(tmp_path, files, max_codes=500, chunk_rows=487, **roles)
    assert isinstance(store, Dataset)
    assert isinstance(store.source, Source)
    own = kind(random_state=3, **settings).fit(store)
    whole = in_memory(kind, settings, roles)
    assert difference(whole, own) < 1e-8
    X = TABLE[FEATURES].iloc[:50]
    assert (own.predict(X) == whole.predict(X)).all() if kind is AHOFMClassifier else True
    assert list(own.feature_names_in_) == FEATURES
    if kind is AHOFMClassifier:
        np.testing.assert_array_equal(own.classes_, whole.classes_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_few_rows_give_the_fit_in_memory_to_the_bit(tmp_path):
    table = TABLE.iloc[:300]
    table.to_csv(tmp_path / "t.csv", index=False)
    store = build(tmp_path, tmp_path / "t.csv", weight="w")
    settings = {"order": 2, "factor_prior": "spline", "n_members": 1, "max_iter": 4, "random_state": 0}
    own = AHOFMRegressor(**settings).fit(store)
    whole = AHOFMRegressor(**settings).fit(table[FEATURES], table["y"], sample_weight=table["w"])
    np.testing.assert_array_equal(coefficients(own), coefficients(whole))
    X = table[FEATURES]
    np.testing.assert_allclose(own.predict_interval(X), whole.predict_interval(X), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_adam_sets_rows_aside_in_every_chunk(files, tmp_path, small_raw_sample):
    store = build(tmp_path, files, chunk_rows=487)
    own = AHOFMRegressor(solver="adam", order=2, max_iter=40, patience=40, random_state=0).fit(store)
    assert own.trace_.records[-1].validation < 0.5 * own.trace_.records[0].validation
    assert own.score(TABLE[FEATURES], TABLE["y"]) > 0.8


def test_block_needs_all_true_values(files, tmp_path, small_raw_sample):
    store = build(tmp_path, files)
    with pytest.raises(ValueError, match="solver='variational' needs true values of all 4000 rows, and has 1500"):
        AHOFMRegressor(solver="variational").fit(store)


def test_kinds_can_wait_for_the_fit(files, tmp_path):
    store = build(tmp_path, files, columns={"x0": Categorical()})
    model = AHOFMRegressor(smoothing="df", order=1, columns={"x2": Spline(n_basis=7)}).fit(store).model_
    kinds = [type(book.kind).__name__ for book in model.encoder.codebooks]
    assert kinds == ["Categorical", "Spline", "Spline", "Categorical"]
    with pytest.raises(TypeError, match="column 'x0' holds levels and cannot be Spline"):
        AHOFMRegressor(columns={"x0": Spline()}).fit(store)


def test_codebooks_of_another_model(files, tmp_path):
    first = AHOFMRegressor(smoothing="df", order=1, max_codes=30).fit(TABLE[FEATURES].iloc[:900], TABLE["y"].iloc[:900])
    store = build(tmp_path, files, encoder=first.model_.encoder)
    later = AHOFMRegressor(smoothing="df", order=1).fit(store)
    for mine, theirs in zip(later.model_.encoder.codebooks, first.model_.encoder.codebooks, strict=True):
        np.testing.assert_array_equal(mine.support.values, theirs.support.values)


def test_every_type_of_file(tmp_path, files):
    one = build(tmp_path, files, "parquet")
    TABLE.to_feather(tmp_path / "t.feather")
    TABLE.to_csv(tmp_path / "t.csv.gz", index=False, na_rep="?")
    TABLE.astype({"town": "category"}).to_parquet(tmp_path / "c.parquet")
    for path in ("t.feather", "t.csv.gz", "c.parquet"):
        other = build(tmp_path, tmp_path / path, path + " codes", missing=["?"])
        for a, b in zip(one.source.chunk(0).codes.columns, other.source.chunk(0).codes.columns, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_second_build_does_nothing(files, tmp_path, monkeypatch):
    build(tmp_path, files)
    monkeypatch.setattr("ahofm.scale.build.write_part", lambda *_: pytest.fail("written again"))
    build(tmp_path, files)
    with pytest.raises(StoreError, match=r"holds something else .* remove it or give another folder"):
        build(tmp_path, files, target="count")


KILLED = """
import os, signal, sys
from ahofm.scale import CodeStore
import ahofm.scale.build as build
write, count = build.write_part, 0
def dies(*given):
    global count
    count += 1
    if count == 2:
        given = (given[0], halfway(given[1]), *given[2:])
    return write(*given)
def halfway(chunks):
    for k, chunk in enumerate(chunks):
        if k == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        yield chunk
build.write_part = dies
CodeStore.build(sys.argv[1], sys.argv[2], target="y", weight="w", chunk_rows=19, drop=sys.argv[3].split(","))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_a_killed_build_goes_on_where_it_was(files, tmp_path, monkeypatch):
    others = ",".join(name for name in OTHERS if name not in ("y", "w"))
    words = [sys.executable, "-c", KILLED, str(tmp_path / "codes"), str(files), others]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with pytest.raises(StoreError, match="is not complete: call build again to finish it"):
        CodeStore.open(tmp_path / "codes")
    assert (tmp_path / "codes" / "part-00000.arrow").is_file()
    assert not (tmp_path / "codes" / "part-00001.arrow").is_file()
    first = (tmp_path / "codes" / "part-00000.arrow").stat().st_mtime_ns
    drafts = [item.name for item in (tmp_path / "codes").iterdir() if item.name.startswith(".")]
    assert len(drafts) == 1, "of the part that was being written"
    (tmp_path / "codes" / ".mine").write_text("no draft")
    monkeypatch.setattr("ahofm.scale.build._learn", lambda *_: pytest.fail("learned again"))
    store = build(tmp_path, files, weight="w", chunk_rows=19)
    assert (tmp_path / "codes" / "part-00000.arrow").stat().st_mtime_ns == first
    assert [item.name for item in (tmp_path / "codes").iterdir() if item.name.startswith(".")] == [".mine"]
    monkeypatch.undo()
    fresh = build(tmp_path, files, "fresh", weight="w", chunk_rows=19)
    assert store.n_rows == fresh.n_rows == (TABLE["w"] > 0).sum()
    for index in range(fresh.source.n_chunks):
        mine, theirs = store.source.chunk(index), fresh.source.chunk(index)
        np.testing.assert_array_equal(mine.y, theirs.y)
        for a, b in zip(mine.codes.columns, theirs.codes.columns, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(store.raw_sample.y, fresh.raw_sample.y)
    np.testing.assert_array_equal(store.raw_sample.table.columns[1], fresh.raw_sample.table.columns[1])


def test_a_full_disk(files, tmp_path, monkeypatch):
    calls = []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) == 3:  # the plan, a part with its true values
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"cannot write .*known-00000.bin: No space left on device; .* make room"):
        build(tmp_path, files, chunk_rows=19)
    assert not [path for path in (tmp_path / "codes").iterdir() if path.name.startswith(".")]
    monkeypatch.undo()
    build(tmp_path, files, chunk_rows=19).verify()


def flip(path, at=-3000):
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(bytes(data))


DAMAGE = {
    "truncated part": (
        lambda d: os.truncate(d / "part-00000.arrow", 5_000),
        "part-00000.arrow has 5,000 bytes instead of",
    ),
    "missing part": (lambda d: (d / "part-00001.arrow").unlink(), "part-00001.arrow is missing"),
    "flipped bit": (lambda d: flip(d / "part-00001.arrow", 20_000), "part-00001.arrow is missing or damaged"),
    "flipped bit in true values": (
        lambda d: flip(d / "known-00000.bin"),
        r"known-00000.bin is missing or damaged \(its checksum",
    ),
    "flipped bit in the plan": (lambda d: flip(d / "plan.safetensors", -50), "plan.safetensors is missing or damaged"),
    "no manifest": (lambda d: (d / "manifest.json").unlink(), "is not complete: call build again"),
    "broken manifest": (lambda d: (d / "manifest.json").write_text("{"), "manifest.json is missing or damaged"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found_and_named(name, files, tmp_path, small_raw_sample):
    damage, message = DAMAGE[name]
    build(tmp_path, files, chunk_rows=19)
    damage(tmp_path / "codes")
    with pytest.raises(StoreError, match=message):
        AHOFMRegressor(smoothing="df", order=1).fit(CodeStore.open(tmp_path / "codes"))


def test_a_file_that_shrinks_while_it_is_read(files, tmp_path, small_raw_sample):
    store = build(tmp_path, files, chunk_rows=19)
    os.truncate(tmp_path / "codes" / "part-00002.arrow", 5_000)
    with pytest.raises(StoreError, match=r"part-00002.arrow is missing or damaged"):
        AHOFMRegressor(smoothing="df", order=1).fit(store)


def test_parts_of_two_stores_do_not_mix(files, tmp_path):
    one, other = build(tmp_path, files), build(tmp_path, files, "other", max_codes=300)
    for name in ("part-00000.arrow",):
        (other.folder / name).write_bytes((one.folder / name).read_bytes())
    with pytest.raises(StoreError, match=r"part-00000.arrow (belongs to another store|has)"):
        CodeStore.open(other.folder).verify()


def test_a_store_of_a_newer_version(files, tmp_path):
    build(tmp_path, files)
    path = tmp_path / "codes" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 3}))
    with pytest.raises(StoreError, match=r"manifest.json was written by a newer ahofm; upgrade to read version 3"):
        CodeStore.open(tmp_path / "codes")


def written(tmp_path, *tables):
    paths = []
    for k, table in enumerate(tables):
        paths.append(tmp_path / f"{k}.parquet")
        (table if isinstance(table, pd.DataFrame) else pd.DataFrame(table)).to_parquet(paths[-1])
    return paths


GOOD = {"x": [1.0, 2.0, 3.0], "t": ["a", "b", "a"], "y": [1.0, 2.0, 4.0]}
BAD = {
    "lacks a column": ({"x": [1.0], "y": [1.0]}, ValueError, r"1.parquet: lacks 't', unlike .*0.parquet"),
    "one more": ({**GOOD, "z": [1, 2, 3]}, ValueError, r"1.parquet: has 'z' besides, unlike .*0.parquet"),
    "text": (
        {**GOOD, "x": ["1", "2", "3"]},
        TypeError,
        r"column 'x' holds numbers in .*0.parquet and text in .*1.parq",
    ),
    "infinite": ({**GOOD, "x": [1.0, np.inf, 2.0]}, ValueError, r"1.parquet, rows 0 to 2: column 'x' is infinite"),
    "no target": (
        {**GOOD, "y": [1.0, np.nan, 2.0]},
        ValueError,
        r"1.parquet, rows 0 to 2: the target is missing in row 1",
    ),
    "a time": (
        {**GOOD, "x": pd.to_datetime(["2020", "2021", "2022"])},
        TypeError,
        r"1.parquet: column 'x' has type timest",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_named(name, tmp_path):
    table, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        CodeStore.build(tmp_path / "s", written(tmp_path, GOOD, table), target="y")


def test_a_column_that_is_missing_in_one_file(tmp_path):
    missing = {"x": [np.nan] * 3, "t": pd.Series([None] * 3, dtype=object), "y": [1.0, 2.0, 3.0]}
    empty = pd.DataFrame(GOOD).iloc[:0]
    store = CodeStore.build(tmp_path / "s", written(tmp_path, missing, GOOD, empty), target="y")
    assert [column.missing for column in store.columns] == [3.0, 3.0]
    assert store.n_rows == 6
    assert store.raw_sample.table.columns[1].tolist() == [None] * 3 + ["a", "b", "a"]


def test_a_column_without_any_value(tmp_path):
    nothing = pd.DataFrame({**GOOD, "t": pd.Series([None] * 3, dtype=object)})
    store = CodeStore.build(tmp_path / "s", written(tmp_path, nothing), target="y")
    with pytest.warns(ConstantColumnWarning, match="'t'"):
        AHOFMRegressor(smoothing="df", order=1).fit(store)


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"target": "price"}, ValueError, "no column 'price'; there are 'x', 't', 'y'"),
        ({"weight": "t"}, TypeError, "column 't' is text; weights and offsets are numbers"),
        ({"drop": ["x", "t"]}, ValueError, "no column is left to predict 'y' from"),
        ({"memory_limit": "a lot"}, ValueError, "memory_limit must be a number of bytes or a text such as '2GB'"),
        ({"memory_limit": "100MB"}, ValueError, r"memory_limit is too small for 2 columns: at least 0.\dGB is needed"),
        ({"max_codes": 1}, ValueError, "max_codes must be an integer of at least 2"),
        ({"columns": {"z": Spline()}}, ValueError, "columns names 'z', which is not in X"),
    ],
)
def test_bad_requests(given, kind, message, tmp_path):
    with pytest.raises(kind, match=message):
        CodeStore.build(tmp_path / "s", written(tmp_path, GOOD), **{"target": "y", **given})


@pytest.mark.parametrize("name", ["no.parquet", "t.txt", "empty"])
def test_no_files(name, tmp_path):
    (tmp_path / "t.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    with pytest.raises((ValueError, FileNotFoundError), match=r"no such file|unknown type of file|no files in it"):
        CodeStore.build(tmp_path / "s", tmp_path / name, target="y")


def test_what_estimators_refuse(files, tmp_path, small_raw_sample):
    store = build(tmp_path, files, target="sold")
    with pytest.raises(ValueError, match="the target is text; use AHOFMClassifier"):
        AHOFMRegressor().fit(store)
    with pytest.raises(ValueError, match="X has its targets, weights and offsets with it: leave out y"):
        AHOFMClassifier().fit(store, TABLE["sold"])
    numbers = build(tmp_path, files, "numbers")
    with pytest.raises(ValueError, match="too many different values to be classes"):
        AHOFMClassifier().fit(numbers)
    with pytest.raises(ValueError, match=r"y must hold whole numbers in \[0, inf\) for Poisson, got -?\d.* in row \d+"):
        AHOFMRegressor(family="poisson").fit(numbers)


def test_a_store_can_be_used_after_it_failed(files, tmp_path, small_raw_sample):
    store = build(tmp_path, files, chunk_rows=19)

    def stop(record):
        return record.iteration >= 2

    AHOFMRegressor(smoothing="df", order=1, callbacks=[stop]).fit(store)
    AHOFMRegressor(smoothing="df", order=1).fit(store)
