"""The version, the module as a command, and tables as other programs write them."""

import json
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer", reason="the command needs typer: pip install 'ahofm[cli]'")

import ahofm
from ahofm.cli.app import run

QUICK = ["--holdout", "0", "--order", "1", "--effort", "fast", "--fast"]


def rows():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(-1, 1, size=(150, 3)).round(3), columns=["wind", "rain", "note"])
    table["zone"], table["hour"] = rng.integers(1, 4, 150), rng.integers(0, 24, 150)
    table["month"] = rng.integers(1, 13, 150)
    table["price"] = (table["wind"] + np.cos(table["hour"] / 4) + (table["zone"] == 2)).round(3)
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same rows in several files, and predictions of the model of the plain one."""
    path = tmp_path_factory.mktemp("dialects")
    rows().to_csv(path / "plain.csv", index=False)
    rows().to_csv(path / "points.csv", index=False, sep=";")
    rows().to_csv(path / "commas.csv", index=False, sep=";", decimal=",")
    rows().to_excel(path / "sheet.xlsx", index=False)
    return path


def fitted(path, *options):
    model = path.with_suffix(f".{len(options)}.ahofm")
    assert run(["fit", str(path), "--target", "price", "--out", str(model), *QUICK, *options]) == 0
    return ahofm.load(model)


def kinds(model):
    return {book.name: type(book.kind).__name__ for book in model.model_.encoder.codebooks}


def test_the_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"ahofm {version('ahofm')}\n"


@pytest.mark.slow
def test_the_module_is_the_command():
    words = [sys.executable, "-m", "ahofm"]
    done = subprocess.run([*words, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"ahofm {version('ahofm')}\n"
    wrong = subprocess.run([*words, "predict", "nowhere"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("points.csv", ["--sep", ";"]),
        ("commas.csv", ["--sep", ";", "--decimal", ","]),
        ("sheet.xlsx", []),
    ],
)
def test_other_files_give_the_same_model_and_predictions(folder, file, options, tmp_path, capsys):
    expected = fitted(folder / "plain.csv").predict(rows().drop(columns="price"))
    model = fitted(folder / file, *options)
    np.testing.assert_array_equal(model.predict(rows().drop(columns="price")), expected)
    model.save(tmp_path / "m.ahofm", uncertainty=False)
    words = ["predict", str(tmp_path / "m.ahofm"), str(folder / file), "--out", str(tmp_path / "p.csv"), *options]
    assert run(words) == 0
    found = pd.read_csv(tmp_path / "p.csv")["prediction"]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    capsys.readouterr()


def test_text_cells_of_a_sheet(tmp_path, capsys):
    table = rows().assign(town=np.where(rows()["wind"] > 0, "a", "b"))
    table.loc[2, "town"] = "?"
    table.to_excel(tmp_path / "sheet.xlsx", index=False)
    model = fitted(tmp_path / "sheet.xlsx", "--missing", "?", "--categorical", "zone")
    levels = {book.name: list(book.support.values) for book in model.model_.encoder.codebooks if book.edges is None}
    assert levels == {"town": ["a", "b"], "zone": ["1", "2", "3"]}
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sep", ";;"], "--sep must be one character, got ';;'"),
        (["--decimal", "x"], "--decimal must be . or , got 'x'"),
        (["--decimal", ","], "--decimal , needs another separator"),
        (["--sep", ";", "--out-of-core"], "--sep and --decimal are for tables in memory"),
    ],
)
def test_dialects_that_cannot_be_read(folder, options, message, tmp_path, capsys):
    words = ["fit", str(folder / "plain.csv"), "--target", "price", "--out", str(tmp_path / "m.ahofm"), *options]
    assert run(words) == 2
    assert message in capsys.readouterr().err


def test_a_file_with_semicolons_is_told_how_to_be_read(folder, tmp_path, capsys):
    words = ["fit", str(folder / "commas.csv"), "--target", "price", "--out", str(tmp_path / "m.ahofm")]
    assert run(words) == 2
    assert "say --sep ';'" in capsys.readouterr().err


def test_options_take_lists_after_commas(folder, capsys):
    options = ["--drop", "note,rain", "--categorical", "zone,month", "--cyclic", "hour=24", "--linear", "wind"]
    once = kinds(fitted(folder / "plain.csv", *options))
    assert once == {
        "wind": "Linear",
        "zone": "Categorical",
        "hour": "Cyclic",
        "month": "Categorical",
    }
    again = ["--drop", "note", "--drop", "rain", "--categorical", "zone", "--categorical", "month"]
    assert kinds(fitted(folder / "plain.csv", *again, *options[4:])) == once
    both = kinds(fitted(folder / "plain.csv", "--cyclic", "hour=24,month=12", "--linear", "wind,rain"))
    assert {both["hour"], both["month"]} == {"Cyclic"}
    assert {both["wind"], both["rain"]} == {"Linear"}
    capsys.readouterr()


def test_a_name_may_have_a_comma(tmp_path, capsys):
    rows().rename(columns={"note": "a,b"}).to_csv(tmp_path / "train.csv", index=False)
    assert "a,b" not in kinds(fitted(tmp_path / "train.csv", "--drop", "a,b"))
    capsys.readouterr()
    words = ["fit", str(tmp_path / "train.csv"), "--target", "price", "--drop", "a,c", "--out", str(tmp_path / "m")]
    assert run(words) == 2
    assert "no column 'a' (--drop)" in capsys.readouterr().err


def test_groups_and_lists_together(folder, tmp_path, capsys):
    words = ["fit", str(folder / "commas.csv"), "--target", "price", "--out", str(tmp_path / "m.ahofm"), "--json"]
    words += [*QUICK, "--sep", ";", "--decimal", ",", "--group", "zone", "--drop", "note,month", "--exclude", "wind"]
    assert run(words) == 0
    result = json.loads(capsys.readouterr().out)
    assert [column["column"] for column in result["columns"]] == ["wind", "rain", "hour"]
