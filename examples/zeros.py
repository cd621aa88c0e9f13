"""Too many zeros: counts of which some could not have been anything else.

Simulated visits to a lake: how many fish were caught. Most visitors do not fish, by whether they come with children;
those who do catch more the longer they stay, and with live bait an hour adds twice as much to the logarithm: a pair. A
zero-inflated model has a linear predictor for each of the two; a Poisson model has their product only, and too few
zeros.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import typer
from scipy import stats
from scipy.special import expit

from ahofm import AHOFMRegressor
from ahofm.plot.canvas import BLUE, GREY, ORANGE, tidy


def caught(hours: np.ndarray, live: np.ndarray | bool) -> np.ndarray:
    """Mean catch of those who fish: it grows with every hour, twice as fast with live bait."""
    return np.asarray(np.exp(-0.3 + 0.25 * hours * np.where(live, 1.0, 0.5)))


def simulate(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, np.ndarray]:
    """Columns, means of those who fish, probabilities of not fishing, and catches."""
    X = pd.DataFrame(
        {
            "hours": rng.uniform(0.5, 8, n).round(1),
            "bait": rng.choice(["live", "none"], n),
            "children": rng.integers(0, 4, n),
        }
    )
    mean = caught(X.hours.to_numpy(), (X.bait == "live").to_numpy())
    idle = expit(-1.0 + 1.0 * X.children.to_numpy())
    return X, mean, idle, np.where(rng.uniform(size=n) < idle, 0, rng.poisson(mean))


def main(out: Path = Path("docs/figures/gallery"), quick: bool = False) -> dict[str, float]:
    """Fit both, compare counts and log scores on new visits, draw."""
    rng = np.random.default_rng(0)
    X, _, _, y = simulate(2_000 if quick else 5_000, rng)
    fresh, mean, idle, new = simulate(20_000, rng)
    model = AHOFMRegressor(family="zero_inflated_poisson", order=2, random_state=0).fit(X, y)
    poisson = AHOFMRegressor(family="quasi_poisson", order=2, random_state=0).fit(X, y)

    eta = model.predict_eta(fresh)
    rate, zero = np.exp(eta[:, 0]), expit(eta[:, 1])
    counts = np.arange(8)
    expected = {
        "zero-inflated": [np.mean((k == 0) * zero + (1.0 - zero) * stats.poisson.pmf(k, rate)) for k in counts],
        "Poisson": [np.mean(stats.poisson.pmf(k, poisson.predict(fresh))) for k in counts],
    }
    observed = [np.mean(new == k) for k in counts]
    found = {
        "rate": float(np.sqrt(np.mean(np.log(rate / mean) ** 2))),
        "idle": float(np.sqrt(np.mean((zero - idle) ** 2))),
        "zeros": float(expected["zero-inflated"][0] - observed[0]),
        "Poisson zeros": float(expected["Poisson"][0] - observed[0]),
        "log score": -model.log_likelihood(fresh, new) / len(new),
        "Poisson log score": -float(np.mean(stats.poisson.logpmf(new, poisson.predict(fresh)))),
    }
    print(
        f"catch of those who fish: log mean off by {found['rate']:.3f}; probability not to fish by {found['idle']:.3f}"
    )
    print(
        f"zeros: {observed[0]:.1%} observed, {expected['zero-inflated'][0]:.1%} expected by the zero-inflated model, ",
        end="",
    )
    print(f"{expected['Poisson'][0]:.1%} by a Poisson model of the same means")
    print(f"log score on new visits: {found['log score']:.3f} against {found['Poisson log score']:.3f}")

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    axes[0].bar(counts, observed, color=GREY, alpha=0.5, label="observed")
    for (name, own), colour in zip(expected.items(), (BLUE, ORANGE), strict=True):
        axes[0].plot(counts, own, "o-", color=colour, label=name)
    axes[0].set(title="new visits by catch", xlabel="fish", ylabel="share")
    axes[0].legend(frameon=False, fontsize=8)
    hours = np.linspace(0.5, 8, 76)
    for bait, colour in (("live", BLUE), ("none", ORANGE)):
        rows = pd.DataFrame({"hours": hours, "bait": bait, "children": 1})
        own, std = model.predict_eta(rows, return_std=True)
        axes[1].fill_between(hours, *np.exp(own[:, 0] + np.outer([-1.96, 1.96], std[:, 0])), color=colour, alpha=0.25)
        axes[1].plot(hours, np.exp(own[:, 0]), color=colour, label=f"bait: {bait}")
        axes[1].plot(
            hours, caught(hours, bait == "live"), "k--", linewidth=1, label="truth" if bait == "none" else None
        )
    axes[1].set(title="mean catch of those who fish", xlabel="hours", ylabel="fish")
    axes[1].legend(frameon=False, fontsize=8)
    rows = pd.DataFrame({"hours": 4.0, "bait": "none", "children": np.arange(4)})
    own, std = model.predict_eta(rows, return_std=True)
    ends = expit(own[:, 1] + np.outer([-1.96, 1.96], std[:, 1]))
    axes[2].vlines(rows.children, *ends, color=BLUE)
    axes[2].plot(rows.children, expit(own[:, 1]), "o", color=BLUE, label="model")
    axes[2].plot(rows.children, expit(-1.0 + rows.children), "k_", markersize=14, label="truth")
    axes[2].set(title="probability not to fish", xlabel="children", ylim=(0, 1), xticks=range(4))
    axes[2].legend(frameon=False, fontsize=8)
    for ax in axes:
        tidy(ax)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "zeros.png", dpi=100)
    plt.close(figure)
    return found


if __name__ == "__main__":
    typer.run(main)
