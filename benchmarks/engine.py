"""What a default fit costs: this version against another one, EBM and LightGBM, on one thread and on all.

``make bench-engine DATA=folder`` installs the version to compare with beside this one, prints ratios within the run,
and writes benchmarks/results/engine_<cores>.csv with the machine. Every fit has a process of its own
(benchmarks.engine_fit); seconds are of the clock and of the processor. Fits of the version to compare with, of which
only processor seconds count, run first and side by side, each on one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.table import Row, finish, require, show

_FIT = Path(__file__).with_name("engine_fit.py")

JOBS = ("concrete", "california", "adult", "glass", "segment", "vowel", "million")

_OF_BASE = {"concrete": 1 / 8, "california": 1 / 5, "adult": 1 / 8, "glass": 1 / 10, "segment": 1 / 10, "vowel": 1 / 10}
"""Processor seconds on one thread, as a fraction of those of the version to compare with, at most."""

_OF_PEER = {("concrete", "ebm", 2): 40.0, ("million", "lightgbm", 16): 1 / 3}
"""Seconds of the clock of a peer over ours, at least, by job, peer and number of threads."""

_JOBS_OF_PEER = {"ebm": ("concrete",)}
"""Jobs of peers that are not raced in all of them, for their time."""


def measured(job: str, model: str, threads: int, data: Path, path: Path | None = None) -> dict[str, float] | None:
    """Seconds and error of one fit; None when it took too long or the package is not there."""
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    command = [sys.executable, str(_FIT), job, model, str(threads), str(data), *([] if path is None else [str(path)])]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        print(f"{job}, {model}, {threads} thread(s): {type(error).__name__}", flush=True)
        return None
    return dict(json.loads(done.stdout.splitlines()[-1]))


def of_base(given: argparse.Namespace, cores: int) -> dict[str, dict[str, float] | None]:
    """What the version to compare with takes for each job."""
    jobs = [job for job in given.jobs if given.base and (given.base_jobs is None or job in given.base_jobs)]
    with ThreadPoolExecutor(max(cores // 2, 1)) as pool:  # half of the cores: two may share their units
        found = list(pool.map(lambda job: measured(job, "ahofm", 1, given.data, given.base), jobs))
    return dict(zip(jobs, found, strict=True))


def one_job(job: str, given: argparse.Namespace, threads: Sequence[int], base: Mapping[str, float] | None) -> list[Row]:
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
    first, eight, sixteen = own.get(1), own.get(8), own.get(16)
    if first is not None and eight is not None:
        rows.append(require(f"{job}: clock, 1 thread over 8", first["clock"] / eight["clock"], "x", least=5.0))
    if eight is not None and sixteen is not None:
        rows.append(require(f"{job}: clock, 16 threads over 8", sixteen["clock"] / eight["clock"], "x", most=1.05))
    if base is not None and first is not None:
        bound = _OF_BASE.get(job)
        fraction = first["processor"] / base["processor"]
        rows.append(require(f"{job}: processor, of the version before", fraction, "x", most=bound))
        rows.append(Row(f"{job}: error, of the version before", first["error"] / base["error"], "x"))
    for peer in (name for name in given.peers if job in _JOBS_OF_PEER.get(name, JOBS)):
        for count in (1, max(threads)):
            found, ours = measured(job, peer, count, given.data), own.get(count)
            if found is not None and ours is not None:
                ratio, least = found["clock"] / ours["clock"], _OF_PEER.get((job, peer, count))
                rows.append(require(f"{job}: clock of {peer} over ours, {count} thread(s)", ratio, "x", least=least))
                if count == 1:
                    rows.append(Row(f"{job}: our error over that of {peer}", ours["error"] / found["error"], "x"))
    return rows


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the data sets")
    parser.add_argument("--base", type=Path, help="folder that offers the version to compare with")
    parser.add_argument("--jobs", nargs="*", default=list(JOBS))
    parser.add_argument("--base-jobs", nargs="*", help="jobs of the version to compare with; all by default")
    parser.add_argument("--threads", nargs="*", type=int, help="by default 1, 2, 4, ... up to all cores")
    parser.add_argument("--peers", nargs="*", default=["lightgbm", "ebm"])
    given = parser.parse_args()
    cores = os.cpu_count() or 1
    threads = given.threads or [count for count in (1, 2, 4, 8, 16, 32) if count <= cores]
    table: list[Row] = []
    base = of_base(given, cores)
    for job in given.jobs:
        table += (rows := one_job(job, given, threads, base.get(job)))
        show(rows)
    return finish(f"engine_{cores}", table, ("lightgbm", "interpret-core"), written=set(JOBS) <= set(given.jobs))


if __name__ == "__main__":
    sys.exit(main())
