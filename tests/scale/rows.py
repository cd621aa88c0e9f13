"""Tables for tests of stores and clusters, and what a fit of them is."""

import numpy as np
import pandas as pd


def simulated(n=4_000, seed=0):
    """Numbers with few distinct values, missing ones, levels; targets of several kinds, weights, offsets."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({f"x{j}": rng.normal(size=n).round(2) for j in range(3)})
    table["town"] = rng.choice(["a", "b", "c"], n)
    table.loc[::17, "x1"] = np.nan
    eta = np.sin(2 * table["x0"]) * table["x2"] + 0.3 * table["x1"].fillna(1) ** 2 + (table["town"] == "a")
    table["y"] = eta + 0.3 * rng.normal(size=n)
    table["count"] = rng.poisson(np.exp(0.5 * eta - 1)).astype(float)
    table["sold"] = np.where(eta + rng.logistic(size=n) > 0.5, "yes", "no")
    table["grade"] = np.digitize(eta + rng.logistic(size=n), [0, 1]) * 2 + 1
    table["w"] = rng.integers(0, 3, n).astype(float)
    table["exposure"] = rng.uniform(-0.5, 0.5, n)
    return table


FEATURES = ["x0", "x1", "x2", "town"]


def coefficients(fitted):
    """All of them, one after another."""
    model = fitted.model_
    parts = [np.ravel(part) for terms in model.linear_predictors for part in (*terms.coef, *terms.centring)]
    return np.concatenate([[terms.intercept for terms in model.linear_predictors], *parts])


def difference(one, other):
    """Relative to the largest coefficient."""
    a, b = coefficients(one), coefficients(other)
    assert a.shape == b.shape
    return float(np.abs(a - b).max() / np.abs(a).max())
