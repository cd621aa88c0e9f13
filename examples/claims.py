"""Insurance claims: counts with exposure, a column of levels, a column that goes round, and calibration.

Simulated policies with known rates: young drivers of strong cars have many more claims than either alone says, winter
is bad in the alps only. Exposures of part of a year enter as offsets. Rates are compared with the truth.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import typer

from ahofm import AHOFMRegressor, Cyclic
from ahofm.explain import top_interactions
from ahofm.plot import EffectDisplay, SurfaceDisplay
from ahofm.plot.canvas import BLUE, GREY, tidy

REGIONS = ["city", "coast", "hills", "alps", "plain"]


def simulate(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, np.ndarray]:
    """Columns, exposures, rates per year and claims."""
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 85, n),
            "power": rng.gamma(9.0, 12.0, n).round(),
            "region": rng.choice(REGIONS, n, p=[0.35, 0.15, 0.2, 0.1, 0.2]),
            "month": rng.integers(1, 13, n),
        }
    )
    level = X.region.map({"city": 0.5, "coast": 0.0, "hills": 0.1, "alps": 0.2, "plain": -0.3}).to_numpy()
    young, strong = np.exp(-(X.age - 18) / 10), (X.power - 108) / 36
    winter = np.cos((X.month - 1) / 12 * 2 * np.pi)
    log_rate = -1.8 + level + 0.6 * young + 0.15 * strong + 0.5 * young * strong
    log_rate += 0.01 * np.maximum(X.age - 65, 0) + 0.8 * winter * (X.region == "alps")
    exposure = rng.uniform(0.2, 1.0, n)
    return X, exposure, np.exp(log_rate.to_numpy()), rng.poisson(exposure * np.exp(log_rate))


def main(out: Path = Path("docs/figures/gallery"), quick: bool = False) -> dict[str, float]:
    """Fit, compare with the truth, draw."""
    rng = np.random.default_rng(1)
    X, exposure, _, claims = simulate(20_000 if quick else 60_000, rng)
    fresh, fresh_exposure, fresh_rate, fresh_claims = simulate(20_000, rng)

    model = AHOFMRegressor(family="poisson", order=2, columns={"month": Cyclic(period=12)}, random_state=0)
    model.fit(X, claims, offset=np.log(exposure))
    additive = model.model_.at_order(1)
    found, plain = model.predict(fresh), additive.predict(fresh)  # per year: no offset
    print(f"{claims.sum()} claims of {len(X)} policies")
    for name, own in (("with pairs", found), ("without", plain)):
        print(f"log rate, root mean square error {name}: {np.sqrt(np.mean(np.log(own / fresh_rate) ** 2)):.3f}")
    print("deviance explained on new policies: ", end="")
    print(f"{model.score(fresh, fresh_claims, offset=np.log(fresh_exposure)):.3f}")
    top = top_interactions(model, 3)
    print(top.to_frame().round(4).to_string(index=False))

    figure = plt.figure(figsize=(12, 6.6), layout="constrained")
    above, below = figure.subfigures(2, 1)
    labels = {"age": "age (years)", "power": "power (kW)"}
    for ax, name in zip(above.subplots(1, 3), ("age", "region", "month"), strict=True):
        EffectDisplay.from_estimator(model, name, ax=ax, labels=labels)
        ax.set_title(f"log rate by {name}", fontsize=10)
    first, second, last = below.subplots(1, 3)
    SurfaceDisplay.from_estimator(
        model, ["age", "power"], ax=first, grid={"power": np.arange(40, 201, 5)}, labels=labels
    )
    first.set_title("young × strong", fontsize=10)
    SurfaceDisplay.from_estimator(model, ["month", "region"], ax=second, grid={"month": np.arange(1, 13)})
    second.set_title("winter × alps", fontsize=10)
    expected = found * fresh_exposure
    groups = np.array_split(np.argsort(found), 12)
    x = np.array([expected[group].sum() / fresh_exposure[group].sum() for group in groups])
    count, time = (np.array([part[group].sum() for group in groups]) for part in (fresh_claims, fresh_exposure))
    last.errorbar(x, count / time, 1.96 * np.sqrt(count) / time, fmt="o", color=BLUE, markersize=4)
    last.plot([0, x.max()], [0, x.max()], color=GREY, linewidth=0.8)
    last.set(xlabel="predicted claims per year", ylabel="observed on new policies, 95 %")
    last.set_title("calibration", fontsize=10)
    tidy(last)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "claims.png", dpi=100)
    plt.close(figure)
    return {
        "error": float(np.sqrt(np.mean(np.log(found / fresh_rate) ** 2))),
        "additive": float(np.sqrt(np.mean(np.log(plain / fresh_rate) ** 2))),
        "claims per expected claim": float(fresh_claims.sum() / expected.sum()),
        "true pairs on top": float({*top.terms[:2]} == {("age", "power"), ("region", "month")}),
    }


if __name__ == "__main__":
    typer.run(main)
