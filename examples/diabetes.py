"""Progression of diabetes: which columns matter, how sure that is, and whether intervals hold on rows not fitted.

442 patients, ten columns (scikit-learn's bundled data, in their own units). The order of interactions is chosen by the
fit; five folds predict every patient from the others.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import typer
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold

from ahofm import AHOFMRegressor
from ahofm.explain import variance_shares
from ahofm.plot import EffectDisplay
from ahofm.plot.canvas import BLUE, GREY, tidy

LABELS = {
    "bmi": "body mass index",
    "bp": "blood pressure (mm Hg)",
    "s5": "log triglycerides",
    "s3": "HDL cholesterol (mg/dl)",
    "s6": "blood sugar (mg/dl)",
    "s1": "total cholesterol (mg/dl)",
    "age": "age (years)",
}
LEVELS = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95])


def main(out: Path = Path("docs/figures/gallery"), quick: bool = False) -> dict[str, float]:
    """Fit, draw effects with bands, and count how often intervals hold."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X = X.assign(sex=X.sex.map({1.0: "one", 2.0: "two"}))  # the data do not say which is which

    model = AHOFMRegressor(order="auto", random_state=0).fit(X, y)
    shares = variance_shares(model).to_frame()
    print(f"highest order kept: {model.model_.order}")
    for choice in model.model_.choices:
        print(f"  {choice.name}: {choice.value} ({choice.reason})")
    print(shares.head(5).round(3).to_string(index=False))

    held, errors, straight = np.zeros(len(LEVELS)), [], []
    for fit, rest in KFold(3 if quick else 5, shuffle=True, random_state=0).split(X):
        fold = AHOFMRegressor(order=1, random_state=0).fit(X.iloc[fit], y.iloc[fit])
        for at, level in enumerate(LEVELS):
            low, high = fold.predict_interval(X.iloc[rest], level, kind="new").T
            held[at] += np.sum((low <= y.iloc[rest]) & (y.iloc[rest] <= high)) / len(y)
        errors.append(np.mean((fold.predict(X.iloc[rest]) - y.iloc[rest]) ** 2))
        numbers = X.assign(sex=(X.sex == "two").astype(float))
        line = LinearRegression().fit(numbers.iloc[fit], y.iloc[fit])
        straight.append(np.mean((line.predict(numbers.iloc[rest]) - y.iloc[rest]) ** 2))
    error, line_error = np.sqrt(np.mean(errors)), np.sqrt(np.mean(straight))
    print(f"error on rows not fitted: {error:.1f}; of a linear model: {line_error:.1f}")
    print("intervals meant to hold:", *(f"{level:>4.0%}" for level in LEVELS))
    print("               they hold:", *(f"{share:>4.0%}" for share in held))

    figure, axes = plt.subplots(2, 4, figsize=(12, 5.6), layout="constrained")
    for ax, name in zip(axes.flat, shares["column"][:7], strict=False):
        EffectDisplay.from_estimator(model, name, ax=ax, labels=LABELS)
    last = axes.flat[-1]
    last.plot([0.45, 1], [0.45, 1], color=GREY, linewidth=0.8)
    last.plot(LEVELS, held, "o-", color=BLUE)
    last.set(xlabel="intervals are meant to hold", ylabel="hold, on rows not fitted", xlim=(0.45, 1), ylim=(0.45, 1))
    tidy(last)
    for ax in axes[:, 1:].flat[:-1]:
        ax.set_ylabel("")
    figure.suptitle("Diabetes: effects on progression, bands of 95 %, and whether intervals hold")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "diabetes.png", dpi=100)
    plt.close(figure)
    return {"error": float(error), "linear": float(line_error), "held at 0.9": float(held[4])}


if __name__ == "__main__":
    typer.run(main)
