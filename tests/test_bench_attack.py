"""The attack runs, at small size, and tells what is right from what is wrong."""

import os
import signal
import time

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="a store needs pyarrow")

from benchmarks.attack import __main__ as attack
from benchmarks.attack import files, workers
from benchmarks.attack.outcome import CRASH, HANG, IDENTICAL, OUTCOMES, REJECTED, SILENT, UNDOCUMENTED, Counts


@pytest.mark.slow
@pytest.mark.parametrize("part", attack.PARTS)
def test_damage_is_refused_or_changes_nothing(part, capsys):
    cases = "4" if "tables" in part else "40"  # tests/estimators/test_trust.py has more of these
    assert attack.main(["--part", part, "--cases", cases]) == 0, capsys.readouterr().out
    assert f"{part}: {cases} cases" in capsys.readouterr().out


def all_outcomes():
    """Attempts that come to everything there is."""

    def attempt(case):
        if case == 2:
            os.kill(os.getpid(), signal.SIGSEGV)
        if case == 3:
            time.sleep(60.0)
        if case == 4:
            raise KeyError("nobody has promised this")
        return (REJECTED, IDENTICAL)[case % 2], ""

    return attempt


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGSEGV"), reason="needs signals")
def test_workers_that_die_or_hang_are_counted_and_replaced(monkeypatch):
    monkeypatch.setattr(workers, "SECONDS", 1.0)
    found = list(workers.run_cases(all_outcomes, iter(range(7)), 60.0))
    assert [outcome for _, outcome, _ in found] == [REJECTED, IDENTICAL, CRASH, HANG, UNDOCUMENTED, IDENTICAL, REJECTED]
    counts = Counts.of("all", found, 1.0)
    assert not counts.passed
    assert [line.split(":")[0] for line in counts.bad] == [f"--part all --case {case}" for case in (2, 3, 4)]
    assert list(workers.run_cases(all_outcomes, iter(range(7)), -1.0)) == [], "time is up"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of coefficients that are anything
def test_a_silent_change_is_one(tmp_path, monkeypatch):
    """Without the checksum, bits of coefficients flip unseen: the attack would see it."""
    monkeypatch.setattr("ahofm.model.files._digest", lambda *_: "")
    attempt = files.attempt_of("models", tmp_path)
    assert {attempt(case)[0] for case in range(0, 200)} >= {REJECTED, SILENT}


def test_results_are_data(tmp_path):
    path = tmp_path / "attack.csv"
    outcomes = dict.fromkeys(OUTCOMES, 0)
    attack.write([Counts("a", {**outcomes, REJECTED: 3}, 1.2), Counts("b", outcomes, 0.0)], path, "abc")
    attack.write([Counts("a", {**outcomes, REJECTED: 4}, 1.2)], path, "def")
    lines = [line.split(",") for line in path.read_text().splitlines()]
    assert lines[0] == ["part", "cases", *OUTCOMES, "seconds", "commit"]
    assert [line[:3] for line in lines[1:]] == [["a", "4", "4"], ["b", "0", "0"]]
    assert [line[-1] for line in lines[1:]] == ["def", "abc"]


@pytest.mark.slow
def test_cases_are_the_same_every_time(tmp_path):
    found = []
    for name in ("first", "again"):
        (tmp_path / name).mkdir()
        attempt = files.attempt_of("models", tmp_path / name)
        found.append([attempt(case) for case in range(30)])
    first, again = (
        [path.read_bytes() for path in sorted((tmp_path / name).glob("*.ahofm"))] for name in ("first", "again")
    )
    assert first == again, "and so are the files that are damaged"
    assert [outcome for outcome, _ in found[0]] == [outcome for outcome, _ in found[1]]
    assert np.unique([seen[-30:] for _, seen in found[0]]).size > 3, "and not all alike"
