"""Space and time: one model of latitude, longitude and hour, looked at as maps at several hours.

Simulated nitrogen dioxide over a city: two roads with rush hours, a park that dampens the daily rise, and a background
that grows northwards. What a place adds depends on both coordinates and on the hour: interactions of three columns.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import typer

from ahofm import AHOFMRegressor, Cyclic
from ahofm.explain import effect
from ahofm.plot.canvas import tidy

HOURS = (3, 8, 13, 18)
NOISE = 4.0


def truth(lat: np.ndarray, lon: np.ndarray, hour: np.ndarray) -> np.ndarray:
    """The mean, in micrograms per cubic metre."""
    rush = np.exp(4 * (np.cos((hour - 8) / 24 * 2 * np.pi) - 1)) + np.exp(
        4 * (np.cos((hour - 18) / 24 * 2 * np.pi) - 1)
    )
    day = 0.5 - 0.5 * np.cos((hour - 3) / 24 * 2 * np.pi)
    road = np.exp(-(((lat - 0.6) / 0.12) ** 2)) + np.exp(-(((lon - 0.35) / 0.12) ** 2))
    park = np.exp(-(((lat - 0.3) / 0.2) ** 2) - ((lon - 0.75) / 0.2) ** 2)
    return 15 + 5 * lat + 25 * rush * road + 12 * day * (1 - park)


def sample(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Places and hours of measurements."""
    return pd.DataFrame({"lat": rng.uniform(size=n), "lon": rng.uniform(size=n), "hour": rng.uniform(0, 24, n)})


def main(out: Path = Path("docs/figures/gallery"), quick: bool = False) -> dict[str, float]:
    """Fit with and without interactions of three columns, draw maps of the model and of the truth."""
    rng = np.random.default_rng(0)
    X = sample(10_000, rng)
    y = truth(*X.to_numpy().T) + NOISE * rng.normal(size=len(X))
    model = AHOFMRegressor(order=3, columns={"hour": Cyclic(period=24)}, random_state=0)
    if quick:
        model.set_params(factor_prior="spline", n_members=1)
    model.fit(X, y)

    fresh = sample(10_000, rng)
    wanted = truth(*fresh.to_numpy().T)
    errors = {}
    for order in (1, 2, 3):
        errors[order] = float(np.sqrt(np.mean((model.model_.at_order(order).predict(fresh) - wanted) ** 2)))
        print(f"error of the mean at order {order}: {errors[order]:.2f} (its spread {wanted.std():.1f}, noise {NOISE})")

    grid = (np.arange(40) + 0.5) / 40
    figure, axes = plt.subplots(2, len(HOURS), figsize=(12, 6.2), sharex=True, sharey=True, layout="constrained")
    found, true = [], []
    for hour in HOURS:
        surface = effect(model, ["lon", "lat"], {"lon": grid, "lat": grid}, at={"hour": hour}, alone=False)
        found.append(surface.value.T + model.model_.linear_predictors[0].intercept)
        lon, lat = np.meshgrid(grid, grid)
        true.append(truth(lat, lon, np.full_like(lat, hour)))
    low, high = min(map(np.min, true)), max(map(np.max, true))
    for row, name, maps in ((axes[0], "model", found), (axes[1], "truth", true)):
        for ax, hour, values in zip(row, HOURS, maps, strict=True):
            mesh = ax.pcolormesh(grid, grid, values, cmap="viridis", vmin=low, vmax=high, rasterized=True)
            ax.contour(grid, grid, values, levels=np.arange(10, 90, 10), colors="white", linewidths=0.5)
            tidy(ax)
            ax.set(title=f"{name}, {hour}:00", xlabel="longitude", ylabel="latitude", aspect="equal")
            ax.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
            ax.label_outer()
    figure.colorbar(mesh, ax=axes, label="NO₂ (µg/m³)", shrink=0.8)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "space_time.png", dpi=100)
    plt.close(figure)
    agreement = float(np.corrcoef(np.ravel(found), np.ravel(true))[0, 1])
    return {"additive": errors[1], "pairs": errors[2], "triples": errors[3], "correlation of maps": agreement}


if __name__ == "__main__":
    typer.run(main)
