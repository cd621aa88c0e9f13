"""The paper's example of interpretation: four columns, all four interactions of three of them, marginals with spread.

The mean is a sum of four random tensor-product splines (4, 5, 7 and 5 functions of time, lat, lon and rate), the noise
has standard deviation 0.1, there are 10,000 rows. For every three columns, blue shows what the model says about them
along each column, the mean over the other two and bars for the spread across them; orange is the truth. Written to
docs/figures/paper_toy.png, or to the path given.
"""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.interpolate import BSpline

from ahofm import AHOFMRegressor
from ahofm.explain import marginals
from ahofm.plot.canvas import BLUE, ORANGE, pyplot, tidy

SIZES = {"time": 4, "lat": 5, "lon": 7, "rate": 5}
NAMES = list(SIZES)
TRIPLES = list(combinations(NAMES, 3))
NOISE, ROWS, POINTS = 0.1, 10_000, 25


def basis(x: np.ndarray, size: int) -> np.ndarray:
    """Cubic B-splines on the unit interval."""
    inner = np.linspace(0.0, 1.0, size - 2)
    return BSpline.design_matrix(x, np.r_[[0.0] * 3, inner, [1.0] * 3], 3).toarray()


def truth(columns: dict[str, np.ndarray], coefficients: list[np.ndarray]) -> np.ndarray:
    """The sum of the four tensor products."""
    functions = {name: basis(x, SIZES[name]) for name, x in columns.items()}
    parts = [
        np.einsum("na,nb,nc,abc->n", *(functions[name] for name in triple), own)
        for triple, own in zip(TRIPLES, coefficients, strict=True)
    ]
    return np.asarray(np.sum(parts, axis=0))


def true_marginals(coefficients: list[np.ndarray], triple: tuple[str, ...], name: str) -> tuple[np.ndarray, np.ndarray]:
    """What depends on three columns alone, along one of them: mean and standard deviation over the other two."""
    grid = (np.arange(POINTS) + 0.5) / POINTS
    mesh = np.meshgrid(*[grid] * 4, indexing="ij")
    values = truth({one: part.ravel() for one, part in zip(NAMES, mesh, strict=True)}, coefficients)
    cube = values.reshape([POINTS] * 4)
    cube = cube.mean(axis=tuple(k for k, one in enumerate(NAMES) if one not in triple)) - cube.mean()
    others = tuple(k for k, one in enumerate(triple) if one != name)
    return cube.mean(axis=others), cube.std(axis=others)


def main() -> None:
    """Simulate, fit, draw."""
    rng = np.random.default_rng(0)
    coefficients = [rng.normal(size=[SIZES[name] for name in triple]) for triple in TRIPLES]
    X = pd.DataFrame(rng.uniform(size=(ROWS, 4)), columns=NAMES)
    mean = truth({name: X[name].to_numpy() for name in NAMES}, coefficients)
    model = AHOFMRegressor(order=3, random_state=0).fit(X, mean + NOISE * rng.normal(size=ROWS))
    fresh = pd.DataFrame(rng.uniform(size=(ROWS, 4)), columns=NAMES)
    wanted = truth({name: fresh[name].to_numpy() for name in NAMES}, coefficients)
    error = float(np.sqrt(np.mean((model.predict(fresh) - wanted) ** 2)))
    print(f"standard deviation of the mean {wanted.std():.3f}, error of the fit {error:.3f}, noise {NOISE}")
    figure, axes = pyplot().subplots(4, 4, figsize=(10, 8), sharey=True, layout="constrained")
    grid = (np.arange(POINTS) + 0.5) / POINTS
    for row, triple in zip(axes, TRIPLES, strict=True):
        found = marginals(model, list(triple), dict.fromkeys(triple, grid))
        for ax, name in zip(row, NAMES, strict=True):
            tidy(ax)
            ax.set_xlabel(name)
            if name not in triple:
                ax.axhline(0.0, color=BLUE)
                continue
            at = triple.index(name)
            mean_true, spread_true = true_marginals(coefficients, triple, name)
            ax.vlines(
                grid - 0.006,
                found.mean[at] - found.spread[at],
                found.mean[at] + found.spread[at],
                color=BLUE,
                alpha=0.4,
            )
            ax.vlines(grid + 0.006, mean_true - spread_true, mean_true + spread_true, color=ORANGE, alpha=0.4)
            ax.plot(grid, found.mean[at], color=BLUE, label="model")
            ax.plot(grid, mean_true, "--", color=ORANGE, label="truth")
        row[0].set_ylabel("\n× ".join(triple), fontsize=8)
    axes[0, 0].legend(frameon=False, fontsize=8)
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures/paper_toy.png")
    figure.savefig(path, dpi=100)
    print(f"Figure: {path}")


if __name__ == "__main__":
    main()
