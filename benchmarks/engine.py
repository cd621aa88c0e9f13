"""What a default fit costs: this version against another one, EBM and LightGBM, on one thread and on all.

``make bench-engine DATA=folder`` installs the version to compare with beside this one, prints ratios within the run,
and writes benchmarks/results/engine_<cores>.csv with the machine. Every fit has a process of its own
(benchmarks.engine_fit) and four fifths of the rows; seconds are of the clock and of the processor.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.table import Row, finish, require, show

_FIT = Path(__file__).with_name("engine_fit.py")

JOBS = ("concrete", "california", "adult", "glass", "segment", "vowel", "million")

_OF_BASE = {"concrete": 1 / 8, "california": 1 / 5, "adult": 1 / 8, "glass": 1 / 10, "segment": 1 / 10, "vowel": 1 / 10}
"""Processor seconds on one thread, as a fraction of those of the version to compare with, at most."""


def measured(job: str, model: str, threads: int, data: Path, path: Path | None = None) -> dict[str, float] | None:
    """Seconds and error of one fit; None when it took too long or the package is not there."""
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    if path is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(path), *environment.get("PYTHONPATH", "").split(os.pathsep)])
    command = [sys.executable, str(_FIT), job, model, str(threads), str(data)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        print(f"{job}, {model}, {threads} thread(s): {type(error).__name__}", flush=True)
        return None
    return dict(json.loads(done.stdout.splitlines()[-1]))


def one_job(job: str, given: argparse.Namespace, threads: Sequence[int]) -> list[Row]:
    """All that is measured of one data set."""
    own = {count: measured(job, "ahofm", count, given.data) for count in threads}
    rows = [
        Row(f"{job}: {name}, {count} thread(s)", found[name], "s" if name != "error" else "")
        for count, found in own.items()
        if found is not None
        for name in ("clock", "processor", "error")
        if name != "error" or count == 1
    ]
    for count, found in own.items():
        if found is not None:
            ratio = found["processor"] / (count * found["clock"])
            rows.append(require(f"{job}: processor over clock x {count}", ratio, "", most=1.1))
    first, eight = own.get(1), own.get(8)
    if first is not None and eight is not None:
        rows.append(require(f"{job}: clock, 1 thread over 8", first["clock"] / eight["clock"], "x", least=5.0))
    base = measured(job, "ahofm", 1, given.data, given.base) if given.base else None
    if base is not None and first is not None:
        bound = _OF_BASE.get(job)
        fraction = first["processor"] / base["processor"]
        rows.append(require(f"{job}: processor, of the version before", fraction, "x", most=bound))
        rows.append(Row(f"{job}: error, of the version before", first["error"] / base["error"], "x"))
    for peer in given.peers:
        for count in (1, max(threads)):
            found, ours = measured(job, peer, count, given.data), own.get(count)
            if found is not None and ours is not None:
                rows.append(
                    Row(f"{job}: clock of {peer} over ours, {count} thread(s)", found["clock"] / ours["clock"], "x")
                )
                if count == 1:
                    rows.append(Row(f"{job}: our error over that of {peer}", ours["error"] / found["error"], "x"))
    return rows


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the data sets")
    parser.add_argument("--base", type=Path, help="folder that offers the version to compare with")
    parser.add_argument("--jobs", nargs="*", default=list(JOBS))
    parser.add_argument("--threads", nargs="*", type=int, help="by default 1, 2, 4, ... up to all cores")
    parser.add_argument("--peers", nargs="*", default=["lightgbm", "ebm"])
    given = parser.parse_args()
    cores = os.cpu_count() or 1
    threads = given.threads or [count for count in (1, 2, 4, 8, 16, 32) if count <= cores]
    table: list[Row] = []
    for job in given.jobs:
        table += (rows := one_job(job, given, threads))
        show(rows)
    return finish(f"engine_{cores}", table, ("lightgbm", "interpret-core"), written=set(JOBS) <= set(given.jobs))


if __name__ == "__main__":
    sys.exit(main())
