"""Rows that the golden fits are made of: numbers from PCG64, rounded, so that every platform has the same ones.

Uniform and normal numbers of a NumPy generator do not change between versions; its other distributions may. Values are
rounded because sines and logarithms differ in the last digit between processors.
"""

import numpy as np
import pandas as pd

NEW_ROWS = 20
"""Rows that are predicted: the last ones drawn, never fitted."""

NAMES = np.array(["ash", "elm", "fir", "oak", "yew"], dtype=object)


def draw(n, seed):
    """A table of n + NEW_ROWS rows and its true predictor, between about -2 and 2.

    Columns: "plain" of distinct numbers, "tied" and "step" of numbers that repeat, "hour" of 0 to 23, "tree" of text,
    "flag" of two numbers, "gap" with a fifth of its values missing. The first new rows have what is special: a value
    that is missing, one outside the range of training, and a level that it has not seen.
    """
    rng = np.random.default_rng(seed)
    uniform, normal = rng.random((n + NEW_ROWS, 7)), rng.standard_normal((n + NEW_ROWS, 2))
    X = pd.DataFrame(
        {
            "plain": np.round(2.0 * uniform[:, 0] - 1.0, 4),
            "tied": np.round(normal[:, 0], 1),
            "step": np.floor(9.0 * uniform[:, 1]),
            "hour": np.floor(24.0 * uniform[:, 2]),
            "tree": NAMES[np.floor(5.0 * uniform[:, 3]).astype(int)],
            "flag": np.floor(2.0 * uniform[:, 4]),
            "gap": np.where(uniform[:, 5] < 0.2, np.nan, np.round(normal[:, 1], 1)),
        }
    )
    tree, step = X["tree"].map(dict(zip(NAMES, (-0.4, 0.3, 0.0, 0.5, -0.2), strict=True))), X["step"] > 4.0
    eta = 0.7 * np.sin(3.0 * X["plain"]) + 0.4 * np.tanh(X["tied"]) + 0.3 * step + tree
    eta += 0.6 * X["plain"] * np.tanh(X["tied"]) + 0.4 * np.cos(np.pi * X["hour"] / 12.0) * (X["flag"] - 0.5)
    eta += 0.3 * np.where(X["gap"].isna(), 1.0, np.sin(X["gap"])) + 0.5 * X["plain"] * np.sin(X["tied"]) * step
    eta = eta.to_numpy(dtype=float)
    X.loc[n, "gap"], X.loc[n + 1, "plain"], X.loc[n + 2, "tree"] = np.nan, 1.5, "pine"
    return X, eta


def target(name, X, eta, seed):
    """Targets of the rows of such a table, with such predictors."""
    rng = np.random.default_rng([seed, 1])
    noise, uniform = rng.standard_normal(len(eta)), rng.random((len(eta), 60))
    arrivals = np.cumsum(-np.log(uniform), axis=1)
    gamma = np.exp(0.5 * eta) * arrivals[:, 2] / 3.0
    found = {
        "gaussian": eta + 0.25 * noise,
        "uneven": eta + (0.05 + 0.9 * (X["plain"] > 0.3).to_numpy()) * noise,
        "outliers": eta + 0.3 * noise * np.where(uniform[:, 0] < 0.05, 15.0, 1.0),
        "positive": gamma,
        "count": (arrivals < np.exp(0.5 + 0.6 * eta)[:, None]).sum(axis=1),
        "wide count": (arrivals < (np.exp(0.5 + 0.6 * eta) * -np.log(uniform[:, -1]))[:, None]).sum(axis=1),
        "claim": np.where(uniform[:, -1] < 0.3, 0.0, gamma),
        "binary": uniform[:, 0] < 1.0 / (1.0 + np.exp(-2.0 * eta)),
        "share": np.floor(6.0 * uniform[:, 0] / (1.0 + np.exp(-2.0 * eta))) / 5.0,
        "rare": uniform[:, 0] < 0.08 / (1.0 + np.exp(-3.0 * eta)),
        "grade": 2.0 + np.floor(4.0 / (1.0 + np.exp(-2.0 * eta - noise))),
        "fraction": 1.0 / (1.0 + np.exp(-eta - 0.4 * noise)),
        "excess zeros": np.where(uniform[:, -1] < 0.3, 0.0, (arrivals < np.exp(1.0 + 0.6 * eta)[:, None]).sum(axis=1)),
        "class": np.floor(3.0 / (1.0 + np.exp(-2.0 * eta - noise))),
    }[name]
    if name == "class":
        return np.array(["low", "middle", "top"], dtype=object)[found.astype(int)]
    return np.round(found.astype(float), 4)
