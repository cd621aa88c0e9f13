"""Coded rows on disk: Arrow files of a few dozen chunks each, and a source that reads them ahead.

A part is an uncompressed Arrow IPC file with a record batch per chunk: codes ``c0, c1, ...`` as they are in memory,
``y``, ``weight``, and ``o0, ...``. Every batch carries the CRC-32 of its columns, and every file the identity of its
store. A part is written beside its place and moved there when it is complete, so that one that is there is whole;
files are read, not mapped: a file that is cut short while mapped would end the process.
"""

from __future__ import annotations

import os
import secrets
import threading
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ahofm.columns import Codes
from ahofm.kernels import Chunk

CHUNKS = 64
"""Of a part: what is done again after a kill."""


class StoreError(ValueError):
    """A store that is not complete, not intact, or of a later version; names the file."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name beside a file, which takes its place once it is on the disk, and goes when something fails."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise OSError(
            error.errno, f"cannot write {path}: {error.strerror or error}; what is complete stays: make room, run again"
        ) from error
    finally:
        draft.unlink(missing_ok=True)


def part_path(folder: Path, part: int) -> Path:
    """Where a part is."""
    return folder / f"part-{part:05d}.arrow"


def write_part(path: Path, chunks: Iterable[Chunk], identity: str) -> int:
    """Write a part whole or not at all; how many rows it has."""
    n_rows, writer = 0, None
    with replacing(path) as draft, pa.OSFile(str(draft), "wb") as file:
        try:
            for chunk in chunks:
                columns = _columns_of(chunk)
                batch = pa.record_batch(columns)
                if writer is None:
                    writer = pa.ipc.new_file(file, batch.schema.with_metadata({"store": identity}))
                writer.write_batch(batch.replace_schema_metadata({"store": identity}), {"crc32": _checksum(columns)})
                n_rows += chunk.n_rows
        finally:
            if writer is not None:
                writer.close()
    return n_rows


def _columns_of(chunk: Chunk) -> dict[str, Any]:
    columns = {f"c{j}": np.ascontiguousarray(column) for j, column in enumerate(chunk.codes.columns)}
    columns |= {name: getattr(chunk, name) for name in ("y", "weight") if getattr(chunk, name) is not None}
    if chunk.offset is not None:
        columns |= {f"o{k}": np.ascontiguousarray(chunk.offset[:, k]) for k in range(chunk.offset.shape[1])}
    return columns


def _checksum(columns: dict[str, Any]) -> str:
    value = 0
    for column in columns.values():
        value = zlib.crc32(column, value)
    return str(value)


@dataclass(frozen=True)
class StoreSource:
    """Chunks of a store. The next ones are read while one is computed.

    Parameters
    ----------
    folder : path
    identity : str
        Of the store, which its parts have in them.
    n_rows, n_chunks : int
    sizes : tuple of int
        Codes of each column.
    ahead : int
        Chunks that are read before they are asked for.
    """

    folder: Path
    identity: str
    n_rows: int
    n_chunks: int
    sizes: tuple[int, ...]
    ahead: int = 4
    _shelf: _Shelf = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Nothing has been read."""
        object.__setattr__(self, "_shelf", _Shelf(self))

    def __reduce__(self) -> Any:
        """Readers stay behind."""
        return StoreSource, (self.folder, self.identity, self.n_rows, self.n_chunks, self.sizes, self.ahead)

    def chunk(self, index: int) -> Chunk:
        """One chunk; raises StoreError when its file is not what was written."""
        if not 0 <= index < self.n_chunks:
            raise IndexError(f"chunk {index} is out of range: there are {self.n_chunks}")
        return self._shelf.take(index)


class _Shelf:
    """Chunks that have been read, or are being read, ahead."""

    def __init__(self, source: StoreSource) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Chunk]] = {}
        self._readers: dict[int, Any] = {}
        self._checked: set[int] = set()
        self._pool: ThreadPoolExecutor | None = None

    def take(self, index: int) -> Chunk:
        source = self._source
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="ahofm-read")
            own = self._waiting.pop(index, None) or self._pool.submit(self._read, index)
            wanted = [(index + k) % source.n_chunks for k in range(1, min(source.ahead, source.n_chunks - 1) + 1)]
            for old in self._waiting.keys() - set(wanted):
                if self._waiting[old].cancel() or self._waiting[old].done():
                    del self._waiting[old]
            for new in wanted:
                if new not in self._waiting:
                    self._waiting[new] = self._pool.submit(self._read, new)
        return own.result()

    def _read(self, index: int) -> Chunk:
        """In the reading thread, the only one that touches files."""
        source, (part, within) = self._source, divmod(index, CHUNKS)
        path = part_path(source.folder, part)
        try:
            if part not in self._readers:
                self._readers = {part: open_part(path, source.identity)}
            batch, custom = self._readers[part].get_batch_with_custom_metadata(within)
        except (pa.ArrowException, OSError, IndexError) as error:
            self._readers = {}
            raise StoreError(f"{path} is missing or damaged ({first_line(error)}); build the store again") from error
        columns = {name: batch.column(name).to_numpy() for name in batch.schema.names}
        if index not in self._checked:
            if custom is None or custom.get(b"crc32", b"").decode() != _checksum(columns):
                raise StoreError(f"{path} is damaged: the checksum of chunk {index} is wrong; build the store again")
            self._checked.add(index)
        return _chunk_of(columns, source.sizes)


def _chunk_of(columns: dict[str, Any], sizes: tuple[int, ...]) -> Chunk:
    codes = Codes(tuple(columns[f"c{j}"] for j in range(len(sizes))), sizes)
    offsets = [columns[name] for name in columns if name.startswith("o")]
    return Chunk(codes, columns.get("y"), columns.get("weight"), np.column_stack(offsets) if offsets else None)


def open_part(path: Path, identity: str) -> Any:
    """A reader of a part; raises StoreError when it is another store's."""
    reader = pa.ipc.open_file(pa.OSFile(str(path)))
    if (reader.schema.metadata or {}).get(b"store", b"").decode() != identity:
        raise StoreError(f"{path} belongs to another store; build the store again in an empty folder")
    return reader


def first_line(error: BaseException) -> str:
    """What an error says, in short."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
