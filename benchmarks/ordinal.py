"""Ordered levels: wine quality (3 to 9) as ordinal, Gaussian and multinomial fits.

``make bench-ordinal DATA=folder`` prints the table and writes benchmarks/results/ordinal.csv. Default settings, splits
0 and 1, a tenth of the rows not fitted. Scores of probabilities: the mean logarithmic score (minus the log-likelihood),
the ranked probability score (squared errors of cumulative probabilities, summed over thresholds), accuracy of the most
likely level, and the absolute error of the median level. Probabilities of a Gaussian fit are those of its normal
distribution between half numbers, the first and the last level open. A third of the test rows are copies of training
rows; scores of the others stand beside those of all.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.columns.basis import Floats
from ahofm.model.scores import dispersion_of
from benchmarks.data import DATA, Rows
from benchmarks.table import Row, finish, show

SPLITS = range(2)

Predict = Callable[[pd.DataFrame], Floats]


def ordinal(train: Rows, levels: Floats) -> Predict:
    """Cumulative logits; levels that training has not are impossible."""
    model = AHOFMRegressor(family="ordinal", random_state=0, n_jobs=1).fit(train.X, train.y)
    return lambda X: placed(model.predict_proba(X), np.unique(train.y), levels)


def gaussian(train: Rows, levels: Floats) -> Predict:
    """Normal errors, rounded."""
    model = AHOFMRegressor(random_state=0, n_jobs=1).fit(train.X, train.y)
    ends = np.concatenate([[-np.inf], levels[:-1] + 0.5, [np.inf]])
    spread = np.sqrt(dispersion_of(model.model_))

    def probabilities(X: pd.DataFrame) -> Floats:
        std = spread * model.model_.relative_std(X)
        below = stats.norm.cdf((ends - np.asarray(model.predict(X))[:, np.newaxis]) / std[:, np.newaxis])
        return np.diff(below, axis=1)

    return probabilities


def multinomial(train: Rows, levels: Floats) -> Predict:
    """Classes without an order."""
    model = AHOFMClassifier(random_state=0, n_jobs=1).fit(train.X, train.y.astype(int))
    return lambda X: placed(model.predict_proba(X), np.unique(train.y), levels)


def frequencies(train: Rows, levels: Floats) -> Predict:
    """Those of training, whatever the columns."""
    shares = np.array([np.mean(train.y == level) for level in levels])
    return lambda X: np.tile(shares, (len(X), 1))


METHODS: dict[str, Callable[[Rows, Floats], Predict]] = {
    "frequencies": frequencies,
    "gaussian": gaussian,
    "multinomial": multinomial,
    "ordinal": ordinal,
}


def placed(probability: Floats, known: Floats, levels: Floats) -> Floats:
    """Probabilities of known levels as columns among all levels."""
    found = np.zeros((len(probability), len(levels)))
    found[:, np.searchsorted(levels, known)] = probability
    return found


def scored(probability: Floats, y: Floats, levels: Floats) -> dict[str, float]:
    """Scores of probabilities (n, levels)."""
    at = np.searchsorted(levels, y)
    own = np.maximum(probability[np.arange(len(y)), at], 1e-6)  # a level that training lacks
    below = np.cumsum(probability, axis=1)[:, :-1]
    median = levels[np.minimum((below < 0.5).sum(axis=1), len(levels) - 1)]
    return {
        "log score": float(-np.mean(np.log(own))),
        "ranked probability score": float(np.mean(np.sum((below - (y[:, np.newaxis] <= levels[:-1])) ** 2, axis=1))),
        "accuracy": float(np.mean(levels[probability.argmax(axis=1)] == y)),
        "absolute error of the median": float(np.mean(np.abs(median - y))),
    }


def main() -> int:
    """All methods."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the data sets")
    folder = parser.parse_args().data
    levels = np.unique(DATA["wine"].read(folder).y)
    table: list[Row] = []
    for name, method in METHODS.items():
        found, seconds = [], []
        for number in SPLITS:
            train, test = DATA["wine"].split(number, folder)
            begun = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                predict = method(train, levels)
            seconds.append(time.process_time() - begun)
            probability = predict(test.X)
            known = set(train.X.itertuples(index=False, name=None))
            fresh = np.array([row not in known for row in test.X.itertuples(index=False, name=None)])
            own = scored(probability, test.y, levels)
            fresh_scores = scored(probability[fresh], test.y[fresh], levels)
            found.append(own | {f"{score}, rows without copies": value for score, value in fresh_scores.items()})
        rows = [Row(f"wine, {name}: {score}", float(np.mean([own[score] for own in found])), "") for score in found[0]]
        rows.append(Row(f"wine, {name}: processor time", float(np.mean(seconds)), "s"))
        show(rows)
        table += rows
    return finish("ordinal", table, written=True)


if __name__ == "__main__":
    sys.exit(main())
