"""Tables in files: CSV (also compressed), Parquet, Feather, Arrow and Excel, by extension. Arrow reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet

from ahofm.cli.errors import CommandError
from ahofm.cli.sheets import read_sheet
from ahofm.scale.cells import MISSING, as_numbers, is_text, not_utf8, odd_cell, refuse_repeated, told

_FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".xlsx": "excel",
}
_PACKED = (".gz", ".bz2", ".zst", ".lz4")


@dataclass(frozen=True)
class Dialect:
    """How a text file separates its cells, and writes its numbers."""

    sep: str | None = None
    decimal: str = "."

    def check(self) -> None:
        """Refuse what cannot be read."""
        if self.sep is not None and len(self.sep) != 1:
            raise CommandError(f"--sep must be one character, got {self.sep!r}")
        if self.decimal not in (".", ","):
            raise CommandError(f"--decimal must be . or , got {self.decimal!r}")
        if self.decimal == "," and self.sep in (None, ","):
            raise CommandError("--decimal , needs another separator than the comma: say --sep ';'")


PLAIN = Dialect()


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
    if path.is_dir():
        raise CommandError(f"{path}: it is a folder; give a file (fit --out-of-core takes folders of files)")
    if not path.is_file():
        raise CommandError(f"{path}: no such file")
    return path


def read(path: Path, missing: Sequence[str], text: Sequence[str] = (), dialect: Dialect = PLAIN) -> Any:
    """A whole table; the columns named in ``text`` stay text."""
    kind = format_of(existing(path))
    with _reading(path):
        if kind in ("csv", "tsv"):
            table = pa.csv.read_csv(path, **_csv(kind, missing, dict.fromkeys(text, pa.string()), dialect))
        elif kind == "excel":
            table = read_sheet(path, missing, text)
        else:
            refuse_repeated(pa.dataset.dataset(path, format=kind).schema.names, path)
            table = pa.parquet.read_table(path) if kind == "parquet" else pa.feather.read_table(path)
        _check_columns(table.schema, path)
    if not table.num_rows:
        raise CommandError(f"{path}: there are no rows, only names of columns")
    return table


def batches(
    path: Path, missing: Sequence[str], types: Mapping[str, Any], size: int, dialect: Dialect = PLAIN
) -> Iterator[Any]:
    """A table piece by piece, with given types of columns in text files; memory stays that of a few pieces."""
    kind = format_of(existing(path))
    with _reading(path):
        if kind == "excel":
            text = [name for name, own in types.items() if own == pa.string()]
            yield read_sheet(path, missing, text)
            return
        if kind in ("csv", "tsv"):
            with pa.csv.open_csv(path, **_csv(kind, missing, {}, dialect)) as reader:  # by its beginning
                _check_columns(reader.schema, path)
                truth = [item.name for item in reader.schema if pa.types.is_boolean(item.type) and item.name in types]
            given = dict(types) | dict.fromkeys(truth, pa.string())  # words, which are no numbers to Arrow
            pieces: Iterator[Any] = iter(pa.csv.open_csv(path, **_csv(kind, missing, given, dialect)))
        else:
            truth, source = [], pa.dataset.dataset(path, format="parquet" if kind == "parquet" else "feather")
            _check_columns(source.schema, path)
            pieces = source.to_batches(batch_size=size)
        for piece in pieces:
            if piece.num_rows:
                table = pa.Table.from_batches([piece])
                for name in (name for name in truth if types[name] == pa.float64()):
                    table = table.set_column(table.column_names.index(name), name, as_numbers(table[name]))
                yield table


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What goes wrong with a file is said in one line."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        said = told(error, path)
        if "Expected 1 columns" in said:  # no separator in the first line, some in others: decimal commas
            said += "; say --sep ';' if that is between its cells, with --decimal , for numbers such as 3,14"
        raise CommandError(said) from error


def _check_columns(schema: Any, path: Path) -> None:
    refuse_repeated(schema.names, path)
    if format_of(path) in ("csv", "tsv") and any(pa.types.is_binary(item.type) for item in schema):
        raise CommandError(not_utf8(path))


def _csv(kind: str, missing: Sequence[str], types: Mapping[str, Any], dialect: Dialect) -> dict[str, Any]:
    return {
        "read_options": pa.csv.ReadOptions(
            use_threads=False, block_size=8 << 20
        ),  # one thread names the row of an error
        "parse_options": pa.csv.ParseOptions(delimiter=dialect.sep or ("\t" if kind == "tsv" else ",")),
        "convert_options": pa.csv.ConvertOptions(
            null_values=[*MISSING, *missing],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
            column_types=dict(types),
            decimal_point=dialect.decimal,
        ),
    }


def refuse_mixed(table: Any, path: Path, text: Sequence[str]) -> None:
    """Raise when a column is text although most of it are numbers: the first cell that is none is shown."""
    for name in table.column_names:
        found = None if name in text or not is_text(table[name].type) else odd_cell(table[name])
        if found is not None:
            raise mixed(path, name, *found)


def mixed(path: Path, name: str, row: int, cell: str) -> CommandError:
    """A column that is numbers but for one cell at least."""
    return CommandError(
        f"{path}: column '{name}' is numbers but for {cell!r} in row {row + 1} (and maybe more); "
        f"say --missing {cell!r} if that means missing, --categorical {name} if these are levels"
    )


class Writer:
    """Writes a table piece by piece, as what the extension of the final path says."""

    def __init__(self, draft: Any, kind: str) -> None:
        self._draft, self._kind = draft, kind
        self._writer: Any = None

    def write(self, piece: Any) -> None:
        """One more piece."""
        if self._kind == "excel":
            raise CommandError("tables are written as .csv, .parquet, .feather or .arrow, not as .xlsx")
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
