"""Scalability (the paper's 5.3 and its first figure): time, memory and error as columns, rows, orders and ranks grow.

Against ``bam``, default and ``discrete=TRUE``: standard normal columns, a surface for every pair, twice as much noise
variance as signal, eight basis functions a column and all pairs on both sides; one replication, but three of the most
columns with the fewest rows, where errors are compared. Then this library alone, far beyond: chains of pairs of
neighbouring columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from ahofm.columns.basis import Floats
from benchmarks.experiments.estimation import N_BASIS, USUAL_BASIS, by_ahofm, by_mgcv
from benchmarks.experiments.plan import Experiment, Planned
from benchmarks.measure import taken
from benchmarks.peers import own
from benchmarks.store import Measures, Unit
from benchmarks.surfaces import Design

RANK = 30

REPLICATIONS = 3
"""Of the most columns with the fewest rows."""


def plan(quick: bool) -> Iterator[Planned]:
    """Ours first, then bam from the cheapest on, then ours beyond."""
    columns, rows = ((3, 4), (1000,)) if quick else ((3, 6, 9, 12), (6000, 12000, 18000))
    for p in columns:
        for n in rows:
            yield Planned(Unit("pairs", "ahofm", f"p={p} n={n}"))
            yield Planned(Unit("pairs", "ahofm", f"p={p} n={n} basis={USUAL_BASIS}"))
    for method in ("bam discrete", "bam"):
        for p in columns:
            for n in rows:
                smaller = Unit("pairs", method, f"p={p} n={rows[rows.index(n) - 1]}") if n > rows[0] else None
                yield Planned(Unit("pairs", method, f"p={p} n={n}"), smaller)
    for method in ("ahofm", "bam"):
        for replication in range(1, REPLICATIONS):
            yield Planned(Unit("pairs", method, f"p={columns[-1]} n={rows[0]}", replication))
    yield from _beyond(quick)


def _beyond(quick: bool) -> Iterator[Planned]:
    """Rank 8 where the number of columns, rows and the order vary; then other ranks."""
    columns, rows, orders = ((5, 10), (2000,), (2, 3)) if quick else ((25, 50, 100, 200), (10**5, 10**6), (2, 3, 4))
    for n in rows:
        for order in orders:
            for p in columns:
                smaller = _chain(columns[columns.index(p) - 1], n, order) if p > columns[0] else None
                yield Planned(_chain(p, n, order), smaller, 2.0)
    for rank in (4, 16, 32):
        yield Planned(_chain(columns[0], rows[0], 2, rank))


def _chain(p: int, n: int, order: int, rank: int = 8) -> Unit:
    return Unit("chain", "ahofm", f"p={p} n={n} order={order} rank={rank}")


def run(unit: Unit, _: Path | None) -> Measures:
    """Errors and cost."""
    sizes = {name: int(value) for name, value in unit.options().items()}
    return _pairs(unit.method, unit.replication, **sizes) if unit.problem == "pairs" else _beyond_pairs(**sizes)


def _pairs(method: str, seed: int, p: int, n: int, basis: int = N_BASIS) -> Measures:
    design = Design(p, features="normal")
    X, y, _ = design.draw(n, seed)
    new, _y, mean = design.draw(10_000, 1_000)
    if method == "ahofm":
        surfaces, predicted, cost = by_ahofm(design, X, y, new, RANK, basis)
    else:
        surfaces, predicted, cost = by_mgcv(design, X, y, new, "discrete" if method == "bam discrete" else "bam")
    errors = list(design.errors(surfaces).values())
    return {"surfaces": float(np.mean(errors)), "prediction": float(np.mean((predicted - mean) ** 2)), **cost}


def draw_chain(n: int, p: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Columns on (-1, 1), targets and means: a curve per column and a product for every two neighbours; noise 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, p))
    mean = np.zeros(n)
    for j in range(p):
        mean += np.sin(3.0 * X[:, j]) + 1.5 * X[:, j] * np.sin(2.0 * X[:, (j + 1) % p])
    return X, mean + rng.normal(size=n), mean


def _beyond_pairs(p: int, n: int, order: int, rank: int) -> Measures:
    X, y, _ = draw_chain(n, p, 0)
    own.splines(X[:2000], y[:2000], n_basis=N_BASIS, rank=2, order=order)  # what is loaded on first use
    model, cost = taken(lambda: own.splines(X, y, n_basis=N_BASIS, rank=rank, order=order))
    new, _y, mean = draw_chain(10_000, p, 1)
    predicted = model.predict(pd.DataFrame(new, columns=[f"x{j}" for j in range(p)]))
    return {"prediction": float(np.mean((predicted - mean) ** 2)), "variance": float(mean.var()), **cost}


SCALABILITY = Experiment("scalability", plan, run)
