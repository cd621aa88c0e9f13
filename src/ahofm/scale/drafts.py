"""Drafts of the files of a store, which appear whole or not at all.

A writer holds a lock on its draft for as long as it lives. A draft without a lock is of a process that was killed,
and the next build removes it.
"""

from __future__ import annotations

import re
import secrets
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from ahofm import writing

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed: as good as a lock
    fcntl = None  # type: ignore[assignment]

_DRAFT = re.compile(r"\.(plan\.safetensors|manifest\.json|part-\d{5,}\.arrow|known-\d{5,}\.bin)\.[0-9a-f]{8}")


def replacing(path: Path) -> AbstractContextManager[Path]:
    """A name beside a file, which takes its place once it is on the disk, and goes when something fails."""
    return writing.replacing(
        path,
        draft=path.with_name(f".{path.name}.{secrets.token_hex(4)}"),
        lock=_lock_if_possible,
        remedy="what is complete stays: make room, run again",
    )


def remove_drafts(folder: Path) -> None:
    """Remove what killed builds have left in the folder of a store, and nothing else."""
    for item in folder.iterdir():
        if _DRAFT.fullmatch(item.name):
            with suppress(OSError), item.open("rb+") as file:  # locked: another build is at it
                _lock(file)
                item.unlink()


def _lock_if_possible(file: Any) -> None:
    with suppress(OSError):  # a file system without locks
        _lock(file)


def _lock(file: Any) -> None:
    if fcntl is not None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
