"""Files that are written whole or not at all, with the permissions that ``open`` would give them."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["check_writable", "replacing"]

_ROOM = 1 << 20
"""Bytes that a check wants to be there."""


@contextmanager
def replacing(
    path: str | os.PathLike[str],
    *,
    draft: Path | None = None,
    lock: Callable[[BinaryIO], None] | None = None,
    remedy: str = "make room or give another file",
) -> Iterator[Path]:
    """A draft beside a file, to be written; it takes the file's place once it is on the disk, and goes otherwise.

    A new file has the permissions that the umask leaves, one that was there keeps its own; links are followed.

    Parameters
    ----------
    path : path
    draft : path, optional
        A name in the same directory; a unique one by default.
    lock : function of the open draft, optional
        Called before the draft is written; the file stays open until all of it is on the disk.
    remedy : str
        What to do when it fails, for the error's message.

    Raises
    ------
    OSError
        Names the file. What was there before is still there.
    """
    target = _target(Path(path))
    draft = draft or _draft(target)
    try:
        with draft.open("xb") as held:
            if lock is not None:
                lock(held)
            if target.exists():
                draft.chmod(stat.S_IMODE(target.stat().st_mode))
            yield draft
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
        os.replace(draft, target)
    except OSError as error:
        if error.filename not in (None, str(draft)):  # of another file
            raise
        raise _named(error, path, remedy) from error
    finally:
        draft.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise OSError unless a file of a megabyte can be written there; what is there stays as it is."""
    target = _target(Path(path))
    draft = _draft(target)
    try:
        with draft.open("xb") as file:
            file.write(bytes(_ROOM))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _named(error, path) from error
    finally:
        draft.unlink(missing_ok=True)


def _target(path: Path) -> Path:
    """The file itself, where a path is a link to it."""
    if path.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a directory; give the name of a file")
    if path.exists() and not path.is_file():
        raise OSError(f"cannot write {path}: it is no regular file; give another name")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no directory {path.parent}; create it first")
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(f"cannot write {path}: the file is write-protected; allow it, or give another name")
    return path.resolve()


def _draft(target: Path) -> Path:
    return target.with_name(f".{secrets.token_hex(8)}.tmp")


def _named(error: OSError, path: str | os.PathLike[str], remedy: str = "make room or give another file") -> OSError:
    """The same error, of the file that was asked for and not of the draft; as one line without the number."""
    named = type(error)(f"cannot write {path}: {error.strerror or error}; {remedy}")
    named.errno = error.errno
    return named
