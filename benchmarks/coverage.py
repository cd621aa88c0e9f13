"""How often intervals hold: simulated rows with a known truth, many times over.

``make bench-coverage`` prints a table and writes benchmarks/results/coverage.csv. Six columns, uniform margins,
independent or with normal correlations of one half; main effects of three columns and two pair interactions. 12
replications a cell. "kept" is the share of replications whose model has pair factors: a band knows nothing of an
interaction that the fit has dropped.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import stats
from scipy.special import expit

from ahofm import AHOFMRegressor
from ahofm.columns.basis import Floats
from benchmarks.table import Row, finish, show

LEVEL = 0.95


@dataclass(frozen=True)
class Cell:
    """What is simulated."""

    family: str
    n: int
    correlation: float

    def __str__(self) -> str:
        """For the table."""
        return f"{self.family}, n={self.n}, correlation {self.correlation:g}"


def mains(X: Floats) -> list[Floats]:
    """Three curves of mean zero over uniform columns."""
    return [np.cos(3 * X[:, 0]) - np.sin(3) / 3, np.exp(X[:, 1]) - np.sinh(1), 0.7 * X[:, 2]]


def pairs(X: Floats) -> list[Floats]:
    """Of columns (2, 3) and (0, 4), without main effects."""
    return [1.5 * X[:, 2] * np.sin(2 * X[:, 3]), 1.2 * (X[:, 0] ** 2 - 1 / 3) * X[:, 4] * 2]


def draw_columns(cell: Cell, n: int, rng: np.random.Generator) -> Floats:
    """Uniform margins."""
    common = np.sqrt(cell.correlation) * rng.normal(size=(n, 1))
    return np.asarray(2 * stats.norm.cdf(common + np.sqrt(1 - cell.correlation) * rng.normal(size=(n, 6))) - 1)


def draw_targets(cell: Cell, eta: Floats, rng: np.random.Generator) -> Floats:
    """Noise of standard deviation 0.7; probabilities; counts of mean about 1."""
    if cell.family == "gaussian":
        return eta + 0.7 * rng.normal(size=len(eta))
    if cell.family == "binomial":
        return np.asarray(rng.binomial(1, expit(eta)), dtype=np.float64)
    return np.asarray(rng.poisson(np.exp(eta)), dtype=np.float64)


def replication(cell: Cell, seed: int) -> dict[str, float]:
    """Coverage of the mean, a main effect, two pair surfaces and new targets, each averaged over its points."""
    rng = np.random.default_rng(seed)
    X, new = draw_columns(cell, cell.n, rng), draw_columns(cell, 500, rng)
    scale = 0.6 if cell.family == "poisson" else 1.0

    def truth(X: Floats) -> Floats:
        return scale * sum(mains(X) + pairs(X), np.zeros(len(X)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = draw_targets(cell, truth(X), rng)
        model = AHOFMRegressor(family=cell.family, order=2, random_state=0, n_jobs=1).fit(X, y)
        low, high = model.predict_interval(new, LEVEL).T
        below, above = model.predict_interval(new, LEVEL, kind="new").T
    mean = model.model_.family.mean(truth(new)[:, np.newaxis])
    targets = draw_targets(cell, truth(new), rng)
    found = {
        "mean": float(np.mean((low <= mean) & (mean <= high))),
        "new": float(np.mean((below <= targets) & (targets <= above))),
        "kept": float(2 in model.model_.ranks),
    }
    return found | effects(model, scale, X)


def effects(model: AHOFMRegressor, scale: float, X: Floats) -> dict[str, float]:
    """Coverage of the effects themselves, over the codes of their columns and centred on them.

    The main effect has what its column's pair is on average over the rows' values of the other column.
    """
    reach = float(stats.norm.ppf(0.5 + LEVEL / 2))
    frozen, band = model.model_, model.band_
    (tables,) = frozen.tables()
    books = frozen.encoder.codebooks
    ends = np.cumsum([0, *(book.n_codes for book in books)])
    values = [np.asarray(book.support.values, dtype=float) for book in books]
    share = books[0].mass[:-1] / books[0].mass[:-1].sum()
    curve = scale * (np.cos(3 * values[0]) + 2.4 * values[0] ** 2 * X[:, 4].mean())
    spread = band.term_std((0,), [np.arange(len(values[0]))])
    off = tables.main[ends[0] : ends[1] - 1] - (curve - share @ curve)
    found = {"main": float(share @ (np.abs(off) <= reach * spread))}
    rng = np.random.default_rng(0)
    covered = []
    for a, b in ((2, 3), (0, 4)):
        left, right = (1.5 * values[2], np.sin(2 * values[3])) if a == 2 else (2.4 * values[0] ** 2, values[4])
        at = rng.integers(0, len(values[a]), 300), rng.integers(0, len(values[b]), 300)
        spread = band.term_std((a, b), at)
        pair = tables.factors.get(2)
        own = np.zeros(300) if pair is None else (pair[ends[a] + at[0]] * pair[ends[b] + at[1]]) @ tables.loading(2)
        exact = scale * (left - left.mean())[at[0]] * (right - right.mean())[at[1]]
        covered.append(np.abs(own - exact) <= reach * spread)
    return found | {"pairs": float(np.mean(covered))}


def run(cell: Cell, count: int, workers: int) -> list[Row]:
    """Averages over replications."""
    with ProcessPoolExecutor(workers) as pool:
        found: Sequence[dict[str, float]] = list(pool.map(replication, [cell] * count, range(count)))
    names = ("mean", "main", "pairs", "new", "kept")
    return [Row(f"{cell}: {name}", float(np.mean([one[name] for one in found])), "") for name in names]


def main() -> int:
    """All cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=12, help="replications a cell; results are kept from 12 on")
    parser.add_argument("--rows", type=int, nargs="*", default=[1000])
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    table: list[Row] = []
    for n, correlation, family in product(given.rows, (0.0, 0.5), ("gaussian", "binomial", "poisson")):
        table += (rows := run(Cell(family, n, correlation), given.count, given.workers))
        show(rows)
    return finish("coverage", table, written=given.count >= 12 and given.rows == [1000])


if __name__ == "__main__":
    sys.exit(main())
