"""Ctrl-C in a command: exit code 130, a line about what there is, and no file that is half of one."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer", reason="the command needs typer: pip install 'ahofm[cli]'")

import ahofm
import ahofm.cli
import ahofm.writing
from ahofm.cli.app import run


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200)})
    table["y"] = np.sin(2 * table["a"]) + 0.1 * rng.normal(size=200)
    table.to_csv(tmp_path / "train.csv", index=False)
    (tmp_path / "model.ahofm").write_text("the old model")
    return tmp_path


def fit(folder, *more):
    words = ["fit", str(folder / "train.csv"), "--target", "y", "--order", "1", "--out", str(folder / "model.ahofm")]
    return run([*words, *more])


def interrupted(*_, **__):
    raise KeyboardInterrupt


def names(folder):
    return {path.name for path in folder.iterdir()}


PHASES = {
    "reading": ("ahofm.cli.fit_command.job_of", ()),
    "coding": ("ahofm.cli.fit_command.stored_job", ("--out-of-core",)),
    "encoding": ("ahofm.fit.api.prepared", ()),
    "forecast": ("ahofm.cost.forecast.timed", ("--dry-run",)),
}


@pytest.mark.parametrize("phase", PHASES)
def test_before_there_is_a_model(folder, capsys, monkeypatch, phase):
    place, options = PHASES[phase]
    monkeypatch.setattr(place, interrupted)
    assert fit(folder, *options) == 130
    said = capsys.readouterr().err.strip()
    assert said.startswith("interrupted: ")
    assert "not" in said
    assert len(said.splitlines()) == 1
    assert (folder / "model.ahofm").read_text() == "the old model"
    assert names(folder) == {"train.csv", "model.ahofm"}


@pytest.mark.parametrize("phase", ["solver", "band", "saving"])
def test_the_best_model_so_far_is_kept_beside_the_old_one(folder, capsys, monkeypatch, phase):
    if phase == "solver":

        class Impatient(ahofm.AHOFMRegressor):
            def fit(self, X, y, **given):
                def stop(record):
                    if record.iteration == 4:
                        raise KeyboardInterrupt

                return self.set_params(callbacks=[stop]).fit_as_ever(X, y, **given)

            fit_as_ever = ahofm.AHOFMRegressor.fit

        monkeypatch.setattr("ahofm.cli.fitting.AHOFMRegressor", Impatient)
    if phase == "band":
        monkeypatch.setattr("ahofm.estimators.training.band_of", interrupted)
    if phase == "saving":
        calls, replacing = [], ahofm.writing.replacing

        def once(path):
            calls.append(path)
            return interrupted() if len(calls) == 1 else replacing(path)

        monkeypatch.setattr("ahofm.model.files.replacing", once)
    assert fit(folder, "--missing", "?", "--checkpoint", str(folder / "c")) == 130
    said = capsys.readouterr().err
    assert "model.ahofm was not written; the best model so far is" in said
    assert ("goes on from" in said) == (phase == "solver")
    assert (folder / "model.ahofm").read_text() == "the old model"
    part = ahofm.load(folder / "model.partial.ahofm").model_
    assert part.encoder.names == ("a", "b")
    assert part.missing == ("?",)
    if phase == "solver":
        assert names(folder) == {"train.csv", "model.ahofm", "model.partial.ahofm", "c"}
        monkeypatch.undo()
        assert fit(folder, "--missing", "?", "--checkpoint", str(folder / "c"), "--holdout", "0") == 0
        assert ahofm.load(folder / "model.ahofm").model_.encoder.names == ("a", "b")
    assert names(folder) <= {"train.csv", "model.ahofm", "model.partial.ahofm"}


@pytest.mark.parametrize(
    ("place", "said", "written"),
    [
        ("ahofm.report.write", "model.ahofm is complete, ", set()),
        ("ahofm.cli.fit_command.held_out", "model.ahofm is complete, its score is not", {"r.html"}),
        ("ahofm.cli.fit_command._say_fit", "model.ahofm is complete, what it is was not said", {"r.html"}),
    ],
)
def test_after_the_model_was_saved(folder, capsys, monkeypatch, place, said, written):
    monkeypatch.setattr(place, interrupted)
    assert fit(folder, "--report", str(folder / "r.html")) == 130
    assert said in capsys.readouterr().err
    assert ahofm.load(folder / "model.ahofm").model_.encoder.names == ("a", "b")
    assert names(folder) == {"train.csv", "model.ahofm"} | written


def test_what_is_known_is_printed_without_the_score(folder, capsys, monkeypatch):
    monkeypatch.setattr("ahofm.cli.fit_command.held_out", interrupted)
    assert fit(folder, "--json", "--fast") == 130
    assert json.loads(capsys.readouterr().out)["held out"] == {}


@pytest.mark.parametrize(
    ("words", "place", "said"),
    [
        (["predict", "{d}/m", "{d}/train.csv", "--out", "{d}/p.csv"], "ahofm.cli.predicting._predictions", "p.csv was"),
        (["predict", "{d}/m", "{d}/train.csv"], "ahofm.cli.predicting._predictions", "on the screen are not complete"),
        (["explain", "{d}/m"], "ahofm.cli.commands.variance_shares", "nothing was written"),
        (["report", "{d}/m", "--out", "{d}/r.html"], "ahofm.report.write", "nothing was written"),
        (["info", "{d}/m"], "ahofm.cli.commands.summary", "nothing was written"),
        (["demo", "--out", "{d}/demo"], "ahofm.cli.demo.simulate", "each of them complete"),
    ],
)
def test_other_commands(folder, capsys, monkeypatch, words, place, said):
    assert fit(folder, "--fast", "--holdout", "0") == 0
    (folder / "model.ahofm").rename(folder / "m")
    capsys.readouterr()
    monkeypatch.setattr(place, interrupted)
    assert run([word.format(d=folder) for word in words]) == 130
    assert said in capsys.readouterr().err
    assert names(folder) <= {"train.csv", "m", "demo"}


@pytest.mark.slow
@pytest.mark.parametrize("slow", ["ahofm.cli.fit_command.job_of", "ahofm.fit.api.prepared"])
def test_a_real_signal(folder, slow):
    module, name = slow.rsplit(".", 1)
    program = f"""
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import {module} as module
from ahofm.cli import main

def wait(*_, **__):
    print("waiting", flush=True)
    time.sleep(60)

module.{name} = wait
sys.argv = ["ahofm", "fit", {str(folder / "train.csv")!r}, "--target", "y", "--out", {str(folder / "model.ahofm")!r}]
sys.exit(main())
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "waiting\n"
        time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    assert said.startswith("interrupted: ")
    assert (folder / "model.ahofm").read_text() == "the old model"


def test_while_the_command_is_loaded(capsys, monkeypatch):
    monkeypatch.setattr("ahofm.cli.app.run", interrupted)
    assert ahofm.cli.main() == 130
    assert capsys.readouterr().err == "interrupted: nothing was written\n"
