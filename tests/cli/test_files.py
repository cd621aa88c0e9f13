"""Files as they come: truth values, odd cells, repeated names, other encodings; and files that must not be written."""

import os
import stat

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer", reason="the command needs typer: pip install 'ahofm[cli]'")

import pyarrow as pa
from pyarrow.csv import write_csv
from pyarrow.parquet import write_table

import ahofm
from ahofm.cli.app import run

pytestmark = pytest.mark.slow
FIT = ["--target", "y", "--order", "1", "--holdout", "0", "--fast"]
MEMORY, DISK = [], ["--out-of-core"]
both = pytest.mark.parametrize("where", [MEMORY, DISK], ids=["memory", "disk"])


def rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"a": rng.normal(size=n).round(3), "town": rng.choice(["x", "y"], n)})
    table["y"] = (table["a"] + (table["town"] == "x") + 0.1 * rng.normal(size=n)).round(3)
    return table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows().to_csv("train.csv", index=False)
    return tmp_path


def refused(capsys, words):
    """The one line about what is wrong."""
    capsys.readouterr()
    assert run(words) == 2
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1
    assert "Traceback" not in said
    return said


# ---- what is read ----


@both
@pytest.mark.parametrize("words", [("True", "False"), ("true", "false"), ("TRUE", "FALSE")])
def test_truth_values_are_numbers_in_fits_and_predictions(folder, where, words):
    table = rows()
    flag = table["a"] > 0
    table["flag"] = np.where(flag, *words)
    table.to_csv("t.csv", index=False)
    assert run(["fit", "t.csv", *FIT, *where, "--out", "m"]) == 0
    assert run(["predict", "m", "t.csv", "--out", "p.csv"]) == 0
    X = table.assign(flag=flag.astype(float)).drop(columns="y")
    assert np.allclose(pd.read_csv("p.csv")["prediction"], ahofm.load("m").predict(X))
    X.to_csv("numbers.csv", index=False)  # 1.0 and 0.0
    assert run(["predict", "m", "numbers.csv", "--out", "q.csv"]) == 0
    assert np.allclose(pd.read_csv("q.csv")["prediction"], pd.read_csv("p.csv")["prediction"])


def test_truth_values_may_be_missing_and_levels(folder, capsys):
    table = rows()
    table["flag"] = np.where(table["a"] > 0, "True", "False")
    table.loc[:9, "flag"] = ""
    table.to_csv("t.csv", index=False)
    for levels in ([], ["--categorical", "flag"]):
        assert run(["fit", "t.csv", *FIT, *levels, "--out", "m"]) == 0
        capsys.readouterr()
        assert run(["predict", "m", "t.csv", "--out", "p.csv"]) == 0
        assert "did not have" not in capsys.readouterr().err
        assert ahofm.load("m").model_.encoder.codebooks[2].missing_mass == 10.0


def test_levels_are_the_text_of_the_file(folder, capsys):
    table = rows()
    table["zone"] = np.where(table["a"] > 0, "01", "02")
    table.to_csv("t.csv", index=False)
    assert run(["fit", "t.csv", *FIT, "--categorical", "zone", "--out", "m"]) == 0
    assert ahofm.load("m").model_.encoder.codebooks[2].support.values.tolist() == ["01", "02"]
    assert run(["predict", "m", "t.csv", "--out", "p.csv"]) == 0
    assert "did not have" not in capsys.readouterr().err


@both
@pytest.mark.parametrize("column", ["a", "y"])
def test_one_odd_cell_among_numbers_is_refused(folder, capsys, where, column):
    table = rows().astype({"a": object, "y": object})
    table.loc[5, column] = "?"
    table.to_csv("t.csv", index=False)
    said = refused(capsys, ["fit", "t.csv", *FIT, *where])
    assert f"column '{column}' is numbers but for '?' in row 6" in said
    assert "say --missing '?'" in said
    if column == "a":
        for more in (["--missing", "?"], ["--categorical", "a"], ["--drop", "a"]):
            assert run(["fit", "t.csv", *FIT, *where, *more]) == 0


def test_an_odd_cell_late_in_a_file_is_told_with_its_remedy(folder, capsys, monkeypatch):
    monkeypatch.setattr("ahofm.scale.files._BLOCK", 1_000)
    with (folder / "train.csv").open("a") as file:
        file.write("?,x,1.0\n")
    said = refused(capsys, ["fit", "train.csv", *FIT, *DISK])
    assert "invalid value '?'; if '?' means missing, name it as such (--missing" in said


@both
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_repeated_names_are_refused(folder, capsys, where, ending):
    table = pa.table([pa.array(np.arange(40.0)), pa.array(np.arange(40.0)), pa.array(np.arange(40.0))], ["a", "a", "y"])
    name = f"t.{ending}"
    if ending == "csv":
        write_csv(table, name)
    else:
        write_table(table, name)
    named = ", but 'a' is there more than once" if ending == "csv" else "; rename those"  # Arrow does not say which
    assert f"{name}: column names must differ{named}" in refused(capsys, ["fit", name, *FIT, *where])
    assert run(["fit", "train.csv", *FIT, "--out", "m"]) == 0
    assert f"{name}: column names must differ{named}" in refused(capsys, ["predict", "m", name])


@both
def test_files_that_are_empty_folders_or_not_utf_8(folder, capsys, where):
    (folder / "nothing.csv").write_text("")
    (folder / "names.csv").write_text("a,town,y\n")
    (folder / "head.csv").write_bytes("a,städte,y\n1,x,2\n".encode("latin-1"))
    (folder / "body.csv").write_bytes(("a,town,y\n" + "1,Köln,2\n" * 20).encode("latin-1"))
    (folder / "no.parquet").write_text("no")
    (folder / "folder").mkdir()
    assert run(["fit", "train.csv", *FIT, "--out", "m"]) == 0
    for name, message in {
        "nothing.csv": "Empty CSV file",
        "names.csv": "no rows",
        "head.csv": "head.csv: the file is not UTF-8 text; convert it first",
        "body.csv": "body.csv: the file is not UTF-8 text; convert it first",
        "no.parquet": "no.parquet: ",
        "folder": "folder: ",
    }.items():
        assert message in refused(capsys, ["fit", name, *FIT, *where])
        if name != "head.csv" or not where:
            assert message.split(";")[0] in refused(capsys, ["predict", "m", name, "--out", "p.csv"])
    assert "it is a folder" in refused(capsys, ["predict", "folder", "train.csv"])
    assert "it is a directory" in refused(capsys, ["fit", "train.csv", *FIT, "--checkpoint", "folder"])
    assert not (folder / "p.csv").exists()


def test_what_means_missing_is_remembered(folder, capsys):
    table = rows()
    table.loc[:29, "town"] = "?"
    table.to_csv("t.csv", index=False)
    for where in (MEMORY, DISK):
        assert run(["fit", "t.csv", *FIT, *where, "--missing", "?", "--out", "m"]) == 0
        assert ahofm.load("m").model_.missing == ("?",)
        capsys.readouterr()
        assert run(["predict", "m", "t.csv", "--out", "p.csv"]) == 0
        assert "did not have" not in capsys.readouterr().err
        X = table.drop(columns="y").replace({"town": {"?": None}})
        assert np.allclose(pd.read_csv("p.csv")["prediction"], ahofm.load("m").predict(X))
    assert run(["info", "m"]) == 0
    assert "cells that mean missing: '?'" in capsys.readouterr().out


def test_levels_that_training_did_not_have_are_counted(folder, capsys, monkeypatch):
    monkeypatch.setattr("ahofm.cli.predicting.ROWS", 50)
    assert run(["fit", "train.csv", *FIT, "--out", "m"]) == 0
    table = rows()
    table.loc[:3, "town"] = ["v", "w", "v", "z"]
    table.loc[4:5, "town"] = None
    table.to_parquet("t.parquet")
    capsys.readouterr()
    assert run(["predict", "m", "t.parquet", "--out", "p.csv"]) == 0
    said = capsys.readouterr().err
    assert "column 'town': 4 row(s) with a level that training did not have, e.g. 'v', 'w', 'z'; they are" in said


# ---- what is written ----


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["fit", "train.csv", *FIT, "--out", "train.csv"],
            "--out train.csv would overwrite what is read from train.csv",
        ),
        (["fit", "train.csv", *FIT, "--report", "./train.csv"], "--report train.csv would overwrite"),
        (["fit", "link.csv", *FIT, "--out", "train.csv"], "would overwrite what is read from link.csv"),
        (["fit", ".", *FIT, *DISK, "--out", "train.csv"], "would overwrite what is read from ."),
        (["fit", "train.csv", *FIT, "--out", "new", "--report", "new"], "--out and --report are the same file, new"),
        (["fit", "train.csv", *FIT, "--out", "new", "--checkpoint", "new"], "--out and --checkpoint are the same"),
        (["predict", "m", "train.csv", "--out", "train.csv"], "--out train.csv would overwrite"),
        (["predict", "m", "train.csv", "--out", "m"], "--out m would overwrite what is read from m"),
        (["explain", "m", "--effect", "a", "--out", "m"], "--out m would overwrite"),
        (["report", "m", "--out", "m"], "--out m would overwrite"),
        (["demo", "--out", "m"], "--out m is a file; give a folder"),
        (["fit", "train.csv", *FIT, "--out", "folder"], "--out: cannot write folder: it is a directory"),
        (["fit", "train.csv", *FIT, "--out", "no/m"], "--out: cannot write no/m: there is no directory no"),
        (["fit", "train.csv", *FIT, "--report", "no/m"], "--report: cannot write no/m: there is no directory no"),
        (["fit", "train.csv", *FIT, "--out", "m/n"], "--out: cannot write m/n: there is no directory m"),
        (["fit", "train.csv", *FIT, "--out", "pipe"], "--out: cannot write pipe: it is no regular file"),
        (["predict", "m", "train.csv", "--out", "no/p.csv"], "--out: cannot write no/p.csv"),
        (["report", "m", "--out", "folder"], "--out: cannot write folder: it is a directory"),
    ],
)
def test_outputs_are_checked_before_any_work(folder, capsys, monkeypatch, words, message):
    (folder / "m").write_text("a model")
    (folder / "link.csv").symlink_to("train.csv")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    for place in ("fit_command.job_of", "fit_command.stored_job", "commands._model"):
        monkeypatch.setattr(f"ahofm.cli.{place}", lambda *_, **__: pytest.fail("work was begun"))
    assert message in refused(capsys, words)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_a_full_disk_is_found_before_the_fit(folder, capsys, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ahofm.writing.os.fsync", full)
    monkeypatch.setattr("ahofm.cli.fit_command.job_of", lambda *_: pytest.fail("work was begun"))
    said = refused(capsys, ["fit", "train.csv", *FIT, "--out", "m"])
    assert "--out: cannot write m: No space left on device; make room or give another file" in said
    assert os.listdir() == ["train.csv"]


def test_a_disk_that_fills_during_the_work_leaves_what_was_there(folder, capsys, monkeypatch):
    assert run(["fit", "train.csv", *FIT, "--out", "m"]) == 0
    (folder / "p.csv").write_text("before")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ahofm.cli.commands.check_outputs", lambda *_: None)
    monkeypatch.setattr("ahofm.cli.fit_command.check_outputs", lambda *_, **__: None)
    monkeypatch.setattr("ahofm.writing.os.fsync", full)
    old = (folder / "m").read_bytes()
    assert "cannot write p.csv" in refused(capsys, ["predict", "m", "train.csv", "--out", "p.csv"])
    assert "cannot write m" in refused(capsys, ["fit", "train.csv", *FIT, "--out", "m", "--seed", "1"])
    assert (folder / "p.csv").read_text() == "before"
    assert (folder / "m").read_bytes() == old
    assert sorted(os.listdir()) == ["m", "p.csv", "train.csv"]


def test_files_have_the_permissions_of_the_umask(folder):
    before = os.umask(0o002)
    try:
        assert run(["fit", "train.csv", *FIT, "--out", "m", "--report", "r.html"]) == 0
        assert run(["predict", "m", "train.csv", "--out", "p.parquet"]) == 0
        assert run(["explain", "m", "--effect", "a", "--out", "e.csv"]) == 0
    finally:
        os.umask(before)
    for name in ("m", "r.html", "p.parquet", "e.csv"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o664


def test_names_are_printed_as_they_are(folder, capsys):
    names = {"a": "speed [m/s]", "town": "[/day] :cat:"}
    rows().rename(columns=names).to_csv("t.csv", index=False)
    assert run(["fit", "t.csv", *FIT, "--out", "m"]) == 0
    assert run(["explain", "m"]) == 0
    said = capsys.readouterr().out
    for name in names.values():
        assert said.count(name) >= 3
    assert "no column '[b]'" in refused(capsys, ["fit", "t.csv", *FIT, "--drop", "[b]"])
    rows().rename(columns=names).assign(**{"[/day] :cat:": "[red]"}).to_csv("n.csv", index=False)
    assert run(["predict", "m", "n.csv", "--out", "[bold].csv"]) == 0
    said = capsys.readouterr().err
    assert "column '[/day] :cat:': 200 row(s)" in said
    assert "'[red]'" in said
    assert "200 rows: [bold].csv" in said
