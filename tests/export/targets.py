"""Every target as a function of an estimator, rows, an offset and a folder, that runs what was exported.

Each returns means (n, outputs) and Shapley values (n, linear predictors, columns). Outputs of levels in an order are
the expected level, then their probabilities.
"""

import ctypes
import importlib.util
import io
import json
import shutil
import sqlite3
import subprocess
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from ahofm.export import to_c, to_javascript, to_onnx, to_python, to_sql
from ahofm.export.sql_dialects import DIALECTS
from ahofm.orders import PRODUCT
from tests.export.server import running_mariadb, running_postgres

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
NODE = shutil.which("node")


def n_eta(model):
    return model.model_.family.n_eta


def levels_of(model):
    """Levels in an order, of an ordinal model."""
    return list(getattr(model.model_.family, "categories", ()))


def python(model, X, offset, folder):
    """The generated module, in this process."""
    path = folder / "scorer.py"
    path.write_text(to_python(model), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("scorer", path)
    scorer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(scorer)
    mean = scorer.mean(X, offset)
    if levels_of(model):
        mean = np.column_stack([mean, scorer.predict_proba(X, offset)])
    parts = [scorer.contributions(X, k)[1] for k in range(n_eta(model))]
    return mean.reshape(len(X), -1), np.stack(parts, axis=1)


WRAPPER = """
#include "model.h"
#include <stddef.h>
void score(const unit_cell *rows, int n, const double *offsets, double *means, double *parts, double *probabilities) {
    int i, k;
    for (i = 0; i < n; i++) {
        const unit_cell *row = rows + (size_t)i * UNIT_COLUMNS;
        const double *shift = offsets ? offsets + (size_t)i * UNIT_LINEAR_PREDICTORS : NULL;
        unit_predict(row, shift, means + (size_t)i * UNIT_MEANS);
        unit_probabilities(row, shift, probabilities + (size_t)i * UNIT_PROBABILITIES);
        for (k = 0; k < UNIT_LINEAR_PREDICTORS; k++)
            unit_contributions(row, k, parts + ((size_t)i * UNIT_LINEAR_PREDICTORS + k) * UNIT_COLUMNS);
    }
}
"""


class Cell(ctypes.Structure):
    """A cell of a row in C."""

    _fields_ = (("number", ctypes.c_double), ("text", ctypes.c_char_p))


def compiled(text, folder, *options):
    """The shared library of a header."""
    if COMPILER is None:
        pytest.skip("needs a C compiler")
    (folder / "model.h").write_text(text, encoding="utf-8")
    (folder / "score.c").write_text(WRAPPER)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-shared", "-fPIC", *options]
    command = [COMPILER, *strict, "-o", str(folder / "score.so"), str(folder / "score.c"), "-lm"]
    subprocess.run(command, check=True, timeout=120)
    return ctypes.CDLL(str(folder / "score.so"))


def c(model, X, offset, folder):
    """The header, compiled with all warnings as errors."""
    library = compiled(to_c(model, prefix="unit"), folder)
    text = [not pd.api.types.is_numeric_dtype(column) for _, column in X.items()]
    cells = (Cell * X.size)()
    for at, value in enumerate(X.to_numpy(dtype=object).ravel().tolist()):
        if text[at % X.shape[1]]:
            cells[at].text = None if pd.isna(value) else value.encode()
        else:
            cells[at].number = value
    k, classes = n_eta(model), model.model_.classes
    means, parts = np.empty((len(X), 1 if classes is None else k)), np.empty((len(X), k, X.shape[1]))
    probabilities = np.empty((len(X), len(levels_of(model) if classes is None else classes)))
    pointer = ctypes.POINTER(ctypes.c_double)
    shift = None if offset is None else np.ascontiguousarray(offset, dtype=np.float64).ctypes.data_as(pointer)
    library.score(cells, len(X), shift, *(own.ctypes.data_as(pointer) for own in (means, parts, probabilities)))
    if classes is not None:
        np.testing.assert_allclose(probabilities, model.predict_proba(X), rtol=1e-9, atol=1e-15)
    return np.column_stack([means, probabilities]) if levels_of(model) else means, parts


RUNNER = """
import { readFileSync } from "node:fs";
import { predict, explain } from "./model.mjs";
const { rows, offsets, count } = JSON.parse(readFileSync("rows.json", "utf8"));
const found = rows.map((row, i) => {
  const { mean, probabilities = [] } = predict(row, offsets ? [offsets[i]] : []);
  const parts = Array.from({ length: count }, (_, k) => Object.values(explain(row, k).contributions));
  return [[mean, probabilities].flat(), parts];
});
console.log(JSON.stringify(found));
"""


def node(model, X, offset, folder):
    """The ES module, in Node."""
    if NODE is None:
        pytest.skip("needs node")
    (folder / "model.mjs").write_text(to_javascript(model), encoding="utf-8")
    (folder / "run.mjs").write_text(RUNNER)
    cells = [[None if pd.isna(value) else value for value in row] for row in X.to_numpy(dtype=object).tolist()]
    given = {"rows": cells, "offsets": None if offset is None else offset.tolist(), "count": n_eta(model)}
    (folder / "rows.json").write_text(json.dumps(given))
    done = subprocess.run([NODE, "run.mjs"], cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(done.stdout)
    return np.array([row[0] for row in found]), np.array([row[1] for row in found])


def statement(model, X, offset, dialect):
    """The statement, and the rows it reads as a frame with a key."""
    shift = None if offset is None else "the shift"
    text = to_sql(model, table="the rows", dialect=dialect, keep=["id"], offset=shift, contributions=True)
    data = X.assign(id=np.arange(len(X)))
    return text, data if offset is None else data.assign(**{"the shift": offset})


def results(model, X, columns, found):
    """Means and Shapley values of rows that came in any order."""
    own = model.model_
    frame = pd.DataFrame(found, columns=columns).sort_values("id").reset_index(drop=True)
    several = own.family.n_eta > 1
    if own.classes is None:
        outputs = ["prediction", *(f"probability {level}" for level in levels_of(model))]
    else:
        outputs = [f"probability {label}" for label in (own.classes if several else own.classes[1:])]
    endings = [f" ({label})" for label in own.classes or range(own.family.n_eta)] if several else [""]
    if own.classes is not None:
        assert frame["prediction"].tolist() == model.predict(X).tolist()
    parts = [frame[[f"contribution {name}{ending}" for name in X]].to_numpy(dtype=float) for ending in endings]
    return frame[outputs].to_numpy(dtype=float), np.stack(parts, axis=1)


def sqlite(model, X, offset, folder):
    """Python's own."""
    text, data = statement(model, X, offset, "sqlite")
    with closing(sqlite3.connect(":memory:")) as database:
        data.to_sql("the rows", database, index=False)
        try:
            cursor = database.execute(text)
        except sqlite3.OperationalError as error:
            if "no such function" in str(error):
                pytest.skip(f"this SQLite was built without mathematical functions: {error}")
            raise
        return results(model, X, [entry[0] for entry in cursor.description], cursor.fetchall())


def duckdb(model, X, offset, folder):
    """In this process; NaN and NULL are both missing."""
    database = pytest.importorskip("duckdb")
    text, data = statement(model, X, offset, "duckdb")
    with database.connect(config={"threads": 1}) as connection:
        connection.register("the rows", data)
        found = connection.execute(text)
        return results(model, X, [entry[0] for entry in found.description], found.fetchall())


def postgres(model, X, offset, folder):
    """A server that the first test starts."""
    text, data = statement(model, X, offset, "postgres")
    server = running_postgres()
    types = {name: "double precision" if pd.api.types.is_numeric_dtype(data[name]) else "text" for name in data}
    columns = ", ".join(f"{DIALECTS['postgres'].identifier(name)} {kind}" for name, kind in types.items())
    data.to_csv(folder / "rows.csv", index=False, na_rep="\\N", lineterminator="\n")
    script = f"""CREATE TEMPORARY TABLE "the rows" ({columns});
\\copy "the rows" FROM '{folder / "rows.csv"}' WITH (FORMAT csv, HEADER, NULL '\\N')
COPY ({text}) TO STDOUT WITH (FORMAT csv, HEADER);
"""
    frame = pd.read_csv(io.StringIO(server(script)))
    return results(model, X, list(frame.columns), frame.to_numpy(dtype=object).tolist())


def mysql(model, X, offset, folder):
    """A MariaDB server that the first test starts."""
    if model.model_.family.n_eta > 2 and PRODUCT in model.model_.ranks:
        pytest.skip("MariaDB 10.11 takes more than 20 GB for contributions of several classes with product factors")
    text, data = statement(model, X, offset, "mysql")
    server, own = running_mariadb(), DIALECTS["mysql"]
    numbers = {name: pd.api.types.is_numeric_dtype(data[name]) for name in data}
    columns = ", ".join(f"{own.identifier(name)} {'double' if numbers[name] else 'text'}" for name in data)
    rows = [
        ", ".join("NULL" if pd.isna(cell) else repr(cell) if numbers[name] else own.text(cell) for name, cell in row)
        for row in (zip(data, cells, strict=True) for cells in data.to_numpy(dtype=object).tolist())
    ]
    inserted = ",\n".join(f"({row})" for row in rows)
    frame = pd.read_csv(
        io.StringIO(
            server(f"""USE ahofm; CREATE TEMPORARY TABLE `the rows` ({columns}) CHARACTER SET utf8mb4;
INSERT INTO `the rows` VALUES {inserted};
{text};""")
        ),
        sep="\t",
    )
    return results(model, X, list(frame.columns), frame.to_numpy(dtype=object).tolist())


def feeds(X):
    """Inputs of a graph: (n, 1) for each column, missing text as nothing."""
    return {
        name: (
            column.to_numpy(dtype=np.float64)
            if pd.api.types.is_numeric_dtype(column)
            else column.astype(object).where(column.notna(), "").to_numpy()
        ).reshape(-1, 1)
        for name, column in X.items()
    }


def onnx(model, X, offset, folder):
    """ONNX Runtime, in this process."""
    runtime = pytest.importorskip("onnxruntime")
    graph = to_onnx(model, contributions="columns", offset=offset is not None)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    given = feeds(X) if offset is None else feeds(X) | {"offset": offset.reshape(-1, 1)}
    found = dict(zip([own.name for own in session.get_outputs()], session.run(None, given), strict=True))
    if model.model_.classes is None:
        return np.column_stack([found[name] for name in found if name != "contributions"]), found["contributions"]
    assert found["label"].tolist() == model.predict(X).tolist()
    several = n_eta(model) > 1
    return found["probabilities"] if several else found["probabilities"][:, 1:], found["contributions"]


TARGETS = {target.__name__: target for target in (python, c, node, sqlite, duckdb, postgres, mysql, onnx)}
