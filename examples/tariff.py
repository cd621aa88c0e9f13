"""A tariff within its rules: which factors may interact, and rates that never fall with mileage or power.

Simulated policies. The regulator wants the region to act by itself and no interaction of age with sex; the actuary
wants rates that rise with mileage and power. What the rules cost is measured against the true rates.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import typer

from ahofm import AHOFMRegressor
from ahofm.explain import contributions, top_interactions
from ahofm.plot import EffectDisplay, SurfaceDisplay

RULES = {
    "exclude": [("age", "sex"), "region"],
    "monotonic_cst": {"mileage": 1, "power": 1},
}


def simulate(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Policies, rates per year and claims."""
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 85, n),
            "sex": rng.choice(["f", "m"], n),
            "power": rng.gamma(9.0, 12.0, n).round(),
            "mileage": rng.gamma(3.0, 4.0, n).round(1),
            "region": rng.choice(["city", "hills", "plain"], n),
        }
    )
    young, strong = np.exp(-(X.age - 18) / 10), np.clip((X.power - 108) / 36, -2.0, 2.0)
    log_rate = -1.2 + 0.6 * young + 0.25 * strong * (1.0 + 4.0 * young) + 0.35 * np.log1p(X.mileage / 4.0)
    log_rate += X.region.map({"city": 0.4, "hills": 0.0, "plain": -0.2}) + 0.1 * (X.sex == "m")
    return X, np.exp(log_rate.to_numpy()), rng.poisson(np.exp(log_rate))


def main(out: Path = Path("docs/figures/gallery"), quick: bool = False) -> dict[str, float]:
    """Fit with and without the rules, check them on all new policies, draw."""
    rng = np.random.default_rng(0)
    X, _, claims = simulate(5_000 if quick else 20_000, rng)
    fresh, rate, _ = simulate(3_000 if quick else 20_000, rng)
    settings = {"family": "poisson", "order": 2, "random_state": 0}
    free = AHOFMRegressor(**settings).fit(X, claims)
    model = AHOFMRegressor(**settings, **RULES).fit(X, claims)
    errors = [float(np.sqrt(np.mean(np.log(own.predict(fresh) / rate) ** 2))) for own in (free, model)]
    falls = 0
    for name in RULES["monotonic_cst"]:
        grid = np.linspace(0.0, 1.2 * fresh[name].max(), 60)
        steps = np.diff([model.predict(fresh.assign(**{name: value})) for value in grid], axis=0)
        falls += int((steps < -1e-12).sum())
    terms = contributions(model, fresh.iloc[:500])
    barred = [
        k for k, term in enumerate(terms.terms) if len(term) > 1 and ({"age", "sex"} <= {*term} or "region" in term)
    ]
    size = max((float(np.abs(terms.values[..., k]).max()) for k in barred), default=0.0)
    print(f"log rate, root mean square error: {errors[0]:.4f} without rules, {errors[1]:.4f} with them")
    print(f"rates that fall with mileage or power: {falls}; largest contribution of a barred interaction: {size}")
    print(top_interactions(model, 3).to_frame().round(4).to_string(index=False))

    figure, axes = plt.subplots(1, 4, figsize=(14, 3.3), layout="constrained")
    for ax, name in zip(axes, ("mileage", "power"), strict=False):
        EffectDisplay.from_estimator(model, name, ax=ax)
        ax.set_title(f"log rate by {name}, monotone", fontsize=10)
    EffectDisplay.from_estimator(model, "region", ax=axes[2])
    axes[2].set_title("log rate by region, by itself", fontsize=10)
    SurfaceDisplay.from_estimator(model, ["age", "power"], ax=axes[3], grid={"power": np.arange(40, 201, 5)})
    axes[3].set_title("young × strong, allowed", fontsize=10)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "tariff.png", dpi=100)
    plt.close(figure)
    return {"falls": float(falls), "barred": size, "error": errors[1], "free error": errors[0]}


if __name__ == "__main__":
    typer.run(main)
