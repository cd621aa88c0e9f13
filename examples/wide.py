"""Many columns, few interactions: which of 435 pairs are real, and what that is worth against boosting.

Thirty simulated columns, seven of which matter, and three pairs of them interact. The strongest interactions that the
model names are compared with the true ones, and its error with that of scikit-learn's gradient boosting.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import typer
from sklearn.ensemble import HistGradientBoostingRegressor

from ahofm import AHOFMRegressor
from ahofm.explain import top_interactions
from ahofm.plot.canvas import BLUE, GREY, ORANGE, tidy

COLUMNS, NOISE = 30, 1.0
TRUE = (("x01", "x02"), ("x03", "x04"), ("x05", "x06"))


def truth(X: pd.DataFrame) -> np.ndarray:
    """The mean."""
    mains = np.sin(2 * X.x01) + X.x02**2 + X.x05 + np.abs(X.x08)
    pairs = 2 * X.x01 * X.x02 + 1.5 * np.sin(2 * X.x03) * X.x04 + 1.5 * np.sign(X.x05) * X.x06
    return np.asarray(mains + pairs)


def main(out: Path = Path("docs/figures/gallery"), quick: bool = False) -> dict[str, float]:
    """Fit both, search, draw."""
    rng = np.random.default_rng(0)
    names = [f"x{j + 1:02d}" for j in range(COLUMNS)]
    X, fresh = (pd.DataFrame(rng.uniform(-1, 1, (size, COLUMNS)), columns=names) for size in (2_000, 20_000))
    y, wanted = truth(X) + NOISE * rng.normal(size=len(X)), truth(fresh)

    model = AHOFMRegressor(order=2, factor_prior="spline" if quick else "auto", n_members=1, random_state=0).fit(X, y)
    boosted = HistGradientBoostingRegressor(random_state=0).fit(X, y)
    errors = {
        "constant": np.full(len(fresh), y.mean()),
        "boosting": boosted.predict(fresh),
        "order 1": model.model_.at_order(1).predict(fresh),
        "order 2": model.predict(fresh),
    }
    errors = {name: float(np.sqrt(np.mean((own - wanted) ** 2))) for name, own in errors.items()}
    print("error of the mean:", ", ".join(f"{name} {error:.3f}" for name, error in errors.items()))
    top = top_interactions(model, 10)
    print(top.to_frame().round(4).to_string(index=False))
    print(f"{len(model.negligible_.columns)} of {COLUMNS} columns carry next to nothing")

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    right.barh(list(errors), list(errors.values()), color=[GREY, GREY, BLUE, BLUE])
    right.invert_yaxis()
    right.set(xlabel="error of the mean, new rows", title="against boosting")
    colors = [ORANGE if term in TRUE else GREY for term in top.terms]
    left.barh([" × ".join(term) for term in top.terms], top.shares, color=colors)
    left.invert_yaxis()
    left.set(xlabel="share of the variance", title="strongest interactions (orange: true ones)")
    for ax in (left, right):
        tidy(ax)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "wide.png", dpi=100)
    plt.close(figure)
    hits = sum(term in TRUE for term in top.terms[: len(TRUE)])
    return {"true ones on top": float(hits), "error": errors["order 2"], "boosting": errors["boosting"]}


if __name__ == "__main__":
    typer.run(main)
