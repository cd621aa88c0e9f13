"""Spread that varies: prediction intervals that are wide where they must be, in two ways.

Simulated electricity load: its mean depends on hour and temperature together, and so does its spread (hard to foretell
in the evening of cold days). Compared: normal errors of one size, a model of mean and spread, and two quantiles.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import typer

from ahofm import AHOFMRegressor, Cyclic
from ahofm.families import Quantile
from ahofm.plot.canvas import BLUE, GREY, ORANGE, tidy

COLD, LEVEL = -5.0, 0.9


def simulate(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, np.ndarray]:
    """Columns, means, standard deviations and loads."""
    X = pd.DataFrame({"hour": rng.uniform(0, 24, n), "temperature": rng.normal(10, 8, n).round(1)})
    mean, spread = curves(X.hour.to_numpy(), X.temperature.to_numpy())
    return X, mean, spread, mean + spread * rng.normal(size=n)


def curves(hour: np.ndarray, temperature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the load."""
    evening = np.exp(2 * (np.cos((hour - 19) / 24 * 2 * np.pi) - 1))
    heating = np.maximum(15 - temperature, 0) / 15
    day = -np.cos((hour - 3) / 24 * 2 * np.pi)
    return 40 + 8 * day + 10 * heating + 12 * evening * heating, 1.0 + 4.0 * evening * heating


def main(out: Path = Path("docs/figures/gallery"), quick: bool = False) -> dict[str, float]:
    """Fit all three, count how often intervals hold by how noisy it is, draw a cold day."""
    rng = np.random.default_rng(0)
    X, _, _, y = simulate(5_000, rng)
    fresh, _, spread, new = simulate(20_000, rng)
    kinds = {"columns": {"hour": Cyclic(period=24)}, "order": 2, "random_state": 0}
    kinds |= {"factor_prior": "spline", "n_members": 1} if quick else {}
    plain = AHOFMRegressor(**kinds, effort="fast").fit(X, y)  # no validation rows: its noise counts as even
    varying = AHOFMRegressor(family="gaussian_location_scale", **kinds).fit(X, y)
    low, high = (AHOFMRegressor(family=Quantile(level), **kinds).fit(X, y) for level in (0.05, 0.95))
    ways = {
        "one spread": lambda rows: plain.predict_interval(rows, LEVEL, kind="new"),
        "mean and spread": lambda rows: varying.predict_interval(rows, LEVEL, kind="new"),
        "two quantiles": lambda rows: np.column_stack([low.predict(rows), high.predict(rows)]),
    }

    day = pd.DataFrame({"hour": np.linspace(0, 24, 97), "temperature": COLD})
    centre, sigma = curves(day.hour.to_numpy(), day.temperature.to_numpy())
    cold = X.temperature < 0
    quiet = spread < np.quantile(spread, 0.5)
    loud = spread > np.quantile(spread, 0.9)
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.9), sharex=True, sharey=True, layout="constrained")
    found = {}
    for ax, (name, interval) in zip(axes, ways.items(), strict=True):
        ends = interval(fresh)
        inside = (ends[:, 0] <= new) & (new <= ends[:, 1])
        width = np.mean(ends[:, 1] - ends[:, 0])
        found[f"{name}, quiet"], found[f"{name}, loud"] = float(inside[quiet].mean()), float(inside[loud].mean())
        print(f"{name + ':':<17}hold {inside.mean():.1%}; of the quiet half {inside[quiet].mean():.1%}, ", end="")
        print(f"of the loudest tenth {inside[loud].mean():.1%}; mean width {width:.1f}")
        drawn = interval(day)
        ax.fill_between(day.hour, drawn[:, 0], drawn[:, 1], color=BLUE, alpha=0.25, linewidth=0, label="model")
        for sign in (-1, 1):
            ax.plot(day.hour, centre + sign * 1.645 * sigma, "--", color=ORANGE, label="truth" if sign > 0 else None)
        ax.scatter(X.hour[cold], y[cold], s=5, color=GREY, alpha=0.6, linewidths=0, label="data, below 0 °C")
        ax.set(title=name, xlabel="hour", xticks=range(0, 25, 6))
        tidy(ax)
    axes[0].set_ylabel(f"load (MW), {LEVEL:.0%} at {COLD:.0f} °C")
    axes[0].legend(frameon=False, fontsize=8, loc="upper left")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "spread.png", dpi=100)
    plt.close(figure)
    return found


if __name__ == "__main__":
    typer.run(main)
