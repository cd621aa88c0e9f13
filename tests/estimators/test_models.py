"""What is fitted is the model it says, and it does not depend on what it should not."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import r2_score

import ahofm
from ahofm import AHOFMClassifier, AHOFMRegressor, Categorical, Cyclic, Linear
from ahofm.families import FAMILIES, Family, Gaussian, Multinomial
from ahofm.model import Model
from tests.fit.fits import simulated

X, Y, TRUTH = simulated(300)
EXACT = {
    "smoothing": "df",
    "random_state": 0,
    "tol": 1e-10,
    "max_iter": 60,
}
quiet = pytest.mark.filterwarnings("ignore:the fit stopped at max_iter")


def by_subsets(model, X):
    """eta from the columns' functions at the raw values, subset by subset."""
    terms, books = model.linear_predictors[0], model.encoder.codebooks
    table = model.encoder.check(X)
    phi = []
    for book, column, coef, level in zip(books, table.columns, terms.coef, terms.centring, strict=True):
        known = book.encode(column) != book.neutral_code
        phi.append(book.evaluate(column) @ coef + np.outer(known, level))
    eta, start = terms.intercept + sum(part[:, 0] for part in phi), 1
    for order, rank in model.ranks.items():
        for f, loading in enumerate(terms.loadings[order], start):
            own = sum(np.prod([phi[j][:, f] for j in s], axis=0) for s in combinations(range(len(phi)), order))
            eta = eta + loading * own
        start += rank
    return eta


@quiet
@pytest.mark.parametrize("center", [True, False], ids=["centred", "free"])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_model_is_the_sum_over_subsets(order, center):
    """Order 1 is a GAM, order 2 the paper's AFM, order 3 and up the AHOFM."""
    frame = pd.DataFrame(X, columns=list("abcd")).assign(hour=np.arange(300) % 24.0, town=list("xyz") * 100)
    frame.loc[::11, "a"] = np.nan
    settings = {
        "columns": {"hour": Cyclic(period=24)},
        "smoothing": "df",
        "random_state": 1,
        "max_iter": 25,
        "tol": 1e-9,
    }
    model = AHOFMRegressor(order=order, rank=3, center=center, **settings).fit(frame, Y).model_
    frame.loc[5, "town"], frame.loc[6, "b"], frame.loc[7, "c"] = "never seen", np.nan, 99.0
    expected = by_subsets(model, frame)
    np.testing.assert_allclose(model.eta(frame)[:, 0], expected, atol=1e-10 * np.abs(expected).max())
    assert model.order == order


@quiet
@pytest.mark.parametrize("order", [2, 3])
def test_linear_columns_are_factorization_machines(order):
    """FM and HOFM: w0 + sum w_j x_j + sum over subsets of products of x with factors v."""
    model = (
        AHOFMRegressor(order=order, rank=4, columns=Linear(outside="linear"), center=False, **EXACT).fit(X, Y).model_
    )
    terms = model.linear_predictors[0].unloaded()
    w = np.array([coef[0, 0] for coef in terms.coef])
    w0 = terms.intercept + sum(level[0] for level in terms.centring)
    v = np.array([coef[0, 1:] for coef in terms.coef])
    assert all((level[1:] == 0.0).all() for level in terms.centring)
    far = 3.0 * X
    eta, start = w0 + far @ w, 0
    for d in range(2, order + 1):
        for s in combinations(range(4), d):
            eta = eta + np.prod(far[:, s], axis=1) * np.prod(v[list(s)][:, start : start + 4], axis=0).sum()
        start += 4
    np.testing.assert_allclose(model.eta(far)[:, 0], eta, rtol=1e-10, atol=1e-10)


def test_centred_factors_have_no_mean():
    settings = {"order": 3, "factor_prior": "spline", "random_state": 0}
    model = AHOFMRegressor(columns={3: Linear()}, **settings).fit(X, Y).model_
    (tables,) = model.tables()
    start = 0
    for book in model.encoder.codebooks:
        for table in (tables.main[:, None], *tables.factors.values()):
            rows = table[start : start + book.n_codes]
            assert np.abs(book.mass @ rows / book.mass.sum()).max() < 1e-10 * max(np.abs(rows).max(), 1.0)
        start += book.n_codes


@quiet
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("solver", ["lbfgs", "bcd"])
def test_integer_weights_are_repeated_rows_and_zeros_are_absent(order, solver, monkeypatch):
    """Knots, bins, degrees of freedom and all: more distinct values than codes, some of weight zero."""
    monkeypatch.setattr("ahofm.training.data.MERGED_ROWS", 0)  # as it is for many rows
    rng = np.random.default_rng(5)
    times = rng.integers(0, 4, 300)
    settings = {**EXACT, "order": order, "solver": solver, "max_codes": 40, "max_iter": 15}
    weighted = AHOFMRegressor(**settings).fit(X, Y, sample_weight=times)
    repeated = AHOFMRegressor(**settings).fit(np.repeat(X, times, axis=0), np.repeat(Y, times))
    absent = AHOFMRegressor(**settings).fit(X[times > 0], Y[times > 0], sample_weight=times[times > 0])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-7, atol=1e-8)
    np.testing.assert_array_equal(weighted.predict(X), absent.predict(X))
    for order_, smoothing_parameters in weighted.model_.smoothing_parameters.items():
        np.testing.assert_allclose(smoothing_parameters, repeated.model_.smoothing_parameters[order_], rtol=1e-9)


@pytest.mark.slow
@quiet
def test_few_rows_give_the_same_bits_repeated_weighted_or_shuffled():
    rng = np.random.default_rng(6)
    times = rng.integers(0, 4, 300)
    rows = rng.permutation(np.repeat(np.arange(300), times))
    settings = {"order": 3, "random_state": 0, "max_iter": 30}
    weighted = AHOFMRegressor(**settings).fit(X, Y, sample_weight=times)
    repeated = AHOFMRegressor(**settings).fit(X[rows], Y[rows])
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))


@quiet
def test_rows_and_columns_may_come_in_any_order():
    frame = pd.DataFrame(X, columns=["x2", "x10", "b", "a"])
    settings = {**EXACT, "order": 3, "max_iter": 20}
    plain = AHOFMRegressor(**settings).fit(frame, Y).predict(frame)
    shuffle = np.random.default_rng(0).permutation(300)
    by_rows = AHOFMRegressor(**settings).fit(frame.iloc[shuffle], Y[shuffle]).predict(frame)
    np.testing.assert_allclose(by_rows, plain, rtol=1e-6, atol=1e-7)
    turned = frame[["a", "b", "x10", "x2"]]
    np.testing.assert_allclose(AHOFMRegressor(**settings).fit(turned, Y).predict(turned), plain, rtol=1e-6, atol=1e-7)


@quiet
def test_factors_may_come_in_any_order():
    model = AHOFMRegressor(order=3, rank={2: 4, 3: 3}, **EXACT).fit(X, Y).model_
    (terms,) = model.linear_predictors
    turn = [0, 3, 1, 2, 4, 7, 5, 6]
    turned = replace(terms, coef=tuple(c[:, turn] for c in terms.coef), centring=tuple(v[turn] for v in terms.centring))
    other = Model(**{**vars_of(model), "linear_predictors": (turned,)})
    np.testing.assert_allclose(other.eta(X), model.eta(X), rtol=1e-12, atol=1e-12)


def vars_of(model):
    return {name: getattr(model, name) for name in Model.__dataclass_fields__}


@pytest.mark.slow
@quiet
def test_saved_and_loaded_predicts_the_same_bits(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(town=list("xyz") * 100)
    settings = {"order": 3, "factor_prior": "spline", "random_state": 0, "max_iter": 10}
    model = AHOFMClassifier(**settings).fit(frame, np.digitize(Y, [0.0, 0.7]))
    model.model_.save(tmp_path / "model.ahofm")
    loaded = ahofm.load(tmp_path / "model.ahofm")
    np.testing.assert_array_equal(loaded.model_.eta(frame), model.model_.eta(frame))
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))


@pytest.mark.slow
def test_target_units_do_not_matter():
    """Penalties on factors are not linear in the target; the fit standardises it and gives back its units."""
    a = AHOFMRegressor(order=2, random_state=0).fit(X, Y).predict(X)
    b = AHOFMRegressor(order=2, random_state=0).fit(X, 1e6 * Y - 5e6).predict(X)
    np.testing.assert_allclose((b + 5e6) / 1e6, a, rtol=1e-6, atol=1e-7)


TARGETS = {
    "gaussian": TRUTH,
    "bernoulli": (TRUTH > 0.3).astype(float),
    "binomial": 1.0 / (1.0 + np.exp(-TRUTH)),
    "quasi_binomial": 1.0 / (1.0 + np.exp(-TRUTH)),
    "poisson": np.round(np.exp(TRUTH)),
    "quasi_poisson": np.round(np.exp(TRUTH)),
    "negative_binomial": np.round(np.exp(TRUTH)),
    "gamma": np.exp(TRUTH),
    "tweedie": np.exp(TRUTH) * (TRUTH > 0),
    "quantile": TRUTH,
    "laplace": TRUTH,
    "huber": TRUTH,
    "gaussian_location_scale": Y,
    "ordinal": np.digitize(TRUTH, [0.0, 1.0]).astype(float),
    "beta": 1.0 / (1.0 + np.exp(-TRUTH)),
    "zero_inflated_poisson": np.round(np.exp(TRUTH + 1.0)) * (np.arange(300) % 4 > 0),
    "log_normal": np.exp(TRUTH),
    "log_logistic": np.exp(TRUTH),
    "weibull": np.exp(TRUTH),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(FAMILIES) - {"multinomial"}))
@pytest.mark.parametrize("solver", ["lbfgs", "bcd", "adam"])
@pytest.mark.filterwarnings("ignore:the fit stopped at max_iter")
@pytest.mark.filterwarnings("ignore:.*intervals are too wide")  # targets without noise
def test_every_family_fits_with_weights_and_offsets(name, solver):
    """Targets of their own distribution are explained, and the rest of the model makes up for an offset."""
    y, rng = TARGETS[name], np.random.default_rng(0)
    offset, weight = 0.3 * X[:, 3], rng.uniform(0.5, 2.0, 300)
    model = AHOFMRegressor(order=1, family=name, solver=solver, random_state=0, max_iter=200, patience=20, tol=1e-6)
    model.fit(X, y, sample_weight=weight, offset=offset)
    assert model.score(X, y, sample_weight=weight, offset=offset) > 0.55
    plain = AHOFMRegressor(order=1, family=name, solver=solver, random_state=0, max_iter=200, patience=20, tol=1e-6)
    plain.fit(X, y, sample_weight=weight)
    with_offset = model.predict_eta(X, offset)
    gap = np.abs(with_offset - plain.predict_eta(X)).mean()
    assert gap < 0.25 * np.abs(offset).mean() + 0.1 * np.std(with_offset), "an additive offset is made up for"
    assert np.abs(model.predict_eta(X) - with_offset).mean() > 0.05


def test_location_and_scale_finds_both():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, size=(3000, 2))
    sd = np.exp(x[:, 1])
    y = 2.0 * x[:, 0] + sd * rng.normal(size=3000)
    model = AHOFMRegressor(order=1, family="gaussian_location_scale", df=5, random_state=0).fit(x, y)
    eta = model.predict_eta(x)
    assert np.corrcoef(eta[:, 0], x[:, 0])[0, 1] > 0.99
    assert np.corrcoef(eta[:, 1], x[:, 1])[0, 1] > 0.97
    assert eta[:, 1].mean() == pytest.approx(np.log(sd).mean(), abs=0.05)


class Cubic(Family):
    """A family of a user's own: the fourth power of the residual."""

    target = Gaussian.target

    def loss(self, y, eta):
        r = eta[:, 0] - y
        return r**4 / 4, (r**3)[:, None], (3 * r**2)[:, None]

    def mean(self, eta):
        return eta[:, 0]

    def guess(self, y, weight):
        return np.array([np.average(y, weights=weight)])


@pytest.mark.slow
def test_family_of_ones_own():
    model = AHOFMRegressor(order=2, family=Cubic(), random_state=0).fit(X, Y)
    assert model.score(X, Y) > 0.8
    with pytest.raises(TypeError, match=r"Cubic.*not built in"):
        model.model_.save("model.ahofm")


def test_multinomial_probabilities_match_binary_ones():
    labels = (TRUTH > 0.3).astype(int)
    two = AHOFMClassifier(order=1, df=4, tol=1e-9).fit(X, labels)
    other = AHOFMClassifier(order=1, df=4, tol=1e-9, family=Multinomial(2)).fit(X, labels)
    assert np.abs(two.predict_proba(X) - other.predict_proba(X)).mean() < 0.05


def test_categories_as_numbers():
    x = np.column_stack([X[:, 0], np.arange(300) % 5])
    y = np.array([3.0, -1.0, 2.0, 0.0, 1.0])[np.arange(300) % 5]
    model = AHOFMRegressor(order=1, columns={1: Categorical()}, df={"x1": 4.99}).fit(x, y)
    assert model.score(x, y) > 0.99


@pytest.mark.parametrize("family", ["gaussian", "poisson", "gaussian_location_scale", "laplace"])
def test_a_constant_target_is_scored_as_scikit_learn_does(family):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = rng.poisson(np.exp(0.5 * X[:, 0])).astype(float) + 1.0
    model = AHOFMRegressor(order=1, family=family, random_state=0).fit(X, y)
    same = np.full(200, 0.1 if family != "poisson" else 3.0)
    assert model.score(X, same) == r2_score(same, model.predict(X)) == 0.0
    rows = np.repeat(X[:1], 5, axis=0)
    hit = model.predict(rows)
    if family != "poisson":  # whose targets are whole numbers
        assert model.score(rows, hit) == r2_score(hit, hit) == 1.0
        weight = np.array([1.0, 1.0, 0.0, 0.0, 0.0])
        assert model.score(rows, np.where(weight > 0, hit, 9.0), sample_weight=weight) == 1.0
    if family != "gaussian_location_scale":  # which is for targets that differ
        offset = np.linspace(0.0, 1.0, 200)  # then a constant does not explain it
        assert model.score(X, same, offset=offset) not in (0.0, 1.0)
    with pytest.warns(UndefinedMetricWarning, match="at least two rows"):
        assert np.isnan(model.score(X[:1], y[:1]))
