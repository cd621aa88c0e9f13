"""Data flows one way and imports point against it; the public names are few and stable."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ahofm

SOURCE = Path(__file__).parents[1] / "src" / "ahofm"

# From the data to the person. A stage may import itself and the stages before it, nothing later.
FLOW = [
    "_native",
    "writing",
    "orders",
    "threads",
    "columns",
    "kernels",
    "rows",
    "scale",
    "families",
    "tuning",
    "backends",
    "model",
    "priors",
    "training",
    "shared_curves",
    "fit",
    "cost",
    "inference",
    "estimators",
    "explain",
    "plot",
    "export",
    "report",
    "cli",
]

FILES = sorted(SOURCE.rglob("*.py"))


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where a name comes from"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def stage_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_every_file_belongs_to_a_stage():
    assert {stage_of(path) for path in FILES} <= {*FLOW, "__init__", "__main__"}


# A method that hands over to a later stage, and imports it when it is called.
HANDED_OVER = {
    ("estimators/shown.py", name)
    for name in (
        "explain.shares.importances",
        "explain.summary",
        "explain.html.fitted_html",
        "plot.DiagnosticsDisplay",
        "plot.EffectsDisplay",
        "report.report",
        "report.write",
    )
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_against_the_flow(path):
    stage = stage_of(path)
    allowed = FLOW if stage in ("__init__", "__main__") else FLOW[: FLOW.index(stage) + 1]
    for name in imported_modules(path):
        if (
            name.startswith("ahofm.")
            and (path.relative_to(SOURCE).as_posix(), name.removeprefix("ahofm.")) not in HANDED_OVER
        ):
            assert name.split(".")[1] in allowed, f"{path.relative_to(SOURCE)} imports {name}, which comes later"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_few_files_touch_the_compiled_module(path):
    touches = any(name.startswith("ahofm._native") for name in imported_modules(path))
    few = ("columns/codebook.py", *(f"kernels/native{part}.py" for part in ("", "_row_states", "_curves", "_engine")))
    assert touches == (str(path.relative_to(SOURCE)) in few)


KERNELS = {
    f"{who}{what}"
    for who in ("Native", "Reference")
    for what in ("Kernel", "RowStateKernel", "Curves", "Engine", "RowState")
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_kernels_are_made_by_backends_only(path):
    if stage_of(path) in ("kernels", "backends"):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        called = node.func if isinstance(node, ast.Call) else None
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
        assert name not in KERNELS, f"{path.relative_to(SOURCE)}, line {node.lineno}: {name} is for a backend to make"
    assert not any(name.rpartition(".")[2] in KERNELS for name in imported_modules(path))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_hold_one_idea(path):
    assert len(path.read_text().splitlines()) <= 400


def test_public_names():
    estimators = ["AHOFMClassifier", "AHOFMHazard", "AHOFMRegressor"]
    kinds = ["Categorical", "Cyclic", "Date", "Linear", "RandomWalk", "Spline", "SplineIID"]
    assert ahofm.__all__ == [*estimators, *kinds, "__version__", "forecast", "load"]
    for name in ahofm.__all__:
        assert hasattr(ahofm, name)


def test_every_package_lists_its_names():
    for stage in set(FLOW[1:]) - {"tuning", "class_tuning"}:  # constants: all of its names
        package = __import__(f"ahofm.{stage}", fromlist=["__all__"])
        assert package.__all__ == sorted(package.__all__, key=lambda name: (not name.isupper(), name))
        assert all(hasattr(package, name) for name in package.__all__)


def test_the_fit_can_be_read_in_an_afternoon():
    modules = [path for path in FILES if stage_of(path) == "fit" and path.name != "__init__.py"]
    assert len(modules) <= 25


def test_who_only_predicts_imports_no_solvers():
    """They are a third of the modules, and would be a third of the time of the import."""
    code = "import sys, ahofm; print(*(name for name in sys.modules if name.startswith('ahofm.')))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "ahofm.estimators.regressor" in found
    assert not {name.split(".")[1] for name in found} & {"fit", "shared_curves", "cost", "report", "export", "plot"}
