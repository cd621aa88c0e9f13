"""Boosted trees: LightGBM, XGBoost, CatBoost and EBM, on one thread, at their defaults or stopped early.

Early stopping: 10 % of the training rows are set aside, up to 2,000 rounds at the default learning rate are tried, and
50 without improvement end it. Exposures are weights, and rates the targets, which is the same likelihood as an offset.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from ahofm.columns.basis import Floats
from benchmarks.data import Rows, is_text, levels
from benchmarks.peers.task import CLASSES, Predict, Task, probabilities

ROUNDS, PATIENCE = 2000, 50


def lightgbm(task: Task, *, stopped: bool) -> Predict:
    """LightGBM."""
    import lightgbm as package  # noqa: PLC0415 - an optional peer

    settings: dict[str, Any] = {"random_state": task.seed, "n_jobs": 1, "verbose": -1}
    if task.family not in CLASSES:
        settings["objective"] = {"gaussian": "regression", "poisson": "poisson"}[task.family]
    make = package.LGBMClassifier if task.family in CLASSES else package.LGBMRegressor
    if not stopped:
        return _fitted(task, make(**settings))
    callbacks = [package.early_stopping(PATIENCE, verbose=False)]
    return _stopped(task, make(**settings, n_estimators=ROUNDS), "eval_sample_weight", callbacks=callbacks)


def xgboost(task: Task, *, stopped: bool) -> Predict:
    """XGBoost."""
    import xgboost as package  # noqa: PLC0415 - an optional peer

    settings: dict[str, Any] = {"random_state": task.seed, "n_jobs": 1, "enable_categorical": True}
    if task.family not in CLASSES:
        settings["objective"] = {"gaussian": "reg:squarederror", "poisson": "count:poisson"}[task.family]
    make = package.XGBClassifier if task.family in CLASSES else package.XGBRegressor
    if not stopped:
        return _fitted(task, make(**settings))
    model = make(**settings, n_estimators=ROUNDS, early_stopping_rounds=PATIENCE)
    return _stopped(task, model, "sample_weight_eval_set", verbose=False)


def catboost(task: Task) -> Predict:
    """CatBoost, whose default chooses a learning rate by the rows."""
    import catboost as package  # noqa: PLC0415 - an optional peer

    like = task.train.X
    names = [name for name in like.columns if is_text(like[name])]
    settings: dict[str, Any] = {"random_seed": task.seed, "thread_count": 1, "verbose": False}
    settings |= {"allow_writing_files": False, "cat_features": names}
    if task.family == "poisson":
        settings["loss_function"] = "Poisson"
    make = package.CatBoostClassifier if task.family in CLASSES else package.CatBoostRegressor
    y, weight = _rates(task.train)
    model = make(**settings).fit(like.astype(dict.fromkeys(names, str)), y, sample_weight=weight)
    exponent = {"prediction_type": "Exponent"} if task.family == "poisson" else {}

    def predict(X: pd.DataFrame) -> Floats:
        table = X.astype(dict.fromkeys(names, str))
        if task.family in CLASSES:
            return probabilities(model, table, task)
        return np.asarray(model.predict(table, **exponent), dtype=np.float64)

    return predict


def _fitted(task: Task, model: Any) -> Predict:
    """To all rows."""
    like = task.train.X
    y, weight = _rates(task.train)
    model.fit(levels(like, like), y, sample_weight=weight)
    return lambda X: _mean(model, levels(X, like), task)


def _stopped(task: Task, model: Any, weight_aside: str, **settings: Any) -> Predict:
    """By rows that are set aside, whose weights have that name."""
    like = task.train.X
    train, aside = _parts(task)
    (y, weight), (y_aside, weights) = _rates(train), _rates(aside)
    settings["eval_set"] = [(levels(aside.X, like), y_aside)]
    settings[weight_aside] = None if weights is None else [weights]
    model.fit(levels(train.X, like), y, sample_weight=weight, **settings)
    return lambda X: _mean(model, levels(X, like), task)


def ebm(task: Task) -> Predict:
    """EBM, whose default has pairs and stops early."""
    from interpret.glassbox import (  # noqa: PLC0415 - an optional peer
        ExplainableBoostingClassifier,
        ExplainableBoostingRegressor,
    )

    settings: dict[str, Any] = {"random_state": task.seed, "n_jobs": 1}
    if task.family == "poisson":
        settings["objective"] = "poisson_deviance"
    make = ExplainableBoostingClassifier if task.family in CLASSES else ExplainableBoostingRegressor
    y, weight = _rates(task.train)
    model = make(**settings).fit(text(task.train.X), y, sample_weight=weight)
    return lambda X: _mean(model, text(X), task)


def text(table: pd.DataFrame) -> pd.DataFrame:
    """Levels as plain strings, which EBM takes for nominal."""
    return table.astype({name: object for name in table.columns if is_text(table[name])})


def _parts(task: Task) -> tuple[Rows, Rows]:
    """Rows to fit, and rows that say when to stop."""
    y = task.train.y
    strata = y if task.family in CLASSES and np.unique(y, return_counts=True)[1].min() > 1 else None
    fit, aside = train_test_split(np.arange(len(y)), test_size=0.1, random_state=task.seed, stratify=strata)
    return task.train.take(fit), task.train.take(aside)


def _rates(rows: Rows) -> tuple[Floats, Floats | None]:
    return (rows.y, None) if rows.exposure is None else (rows.y / rows.exposure, rows.exposure)


def _mean(model: Any, X: pd.DataFrame, task: Task) -> Floats:
    if task.family in CLASSES:
        return probabilities(model, X, task)
    return np.asarray(model.predict(X), dtype=np.float64)
