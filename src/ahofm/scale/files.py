"""Tables in files of any number and length, as pieces: Parquet, Feather and CSV, read by Arrow."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
from numpy.typing import NDArray

from ahofm.columns.table import Table
from ahofm.scale.batch import Piece
from ahofm.scale.cells import MISSING, as_numbers, not_utf8, odd_cell, refuse_repeated, told
from ahofm.scale.parts import StoreError

PIECE_ROWS = 131_072
"""Read at a time, at most."""

_FORMATS = {
    ".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather"
}  # fmt: skip
_PACKED = (".gz", ".bz2", ".zst", ".lz4")
_BLOCK = 8 << 20


@dataclass(frozen=True)
class Roles:
    """Which columns are what; all others are features."""

    target: str
    weight: str | None = None
    offset: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()

    @property
    def special(self) -> tuple[str, ...]:
        """Columns that are no features."""
        return tuple(name for name in (self.target, self.weight, *self.offset, *self.drop) if name)


@dataclass(frozen=True)
class Files:
    """Files with the same columns.

    Attributes
    ----------
    paths : tuple of paths
    types : dict of column to "numbers", "truth", "text" or "nothing"
        In the order of the first file. Truth values are numbers whose cells may be words.
    missing : tuple of str
    odd : dict of column to (path, row, cell)
        Columns of text files that are text although most of their first cells are numbers: one cell that is none.
    """

    paths: tuple[Path, ...]
    types: dict[str, str]
    missing: tuple[str, ...] = ()
    odd: dict[str, tuple[Path, int, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Any, missing: Sequence[str] = ()) -> Files:
        """A file, a folder of files, or a list of them, with their types; raises ValueError where these differ."""
        paths = tuple(_paths(data))
        types: dict[str, str] = {}
        seen: dict[str, Path] = {}
        odd: dict[str, tuple[Path, int, str]] = {}
        for path in paths:
            own = _types(path, missing, odd)
            if types and own.keys() != types.keys():
                lacks = [name for name in types if name not in own]
                more = [name for name in own if name not in types]
                what = f"lacks {', '.join(map(repr, lacks))}" if lacks else f"has {', '.join(map(repr, more))} besides"
                raise ValueError(f"{path}: {what}, unlike {paths[0]}; all files need the same columns")
            for name, kind in own.items():
                both = _common(types.get(name, "nothing"), kind)
                if both is None:
                    raise TypeError(
                        f"column '{name}' holds {types[name]} in {seen[name]} and {kind} in {path}; "
                        "make it the same in all files"
                    )
                types[name] = both
                if kind != "nothing":
                    seen.setdefault(name, path)
        return cls(paths, types, tuple(missing), odd)

    @property
    def fingerprint(self) -> str:
        """Of names, sizes and times of change: the files a store was built from."""
        facts = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in self.paths]
        return hashlib.sha256(repr((facts, self.missing)).encode()).hexdigest()

    def features(self, roles: Roles) -> tuple[str, ...]:
        """Columns that predict; raises ValueError when a column with another role is not there."""
        for name in roles.special:
            if name not in self.types:
                raise ValueError(f"{self.paths[0]}: no column {name!r}; there are {', '.join(map(repr, self.types))}")
        found = tuple(name for name in self.types if name not in roles.special)
        if not found:
            raise ValueError(f"{self.paths[0]}: no column is left to predict {roles.target!r} from")
        return found

    def pieces(self, roles: Roles, rows: int = PIECE_ROWS, skip: int = 0) -> Iterator[Piece]:
        """Rows in the order of the files, without the first files."""
        features = self.features(roles)
        wanted = [*features, roles.target, *([roles.weight] if roles.weight else []), *roles.offset]
        for path in self.paths[skip:]:
            start = 0
            try:
                for batch in _batches(path, wanted, self.types, self.missing, rows):
                    if batch.num_rows:
                        where = f"{path}, rows {start} to {start + batch.num_rows - 1}"
                        yield self._piece(batch, features, roles, where)
                        start += batch.num_rows
            except (pa.ArrowException, OSError) as error:
                raise StoreError(told(error, path)) from error

    def _piece(self, batch: Any, features: Sequence[str], roles: Roles, where: str) -> Piece:
        columns = tuple(self._array(batch, name) for name in features)
        weight = None if roles.weight is None else self._array(batch, roles.weight)
        offset = np.column_stack([self._array(batch, name) for name in roles.offset]) if roles.offset else None
        for name in (roles.weight, *roles.offset):
            if name is not None and self.types[name] == "text":
                raise TypeError(f"{where}: column {name!r} is text; weights and offsets are numbers")
        return Piece.of(Table(tuple(features), columns, True), self._array(batch, roles.target), weight, offset, where)

    def _array(self, batch: Any, name: str) -> NDArray[Any]:
        """A column as a Table has it."""
        column = batch.column(name)
        if self.types[name] != "text":
            return np.asarray(as_numbers(column).to_numpy(zero_copy_only=False))
        if not pa.types.is_dictionary(column.type):
            column = column.cast(pa.string()).dictionary_encode()
        levels = np.array([*column.dictionary.to_pylist(), None], dtype=object)
        return np.asarray(levels[pc.fill_null(column.indices, len(levels) - 1).to_numpy(zero_copy_only=False)])


def _paths(data: Any) -> Iterable[Path]:
    given = [data] if isinstance(data, (str, os.PathLike)) else list(data)
    for item in given:
        path = Path(item)
        found = sorted(p for p in path.rglob("*") if _format(p)) if path.is_dir() else [path]
        if not found:
            raise ValueError(f"{path}: no files in it; there should be some of {', '.join(_FORMATS)}")
        for file in found:
            if not file.is_file():
                raise FileNotFoundError(f"{file}: no such file")
            if _format(file) is None:
                raise ValueError(f"{file}: unknown type of file; use {', '.join(_FORMATS)}, or .csv.gz and the like")
            yield file


def _format(path: Path) -> str | None:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = len(suffixes) > 1 and suffixes[-1] in _PACKED
    found = _FORMATS.get(suffixes[-2] if packed else suffixes[-1]) if suffixes else None
    return None if (packed and found != "csv") or path.name.startswith((".", "_")) else found


def _types(path: Path, missing: Sequence[str], odd: dict[str, tuple[Path, int, str]]) -> dict[str, str]:
    """Of each column of a file; of text files by their beginning, whose odd cells are added to those known."""
    text = _format(path) == "csv"
    try:
        if text:
            with pa.csv.open_csv(path, **_csv(path, missing)) as reader:
                schema, first = reader.schema, next(iter(reader), None)
        else:
            schema, first = pa.dataset.dataset(path, format=_format(path)).schema, None
        names = schema.names
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise StoreError(told(error, path)) from error
    refuse_repeated(names, path)
    if first is not None:
        cells = {name: odd_cell(first.column(name)) for name in names if name not in odd}
        odd |= {name: (path, *cell) for name, cell in cells.items() if cell is not None}
    return {item.name: _type(item, path, text) for item in schema}


def _common(old: str, new: str) -> str | None:
    """The type of a column that has these in two files; None where they do not go together."""
    if "nothing" in (old, new):
        return old if new == "nothing" else new
    if {old, new} == {"numbers", "truth"}:
        return "truth"
    return old if old == new else None


def _type(item: Any, path: Path, text: bool) -> str:
    kind = item.type.value_type if pa.types.is_dictionary(item.type) else item.type
    if text and pa.types.is_boolean(kind):
        return "truth"
    if text and pa.types.is_binary(kind):
        raise StoreError(not_utf8(path))
    if pa.types.is_null(kind):
        return "nothing"
    if any(
        test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    ):
        return "numbers"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    raise TypeError(
        f"{path}: column '{item.name}' has type {item.type}; turn it into text or numbers, or leave it out with drop="
    )


def _batches(
    path: Path, columns: Sequence[str], types: dict[str, str], missing: Sequence[str], rows: int
) -> Iterator[Any]:
    if _format(path) == "csv":
        given = {name: pa.string() if types[name] in ("text", "truth") else pa.float64() for name in columns}
        with pa.csv.open_csv(path, **_csv(path, missing, given)) as reader:
            for batch in reader:
                yield from (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))
        return
    source = pa.dataset.dataset(path, format=_format(path))
    yield from source.to_batches(columns=list(columns), batch_size=rows, batch_readahead=2, fragment_readahead=1)


def _csv(path: Path, missing: Sequence[str], types: dict[str, Any] | None = None) -> dict[str, Any]:
    delimiter = "\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes] else ","
    options = pa.csv.ConvertOptions(
        null_values=[*MISSING, *missing],
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
        column_types=types,
        include_columns=list(types or ()),
    )
    return {
        "read_options": pa.csv.ReadOptions(use_threads=False, block_size=_BLOCK),
        "parse_options": pa.csv.ParseOptions(delimiter=delimiter),
        "convert_options": options,
    }
