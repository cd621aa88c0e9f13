"""mgcv (R): gam and bam, with main effects or all pairs, in a process of R's own (mgcv.R)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from ahofm.columns.basis import Floats
from benchmarks.measure import ONE_THREAD, OVER, MissingPeerError, OverCapError
from benchmarks.peers.task import Outcome, Task
from benchmarks.surfaces import NODES, Design, Pair

How: TypeAlias = Literal["gam", "bam", "discrete"]

SCRIPT = Path(__file__).with_name("mgcv.R")
BAM_FROM = 5_000
"""Rows from which on additive models are fitted by bam, whose estimates are the same."""


@dataclass(frozen=True)
class Fit:
    """An outcome, and the surfaces of all pairs, if there are any."""

    outcome: Outcome
    surfaces: dict[Pair, Floats]


def fit(
    task: Task,
    how: How,
    *,
    pairs: bool = False,
    n_basis: int = 20,
    design: Design | None = None,
) -> Fit:
    """Fit, predict, and evaluate the surfaces of a design.

    Cubic regression splines; smoothing parameters by REML for gam and by fREML for bam. ``discrete`` is bam with binned
    columns.
    """
    if shutil.which("Rscript") is None:
        raise MissingPeerError("R with mgcv is not installed; make bench-deps installs it from Debian's packages")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = task.train.X.assign(y=task.train.y)
        if task.train.exposure is not None:
            table["offset_"] = np.log(task.train.exposure)
        table.to_csv(folder / "train.csv", index=False)
        task.new.assign(**({} if task.train.exposure is None else {"offset_": 0.0})).to_csv(
            folder / "new.csv", index=False
        )
        if design is not None:
            pd.DataFrame({"node": design.nodes}).to_csv(folder / "grid.csv", index=False)
        settings = [f"method={how}", f"terms={'pairs' if pairs else 'main'}", f"basis={n_basis}"]
        done = subprocess.run(
            ["Rscript", str(SCRIPT), name, *settings, f"family={task.family}"],
            capture_output=True,
            text=True,
            env={**os.environ, **ONE_THREAD},
            check=False,
        )
        if done.returncode in OVER:
            raise OverCapError(how)
        if done.returncode:
            raise RuntimeError(" ".join(done.stderr.split())[-250:])
        seconds, cpu, megabytes, predict = map(float, (folder / "figures.txt").read_text().split())
        mean = np.loadtxt(folder / "predictions.csv", ndmin=1)
        surfaces = {}
        if design is not None:
            columns = np.loadtxt(folder / "surfaces.csv", delimiter=",", ndmin=2).T
            surfaces = {pair: c.reshape(NODES, NODES) for pair, c in zip(design.pairs, columns, strict=True)}
    cost = {"seconds": seconds, "cpu": cpu, "megabytes": megabytes, "predict_seconds": predict}
    return Fit(Outcome(mean, cost), surfaces)


def additive(task: Task) -> Outcome:
    """A generalised additive model; levels that training did not have count as its most frequent one."""
    how: How = "gam" if len(task.train.y) < BAM_FROM else "bam"
    return fit(task, how).outcome
