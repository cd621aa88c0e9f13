"""True values of the rows that a store keeps them of: per part an Arrow file behind its checksum."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ahofm.columns.table import Table, is_numeric
from ahofm.rows import Known
from ahofm.scale.parts import StoreError, first_line, replacing
from ahofm.scale.plan import Plan


def known_path(folder: Path, part: int) -> Path:
    """Where true values of some rows of a part are."""
    return folder / f"known-{part:05d}.bin"


def save_known(path: Path, known: Known, identity: str) -> None:
    """Write true values whole or not at all, after their checksum."""
    columns: dict[str, Any] = {}
    for j, column in enumerate(known.table.columns):
        columns[f"x{j}"] = pa.array(column, pa.float64() if is_numeric(column) else pa.string())
    columns |= {"y": known.y, "weight": known.weight}
    if known.offset is not None:
        columns |= {f"o{k}": known.offset[:, k] for k in range(known.offset.shape[1])}
    table = pa.table(columns).replace_schema_metadata({"store": identity})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue()
    with replacing(path) as draft, draft.open("wb") as file:
        file.write(zlib.crc32(data).to_bytes(8, "little"))
        file.write(data)


def load_known(path: Path, plan: Plan) -> Known:
    """Read true values."""
    try:
        data = path.read_bytes()
        if zlib.crc32(data[8:]).to_bytes(8, "little") != data[:8]:
            raise StoreError(f"{path} is damaged: its checksum is wrong; build the store again")
        table = pa.ipc.open_file(pa.py_buffer(data[8:])).read_all()
        if (table.schema.metadata or {}).get(b"store", b"").decode() != plan.identity:
            raise StoreError(f"{path} belongs to another store; build the store again in an empty folder")
        names = tuple(column.name for column in plan.columns)
        columns = tuple(_values(table[f"x{j}"]) for j in range(len(names)))
        offsets = [table[name].to_numpy() for name in table.column_names if name.startswith("o")]
        offset = np.column_stack(offsets) if offsets else None
        return Known(Table(names, columns, True), table["y"].to_numpy(), table["weight"].to_numpy(), offset)
    except (pa.ArrowException, OSError, LookupError) as error:
        raise StoreError(f"{path} is missing or damaged ({first_line(error)}); build the store again") from error


def _values(column: Any) -> Any:
    if pa.types.is_string(column.type):
        return np.array([*column.to_pylist(), None], dtype=object)[:-1]
    return column.to_numpy()
