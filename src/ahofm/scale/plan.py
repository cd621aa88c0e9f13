"""What a store knows of its rows before any of them is coded, as a file beside them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from ahofm.columns import Learned, Support
from ahofm.columns.table import is_numeric
from ahofm.rows import Target
from ahofm.rows.digest import digest_of
from ahofm.scale.drafts import replacing
from ahofm.scale.parts import CHUNKS, StoreError, damaged, first_line

FORMAT, VERSION = "ahofm store", 2
"""Version 1 had checksums of bytes, but not of names, types and order."""

PLAN, MANIFEST = "plan.safetensors", "manifest.json"


@dataclass(frozen=True)
class Plan:
    """What the first pass over the files has found; the second one writes codes by it.

    Attributes
    ----------
    identity : str
        Of the files and of all that was asked for.
    columns : tuple of Learned
    target : Target
    n_rows, chunk_rows : int
    total : float
        Sum of the weights.
    weighted : bool
        Whether some weight is not 1.
    file_rows : tuple of int
        Rows of positive weight in each file.
    """

    identity: str
    columns: tuple[Learned, ...]
    target: Target
    n_rows: int
    chunk_rows: int
    total: float
    weighted: bool
    file_rows: tuple[int, ...]

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return -(-self.n_rows // self.chunk_rows)

    @property
    def n_parts(self) -> int:
        """Number of files with chunks."""
        return -(-self.n_chunks // CHUNKS)

    def save(self, path: Path) -> None:
        """Write it whole or not at all."""
        tensors: dict[str, Any] = {}
        columns = []
        for j, column in enumerate(self.columns):
            support = column.support
            text = not is_numeric(support.values)
            values = _bytes(support.values.tolist()) if text else np.ascontiguousarray(support.values)
            tensors |= {f"{j}.values": values, f"{j}.mass": np.ascontiguousarray(support.mass)}
            if column.edges is not None:
                tensors[f"{j}.edges"] = np.ascontiguousarray(column.edges)
            columns.append([column.name, text, support.low, support.high, support.exact, column.missing])
        facts = {name: getattr(self, name) for name in ("identity", "n_rows", "chunk_rows", "total", "weighted")}
        facts |= {"file_rows": self.file_rows, "columns": columns, "labels": self.target.labels}
        facts |= {"text": self.target.text, "ends": [self.target.low, self.target.high]}
        digest = digest_of(json.dumps(facts), tensors)
        metadata = {"format": FORMAT, "version": str(VERSION), "plan": json.dumps(facts), "sha256": digest}
        with replacing(path) as draft:
            draft.write_bytes(safetensors.numpy.save(tensors, metadata))

    @classmethod
    def load(cls, path: Path) -> Plan:
        """Read it; raises StoreError for anything else."""
        try:
            data = path.read_bytes()
            tensors = safetensors.numpy.load(data)
            metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
            check_version(metadata, path)
            if metadata["sha256"] != digest_of(metadata["plan"], tensors):
                raise damaged(path, "its checksum is wrong")
            facts = json.loads(metadata["plan"])
            columns = []
            for j, (name, text, low, high, exact, missing) in enumerate(facts["columns"]):
                values = tensors[f"{j}.values"]
                values = np.array([*json.loads(values.tobytes()), None], dtype=object)[:-1] if text else values
                support = Support(values, tensors[f"{j}.mass"], low, high, exact)
                columns.append(Learned(name, support, tensors.get(f"{j}.edges"), missing))
        except StoreError:
            raise
        except (safetensors.SafetensorError, OSError, LookupError, TypeError, ValueError) as error:
            raise damaged(path, first_line(error)) from error
        labels = None if facts["labels"] is None else tuple(facts["labels"])
        target = Target(labels, facts["text"], *facts["ends"])
        numbers = {name: facts[name] for name in ("identity", "n_rows", "chunk_rows", "total", "weighted")}
        return cls(columns=tuple(columns), target=target, file_rows=tuple(facts["file_rows"]), **numbers)


def save_manifest(folder: Path, plan: Plan, sizes: list[list[int]]) -> None:
    """What makes a store complete: sizes of the two files of every part."""
    facts = {"format": FORMAT, "version": VERSION, "identity": plan.identity, "n_rows": plan.n_rows, "parts": sizes}
    with replacing(folder / MANIFEST) as draft:
        draft.write_text(json.dumps({**facts, "sha256": digest_of(facts)}, indent=1))


def load_manifest(folder: Path) -> dict[str, Any]:
    """Read it; raises StoreError for anything else."""
    path = folder / MANIFEST
    try:
        facts: dict[str, Any] = json.loads(path.read_text())
        check_version(facts, path)
        checksum = facts.pop("sha256")
    except StoreError:
        raise
    except (AttributeError, OSError, LookupError, TypeError, ValueError) as error:
        raise damaged(path, first_line(error)) from error
    if checksum != digest_of(facts):
        raise damaged(path, "its checksum is wrong")
    return facts


def check_version(metadata: Any, path: Path) -> None:
    """Raise StoreError unless a file is of a store, and of a version that can be read."""
    if metadata.get("format") != FORMAT:
        raise StoreError(f"{path} is not of a store of codes")
    version = int(metadata["version"])
    if version > VERSION:
        raise StoreError(f"{path} was written by a newer ahofm; upgrade to read version {version} of stores")
    if version < VERSION:
        remedy = f"delete {path.parent} and build the store again"
        raise StoreError(f"{path} is of version {version} of stores, whose checksums missed what they hold; {remedy}")


def _bytes(values: Any) -> Any:
    return np.frombuffer(json.dumps(values).encode(), dtype=np.uint8)
