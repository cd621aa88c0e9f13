"""Targets of exports, prepared to score the same rows again and again: what is timed is scoring alone."""

from __future__ import annotations

import ctypes
import importlib.util
import io
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ahofm.columns.basis import Floats
from ahofm.export import to_c, to_javascript, to_onnx, to_python, to_sql


@dataclass(frozen=True)
class Scored:
    """A target that is ready: ``run`` gives means (n, outputs), ``contributions`` (n, linear predictors, columns).

    ``seconds`` where the target measures itself; ``exact`` unless it is a peer with a model of its own; ``elsewhere``
    if other processes do the work.
    """

    size: int
    run: Callable[[], Floats]
    contributions: Callable[[], Floats]
    seconds: float | None = None
    exact: bool = True
    elsewhere: bool = False


Prepare: TypeAlias = Callable[[Any, pd.DataFrame, "Floats | None", Path, Any], "Scored | None"]


def means_of(model: Any, found: dict[str, Any]) -> Floats:
    """Means by the names of outputs."""
    own = model.model_
    if own.classes is None:
        return np.asarray(found["prediction"], dtype=np.float64).reshape(-1, 1)
    labels = own.classes if own.family.n_eta > 1 else own.classes[1:]
    return np.column_stack([np.asarray(found[f"probability {label}"], dtype=np.float64) for label in labels])


def parts_of(model: Any, X: pd.DataFrame, found: dict[str, Any]) -> Floats:
    """Contributions by the names of outputs."""
    several = model.model_.family.n_eta > 1
    endings = [f" ({label})" for label in model.model_.classes] if several else [""]
    columns = [[np.asarray(found[f"contribution {name}{end}"], dtype=np.float64) for name in X] for end in endings]
    return np.moveaxis(np.array(columns), 2, 0)


def feeds(X: pd.DataFrame, offset: Floats | None) -> dict[str, Any]:
    found = {
        name: (
            column.to_numpy(np.float64)
            if pd.api.types.is_numeric_dtype(column)
            else column.astype(object).where(column.notna(), "").to_numpy()
        ).reshape(-1, 1)
        for name, column in X.items()
    }
    return found if offset is None else found | {"offset": offset.reshape(-1, 1)}


def session_of(graph: Any) -> Any:
    import onnxruntime  # noqa: PLC0415 - of this target alone

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])


def onnx(model: Any, X: pd.DataFrame, offset: Floats | None, folder: Path, trained: Any) -> Scored:
    graph = to_onnx(model, offset=offset is not None)
    session, given = session_of(graph), feeds(X, offset)
    last = "prediction" if model.model_.classes is None else "probabilities"
    first = 1 if model.model_.classes is not None and model.model_.family.n_eta == 1 else 0

    def parts() -> Floats:
        full = session_of(to_onnx(model, contributions="columns", offset=offset is not None))
        return np.asarray(full.run(["contributions"], given)[0])

    return Scored(graph.ByteSize(), lambda: np.asarray(session.run([last], given)[0])[:, first:], parts)


def python(model: Any, X: pd.DataFrame, offset: Floats | None, folder: Path, trained: Any) -> Scored:
    path = folder / "scorer.py"
    path.write_text(to_python(model), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("scorer", path)
    assert spec is not None
    assert spec.loader is not None
    scorer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(scorer)

    def parts() -> Floats:
        return np.stack([scorer.contributions(X, k)[1] for k in range(model.model_.family.n_eta)], axis=1)

    return Scored(path.stat().st_size, lambda: np.asarray(scorer.mean(X, offset)).reshape(len(X), -1), parts)


PROGRAM = """
#include "model.h"
void means(const ahofm_cell *rows, int n, const double *offsets, double *out) {
    for (int i = 0; i < n; i++)
        ahofm_predict(rows + (size_t)i * AHOFM_COLUMNS, offsets ? offsets + i : NULL, out + (size_t)i * AHOFM_MEANS);
}
void parts(const ahofm_cell *rows, int n, double *out) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < AHOFM_LINEAR_PREDICTORS; k++, out += AHOFM_COLUMNS)
            ahofm_contributions(rows + (size_t)i * AHOFM_COLUMNS, k, out);
}
"""


class Cell(ctypes.Structure):
    _fields_ = (("number", ctypes.c_double), ("text", ctypes.c_char_p))


def c(model: Any, X: pd.DataFrame, offset: Floats | None, folder: Path, trained: Any) -> Scored | None:
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    (folder / "model.h").write_text(to_c(model), encoding="utf-8")
    (folder / "program.c").write_text(PROGRAM)
    command = [compiler, "-std=c99", "-O2", "-shared", "-fPIC", "-o", "program.so", "program.c", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    library, cells = ctypes.CDLL(str(folder / "program.so")), (Cell * X.size)()
    text = [not pd.api.types.is_numeric_dtype(column) for _, column in X.items()]
    for at, value in enumerate(X.to_numpy(dtype=object).ravel().tolist()):
        if text[at % X.shape[1]]:
            cells[at].text = None if pd.isna(value) else str(value).encode()
        else:
            cells[at].number = value
    k, pointer = model.model_.family.n_eta, ctypes.POINTER(ctypes.c_double)
    out, shares = np.empty((len(X), k)), np.empty((len(X), k, X.shape[1]))
    shift = None if offset is None else np.ascontiguousarray(offset).ctypes.data_as(pointer)

    def run() -> Floats:
        library.means(cells, len(X), shift, out.ctypes.data_as(pointer))
        return out

    def parts() -> Floats:
        library.parts(cells, len(X), shares.ctypes.data_as(pointer))
        return shares

    return Scored((folder / "model.h").stat().st_size, run, parts)


RUNNER = """
import { readFileSync, writeFileSync } from "node:fs";
import { predict, explain } from "./model.mjs";
const { rows, offsets, count } = JSON.parse(readFileSync("rows.json", "utf8"));
let best = Infinity, means;
for (let round = 0; round < 3; round++) {
  const start = process.cpuUsage();
  means = rows.map((row, i) => [predict(row, offsets ? [offsets[i]] : []).mean].flat());
  best = Math.min(best, process.cpuUsage(start).user / 1000);
}
const parts = rows.map((row) => Array.from({ length: count }, (_, k) => Object.values(explain(row, k).contributions)));
writeFileSync("found.json", JSON.stringify({ means, parts, seconds: best / 1000 }));
"""


def node(model: Any, X: pd.DataFrame, offset: Floats | None, folder: Path, trained: Any) -> Scored | None:
    program = shutil.which("node")
    if program is None:
        return None
    (folder / "model.mjs").write_text(to_javascript(model), encoding="utf-8")
    (folder / "run.mjs").write_text(RUNNER)
    cells = [[None if pd.isna(value) else value for value in row] for row in X.to_numpy(dtype=object).tolist()]
    given = {"rows": cells, "offsets": None if offset is None else offset.tolist(), "count": model.model_.family.n_eta}
    (folder / "rows.json").write_text(json.dumps(given))
    subprocess.run([program, "run.mjs"], cwd=folder, check=True, timeout=600)
    found = json.loads((folder / "found.json").read_text())
    size = (folder / "model.mjs").stat().st_size
    return Scored(size, lambda: np.array(found["means"]), lambda: np.array(found["parts"]), found["seconds"])


def statement(model: Any, offset: Floats | None, dialect: str, *, contributions: bool) -> str:
    shift = None if offset is None else "the shift"
    return to_sql(model, table="the rows", dialect=dialect, keep=["the id"], offset=shift, contributions=contributions)


def keyed(X: pd.DataFrame, offset: Floats | None) -> pd.DataFrame:
    data = X.assign(**{"the id": np.arange(len(X))})
    return data if offset is None else data.assign(**{"the shift": offset})


def of_database(model: Any, X: pd.DataFrame, size: int, ask: Callable[[bool], pd.DataFrame]) -> Scored:
    def asked(contributions: bool) -> dict[str, Any]:
        found = ask(contributions).sort_values("the id")
        return {str(name): column.to_numpy() for name, column in found.items()}

    return Scored(size, lambda: means_of(model, asked(False)), lambda: parts_of(model, X, asked(True)))


def duckdb(model: Any, X: pd.DataFrame, offset: Floats | None, folder: Path, trained: Any) -> Scored:
    import duckdb as database  # noqa: PLC0415 - of this target alone

    connection = database.connect(config={"threads": 1})
    connection.register("the rows", keyed(X, offset))
    texts = {own: statement(model, offset, "duckdb", contributions=own) for own in (False, True)}
    return of_database(model, X, len(texts[False].encode()), lambda own: connection.execute(texts[own]).df())


def sqlite(model: Any, X: pd.DataFrame, offset: Floats | None, folder: Path, trained: Any) -> Scored:
    connection = sqlite3.connect(":memory:")
    keyed(X, offset).to_sql("the rows", connection, index=False)
    texts = {own: statement(model, offset, "sqlite", contributions=own) for own in (False, True)}
    return of_database(model, X, len(texts[False].encode()), lambda own: pd.read_sql_query(texts[own], connection))


def postgres(model: Any, X: pd.DataFrame, offset: Floats | None, folder: Path, trained: Any) -> Scored | None:
    from tests.export.server import programs_of_postgres, running_postgres  # noqa: PLC0415 - of this target alone

    if programs_of_postgres() is None:
        return None
    server, data = running_postgres(), keyed(X, offset)
    types = {name: "double precision" if pd.api.types.is_numeric_dtype(data[name]) else "text" for name in data}
    columns = ", ".join(f'"{name}" {kind}' for name, kind in types.items())
    data.to_csv(folder / "rows.csv", index=False, na_rep="\\N", lineterminator="\n")
    server(f"""DROP TABLE IF EXISTS "the rows";
CREATE TABLE "the rows" ({columns});
\\copy "the rows" FROM '{folder / "rows.csv"}' WITH (FORMAT csv, HEADER, NULL '\\N')
""")
    texts = {own: statement(model, offset, "postgres", contributions=own) for own in (False, True)}

    def ask(own: bool) -> pd.DataFrame:
        return pd.read_csv(io.StringIO(server(f"COPY ({texts[own]}) TO STDOUT WITH (FORMAT csv, HEADER);")))

    return replace(of_database(model, X, len(texts[False].encode()), ask), elsewhere=True)


def ebm(model: Any, X: pd.DataFrame, offset: Floats | None, folder: Path, trained: Any) -> Scored | None:
    """A peer: an EBM of the same rows through ebm2onnx; numbers only, and one linear predictor."""
    if model.model_.family.n_eta > 1 or offset is not None or any(own.dtype == object for _, own in X.items()):
        return None
    try:
        import ebm2onnx  # noqa: PLC0415 - a peer
        from interpret.glassbox import ExplainableBoostingRegressor  # noqa: PLC0415 - likewise
    except ImportError:
        return None
    rows = trained.X.astype(np.float64)
    fitted = ExplainableBoostingRegressor(n_jobs=1, max_rounds=500, outer_bags=4).fit(rows, trained.y)
    fitted.classes_ = np.zeros(1)  # ebm2onnx 3.3 asks for classes of interactions of regressors, too
    graph = ebm2onnx.to_onnx(fitted, ebm2onnx.get_dtype_from_pandas(rows))
    session = session_of(graph)
    given = {own.name: X[own.name].to_numpy(np.float64) for own in session.get_inputs()}
    return Scored(graph.ByteSize(), lambda: np.asarray(session.run(None, given)[0]), lambda: np.zeros(0), exact=False)


TARGETS: dict[str, Prepare] = {
    "ONNX Runtime": onnx,
    "DuckDB": duckdb,
    "SQLite": sqlite,
    "PostgreSQL": postgres,
    "Python": python,
    "C": c,
    "Node": node,
    "EBM through ebm2onnx": ebm,
}
