"""Classes and counts on real data: the default of every family beside an additive fit and LightGBM's default.

``make bench-families DATA=...`` prints the table and writes benchmarks/results/families.csv. Splits are
``train_test_split(test_size=0.1, random_state=0)``. freMTPL2freq has an offset, the log of the exposure; errors are
Poisson deviances per unit of exposure.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, mean_poisson_deviance, roc_auc_score
from sklearn.model_selection import train_test_split

from ahofm import AHOFMClassifier, AHOFMRegressor
from benchmarks.data import levels
from benchmarks.table import Row, finish, require, show


def adult(folder: Path) -> list[Row]:
    """Two classes, 48,842 rows, mostly levels."""
    table = pd.read_csv(folder / "adult.csv.gz")
    y = table["income"].to_numpy()
    X = table.drop(columns=["income"])
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.1, random_state=0)
    model, seconds = timed(lambda: AHOFMClassifier(random_state=0).fit(train, y_train))
    p = model.predict_proba(test)[:, 1]
    additive = model.model_.at_order(1).mean(test)
    peer, peer_seconds = timed(lambda: lightgbm("Classifier").fit(levels(train), y_train))
    q = peer.predict_proba(levels(test, train))[:, 1]
    return [
        require("adult, AUROC", roc_auc_score(y_test, p), "", least=0.927),
        require("adult, log-loss", log_loss(y_test, p), "", most=0.275),
        Row("adult, log-loss, order 1", log_loss(y_test, additive), ""),
        Row("adult, AUROC, LightGBM", roc_auc_score(y_test, q), ""),
        Row("adult, log-loss, LightGBM", log_loss(y_test, q), ""),
        Row("adult, fit", seconds, "s"),
        Row("adult, fit, LightGBM", peer_seconds, "s"),
    ]


def claims(folder: Path) -> list[Row]:
    """Counts with exposures, 678,013 rows."""
    table = pd.read_csv(folder / "freMTPL2freq.csv.gz")
    exposure, y = table["Exposure"].to_numpy(float), table["ClaimNb"].to_numpy(float)
    X = table.drop(columns=["Exposure", "ClaimNb"])
    rows = np.arange(len(X))
    a, b = train_test_split(rows, test_size=0.1, random_state=0)
    model, seconds = timed(
        lambda: AHOFMRegressor(family="poisson", random_state=0).fit(X.iloc[a], y[a], offset=np.log(exposure[a]))
    )
    peer, peer_seconds = timed(
        lambda: lightgbm("Regressor", objective="poisson").fit(
            levels(X.iloc[a]), y[a] / exposure[a], sample_weight=exposure[a]
        )
    )

    def deviance(rate: Any) -> float:
        return float(mean_poisson_deviance(y[b] / exposure[b], rate, sample_weight=exposure[b]))

    at = [np.exp(model.model_.at_order(order).eta(X.iloc[b])[:, 0]) for order in (1, 2, 3)]
    return [
        Row("claims, deviance, order 1", deviance(at[0]), ""),
        Row("claims, deviance, order 2", deviance(at[1]), ""),
        require("claims, deviance, order 3", deviance(at[2]), "", most=0.575),
        Row("claims, deviance, LightGBM", deviance(peer.predict(levels(X.iloc[b], X.iloc[a]))), ""),
        Row("claims, passes over all rows", model.trace_.records[-1].passes, ""),
        Row("claims, fit", seconds, "s"),
        Row("claims, fit, LightGBM", peer_seconds, "s"),
    ]


def bikes(folder: Path) -> list[Row]:
    """Counts that vary more than their mean, 17,379 rows."""
    table = pd.read_csv(folder / "bike_sharing_hour.csv")
    y = table["cnt"].to_numpy(float)
    X = table.drop(columns=["cnt"])
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.1, random_state=0)
    found = []
    for family in ("poisson", "negative_binomial"):
        estimator = AHOFMRegressor(family=family, random_state=0)
        model, seconds = timed(partial(estimator.fit, train, y_train))
        found += [
            Row(f"bikes, {family}, deviance", mean_poisson_deviance(y_test, model.predict(test)), ""),
            Row(
                f"bikes, {family}, deviance, order 1",
                mean_poisson_deviance(y_test, model.model_.at_order(1).predict(test)),
                "",
            ),
            Row(f"bikes, {family}, log-likelihood a row", model.log_likelihood(test, y_test) / len(test), ""),
            Row(f"bikes, {family}, fit", seconds, "s"),
        ]
    peer, seconds = timed(lambda: lightgbm("Regressor", objective="poisson").fit(levels(train), y_train))
    found.append(Row("bikes, LightGBM, deviance", mean_poisson_deviance(y_test, peer.predict(levels(test, train))), ""))
    return [*found, Row("bikes, LightGBM, fit", seconds, "s")]


def wine(folder: Path) -> list[Row]:
    """Three classes: up to 5, 6, and from 7 on."""
    table = pd.read_csv(folder / "wine_quality.csv")
    y = np.digitize(table["quality"], [5.5, 6.5])
    X = table.drop(columns=["quality"])
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.1, random_state=0)
    model, seconds = timed(lambda: AHOFMClassifier(random_state=0).fit(train, y_train))
    peer, peer_seconds = timed(lambda: lightgbm("Classifier").fit(levels(train), y_train))
    return [
        Row("wine, log-loss", log_loss(y_test, model.predict_proba(test)), ""),
        Row("wine, log-loss, order 1", log_loss(y_test, model.model_.at_order(1).mean(test)), ""),
        Row("wine, log-loss, LightGBM", log_loss(y_test, peer.predict_proba(levels(test, train))), ""),
        Row("wine, fit", seconds, "s"),
        Row("wine, fit, LightGBM", peer_seconds, "s"),
    ]


def timed(task: Callable[[], Any]) -> tuple[Any, float]:
    """A result, and the seconds it took."""
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return task(), time.perf_counter() - begun


def lightgbm(kind: str, **settings: Any) -> Any:
    """LightGBM's default."""
    import lightgbm as package  # noqa: PLC0415 - an optional peer

    return getattr(package, f"LGBM{kind}")(verbose=-1, random_state=0, **settings)


SETS = {"adult": adult, "claims": claims, "bikes": bikes, "wine": wine}


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument(
        "--sets", nargs="*", default=list(SETS), choices=list(SETS), help="kept only when all of them run"
    )
    given = parser.parse_args()
    table: list[Row] = []
    for name in given.sets:
        table += (rows := SETS[name](given.data))
        show(rows)
    return finish("families", table, ["lightgbm"], written=len(given.sets) == len(SETS))


if __name__ == "__main__":
    sys.exit(main())
