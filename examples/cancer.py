"""Breast cancer: class probabilities that can be trusted, and why one tumour was called what it was.

569 tumours (scikit-learn's bundled data), the ten measurements of their worst cells. Five folds predict every tumour
from the others; the Shapley values of a row add up to its log odds exactly.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import typer
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from ahofm import AHOFMClassifier
from ahofm.explain import shapley_values, variance_shares
from ahofm.plot import EffectDisplay, ExplanationDisplay
from ahofm.plot.canvas import BLUE, GREY, tidy


def main(out: Path = Path("docs/figures/gallery"), quick: bool = False) -> dict[str, float]:
    """Fit, judge probabilities on rows not fitted, explain the row that is least clear."""
    X, malignant = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X[[name for name in X if name.startswith("worst")]]
    X.columns = [name.removeprefix("worst ") for name in X]
    y = np.where(malignant == 0, "malignant", "benign")

    folds = StratifiedKFold(2 if quick else 5, shuffle=True, random_state=0)
    settings = AHOFMClassifier(order=2, n_members=1, random_state=0)
    if quick:
        settings.set_params(factor_prior="spline")
    probability = cross_val_predict(settings, X, y, cv=folds, method="predict_proba")[:, 1]
    area = roc_auc_score(y == "malignant", probability)
    loss = log_loss(y == "malignant", probability)
    wrong = np.mean((probability > 0.5) != (y == "malignant"))
    print(f"rows not fitted: area under the ROC curve {area:.4f}, log-loss {loss:.3f}, wrong {wrong:.1%}")

    model = settings.fit(X, y)
    print(variance_shares(model).to_frame().head(6).round(3).to_string(index=False))
    unsure = int(np.argmin(np.abs(probability - 0.5)))
    why = shapley_values(model, X)
    print(f"tumour {unsure}: {y[unsure]}, log odds {model.decision_function(X)[unsure]:.3f} ", end="")
    print(f"= {why.base:.3f} + {why.values[unsure].sum():.3f}")

    figure = plt.figure(figsize=(12, 6.4), layout="constrained")
    above, below = figure.subfigures(2, 1)
    for ax, name in zip(above.subplots(1, 3), variance_shares(model).to_frame()["column"], strict=False):
        EffectDisplay.from_estimator(model, name, ax=ax).ax_.set_ylabel("effect on log odds")
    left, right = below.subplots(1, 2, width_ratios=[1, 2])
    groups = np.array_split(np.argsort(probability), 10)
    x = np.array([probability[group].mean() for group in groups])
    seen = np.array([np.mean(y[group] == "malignant") for group in groups])
    reach = 1.96 * np.sqrt(np.maximum(x * (1 - x), 1e-4) / [len(group) for group in groups])
    left.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
    left.errorbar(x, seen, reach, fmt="o", color=BLUE, markersize=4)
    left.set(xlabel="predicted probability, rows not fitted", ylabel="share that was malignant")
    tidy(left)
    left.set_title("calibration", fontsize=10)
    ExplanationDisplay.of(why, unsure).plot(ax=right, most=7)
    right.set_xlabel("log odds of malignant")
    right.set_title(f"tumour {unsure}, hard to call: {right.get_title()}", fontsize=10)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "cancer.png", dpi=100)
    plt.close(figure)
    gap = np.abs(why.base + why.values.sum(axis=1) - model.decision_function(X)).max()
    return {"area": float(area), "log-loss": float(loss), "largest gap of Shapley sums": float(gap)}


if __name__ == "__main__":
    typer.run(main)
