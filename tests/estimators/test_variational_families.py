"""Every family through the block solver: what it recovers, and that nothing runs away."""

import warnings

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.exceptions import ConvergenceWarning

from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.families import (
    Bernoulli,
    Gamma,
    Gaussian,
    GaussianLocationScale,
    Huber,
    Laplace,
    NegativeBinomial,
    Poisson,
    Quantile,
    Tweedie,
)
from ahofm.model import Reason

N = 5000
ONE = {"order": 2, "factor_prior": "spline", "n_members": 1, "random_state": 0}


def linear_predictors(X):
    """A curve, a parabola and a product, of mean zero."""
    return np.sin(3 * X[:, 0]) + X[:, 1] ** 2 - 1 / 3 + 1.5 * X[:, 2] * X[:, 3]


def tweedie(rng, mu, phi=0.8, power=1.5):
    count = rng.poisson(mu ** (2 - power) / (phi * (2 - power)))
    amount = rng.gamma(np.maximum(count, 1) * (2 - power) / (power - 1), phi * (power - 1) * mu ** (power - 1))
    return np.where(count > 0, amount, 0.0)


# family, draws given the linear predictor, the family's own one, its dispersion and how near an estimate should come
CASES = [
    (Gaussian(), lambda rng, f: f + 0.7 * rng.normal(size=len(f)), lambda f: f, (0.49, 0.05)),
    (Gaussian(link="log"), lambda rng, f: np.exp(2 + f) + 5 * rng.normal(size=len(f)), lambda f: 2 + f, (25, 3)),
    (Bernoulli(), lambda rng, f: rng.binomial(1, expit(f)).astype(float), lambda f: f, None),
    (Bernoulli(quasi=True), lambda rng, f: rng.binomial(9, expit(f)) / 9, lambda f: f, (1 / 9, 0.02)),
    (Poisson(), lambda rng, f: rng.poisson(np.exp(f)).astype(float), lambda f: f, None),
    (Poisson(quasi=True), lambda rng, f: 2.0 * rng.poisson(np.exp(f)), lambda f: f + np.log(2), (2, 0.2)),
    (Poisson(link="identity"), lambda rng, f: rng.poisson(5 + f).astype(float), lambda f: 5 + f, None),
    (NegativeBinomial(), lambda rng, f: rng.negative_binomial(2, 2 / (2 + np.exp(f))) * 1.0, lambda f: f, None),
    (Gamma(), lambda rng, f: 1e4 * rng.gamma(2, np.exp(f) / 2), lambda f: f + np.log(1e4), (0.5, 0.06)),
    (Gamma(link="inverse"), lambda rng, f: rng.gamma(4, 250 / (4 + f)), lambda f: (4 + f) / 1000, (0.25, 0.03)),
    (Tweedie(), lambda rng, f: tweedie(rng, np.exp(f)), lambda f: f, (0.8, 0.1)),
    (Laplace(), lambda rng, f: f + 0.5 * rng.laplace(size=len(f)), lambda f: f, (0.5, 0.05)),
    (Quantile(0.8), lambda rng, f: f + 0.5 * rng.normal(size=len(f)), lambda f: f + 0.4208, None),
    (Huber(), lambda rng, f: f + 0.5 * rng.standard_t(2, size=len(f)), lambda f: f, None),
]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "draw", "truth", "dispersion"), CASES, ids=[str(case[0]) for case in CASES])
def test_deviance_comes_within_three_percent_of_the_truths(family, draw, truth, dispersion):
    rng = np.random.default_rng(0)
    X, new = rng.uniform(-1, 1, size=(2, N, 5))
    y, y_new = draw(rng, linear_predictors(X)), draw(rng, linear_predictors(new))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = AHOFMRegressor(family=family, **ONE).fit(X, y).model_
    own, best = (
        model.family.deviance(y_new, eta).mean()
        for eta in (model.eta(new), truth(linear_predictors(new))[:, np.newaxis])
    )
    assert own < 1.03 * best
    assert (model.dispersion is None) == (not family.dispersed)
    if dispersion is not None:
        assert model.dispersion == pytest.approx(dispersion[0], abs=dispersion[1])
    additive = model.family.deviance(y_new, model.at_order(1).eta(new)).mean()
    assert own < additive


def additive(X):
    """Curves alone."""
    return np.sin(3 * X[:, 0]) + X[:, 1] ** 2 - 1 / 3 + X[:, 2]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "draw"), [case[:2] for case in CASES], ids=[str(case[0]) for case in CASES])
@pytest.mark.parametrize(("linear_predictor", "order"), [(additive, 1), (linear_predictors, 2)])
def test_the_order_is_found(family, draw, linear_predictor, order):
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, size=(N, 5))
    settings = {**ONE, "order": "auto"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = AHOFMRegressor(family=family, **settings).fit(X, draw(rng, linear_predictor(X))).model_
    assert model.order == order


@pytest.mark.slow
def test_parameters_of_their_own_are_found():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(N, 4))
    mu = np.exp(linear_predictors(X))
    counts = rng.negative_binomial(2, 2 / (2 + mu)).astype(float)
    fitted = AHOFMRegressor(family="negative_binomial", **ONE).fit(X, counts).model_.family
    assert fitted.size == pytest.approx(2, abs=0.4)
    amounts = 50.0 * tweedie(rng, mu, power=1.7)
    fitted = AHOFMRegressor(family=Tweedie(power=None), **ONE).fit(X, amounts).model_.family
    assert fitted.power == pytest.approx(1.7, abs=0.06)


@pytest.mark.slow
def test_several_classes():
    rng = np.random.default_rng(2)
    X, new = rng.uniform(-1, 1, size=(2, N, 4))

    def scores(X):
        return np.stack([3 * X[:, 0] * X[:, 1], np.sin(3 * X[:, 2]), -2 * X[:, 3]], axis=1)

    y, y_new = ((scores(A) + rng.gumbel(size=(N, 3))).argmax(axis=1) for A in (X, new))
    model = AHOFMClassifier(**ONE).fit(X, np.array(["a", "b", "c"])[y])
    both = model.predict_proba(new), softmax(scores(new), axis=1)
    own, best = (-np.log(probability[np.arange(N), y_new]).mean() for probability in both)
    assert own < 1.03 * best
    assert model.model_.order == 2


def test_one_strange_row_does_not_stop_several_classes():
    """Far off in all columns, it has no curvature left and enormous products; its class is beyond doubt."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(2000, 4))
    scores = np.stack([3 * X[:, 0] * X[:, 1], np.zeros(2000), -3 * X[:, 0]], axis=1)
    y = (scores + rng.gumbel(size=(2000, 3))).argmax(axis=1)
    X[0], y[0] = 60.0, 2
    model = AHOFMClassifier(order=2, factor_prior="random_walk", n_members=1, random_state=0).fit(X, y)
    losses = [-np.log(model.model_.at_order(order).mean(X)[np.arange(2000), y]).mean() for order in (1, 2)]
    assert losses[1] < 0.9 * losses[0]


def test_mean_and_spread():
    rng = np.random.default_rng(3)
    X, new = rng.uniform(-1, 1, size=(2, N, 4))

    def draw(X):
        return 10 + 5 * (np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + np.exp(X[:, 3] - 0.5) * rng.normal(size=N))

    model = AHOFMRegressor(family=GaussianLocationScale(), **ONE).fit(X, draw(X))
    eta = model.predict_eta(new)
    assert np.corrcoef(eta[:, 0], np.sin(3 * new[:, 0]) + new[:, 1] * new[:, 2])[0, 1] > 0.99
    assert np.corrcoef(eta[:, 1], new[:, 3])[0, 1] > 0.98
    assert np.exp(eta[:, 1].mean()) == pytest.approx(5 * np.exp(-0.5), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("n", [150, 400])
def test_a_spread_does_not_vanish_where_means_follow_few_rows(n):
    rng = np.random.default_rng(8)
    X, new = rng.uniform(-1, 1, size=(n, 4)), rng.uniform(-1, 1, size=(2000, 4))

    def truth(X):
        return linear_predictors(X), -1 + 0.7 * X[:, 3]

    def draw(X):
        mean, spread = truth(X)
        return mean + np.exp(spread) * rng.normal(size=len(X))

    y, targets = draw(X), draw(new)

    def loss(mean, spread):
        return float(np.mean(spread + 0.5 * ((targets - mean) / np.exp(spread)) ** 2))

    for settings in (ONE, {"order": 2, "random_state": 0, "n_members": 1}):
        eta = AHOFMRegressor(family=GaussianLocationScale(), **settings).fit(X, y).predict_eta(new)
        assert loss(*eta.T) < loss(*truth(new)) + (0.7 if n == 150 else 0.15)  # was astronomical, or 1 for a constant
        assert eta[:, 1].min() > -3.0


def test_offsets_enter_the_mean_only():
    """Exposures that differ by a factor of a thousand leave the rate what it is."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, size=(3000, 3))
    exposure = np.exp(rng.uniform(-3, 4, 3000))
    y = rng.poisson(exposure * np.exp(np.sin(3 * X[:, 0]))).astype(float)
    model = AHOFMRegressor(family="poisson", **ONE).fit(X, y, offset=np.log(exposure))
    eta = model.predict_eta(X)
    assert np.abs(eta - np.sin(3 * X[:, 0])).mean() < 0.05
    np.testing.assert_allclose(model.predict(X, offset=np.log(exposure)), exposure * np.exp(eta))


def test_weights_are_repeats():
    rng = np.random.default_rng(5)
    X, times = rng.uniform(-1, 1, size=(300, 3)), rng.integers(0, 3, 300)
    y = rng.poisson(np.exp(X[:, 0])).astype(float)
    weighted = AHOFMRegressor(family="poisson", **ONE).fit(X, y, sample_weight=times)
    repeated = AHOFMRegressor(family="poisson", **ONE).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))


# -- what might run away


def normal(n=1000, p=5):
    return np.random.default_rng(0).normal(size=(n, p))


@pytest.mark.slow
def test_separated_classes_end_finite_with_a_warning():
    X = normal()
    with pytest.warns(RuntimeWarning, match="beyond 20 in .* row.*separate the classes"):
        model = AHOFMClassifier(random_state=0, factor_prior="spline").fit(X, X[:, 0] > 0)
    assert model.score(X, X[:, 0] > 0) == 1.0
    assert np.abs(model.decision_function(X)).max() < 60.0


@pytest.mark.slow
def test_classes_separated_by_an_interaction():
    X = normal()
    model = AHOFMClassifier(order=2, random_state=0).fit(X, X[:, 0] * X[:, 1] > 0)
    assert np.isfinite(model.decision_function(X)).all()
    assert model.score(X, X[:, 0] * X[:, 1] > 0) > 0.98


@pytest.mark.slow
def test_a_handful_of_positives():
    X, y = normal(), np.zeros(1000)
    y[np.random.default_rng(1).choice(1000, 8, replace=False)] = 1.0
    model = AHOFMClassifier(order=2, random_state=0).fit(X, y)
    probability = model.predict_proba(X)[:, 1]
    assert probability.mean() == pytest.approx(0.008, abs=0.004)
    assert probability.max() < 0.3


@pytest.mark.slow
def test_a_region_without_events():
    X = normal()
    y = np.random.default_rng(2).poisson(np.where(X[:, 0] > 0, 2.0, 0.0)).astype(float)
    with pytest.warns(RuntimeWarning, match="regions without events"):
        model = AHOFMRegressor(family="poisson", order=2, random_state=0).fit(X, y)
    mean = model.predict(X)
    assert mean[X[:, 0] < -0.2].max() < 0.05
    assert mean[X[:, 0] > 0.2].mean() == pytest.approx(2.0, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("family", [Poisson(), Poisson(quasi=True), NegativeBinomial()], ids=str)
def test_outlier_counts(family):
    X = normal()
    y = np.random.default_rng(3).poisson(1.0, 1000).astype(float)
    y[:3] = 1000.0
    mean = AHOFMRegressor(family=family, order=2, random_state=0).fit(X, y).predict(X)
    assert np.isfinite(mean).all()
    assert np.median(mean) < 6.0


@pytest.mark.slow
def test_rare_counts_do_not_diverge():
    """Interactions of few events: the linear predictor must not be worse than main effects, on rows not seen."""
    rng = np.random.default_rng(4)
    X, new = rng.normal(size=(2, 10_000, 6))

    def draw(X):
        return rng.poisson(0.05 * np.exp(0.5 * X[:, 0] + 0.3 * np.sin(2 * X[:, 1]))).astype(float)

    y, y_new = draw(X), draw(new)
    model = AHOFMRegressor(family="poisson", order=3, random_state=0, max_iter=20, n_members=1).fit(X, y).model_
    deviances = [model.family.deviance(y_new, model.at_order(order).eta(new)).mean() for order in (1, 3)]
    assert deviances[1] < 1.005 * deviances[0]
    assert np.abs(model.eta(new)).max() < 20.0


def test_a_step_that_overshoots_is_damped():
    """A link that has no value below zero, and a target near it."""
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(1500, 3))
    y = rng.gamma(2.0, 0.3 + 3 * X[:, 0] * X[:, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = AHOFMRegressor(family=Gamma(link="identity"), **ONE).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert (model.predict(X) > 0).all()
    assert model.trace_.reason in (Reason.CONVERGED, Reason.ENOUGH)
    assert model.trace_.damped > 0


@pytest.mark.parametrize(
    ("model", "y", "settings", "message"),
    [
        (AHOFMClassifier(), np.zeros(30), {}, "one class"),
        (AHOFMClassifier(), np.arange(30) < 3, {"sample_weight": np.arange(30) >= 3}, "one class"),
        (AHOFMRegressor(family="poisson"), np.zeros(30), {}, "no positive value"),
        (AHOFMRegressor(family="poisson"), -np.ones(30), {}, "y must hold whole numbers"),
        (AHOFMRegressor(family="poisson"), np.full(30, 1.5), {}, "y must hold whole numbers"),
        (AHOFMRegressor(family="negative_binomial"), np.full(30, 1.5), {}, "y must hold whole numbers"),
        (AHOFMRegressor(family="poisson"), np.ones(30), {"offset": np.r_[-np.inf, np.ones(29)]}, "zero exposure"),
        (AHOFMRegressor(family="poisson"), np.ones(30), {"offset": np.r_[np.nan, np.ones(29)]}, "zero exposure"),
        (AHOFMRegressor(family="binomial"), np.full(30, 1.2), {}, "y must hold"),
    ],
)
def test_bad_input(model, y, settings, message):
    with pytest.raises(ValueError, match=message):
        model.fit(normal(30, 2), y, **settings)


def test_proportions_of_nought_and_one_are_fine():
    X = normal(300, 2)
    share = np.random.default_rng(6).binomial(4, expit(X[:, 0])) / 4
    assert {0.0, 1.0} < set(share)
    model = AHOFMRegressor(family="binomial", **ONE).fit(X, share, sample_weight=np.full(300, 4))
    assert np.corrcoef(model.predict(X), expit(X[:, 0]))[0, 1] > 0.95
