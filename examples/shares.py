"""Shares: targets between 0 and 1 whose scatter shrinks towards the ends, and intervals that stay inside.

Simulated shares of ground that plants cover, by rain and height: dry heights are bare, wet valleys are full. Compared:
the beta family, and normal errors, whose intervals leave what is possible.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import typer
from scipy.special import expit

from ahofm import AHOFMRegressor
from ahofm.plot import SurfaceDisplay
from ahofm.plot.canvas import BLUE, GREY, ORANGE, tidy

PRECISION, LEVEL, HEIGHT = 12.0, 0.9, 500.0


def mean_of(rain: np.ndarray, height: np.ndarray) -> np.ndarray:
    """True mean share."""
    wet, high = (rain - 800.0) / 400.0, height / 1_000.0 - 1.0
    return expit(0.8 + 1.5 * wet - 1.2 * high + 0.9 * wet * high)


def simulate(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Columns, means and shares."""
    X = pd.DataFrame({"rain": rng.uniform(200, 1_600, n).round(), "height": rng.uniform(0, 2_000, n).round()})
    mean = mean_of(X.rain.to_numpy(), X.height.to_numpy())
    return X, mean, np.clip(rng.beta(PRECISION * mean, PRECISION * (1.0 - mean)), 1e-4, 1.0 - 1e-4)


def main(out: Path = Path("docs/figures/gallery"), quick: bool = False) -> dict[str, float]:
    """Fit both, compare means and intervals with the truth, draw."""
    rng = np.random.default_rng(0)
    X, _, y = simulate(600 if quick else 1_500, rng)
    fresh, mean, new = simulate(10_000, rng)
    models = {
        "beta": AHOFMRegressor(family="beta", order=2, random_state=0).fit(X, y),
        "normal": AHOFMRegressor(order=2, random_state=0).fit(X, y),
    }
    found = {"precision": float(models["beta"].model_.family.precision)}
    print(f"precision {found['precision']:.1f}, the true one {PRECISION:.0f}")
    line = pd.DataFrame({"rain": np.linspace(200, 1_600, 141), "height": HEIGHT})
    near = np.abs(X.height - HEIGHT) < 150
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    for ax, (name, model), colour in zip(axes, models.items(), (BLUE, ORANGE), strict=False):
        ends = model.predict_interval(fresh, LEVEL, kind="new")
        inside = (ends[:, 0] <= new) & (new <= ends[:, 1])
        outside = (ends[:, 0] < 0.0) | (ends[:, 1] > 1.0)
        found[f"{name}, error"] = float(np.sqrt(np.mean((model.predict(fresh) - mean) ** 2)))
        found[f"{name}, held"], found[f"{name}, impossible"] = float(inside.mean()), float(outside.mean())
        found[f"{name}, width"] = float(np.mean(ends[:, 1] - ends[:, 0]))
        print(
            f"{name:7s} error of the mean {found[f'{name}, error']:.4f}; intervals hold {inside.mean():.1%}, ", end=""
        )
        print(f"are {found[f'{name}, width']:.3f} wide, {outside.mean():.1%} of them beyond 0 or 1")
        drawn = model.predict_interval(line, LEVEL, kind="new")
        ax.fill_between(
            line.rain, drawn[:, 0], drawn[:, 1], color=colour, alpha=0.25, linewidth=0, label=f"{LEVEL:.0%}"
        )
        ax.plot(line.rain, model.predict(line), color=colour, label=name)
        ax.plot(line.rain, mean_of(line.rain.to_numpy(), line.height.to_numpy()), "k--", linewidth=1, label="true mean")
        ax.scatter(X.rain[near], y[near], s=6, color=GREY, linewidths=0, label="data near")
        ax.axhspan(1.0, 1.3, color="black", alpha=0.06)
        ax.axhspan(-0.3, 0.0, color="black", alpha=0.06)
        ax.set(title=f"{name}, at {HEIGHT:.0f} m", xlabel="rain (mm)", ylabel="share covered", ylim=(-0.3, 1.3))
        ax.legend(frameon=False, fontsize=8, loc="lower right")
        tidy(ax)
    SurfaceDisplay.from_estimator(models["beta"], ["rain", "height"], ax=axes[2])
    axes[2].set_title("log odds: rain × height", fontsize=10)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "shares.png", dpi=100)
    plt.close(figure)
    return found


if __name__ == "__main__":
    typer.run(main)
