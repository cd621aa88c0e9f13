"""Lifetimes: how long machines last when most were still running at the end of the study.

Simulated machines. Load shortens their lives, more so without maintenance; and machines of maker B fail early or hardly
ever, so that their hazard crosses that of maker A. Accelerated failure times see load and maintenance; hazards, with
time as one more column, see the crossing as well, where failure times have one shape for all machines. Both are
compared with the true survival curves.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import typer

from ahofm import AHOFMHazard, AHOFMRegressor
from ahofm.plot.canvas import BLUE, ORANGE, tidy

SHAPE = {"A": 2.2, "B": 0.8}
"""Of the makers' Weibull distributions: above 1 machines wear out, below 1 they fail early."""


def scale_of(X: pd.DataFrame) -> np.ndarray:
    """Scale of the true Weibull distributions, in years."""
    return np.exp(2.2 - X.load * np.where(X.serviced == "yes", 0.5, 1.4)).to_numpy()


def true_survival(X: pd.DataFrame, times: np.ndarray) -> np.ndarray:
    """Probabilities (n, m) of lasting longer than some times."""
    shape = X.maker.map(SHAPE).to_numpy()[:, np.newaxis]
    return np.exp(-((times / scale_of(X)[:, np.newaxis]) ** shape))


def simulate(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns, and years with whether the machine failed; the study ends after one to six years."""
    X = pd.DataFrame(
        {
            "load": rng.uniform(0, 1, n).round(2),
            "serviced": rng.choice(["yes", "no"], n),
            "maker": rng.choice(["A", "B"], n),
        }
    )
    lasted = scale_of(X) * rng.weibull(X.maker.map(SHAPE).to_numpy())
    seen = rng.uniform(1.0, 6.0, n)
    return X, np.column_stack([np.minimum(lasted, seen), lasted <= seen])


def main(out: Path = Path("docs/figures/gallery"), quick: bool = False) -> dict[str, float]:
    """Fit both, compare survival curves with the truth, draw."""
    rng = np.random.default_rng(0)
    X, y = simulate(1_000 if quick else 3_000, rng)
    fresh, new = simulate(2_000, rng)
    times = np.linspace(0.25, 5.0, 20)
    models = {
        "log-logistic times": AHOFMRegressor(family="log_logistic", order=2, random_state=0).fit(X, y),
        "hazards": AHOFMHazard(AHOFMRegressor(order=2, random_state=0)).fit(X, y),
    }
    true = true_survival(fresh, times)
    found = {"censored": float(1.0 - y[:, 1].mean())}
    print(f"{len(X)} machines, {found['censored']:.0%} still running when last seen")
    for name, model in models.items():
        own = model.predict_survival(fresh, times)
        found[f"{name}, error"] = float(np.sqrt(np.mean((own - true) ** 2)))
        found[f"{name}, concordance"] = model.concordance(fresh, new)
        brier = float(np.mean(model.brier_score(fresh, new, times)))
        print(f"{name:19s} survival probabilities off by {found[f'{name}, error']:.3f} (root mean square), ", end="")
        print(f"concordance {found[f'{name}, concordance']:.3f}, Brier score {brier:.4f}")

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.7), layout="constrained")
    fine = np.linspace(0.02, 6.0, 150)
    for ax, (name, model) in zip(axes, models.items(), strict=False):
        for maker, colour in (("A", BLUE), ("B", ORANGE)):
            row = pd.DataFrame({"load": [0.8], "serviced": ["yes"], "maker": [maker]})
            ax.plot(fine, model.predict_survival(row, fine)[0], color=colour, label=f"maker {maker}")
            ax.plot(fine, true_survival(row, fine)[0], "--", color=colour, linewidth=1, label=f"maker {maker}, truth")
        ax.set(title=f"{name}: load .8, serviced", xlabel="years", ylabel="still running", ylim=(0, 1))
        ax.legend(frameon=False, fontsize=8)
        tidy(ax)
    breaks = models["hazards"].breaks_
    for maker, colour in (("A", BLUE), ("B", ORANGE)):
        row = pd.DataFrame({"load": [0.8], "serviced": ["yes"], "maker": [maker]})
        axes[2].stairs(models["hazards"].predict_hazard(row)[0], breaks, color=colour, label=f"maker {maker}")
        log_survival = np.log(true_survival(row, fine)[0])
        axes[2].plot(fine, -np.gradient(log_survival, fine), "--", color=colour, linewidth=1)
    axes[2].set(title="failures per year (dashed: truth)", xlabel="years", ylim=(0, 0.5), xlim=(0, 6))
    axes[2].legend(frameon=False, fontsize=8)
    tidy(axes[2])
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "lifetimes.png", dpi=100)
    plt.close(figure)
    return found


if __name__ == "__main__":
    typer.run(main)
