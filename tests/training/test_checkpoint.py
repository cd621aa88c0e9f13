"""A fit that is killed goes on from its checkpoint and ends where it would have ended."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from ahofm import AHOFMRegressor
from ahofm.columns import Encoder
from ahofm.fit.solvers.subsample import refine
from ahofm.fit.stacking import problem
from ahofm.model import Reason
from ahofm.rows import dataset
from ahofm.training import checkpoint, data
from ahofm.training.checkpoint import Checkpoint, CheckpointError
from tests.fit.fits import simulated
from tests.scale.rows import coefficients

SETTINGS = {
    "lbfgs": {"smoothing": "df", "order": 2, "max_iter": 20},
    "bcd": {"smoothing": "df", "order": 2, "solver": "bcd", "max_iter": 6},
    "adam": {"smoothing": "df", "order": 2, "solver": "adam", "max_iter": 12},
    "variational": {"order": 2, "max_iter": 3, "n_members": 2},
    "members": {"order": 2, "max_iter": 3, "n_members": 2},
    "subsample": {"order": 2, "max_iter": 8, "solver": "subsample", "factor_prior": "spline"},
}
KILL_AT = {"lbfgs": 11, "bcd": 4, "adam": 9, "variational": 38, "members": 62, "subsample": 55}

PROGRAM = """
import os, signal, sys, warnings
from ahofm import AHOFMRegressor
from ahofm.columns import Encoder
from ahofm.training import checkpoint, data
from ahofm.fit.solvers.subsample import refine
from ahofm.fit.stacking import problem
from tests.fit.fits import simulated
from tests.training.test_checkpoint import KILL_AT, SETTINGS
warnings.simplefilter("ignore")
checkpoint.CHECKPOINT_SECONDS, refine.SAMPLE_ROWS, problem.WARM_START_ROWS = 0.0, 300, 0
X, y, _ = simulated()
def kill(record):
    if record.iteration == KILL_AT[name]:
        os.kill(os.getpid(), signal.SIGKILL)
for name in SETTINGS:
    if (child := os.fork()) == 0:
        # One thread, so that no other one is writing a checkpoint when the process ends.
        settings = {"random_state": 0, "n_jobs": 1, "checkpoint": sys.argv[1] + name, **SETTINGS[name]}
        AHOFMRegressor(callbacks=[kill], **settings).fit(X, y)
        os._exit(0)
    print(name, os.WTERMSIG(os.waitpid(child, 0)[1]))
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Checkpoints of fits that kill -9 has ended."""
    folder = tmp_path_factory.mktemp("killed")
    words = [sys.executable, "-W", "ignore", "-c", PROGRAM, f"{folder}/"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [word for name in SETTINGS for word in (name, str(int(signal.SIGKILL)))], done.stderr
    assert sorted(item.name for item in folder.iterdir()) == sorted(SETTINGS), "and no drafts"
    return folder


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and kill -9")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", SETTINGS)
def test_a_killed_fit_goes_on(name, killed, monkeypatch):
    path = killed / name
    monkeypatch.setattr(refine, "SAMPLE_ROWS", 300)
    monkeypatch.setattr(problem, "WARM_START_ROWS", 0)
    X, y, _ = simulated()
    whole = AHOFMRegressor(random_state=0, **SETTINGS[name]).fit(X, y)
    seen = []
    again = AHOFMRegressor(random_state=0, checkpoint=path, callbacks=[seen.append], **SETTINGS[name]).fit(X, y)
    np.testing.assert_array_equal(coefficients(again), coefficients(whole))
    assert not path.exists(), "the fit has ended"
    assert len(seen) < len(whole.trace_.records) - 1, "something was not computed again"
    if name in ("lbfgs", "bcd", "adam"):
        assert [record.objective for record in again.trace_.records] == [
            record.objective for record in whole.trace_.records
        ]
        assert seen[0].iteration == KILL_AT[name] + 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_interrupt_keeps_it(tmp_path):
    X, y, _ = simulated()
    path = tmp_path / "c"

    def interrupt(record):
        if record.iteration == 7:
            raise KeyboardInterrupt

    settings = {"random_state": 0, "smoothing": "df", "order": 2, "max_iter": 15}
    stopped = AHOFMRegressor(checkpoint=path, callbacks=[interrupt], **settings)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(X, y)
    assert stopped.trace_.reason is Reason.INTERRUPTED
    assert path.exists()
    again = AHOFMRegressor(checkpoint=path, **settings).fit(X, y)
    np.testing.assert_array_equal(coefficients(again), coefficients(AHOFMRegressor(**settings).fit(X, y)))
    assert not path.exists()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_of_other_data_or_settings(tmp_path):
    X, y, _ = simulated()
    path = tmp_path / "c"

    def fail(record):
        if record.iteration == 3:
            raise RuntimeError("power cut")

    def fit(X, y, **settings):
        given = {"random_state": 0, "smoothing": "df", "order": 1, "max_iter": 9, "checkpoint": path, **settings}
        return AHOFMRegressor(**given).fit(X, y)

    original, checkpoint.CHECKPOINT_SECONDS = checkpoint.CHECKPOINT_SECONDS, 0.0
    try:
        with pytest.raises(RuntimeError, match="power cut"):
            fit(X, y, callbacks=[fail])
    finally:
        checkpoint.CHECKPOINT_SECONDS = original
    for other in ({"df": 3}, {"random_state": 1}, {"order": 2}):
        with pytest.raises(CheckpointError, match="is of other data or settings; remove it to start again"):
            fit(X, y, **other)
    for change in ((X, y + 1e-9 * (np.arange(len(y)) == 5)), (X[:-1], y[:-1]), (X[:, ::-1], y)):
        with pytest.raises(CheckpointError, match="is of other data or settings"):
            fit(*change)
    fit(X, y, n_jobs=1)
    assert not path.exists()


def interrupted(path, rows, y=None, **settings):
    """A fit that fails after three iterations and leaves its checkpoint."""

    def fail(record):
        if record.iteration == 3:
            raise RuntimeError("power cut")

    given = {"random_state": 0, "smoothing": "df", "order": 1, "max_iter": 9, "checkpoint": path, **settings}
    original, checkpoint.CHECKPOINT_SECONDS = checkpoint.CHECKPOINT_SECONDS, 0.0
    try:
        with pytest.raises(RuntimeError, match="power cut"):
            AHOFMRegressor(callbacks=[fail], **given).fit(rows, y)
    finally:
        checkpoint.CHECKPOINT_SECONDS = original
    return lambda rows, y=None, **other: AHOFMRegressor(**{**given, **other}).fit(rows, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_row_counts(tmp_path, monkeypatch):
    """Also those whose true values are not kept: of many rows a sample is."""
    for module in (dataset, data):
        monkeypatch.setattr(module, "RAW_SAMPLE_ROWS", 100)
    monkeypatch.setattr(data, "MERGED_ROWS", 100)
    X, y, _ = simulated()
    again = interrupted(tmp_path / "c", X, y)
    known = dataset.raw_sample_rows(len(y))
    row = int(np.setdiff1d(np.arange(len(y)), known)[7])
    changed = np.where(np.arange(len(y)) == row, y + 1e-9, y)
    swapped = X.copy()
    swapped[[row, row + 1]] = X[[row + 1, row]]
    for other in ((X, changed), (swapped, y)):
        with pytest.raises(CheckpointError, match="is of other data or settings"):
            again(*other)
    again(X, y)
    assert not (tmp_path / "c").exists()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_true_values_count_where_codes_are_the_same(tmp_path):
    X, y, _ = simulated()
    again = interrupted(tmp_path / "c", X, y, max_codes=5)
    moved = X.copy()
    at = np.argsort(X[:, 0])[len(X) // 2 : len(X) // 2 + 2]
    moved[at, 0] = X[at[::-1], 0]  # within a bin, whose mean stays
    books = [Encoder.learn(table, max_codes=5) for table in (X, moved)]
    np.testing.assert_array_equal(
        *(book.encode(table).columns[0] for book, table in zip(books, (X, moved), strict=True))
    )
    with pytest.raises(CheckpointError, match="is of other data or settings"):
        again(moved, y)
    with pytest.raises(CheckpointError, match="is of other data or settings"):
        again(X, y, max_codes=6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_row_of_a_store_counts(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow", reason="a store needs pyarrow")
    from ahofm.scale import CodeStore  # noqa: PLC0415 - needs pyarrow
    from tests.scale.rows import simulated as rows_of_store  # noqa: PLC0415 - with it

    for module in (dataset, data):
        monkeypatch.setattr(module, "RAW_SAMPLE_ROWS", 100)
    table = rows_of_store(500)
    stores = []
    for name in ("one", "other"):
        table.to_parquet(tmp_path / f"{name}.parquet")
        stores.append(
            CodeStore.build(tmp_path / name, tmp_path / f"{name}.parquet", target="y", drop=["count", "sold", "grade"])
        )
        row = int(np.setdiff1d(np.arange(500), dataset.raw_sample_rows(500))[3])
        table.loc[row, "y"] += 1e-9
    again = interrupted(tmp_path / "c", stores[0])
    with pytest.raises(CheckpointError, match="is of other data or settings"):
        again(stores[1])
    again(stores[0])


def test_types_of_what_is_kept_count(tmp_path):
    """A flipped bit in a dtype leaves all bytes of the numbers as they were."""
    path = tmp_path / "c"
    Checkpoint(path, "me").put("a", np.arange(5.0), now=True)
    whole = path.read_bytes()
    assert whole.count(b'"dtype":"F64"') == 1
    path.write_bytes(whole.replace(b'"dtype":"F64"', b'"dtype":"I64"'))
    with pytest.raises(CheckpointError, match="is damaged or no checkpoint; remove it to start again"):
        Checkpoint(path, "me")


def test_of_an_earlier_version(tmp_path):
    path = tmp_path / "c"
    Checkpoint(path, "me").put("a", 1, now=True)
    now, before = (f'"version":"{version}"'.encode() for version in (checkpoint.VERSION, checkpoint.VERSION - 1))
    whole = path.read_bytes()
    assert now in whole
    path.write_bytes(whole.replace(now, before))
    with pytest.raises(CheckpointError, match="was written by an earlier ahofm; remove it to start again"):
        Checkpoint(path, "me")


def test_damaged_or_something_else(tmp_path):
    path = tmp_path / "c"
    kept = Checkpoint(path, "me")
    kept.put("a", (np.arange(5.0), {2: "x"}, [None, True, 1.5]), now=True)
    found = Checkpoint(path, "me").get("a")
    np.testing.assert_array_equal(found[0], np.arange(5.0))
    assert found[1:] == ({2: "x"}, [None, True, 1.5])
    assert Checkpoint(path, "me").get("b") is None
    whole = bytearray(path.read_bytes())
    for at in (3, len(whole) // 2, len(whole) - 3):
        broken = whole.copy()
        broken[at] ^= 0x55
        path.write_bytes(broken)
        with pytest.raises(CheckpointError, match="is damaged or no checkpoint"):
            Checkpoint(path, "me")
    os.truncate(path, 40)
    with pytest.raises(CheckpointError, match="is damaged or no checkpoint"):
        Checkpoint(path, "me")
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        Checkpoint(tmp_path / "no" / "c", "me")
    with pytest.raises(TypeError, match="checkpoint= cannot keep a object"):
        kept.put("b", object())


def test_the_last_of_a_part_is_kept(tmp_path):
    kept = Checkpoint(tmp_path / "c", "me")
    kept.put("stage 1 on its way", np.zeros(3))
    kept.put("stage 1", np.ones(2), instead_of="stage 1 on its way", now=True)
    again = Checkpoint(tmp_path / "c", "me")
    assert again.get("stage 1 on its way") is None
    np.testing.assert_array_equal(again.get("stage 1"), np.ones(2))
