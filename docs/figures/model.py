"""Pictures of the model for docs/model.md: basis functions make curves, curves make factors, products make surfaces.

All from one fit to two columns whose interaction needs two factors.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import typer

from ahofm import AHOFMRegressor, Spline
from ahofm.explain import effect, factors
from ahofm.plot.canvas import BLUE, DIVERGING, GREY, ORANGE, tidy


def main(out: Path = Path("docs/figures")) -> float:
    """Fit, draw, and return how far the products of the curves are from the surface: rounding."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3000, 2))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + (X[:, 0] ** 2 - 1 / 3) * np.cos(4 * X[:, 1]) + 0.2 * rng.normal(size=3000)
    model = AHOFMRegressor(order=2, rank=2, columns=Spline(n_basis=9), n_members=1, random_state=0).fit(X, y)
    grid = np.linspace(-1, 1, 61)
    latent = factors(model, 2, {0: grid, 1: grid})
    surface = effect(model, [0, 1], {0: grid, 1: grid}).value
    products = [
        weight * np.outer(latent.curves[0][:, f], latent.curves[1][:, f]) for f, weight in enumerate(latent.weights)
    ]

    figure = plt.figure(figsize=(11, 6.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1, 1.15])
    first, second, third = above.subplots(1, 3)
    book = model.model_.encoder.codebooks[0]
    basis = book.functions.evaluate(grid).toarray()
    coef = np.linalg.lstsq(basis, latent.curves[0][:, 0], rcond=None)[0]
    first.plot(grid, basis * coef, color=GREY, linewidth=1.0, alpha=0.8)
    first.plot(grid, basis @ coef, color=BLUE, linewidth=2.2)
    first.set_title("a curve is a sum of bumps, their heights penalised", fontsize=10)
    for ax, curves, name in ((second, latent.curves[0], "rain"), (third, latent.curves[1], "sun")):
        for f, color in enumerate((BLUE, ORANGE)):
            ax.plot(grid, curves[:, f], color=color, linewidth=2.2, label=f"factor {f + 1}")
        ax.set_title(f"the factors of {name}", fontsize=10)
        ax.set_xlabel(name)
    second.legend(frameon=False, fontsize=9)
    first.set_xlabel("rain")
    for ax in (first, second, third):
        tidy(ax)
        ax.axhline(0, color=GREY, linewidth=0.7)
    reach = np.abs(surface).max()
    names = (
        "factor 1: rain's curve × sun's curve",
        "+   factor 2: the other two curves",
        "=   the interaction of rain and sun",
    )
    for ax, values, name in zip(below.subplots(1, 3, sharey=True), (*products, surface), names, strict=True):
        mesh = ax.pcolormesh(grid, grid, values.T, cmap=DIVERGING, vmin=-reach, vmax=reach, rasterized=True)
        ax.contour(grid, grid, values.T, levels=7, colors="black", linewidths=0.4, alpha=0.6)
        ax.set_title(name, fontsize=10)
        ax.set(xlabel="rain")
        ax.set_ylabel("sun")
        ax.label_outer()
    below.colorbar(mesh, ax=below.axes, shrink=0.9, label="effect")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "model.png", dpi=100)
    plt.close(figure)
    return float(np.abs(sum(products) - surface).max())


if __name__ == "__main__":
    typer.run(main)
