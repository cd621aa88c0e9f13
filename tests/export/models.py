"""Small fits of every kind that exports have to write, and rows that are hard on them."""

from unittest.mock import patch

import numpy as np
import pandas as pd

from ahofm import AHOFMClassifier, AHOFMRegressor, Categorical, Cyclic, Linear, RandomWalk, Spline, SplineIID
from ahofm.fit import Candidate
from ahofm.orders import PRODUCT
from ahofm.shared_curves import ensemble
from ahofm.shared_curves.candidates import class_candidates

NAMES = ["wind", "select", 'o"rder', "it's", "hour", "season", "zone", "same"]
KINDS = {
    "wind": Spline(n_basis=6),
    "select": RandomWalk(outside="linear"),
    'o"rder': SplineIID(n_basis=6),
    "it's": Linear(outside="linear"),
    "hour": Cyclic(period=24, n_basis=6),
    "zone": Categorical(),
}
ONE = {"factor_prior": "spline", "n_members": 1, "random_state": 0}
N = 700


def rows(n=N, seed=0):
    """All kinds of columns, with missing numbers and levels."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "wind": rng.normal(size=n),
            "select": rng.integers(0, 12, n).astype(float),
            'o"rder': rng.integers(0, 15, n) / 4,
            "it's": rng.uniform(-1, 1, n),
            "hour": rng.uniform(0, 24, n),
            "season": rng.choice(["dry", "wet", 'o\'dd "ä"', "-"], n).astype(object),
            "zone": rng.choice([1.0, 2.0, 5.5, 7.0], n),
            "same": 3.0,
        }
    )
    X.loc[rng.random(n) < 0.1, "wind"] = np.nan
    X.loc[rng.random(n) < 0.1, "season"] = None
    return X


def signal(X):
    wind, hour = X["wind"].fillna(0.3).to_numpy(), np.cos(X["hour"].to_numpy() / 24 * 2 * np.pi)
    level = np.where(X["season"] == "wet", 1.0, -0.5) + 0.4 * (X["zone"].to_numpy() > 3)
    own = X["it's"].to_numpy()
    return np.sin(wind) + own * hour + 0.2 * X["select"].to_numpy() / 4 * level + 0.5 * wind * own * level


def noisy(X, seed=1):
    return signal(X) + 0.2 * np.random.default_rng(seed).normal(size=len(X))


def regressor(**settings):
    return AHOFMRegressor(**{**ONE, "columns": KINDS, **settings})


def order_1():
    return regressor(order=1).fit(rows(), noisy(rows()))


def order_2():
    """Kinds as they are chosen by default, and a spline beside free effects."""
    kept = {"zone": Categorical()}
    return regressor(order=2, columns=kept, factor_prior="spline_iid").fit(rows(), noisy(rows()))


def order_3():
    """Functions without mean zero: contributions need others."""
    return regressor(order=3, center=False, rank=2).fit(rows(), noisy(rows()))


def order_4():
    return regressor(order=4, rank=2).fit(rows(), 100 * noisy(rows()))


def products():
    return regressor(factor_prior=(Candidate("spline", 0.5, 0.5, product=True),)).fit(rows(), noisy(rows()))


def two_classes():
    return AHOFMClassifier(**ONE, order=2, columns=KINDS).fit(rows(), np.where(noisy(rows()) > 0, "yes", "no"))


def three_classes():
    y = np.digitize(noisy(rows()), [-0.5, 0.5]) + 10
    return AHOFMClassifier(**ONE, order=2, columns=KINDS).fit(rows(), y)


def three_classes_products():
    """Classes that depend on the sign of a product of three columns, without candidates of other interactions."""
    X, rng = rows().fillna({"wind": 1.0}), np.random.default_rng(3)
    middles = {"wind": 0.5, "select": X["select"].median(), "it's": X["it's"].median()}
    sign = np.prod([np.where(X[name] > middle, 1.0, -1.0) for name, middle in middles.items()], axis=0)
    y = np.argmax(np.column_stack([3 * sign, -3 * sign, 0 * sign]) + rng.gumbel(size=(N, 3)), axis=1) + 10

    def candidates(*arguments, **given):
        found = class_candidates(*arguments, **given)
        return [one for one in found if one.order in (1, PRODUCT)]

    with patch.object(ensemble, "class_candidates", candidates):
        found = AHOFMClassifier(random_state=0).fit(rows(), y)
    assert PRODUCT in found.model_.ranks
    return found


def counts():
    X, rng = rows(), np.random.default_rng(2)
    exposure = rng.uniform(0.2, 1.0, len(X))
    y = rng.poisson(exposure * np.exp(signal(X)))
    return regressor(order=2, family="poisson").fit(X, y, offset=np.log(exposure))


def lines():
    """Main effects that go on as lines beyond the training range, of three kinds, and interactions that do not."""
    X, kinds = rows(), {**KINDS, "select": RandomWalk(), "it's": Linear()}
    own = 2 * X["wind"].fillna(1.0) + X["select"] - 0.5 * X["it's"] + 0.3 * np.sin(X["wind"].fillna(0.0)) * X["it's"]
    found = regressor(order=2, columns=kinds).fit(X, own + 1e-3 * np.random.default_rng(1).normal(size=N))
    assert list(found.model_.linear_predictors[0].end_slopes) == [0, 1, 3]
    return found


def levels():
    """In an order, from 3 to 6."""
    y = np.digitize(noisy(rows()), [-0.8, 0.2, 1.0]) + 3
    return regressor(order=2, family="ordinal").fit(rows(), y)


def inflated():
    """Two linear predictors: of counts, and of further zeros."""
    X, rng = rows(), np.random.default_rng(3)
    y = rng.poisson(np.exp(1.0 + signal(X))) * (rng.random(len(X)) < 0.7)
    return regressor(order=2, family="zero_inflated_poisson").fit(X, y)


def times():
    """Weibull times, censored; predictions are medians."""
    X, rng = rows(), np.random.default_rng(4)
    t = np.exp(signal(X)) * rng.weibull(2.0, len(X))
    return regressor(order=2, family="weibull").fit(X, np.column_stack([np.minimum(t, 3.0), t <= 3.0]))


MAKERS = {
    make.__name__: make
    for make in (
        order_1,
        order_2,
        order_3,
        order_4,
        products,
        two_classes,
        three_classes,
        three_classes_products,
        counts,
        lines,
        levels,
        inflated,
        times,
    )
}


def hard_rows():
    """New rows: some as in training, some far outside, missing where training had none, unseen levels, borders."""
    X = rows(60, seed=9)
    for at, name in enumerate(["wind", "select", 'o"rder', "it's", "hour", "same"]):
        X.loc[2 * at, name], X.loc[2 * at + 1, name] = -50.0 + at, 40.0 + at
        X.loc[20 + at, name] = np.nan
        X.loc[26 + at, name] = 0.0
    X.loc[30, ["season", "zone"]] = ["never seen", 4.0]
    X.loc[31, ["season", "zone"]] = [None, np.nan]
    X.loc[32] = [np.nan, np.nan, np.nan, np.nan, np.nan, None, np.nan, np.nan]
    learned = rows()
    for at, name in enumerate(["wind", "select", 'o"rder', "it's", "hour"]):
        X.loc[33 + 2 * at, name], X.loc[34 + 2 * at, name] = learned[name].min(), learned[name].max()
    X.loc[44, "hour"], X.loc[45, "hour"] = 24.0, -24.0
    return X
