"""One BLAS thread while any public call runs, however many of them overlap.

The number of BLAS threads belongs to the process, and sums of matrix products depend on it: results that are equal to
the bit need the same number whatever else runs. The first call to enter saves the number and sets it to one, the last
one to leave restores it. Calls that each saved and restored on their own would, when they overlap, restore the one.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from threadpoolctl import ThreadpoolController

_Numbers: TypeAlias = list[tuple[Any, int]]


class _Limit:
    """Who is inside, and what to restore. Every step may be taken again after an interrupt.

    Most libraries have one number for the process. Where BLAS runs on OpenMP every thread has its own: every thread
    that computes then has to enter, and restores its own number.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._inside: dict[object, int] = {}  # thread of each call
        self._saved: _Numbers | None = None
        self._saved_by_thread: dict[int, _Numbers] = {}
        self._found: tuple[int, list[Any]] = (0, [])

    def enter(self, call: object) -> None:
        with self.lock:
            thread = self._inside[call] = threading.get_ident()
            if self._saved is None:
                self._saved = _numbers(self._libraries(per_thread=False))
                _set([(library, 1) for library, _ in self._saved])
            if thread not in self._saved_by_thread and (libraries := self._libraries(per_thread=True)):
                self._saved_by_thread[thread] = _numbers(libraries)
                _set([(library, 1) for library in libraries])

    def leave(self, call: object) -> None:
        with self.lock:
            self._inside.pop(call, None)
            self._restore_if_last()

    def after_fork(self) -> None:
        """In the child, which has the forking thread, and with it the lock, but none of the others."""
        survivor = threading.get_ident()
        self._inside = {call: thread for call, thread in self._inside.items() if thread == survivor}
        self._restore_if_last()
        self.lock.release()

    def _restore_if_last(self) -> None:
        thread = threading.get_ident()
        if thread in self._saved_by_thread and thread not in self._inside.values():
            _set(self._saved_by_thread[thread])
            del self._saved_by_thread[thread]
        if not self._inside and self._saved is not None:
            _set(self._saved)
            self._saved = None

    def _libraries(self, *, per_thread: bool) -> list[Any]:
        """BLAS libraries of the process; looked for again, which takes milliseconds, when something was imported."""
        imported = len(sys.modules)
        if self._found[0] != imported:
            libraries = ThreadpoolController().lib_controllers
            self._found = imported, [library for library in libraries if library.user_api == "blas"]
        return [item for item in self._found[1] if (getattr(item, "threading_layer", "") == "openmp") == per_thread]


def _numbers(libraries: list[Any]) -> _Numbers:
    return [(library, library.get_num_threads()) for library in libraries]


def _set(numbers: _Numbers) -> None:
    for library, number in numbers:
        if library.get_num_threads() != number:
            # Newer threadpoolctl lets one thread set the number of a process, and others silently do nothing.
            release = getattr(library, "clear_controlling_thread", None)
            if release is not None:
                release(force=True)
            library.set_num_threads(number)
            if release is not None:
                release(force=True)


_LIMIT = _Limit()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_LIMIT.lock.acquire, after_in_parent=_LIMIT.lock.release, after_in_child=_LIMIT.after_fork
    )


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """While inside, BLAS has one thread in the whole process. May be nested, overlap in threads, and decorate."""
    call = object()
    try:
        _LIMIT.enter(call)
        yield
    finally:
        try:
            _LIMIT.leave(call)
        except BaseException:  # an interrupt on the way out
            _LIMIT.leave(call)
            raise
