"""The gallery's examples run, draw, and find what is true."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))

# What must be true of the numbers that an example returns.
TRUE = {
    "cancer": lambda found: (
        found["area"] > 0.98 and found["log-loss"] < 0.15 and found["largest gap of Shapley sums"] < 1e-8
    ),
    "claims": lambda found: (
        found["error"] < 0.75 * found["additive"]
        and found["true pairs on top"]
        and 0.9 < found["claims per expected claim"] < 1.1
    ),
    "credit": lambda found: (
        found["falls"] == 0.0 and found["free falls"] > 0.0 and found["log-loss"] < 1.01 * found["free log-loss"]
    ),
    "diabetes": lambda found: found["error"] < 1.02 * found["linear"] and 0.86 < found["held at 0.9"] < 0.94,
    "lifetimes": lambda found: (
        found["hazards, error"] < 0.06
        and found["hazards, error"] < 0.7 * found["log-logistic times, error"]
        and 0.5 < found["censored"] < 0.65
    ),
    "paper_toy": lambda found: found["error"] < 0.35 * found["spread of the mean"],
    "ratings": lambda found: (
        found["truth"] < found["ordinal"] < 1.005 * found["truth"]
        and found["ordinal, error"] < 0.25 * found["normal, rounded, error"]
        and found["steps"] < 0.25
    ),
    "shares": lambda found: (
        found["beta, impossible"] == 0.0
        and found["normal, impossible"] > 0.3
        and found["beta, error"] < 1.05 * found["normal, error"]
        and 0.85 < found["beta, held"] < 0.95
        and 0.85 < found["normal, held"] < 0.95
    ),
    "space_time": lambda found: (
        found["triples"] < found["pairs"] < found["additive"] and found["correlation of maps"] > 0.98
    ),
    "spread": lambda found: (
        found["one spread, loud"] < 0.7
        and all(0.85 < found[f"{way}, {part}"] < 0.95 for way in WAYS for part in ("quiet", "loud"))
    ),
    "tariff": lambda found: (
        found["falls"] == 0.0 and found["barred"] == 0.0 and found["error"] < 1.03 * found["free error"]
    ),
    "wide": lambda found: found["true ones on top"] == 3 and found["error"] < 0.8 * found["boosting"],
    "zeros": lambda found: (
        found["rate"] < 0.1  # .16 without the pair
        and found["idle"] < 0.06
        and abs(found["zeros"]) < 0.02
        and found["Poisson zeros"] < -0.1
        and found["log score"] < found["Poisson log score"]
    ),
}
WAYS = ("mean and spread", "two quantiles")


def test_every_example_is_judged_and_shown():
    assert sorted(TRUE) == SCRIPTS
    pages = sorted(path.stem for path in (ROOT / "docs" / "gallery").glob("*.md"))
    assert pages == sorted([*SCRIPTS, "index"])


def loaded(path):
    pytest.importorskip("matplotlib").use("Agg")
    spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:linear predictors are beyond 20")  # tumours that nobody would mistake
@pytest.mark.parametrize("name", SCRIPTS)
def test_example(name, tmp_path, capsys):
    found = loaded(ROOT / "examples" / f"{name}.py").main(tmp_path, quick=True)
    assert TRUE[name](found), found
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert capsys.readouterr().out


@pytest.mark.slow
def test_the_picture_of_the_model_adds_up(tmp_path):
    assert loaded(ROOT / "docs" / "figures" / "model.py").main(tmp_path) < 1e-10
    assert (tmp_path / "model.png").exists()
