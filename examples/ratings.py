"""Ratings: ordered levels whose probabilities follow the columns, without pretending that they are numbers.

Simulated hotel ratings from 1 to 5. A guest's satisfaction falls with the price, more so the older the house is; the
steps between ratings are uneven. Compared: cumulative logits, which estimate the steps, and normal errors around a
mean, rounded to whole ratings.
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
from ahofm.plot.canvas import BLUE, ORANGE, tidy

STEPS = np.array([-4.0, -3.2, -1.0, 0.4])
"""Of the satisfaction, between ratings: twos are rare."""

OLD, NEW = 40.0, 2.0


def satisfaction(price: np.ndarray, age: np.ndarray) -> np.ndarray:
    """What probabilities depend on; noise of a logistic distribution is added to it."""
    return 2.0 - 0.012 * (price - 60.0) * (0.6 + age / 30.0) + 0.6 * np.cos(age / 8.0)


def probabilities(eta: np.ndarray) -> np.ndarray:
    """Of the five ratings, (n, 5)."""
    below = expit(STEPS - eta[:, np.newaxis])
    return np.diff(below, axis=1, prepend=0.0, append=1.0)


def simulate(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Columns, true probabilities and ratings."""
    X = pd.DataFrame({"price": rng.uniform(40, 260, n).round(), "age": rng.uniform(0, 50, n).round()})
    true = probabilities(satisfaction(X.price.to_numpy(), X.age.to_numpy()))
    return X, true, 1.0 + (rng.uniform(size=(n, 1)) > np.cumsum(true, axis=1)[:, :-1]).sum(axis=1)


def ranked(probability: np.ndarray, y: np.ndarray) -> float:
    """Ranked probability score: squared errors of cumulative probabilities, summed over the steps."""
    below = np.cumsum(probability, axis=1)[:, :-1]
    return float(np.mean(np.sum((below - (y[:, np.newaxis] <= np.arange(1, 5))) ** 2, axis=1)))


def main(out: Path = Path("docs/figures/gallery"), quick: bool = False) -> dict[str, float]:
    """Fit both, score their probabilities of new ratings, draw them by price."""
    rng = np.random.default_rng(0)
    X, _, y = simulate(2_000 if quick else 5_000, rng)
    fresh, true, new = simulate(20_000, rng)
    model = AHOFMRegressor(family="ordinal", order=2, random_state=0).fit(X, y)
    normal = AHOFMRegressor(order=2, random_state=0).fit(X, y)

    def rounded(rows: pd.DataFrame) -> np.ndarray:
        std = np.sqrt(normal.model_.dispersion) * normal.model_.relative_std(rows)
        ends = np.array([-np.inf, 1.5, 2.5, 3.5, 4.5, np.inf])
        return np.diff(stats.norm.cdf((ends - normal.predict(rows)[:, np.newaxis]) / std[:, np.newaxis]), axis=1)

    ways = {"ordinal": model.predict_proba, "normal, rounded": rounded}
    found = {"truth": ranked(true, new)}
    print(f"{'truth':16s} ranked probability score {found['truth']:.4f}")
    for name, predict in ways.items():
        own = predict(fresh)
        found[name] = ranked(own, new)
        found[f"{name}, error"] = float(np.sqrt(np.mean((own - true) ** 2)))
        print(f"{name:16s} ranked probability score {found[name]:.4f}, ", end="")
        print(f"probabilities off by {found[f'{name}, error']:.3f} (root mean square)")
    steps = np.diff(model.model_.family.thresholds)
    print(f"steps between ratings: {np.round(steps, 2)}, true ones {np.diff(STEPS).round(2)}")

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    colours = plt.get_cmap("viridis")(np.linspace(0.1, 0.9, 5))
    line = pd.DataFrame({"price": np.linspace(40, 260, 111)})
    for ax, age in zip(axes, (OLD, NEW), strict=False):
        rows = line.assign(age=age)
        drawn, exact = (
            np.cumsum(own, axis=1)
            for own in (model.predict_proba(rows), probabilities(satisfaction(rows.price, rows.age).to_numpy()))
        )
        for k in range(5):
            ax.fill_between(line.price, drawn[:, k - 1] if k else 0.0, drawn[:, k], color=colours[k], label=f"{k + 1}")
        ax.plot(line.price, exact[:, :-1], "--", color="white", linewidth=1.2)
        ax.set(title=f"house of {age:.0f} years (dashed: truth)", xlabel="price", ylim=(0, 1), xlim=(40, 260))
    axes[0].set_ylabel("probability of ratings, stacked")
    axes[1].legend(title="rating", fontsize=8, loc="upper left")
    for (name, predict), colour in zip(ways.items(), (BLUE, ORANGE), strict=True):
        shares = predict(fresh)[:, 1]
        bins = np.array_split(np.argsort(shares), 12)
        axes[2].plot(
            [shares[at].mean() for at in bins], [(new[at] == 2).mean() for at in bins], "o-", color=colour, label=name
        )
    axes[2].axline((0, 0), slope=1, color="grey", linewidth=0.8)
    axes[2].set(title="how often a 2 is given", xlabel="predicted", ylabel="observed", xlim=(0, 0.3), ylim=(0, 0.3))
    axes[2].legend(frameon=False, fontsize=8)
    tidy(axes[2])
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "ratings.png", dpi=100)
    plt.close(figure)
    found["steps"] = float(np.abs(steps - np.diff(STEPS)).max())
    return found


if __name__ == "__main__":
    typer.run(main)
