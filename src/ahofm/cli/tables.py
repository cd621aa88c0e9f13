"""Tables in files: CSV (also compressed), Parquet, Feather and Arrow, by extension. Arrow reads and writes them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet

from ahofm.cli.start import CommandError

MISSING = ("", "NA", "NaN", "nan", "null", "NULL", "None")
"""Cells that are missing in text files, besides those named."""

_FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
}
_PACKED = (".gz", ".bz2", ".zst", ".lz4")


def format_of(path: Path) -> str:
    """By the extension."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    ending = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] in _PACKED else suffixes[-1] if suffixes else ""
    found = _FORMATS.get(ending)
    packed = bool(suffixes) and suffixes[-1] in _PACKED
    if found is None or (packed and found not in ("csv", "tsv")):
        known = ", ".join(_FORMATS)
        raise CommandError(f"{path}: unknown type of file; use {known}, or .csv.gz and the like")
    return found


def existing(path: Path) -> Path:
    """A file that is there."""
    if not path.is_file():
        raise CommandError(f"{path}: no such file")
    return path


def read(path: Path, missing: Sequence[str], text: Sequence[str] = ()) -> Any:
    """A whole table; the columns named in ``text`` stay text."""
    kind = format_of(existing(path))
    try:
        if kind in ("csv", "tsv"):
            return pa.csv.read_csv(path, **_csv(kind, missing, dict.fromkeys(text, pa.string())))
        if kind == "parquet":
            return pa.parquet.read_table(path)
        return pa.feather.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise CommandError(f"{path}: {_first_line(error)}") from error


def batches(path: Path, missing: Sequence[str], types: Mapping[str, Any], size: int) -> Iterator[Any]:
    """A table piece by piece, with given types of columns in text files; memory stays that of a few pieces."""
    kind = format_of(existing(path))
    try:
        if kind in ("csv", "tsv"):
            pieces: Iterator[Any] = iter(pa.csv.open_csv(path, **_csv(kind, missing, types)))
        else:
            source = pa.dataset.dataset(path, format="parquet" if kind == "parquet" else "feather")
            pieces = source.to_batches(batch_size=size)
        for piece in pieces:
            if piece.num_rows:
                yield pa.Table.from_batches([piece])
    except (pa.ArrowException, OSError) as error:
        raise CommandError(f"{path}: {_first_line(error)}") from error


def _csv(kind: str, missing: Sequence[str], types: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "read_options": pa.csv.ReadOptions(
            use_threads=False, block_size=8 << 20
        ),  # one thread names the row of an error
        "parse_options": pa.csv.ParseOptions(delimiter="\t" if kind == "tsv" else ","),
        "convert_options": pa.csv.ConvertOptions(
            null_values=[*MISSING, *missing],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
            column_types=dict(types),
        ),
    }


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def refuse_mixed(table: Any, path: Path, text: Sequence[str]) -> None:
    """Raise when a column is text although most of it are numbers: the first cell that is none is shown."""
    for name in table.column_names:
        column = table[name]
        if name in text or not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            continue
        number = pc.match_substring_regex(column, r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$")
        if column.null_count < len(column) and (pc.mean(number.cast(pa.float64())).as_py() or 0.0) > 0.5:
            row = pc.index(pc.fill_null(number, True), False).as_py()
            if row >= 0:
                cell = column[row].as_py()
                raise CommandError(
                    f"{path}: column '{name}' is numbers but for {cell!r} in row {row + 1} (and maybe more); "
                    f"say --missing {cell!r} if that means missing, --categorical {name} if these are levels"
                )


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside a file; it takes the file's place when all went well, and goes otherwise."""
    if not path.parent.is_dir():
        raise CommandError(f"{path}: the folder {path.parent} does not exist")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield draft
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


class Writer:
    """Writes a table piece by piece, as what the extension of the final path says."""

    def __init__(self, draft: Any, kind: str) -> None:
        self._draft, self._kind = draft, kind
        self._writer: Any = None

    def write(self, piece: Any) -> None:
        """One more piece."""
        if self._writer is None:
            if self._kind in ("csv", "tsv"):
                options = pa.csv.WriteOptions(delimiter="\t" if self._kind == "tsv" else ",", quoting_style="needed")
                self._writer = pa.csv.CSVWriter(self._draft, piece.schema, write_options=options)
            elif self._kind == "parquet":
                self._writer = pa.parquet.ParquetWriter(self._draft, piece.schema)
            else:
                self._writer = pa.ipc.new_file(self._draft, piece.schema)
        self._writer.write_table(piece)

    def close(self) -> None:
        """All pieces are there."""
        if self._writer is not None:
            self._writer.close()
