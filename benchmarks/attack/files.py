"""Damaged files: models, stores and checkpoints are refused, or give the same to the bit."""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

import ahofm
from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.model import Model, ModelFileError
from ahofm.rows.digest import digest_of
from ahofm.scale import CodeStore, StoreError
from ahofm.training import checkpoint
from ahofm.training.checkpoint import CheckpointError
from benchmarks.attack.damage import damaged, edited_header
from benchmarks.attack.outcome import IDENTICAL, REJECTED, SILENT, Counts
from benchmarks.attack.workers import Attempt, run_cases

_FIT: dict[str, Any] = {"smoothing": "df", "order": 1, "max_iter": 8, "random_state": 0}


def models(n_cases: int, limit: float) -> Counts:
    """Model files through ``ahofm.load``."""
    return _part("models", _save_models, _models_attempt, n_cases, limit)


def stores(n_cases: int, limit: float) -> Counts:
    """Stores through ``CodeStore.open``, read to the last row."""
    return _part("stores", _save_stores, _stores_attempt, n_cases, limit)


def checkpoints(n_cases: int, limit: float) -> Counts:
    """Checkpoints through the fit that goes on from them."""
    return _part("checkpoints", _save_checkpoints, _checkpoints_attempt, n_cases, limit)


def attempt_of(part: str, folder: Path) -> Attempt:
    """One case of a part at a time, in this process: to look at one that went wrong."""
    saves = {"models": _save_models, "stores": _save_stores, "checkpoints": _save_checkpoints}
    makes = {"models": _models_attempt, "stores": _stores_attempt, "checkpoints": _checkpoints_attempt}
    saves[part](folder)
    return makes[part](folder)


def _part(
    name: str, save: Callable[[Path], None], make: Callable[[Path], Attempt], n_cases: int, limit: float
) -> Counts:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ahofm-attack-") as place:
        save(Path(place))
        found = list(run_cases(partial(make, Path(place)), iter(range(n_cases)), limit))
    return Counts.of(name, found, time.monotonic() - begun)


def table(n: int = 250, seed: int = 0) -> pd.DataFrame:
    """Numbers, levels and missing values; targets, weights and offsets."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({f"x{j}": rng.normal(size=n).round(1) for j in range(3)})
    rows["town"] = rng.choice(["a", "b", "c"], n)
    rows.loc[::17, "x1"] = np.nan
    rows["y"] = np.sin(rows["x0"]) * rows["x2"] + (rows["town"] == "a") + 0.3 * rng.normal(size=n)
    rows["w"] = rng.integers(1, 4, n).astype(float)
    rows["o"] = rng.uniform(-0.5, 0.5, n)
    return rows


def _features(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[["x0", "x1", "x2", "town"]]


def _save_models(folder: Path) -> None:
    """A handful of small ones, of different families, kinds of columns and sizes."""
    rows = table()
    X, y = _features(rows), rows["y"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits: list[Any] = [
            AHOFMRegressor(**_FIT).fit(X, y, sample_weight=rows["w"]),
            AHOFMRegressor(order=2, max_iter=2, n_members=1, random_state=0, n_jobs=1).fit(X, y).with_uncertainty(),
            AHOFMClassifier(**{**_FIT, "order": 2}).fit(X, np.digitize(y, [0.0, 1.0])),
            AHOFMClassifier(**_FIT).fit(X, np.where(y > 0, "yes", "no")),
            AHOFMRegressor(family="poisson", **_FIT).fit(X, np.round(np.exp(y)), offset=rows["o"]),
        ]
    for k, fitted in enumerate(fits):
        _without_times(fitted.model_).save(folder / f"{k}.ahofm")


def _without_times(model: Model) -> Model:
    """The model without the times of its trace: files have the same bytes every time, and cases the same damage.

    Fits have one thread for the same reason: records of fits side by side are in the order of their times.
    """
    records = tuple(replace(record, seconds=0.0) for record in model.trace.records)
    return replace(model, trace=replace(model.trace, records=records, seconds=dict.fromkeys(model.trace.seconds, 0.0)))


def _models_attempt(folder: Path) -> Attempt:
    originals = [path.read_bytes() for path in sorted(folder.glob("*.ahofm"))]
    X = _features(table(40, seed=1))
    expected = [_of_model(path, X) for path in sorted(folder.glob("*.ahofm"))]
    problem = Path(tempfile.mkdtemp(dir=folder))

    def attempt(case: int) -> tuple[str, str]:
        rng = np.random.default_rng([1, case])
        which = case % len(originals)
        change = edited_header if rng.random() < 0.3 else damaged
        (problem / "model").write_bytes(change(originals[which], rng))
        return _compared(lambda: _of_model(problem / "model", X), expected[which], ModelFileError)

    return attempt


def _of_model(path: Path, X: pd.DataFrame) -> str:
    """All that is in a model, and what it predicts."""
    model = ahofm.load(path).model_
    return digest_of(model, model.predict(X), model.eta(X))


def _compared(load: Callable[[], str], expected: str, *documented: type[Exception]) -> tuple[str, str]:
    try:
        found = load()
    except documented as error:
        return REJECTED, str(error)
    return (IDENTICAL, "") if found == expected else (SILENT, "something differs")


def _save_stores(folder: Path) -> None:
    """One with weights and offsets, in several parts, and one of other rows."""
    for name, seed in (("one", 0), ("other", 5)):
        table(400, seed).to_parquet(folder / f"{name}.parquet")
        CodeStore.build(
            folder / name, folder / f"{name}.parquet", target="y", weight="w", offset="o", chunk_rows=3, n_threads=1
        )


def _stores_attempt(folder: Path) -> Attempt:
    one, other = (
        {path.name: path.read_bytes() for path in sorted((folder / name).iterdir())} for name in ("one", "other")
    )
    expected = _of_store(folder / "one")
    problem = Path(tempfile.mkdtemp(dir=folder)) / "codes"

    def attempt(case: int) -> tuple[str, str]:
        files = _damaged_store(one, other, np.random.default_rng([2, case]))
        shutil.rmtree(problem, ignore_errors=True)
        problem.mkdir()
        for name, data in files.items():
            (problem / name).write_bytes(data)
        outcome, seen = _compared(lambda: _of_store(problem), expected, StoreError)
        if outcome != IDENTICAL:
            return outcome, seen
        return _compared(lambda: _of_fit(problem), _of_fit(folder / "one"), StoreError)

    return attempt


def _damaged_store(one: dict[str, bytes], other: dict[str, bytes], rng: np.random.Generator) -> dict[str, bytes]:
    """Files of a store, one of them damaged, or some of them confused."""
    files, names = dict(one), sorted(one)
    a, b = (names[at] for at in rng.integers(len(names), size=2))
    way = int(rng.integers(10))
    if way == 0:
        files[a] = files[b]
    elif way == 1:
        files[a], files[b] = files[b], files[a]
    elif way == 2:
        del files[a]
    elif way == 3:
        files[a] = other.get(a, b"")
    elif way == 4:
        files[a] = files[a].replace(*_names(rng), 1)
    elif way == 5 and a.endswith(".safetensors"):
        files[a] = edited_header(files[a], rng)
    else:
        files[a] = damaged(files[a], rng)
    return files


def _names(rng: np.random.Generator) -> tuple[bytes, bytes]:
    """A name that is in a store, and another one."""
    names = [
        b"weight",
        b"o0",
        b"c0",
        b"c1",
        b"x0",
        b"y",
        b"store",
        b"part",
        b"n_rows",
        b"columns",
        b"labels",
        b"identity",
    ]
    old, new = (names[at] for at in rng.integers(len(names), size=2))
    return old, new if rng.random() < 0.5 else bytes([old[0] ^ 1]) + old[1:]


def _of_store(folder: Path) -> str:
    """All that a fit reads of a store."""
    store = CodeStore.open(folder)
    chunks = [digest_of(store.source.chunk(index)) for index in range(store.source.n_chunks)]
    return digest_of(store.columns, store.target, store.n_rows, store.total, chunks, store.raw_sample)


def _of_fit(folder: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return digest_of(AHOFMRegressor(**_FIT).fit(CodeStore.open(folder)).model_.linear_predictors)


def _save_checkpoints(folder: Path) -> None:
    """Of a fit that failed on its way."""

    def fail(record: Any) -> None:
        if record.iteration == 5:
            raise RuntimeError("power cut")

    rows = table()
    with patch.object(checkpoint, "CHECKPOINT_SECONDS", 0.0), suppress(RuntimeError):
        AHOFMRegressor(checkpoint=folder / "checkpoint", callbacks=[fail], **_FIT).fit(_features(rows), rows["y"])
        raise AssertionError("the fit was to fail")


def _checkpoints_attempt(folder: Path) -> Attempt:
    original = (folder / "checkpoint").read_bytes()
    rows = table()
    problem = Path(tempfile.mkdtemp(dir=folder)) / "checkpoint"

    def fitted(path: Path | None) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = AHOFMRegressor(checkpoint=path, **_FIT).fit(_features(rows), rows["y"]).model_
        return digest_of(model.linear_predictors, [record.objective for record in model.trace.records])

    expected = fitted(None)

    def attempt(case: int) -> tuple[str, str]:
        rng = np.random.default_rng([3, case])
        change = edited_header if rng.random() < 0.3 else damaged
        problem.write_bytes(change(original, rng))
        return _compared(lambda: fitted(problem), expected, CheckpointError)

    return attempt
