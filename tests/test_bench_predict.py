"""The benchmark of predictions runs, at small size."""

import sys

import pytest

pytest.importorskip("lightgbm", reason="predictions are raced against it (make bench-predict installs it)")
pytest.importorskip("interpret", reason="predictions are raced against it (make bench-predict installs it)")

from benchmarks import predict


@pytest.mark.filterwarnings("ignore")  # the peers' own
def test_benchmark_of_predictions_runs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["predict", "--quick"])
    predict.main()
    printed = capsys.readouterr().out
    assert "ahofm, Spline() over LightGBM" in printed
    assert "ahofm, Walk() over EBM" in printed
    assert "Written to" not in printed
