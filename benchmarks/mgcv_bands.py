"""Bands of effects beside those of mgcv (R), on the same simulated rows: how often they hold, and how wide they are.

``make bench-mgcv-bands`` prints the table and writes benchmarks/results/mgcv_bands.csv. The simulation is that of
benchmarks.bands, with seeds of its own: 1,000 rows, six columns, three curves and three columns without an effect;
three families, independent columns and correlations of .9. In the last two designs two pairs of columns interact,
and mgcv's formula names these two pairs, while this library is only told ``order=2``. mgcv: ``gam(method="REML")`` with
its default bases, standard errors given the smoothing parameters (the default of its figures and predictions) and with
the uncertainty of these (``unconditional=TRUE``).

Effects are compared at the same points, of equal numbers of rows, with truths that have mean zero over the rows along
every column, as the effects of both libraries have. Widths are means over points, relative to the residual standard
deviation (normal errors) or in units of the linear predictor. Replications are added until time is up.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from ahofm import AHOFMRegressor
from ahofm.columns.basis import Floats
from ahofm.explain import effect
from benchmarks.bands import truths
from benchmarks.coverage import Cell, draw_columns, draw_targets
from benchmarks.measure import ONE_THREAD
from benchmarks.table import RESULTS, keep

SCRIPT = Path(__file__).parent / "peers" / "mgcv_bands.R"
ROWS, NEW, POINTS, SIDE = 1_000, 200, 60, 16
FIRST_SEED = 20_000
PAIRS = ((2, 3), (0, 4))
REACH = float(stats.norm.ppf(0.975))

METHODS = ("ahofm", "mgcv", "mgcv, unconditional")


@dataclass(frozen=True)
class Design:
    """What is simulated: additive, or with two pairs."""

    family: str
    correlation: float
    pairs: bool = False

    def __str__(self) -> str:
        """For the table."""
        return f"{self.family}, correlation {self.correlation:g}{', two pairs' if self.pairs else ''}"

    @property
    def scale(self) -> float:
        """Of the linear predictor: counts have a mean of about 1."""
        return 0.6 if self.family == "poisson" else 1.0


DESIGNS = (
    *(Design(family, correlation) for family in ("gaussian", "binomial", "poisson") for correlation in (0.0, 0.9)),
    Design("gaussian", 0.0, pairs=True),
    Design("gaussian", 0.5, pairs=True),
)


@dataclass(frozen=True)
class Data:
    """Rows, where effects are compared, and the truth there.

    Attributes
    ----------
    X, y : arrays of shapes (n, 6) and (n,)
    new, eta : arrays of shapes (m, 6) and (m,)
        New rows and their linear predictors.
    grid : array of shape (points, 6)
        Quantiles of every column.
    sides : array of shape (side, 6)
        Fewer of them, for surfaces.
    """

    X: Floats
    y: Floats
    new: Floats
    eta: Floats
    grid: Floats
    sides: Floats


def terms_of(design: Design) -> dict[tuple[int, ...], Callable[..., Floats]]:
    """The truth, term by term."""
    return {columns: function for columns, function in truths().items() if len(columns) == 1 or design.pairs}


def linear_predictor(design: Design, X: Floats) -> Floats:
    """The truth at rows (n,)."""
    parts = [function(*(X[:, j] for j in columns)) for columns, function in terms_of(design).items()]
    return np.asarray(design.scale * np.sum(parts, axis=0))


def drawn(design: Design, seed: int) -> Data:
    """One replication."""
    rng = np.random.default_rng(seed)
    cell = Cell(design.family, ROWS, design.correlation)
    X, new = draw_columns(cell, ROWS, rng), draw_columns(cell, NEW, rng)
    y = draw_targets(cell, linear_predictor(design, X), rng)
    grid, sides = (np.quantile(X, (np.arange(count) + 0.5) / count, axis=0) for count in (POINTS, SIDE))
    return Data(X, y, new, linear_predictor(design, new), grid, sides)


def true_curve(design: Design, data: Data, j: int) -> Floats:
    """Main effect at the grid of a column: its own curve, and what its pairs are on average over the other's rows."""

    def at(x: Floats) -> Floats:
        found = np.zeros_like(x)
        for columns, function in terms_of(design).items():
            if columns == (j,):
                found += function(x)
            elif j in columns:
                places = (x[:, np.newaxis] if column == j else data.X[:, column] for column in columns)
                found += function(*places).mean(axis=1)
        return found

    return np.asarray(design.scale * (at(data.grid[:, j]) - at(data.X[:, j]).mean()))


def true_surface(design: Design, data: Data, pair: tuple[int, int]) -> Floats:
    """A pair at its grid (side, side), without what one of its columns has on average over the rows of the other."""
    function, (a, b) = terms_of(design)[pair], pair
    x, y = data.sides[:, a, np.newaxis], data.sides[np.newaxis, :, b]
    rows_a, rows_b = data.X[:, a], data.X[:, b]
    over_a = function(rows_a[:, np.newaxis], y).mean(axis=0, keepdims=True)
    over_b = function(x, rows_b[np.newaxis]).mean(axis=1, keepdims=True)
    everywhere = function(rows_a[:, np.newaxis], rows_b[np.newaxis]).mean()
    return np.asarray(design.scale * (function(x, y) - over_a - over_b + everywhere))


Term = tuple[Floats, Floats]
"""Values and standard errors at the points of a term."""

Found = dict[object, Term]
"""By column, by pair, and ``"rows"``."""


def own_terms(design: Design, data: Data) -> tuple[Found, float]:
    """The terms of this library, and seconds of the processor for fit and main effects."""
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        order = 2 if design.pairs else 1
        model = AHOFMRegressor(family=design.family, order=order, random_state=0, n_jobs=1).fit(data.X, data.y)

    def term(columns: tuple[int, ...], grid: Floats) -> Term:
        one = effect(model, columns, {j: grid[:, j] for j in columns})
        if one.low is None or one.high is None:
            raise ValueError("the model has no band")
        return one.value, (one.high - one.low) / (2 * REACH)

    found: Found = {j: term((j,), data.grid) for j in range(6)}
    seconds = time.process_time() - begun
    if design.pairs and model.model_.order > 1:
        found |= {pair: term(pair, data.sides) for pair in PAIRS}
    eta, std = model.predict_eta(data.new, return_std=True)
    found["rows"] = np.ravel(eta), np.ravel(std)
    return found, seconds


def measures(design: Design, data: Data, found: Found) -> list[dict[str, float | str]]:
    """For every term whether its band holds at its points, how wide it is, and the squared error of its middle."""
    noise = 0.7 if design.family == "gaussian" else 1.0
    truth: dict[object, Floats] = {j: true_curve(design, data, j) for j in range(6)}
    truth |= {pair: true_surface(design, data, pair) for pair in PAIRS} if design.pairs else {}
    truth["rows"] = data.eta
    kinds = {j: "curves" if (j,) in truths() else "no effect" for j in range(6)}
    records: list[dict[str, float | str]] = []
    for name, (value, std) in found.items():
        kind = "rows" if name == "rows" else kinds[name] if isinstance(name, int) else "surfaces"
        off = value - truth[name]
        held = float(np.mean(np.abs(off) <= REACH * std))
        width = 2 * REACH * float(np.mean(std)) / noise
        records.append({"kind": kind, "held": held, "width": width, "error": float(np.mean(off**2)) / noise**2})
    return records


def own_replication(design: Design, seed: int) -> tuple[list[dict[str, float | str]], float]:
    """Records of this library, and seconds."""
    data = drawn(design, seed)
    found, seconds = own_terms(design, data)
    return measures(design, data, found), seconds


def write_rows(folder: Path, number: int, data: Data) -> None:
    """What R reads."""
    names = [f"x{j}" for j in range(6)]

    def written(kind: str, table: Floats) -> None:
        pd.DataFrame(table, columns=names).to_csv(folder / f"{kind}_{number}.csv", index=False)

    pd.DataFrame(data.X, columns=names).assign(y=data.y).to_csv(folder / f"train_{number}.csv", index=False)
    written("grid", data.grid)
    written("new", data.new)
    surface = np.zeros((SIDE * SIDE, 6))
    for a, b in PAIRS:
        surface[:, a], surface[:, b] = np.repeat(data.sides[:, a], SIDE), np.tile(data.sides[:, b], SIDE)
    written("surface", surface)


def read_terms(folder: Path, number: int, design: Design, *, unconditional: bool) -> Found:
    """What R wrote."""
    kept = 2 if unconditional else 1

    def read(kind: str) -> Floats:
        return np.loadtxt(folder / f"{kind}_{number}.csv", delimiter=",", ndmin=2)

    terms, rows = read("terms"), read("rows")
    found: Found = {j: (terms[:, 3 * j], terms[:, 3 * j + kept]) for j in range(6)}
    if design.pairs:
        surfaces = read("surfaces").reshape(SIDE, SIDE, -1)
        found |= {pair: (surfaces[..., 3 * k], surfaces[..., 3 * k + kept]) for k, pair in enumerate(PAIRS)}
    return found | {"rows": (rows[:, 0], rows[:, kept])}


def peer_replications(
    design: Design, seeds: Sequence[int]
) -> dict[str, list[tuple[list[dict[str, float | str]], float]]]:
    """Records of mgcv, by method, and seconds: one process of R for all seeds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "numbers.txt").write_text("\n".join(map(str, seeds)) + "\n")
        for seed in seeds:
            write_rows(folder, seed, drawn(design, seed))
        command = ["Rscript", str(SCRIPT), name, design.family, "yes" if design.pairs else "no"]
        subprocess.run(command, check=True, env={**os.environ, **ONE_THREAD})
        found: dict[str, list[tuple[list[dict[str, float | str]], float]]] = {method: [] for method in METHODS[1:]}
        for seed in seeds:
            data, cost = drawn(design, seed), float((folder / f"cost_{seed}.csv").read_text())
            for method, unconditional in (("mgcv", False), ("mgcv, unconditional", True)):
                terms = read_terms(folder, seed, design, unconditional=unconditional)
                found[method].append((measures(design, data, terms), cost))
    return found


def summarised(
    design: Design, method: str, runs: Sequence[tuple[list[dict[str, float | str]], float]]
) -> list[Mapping[str, object]]:
    """A record per kind of term; the standard error of the coverage is that over replications."""
    table: list[Mapping[str, object]] = []
    for kind in ("curves", "no effect", "surfaces", "rows"):
        own = [[one for one in records if one["kind"] == kind] for records, _ in runs]
        own = [records for records in own if records]
        if not own:
            continue
        held = np.array([np.mean([float(one["held"]) for one in records]) for records in own])
        everything = [one for records in own for one in records]
        table.append(
            {
                "design": str(design),
                "method": method,
                "terms": kind,
                "replications": len(own),
                "held": 100 * float(held.mean()),
                "held_error": 100 * float(held.std(ddof=1) / np.sqrt(len(held))) if len(held) > 1 else np.nan,
                "width": float(np.mean([float(one["width"]) for one in everything])),
                "rmse": float(np.sqrt(np.mean([float(one["error"]) for one in everything]))),
                "cpu_seconds": float(np.mean([seconds for _, seconds in runs])),
            }
        )
    return table


def _others(measured: set[str]) -> list[Mapping[str, object]]:
    """Results of designs that were not measured now."""
    path = RESULTS / "mgcv_bands.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [record for record in csv.DictReader(file) if record["design"] not in measured]


def main() -> int:
    """Run all designs, in parts, until the replications are there or time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="replications; results are kept from 100 on")
    parser.add_argument("--minutes", type=float, default=60.0, help="for all designs; a part is always finished")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--designs", type=int, nargs="+", default=range(len(DESIGNS)), help="numbers of some of them")
    parser.add_argument("--part", type=int, default=20, help="replications between two looks at the clock")
    given = parser.parse_args()
    table: list[Mapping[str, object]] = []
    begun = time.monotonic()
    for number, design in enumerate(DESIGNS[k] for k in given.designs):
        until = begun + 60 * given.minutes * (number + 1) / len(given.designs)
        runs: dict[str, list[tuple[list[dict[str, float | str]], float]]] = {method: [] for method in METHODS}
        for first in range(0, given.count, given.part):
            if first and time.monotonic() > until:
                break
            seeds = range(FIRST_SEED + first, FIRST_SEED + min(first + given.part, given.count))
            with ProcessPoolExecutor(given.workers) as pool:
                halves = [list(seeds)[k :: given.workers] for k in range(given.workers)]
                peers = [pool.submit(peer_replications, design, half) for half in halves if half]
                runs["ahofm"] += pool.map(partial(own_replication, design), seeds)
                for peer in peers:
                    for method, own in peer.result().items():
                        runs[method] += own
        for method in METHODS:
            table += summarised(design, method, runs[method])
        for record in table[-len(METHODS) * 4 :]:
            if record["design"] == str(design):
                print(*(f"{v:.3g}" if isinstance(v, float) else v for v in record.values()), sep=" | ", flush=True)
    if given.count >= 100:
        keep("mgcv_bands", [*_others({str(record["design"]) for record in table}), *table])
    return 0


if __name__ == "__main__":
    sys.exit(main())
