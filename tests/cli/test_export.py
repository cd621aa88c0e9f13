"""ahofm export: every target from a model file, and what it refuses."""

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import ahofm
from ahofm.cli.app import run
from tests.export.models import counts, hard_rows, rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("export")
    with pytest.warns(UserWarning, match="constant"):
        model = counts()
    model.save(path / "model.ahofm", uncertainty=False)
    return path


@pytest.mark.parametrize("to", ["onnx", "sql", "python", "c", "javascript", "csv", "xlsx"])
def test_every_target_is_written(folder, to, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    ending = {"python": "py", "c": "h", "javascript": "mjs"}.get(to, to)
    assert run(["export", "model.ahofm", "--to", to]) == 0
    path = folder / f"model.{ending}"
    assert f"{path.stat().st_size:,} bytes: model.{ending}" in capsys.readouterr().err


def test_sql_of_the_command_predicts(folder):
    options = ["--dialect", "sqlite", "--keep", "id", "--exposure", "units", "--table", "new", "--contributions"]
    assert run(["export", str(folder / "model.ahofm"), "--to", "sql", "--out", str(folder / "s.sql"), *options]) == 0
    X, units = hard_rows(), np.linspace(0.5, 2.0, 60)
    with closing(sqlite3.connect(":memory:")) as database:
        X.assign(id=range(60), units=units).to_sql("new", database, index=False)
        found = pd.read_sql_query((folder / "s.sql").read_text(), database).sort_values("id")
    model = ahofm.load(folder / "model.ahofm")
    np.testing.assert_allclose(found["prediction"], model.predict(X, offset=np.log(units)), rtol=1e-9)
    assert "contribution it's" in found


def test_rating_tables_of_rows(folder, tmp_path):
    X = rows().assign(claims=1.0, units=2.0)
    X.to_csv(tmp_path / "train.csv", index=False)
    given = ["--rows", str(tmp_path / "train.csv"), "--target", "claims", "--exposure", "units", "--pairs", "1"]
    out = tmp_path / "tables.csv"
    assert run(["export", str(folder / "model.ahofm"), "--to", "csv", "--out", str(out), *given]) == 0
    found = pd.read_csv(out)
    zone = found[(found["column"] == "zone") & found["second column"].isna()]
    assert zone["exposure"].sum() == pytest.approx(2.0 * len(X))
    assert zone["observed"].tolist() == pytest.approx([0.5] * 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--to", "pmml"], "--to must be one of onnx, sql"),
        (["--to", "c", "--contributions"], "--contributions is for --to onnx or sql, not for c"),
        (["--to", "c", "--prefix", "a b"], "prefix must be letters"),
        (["--to", "sql", "--dialect", "postgress"], "did you mean 'postgres'"),
        (["--to", "csv", "--rows", "model.ahofm"], "--out"),
        (["--to", "xlsx", "--rows", "absent.csv"], "--rows needs --target"),
        (["--to", "python", "--out", "model.ahofm"], "would overwrite what is read"),
    ],
)
def test_what_is_refused(folder, options, message, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    before = {path.name for path in folder.iterdir()}
    if "--rows" in options and "csv" in options:
        options = [*options, "--out", "model.ahofm"]
    assert run(["export", "model.ahofm", *options]) == 2
    assert message in capsys.readouterr().err
    assert {path.name for path in folder.iterdir()} == before
