"""The benchmarks that simulate their data, at small size."""

import numpy as np
import pytest
from benchmarks import coverage, many_rows


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_a_replication_of_coverage(family):
    cell = coverage.Cell(family, 300, 0.5)
    found = coverage.replication(cell, seed=1)
    assert set(found) == {"mean", "main", "pairs", "new", "kept"}
    assert all(0.0 <= share <= 1.0 for share in found.values())
    assert found["mean"] > 0.5
    assert str(cell) == f"{family}, n=300, correlation 0.5"


def test_simulated_effects_have_mean_zero():
    X = coverage.draw_columns(coverage.Cell("gaussian", 0, 0.5), 200_000, np.random.default_rng(0))
    assert np.abs(X).max() <= 1.0
    assert np.corrcoef(X[:, 0], X[:, 1])[0, 1] == pytest.approx(0.48, abs=0.03)
    independent = coverage.draw_columns(coverage.Cell("gaussian", 0, 0.0), 200_000, np.random.default_rng(0))
    for effect in coverage.mains(independent) + coverage.pairs(independent):
        assert abs(effect.mean()) < 0.02


def test_a_fit_of_many_rows_at_small_size():
    found = many_rows.child("ahofm", 2_000)
    assert set(found) == {"seconds", "error", "megabytes", "passes"}
    assert 0.0 < found["error"] < 0.6
    assert found["passes"] > 1
