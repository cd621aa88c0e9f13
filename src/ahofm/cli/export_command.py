"""Export: a model as a file for somewhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from ahofm.cli.app import Missing, app, err
from ahofm.cli.errors import CommandError
from ahofm.cli.outputs import check_outputs
from ahofm.cli.tables import existing, read
from ahofm.columns.table import is_numeric
from ahofm.export import rating_tables, to_c, to_javascript, to_onnx, to_python, to_sql
from ahofm.model import Model, load
from ahofm.writing import replacing

_ENDINGS = {
    "onnx": ".onnx",
    "sql": ".sql",
    "python": ".py",
    "c": ".h",
    "javascript": ".mjs",
    "csv": ".csv",
    "xlsx": ".xlsx",
}


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A model that fit has written.")],
    to: Annotated[str, typer.Option(help="onnx, sql, python, c, javascript; csv or xlsx for rating tables.")],
    out_path: Annotated[
        Path | None, typer.Option("--out", help="The file; by default the model's name with another ending.")
    ] = None,
    contributions: Annotated[
        bool, typer.Option("--contributions", help="onnx, sql: also a Shapley value for each column.")
    ] = False,
    dialect: Annotated[
        str,
        typer.Option(
            help="sql: postgres, duckdb, sqlite, mysql, spark, bigquery, snowflake, tsql, ... (docs/export/sql.md)."
        ),
    ] = "postgres",
    table: Annotated[str, typer.Option(help="sql: the table of the rows; schema.table is both.")] = "input",
    keep: Annotated[
        list[str] | None, typer.Option(help="sql: a column that the result has too. May be repeated.")
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option(help="sql, csv, xlsx: a column that is added to the linear predictor; onnx: one more input."),
    ] = None,
    exposure: Annotated[str | None, typer.Option(help="sql, csv, xlsx: a column whose logarithm is added.")] = None,
    prefix: Annotated[str, typer.Option(help="c: what names begin with.")] = "ahofm",
    rows: Annotated[
        Path | None, typer.Option(help="csv, xlsx: rows for exposure, observed and fitted; needs --target.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="csv, xlsx: the column that was predicted.")] = None,
    weight: Annotated[str | None, typer.Option(help="csv, xlsx: the column of weights.")] = None,
    pairs: Annotated[int, typer.Option(help="csv, xlsx: tables of the strongest interactions.")] = 5,
    forget_rows: Annotated[
        bool, typer.Option("--forget-rows", help="Leave out effects of rows that repeat in training.")
    ] = False,
    missing: Missing = None,
) -> None:
    """Write a model for ONNX, a database, Python, C or JavaScript without ahofm, or as rating tables."""
    if to not in _ENDINGS:
        raise CommandError(f"--to must be one of {', '.join(_ENDINGS)}, got {to}")
    _refuse_unused(to, {"--contributions": (contributions, ("onnx", "sql")), "--keep": (keep, ("sql",))})
    _refuse_unused(to, {"--rows": (rows, ("csv", "xlsx")), "--offset": (offset, ("onnx", "sql", "csv", "xlsx"))})
    path = Path(model.stem + _ENDINGS[to]) if out_path is None else out_path
    check_outputs({"--out": path}, [model, *([rows] if rows else [])])
    fitted = load(existing(model))
    fitted = fitted.without_repeated if forget_rows else fitted
    if to in ("csv", "xlsx"):
        given = {} if rows is None else _rows(fitted, rows, target, weight, offset, exposure, missing or [])
        tables = rating_tables(fitted, pairs=pairs, **given)
        (tables.to_csv if to == "csv" else tables.to_excel)(path)
    elif to == "onnx":
        graph = to_onnx(fitted, contributions="columns" if contributions else None, offset=bool(offset))
        with replacing(path) as draft:
            draft.write_bytes(graph.SerializeToString())
    else:
        writers: dict[str, Callable[[], str]] = {
            "sql": lambda: to_sql(
                fitted,
                table=table.split("."),
                dialect=dialect,
                keep=keep,
                offset=offset,
                exposure=exposure,
                contributions=contributions,
            ),
            "python": lambda: to_python(fitted),
            "c": lambda: to_c(fitted, prefix=prefix),
            "javascript": lambda: to_javascript(fitted),
        }
        text = writers[to]()
        with replacing(path) as draft:
            draft.write_text(text, encoding="utf-8")
    err.print(f"{path.stat().st_size:,} bytes: {path}", soft_wrap=True)


def _refuse_unused(to: str, options: dict[str, tuple[Any, tuple[str, ...]]]) -> None:
    for name, (value, targets) in options.items():
        if value and to not in targets:
            raise CommandError(f"{name} is for --to {' or '.join(targets)}, not for {to}")


def _rows(
    model: Model,
    path: Path,
    target: str | None,
    weight: str | None,
    offset: str | None,
    exposure: str | None,
    missing: Sequence[str],
) -> dict[str, Any]:
    """Rows with their targets, for rating tables."""
    if target is None:
        raise CommandError("--rows needs --target: the column that was predicted")
    names = model.encoder.names
    text = [book.name for book in model.encoder.codebooks if not is_numeric(book.support.values)]
    table = read(path, [*model.missing, *missing], text)
    wanted = [*names, target, *(name for name in (weight, offset, exposure) if name)]
    absent = [name for name in wanted if name not in table.column_names]
    if absent:
        raise CommandError(f"{path}: lacks the column(s) {', '.join(map(repr, absent))}")

    def numbers(name: str) -> Any:
        return np.asarray(table[name].cast(pa.float64()).to_numpy(), dtype=np.float64)

    shift = None if offset is None else numbers(offset)
    if exposure is not None:
        units = numbers(exposure)
        if not (units > 0).all():
            raise CommandError(f"--exposure {exposure}: values have to be positive")
        shift = np.log(units) if shift is None else shift + np.log(units)
    labels = None if model.classes is None else {str(label): label for label in model.classes}
    y = numbers(target) if labels is None else np.array([labels[str(cell)] for cell in table[target].to_pylist()])
    found = {"X": table.select(list(names)), "y": y, "offset": shift}
    return found | {"sample_weight": None if weight is None else numbers(weight)}
