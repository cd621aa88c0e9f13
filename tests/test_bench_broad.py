"""The comparison on many data sets: what targets are taken for, what is run, and what results come to."""

import sys

import numpy as np
import pandas as pd
import pytest
from benchmarks import broad
from benchmarks.data import Rows
from benchmarks.experiments.ablation import calibration_error, errors
from benchmarks.pages import broad as pages
from benchmarks.peers.task import Task


@pytest.mark.parametrize(
    ("y", "family"),
    [
        ([0, 1] * 20, "binomial"),
        (["a", "b", "c"] * 20, "multinomial"),
        ([1.0, 2.0, 3.0, 4.0] * 10, "multinomial"),
        (np.arange(60), "gaussian"),
        (np.linspace(0.0, 1.0, 60), "gaussian"),
    ],
)
def test_what_a_target_is_taken_for(tmp_path, y, family):
    pd.DataFrame({"x": np.arange(len(y)), "y": y}).to_csv(tmp_path / "some.csv", index=False)
    (problem,) = broad.problems(tmp_path)
    assert problem.family == family
    train, test = problem.split(0)
    assert len(test.y) == round(0.2 * len(y))
    assert not set(train.X["x"]) & set(test.X["x"])
    if family != "gaussian":
        assert set(np.unique(train.y)) == set(range(len(set(y))))


def test_further_targets_are_no_columns(tmp_path):
    pd.DataFrame({"X1": range(40), "Y1": np.linspace(0, 1, 40), "Y2": range(40)}).to_csv(
        tmp_path / "energy.csv", index=False
    )
    rows = broad.problems(tmp_path)[0].read()
    assert list(rows.X) == ["X1"]
    np.testing.assert_allclose(rows.y, np.linspace(0, 1, 40))


def test_a_folder_without_files_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="no CSV files"):
        broad.problems(tmp_path)


def test_peers_run_where_they_can(tmp_path):
    found = [
        broad.Problem(tmp_path / "few.csv", "gaussian", 100),
        broad.Problem(tmp_path / "classes.csv", "multinomial", 100),
        broad.Problem(tmp_path / "many.csv", "gaussian", 10_000),
    ]
    planned = [(one.unit.problem, one.unit.method) for one in broad.plan(found, ["ahofm", "TSL", "pyGAM", "EBM"], 1)]
    assert {problem for problem, method in planned if method == "ahofm"} == {"few", "classes", "many"}
    assert {problem for problem, method in planned if method == "TSL"} == {"few", "many"}
    assert {problem for problem, method in planned if method == "pyGAM"} == {"few"}
    assert {problem for problem, method in planned if method == "EBM"} == {"few", "classes"}


@pytest.mark.slow
def test_results_and_figure_of_a_run(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    for name in ("one", "two", "three"):
        x = rng.normal(size=(60, 2))
        y = x[:, 0] + 0.1 * rng.normal(size=60)
        pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y}).to_csv(tmp_path / f"{name}.csv", index=False)
    out = tmp_path / "results"
    command = ["broad", "--data", str(tmp_path), "--splits", "1", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", [*command, "--methods", "ahofm", "ahofm additive", "linear"])
    assert broad.main() == 0
    printed = capsys.readouterr().out
    assert "numbers, RMSE" in printed
    assert "of 3" in printed
    assert (out / "broad.png").stat().st_size > 1_000


def test_wins_and_geometric_means():
    rows = [
        {"problem": name, "method": method, "family": "gaussian", "status": "done", "rmse": rmse, "cpu": 1.0}
        for name, values in {"a": (1.0, 2.0, 4.0), "b": (3.0, 3.0, 1.5)}.items()
        for method, rmse in zip(("ahofm", "CatBoost", "LightGBM"), values, strict=True)
    ]
    table = pd.DataFrame(rows)
    errors_of = pages.means(table, "gaussian", "rmse")
    text = pages.verdict(errors_of, pages.means(table, "gaussian", "cpu"))
    line = next(line for line in text.splitlines() if line.startswith("| CatBoost"))
    assert "2 of 2" in line
    assert f"{np.sqrt(0.5):.3f}" in line
    best = next(line for line in text.splitlines() if line.startswith("| best of"))
    assert "1 of 2" in best
    assert f"{np.sqrt(0.5 * 2.0):.3f}" in best


def test_runs_of_ranks_within_the_critical_difference():
    assert pages.cliques(np.array([1.0, 1.5, 3.0, 3.2]), 1.0) == [(0, 1), (2, 3)]
    assert pages.cliques(np.array([1.0, 2.0, 3.0]), 5.0) == [(0, 2)]
    assert pages.cliques(np.array([1.0, 4.0]), 1.0) == []


def test_calibration_error_by_hand():
    p = np.array([[0.9, 0.1], [0.9, 0.1], [0.3, 0.7], [0.3, 0.7]])
    y = np.array([0.0, 1.0, 1.0, 1.0])
    assert calibration_error(y, p) == pytest.approx(0.5 * abs(0.5 - 0.9) + 0.5 * abs(1.0 - 0.7))


def test_errors_of_several_classes():
    p = np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]])
    found = errors("multinomial", Rows(pd.DataFrame(), np.array([0.0, 1.0])), p)
    assert found["log_loss"] == pytest.approx(-0.5 * (np.log(0.5) + np.log(0.8)))
    assert found["accuracy"] == 1.0
    assert "auroc" not in found


def test_a_linear_model_of_levels_and_numbers():
    from benchmarks.peers import simple  # noqa: PLC0415 - scikit-learn's own imports are slow

    rng = np.random.default_rng(1)
    X = pd.DataFrame({"level": rng.choice(["a", "b"], 100), "x": rng.normal(size=100)})
    y = 2.0 * X["x"].to_numpy() + (X["level"] == "b").to_numpy()
    predict = simple.linear(Task(Rows(X, y), X))
    np.testing.assert_allclose(predict(X), y, atol=0.05)
