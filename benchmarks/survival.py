"""Right-censored times against lifelines: concordance and Brier scores by five-fold cross-validation.

``make bench-survival`` prints the table and writes benchmarks/results/survival.csv. Default settings everywhere: three
families of accelerated failure times and hazards of this library, Cox's and the Weibull regression of lifelines (linear
in the columns, levels as indicators). Data sets are those that lifelines ships, and two simulations: one that is linear
with proportional hazards, as Cox's regression assumes, and one with a curve and a pair. Folds are those of seeds 0 and
1; what a fit does with few events was chosen on seeds 200 and 201. Brier scores are means over nine quantiles of the
times of events.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from lifelines import CoxPHFitter, WeibullAFTFitter, datasets
from sklearn.model_selection import StratifiedKFold

from ahofm import AHOFMHazard, AHOFMRegressor
from ahofm.columns.basis import Floats
from ahofm.model.survival_scores import brier_score, concordance
from benchmarks.table import Row, finish, show

SEEDS, FOLDS = (0, 1), 5


class Times(NamedTuple):
    """Columns, times, and whether they ended with an event."""

    X: pd.DataFrame
    time: Floats
    event: Floats

    def take(self, rows: Any) -> Times:
        """Some rows."""
        return Times(self.X.iloc[rows], self.time[rows], self.event[rows])


class Predicted(NamedTuple):
    """A number per row that is larger where times are longer, and survival probabilities (rows, times)."""

    order: Floats
    survival: Floats


def rossi() -> Times:
    """Arrests after release, 114 of 432."""
    table = datasets.load_rossi()
    return Times(table.drop(columns=["week", "arrest"]), table.week.to_numpy(float), table.arrest.to_numpy(float))


def gbsg2() -> Times:
    """Breast cancer, 299 recurrences of 686."""
    table = datasets.load_gbsg2()
    return Times(table.drop(columns=["time", "cens"]), table.time.to_numpy(float), table.cens.to_numpy(float))


def lung() -> Times:
    """Lung cancer, 121 deaths of the 168 without missing values."""
    table = datasets.load_lung().dropna().drop(columns="inst")
    event = (table.status == table.status.max()).to_numpy(float)
    return Times(table.drop(columns=["time", "status"]), table.time.to_numpy(float), event)


def simulated(linear: bool, n: int = 600) -> Times:
    """Weibull times of shape 1.5, about a third censored."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.uniform(-1.0, 1.0, (n, 5)), columns=list("abcde"))
    eta = 1.0 + 0.8 * X.a - 0.5 * X.b
    if not linear:
        eta = 1.0 + np.sin(2.5 * X.a) - 1.5 * X.b * X.c
    lasted = np.exp(eta.to_numpy()) * rng.weibull(1.5, n)
    seen = rng.exponential(3.0 * np.median(lasted), n)
    return Times(X, np.minimum(lasted, seen), (lasted <= seen).astype(float))


SETS: dict[str, Callable[[], Times]] = {
    "rossi": rossi,
    "gbsg2": gbsg2,
    "lung": lung,
    "simulated, linear": lambda: simulated(linear=True),
    "simulated, a curve and a pair": lambda: simulated(linear=False),
}


def indicators(train: pd.DataFrame, test: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Levels as indicators, without the first of each column."""
    whole = pd.get_dummies(pd.concat([train, test]), drop_first=True).astype(float)
    return whole.iloc[: len(train)], whole.iloc[len(train) :]


def cox(train: Times, X: pd.DataFrame, at: Floats) -> Predicted:
    """Cox's regression, without a penalty, by lifelines."""
    own, new = indicators(train.X, X)
    model = CoxPHFitter().fit(own.assign(_time=train.time, _event=train.event), "_time", "_event")
    return Predicted(
        -model.predict_partial_hazard(new).to_numpy(), model.predict_survival_function(new, at).to_numpy().T
    )


def weibull_regression(train: Times, X: pd.DataFrame, at: Floats) -> Predicted:
    """Weibull regression of lifelines."""
    own, new = indicators(train.X, X)
    model = WeibullAFTFitter().fit(own.assign(_time=train.time, _event=train.event), "_time", "_event")
    chances = model.predict_survival_function(new, at).to_numpy().T
    return Predicted(model.predict_median(new).to_numpy(), chances)


def failure_times(family: str) -> Callable[[Times, pd.DataFrame, Floats], Predicted]:
    """A family of this library."""

    def fitted(train: Times, X: pd.DataFrame, at: Floats) -> Predicted:
        model = AHOFMRegressor(family=family, random_state=0, n_jobs=1)
        model.fit(train.X, np.column_stack([train.time, train.event]))
        return Predicted(np.asarray(model.predict(X)), model.predict_survival(X, at))

    return fitted


def hazards(train: Times, X: pd.DataFrame, at: Floats) -> Predicted:
    """Piecewise exponential hazards of this library."""
    model = AHOFMHazard(AHOFMRegressor(random_state=0, n_jobs=1))
    model.fit(train.X, np.column_stack([train.time, train.event]))
    return Predicted(model.predict(X), model.predict_survival(X, at))


METHODS: dict[str, Callable[[Times, pd.DataFrame, Floats], Predicted]] = {
    "Cox (lifelines)": cox,
    "Weibull (lifelines)": weibull_regression,
    "log_normal": failure_times("log_normal"),
    "log_logistic": failure_times("log_logistic"),
    "weibull": failure_times("weibull"),
    "AHOFMHazard": hazards,
}


def scores(rows: Times, method: str, seeds: tuple[int, ...] = SEEDS) -> tuple[float, float]:
    """Mean concordance and mean Brier score over all folds."""
    at = np.quantile(rows.time[rows.event == 1.0], np.linspace(0.1, 0.9, 9))
    found = []
    for seed in seeds:
        for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(rows.X, rows.event):
            new = rows.take(test)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                predicted = METHODS[method](rows.take(train), new.X, at)
            signed = np.where(new.event == 1.0, new.time, -new.time)
            brier = float(np.mean(brier_score(signed, predicted.survival, at)))
            found.append([concordance(signed, predicted.order), brier])
    concordant, brier = np.mean(found, axis=0)
    return float(concordant), float(brier)


def main() -> int:
    """All data sets and methods."""
    table: list[Row] = []
    for name, read in SETS.items():
        rows = read()
        for method in METHODS:
            concordant, brier = scores(rows, method)
            table += [Row(f"{name}, {method}: concordance", concordant, ""), Row(f"{name}, {method}: Brier", brier, "")]
            show(table[-2:])
    return finish("survival", table, ("lifelines",), written=True)


if __name__ == "__main__":
    sys.exit(main())
