"""Credit: probabilities of default that fall with income and rise with debt, for every applicant.

Simulated loans. A flexible fit to few rows has applicants for whom more income means more risk, which cannot be
explained to them. With ``monotonic_cst`` there are none, at any combination of the other columns, and predictions
change little.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import typer
from sklearn.metrics import log_loss

from ahofm import AHOFMClassifier
from ahofm.plot import EffectDisplay
from ahofm.plot.canvas import BLUE, ORANGE, tidy


def simulate(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Applicants, true probabilities of default, and defaults."""
    X = pd.DataFrame(
        {
            "income": rng.lognormal(10.4, 0.5, n).round(-2),
            "debt": rng.beta(2.0, 4.0, n).round(3),
            "late": rng.poisson(0.6, n),
            "age": rng.integers(20, 75, n),
            "purpose": rng.choice(["car", "house", "other"], n),
        }
    )
    poor = np.clip((10.4 - np.log(X.income)) / 0.5, -1.5, 1.5)
    eta = -1.5 + 1.6 * poor + 5.0 * (X.debt - 0.3) * (1.6 + poor) + 0.5 * np.sqrt(X.late)
    eta += 0.8 * np.cos((X.age - 20) / 15) + 0.3 * (X.purpose == "car")
    probability = 1.0 / (1.0 + np.exp(-eta.to_numpy()))
    return X, probability, (rng.uniform(size=n) < probability).astype(int)


def rises(model: AHOFMClassifier, people: pd.DataFrame, incomes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (incomes, people) by income, and whether they rise somewhere: (people,)."""
    found = np.array([model.predict_proba(people.assign(income=income))[:, 1] for income in incomes])
    return found, (np.diff(found, axis=0) > 1e-12).any(axis=0)


def main(out: Path = Path("docs/figures/gallery"), quick: bool = False) -> dict[str, float]:
    """Fit with and without the constraint, count applicants whose risk rises with income, draw."""
    rng = np.random.default_rng(0)
    X, _, y = simulate(1_000 if quick else 2_000, rng)
    fresh, _, target = simulate(20_000, rng)
    settings = {"order": 2, "random_state": 0}
    free = AHOFMClassifier(**settings).fit(X, y)
    model = AHOFMClassifier(monotonic_cst={"income": -1, "debt": 1, "late": 1}, **settings).fit(X, y)

    incomes = np.linspace(5_000, 120_000, 116)
    people = fresh.sample(300 if quick else 2_000, random_state=0)
    curves = {name: rises(own, people, incomes) for name, own in (("free", free), ("monotone", model))}
    losses = {name: log_loss(target, own.predict_proba(fresh)) for name, own in (("free", free), ("monotone", model))}
    for name, (_, up) in curves.items():
        print(
            f"{name:9s} log-loss {losses[name]:.4f}, applicants whose risk rises with income somewhere: {up.mean():.1%}"
        )

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
    worst = np.argsort(-np.diff(curves["free"][0], axis=0).max(axis=0))[:6]
    for ax, (name, (found, _)), colour in zip(axes, curves.items(), (ORANGE, BLUE), strict=False):
        ax.plot(incomes / 1_000, found[:, worst], color=colour, linewidth=1.2)
        ax.set(xlabel="income (thousands)", ylabel="probability of default", ylim=(0, None))
        ax.set_title(f"six applicants, {name}", fontsize=10)
        tidy(ax)
    EffectDisplay.from_estimator(model, "debt", ax=axes[2])
    axes[2].set_title("log odds by debt, monotone", fontsize=10)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "credit.png", dpi=100)
    plt.close(figure)
    return {
        "falls": float(curves["monotone"][1].mean()),
        "free falls": float(curves["free"][1].mean()),
        "log-loss": float(losses["monotone"]),
        "free log-loss": float(losses["free"]),
    }


if __name__ == "__main__":
    typer.run(main)
