"""What releases are made of: the conda recipe, the oldest versions and the workflows follow the package."""

import re
import shutil
import subprocess
from importlib.metadata import requires
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
yaml = pytest.importorskip("yaml")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def own_requirements(extra=None):
    found = {}
    for line in requires("ahofm") or []:
        needed, _, condition = line.partition(";")
        if (f"extra == '{extra}'" in condition.replace('"', "'")) if extra else not condition:
            name, least = re.fullmatch(r"([\w-]+)\W*>=([\d.]+).*", needed.strip()).groups()
            found[name.lower()] = least
    return found


def recipe():
    return yaml.safe_load((ROOT / "packaging" / "recipe.yaml").read_text())


def bounds(lines):
    return dict(re.fullmatch(r"([\w-]+) >=([\d.]+)", line).groups() for line in lines if " " in line)


def test_the_conda_recipe_asks_for_what_the_package_asks():
    found = recipe()
    settings = (ROOT / "pyproject.toml").read_text()
    python = {"python": re.search(r'^requires-python = ">=([\d.]+)"$', settings, re.MULTILINE)[1]}
    run = bounds(found["requirements"]["run"])
    run["matplotlib"] = run.pop("matplotlib-base")
    assert run == own_requirements() | own_requirements("cli") | python
    (built,) = re.findall(r"^requires = \[(.*)\]$", settings, re.MULTILINE)
    least = dict(re.findall(r'"([\w-]+)>=([\d.]+)"', built))
    assert bounds(found["requirements"]["host"]) == least | python
    assert (
        f"ahofm = {re.search(r'ahofm = .(ahofm[.]cli:main)', settings)[1]}" in found["build"]["python"]["entry_points"]
    )
    for name in ("license", "description"):
        said = found["about"]["summary" if name == "description" else name]
        assert f'{name} = "{said}"' in settings, name
    assert (ROOT / found["about"]["license_file"]).is_file()
    (minimum,) = re.findall(r"cmake_minimum_required\(VERSION ([\d.]+?)\.\.\.", (ROOT / "CMakeLists.txt").read_text())
    assert f"cmake >={minimum}" in found["requirements"]["build"]


@pytest.mark.parametrize(("tag", "version"), [(None, "0.1.0"), ("v0.2.1", "0.2.1")])
def test_the_conda_recipe_is_rendered_with_the_version_of_the_tag(monkeypatch, tag, version):
    rattler_build = pytest.importorskip("rattler_build")
    monkeypatch.delenv("GIT_DESCRIBE_TAG", raising=False)
    if tag:
        monkeypatch.setenv("GIT_DESCRIBE_TAG", tag)
    (variant,) = rattler_build.Stage0Recipe.from_file(ROOT / "packaging" / "recipe.yaml").render(
        rattler_build.VariantConfig()
    )
    found = variant.recipe.to_dict()
    assert found["package"] == {"name": "ahofm", "version": version}
    assert found["build"]["script"]["env"] == {"SETUPTOOLS_SCM_PRETEND_VERSION": version}
    assert found["requirements"]["run"] == recipe()["requirements"]["run"]


def test_the_oldest_versions_are_those_that_are_asked_for():
    pins = dict(re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / "packaging" / "oldest.txt").read_text(), re.MULTILINE))
    for name, least in own_requirements().items():
        assert pins[name].split(".")[: len(least.split("."))] == least.split("."), name


@pytest.mark.skipif(shutil.which("make") is None, reason="without make")
def test_make_installs_what_the_package_and_its_command_ask_for(tmp_path):
    subprocess.run(
        ["make", f"VENV={tmp_path}", f"{tmp_path}/requirements.txt"], cwd=ROOT, check=True, capture_output=True
    )
    lines = (tmp_path / "requirements.txt").read_text().split()
    assert dict(line.split(">=") for line in lines) == own_requirements() | own_requirements("cli")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_what_there_is(path):
    text = path.read_text()
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    jobs = yaml.safe_load(text)["jobs"]
    assert set(re.findall(r"\bmake ([\w-]+)", text)) <= targets
    for name, job in jobs.items():
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= set(jobs), name
        steps = [step.get("uses", "") for step in job["steps"]]
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, name
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+@[\w./-]+", one) for one in steps if one), name


def test_what_cibuildwheel_tests_is_there():
    (command,) = re.findall(r"^test-command = '(.*?)'", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    folders = [place for place in re.findall(r"\{project\}/([\w/]+)", command) if place.startswith("tests")]
    assert folders
    assert all((ROOT / place).is_dir() for place in folders)
