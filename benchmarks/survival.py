"""Right-censored times against lifelines: concordance and Brier scores by five-fold cross-validation.

``make bench-survival`` prints the table and writes benchmarks/results/survival.csv (``--only``: some sets, beside the
known results of the others). Default settings everywhere: three families of accelerated failure times and hazards of
this library; Cox's regression and the three regressions of failure times of lifelines (linear in the columns, levels as
indicators). Data sets are those that lifelines ships, and four simulations: one that is linear with proportional
hazards, as Cox's regression assumes, and Weibull, log-normal and log-logistic times with a curve and a pair, whose true
survival probabilities are scored, too. Folds are those of seeds 0 and 1 (0 for simulations); what a fit does with few
events was chosen on seeds 200 and 201. Brier scores are means over nine quantiles of the times of events.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from lifelines import CoxPHFitter, LogLogisticAFTFitter, LogNormalAFTFitter, WeibullAFTFitter, datasets
from scipy import stats
from sklearn.model_selection import StratifiedKFold

from ahofm import AHOFMHazard, AHOFMRegressor
from ahofm.columns.basis import Floats
from ahofm.model.survival_scores import brier_score, concordance
from benchmarks.table import RESULTS, Row, keep, show

SEEDS, FOLDS = (0, 1), 5
"""Seeds of the folds; simulations, whose truth is known, have the first only."""


class Times(NamedTuple):
    """Columns, times, and whether they ended with an event."""

    X: pd.DataFrame
    time: Floats
    event: Floats
    truth: Callable[[pd.DataFrame, Floats], Predicted] | None = None

    def take(self, rows: Any) -> Times:
        """Some rows."""
        return Times(self.X.iloc[rows], self.time[rows], self.event[rows], self.truth)


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


ERRORS: dict[str, Any] = {
    "weibull": stats.gumbel_l(scale=1.0 / 1.5),
    "log-normal": stats.norm(scale=0.7),
    "log-logistic": stats.logistic(scale=0.4),
}
"""Distributions of the logarithm of a time around its linear predictor; that of the Weibull has the shape 1.5."""


def linear(X: pd.DataFrame) -> Floats:
    """Straight lines."""
    return np.asarray(1.0 + 0.8 * X.a - 0.5 * X.b)


def curved(X: pd.DataFrame) -> Floats:
    """A curve and a pair."""
    return np.asarray(1.0 + np.sin(2.5 * X.a) - 1.5 * X.b * X.c)


def simulated(eta: Callable[[pd.DataFrame], Floats], name: str, n: int = 600) -> Times:
    """Times with about a third censored, and their true survival probabilities."""
    rng, error = np.random.default_rng(1), ERRORS[name]
    X = pd.DataFrame(rng.uniform(-1.0, 1.0, (n, 5)), columns=list("abcde"))
    lasted = np.exp(eta(X) + error.rvs(n, random_state=rng))
    seen = rng.exponential(3.0 * np.median(lasted), n)

    def truth(new: pd.DataFrame, at: Floats) -> Predicted:
        return Predicted(eta(new), error.sf(np.log(at) - eta(new)[:, np.newaxis]))

    return Times(X, np.minimum(lasted, seen), (lasted <= seen).astype(float), truth)


SETS: dict[str, Callable[[], Times]] = {
    "rossi": rossi,
    "gbsg2": gbsg2,
    "lung": lung,
    "simulated weibull, linear": lambda: simulated(linear, "weibull"),
    "simulated weibull, a curve and a pair": lambda: simulated(curved, "weibull"),
    "simulated log-normal, a curve and a pair": lambda: simulated(curved, "log-normal"),
    "simulated log-logistic, a curve and a pair": lambda: simulated(curved, "log-logistic"),
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


def regression(fitter: Callable[[], Any]) -> Callable[[Times, pd.DataFrame, Floats], Predicted]:
    """A regression of failure times of lifelines."""

    def fitted(train: Times, X: pd.DataFrame, at: Floats) -> Predicted:
        own, new = indicators(train.X, X)
        model = fitter().fit(own.assign(_time=train.time, _event=train.event), "_time", "_event")
        chances = model.predict_survival_function(new, at).to_numpy().T
        return Predicted(model.predict_median(new).to_numpy(), chances)

    return fitted


def true(train: Times, X: pd.DataFrame, at: Floats) -> Predicted:
    """The distribution that times were drawn from: the best that scores can be."""
    assert train.truth is not None
    return train.truth(X, at)


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
    "Weibull (lifelines)": regression(WeibullAFTFitter),
    "log-normal (lifelines)": regression(LogNormalAFTFitter),
    "log-logistic (lifelines)": regression(LogLogisticAFTFitter),
    "log_normal": failure_times("log_normal"),
    "log_logistic": failure_times("log_logistic"),
    "weibull": failure_times("weibull"),
    "AHOFMHazard": hazards,
    "truth": true,
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


def known() -> dict[str, list[Row]]:
    """Rows of the results by set."""
    file, found = RESULTS / "survival.csv", {name: list[Row]() for name in SETS}
    for row in pd.read_csv(file, keep_default_na=False).itertuples() if file.exists() else ():
        name = max((own for own in SETS if row.measure.startswith(f"{own}, ")), key=len)
        found[name].append(Row(row.measure, float(row.value), ""))
    return found


def main() -> int:
    """All data sets and methods, or some sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(SETS), choices=list(SETS), help="these sets alone")
    table = known()
    for name in parser.parse_args().only:
        rows, table[name] = SETS[name](), []
        for method in METHODS:
            if method == "truth" and rows.truth is None:
                continue
            concordant, brier = scores(rows, method, SEEDS if rows.truth is None else SEEDS[:1])
            found = [Row(f"{name}, {method}: concordance", concordant, ""), Row(f"{name}, {method}: Brier", brier, "")]
            table[name] += found
            show(found)
        keep("survival", [asdict(row) for own in table.values() for row in own], ("lifelines",))
    return 0


if __name__ == "__main__":
    sys.exit(main())
