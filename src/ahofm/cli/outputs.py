"""Files that a command is about to write: that it can, and that they are none of those it reads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

from ahofm.cli.errors import CommandError
from ahofm.writing import check_writable


def check_outputs(outputs: Mapping[str, Path | None], inputs: Sequence[Path], *, written: bool = True) -> None:
    """Raise CommandError before any work is done; outputs by the options that name them.

    A file of a megabyte can be written in the place of each, unless nothing is to be ``written``.
    """
    given = {option: path for option, path in outputs.items() if path is not None}
    for (option, path), (other, second) in combinations(given.items(), 2):
        if _same(path, second):
            raise CommandError(f"{option} and {other} are the same file, {path}; give two names")
    for option, path in given.items():
        for source in inputs:
            if _same(path, source) or _within(path, source):
                raise CommandError(f"{option} {path} would overwrite what is read from {source}; give another name")
        try:
            if written:
                check_writable(path)
        except OSError as error:
            raise CommandError(f"{option}: {error}") from error


def _same(one: Path, other: Path) -> bool:
    """Also by links, soft and hard."""
    if one.exists() and other.exists():
        return os.path.samefile(one, other)
    return one.resolve() == other.resolve()


def _within(path: Path, folder: Path) -> bool:
    """Whether it is a file of a folder of files."""
    return folder.is_dir() and path.is_file() and path.resolve().is_relative_to(folder.resolve())
