"""Files to a store of codes, in two passes: learn the columns, write the codes. A kill costs the part in hand."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from ahofm.columns import Categorical, Encoder
from ahofm.columns.encode import Kinds, check_max_codes, requested_kinds
from ahofm.kernels import Chunk
from ahofm.rows import RawSample, default_chunk_rows, raw_sample_rows
from ahofm.scale.batch import Piece, TableSketch, joined, joined_chunks
from ahofm.scale.drafts import remove_drafts
from ahofm.scale.files import PIECE_ROWS, Files, Roles
from ahofm.scale.owner import intact, refuse_others
from ahofm.scale.parts import CHUNKS, Part, StoreError, part_path, write_part
from ahofm.scale.plan import MANIFEST, PLAN, VERSION, Plan, load_manifest, save_manifest
from ahofm.scale.raw_sample import load_raw_sample, raw_sample_path, save_raw_sample
from ahofm.scale.sketch import CELLS, DISTINCT, add_up

_BASE = 300 * 10**6
"""Bytes that Python and its packages take before there is any data."""


@dataclass(frozen=True)
class Request:
    """What :meth:`ahofm.scale.CodeStore.build` was asked for."""

    folder: Path
    data: Any
    target: str
    weight: str | None
    offset: tuple[str, ...]
    drop: tuple[str, ...]
    columns: Kinds
    max_codes: int | None
    encoder: Encoder | None
    missing: tuple[str, ...]
    memory_limit: int
    chunk_rows: int | None
    n_threads: int | None
    verbose: bool

    @property
    def roles(self) -> Roles:
        """Which columns are what."""
        return Roles(self.target, self.weight, self.offset, self.drop)


def build(request: Request) -> None:
    """Complete the store in a folder, from wherever it is."""
    check_max_codes(request.max_codes)
    files = Files.of(request.data, request.missing)
    features = files.features(request.roles)
    _refuse_odd(request, files, features)
    identity = _identity(request, files)
    folder = request.folder
    folder.mkdir(parents=True, exist_ok=True)
    remove_drafts(folder)
    refuse_others(folder, identity)
    rows = _piece_rows(request, len(features))
    plan = intact(lambda: Plan.load(folder / PLAN))
    if plan is None:
        plan = _learn(request, files, features, identity, rows)
        plan.save(folder / PLAN)
    wanted = [part for part in range(plan.n_parts) if not _is_whole(folder, plan, part)]
    manifest = intact(lambda: load_manifest(folder))
    if not wanted and manifest is not None and manifest["parts"] == _sizes(folder, plan):
        return
    (folder / MANIFEST).unlink(missing_ok=True)  # until all parts are there
    if wanted:
        _write(request, files, plan, rows, wanted)
    save_manifest(folder, plan, _sizes(folder, plan))


def _refuse_odd(request: Request, files: Files, features: Sequence[str]) -> None:
    """Raise StoreError where a column is numbers but for a cell: it would become levels, or classes."""
    kinds = requested_kinds(request.columns, features)
    levels = {features[j] for j, kind in kinds.items() if isinstance(kind, Categorical)}
    for name, (path, row, cell) in files.odd.items():
        if name not in levels and name not in request.drop:
            raise StoreError(
                f"{path}: column '{name}' holds numbers, but {cell!r} in row {row}; give missing=[{cell!r}] if that is "
                f"missing, columns={{{name!r}: Categorical()}} if the column holds levels, or mend the file"
            )


def _sizes(folder: Path, plan: Plan) -> list[list[int]]:
    """Bytes of the two files of every part."""
    return [
        [path.stat().st_size for path in (part_path(folder, part), raw_sample_path(folder, part))]
        for part in range(plan.n_parts)
    ]


def _is_whole(folder: Path, plan: Plan, part: int) -> bool:
    """Whether a part is there, as far as can be told without reading its chunks."""
    expected = min(CHUNKS * plan.chunk_rows, plan.n_rows - part * CHUNKS * plan.chunk_rows)
    found = intact(lambda: Part(part_path(folder, part), plan.identity, part))
    raw_sample = intact(lambda: load_raw_sample(raw_sample_path(folder, part), plan, part))
    return found is not None and raw_sample is not None and found.n_rows == expected


def _identity(request: Request, files: Files) -> str:
    """Of the files, and of what was asked for."""
    requested = (request.roles, request.max_codes, request.chunk_rows, VERSION)
    kinds = sorted(requested_kinds(request.columns, files.features(request.roles)).items())
    digest = hashlib.sha256(f"{files.fingerprint} {requested!r} {kinds!r}".encode())
    for column in () if request.encoder is None else request.encoder.learned:
        digest.update(repr((column.name, column.support.values.tolist(), column.missing)).encode())
    return digest.hexdigest()[:32]


def _piece_rows(request: Request, n_columns: int) -> int:
    """Rows to read at a time within the limit of memory; raises ValueError when that is too small."""
    sketches = 16 * (DISTINCT + 4 * CELLS) * n_columns  # a merge, and those that wait for theirs
    raw_sample = 8 * 200_000 * n_columns // 4  # of one part, and as much again on its way to the disk
    spare = request.memory_limit - _BASE - sketches - raw_sample
    rows = min(PIECE_ROWS, spare // (8 * 6 * n_columns)) if spare > 0 else 0  # read, converted, sorted, read ahead
    if rows < 4_096:
        need = _BASE + sketches + raw_sample + 4_096 * 48 * n_columns
        raise ValueError(f"memory_limit is too small for {n_columns} columns: at least {need / 1e9:.1f}GB is needed")
    return int(rows)


def _learn(request: Request, files: Files, features: tuple[str, ...], identity: str, rows: int) -> Plan:
    """The first pass."""
    kinds = requested_kinds(request.columns, features)
    encoder = request.encoder
    if encoder is not None and encoder.names != features:
        raise ValueError(f"encoder is of the columns {', '.join(encoder.names)}, the files have {', '.join(features)}")
    counts = [0] * len(files.paths)

    def sketches(at: int, path: Path) -> Iterator[TableSketch]:
        one = Files((path,), files.types, files.missing)
        for piece in one.pieces(request.roles, rows):
            counts[at] += piece.n_rows
            few = piece if encoder is None else _without_columns(piece)
            yield TableSketch.of(few, kinds if encoder is None else {}, request.n_threads)

    def everything() -> Iterator[TableSketch]:
        with _bar(request, "learning", len(files.paths)) as advance:
            for at, path in enumerate(files.paths):
                yield from sketches(at, path)
                advance()

    found = add_up(everything())
    if not found.n_rows:
        raise ValueError("no row has a positive weight; at least one is needed")
    learned = tuple(column.learned(kinds.get(j), request.max_codes) for j, column in enumerate(found.columns))
    learned = learned if encoder is None else encoder.learned
    n_codes = sum(column.n_codes for column in learned)
    chunk_rows = request.chunk_rows or default_chunk_rows(found.n_rows, n_codes)
    target = found.target.learned()
    return Plan(identity, learned, target, found.n_rows, chunk_rows, found.total, not found.ones, tuple(counts))


def _without_columns(piece: Piece) -> Piece:
    table = type(piece.table)((), (), True)
    return Piece(table, piece.y, piece.weight, piece.offset, piece.where)


def _write(request: Request, files: Files, plan: Plan, rows: int, wanted: list[int]) -> None:
    """The second pass, from the first part that is not there to the last."""
    folder, part_rows = request.folder, CHUNKS * plan.chunk_rows
    first, last = wanted[0], wanted[-1]
    start = first * part_rows
    starts = [0, *accumulate(plan.file_rows)]
    skip = max(at for at, begun in enumerate(starts[:-1]) if begun <= start)
    pieces = files.pieces(request.roles, rows, skip)
    coder = _Coder(request, plan, starts[skip])
    chunks = coder.chunks(pieces, start)
    with _bar(request, "coding", plan.n_parts, first) as advance:
        for part in range(first, last + 1):
            own = islice(chunks, CHUNKS)
            if part in wanted:
                written = write_part(part_path(folder, part), own, plan.identity, part)
            else:
                written = sum(chunk.n_rows for chunk in own)
            expected = min(part_rows, plan.n_rows - part * part_rows)
            if written != expected:
                if part in wanted:
                    part_path(folder, part).unlink()
                raise StoreError(f"the files have changed while they were read: part {part} has {written} rows")
            raw_sample = coder.raw_until((part + 1) * part_rows)
            if part in wanted:
                save_raw_sample(raw_sample_path(folder, part), raw_sample, plan.identity, part)
            advance()


class _Coder:
    """Codes pieces, cuts them into chunks, and keeps true values of raw sample."""

    def __init__(self, request: Request, plan: Plan, at: int) -> None:
        """Pieces start with row ``at``."""
        self._request, self._plan, self._at = request, plan, at
        self._encoder = Encoder(tuple(column.codebook(None) for column in plan.columns), True)
        self._numbers = raw_sample_rows(plan.n_rows)
        self._raw_sample: list[tuple[int, RawSample]] = []
        self._empty: RawSample | None = None

    def chunks(self, pieces: Iterator[Piece], start: int) -> Iterator[Chunk]:
        """From row ``start`` on."""
        waiting: list[Chunk] = []
        size = self._plan.chunk_rows
        for piece in pieces:
            first, self._at = self._at, self._at + piece.n_rows
            if self._at <= start:
                continue
            piece = piece.take(np.arange(max(start - first, 0), piece.n_rows))  # noqa: PLW2901
            first = max(first, start)
            numbers = self._numbers[slice(*np.searchsorted(self._numbers, [first, self._at]))]
            for number, raw_sample in self._by_part(piece, first, numbers):
                self._raw_sample.append((number, raw_sample))
            coded = piece.coded(self._encoder, self._plan.target, self._request.n_threads)
            waiting.append(coded if self._plan.weighted else Chunk(coded.codes, coded.y, None, coded.offset))
            while sum(chunk.n_rows for chunk in waiting) >= size:
                whole = joined_chunks(waiting)
                waiting = [whole.rows(size, whole.n_rows)]
                yield whole.rows(0, size)
        if waiting and (rest := joined_chunks(waiting)).n_rows:
            yield rest

    def _by_part(self, piece: Piece, first: int, numbers: NDArray[np.int64]) -> Iterator[tuple[int, RawSample]]:
        """Raw sample of a piece, cut where parts begin."""
        part_rows = CHUNKS * self._plan.chunk_rows
        self._empty = self._empty or piece.raw_sample(np.empty(0, np.int64), self._plan.target)
        for part in np.unique(numbers // part_rows):
            own = numbers[numbers // part_rows == part]
            yield int(part) * part_rows, piece.raw_sample(own - first, self._plan.target)

    def raw_until(self, row: int) -> RawSample:
        """Raw sample of parts that begin before a row; they are not kept any longer."""
        mine = [raw_sample for start, raw_sample in self._raw_sample if start < row]
        self._raw_sample = [(start, raw_sample) for start, raw_sample in self._raw_sample if start >= row]
        assert self._empty is not None
        return joined([self._empty, *mine])


@contextmanager
def _bar(request: Request, what: str, total: int, done: int = 0) -> Iterator[Any]:
    """Something to call after each step."""
    with Progress(console=Console(stderr=True), disable=not request.verbose) as bar:
        task = bar.add_task(what, total=total, completed=done)
        yield lambda: bar.advance(task)
