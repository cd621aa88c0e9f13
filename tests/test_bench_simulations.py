"""The benchmarks that simulate their data, at small size."""

import numpy as np
import pytest
from benchmarks import bands, class_probabilities, constraints, coverage, many_rows, new_rows, p_values
from sklearn.base import clone


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_fit_of_many_rows_at_small_size(monkeypatch):
    own = many_rows.estimator("ahofm").set_params(factor_prior="spline")  # the search for it takes seconds
    monkeypatch.setattr(many_rows, "estimator", lambda name: clone(own))
    found = many_rows.child("ahofm", 2_000)
    assert set(found) == {"seconds", "error", "megabytes", "passes"}
    assert 0.0 < found["error"] < 0.6
    assert found["passes"] > 1


@pytest.mark.parametrize("design", ["0.5", "repeated"])
def test_bands_of_a_replication_hold_their_curves_well_inside(design):
    found = bands.additive(9_500, "gaussian", design)
    assert [record["effect"] for record in found] == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert all(record["at the border"] == 0.0 for record in found)
    assert np.mean([record["points"] for record in found]) > 0.7


def test_p_values_are_counted_by_column():
    rows = p_values.rows_of(np.tile([0.01, 0.2, 0.04, 0.5, 0.5, 0.5, 0.03], (4, 1)), "gaussian", 0.0)
    assert [row.value for row in rows] == [100.0, 0.0, 100.0, 0.0, 0.0, 0.0, 100.0]
    assert "t-test" in rows[-1].measure


@pytest.mark.slow
def test_new_rows_are_counted_by_quarter(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(308, 6))
    table = np.column_stack([X, X[:, 0] + 0.1 * rng.normal(size=308)])
    header = "a,b,c,d,e,f,Residuary_resistance"
    np.savetxt(tmp_path / "yacht.csv", table, delimiter=",", header=header, comments="")
    monkeypatch.setattr(new_rows, "N_SPLITS", {0: 2})
    rows = new_rows.measured("yacht", tmp_path)
    quarters = [f"yacht: quarter {k}" for k in (1, 2, 3, 4)]
    assert [row.measure for row in rows] == ["yacht: all rows", *quarters, "yacht: width"]
    assert np.mean([row.value for row in rows[1:5]]) == pytest.approx(rows[0].value, abs=1.0)  # quarters of 31 rows
    assert rows[0].value > 75.0
    assert 0.5 < rows[5].value < 1.5


def test_shares_are_judged_with_their_standard_errors():
    few, many = ([new_rows.judged("x", share, count).met for share in (90.0, 95.0, 99.0)] for count in (55, 2_000))
    assert few == ["yes", "yes", "yes"]
    assert many == ["NO", "yes", "NO"]


def test_terms_of_the_analysis_of_variance():
    others = np.random.default_rng(0).uniform(-1.0, 1.0, (200, constraints.COLUMNS))
    grid = np.linspace(-0.95, 0.95, constraints.GRID)
    pair = constraints.term(constraints.truth, (4, 5), others)
    np.testing.assert_allclose(pair, 0.5 * np.outer(grid, grid), atol=1e-12)
    main = constraints.term(lambda X: X[:, 0] ** 2, (0,), others)
    np.testing.assert_allclose(main, grid**2 - np.mean(grid**2), atol=1e-12)


def test_the_oracle_of_several_classes_is_the_error_of_its_estimates():
    """The Jacobian against differences, and one over the root of the rows."""
    rng = np.random.default_rng(0)
    truth = class_probabilities.Truth.draw(rng)
    X = rng.uniform(-1.0, 1.0, size=(3_000, class_probabilities.COLUMNS))
    jacobian = truth.jacobian(X[:5])
    moved = class_probabilities.Truth(truth.constants, truth.mains.copy(), truth.curves, truth.loadings)
    moved.mains[1, 2, 3] += 1e-6
    difference = (moved.eta(X[:5]) - truth.eta(X[:5])) / 1e-6
    at = 4 + 16 + 2 * 4 + 3  # after the constants and the first column
    np.testing.assert_allclose(jacobian[:, :, at], difference, atol=1e-6)
    some, all_rows = (class_probabilities.oracle_error(truth, X[:n], X[:200]) for n in (750, 3_000))
    assert some / all_rows == pytest.approx(2.0, rel=0.2)


@pytest.mark.slow
def test_pairs_and_a_triple_of_several_classes_are_found():
    found = class_probabilities.replication(100, 2_000)
    assert found["found"] == 3.0
    assert found["ratio"] < 2.2
    assert [row.unit for row in class_probabilities.rows_of(2_000, [found])][-1] == "s"
