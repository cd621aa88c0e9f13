"""What the documents show works as shown, and what they name exists."""

import ast
import csv
import importlib
import re
import shlex
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = r"```python\n(.*?)```(?:\n\nprints\n\n```\n(.*?)```)?"
BLOCKS = [
    pytest.param(block, printed, id=f"{path.name}-{k}")
    for path in PAGES
    for k, (block, printed) in enumerate(re.findall(BLOCK, path.read_text(), flags=re.DOTALL))
]


def test_there_are_examples():
    assert sum(bool(block.values[1]) for block in BLOCKS) >= 4


@pytest.mark.slow
@pytest.mark.parametrize(("block", "printed"), BLOCKS)
def test_examples_run_and_print_what_they_say(block, printed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "example", "exec"), {})
    if printed:
        assert capsys.readouterr().out == printed


def how_do_i():
    """The code in the last columns of the tables for newcomers."""
    table = [line for line in (ROOT / "docs" / "coming_from.md").read_text().splitlines() if line.startswith("| ")]
    found = (code for line in table for code in re.findall(r"`(.*?)`", line.split(" | ")[-1]))
    return list(dict.fromkeys(found))


@pytest.fixture(scope="module")
def newcomer():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=90),
            "b": rng.normal(size=90),
            "h": rng.uniform(0, 24, 90),
            "t": rng.choice(["red", "green"], 90),
            "z": rng.integers(1, 5, 90),
        }
    )
    names = {"X": X, "y": X.a * X.b + 0.1 * rng.normal(size=90), "n": rng.poisson(2.0, 90), "np": np}
    names |= {"e": rng.uniform(0.5, 1, 90), "w": rng.uniform(0.5, 1, 90), "c": rng.choice(["no", "yes"], 90)}
    for module in ("ahofm", "ahofm.explain", "ahofm.families", "ahofm.plot"):
        loaded = importlib.import_module(module)
        names |= {name: getattr(loaded, name) for name in loaded.__all__}
    for name in ("AHOFMRegressor", "AHOFMClassifier"):  # no search for the kind of interactions: it takes seconds
        names[name] = partial(names[name], factor_prior="spline")
    names["model"] = names["AHOFMRegressor"](order=2, random_state=0).fit(X, names["y"])
    return names | {"classifier": names["AHOFMClassifier"](order=1, random_state=0).fit(X, names["c"])}


@pytest.mark.slow
@pytest.mark.parametrize("code", how_do_i())
def test_what_newcomers_are_told_works(code, newcomer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    eval(code, newcomer)
    plt.close("all")


COMMANDS = {
    page.relative_to(ROOT).as_posix(): re.findall(
        r"^ahofm (?!demo)(.*?)(?:  #.*)?$", page.read_text(), flags=re.MULTILINE
    )  # make demo runs it
    for page in PAGES
}


@pytest.mark.slow
@pytest.mark.parametrize("page", [name for name, lines in COMMANDS.items() if lines])
def test_commands_run(page, tmp_path, monkeypatch):
    run = pytest.importorskip("ahofm.cli.app", reason="the command needs typer: pip install 'ahofm[cli]'").run
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"hour": rng.integers(0, 24, 120), "temp": rng.normal(size=120), "town": rng.choice(["a", "b"], 120)}
    )
    table.assign(price=np.sin(table.hour / 4) * table.temp + 0.1 * rng.normal(size=120)).to_csv(
        tmp_path / "train.csv", index=False
    )
    table.assign(id=range(120)).to_parquet(tmp_path / "new.parquet")
    monkeypatch.chdir(tmp_path)
    for line in COMMANDS[page]:
        assert run(shlex.split(line)) == 0, line
        written = re.findall(r"--(?:out|report) (\S+)", line)
        assert all(Path(name).stat().st_size for name in written), line


def test_targets_of_make_that_are_named_exist():
    targets = set(re.search(r"\.PHONY: (.*)", (ROOT / "Makefile").read_text())[1].split())
    for page in PAGES:
        text = page.read_text()
        fenced = "".join(re.findall(r"```\n(.*?)```", text, flags=re.DOTALL))
        named = {
            *re.findall(r"`make ([a-z-]+[a-z])", text),
            *re.findall(r"^make ([a-z-]+)", fenced, flags=re.MULTILINE),
        }
        assert named - {"bench"} <= targets, page.name


def test_every_make_target_is_explained():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.search(r"\.PHONY: (.*)", makefile)[1].split()) - {"help"}
    explained = set(re.findall(r'@echo "make ([\w-]+)', makefile)) | {"bench-kernel"}
    assert targets == explained


# Code is named as `src/path.py` `name`, `other`: the names are of that file.
NAMED = [
    pytest.param(path, names, id=f"{page.name}-{path}")
    for page in PAGES
    for path, names in re.findall(
        r"`((?:src|examples|benchmarks|tests)/[\w./]*)`((?:,?\s+`[\w.]+`)*)", page.read_text()
    )
]


def names_in(path):
    """Functions, classes, their methods and constants of a Python file; all words of another."""
    text = path.read_text()
    if path.suffix != ".py":
        return set(re.findall(r"\w+", text))
    found = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


@pytest.mark.parametrize(("path", "names"), NAMED)
def test_code_that_is_named_exists(path, names):
    assert (ROOT / path).exists()
    wanted = set(re.findall(r"`([\w.]+)`", names))
    assert not wanted or wanted <= names_in(ROOT / path)


def test_the_mathematics_name_their_code():
    page = (ROOT / "docs" / "mathematics.md").read_text()
    assert len(re.findall(r"`src/[\w./]+` `", page)) > 30


LINKS = [
    pytest.param(page, target, id=f"{page.name}-{target}")
    for page in PAGES
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL))
    if not target.startswith(("http:", "https:", "#"))
]


@pytest.mark.parametrize(("page", "target"), LINKS)
def test_links_resolve(page, target):
    assert (page.parent / target.split("#")[0]).exists()


MODULES = ["ahofm", "ahofm.explain", "ahofm.export", "ahofm.families", "ahofm.plot", "ahofm.report"]


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_is_complete(module):
    listed = set(re.findall(r"^::: ([\w.]+)$", (ROOT / "docs" / "api.md").read_text(), flags=re.MULTILINE))
    last = {name.rsplit(".", 1)[1] for name in listed if name.startswith(module + ".")}
    loaded = importlib.import_module(module)
    assert {name for name in loaded.__all__ if callable(getattr(loaded, name))} <= last


def test_cards_of_the_gallery_have_thumbnails_that_can_be_read():
    """One panel of each figure, where the gallery says so, and small files."""
    index = ROOT / "docs" / "gallery" / "index.md"
    shown = [
        index.parent / name for name in re.findall(r"\((\.\./figures/gallery/thumbnails/[^)]+)\)", index.read_text())
    ]
    assert len(shown) >= 9
    for path in shown:
        assert path.stat().st_size < 60_000, path.name
        assert (path.parents[1] / path.name).exists(), path.name


def test_bands_beside_mgcv_are_those_that_were_measured():
    results = ROOT / "benchmarks" / "results" / "mgcv_bands.csv"
    if not results.exists():
        pytest.skip("a source distribution has no results of benchmarks")
    with results.open(newline="") as file:
        measured = {(row["design"], row["terms"], row["method"]): row for row in csv.DictReader(file)}
    kinds = {"Curves": "curves", "Columns without an effect": "no effect", "Surfaces of pairs": "surfaces"}
    kinds["Linear predictors of new rows"] = "rows"
    seen = 0
    for part in (ROOT / "docs" / "mgcv_bands.md").read_text().split("\n## ")[1:]:
        for line in part.splitlines():
            if not line.startswith("| ") or line.startswith("| |"):
                continue
            name, count, *numbers = line.strip("| ").split(" | ")
            own = [
                measured[name, kinds[part.splitlines()[0]], method]
                for method in ("ahofm", "mgcv", "mgcv, unconditional")
            ]
            assert count == own[0]["replications"]
            expected = [*(f"{float(row['held']):.1f}" for row in own), *(f"{float(row['width']):.3f}" for row in own)]
            assert numbers == [*expected, *(f"{float(row['rmse']):.3f}" for row in own[:2])]
            seen += 1
    assert seen == sum(method == "ahofm" for _, _, method in measured)
