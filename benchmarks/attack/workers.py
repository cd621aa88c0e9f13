"""Cases in a process of their own: one that dies or does not end is counted, and another takes its place."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from benchmarks.attack.outcome import CRASH, HANG, UNDOCUMENTED

Attempt: TypeAlias = Callable[[int], tuple[str, str]]
"""The outcome of a case, by its number, and what was seen."""

SECONDS = 30.0
"""A case may take this long."""

_MEMORY = 12 << 30
"""Bytes of addresses that a worker may have: a damaged size is a MemoryError, not the end of the machine."""


def run_cases(make: Callable[[], Attempt], cases: Iterator[int], limit: float) -> Iterator[tuple[int, str, str]]:
    """Number, outcome and what was seen of each case, until time is up. ``make`` prepares a worker for its cases."""
    worker, begun = _Worker(make), time.monotonic()
    try:
        for case in cases:
            if time.monotonic() - begun > limit:
                return
            outcome, seen = worker.attempt(case)
            yield case, outcome, seen
            if outcome in (CRASH, HANG):
                worker.end()
                worker = _Worker(make)
    finally:
        worker.end()


class _Worker:
    def __init__(self, make: Callable[[], Attempt]) -> None:
        context = multiprocessing.get_context("spawn")
        self._mine, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(make, theirs), daemon=True)
        self._process.start()
        theirs.close()
        if not self._mine.poll(300.0):
            raise RuntimeError("a worker was not ready after 300 s")
        self._mine.recv()

    def attempt(self, case: int) -> tuple[str, str]:
        try:
            self._mine.send(case)
            if not self._mine.poll(SECONDS):
                return HANG, f"no answer after {SECONDS:g} s"
            found: tuple[str, str] = self._mine.recv()
            return found
        except (EOFError, OSError):
            self._process.join(10.0)
            return CRASH, f"exit status {self._process.exitcode}"

    def end(self) -> None:
        self._mine.close()
        self._process.join(2.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(make: Callable[[], Attempt], pipe: Connection[Any, Any]) -> None:
    with suppress(ImportError):
        import resource  # noqa: PLC0415 - not on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    attempt = make()
    pipe.send("ready")
    while True:
        try:
            case = pipe.recv()
        except EOFError:
            return
        try:
            found = attempt(case)
        except Exception as error:
            found = UNDOCUMENTED, f"{type(error).__name__}: {str(error)[:200]}"
        pipe.send(found)
