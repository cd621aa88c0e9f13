"""What the documents show works as shown."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = [
    pytest.param(block, id=f"{path.name}-{k}")
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
    for k, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL))
]


def test_there_are_examples():
    assert BLOCKS


@pytest.mark.parametrize("block", BLOCKS)
def test_examples_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "example", "exec"), {})


def test_examples_print_what_they_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pattern = r"```python\n(.*?)```\n\nprints\n\n```\n(.*?)```"
    pages = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
    found = [pair for page in pages for pair in re.findall(pattern, page.read_text(), flags=re.DOTALL)]
    assert len(found) >= 2
    for block, printed in found:
        exec(compile(block, "example", "exec"), {})
        assert capsys.readouterr().out == printed


def test_every_make_target_is_explained():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.search(r"\.PHONY: (.*)", makefile)[1].split()) - {"help"}
    explained = set(re.findall(r'@echo "make ([\w-]+)', makefile)) | {"bench-kernel"}
    assert targets == explained
