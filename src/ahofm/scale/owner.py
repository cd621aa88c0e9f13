"""Whose folder it is: a build completes its own store, mends what is damaged in it, and leaves anything else alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from ahofm.scale.parts import StoreError, owner_of_part
from ahofm.scale.plan import MANIFEST, PLAN, VERSION, Plan, load_manifest

T = TypeVar("T")

_PART = re.compile(r"part-\d{5,}\.arrow")
_STORE = re.compile(rf"{re.escape(MANIFEST)}|{re.escape(PLAN)}|part-\d{{5,}}\.arrow|known-\d{{5,}}\.bin")


def intact(load: Callable[[], T]) -> T | None:
    """What a file holds; None when it is missing or damaged."""
    try:
        return load()
    except StoreError:
        return None


def refuse_others(folder: Path, identity: str) -> None:
    """Raise StoreError unless a folder is empty, or holds a store of this identity and nothing else.

    What is damaged has no owner: it is written again when something beside it tells whose it was.
    """
    names = sorted(item.name for item in folder.iterdir() if not item.name.startswith("."))
    owners = set(_owners(folder, names))
    strange = [name for name in names if not _STORE.fullmatch(name)]
    if strange or owners - {identity}:
        raise StoreError(
            f"{folder} holds something else ({(strange or names)[0]}), e.g. a store of other files or settings, "
            "or of an earlier version; remove it or give another folder"
        )
    if names and not owners:
        raise StoreError(f"{folder} holds files of which none tells whose it is ({names[0]}); delete them")


def _owners(folder: Path, names: list[str]) -> Iterator[str]:
    """Identities that intact files have in them; also of manifests of earlier versions."""
    for name in names:
        owner = None
        if name == MANIFEST:
            owner = _owner_of_manifest(folder / name)
        elif name == PLAN:
            plan = intact(lambda: Plan.load(folder / PLAN))
            owner = None if plan is None else plan.identity
        elif _PART.fullmatch(name):
            owner = owner_of_part(folder / name)
        if owner is not None:
            yield owner


def _owner_of_manifest(path: Path) -> str | None:
    try:
        facts = json.loads(path.read_text())
        if int(facts["version"]) == VERSION:
            return str(load_manifest(path.parent)["identity"])
        return str(facts["identity"])
    except (OSError, LookupError, TypeError, ValueError):
        return None
