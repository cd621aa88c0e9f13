"""Checkpoints: parts of a running fit in a file, from which the same fit is resumed with the same result.

What is saved are named parts: the state of a solver after an iteration; for smoothing parameters that are learned,
members that are complete and the coefficients after a pass over all rows. All of it is numbers and names, nothing is
executed. The file is replaced whole or not at all, at most every few seconds, and removed once the fit has ended; it
stays when the fit was interrupted. What came before the state (codebooks, a fit to a sample of the rows) is computed
again.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from ahofm.model import Model, Reason
from ahofm.rows.digest import digest_of
from ahofm.training.data import Data
from ahofm.training.settings import Settings
from ahofm.tuning import CHECKPOINT_SECONDS
from ahofm.writing import replacing

FORMAT, VERSION = "ahofm checkpoint", 5
"""Version 1 had a checksum of some rows only, without dtypes; versions 2 to 4 had other names and parts."""


_IGNORED = ("callbacks", "checkpoint", "n_threads", "device", "time_budget")
"""Settings that results do not depend on: a fit may be resumed with others."""


class CheckpointError(ValueError):
    """A file that is no checkpoint, not an intact one, or one of another fit."""


class Checkpoint:
    """Parts of a fit that need not be computed again.

    Parameters
    ----------
    path : path
    fingerprint : str
        Of data and settings; a file of others is refused.
    """

    def __init__(self, path: Any, fingerprint: str) -> None:
        """With what is in the file, if there is one."""
        self._path, self._fingerprint = Path(path), fingerprint
        self._lock = threading.Lock()
        self._written = time.monotonic()
        self._parts: dict[str, Any] = {}
        self._tensors: dict[str, Any] = {}
        if not self._path.parent.is_dir():
            raise FileNotFoundError(f"checkpoint={str(path)!r}: there is no directory {self._path.parent}")
        if self._path.exists():
            self._read()

    def get(self, name: str, *examples: Any) -> Any:
        """A part, or None; its dataclasses are those that the examples are of, or have in them."""
        if name not in self._parts:
            return None
        types: dict[str, type] = {}
        for example in examples:
            _collect(example, types)
        return _unpack(self._parts[name], name, self._tensors, types)

    def put(self, name: str, value: Any, *, now: bool = False, instead_of: str | None = None) -> None:
        """Keep a part; write the file when the last time was long ago, or ``now``."""
        with self._lock:
            for old in (name,) if instead_of is None else (name, instead_of):
                self._parts.pop(old, None)
                for key in [key for key in self._tensors if key.startswith(f"{old}/")]:
                    del self._tensors[key]
            self._parts[name] = _pack(value, name, self._tensors)
            if now or time.monotonic() - self._written >= CHECKPOINT_SECONDS:
                self._write()

    def remove(self) -> None:
        """Delete the file, after the fit has ended."""
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        text = json.dumps(self._parts)
        facts = {"format": FORMAT, "version": str(VERSION), "of": self._fingerprint, "parts": text}
        data = safetensors.numpy.save(self._tensors, {**facts, "sha256": digest_of(facts, self._tensors)})
        with replacing(self._path) as draft:
            draft.write_bytes(data)
        self._written = time.monotonic()

    def _read(self) -> None:
        path = self._path
        try:
            data = path.read_bytes()
            self._tensors = safetensors.numpy.load(data)
            facts = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
            checksum, version = facts.pop("sha256"), int(facts["version"])
            whole = facts["format"] == FORMAT and (version != VERSION or checksum == digest_of(facts, self._tensors))
            of, self._parts = facts["of"], json.loads(facts["parts"])
        except (safetensors.SafetensorError, OSError, LookupError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} is damaged or no checkpoint ({error}); remove it to start again") from error
        if not whole:
            raise CheckpointError(f"{path} is damaged or no checkpoint; remove it to start again")
        if version > VERSION:
            raise CheckpointError(f"{path} was written by a newer ahofm; upgrade, or remove it to start again")
        if version < VERSION:
            raise CheckpointError(f"{path} was written by an earlier ahofm; remove it to start again")
        if of != self._fingerprint:
            raise CheckpointError(
                f"{path} is of other data or settings; remove it to start again, or give another file"
            )


def fingerprint_of(
    data: Data,
    ranks: Mapping[int, int],
    settings: Settings,
    classes: tuple[Any, ...] | None = None,
    earlier: Model | None = None,
) -> str:
    """Checksum of all rows, their types and the settings, as far as the result depends on them.

    One pass over the rows: of a store it reads all codes, on a cluster every worker those of its chunks.
    """
    chosen = {item.name: getattr(settings, item.name) for item in fields(settings) if item.name not in _IGNORED}
    begun = None if earlier is None else (earlier.encoder, earlier.linear_predictors)
    learned = (data.encoder, data.family, data.inner, data.units, data.total)
    raw_sample = (data.table, data.codes, data.rows)
    chunks = list(data.executor.map(digest_of, data.source))
    return digest_of(chosen, ranks, classes, begun, learned, raw_sample, data.n_rows, chunks)


def _pack(value: Any, where: str, tensors: dict[str, Any]) -> Any:  # noqa: PLR0911 - one return a type
    """JSON of a value; its arrays go to the tensors."""
    if isinstance(value, np.ndarray):
        key = f"{where}/"
        tensors[key] = np.ascontiguousarray(value)
        return {"array": key, "shape": value.shape}
    if is_dataclass(value) and not isinstance(value, type):
        packed = {
            item.name: _pack(getattr(value, item.name), f"{where}/{item.name}", tensors) for item in fields(value)
        }
        return {"type": type(value).__name__, "fields": packed}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_pack(item, f"{where}/{k}", tensors) for k, item in enumerate(value)]}
    if isinstance(value, Mapping):
        return {"dict": [[_pack(k, where, tensors), _pack(v, f"{where}/{k}", tensors)] for k, v in value.items()]}
    if isinstance(value, Reason):
        return {"reason": value.name}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"checkpoint= cannot keep a {type(value).__name__} ({where}); leave it out")


def _unpack(value: Any, where: str, tensors: Mapping[str, Any], types: Mapping[str, type]) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return tensors[value["array"]].reshape(value["shape"]).copy()
    if "type" in value:
        unpacked = {name: _unpack(item, f"{where}/{name}", tensors, types) for name, item in value["fields"].items()}
        return types[value["type"]](**unpacked)
    if "reason" in value:
        return Reason[value["reason"]]
    if "dict" in value:
        return {_unpack(k, where, tensors, types): _unpack(v, where, tensors, types) for k, v in value["dict"]}
    items = value["list"] if "list" in value else value["tuple"]
    found = [_unpack(item, f"{where}/{k}", tensors, types) for k, item in enumerate(items)]
    return found if "list" in value else tuple(found)


def _collect(example: Any, types: dict[str, type]) -> None:
    if isinstance(example, type):
        types[example.__name__] = example
    elif is_dataclass(example):
        types[type(example).__name__] = type(example)
        for item in fields(example):
            _collect(getattr(example, item.name), types)
