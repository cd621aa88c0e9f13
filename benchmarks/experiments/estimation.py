"""Estimation and prediction (the paper's 5.1 and 5.2): surfaces of all pairs of five columns against mgcv's exact fit.

Five uniform columns, a surface for each of ten pairs, twice as much noise variance as signal. mgcv has a main effect
per column and ``ti`` terms for all pairs, cubic splines of eight functions a column, smoothing parameters by fREML
(``bam``; ``gam`` with REML gives the same surfaces in twenty times the time). This library has splines of as many
functions and one member; and, since the size of a basis costs it next to nothing, with its usual 20 functions. Its rule
for how much to prune under much noise was settled on seeds 200 and above.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from ahofm.columns.basis import Floats
from benchmarks.data import Rows
from benchmarks.experiments.plan import Experiment, Planned
from benchmarks.measure import taken
from benchmarks.peers import mgcv, own
from benchmarks.peers.task import Task
from benchmarks.store import Measures, Unit
from benchmarks.surfaces import Design, Pair, pure

N_BASIS = 8
RANKS = (1, 5, 10, 15)
USUAL_BASIS = 20
SHOWN = 5
"""Surfaces of the first of the replications are kept on the grid, for these many pairs."""


def plan(quick: bool) -> Iterator[Planned]:
    """Ten replications of three sizes; the quick version has two of one."""
    for replication in range(2 if quick else 10):
        for shapes in ("general", "products"):
            for n in (1000,) if quick else (2000, 4000, 8000):
                yield Planned(Unit(shapes, "mgcv", f"n={n}", replication))
                for rank in RANKS:
                    yield Planned(Unit(shapes, "ahofm", f"n={n} rank={rank}", replication))
                for rank in RANKS[1:]:
                    yield Planned(Unit(shapes, "ahofm", f"n={n} rank={rank} basis={USUAL_BASIS}", replication))


def run(unit: Unit, _: Path | None) -> Measures:
    """Error of every surface, of predictions of the mean, and the cost."""
    options = unit.options()
    design = Design(5, unit.problem)
    n = int(options["n"])
    X, y, _mean = design.draw(n, unit.replication)
    new, _y, mean = design.draw(10_000, 1_000 + unit.replication)
    if unit.method == "mgcv":
        surfaces, predicted, cost = by_mgcv(design, X, y, new, "bam")
    else:
        n_basis = int(options.get("basis", N_BASIS))
        surfaces, predicted, cost = by_ahofm(design, X, y, new, int(options["rank"]), n_basis)
    found: dict[str, float | str] = {f"surface {i + 1} {j + 1}": e for (i, j), e in design.errors(surfaces).items()}
    found |= {"surfaces": float(np.mean(list(found.values()))), "prediction": float(np.mean((predicted - mean) ** 2))}
    kept = unit.replication == 0 and n == 2000 and unit.problem == "general"
    if kept and (unit.method == "mgcv" or options["rank"] == "15"):
        found |= {f"grid {i + 1} {j + 1}": packed(surfaces[i, j]) for i, j in design.pairs[:SHOWN]}
    return {**found, **cost}


def by_mgcv(
    design: Design, X: Floats, y: Floats, new: Floats, how: mgcv.How
) -> tuple[dict[Pair, Floats], Floats, dict[str, float]]:
    """Surfaces, predictions and cost of mgcv's fit with all pairs."""
    names = [f"x{j}" for j in range(design.p)]
    task = Task(Rows(pd.DataFrame(X, columns=names), y), pd.DataFrame(new, columns=names))
    found = mgcv.fit(task, how, pairs=True, n_basis=N_BASIS, design=design)
    return found.surfaces, found.outcome.mean, found.outcome.cost


def by_ahofm(
    design: Design, X: Floats, y: Floats, new: Floats, rank: int, n_basis: int = N_BASIS
) -> tuple[dict[Pair, Floats], Floats, dict[str, float]]:
    """The same of this library's."""
    model, cost = taken(lambda: own.splines(X, y, n_basis=n_basis, rank=rank))
    predicted = model.predict(pd.DataFrame(new, columns=[f"x{j}" for j in range(design.p)]))
    return own.surfaces_of(model, design), np.asarray(predicted), cost


def packed(surface: Floats) -> str:
    """A pure surface as text: its values, three digits each, row by row."""
    return " ".join(f"{value:.3g}" for value in pure(surface).ravel())


def unpacked(text: str) -> Floats:
    """A square surface from its text."""
    values = np.array(text.split(), dtype=np.float64)
    side = int(np.sqrt(len(values)))
    return values.reshape(side, side)


ESTIMATION = Experiment("estimation", plan, run)
