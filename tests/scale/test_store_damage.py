"""Damage of any kind is found, and the advice of the error works when it is followed."""

import json
import re
import shutil
import threading
import zlib

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="a store needs pyarrow: pip install 'ahofm[scale]'")

import pyarrow as pa

from ahofm.rows.digest import digest_of
from ahofm.scale import CodeStore, StoreError
from ahofm.scale.drafts import remove_drafts, replacing
from ahofm.scale.plan import Plan
from tests.scale.rows import FEATURES, simulated

GIVEN = {"target": "y", "weight": "w", "offset": "exposure", "drop": ["count", "sold", "grade"], "chunk_rows": 19}


NAME = r"part-\d+\.arrow|known-\d+\.bin|plan\.safetensors|manifest\.json"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A store of three parts."""
    folder = tmp_path_factory.mktemp("original")
    simulated().to_parquet(folder / "rows.parquet")
    assert CodeStore.build(folder / "codes", folder / "rows.parquet", **GIVEN).plan.n_parts == 3
    return folder


@pytest.fixture
def folder(original, tmp_path):
    """A copy to damage."""
    return shutil.copytree(original / "codes", tmp_path / "codes")


def build(original, folder):
    return CodeStore.build(folder, original / "rows.parquet", **GIVEN)


def contents(folder):
    """Of all files, by name; safetensors writes its metadata in any order."""
    found = {item.name: item.read_bytes() for item in sorted(folder.iterdir())}
    return {**found, "plan.safetensors": digest_of(Plan.load(folder / "plan.safetensors"))}


def replace_bytes(path, old, new, count=-1):
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, count))


def swap(one, other):
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


DAMAGE = {
    "the name of the weights, one bit flipped": lambda d: replace_bytes(d / "part-00000.arrow", b"weight", b"wdight"),
    "the names of two columns swapped": lambda d: replace_bytes(d / "part-00001.arrow", b"c0", b"c9", 1),
    "a type": lambda d: replace_bytes(d / "plan.safetensors", b'"dtype":"F64"', b'"dtype":"I64"', 1),
    "a part copied over another": lambda d: shutil.copy(d / "part-00000.arrow", d / "part-00001.arrow"),
    "two parts swapped": lambda d: swap(d / "part-00000.arrow", d / "part-00001.arrow"),
    "true values copied over others": lambda d: shutil.copy(d / "known-00000.bin", d / "known-00001.bin"),
    "the number of rows in the manifest": lambda d: replace_bytes(d / "manifest.json", b'"n_rows": 2', b'"n_rows": 3'),
    "no index": lambda d: replace_bytes(d / "part-00002.arrow", b"ahofmidx", b"ahofmidy"),
    "a part that ends in its index": lambda d: (d / "part-00001.arrow").write_bytes(
        (d / "part-00001.arrow").read_bytes()[:-300] + b" " * 300
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found_and_the_advice_works(name, original, folder):
    """Also when the advice is followed literally: delete the file that is named, build again."""
    whole = contents(folder)
    DAMAGE[name](folder)
    with pytest.raises(StoreError, match="delete it and build the store again") as found:
        CodeStore.open(folder).verify()
    damaged = (
        folder / re.search(r"(part-\d+\.arrow|known-\d+\.bin|plan\.safetensors|manifest\.json)", str(found.value))[0]
    )
    damaged.unlink()
    for _ in range(3):  # one file is named at a time
        try:
            build(original, folder).verify()
            break
        except StoreError as error:
            (folder / re.search(NAME, str(error))[0]).unlink()
    assert contents(folder) == whole


@pytest.mark.parametrize("name", ["manifest.json", "plan.safetensors", "part-00001.arrow", "known-00002.bin"])
@pytest.mark.parametrize("how", ["deleted", "truncated", "last bytes"])
def test_what_a_build_can_see_it_mends_by_itself(how, name, original, folder):
    whole = contents(folder)
    data = (folder / name).read_bytes()
    if how == "deleted":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(data[: len(data) // 2] if how == "truncated" else data[:-9] + b"\0" * 9)
    with pytest.raises(StoreError):
        CodeStore.open(folder).verify()
    build(original, folder).verify()
    assert contents(folder) == whole


def test_only_what_is_missing_is_written_again(original, folder, monkeypatch):
    from ahofm.scale import build as building  # noqa: PLC0415 - the module, not the function here

    written, write = [], building.write_part

    def counting(path, *given):
        written.append(path.name)
        return write(path, *given)

    monkeypatch.setattr(building, "write_part", counting)
    (folder / "part-00000.arrow").unlink()
    (folder / "known-00002.bin").unlink()
    build(original, folder).verify()
    assert written == ["part-00000.arrow", "part-00002.arrow"]


@pytest.mark.parametrize("name", ["notes.txt", "manifest.json", "part-00000.arrow"])
def test_a_build_leaves_alone_what_is_not_its_own(name, original, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / name).write_text("precious")
    with pytest.raises(StoreError, match=name):
        build(original, folder)
    assert (folder / name).read_text() == "precious"


def test_a_store_of_the_earlier_version(original, folder):
    facts = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**facts, "version": 1, "identity": "0"}))
    with pytest.raises(StoreError, match=r"is of version 1 of stores, .*; delete .*codes and build the store again"):
        CodeStore.open(folder)
    with pytest.raises(StoreError, match="or of an earlier version; remove it or give another folder"):
        build(original, folder)


def test_drafts_of_the_living_stay(tmp_path):
    """Two builds into the same folder do no harm; what nobody writes any more goes."""
    (tmp_path / ".part-00000.arrow.0123abcd").write_text("left behind")
    written, negligible = threading.Event(), threading.Event()

    def write():
        with replacing(tmp_path / "part-00001.arrow") as draft:
            draft.write_text("mine")
            written.set()
            assert negligible.wait(30)

    writer = threading.Thread(target=write)
    writer.start()
    assert written.wait(30)
    remove_drafts(tmp_path)
    negligible.set()
    writer.join(30)
    assert [item.name for item in tmp_path.iterdir()] == ["part-00001.arrow"]
    assert (tmp_path / "part-00001.arrow").read_text() == "mine"


def test_a_part_is_a_stream_that_arrow_reads(folder):
    """And its checksums are those of its messages."""
    data = (folder / "part-00000.arrow").read_bytes()
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        assert reader.schema.names == [*(f"c{j}" for j in range(len(FEATURES))), "y", "weight", "o0"]
        assert sum(batch.num_rows for batch in reader) == 64 * 19
    index = json.loads(data[data.index(b'{"store"') : data.rindex(b"ahofmidx")])
    start, length, checksum = index["messages"][5]
    assert zlib.crc32(data[start : start + length]) == checksum
    assert np.array(index["messages"])[:, 1].sum() < len(data)
