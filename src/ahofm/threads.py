"""How many threads a call may use: what it was told, what its caller was told, or the cores that are there for it.

Workers of joblib, and of others that set ``OMP_NUM_THREADS`` for theirs, share the cores: what is called in one of them
uses its part, as NumPy and scikit-learn do. A number that was asked for is obeyed, up to the cores there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import joblib
from joblib.parallel import get_active_backend

__all__ = ["available", "checked", "cores", "limited", "obeys_n_jobs", "thread_count"]

P = ParamSpec("P")
T = TypeVar("T")

_LIMIT: ContextVar[int | None] = ContextVar("ahofm_threads", default=None)


def cores() -> int:
    """Cores that this process may use, by affinity, control groups and ``LOKY_MAX_CPU_COUNT``."""
    return max(int(joblib.cpu_count()), 1)


def available() -> int:
    """Threads where no number was asked for: all cores, or the part of a worker."""
    told = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if told.isdecimal() and int(told) > 0:
        return min(int(told), cores())
    backend, _ = get_active_backend()
    return 1 if (getattr(backend, "nesting_level", 0) or 0) > 0 else cores()


def thread_count(n_threads: int | None = None) -> int:
    """A number, or that of the call that one is in, or what is available."""
    if n_threads is not None:
        return n_threads
    limit = _LIMIT.get()
    return available() if limit is None else limit


@contextmanager
def limited(count: int) -> Iterator[None]:
    """What is called inside uses so many threads unless it is told another number."""
    token = _LIMIT.set(count)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def obeys_n_jobs(function: Callable[P, T]) -> Callable[P, T]:
    """For methods of estimators, and functions whose first argument may be one: all they call obeys its ``n_jobs``."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        threads: Callable[[], int] | None = getattr(args[0], "_threads", None) if args else None
        if threads is None:
            return function(*args, **kwargs)
        with limited(threads()):
            return function(*args, **kwargs)

    return call


def checked(n_jobs: Any) -> int:
    """Threads for ``n_jobs``: None is what is available, -1 all cores; never more than there are."""
    if n_jobs is None:
        return available()
    if isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__") or (n_jobs < 1 and n_jobs != -1):
        raise ValueError(f"n_jobs must be None, -1 or a positive integer, got {n_jobs!r}")
    return cores() if n_jobs == -1 else min(int(n_jobs), cores())
