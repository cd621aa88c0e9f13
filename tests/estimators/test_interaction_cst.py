"""Interactions that are not allowed are exactly zero, in every solver and for classes; the others are found."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import ahofm
from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.backends.cpu import CpuBackend
from ahofm.explain import contributions, effect, summary, top_interactions, variance_shares
from ahofm.fit import Candidate

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")]

NAMES = list("abcd")
PRODUCT = Candidate("spline", 0.7, 0.7, product=True)
ONE = {"n_members": 1, "order": 3, "random_state": 0, "n_jobs": 1}
SOLVERS = {
    "default": {"n_members": 2, "max_iter": 8},
    "spline": {**ONE, "factor_prior": "spline"},
    "random_walk": {**ONE, "factor_prior": "random_walk", "max_iter": 10},
    "spline_iid": {**ONE, "factor_prior": "spline_iid", "max_iter": 10},
    "reference": {**ONE, "factor_prior": "spline", "max_iter": 5, "device": CpuBackend(compiled_sweeps=False)},
    "products": {**ONE, "factor_prior": [PRODUCT], "max_iter": 10},
    "subsample": {**ONE, "solver": "subsample", "factor_prior": "spline", "max_iter": 8},
    "lbfgs": {"order": 3, "rank": 2, "solver": "lbfgs", "max_iter": 15, "random_state": 0},
    "bcd": {"order": 3, "rank": 2, "solver": "bcd", "max_iter": 4, "random_state": 0},
    "adam": {"order": 3, "rank": 2, "solver": "adam", "max_iter": 5, "random_state": 0},
    "uncentred": {"order": 3, "rank": 2, "solver": "lbfgs", "max_iter": 15, "random_state": 0, "center": False},
}
BARRED = {
    "pair": ({"exclude": [("a", "b")]}, [{"a", "b"}]),
    "column": ({"exclude": ["c"]}, [{"c"}]),
    "groups": ({"interaction_cst": [("a", "b"), ["b", "c", 3]]}, [{"a", "c"}, {"a", "d"}]),
    "rest": ({"interaction_cst": [("a", "b")]}, [{one, other} for one in "ab" for other in "cd"]),
}


def rows(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(-1.0, 1.0, (n, 4)), columns=NAMES)
    eta = X.a + 2.0 * X.a * X.b + 1.5 * X.c * X.d + 2.0 * X.b * X.c * X.d
    return X, eta.to_numpy() + 0.2 * rng.normal(size=n)


def barred_terms(barred):
    terms = [own for d in (2, 3) for own in combinations(NAMES, d)]
    return [own for own in terms if any(len(set(own)) > 1 and one <= set(own) for one in barred)]


def assert_zero(model, X, barred):
    found = contributions(model, X.iloc[:20])
    strengths = {frozenset(term): size for term, size in zip(*_top(model), strict=True)}
    for term in barred_terms(barred):
        at = [k for k, own in enumerate(found.terms) if set(own) == set(term)]
        assert all((found.values[..., k] == 0.0).all() for k in at), term
        assert strengths.get(frozenset(term), 0.0) == 0.0, term


def _top(model):
    found = top_interactions(model, 20)
    return found.terms, found.shares


@pytest.mark.parametrize("constraint", BARRED)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_not_allowed_is_exactly_zero(solver, constraint):
    X, y = rows()
    given, barred = BARRED[constraint]
    model = AHOFMRegressor(**SOLVERS[solver], **given).fit(X, y)
    assert_zero(model, X, barred)
    for linear_predictor in model.model_.linear_predictors:  # also at values that no row has
        for part in linear_predictor.orders.slices.values():
            sizes = np.array([np.abs(own[:, part]).max(axis=0) for own in linear_predictor.coef])
            for term in barred_terms(barred):
                assert (sizes[[NAMES.index(name) for name in term]].prod(axis=0) == 0.0).all()
    shares = variance_shares(model)
    for name in NAMES:
        alone = all(any(one <= {name, other} for one in barred) for other in NAMES if other != name)
        j = list(shares.columns).index(name)
        assert not alone or shares.each[j] == shares.main[j]


@pytest.mark.parametrize("solver", ["auto", "variational"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_classes(solver):
    X, y = rows(200)
    labels = np.digitize(y, [-0.7, 0.7])
    for constraint in ("pair", "rest"):
        given, barred = BARRED[constraint]
        model = AHOFMClassifier(solver=solver, max_iter=10, n_members=1, random_state=0, **given).fit(X, labels)
        for k in range(3):
            found = contributions(model, X.iloc[:20], linear_predictor=k)
            for term in barred_terms(barred):
                at = [i for i, own in enumerate(found.terms) if set(own) == set(term)]
                assert all((found.values[..., i] == 0.0).all() for i in at)


def test_allowed_interactions_are_no_worse():
    rng = np.random.default_rng(0)
    X, fresh = (pd.DataFrame(rng.uniform(-1.0, 1.0, (n, 4)), columns=NAMES) for n in (400, 2_000))

    def truth(X):
        return (X.a + 2.0 * X.a * X.b + 1.5 * X.c * X.d).to_numpy()

    y = truth(X) + 0.3 * rng.normal(size=400)
    settings = {"order": 2, "factor_prior": "spline", "n_members": 1, "random_state": 0}
    free = AHOFMRegressor(**settings).fit(X, y)
    chosen = AHOFMRegressor(**settings, interaction_cst=[("a", "b")]).fit(X, y)
    errors = [np.sqrt(np.mean((own.predict(fresh) - truth(fresh)) ** 2)) for own in (free, chosen)]
    assert errors[1] < 1.05 * errors[0]


def test_orders_by_name():
    X, y = rows()
    settings = {"factor_prior": "spline", "n_members": 1, "max_iter": 5, "random_state": 0}
    assert AHOFMRegressor(interaction_cst="no_interactions", **settings).fit(X, y).model_.order == 1
    assert AHOFMRegressor(interaction_cst="pairwise", **settings).fit(X, y).model_.order == 2
    with pytest.raises(ValueError, match="order=3 contradicts interaction_cst='pairwise', which allows order 2"):
        AHOFMRegressor(interaction_cst="pairwise", order=3).fit(X, y)


def test_it_is_in_summary_file_and_effects(tmp_path):
    X, y = rows()
    model = AHOFMRegressor(exclude=[("a", "b")], **SOLVERS["spline"]).fit(X, y)
    assert "allowed interactions: a × c × d; b × c × d (given; others are zero)" in str(summary(model))
    assert not effect(model, ["a", "b"]).value.any()
    model.save(tmp_path / "model.ahofm")
    back = ahofm.load(tmp_path / "model.ahofm")
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert_zero(back, X, [{"a", "b"}])


def test_the_forecast_knows_groups():
    X, y = rows()
    found = AHOFMRegressor(order=2, rank=3, interaction_cst=[("a", "b"), ("c", "d")]).forecast(X, y)
    assert found.ranks == {2: 6}
