"""The benchmark of forecasts runs, at small size."""

import sys

import pytest
from benchmarks import forecast


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_benchmark_of_forecasts_runs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["forecast", "--quick"])
    forecast.main()
    printed = capsys.readouterr().out
    assert "500 x 4, order 2, gaussian: forecast over time" in printed
    assert "Written to" not in printed
