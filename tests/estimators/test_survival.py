"""Censored times, ordered levels, shares and counts with many zeros, against lifelines and statsmodels.

Reference numbers are those of lifelines 0.30.3 and statsmodels 0.15.0; the command is above each.
"""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import ahofm
from ahofm import AHOFMHazard, AHOFMRegressor, Linear
from ahofm.estimators.hazards import interval_ends, person_periods
from ahofm.families import Beta, LogLogistic, LogNormal, Ordinal, Weibull, ZeroInflatedPoisson
from ahofm.model.survival_scores import brier_score, censoring_survival, concordance

STRAIGHT = {"columns": Linear(), "order": 1, "random_state": 0, "n_jobs": 1}
NEW = pd.DataFrame({"a": [-0.5, 0.0, 0.5], "b": [0.5, 0.0, -0.5]})


def times(kind, n=2000):
    rng = np.random.default_rng(7)
    X = pd.DataFrame({"a": rng.uniform(-1, 1, n), "b": rng.uniform(-1, 1, n)})
    w = {
        "log_normal": rng.normal(size=n),
        "log_logistic": rng.logistic(size=n),
        "weibull": np.log(rng.exponential(size=n)),
    }[kind]
    T, C = np.exp(1 + X.a - 0.5 * X.b + 0.6 * w), rng.exponential(8, n)
    return X, np.column_stack([np.minimum(T, C), T <= C])


# LogNormalAFTFitter().fit(X.assign(t=t, e=e), "t", "e"), LogLogisticAFTFitter(), WeibullAFTFitter():
# .predict_median(NEW), .predict_survival_function(NEW, times=[3]), concordance_index(t, .predict_median(X), e),
# .log_likelihood_, and the scale: exp(sigma_), 1 / exp(beta_), 1 / exp(rho_)
LIFELINES = {
    "log_normal": ([1.26125, 2.73523, 5.93178], [0.07659, 0.43947, 0.86944], 0.791105, -2397.672, 0.60663),
    "log_logistic": ([1.29897, 2.83600, 6.19173], [0.19852, 0.47658, 0.76997], 0.709248, -2858.019, 0.59977),
    "weibull": ([1.02806, 2.15002, 4.49639], [0.01801, 0.30203, 0.69987], 0.743909, -2461.356, 0.60954),
}


@pytest.mark.parametrize("kind", LIFELINES)
def test_failure_times_as_lifelines_has_them(kind):
    median, survival, index, log_likelihood, scale = LIFELINES[kind]
    X, y = times(kind)
    model = AHOFMRegressor(family=kind, **STRAIGHT).fit(X, y)
    np.testing.assert_allclose(model.predict(NEW), median, rtol=0.01)
    np.testing.assert_allclose(model.predict_survival(NEW, [3.0])[:, 0], survival, atol=0.005)
    assert model.concordance(X, y) == pytest.approx(index, abs=1e-3)
    assert model.log_likelihood(X, y) == pytest.approx(log_likelihood, abs=0.5)
    assert model.model_.family.scale == pytest.approx(scale, rel=0.01)
    assert stats.kstest(model.pit(X, y), "uniform").pvalue > 0.01
    low, high = model.predict_interval(NEW, 0.9, kind="new").T
    own = model.model_.family.distribution(model.model_.eta(NEW), 1.0).times
    np.testing.assert_allclose(low, own.ppf(0.05), rtol=0.25)
    np.testing.assert_allclose(high, own.ppf(0.95), rtol=0.25)


def test_hazards_as_a_cox_model_has_them():
    """CoxPHFitter().fit(...).predict_survival_function(NEW, times=[1, 3, 6]) and .predict_median(NEW)."""
    cox = [[0.52840, 0.01657, 0.0], [0.82684, 0.29458, 0.02265], [0.94490, 0.69467, 0.32335]]
    X, y = times("weibull")
    kinds = {"a": Linear(), "b": Linear()}
    model = AHOFMHazard(AHOFMRegressor(columns=kinds, order=1, random_state=0, n_jobs=1)).fit(X, y)
    np.testing.assert_allclose(model.predict_survival(NEW, [1.0, 3.0, 6.0]), cox, atol=0.02)
    np.testing.assert_allclose(model.predict(NEW), [1.0667, 2.0974, 4.5227], rtol=0.05)
    assert model.score(X, y) == pytest.approx(0.743909, abs=2e-3)
    half = model.predict_survival(NEW, model.predict(NEW))
    np.testing.assert_allclose(np.diag(half), 0.5, atol=1e-9)
    assert model.regressor_.model_.encoder.names == ("a", "b", "time")
    reordered = model.predict_survival(NEW[["b", "a"]], [1.0])
    np.testing.assert_array_equal(reordered, model.predict_survival(NEW, [1.0]))


def test_person_periods_add_up():
    rng = np.random.default_rng(0)
    signed = rng.exponential(size=200) * rng.choice([-1, 1], 200)
    breaks = interval_ends(signed, 7)
    rows, interval, exposure = person_periods(np.abs(signed), breaks)
    np.testing.assert_allclose(np.bincount(rows, exposure), np.abs(signed))
    assert (exposure > 0).all()
    assert (exposure <= np.diff(breaks)[interval] + 1e-12).all()


def test_interactions_of_times_are_found_and_files_keep_families(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(-1, 1, 1000), "b": rng.uniform(-1, 1, 1000)})
    T = np.exp(2 * X.a * X.b + 0.4 * rng.normal(size=1000))
    y = np.array(list(zip(T < 2, np.minimum(T, 2), strict=True)), dtype=[("event", bool), ("time", float)])
    model = AHOFMRegressor(family="log_normal", order=2, random_state=0, n_jobs=1).fit(X, y)
    assert np.corrcoef(model.predict_eta(X), X.a * X.b)[0, 1] > 0.98
    assert model.model_.validated.scores.keys() == {"concordance"}
    model.save(tmp_path / "m.ahofm")
    again = ahofm.load(tmp_path / "m.ahofm")
    assert again.model_.family == model.model_.family
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    pairs = np.column_stack([y["time"], y["event"]])
    np.testing.assert_array_equal(
        model.predict(X), AHOFMRegressor(family=LogNormal(), order=2, random_state=0, n_jobs=1).fit(X, pairs).predict(X)
    )


def brute_concordance(y, predicted):
    right = total = 0.0
    for i in range(len(y)):
        for j in range(len(y)):
            if y[i] > 0 and (abs(y[j]) > y[i] or (abs(y[j]) == y[i] and y[j] < 0)):
                total += 1
                right += 1.0 if predicted[j] > predicted[i] else 0.5 if predicted[j] == predicted[i] else 0.0
    return right / total


def test_concordance_by_all_pairs():
    rng = np.random.default_rng(0)
    y = rng.integers(1, 20, 60) * rng.choice([-1.0, 1.0], 60)
    predicted = rng.integers(0, 9, 60).astype(float)
    assert concordance(y, predicted) == pytest.approx(brute_concordance(y, predicted))
    assert np.isnan(concordance(-np.ones(3), np.ones(3)))


def test_brier_scores_without_censoring_are_squared_errors():
    rng = np.random.default_rng(0)
    y, survival = rng.exponential(size=50), rng.random((50, 2))
    at = np.array([0.5, 1.0])
    expected = [np.mean(((y > t) - survival[:, k]) ** 2) for k, t in enumerate(at)]
    np.testing.assert_allclose(brier_score(y, survival, at), expected)
    np.testing.assert_allclose(
        censoring_survival(np.array([1.0, -2.0, -3.0, 4.0]), np.array([1.5, 2.0, 3.5])), [1, 2 / 3, 1 / 3]
    )


def test_brier_scores_weigh_for_censoring():
    """The expectation is that of times without censoring."""
    rng = np.random.default_rng(0)
    T, C = rng.exponential(size=200_000), rng.exponential(2.0, 200_000)
    y = np.where(T <= C, T, -C)
    survival = np.full((len(T), 1), 0.4)
    full = np.mean(((T > 1.0) - 0.4) ** 2)
    assert brier_score(y, survival, np.array([1.0]))[0] == pytest.approx(full, abs=0.005)


def others():
    rng = np.random.default_rng(8)
    X = pd.DataFrame({"a": rng.uniform(-1, 1, 2000), "b": rng.uniform(-1, 1, 2000)})
    f = X.a - 0.5 * X.b
    levels = np.digitize(1.5 * f + rng.logistic(size=2000), [-1, 0, 1.5])
    mu = 1 / (1 + np.exp(-f))
    shares = rng.beta(10 * mu, 10 * (1 - mu))
    counts = np.where(rng.random(2000) < 1 / (1 + np.exp(0.5 - X.a)), 0, rng.poisson(np.exp(1 + 0.5 * f)))
    return X, levels, shares, counts


def slopes(model, k=0):
    eta = model.model_.eta(pd.DataFrame({"a": [0.0, 0.5, 0.0], "b": [0.0, 0.0, 0.5]}))[:, k]
    return [2 * (eta[1] - eta[0]), 2 * (eta[2] - eta[0]), eta[0]]


def test_ordinal_as_statsmodels_has_it():
    """OrderedModel(levels, X, distr="logit").fit(method="bfgs")."""
    X, levels, _, _ = others()
    model = AHOFMRegressor(family="ordinal", **STRAIGHT).fit(X, levels + 3)
    a, b, level = slopes(model)
    np.testing.assert_allclose([a, b], [1.67666, -0.80311], rtol=0.02)
    np.testing.assert_allclose(
        np.array(model.model_.family.thresholds) - level, [-1.07292, -0.00681, 1.45849], atol=0.02
    )
    assert model.log_likelihood(X, levels + 3) == pytest.approx(-2486.224, abs=0.5)
    p = model.predict_proba(X)
    assert model.model_.family.categories == (3, 4, 5, 6)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(p @ [3, 4, 5, 6], model.predict(X))
    np.testing.assert_allclose(p.mean(axis=0), np.bincount(levels) / 2000, atol=0.01)
    assert stats.kstest(model.pit(X, levels + 3), "uniform").pvalue > 0.01
    draws = model.sample(NEW, 4000, random_state=0)
    np.testing.assert_allclose(draws.mean(axis=0), model.predict(NEW), atol=0.06)
    low, high = model.predict_interval(X, 0.9, kind="new").T
    assert np.mean((low <= levels + 3) & (levels + 3 <= high)) > 0.88
    assert not hasattr(AHOFMRegressor(), "predict_proba")


@pytest.mark.slow
def test_beta_as_statsmodels_has_it():
    """BetaModel(shares, X.assign(k=1.0)).fit(); the precision is the exponential of its last parameter."""
    X, _, shares, _ = others()
    model = AHOFMRegressor(family="beta", **STRAIGHT).fit(X, shares)
    np.testing.assert_allclose(slopes(model), [1.03849, -0.47048, 0.02028], atol=0.01)
    assert model.model_.family.precision == pytest.approx(np.exp(2.36593), rel=0.01)
    assert model.log_likelihood(X, shares) == pytest.approx(1144.501, abs=0.5)
    low, high = model.predict_interval(X, 0.9, kind="new").T
    assert 0.87 < np.mean((low <= shares) & (shares <= high)) < 0.93


def test_zero_inflated_poisson_as_statsmodels_has_it():
    """ZeroInflatedPoisson(counts, [a, b, 1], exog_infl=[a, b, 1]).fit()."""
    X, _, _, counts = others()
    model = AHOFMRegressor(family="zero_inflated_poisson", **STRAIGHT).fit(X, counts)
    np.testing.assert_allclose(slopes(model, 0), [0.46968, -0.29482, 0.97307], atol=0.03)
    np.testing.assert_allclose(slopes(model, 1), [0.92834, 0.00760, -0.52656], atol=0.06)
    assert model.log_likelihood(X, counts) == pytest.approx(-3266.366, abs=1.0)
    assert model.predict(X).mean() == pytest.approx(counts.mean(), rel=0.02)
    assert stats.kstest(model.pit(X, counts), "uniform").pvalue > 0.01
    low, high = model.predict_interval(X, 0.9, kind="new").T
    assert np.mean((low <= counts) & (counts <= high)) > 0.88


@pytest.mark.slow
def test_zero_inflated_poisson_finds_a_pair():
    """The pair is in the mean of the counts; three tenths of the rows are zeros that say nothing of it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 3))
    eta = 1.0 + 0.5 * np.sin(3 * X[:, 2]) + 1.2 * X[:, 0] * X[:, 1]
    counts = np.where(rng.random(1500) < 0.3, 0, rng.poisson(np.exp(eta)))
    model = AHOFMRegressor(family="zero_inflated_poisson", order=2, random_state=0, n_jobs=1)
    model.fit(X, counts)
    pairs = next(gain for gain in model.model_.gains if gain.order == 2)
    assert pairs.gain > 5.0 * pairs.error
    assert np.sqrt(np.mean((model.predict_eta(X)[:, 0] - eta) ** 2)) < 0.1  # .4 without the pair
    assert np.std(model.predict_eta(X)[:, 1]) < 0.3


X60 = np.random.default_rng(0).normal(size=(60, 2))
TIMES = np.column_stack([np.exp(X60[:, 0]), np.ones(60)])


def with_cell(row, column, value):
    found = TIMES.copy()
    found[row, column] = value
    return found


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (
            with_cell(3, 1, 2.0),
            "the event must be 1, or 0 where the time is censored, got 2 in row 3; recode it, or swap the columns of y",
        ),
        (with_cell(3, 1, np.nan), "the event must be 1, or 0 .* got nan in row 3"),
        (with_cell(4, 0, 0.0), "times must be positive and finite, got 0 in row 4; drop the row"),
        (with_cell(4, 0, -1.0), "times must be positive and finite, got -1 in row 4"),
        (with_cell(4, 0, np.inf), "times must be positive and finite, got inf in row 4"),
        (TIMES * [1, 0], "y has no event: every time is censored"),
        (np.ones((60, 3)), r"y has shape \(60, 3\); times are an array of shape \(n, 2\)"),
        (np.zeros(60, dtype=[("time", float), ("event", bool)]), "has a truth value .event. and a time"),
    ],
)
def test_bad_times(y, message):
    for model in (AHOFMRegressor(family="weibull"), AHOFMHazard()):
        with pytest.raises(ValueError, match=message):
            model.fit(X60, y)


@pytest.mark.parametrize(
    ("family", "y", "message"),
    [
        (
            "ordinal",
            np.r_[np.zeros(30), np.full(30, 2.0)],
            "y has no row of level 1, between 0 and 2; Ordinal needs levels",
        ),
        ("ordinal", np.linspace(0, 1, 60), "y must hold whole numbers for Ordinal"),
        ("ordinal", np.array(["low", "high"] * 30), "y holds text .*; number its levels in their order: 0, 1, 2"),
        ("ordinal", np.ones(60), "y is 1 in every row; Ordinal needs at least two levels"),
        ("beta", np.linspace(0, 1, 60), r"y must hold finite numbers in \(0, 1\) for Beta, got 0 in row 0"),
        ("zero_inflated_poisson", np.ones(60), "y has no zero; ZeroInflatedPoisson is for counts with many"),
        ("zero_inflated_poisson", np.zeros(60), "y has no positive value"),
        (LogNormal(), TIMES[:, 0] - 10, "times must be positive and finite"),
    ],
)
def test_bad_targets(family, y, message):
    with pytest.raises(ValueError, match=message):
        AHOFMRegressor(family=family).fit(X60, y)


def test_bad_settings():
    for made, message in [
        (lambda: LogNormal(scale=0.0), "LogNormal: scale must be"),
        (lambda: Weibull(scale=-1), "Weibull: scale must be"),
        (lambda: LogLogistic(scale="1"), "LogLogistic: scale must be"),
        (lambda: Beta(precision=0), "Beta: precision must be"),
        (lambda: Ordinal(thresholds=(1.0, 0.0)), "Ordinal: thresholds must be finite and increase"),
        (lambda: Ordinal(thresholds=()), "Ordinal: thresholds"),
    ]:
        with pytest.raises(ValueError, match=message):
            made()
    model = AHOFMRegressor(order=1).fit(X60, X60[:, 0])
    with pytest.raises(ValueError, match="Gaussian has no survival times"):
        model.predict_survival(X60, [1.0])
    with pytest.raises(ValueError, match="n_intervals must be an integer"):
        AHOFMHazard(n_intervals=0).fit(X60, TIMES)
    with pytest.raises(ValueError, match="X has a column 'time' of its own"):
        AHOFMHazard().fit(pd.DataFrame({"time": X60[:, 0]}), TIMES)
    assert ZeroInflatedPoisson().n_eta == 2
