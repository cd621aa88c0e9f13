"""The benchmarks run, at small size."""

import sys

import pytest

pytest.importorskip("torch", reason="the kernel benchmark races PyTorch (make bench-kernel installs it)")

from benchmarks import kernel


def test_kernel_benchmark_runs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["kernel", "--quick"])
    kernel.main()
    printed = capsys.readouterr().out
    assert "over torch at its best batch" in printed
    assert "peak memory over codes and target" in printed
    assert "Written to" not in printed
