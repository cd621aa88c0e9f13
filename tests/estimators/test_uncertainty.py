"""Standard deviations, intervals, degrees of freedom, likelihoods and draws."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logit, softmax
from sklearn.exceptions import NotFittedError

import ahofm
from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.columns import Linear
from ahofm.columns.table import read_table
from ahofm.estimators.intervals import class_intervals
from ahofm.explain import effect
from ahofm.families import (
    Bernoulli,
    Gamma,
    Gaussian,
    GaussianLocationScale,
    Huber,
    Laplace,
    Multinomial,
    NegativeBinomial,
    Poisson,
    Quantile,
    Tweedie,
)
from ahofm.families.distributions import is_discrete, log_density
from ahofm.inference import sample, uncertainty
from ahofm.inference.uncertainty import band_of
from ahofm.kernels import Chunk, NativeKernel
from ahofm.model.jacobian import diagonal, jacobian, pulled_back, tables_at

ONE = {"order": 2, "factor_prior": "spline", "n_members": 1, "random_state": 0}


def truth_of(X):
    return np.sin(2.5 * X[:, 0]) + 0.8 * (X[:, 1] ** 2 - 1 / 3) + 1.2 * X[:, 2] * np.cos(2 * X[:, 3])


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(1000, 5))
    y = truth_of(X) + 0.7 * rng.normal(size=1000)
    return AHOFMRegressor(**ONE).fit(X, y), X, y


@pytest.mark.parametrize("signed", [False, True], ids=["loadings of one sign", "loadings of both signs"])
def test_derivatives_are_those_of_the_predictor(fitted, signed):
    model, X, y = fitted
    own = model.model_
    if signed:
        predictor = own.linear_predictors[0]
        turned = {d: loading * (-2.0) ** np.arange(len(loading)) for d, loading in predictor.loadings.items()}
        own = replace(own, linear_predictors=(replace(predictor, loadings=turned),))
    band = band_of(own, read_table(X), y)
    signs = {float(sign) for loading in band.loadings_of(0).values() for sign in loading}
    assert signs == ({1.0, -1.0} if signed else {1.0})
    codes = own.encoder.encode(X[:40])
    theta = band.thetas[0]

    def tables(theta):
        return tables_at(theta, band.mains, band.factors, band.ranks, band.loadings_of(0))

    J = jacobian(Chunk(codes), tables(theta), band.mains, band.factors)

    def eta(theta):
        return NativeKernel("float64").eta(Chunk(codes), [tables(theta)])[:, 0]

    step = 1e-6 * np.random.default_rng(1).normal(size=len(theta))
    np.testing.assert_allclose(eta(theta + step) - eta(theta - step), 2 * J @ step, atol=1e-10)
    _, std = band.of(J)
    np.testing.assert_allclose(band.eta(codes)[:, 0], np.hypot(J @ band.row_shifts[0], std), rtol=1e-9)
    g = np.random.default_rng(2).normal(size=40)
    found = pulled_back(Chunk(codes), tables(theta), band.mains, band.factors, g)
    np.testing.assert_allclose(found, J.T @ g, atol=1e-10)

    def pair(theta):
        first, second = (codes.columns[j].astype(np.int64) + codes.starts[j] for j in (0, 1))
        part = tables(theta)
        return (part.factors[2][first] * part.factors[2][second]) @ part.loading(2)

    derivatives = band.term((0, 1), codes.columns[:2])
    np.testing.assert_allclose(pair(theta + step) - pair(theta - step), 2 * derivatives @ step, atol=1e-10)


def test_a_sample_of_the_rows_does_not_move_the_band(fitted, monkeypatch):
    model, X, y = fitted
    codes = model.model_.encoder.encode(X)
    curve = [np.arange(model.model_.encoder.codebooks[0].n_codes)]

    def found():
        band = band_of(model.model_, read_table(X), y)
        return band.eta(codes), *band.of(band.term([0], curve))

    rows, shift, spread = found()
    monkeypatch.setattr(sample, "MOST_ROWS", 500)
    wide, moved, _ = found()
    assert np.sqrt(np.mean(((moved - shift)[:-1] / spread[:-1]) ** 2)) < 0.5
    assert np.median(wide / rows) == pytest.approx(1.0, abs=0.15)


def test_coordinates_without_correlations_add_their_variance(fitted, monkeypatch):
    """Against the whole covariance: a block of some coordinates, a diagonal of the others."""
    model, X, y = fitted
    monkeypatch.setattr(uncertainty, "MOST_CORRELATED", 150)
    band = band_of(model.model_, read_table(X), y)
    theta, kept, root = band.thetas[0], np.array(band.correlated[0]), band.roots[0]
    assert len(kept) == len(band.shifts[0]) == 150 < len(theta)
    assert ((band.uncorrelated[0] > 0.0) == ~np.isin(np.arange(len(theta)), kept)).all()
    V = np.diag(band.uncorrelated[0])
    V[np.ix_(kept, kept)] = np.linalg.inv(root @ root.T)
    codes = model.model_.encoder.encode(X[:40])
    tables = tables_at(theta, band.mains, band.factors, band.ranks, band.loadings_of(0))
    J = jacobian(Chunk(codes), tables, band.mains, band.factors)
    expected = np.einsum("ij,jk,ik->i", J, V, J) + (J[:, kept] @ band.row_shifts[0]) ** 2
    np.testing.assert_allclose(band.eta(codes)[:, 0] ** 2, expected, rtol=1e-6)
    whole = replace(band, correlated=(), uncorrelated=(), roots=(np.eye(len(theta)),), shifts=(np.zeros(len(theta)),))
    pair = whole.term((2, 3), codes.columns[2:4])
    np.testing.assert_allclose(
        band.term_std((2, 3), codes.columns[2:4]) ** 2,
        np.einsum("ij,jk,ik->i", pair, V, pair) + (pair[:, kept] @ band.shifts[0]) ** 2,
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        diagonal(Chunk(codes), tables, band.mains, band.factors, np.ones(40)), (J**2).sum(axis=0)
    )


def test_pairs_have_the_derivatives_of_their_terms(fitted):
    model, X, y = fitted
    band = band_of(model.model_, read_table(X), y)
    codes = model.model_.encoder.encode(X[:30]).columns
    theta, columns = band.thetas[0], (2, 3)
    J = band.term(columns, (codes[2], codes[3]))
    ends = np.cumsum([0, *(len(main) for main in band.mains)])

    def term(theta):
        pairs = tables_at(theta, band.mains, band.factors, band.ranks).factors[2]
        return (pairs[ends[2] + codes[2]] * pairs[ends[3] + codes[3]]).sum(axis=1)

    step = 1e-6 * np.random.default_rng(2).normal(size=len(theta))
    np.testing.assert_allclose(term(theta + step) - term(theta - step), 2 * J @ step, atol=1e-10)


def test_an_additive_band_without_penalties_is_least_squares():
    """kappa = 0: the covariance of the regression on the coordinates, and its fit in the centre."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(400, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=400)
    model = AHOFMRegressor(order=1, random_state=0).fit(X, y).model_
    band = band_of(model, read_table(X), y, kappa=0.0)
    codes = model.encoder.encode(X)
    J = np.hstack(
        [np.ones((400, 1)), *(values[column] for values, column in zip(band.mains, codes.columns, strict=True))]
    )
    shift, spread = band.of(J)
    np.testing.assert_allclose(band.eta(codes)[:, 0], np.hypot(shift, spread), rtol=1e-8)
    expected = np.sqrt(model.dispersion * np.einsum("ij,jk,ik->i", J, np.linalg.pinv(J.T @ J), J))
    np.testing.assert_allclose(spread, expected, rtol=1e-4)
    best = J @ np.linalg.lstsq(J, y - model.eta(X)[:, 0], rcond=None)[0]
    np.testing.assert_allclose(shift, best, atol=1e-4)


@pytest.mark.slow
def test_intervals_of_few_rows_and_little_noise_cover():
    held = []
    for seed in (3, 4, 5, 6):
        rng = np.random.default_rng(seed)
        few, new = rng.uniform(-1, 1, size=(2, 150, 8))
        noise = 0.1 * rng.normal(size=(2, 150))
        tight = AHOFMRegressor(random_state=0).fit(few, truth_of(few) + noise[0])
        low, high = tight.predict_interval(new, kind="new").T
        targets = truth_of(new) + noise[1]
        held.append(np.mean((low < targets) & (targets < high)))
    assert np.mean(held) > 0.88


def test_a_line_has_the_standard_errors_of_least_squares():
    """What the rows determine has its whole variance, whatever was shrunk away elsewhere."""
    rng = np.random.default_rng(21)
    X = rng.uniform(-1, 1, size=(500, 2))
    y = X @ [1.0, -2.0] + rng.normal(size=500)
    model = AHOFMRegressor(order=1, columns=Linear(), random_state=0).fit(X, y)
    Z = np.column_stack([np.ones(500), X])
    expected = np.sqrt(model.model_.dispersion * np.einsum("ij,jk,ik->i", Z, np.linalg.inv(Z.T @ Z), Z))
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], expected, rtol=0.02)


def test_intervals_cover(fitted):
    model, _, _ = fitted
    rng = np.random.default_rng(4)
    new = rng.uniform(-1, 1, size=(2000, 5))
    low, high = model.predict_interval(new).T
    assert 0.88 < np.mean((low < truth_of(new)) & (truth_of(new) < high)) <= 1.0
    low, high = model.predict_interval(new, kind="new").T
    targets = truth_of(new) + 0.7 * rng.normal(size=2000)
    assert np.mean((low < targets) & (targets < high)) == pytest.approx(0.95, abs=0.03)
    narrow = model.predict_interval(new, level=0.5)
    assert (np.diff(narrow) < np.diff(model.predict_interval(new))).all()


def margins(low, value, high):
    """Distance of an estimate to the nearer end of its interval, in shares of the interval's width."""
    return np.minimum(value - low, high - value) / (high - low)


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_estimates_are_well_inside_their_bands_where_columns_overlap(family):
    """Bands used to be centred one step from the fit: with overlapping columns the estimate was their border."""
    rng = np.random.default_rng(14)
    X = rng.uniform(-1, 1, size=(600, 3))
    X[:, 1] = X[:, 0] + 0.05 * rng.normal(size=600)
    eta = np.sin(2.5 * X[:, 0]) + X[:, 1]
    y = eta + 0.5 * rng.normal(size=600) if family == "gaussian" else rng.binomial(1, 1 / (1 + np.exp(-2 * eta)))
    model = AHOFMRegressor(family=family, order=1, random_state=0).fit(X, y)
    ends = (model.predict_interval(X)[:, 0], model.predict(X), model.predict_interval(X)[:, 1])
    assert margins(*(ends if family == "gaussian" else map(logit, ends))).min() > 0.05  # on the scale of the link
    for column in range(3):
        one = effect(model, column)
        assert margins(one.low, one.value, one.high).min() > 0.05
        assert margins(one.all_low, one.value, one.all_high).min() > 0.05
        assert margins(one.low, one.value, one.high).max() == pytest.approx(0.5)


def test_the_error_of_a_term_has_its_bias_with_it(fitted):
    model, X, y = fitted
    band = band_of(model.model_, read_table(X), y)
    J = band.term([0], [np.arange(model.model_.encoder.codebooks[0].n_codes - 1)])
    shift, spread = band.of(J)
    np.testing.assert_allclose(band.std(J) ** 2, spread**2 + shift**2)


def test_intervals_of_many_levels_cover(monkeypatch):
    rng = np.random.default_rng(8)
    level, x = rng.integers(0, 120, size=1800), rng.uniform(-1, 1, 1800)
    mean = rng.normal(size=120)[level] + np.sin(3 * x)
    X = pd.DataFrame({"level": [f"l{value}" for value in level], "x": x})
    model = AHOFMRegressor(order=1, random_state=0).fit(X[:800], (mean + rng.normal(size=1800))[:800])

    def covered():
        low, high = model.predict_interval(X[800:]).T
        return np.mean((low < mean[800:]) & (mean[800:] < high))

    assert 0.9 < covered() < 0.99
    monkeypatch.setattr(uncertainty, "MOST_LEVELS", 24)
    model.fit(X[:800], (mean + rng.normal(size=1800))[:800])
    assert 0.9 < covered() < 0.99, "also of levels without a coordinate"


@pytest.mark.parametrize("solver", ["variational", "lbfgs"])
def test_degrees_of_freedom_of_many_levels_are_those_of_all_levels(solver, monkeypatch):
    """Against the exact trace, of two columns of levels and a line; the band looks at 30 levels of each."""
    rng = np.random.default_rng(23)
    a, b, x = rng.integers(0, 300, 1500), rng.integers(0, 80, 1500), rng.uniform(-1, 1, 1500)
    X = pd.DataFrame({"a": [f"a{v}" for v in a], "b": [f"b{v}" for v in b], "x": x})
    y = rng.normal(size=300)[a] + 0.7 * rng.normal(size=80)[b] + x + 0.8 * rng.normal(size=1500)
    monkeypatch.setattr(uncertainty, "MOST_LEVELS", 60)
    model = AHOFMRegressor(order=1, columns={"x": Linear()}, solver=solver, random_state=0).fit(X, y)
    frozen = model.model_
    unit = y.var() if solver == "variational" else 1.0  # smoothing parameters are those of a standardised target
    first, second = (float(value) for value in frozen.smoothing_parameters[1][:2])
    design = np.hstack([np.ones((1500, 1)), np.eye(300)[a], np.eye(80)[b], x[:, np.newaxis]])
    dispersion = frozen.dispersion if solver == "variational" else 1.0
    information = design.T @ design * unit / dispersion
    penalty = np.concatenate([[0.0], np.full(300, first), np.full(80, second), [0.0]])
    exact = np.diag(np.linalg.solve(information + np.diag(penalty), information))
    assert model.edf_[1][0] == pytest.approx(exact[1:301].sum(), rel=0.03)
    assert model.edf_[1][1] == pytest.approx(exact[301:381].sum(), rel=0.05)
    edf = sum(part.sum() for part in model.edf_.values()) + 2
    assert model.aic(X, y) == pytest.approx(-2 * model.log_likelihood(X, y) + 2 * edf)


def test_bands_of_very_many_levels_stay_small():
    rng = np.random.default_rng(9)
    level = np.concatenate([np.arange(20_000), rng.integers(0, 50, 2_000)])
    X = pd.DataFrame({"level": [f"l{value}" for value in level]})
    model = AHOFMRegressor(order=1, random_state=0).fit(X, rng.normal(size=50)[level % 50] + rng.normal(size=22_000))
    assert model.predict_interval(X[:5]).shape == (5, 2)
    assert model.band_.mains[0].size < 1_100_000


def test_standard_deviations_are_larger_where_there_are_few_rows(fitted):
    model, X, _ = fitted
    mean, spread = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(X))
    assert (spread > 0).all()
    corner = np.ones((1, 5))
    assert model.predict(corner, return_std=True)[1] > 1.5 * np.median(spread)
    eta, eta_spread = model.predict_eta(X, return_std=True)
    np.testing.assert_allclose(eta_spread, spread, rtol=1e-10)
    np.testing.assert_array_equal(eta, mean)


def test_degrees_of_freedom(fitted):
    model, X, y = fitted
    assert set(model.edf_) == {1, 2}
    assert 3.0 < model.edf_[1][0] < 10.0
    assert sum(part.sum() for part in model.edf_.values()) < 60.0
    assert model.aic(X, y) > -2.0 * model.log_likelihood(X, y)


def test_calibrated_intervals_hold_whatever_the_model():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(900, 2))
    y = X[:, 0] + (0.2 + X[:, 1] ** 2) * rng.standard_t(3, size=900)
    model = AHOFMRegressor(order=1, random_state=0).fit(X[:400], y[:400])
    low, high = model.predict_interval(X[600:], kind="new", level=0.9, calibration=(X[400:600], y[400:600])).T
    assert np.mean((low <= y[600:]) & (y[600:] <= high)) == pytest.approx(0.9, abs=0.06)
    with pytest.raises(ValueError, match=r"calibration has 5 rows, too few for level=0\.9; give at least 9"):
        model.predict_interval(X, kind="new", level=0.9, calibration=(X[:5], y[:5]))


def test_bands_survive_files_and_pickles(fitted, tmp_path):
    model, X, _ = fitted
    expected = model.predict_interval(X[:20])
    again = pickle.loads(pickle.dumps(model.with_uncertainty()))
    np.testing.assert_array_equal(again.predict_interval(X[:20]), expected)
    model.save(tmp_path / "model")
    loaded = ahofm.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict_interval(X[:20]), expected, rtol=1e-5)
    for mine, theirs in zip(model.band_.roots, loaded.band_.roots, strict=True):
        np.testing.assert_array_equal(mine.astype(np.float32), theirs)  # files have single precision


def test_rows_of_training_are_not_pickled(fitted):
    _, X, y = fitted
    model = pickle.loads(pickle.dumps(AHOFMRegressor(order=1, random_state=0).fit(X, y)))
    with pytest.raises(ValueError, match=r"training rows are not here any more.*before pickling"):
        model.predict(X, return_std=True)
    assert model.with_uncertainty(X, y).predict(X, return_std=True)[1].min() > 0


@pytest.mark.parametrize("settings", [{"level": 1.5}, {"level": "high"}, {"kind": "old"}, {"calibration": ([], [])}])
def test_bad_intervals(fitted, settings):
    model, X, _ = fitted
    name = next(iter(settings))
    with pytest.raises(ValueError, match=f"{name} (must be|is for)"):
        model.predict_interval(X, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["poisson", "binomial", "gamma"])
def test_intervals_of_other_families(family):
    rng = np.random.default_rng(6)
    X, new = rng.uniform(-1, 1, size=(2, 2000, 3))

    def mean(X):
        return {"binomial": lambda e: 1 / (1 + np.exp(-e))}.get(family, np.exp)(np.sin(2 * X[:, 0]) + X[:, 1])

    def draw(X):
        mu = mean(X)
        draws = {
            "poisson": rng.poisson,
            "binomial": lambda m: rng.binomial(1, m),
            "gamma": lambda m: rng.gamma(2, m / 2),
        }
        return draws[family](mu).astype(float)

    model = AHOFMRegressor(family=family, **{**ONE, "order": 1}).fit(X, draw(X))
    low, high = model.predict_interval(new).T
    assert 0.85 < np.mean((low < mean(new)) & (mean(new) < high)) <= 1.0
    low, high = model.predict_interval(new, kind="new").T
    targets = draw(new)
    assert np.mean((low <= targets) & (targets <= high)) > 0.93
    assert np.mean((low <= targets) & (targets <= high)) < (1.01 if family == "binomial" else 0.99)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gaussian", GaussianLocationScale(), Huber(), Quantile(0.8), "gamma"], ids=str)
def test_units_of_the_target_do_not_matter(family):
    rng = np.random.default_rng(7)
    X, new = rng.uniform(-1, 1, size=(400, 4)), rng.uniform(-1, 1, size=(50, 4))
    y = np.exp(0.5 * truth_of(X) + 0.2 * rng.normal(size=400))

    def found(unit):
        model = AHOFMRegressor(family=family, **ONE).fit(X, unit * y)
        of_terms = 1.0 if family == "gamma" else unit  # on a logarithmic scale
        spread = model.predict(new, return_std=True)[1]
        pair = effect(model, (2, 3))
        return {
            "std": spread / unit,
            "interval": model.predict_interval(new) / unit,
            "pair": np.array([pair.std, pair.all_low, pair.all_high]) / of_terms,
            "edf": np.concatenate(list(model.edf_.values())),
        }

    first = found(1.0)
    assert first["pair"][0].max() > 0.0, "without pairs this says little"
    tolerance = 1e-4 if family == "gamma" else 0.05  # sweeps of two linear predictors may amplify rounding
    for unit in (1e-6, 1e6):
        for name, values in found(unit).items():
            if family != "gamma" and name in ("pair", "edf"):
                continue  # of factors whose sweeps end on the way
            largest = np.abs(first[name]).max()
            np.testing.assert_allclose(values, first[name], rtol=0.0, atol=tolerance * largest, err_msg=name)


def test_classes():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(300, 2))
    y = np.array(["a", "b", "c"])[(X @ [[1, 0, -1], [0, 1, 0]] + rng.gumbel(size=(300, 3))).argmax(axis=1)]
    model = AHOFMClassifier(order=1, random_state=0).fit(X, y)
    eta, spread = model.predict_eta(X, return_std=True)
    assert eta.shape == spread.shape == (300, 3)
    expected = np.log(model.predict_proba(X)[np.arange(300), np.searchsorted(model.classes_, y)]).sum()
    assert model.log_likelihood(X, y) == pytest.approx(expected)
    draws = model.sample(X, 500, random_state=0)
    np.testing.assert_allclose((draws == 1).mean(axis=0), model.predict_proba(X)[:, 1], atol=0.12)
    with pytest.raises(ValueError, match="classes that were not there"):
        model.log_likelihood(X, np.full(300, "d"))


def test_intervals_of_the_probabilities_of_two_classes_are_those_of_the_log_odds():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] + rng.logistic(size=300) > 0, "yes", "no")
    model = AHOFMClassifier(order=1, random_state=0).fit(X, y)
    eta, std = model.predict_eta(X[:50], return_std=True)
    reach = stats.norm.ppf(0.95) * std
    found = model.predict_interval(X[:50], level=0.9)
    assert found.shape == (50, 2, 2)
    np.testing.assert_allclose(logit(found[:, 1]), np.column_stack([eta - reach, eta + reach]), rtol=1e-9)
    np.testing.assert_allclose(found[:, 0], 1.0 - found[:, 1, ::-1], rtol=1e-9)
    with pytest.raises(ValueError, match="level must be a number between 0 and 1, got 95"):
        model.predict_interval(X, level=95)


def test_intervals_of_several_probabilities_are_those_of_log_odds_by_their_slopes():
    """Slopes by differences; a class that is certain and one that is impossible have finite ends."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(400, 3))
    y = np.array(["a", "b", "c", "d"])[(2 * X @ rng.normal(size=(3, 4)) + rng.gumbel(size=(400, 4))).argmax(axis=1)]
    model = AHOFMClassifier(order=1, random_state=0).fit(X, y)
    eta, std = model.predict_eta(X[:60], return_std=True)
    found, p = model.predict_interval(X[:60]), model.predict_proba(X[:60])
    assert ((found[..., 0] < p) & (p < found[..., 1])).all()

    def log_odds(at):
        return logit(softmax(at, axis=1))

    variance = np.zeros_like(eta)
    for k in range(4):
        step = np.zeros(4)
        step[k] = 1e-6
        slope = (log_odds(eta + step) - log_odds(eta - step)) / 2e-6
        variance += (slope * std[:, [k]]) ** 2
    expected = log_odds(eta)[..., np.newaxis] + 1.959964 * np.sqrt(variance)[..., np.newaxis] * [-1.0, 1.0]
    np.testing.assert_allclose(logit(found), expected, rtol=1e-4, atol=1e-6)
    far = np.array([[800.0, 0.0, -800.0, 1.0]])
    low, high = class_intervals(model.model_, far, np.ones((1, 4)), 0.95)
    np.testing.assert_allclose([low[0], high[0]], [[1, 0, 0, 0], [1, 0, 0, 0]], atol=1e-300)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_intervals_of_probabilities_hold(n_classes):
    """Six simulated tables each, of which the probabilities are known: 95 to 97 % were covered."""
    covered = []
    for seed in range(6):
        rng = np.random.default_rng(100 * n_classes + seed)
        X = rng.uniform(-2, 2, size=(1700, 4))
        curves = np.sin(1.5 * X) @ rng.normal(size=(4, n_classes)) + 0.25 * X**2 @ rng.normal(size=(4, n_classes))
        p = softmax(curves, axis=1)
        y = (p[:1200].cumsum(axis=1) < rng.uniform(size=(1200, 1))).sum(axis=1)
        model = AHOFMClassifier(order=1, random_state=0).fit(X[:1200], y)
        low, high = np.moveaxis(model.predict_interval(X[1200:]), 2, 0)
        covered.append(np.mean((low <= p[1200:]) & (p[1200:] <= high)))
    assert 0.92 < np.mean(covered) < 0.99


LAWS = [
    (Gaussian(), 0.5, lambda eta: stats.norm(eta[:, 0], np.sqrt(0.5))),
    (Bernoulli(), 1.0, lambda eta: stats.bernoulli(1 / (1 + np.exp(-eta[:, 0])))),
    (Poisson(), 1.0, lambda eta: stats.poisson(np.exp(eta[:, 0]))),
    (NegativeBinomial(2.0), 1.0, lambda eta: stats.nbinom(2.0, 2.0 / (2.0 + np.exp(eta[:, 0])))),
    (Gamma(), 0.25, lambda eta: stats.gamma(4.0, scale=np.exp(eta[:, 0]) / 4.0)),
    (Laplace(0.1), 0.5, lambda eta: stats.laplace(eta[:, 0], 0.5)),
]


@pytest.mark.parametrize(("family", "dispersion", "law"), LAWS, ids=lambda value: str(value)[:25])
def test_distributions_are_scipys(family, dispersion, law):
    rng = np.random.default_rng(8)
    eta = rng.normal(size=(200, 1))
    y = law(eta).rvs(random_state=rng).astype(float)
    found = family.distribution(eta, dispersion)
    expected = law(eta)
    density = expected.logpmf(y) if is_discrete(found) else expected.logpdf(y)
    np.testing.assert_allclose(log_density(found, y), density)
    np.testing.assert_allclose(found.cdf(y), expected.cdf(y))


EVERY = [
    (Gaussian(), 0.5),
    (Bernoulli(), 1.0),
    (Poisson(), 1.0),
    (Poisson(quasi=True), 3.0),
    (NegativeBinomial(2.0), 1.0),
    (Gamma(), 0.25),
    (Tweedie(1.4), 0.7),
    (Huber(1.0), 0.5),
    (Laplace(0.1), 0.5),
    (Quantile(0.8, 0.1), 0.3),
    (GaussianLocationScale(), 1.0),
    (Multinomial(3), 1.0),
]


@pytest.mark.parametrize(("family", "dispersion"), EVERY, ids=str)
def test_draws_follow_the_distribution_function(family, dispersion):
    eta = np.tile(np.linspace(-0.5, 0.5, family.n_eta), (4, 1))
    found = family.distribution(eta, dispersion)
    draws = np.asarray(found.rvs(size=(40_000, 4), random_state=np.random.default_rng(9)), dtype=float)
    assert draws.shape == (40_000, 4)
    for point in np.quantile(draws, [0.1, 0.5, 0.9]):
        np.testing.assert_allclose((draws <= point).mean(axis=0), found.cdf(np.full(4, point)), atol=0.015)
    assert np.isfinite(log_density(found, draws[0])).all()
    if not isinstance(family, (Multinomial, Quantile)):
        np.testing.assert_allclose(draws.mean(axis=0), family.mean(eta), rtol=0.06, atol=0.02)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "tweedie"])
def test_targets_lie_uniformly_in_their_distributions(family):
    rng = np.random.default_rng(10)
    X = rng.uniform(-1, 1, size=(3000, 2))
    mu = np.exp(X[:, 0])
    draws = {
        "gaussian": lambda: mu + rng.normal(size=3000),
        "poisson": lambda: rng.poisson(mu),
        "tweedie": lambda: Tweedie(1.5).distribution(X[:, :1], 0.8).rvs(size=(3000,), random_state=rng),
    }
    y = draws[family]().astype(float)
    model = AHOFMRegressor(family=family, order=1, random_state=0).fit(X, y)
    assert stats.kstest(model.pit(X, y), "uniform").pvalue > 0.01
    shuffled = model.pit(X, rng.permutation(y))
    assert stats.kstest(shuffled, "uniform").pvalue < 0.01 or family == "gaussian"


def test_samples_and_their_seed(fitted):
    model, X, _ = fitted
    draws = model.sample(X[:50], 3000, random_state=1)
    np.testing.assert_array_equal(draws, model.sample(X[:50], 3000, random_state=1))
    np.testing.assert_allclose(draws.mean(axis=0), model.predict(X[:50]), atol=0.08)
    assert draws.std() > 0.6
    with pytest.raises(ValueError, match="n must be an integer of at least 1, got 0"):
        model.sample(X, 0)


def test_a_family_that_does_not_say():
    class Own(Gaussian):
        """Without a distribution."""

        distribution = ahofm.families.Family.distribution

    with pytest.raises(NotImplementedError, match="does not say how its targets are distributed"):
        Own().distribution(np.zeros((1, 1)), 1.0)


@pytest.mark.parametrize("estimator", [AHOFMRegressor(), AHOFMClassifier()], ids=str)
def test_nothing_before_a_fit(estimator):
    X, y = np.zeros((3, 2)), np.zeros(3)
    calls = [
        lambda: estimator.predict(X),
        lambda: estimator.predict_eta(X, return_std=True),
        lambda: estimator.sample(X),
        lambda: estimator.log_likelihood(X, y),
        lambda: estimator.pit(X, y),
        lambda: estimator.aic(X, y),
        estimator.with_uncertainty,
        lambda: estimator.edf_,
        lambda: estimator.predict_interval(X) if isinstance(estimator, AHOFMRegressor) else estimator.predict_proba(X),
    ]
    for call in calls:
        with pytest.raises(NotFittedError):
            call()
