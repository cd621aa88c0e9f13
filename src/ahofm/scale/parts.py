"""Coded rows on disk: files of a few dozen chunks each, and a source that reads them ahead.

A part is a stream of Arrow messages, a schema and a record batch per chunk: codes ``c0, c1, ...`` as they are in
memory, ``y``, ``weight``, and ``o0, ...``. After them comes an index: which store and which part of it this is, and
place, length and CRC-32 of every message, with a CRC-32 of its own. Nothing is parsed before its checksum was right;
names, order, number and types of the columns are in the schema, which is such a message. Files are read, not mapped: a
file that is cut short while mapped would end the process.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ahofm.columns import Codes
from ahofm.kernels import Chunk
from ahofm.scale.drafts import replacing

CHUNKS = 64
"""Of a part: what is done again after a kill."""

_END, _TAIL = b"\xff\xff\xff\xff\0\0\0\0", 20
"""The end of a stream of Arrow messages; and after the index its name, checksum and length."""

_INDEX = b"ahofmidx"


class StoreError(ValueError):
    """A store that is not complete, not intact, or of another version; names the file."""


def damaged(path: Path, what: object) -> StoreError:
    """An error that says what to do: a build writes again what is not there."""
    return StoreError(f"{path} is missing or damaged ({what}); delete it and build the store again")


def part_path(folder: Path, part: int) -> Path:
    """Where a part is."""
    return folder / f"part-{part:05d}.arrow"


def write_part(path: Path, chunks: Iterable[Chunk], identity: str, part: int) -> int:
    """Write a part whole or not at all; how many rows it has."""
    n_rows, at, schema = 0, 0, None
    messages: list[list[int]] = []
    with replacing(path) as draft, draft.open("wb") as file:

        def write(message: Any) -> None:
            nonlocal at
            file.write(message)
            messages.append([at, len(message), zlib.crc32(message)])
            at += len(message)

        for chunk in chunks:
            batch = pa.record_batch(_columns_of(chunk))
            if schema is None:
                schema = batch.schema
                write(memoryview(schema.serialize()))
            write(memoryview(batch.serialize()))
            n_rows += chunk.n_rows
        facts = {"store": identity, "part": part, "rows": n_rows, "messages": messages}
        index = json.dumps(facts).encode()
        file.write(_END + index + _INDEX + zlib.crc32(index).to_bytes(4, "little") + len(index).to_bytes(8, "little"))
    return n_rows


def _columns_of(chunk: Chunk) -> dict[str, Any]:
    columns = {f"c{j}": np.ascontiguousarray(column) for j, column in enumerate(chunk.codes.columns)}
    columns |= {name: getattr(chunk, name) for name in ("y", "weight") if getattr(chunk, name) is not None}
    if chunk.offset is not None:
        columns |= {f"o{k}": np.ascontiguousarray(chunk.offset[:, k]) for k in range(chunk.offset.shape[1])}
    return columns


class Part:
    """A part that is open; its index and its schema are what was written.

    Parameters
    ----------
    path : path
    identity : str
        Of the store.
    number : int
        Of the part.

    Attributes
    ----------
    n_chunks, n_rows : int
    """

    def __init__(self, path: Path, identity: str, number: int) -> None:
        """Raises StoreError when it is damaged, another store's, or another part."""
        self._path = path
        try:
            self._file = pa.OSFile(str(path))
            index = _index_of(self._file)
            owner, own, self.n_rows, messages = (index[name] for name in ("store", "part", "rows", "messages"))
            self._schema_at, *self._batches = [tuple(map(int, message)) for message in messages]
        except (OSError, LookupError, TypeError, ValueError) as error:
            raise damaged(path, first_line(error)) from error
        if owner != identity:
            raise StoreError(f"{path} belongs to another store; build the store again in an empty folder")
        if own != number:
            raise damaged(path, f"it is a copy of part {own}")
        self.n_chunks = len(self._batches)
        self._schema = self._parsed(lambda: pa.ipc.read_schema(self._message(self._schema_at, check=True)))

    def columns(self, within: int, *, check: bool = True) -> dict[str, Any]:
        """Columns of a chunk; ``check`` its bytes, which need not be done again."""
        if not 0 <= within < self.n_chunks:
            raise damaged(self._path, f"it has {self.n_chunks} chunks, and none of number {within}")
        data = self._message(self._batches[within], check=check)
        batch = self._parsed(lambda: pa.ipc.read_record_batch(data, self._schema))
        return {name: batch.column(name).to_numpy() for name in batch.schema.names}

    def _message(self, place: tuple[int, ...], *, check: bool) -> Any:
        start, length, checksum = place
        try:
            self._file.seek(start)
            data = self._file.read(length)
        except OSError as error:
            raise damaged(self._path, first_line(error)) from error
        if len(data) != length:
            raise damaged(self._path, "it is too short")
        if check and zlib.crc32(data) != checksum:
            raise damaged(self._path, f"the checksum of the bytes from {start} to {start + length} is wrong")
        return pa.py_buffer(data)

    def _parsed(self, parse: Any) -> Any:
        try:
            return parse()
        except (pa.ArrowException, OSError) as error:  # changed since it was checked
            raise damaged(self._path, first_line(error)) from error


def _index_of(file: Any) -> Any:
    size = file.size()
    file.seek(max(size - _TAIL, 0))
    tail = file.read(_TAIL)
    length = int.from_bytes(tail[12:], "little")
    if tail[:8] != _INDEX or length > size - _TAIL:
        raise ValueError("it has no index at its end")
    file.seek(size - _TAIL - length)
    data = file.read(length)
    if zlib.crc32(data).to_bytes(4, "little") != tail[8:12]:
        raise ValueError("the checksum of its index is wrong")
    return json.loads(data)


def owner_of_part(path: Path) -> str | None:
    """The identity of the store that a part is of; None when that cannot be told."""
    try:
        return str(_index_of(pa.OSFile(str(path)))["store"])
    except (OSError, LookupError, TypeError, ValueError):
        return None


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
        self._readers: dict[int, Part] = {}
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
        source, (number, within) = self._source, divmod(index, CHUNKS)
        path = part_path(source.folder, number)
        try:
            if number not in self._readers:
                self._readers = {number: Part(path, source.identity, number)}
            chunk = _chunk_of(self._readers[number].columns(within, check=index not in self._checked), source.sizes)
        except StoreError:
            self._readers = {}
            raise
        except (LookupError, ValueError) as error:
            raise damaged(path, first_line(error)) from error
        self._checked.add(index)
        return chunk


def _chunk_of(columns: dict[str, Any], sizes: tuple[int, ...]) -> Chunk:
    codes = Codes(tuple(columns[f"c{j}"] for j in range(len(sizes))), sizes)
    offsets = [columns[name] for name in columns if name.startswith("o")]
    return Chunk(codes, columns.get("y"), columns.get("weight"), np.column_stack(offsets) if offsets else None)


def first_line(error: BaseException) -> str:
    """What an error says, in short."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
