"""Seconds and memory of one fit in this process, and a process of its own for every unit of work."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

from threadpoolctl import threadpool_limits

from benchmarks.store import Measures

T = TypeVar("T")

ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "NUMEXPR", "VECLIB_MAXIMUM")}
"""Every method has one core."""

CAP = 1200
"""Seconds of processor time that a unit may take."""


class OverCapError(RuntimeError):
    """The processor time allowed is used up."""


class MissingPeerError(RuntimeError):
    """A peer is not installed; the message says what installs it."""


def taken(task: Callable[[], T]) -> tuple[T, dict[str, float]]:
    """A result, with the seconds it took, those of the processor, and the memory it needed on top of what was there."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak is that of what follows
    before, begun, begun_cpu = _status("VmRSS"), time.perf_counter(), time.process_time()
    found = task()
    seconds, cpu = time.perf_counter() - begun, time.process_time() - begun_cpu
    return found, {"seconds": seconds, "cpu": cpu, "megabytes": _status("VmHWM") - before}


def apart(task: Callable[[], Measures], cap: float = CAP) -> Measures:
    """Run a task in a process of its own, on one thread: a copy of this one, so that nothing is loaded again.

    A process that uses more than ``cap`` seconds of processor time is ended: its only measure is then
    ``status``, "over 1200 s". One that fails has its error there, and one whose peer is not installed says so.
    """
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(task, cap, there))
    process.start()
    there.close()
    try:
        found: Measures = here.recv()
    except EOFError:
        found = {}
    except BaseException:  # e.g. Ctrl-C: the process and its children end too
        with suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        raise
    process.join()
    if not found:
        over = process.exitcode in OVER
        found = {"status": f"over {cap:g} s" if over else f"failed: ended with exit code {process.exitcode}"}
    return found


def _child(task: Callable[[], Measures], cap: float, there: Connection) -> None:
    """Limit this process, run, send what is found or what went wrong."""
    os.setsid()
    os.environ.update(ONE_THREAD)
    resource.setrlimit(resource.RLIMIT_CPU, (int(cap), int(cap) + 5))
    try:
        with threadpool_limits(1):
            there.send({"status": "done", **task()})
    except OverCapError:
        there.send({"status": f"over {cap:g} s"})
    except (MissingPeerError, ModuleNotFoundError) as error:
        there.send({"status": f"missing: {error}"})
    except Exception as error:  # a unit that fails is a result, and does not stop the others
        there.send({"status": f"failed: {type(error).__name__}: {' '.join(str(error).split())}"[:300]})


OVER = (-signal.SIGXCPU, -signal.SIGKILL, 128 + signal.SIGXCPU, 128 + signal.SIGKILL)
"""How a process ends whose processor time is used up, itself or by way of a shell."""


def _status(field: str) -> float:
    """Of this process, in megabytes; where there is no /proc, the peak so far."""
    path = Path("/proc/self/status")
    if not path.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    line = next(line for line in path.read_text().splitlines() if line.startswith(field))
    return float(line.split()[1]) / 1024
