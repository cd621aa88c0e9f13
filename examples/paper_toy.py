"""The paper's example of interpretation: four columns, all four interactions of three of them, marginals with spread.

The mean is a sum of four random tensor-product splines (4, 5, 7 and 5 functions of time, lat, lon and rate), the noise
has standard deviation 0.1, there are 10,000 rows. For every three columns, blue shows what the model says about them
along each column, the mean over the other two and bars for the spread across them; orange is the truth.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import typer
from scipy.interpolate import BSpline

from ahofm import AHOFMRegressor
from ahofm.explain import marginals
from ahofm.plot.canvas import BLUE, ORANGE, tidy

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


def true_cube(coefficients: list[np.ndarray]) -> np.ndarray:
    """The mean at all combinations of grid values of the four columns."""
    functions = [basis((np.arange(POINTS) + 0.5) / POINTS, SIZES[name]) for name in NAMES]
    cube = np.zeros([POINTS] * len(NAMES))
    for triple, own in zip(TRIPLES, coefficients, strict=True):
        at = [NAMES.index(name) for name in triple]
        solid = np.einsum("xa,yb,zc,abc->xyz", *(functions[k] for k in at), own, optimize=True)
        cube += np.expand_dims(solid, [k for k in range(len(NAMES)) if k not in at])
    return cube


def true_marginals(cube: np.ndarray, triple: tuple[str, ...], name: str) -> tuple[np.ndarray, np.ndarray]:
    """What depends on three columns alone, along one of them: mean and standard deviation over the other two."""
    cube = cube.mean(axis=tuple(k for k, one in enumerate(NAMES) if one not in triple)) - cube.mean()
    others = tuple(k for k, one in enumerate(triple) if one != name)
    return cube.mean(axis=others), cube.std(axis=others)


def main(out: Path = Path("docs/figures/gallery"), quick: bool = False) -> dict[str, float]:
    """Simulate, fit, draw."""
    rng = np.random.default_rng(0)
    coefficients = [rng.normal(size=[SIZES[name] for name in triple]) for triple in TRIPLES]
    X = pd.DataFrame(rng.uniform(size=(ROWS, 4)), columns=NAMES)
    signal = truth({name: X[name].to_numpy() for name in NAMES}, coefficients)
    model = AHOFMRegressor(order=3, random_state=0)
    if quick:
        model.set_params(factor_prior="spline", n_members=1)
    model.fit(X, signal + NOISE * rng.normal(size=ROWS))
    fresh = pd.DataFrame(rng.uniform(size=(ROWS, 4)), columns=NAMES)
    wanted = truth({name: fresh[name].to_numpy() for name in NAMES}, coefficients)
    error = float(np.sqrt(np.mean((model.predict(fresh) - wanted) ** 2)))
    print(f"standard deviation of the mean {wanted.std():.3f}, error of the fit {error:.3f}, noise {NOISE}")
    figure, axes = plt.subplots(4, 4, figsize=(10, 8), sharey=True, layout="constrained")
    grid, cube = (np.arange(POINTS) + 0.5) / POINTS, true_cube(coefficients)
    for row, triple in zip(axes, TRIPLES, strict=True):
        found = marginals(model, list(triple), dict.fromkeys(triple, grid))
        for ax, name in zip(row, NAMES, strict=True):
            tidy(ax)
            ax.set_xlabel(name)
            if name not in triple:
                ax.axhline(0.0, color=BLUE)
                continue
            at = triple.index(name)
            mean_true, spread_true = true_marginals(cube, triple, name)
            mean, spread = found.mean[at], found.std[at]
            ax.vlines(grid - 0.006, mean - spread, mean + spread, color=BLUE, alpha=0.4)
            ax.vlines(grid + 0.006, mean_true - spread_true, mean_true + spread_true, color=ORANGE, alpha=0.4)
            ax.plot(grid, mean, color=BLUE, label="model")
            ax.plot(grid, mean_true, "--", color=ORANGE, label="truth")
        row[0].set_ylabel("\n× ".join(triple), fontsize=8)
    axes[0, 0].legend(frameon=False, fontsize=8)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "paper_toy.png", dpi=100)
    plt.close(figure)
    return {"error": error, "spread of the mean": float(wanted.std())}


if __name__ == "__main__":
    typer.run(main)
