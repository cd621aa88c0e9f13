"""Speed against peers: seconds to fit and to predict, and the error that each reaches, as rows grow.

Ten columns, smooth main effects and three smooth pair interactions with noise of standard deviation 1 (those of
benchmarks.many_rows); the error is that of the mean at 100,000 new rows. All methods have one core. ``bam`` has
``discrete=TRUE``, all pairs and eight functions a column; pyGAM has no pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.data import Rows
from benchmarks.experiments.estimation import N_BASIS
from benchmarks.experiments.plan import Experiment, Planned
from benchmarks.many_rows import draw
from benchmarks.peers import mgcv
from benchmarks.peers.methods import METHODS
from benchmarks.peers.task import Outcome, Task, method
from benchmarks.store import Measures, Unit

RACED = ("order 2", "LightGBM", "XGBoost", "EBM", "pyGAM", "bam, pairs", "PyTorch")


def plan(quick: bool) -> Iterator[Planned]:
    """By size; a method that would pass the cap with ten times as many rows is not asked to."""
    sizes = (1000, 3000) if quick else (10**3, 10**4, 10**5, 10**6)
    raced = [name for name in RACED if not (quick and name in ("EBM", "bam, pairs", "PyTorch"))]
    for n in sizes:
        for name in raced:
            smaller = sizes[sizes.index(n) - 1] if n > sizes[0] else 0
            after = Unit("pairs of ten", name, f"n={smaller}") if smaller else None
            yield Planned(Unit("pairs of ten", name, f"n={n}"), after, n / smaller / 2 if smaller else 1.0)


def run(unit: Unit, _: Path | None) -> Measures:
    """Error and cost."""
    X, y, _mean = draw(int(unit.options()["n"]), 0)
    new, _y, mean = draw(100_000, 1)
    names = [f"x{j}" for j in range(X.shape[1])]
    found = _outcome(unit.method, Task(Rows(pd.DataFrame(X, columns=names), y), pd.DataFrame(new, columns=names)))
    return {"error": float(np.sqrt(np.mean((found.mean - mean) ** 2))), **found.cost}


def _outcome(name: str, task: Task) -> Outcome:
    if name == "bam, pairs":
        return mgcv.fit(task, "discrete", pairs=True, n_basis=N_BASIS).outcome
    if name == "PyTorch":
        from benchmarks.peers import torch_recipe  # noqa: PLC0415 - an optional peer

        return method(torch_recipe.afm)(task)
    return METHODS[name](task)


SPEED = Experiment("speed", plan, run, ("interpret-core", "lightgbm", "xgboost", "pygam", "torch"))
