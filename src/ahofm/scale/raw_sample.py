"""True values of the rows that a store keeps them of: per part an Arrow file behind its checksum."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ahofm.columns.table import Table, is_numeric
from ahofm.rows import RawSample
from ahofm.scale.drafts import replacing
from ahofm.scale.parts import StoreError, damaged, first_line
from ahofm.scale.plan import Plan


def raw_sample_path(folder: Path, part: int) -> Path:
    """Where true values of some rows of a part are."""
    return folder / f"known-{part:05d}.bin"


def save_raw_sample(path: Path, raw_sample: RawSample, identity: str, part: int) -> None:
    """Write true values whole or not at all, after their checksum."""
    columns: dict[str, Any] = {}
    for j, column in enumerate(raw_sample.table.columns):
        columns[f"x{j}"] = pa.array(column, pa.float64() if is_numeric(column) else pa.string())
    columns |= {"y": raw_sample.y, "weight": raw_sample.weight}
    if raw_sample.offset is not None:
        columns |= {f"o{k}": raw_sample.offset[:, k] for k in range(raw_sample.offset.shape[1])}
    table = pa.table(columns).replace_schema_metadata({"store": identity, "part": str(part)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue()
    with replacing(path) as draft, draft.open("wb") as file:
        file.write(zlib.crc32(data).to_bytes(8, "little"))
        file.write(data)


def load_raw_sample(path: Path, plan: Plan, part: int) -> RawSample:
    """Read true values; raises StoreError when they are damaged, another store's, or of another part."""
    try:
        data = path.read_bytes()
        if zlib.crc32(data[8:]).to_bytes(8, "little") != data[:8]:
            raise damaged(path, "its checksum is wrong")
        table = pa.ipc.open_file(pa.py_buffer(data[8:])).read_all()
        metadata = table.schema.metadata or {}
        if metadata.get(b"store", b"").decode() != plan.identity:
            raise StoreError(f"{path} belongs to another store; build the store again in an empty folder")
        if (own := metadata.get(b"part", b"").decode()) != str(part):
            raise damaged(path, f"it is a copy of that of part {own}")
        names = tuple(column.name for column in plan.columns)
        columns = tuple(_values(table[f"x{j}"]) for j in range(len(names)))
        offsets = [table[name].to_numpy() for name in table.column_names if name.startswith("o")]
        offset = np.column_stack(offsets) if offsets else None
        return RawSample(Table(names, columns, True), table["y"].to_numpy(), table["weight"].to_numpy(), offset)
    except (pa.ArrowException, OSError, LookupError) as error:
        raise damaged(path, first_line(error)) from error


def _values(column: Any) -> Any:
    if pa.types.is_string(column.type):
        return np.array([*column.to_pylist(), None], dtype=object)[:-1]
    return column.to_numpy()
