"""Every family keeps its promises. A new family is tested by its line in FAMILIES_UNDER_TEST."""

import itertools
import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize, minimize_scalar

from ahofm.families import (
    Bernoulli,
    Beta,
    Family,
    Gamma,
    Gaussian,
    GaussianLocationScale,
    Huber,
    Laplace,
    LogLogistic,
    LogNormal,
    Multinomial,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Quantile,
    QuasiBinomial,
    QuasiPoisson,
    TargetRange,
    Tweedie,
    Weibull,
    ZeroInflatedPoisson,
)
from ahofm.kernels import LOSSES, NativeKernel
from tests.problems import random_chunk, random_tables


class ClassLaw:
    """SciPy's distributions have no classes that differ from row to row."""

    def __init__(self, probability):
        self.probability = probability

    def rvs(self, random_state):
        reached = self.probability.cumsum(axis=1)
        return (random_state.random((len(reached), 1)) > reached).sum(axis=1).astype(float)

    def logpmf(self, y):
        return np.log(np.take_along_axis(self.probability, y.astype(int)[:, None], axis=1)[:, 0])


def normal(family, eta):
    return stats.norm(family.mean(eta), 1.0)


def exponential(family, eta):
    return stats.expon(scale=family.mean(eta))


def poisson(family, eta):
    return stats.poisson(family.mean(eta))


def negative_binomial(family, eta):
    return stats.nbinom(family.size, family.size / (family.size + family.mean(eta)))


def bernoulli(family, eta):
    return stats.bernoulli(family.mean(eta))


def classes(family, eta):
    return ClassLaw(family.mean(eta))


def normal_of_any_scale(family, eta):
    return stats.norm(family.mean(eta), family.scale(eta))


def levels(family, eta):
    return ClassLaw(family.probabilities(eta))


def beta(family, eta):
    mu = family.mean(eta)
    return stats.beta(family.precision * mu, family.precision * (1 - mu))


def log_normal(family, eta):
    return stats.lognorm(family.scale, scale=np.exp(eta[:, 0]))


def log_logistic(family, eta):
    return stats.fisk(1 / family.scale, scale=np.exp(eta[:, 0]))


def weibull(family, eta):
    return stats.weibull_min(1 / family.scale, scale=np.exp(eta[:, 0]))


class InflatedLaw:
    """Zero-inflated Poisson counts, by their table of probabilities up to 60."""

    def __init__(self, family, eta):
        zero = 1 / (1 + np.exp(-eta[:, 1]))
        self.p = (1 - zero[:, None]) * stats.poisson.pmf(np.arange(60), np.exp(eta[:, :1]))
        self.p[:, 0] += zero

    def rvs(self, random_state):
        return self.ppf(random_state.random(len(self.p)))

    def ppf(self, chances):
        return (chances[:, None] > self.p.cumsum(axis=1)).sum(axis=1).astype(float)

    def logpmf(self, y):
        return np.log(np.take_along_axis(self.p, y.astype(int)[:, None], axis=1)[:, 0])


# family, distribution of targets at given linear predictors whose log-likelihood it is (None: there is none in SciPy)
FAMILIES_UNDER_TEST = [
    (Gaussian(), normal),
    (Gaussian(link="log"), normal),
    (Gaussian(link="inverse"), normal),
    (Bernoulli(), bernoulli),
    (Bernoulli(quasi=True), bernoulli),
    (QuasiBinomial(), bernoulli),
    (Multinomial(n_classes=2), classes),
    (Multinomial(n_classes=4), classes),
    (Poisson(), poisson),
    (Poisson(quasi=True), poisson),
    (QuasiPoisson(), poisson),
    (Poisson(link="identity"), poisson),
    (NegativeBinomial(size=1.0), negative_binomial),
    (NegativeBinomial(size=7.5), negative_binomial),
    (Gamma(), exponential),
    (Gamma(link="inverse"), exponential),
    (Gamma(link="identity"), exponential),
    (Tweedie(), None),
    (Tweedie(power=1.1), None),
    (Tweedie(power=1.9), None),
    (Quantile(level=0.1, smoothing=0.3), None),
    (Quantile(level=0.9, smoothing=0.02), None),
    (Laplace(smoothing=0.1), None),
    (Huber(delta=0.7), None),
    (Huber(delta=1e6), None),
    (GaussianLocationScale(), normal_of_any_scale),
    (Ordinal(thresholds=(-1.0, 0.5, 1.5)), levels),
    (Beta(precision=5.0), beta),
    (Beta(precision=40.0), beta),
    (ZeroInflatedPoisson(), InflatedLaw),
    (LogNormal(scale=0.7), log_normal),
    (LogLogistic(scale=0.5), log_logistic),
    (Weibull(scale=1.3), weibull),
]


def families_that(condition):
    lines = [pytest.param(*line, id=str(line[0])) for line in FAMILIES_UNDER_TEST if condition(*line)]
    return pytest.mark.parametrize(("family", "law"), lines)


every_family = families_that(lambda family, law: True)


def positive_predictors(family):
    """Whether the link has no value at or below zero."""
    link = getattr(family, "link", None)
    return link == "inverse" or (link == "identity" and family.target.low == 0)


def draw_eta(family, rng, n):
    if positive_predictors(family):
        return rng.uniform(0.4, 2.5, (n, family.n_eta))
    return rng.normal(size=(n, family.n_eta))


def draw(family, law, n=60, seed=0, constant=False):
    """Targets and linear predictors that belong together; these are the same in every row when ``constant``."""
    rng = np.random.default_rng(seed)
    eta = draw_eta(family, rng, n)
    eta = np.broadcast_to(eta[0], eta.shape).copy() if constant else eta
    if law is not None:
        y = law(family, eta).rvs(random_state=rng).astype(float)
    elif family.target.low == 0:
        y = rng.gamma(2.0, size=n) * (rng.random(n) < 0.7)
    else:
        y = rng.normal(size=n)
    return y, eta


def edges(target):
    """Included ends of the range, and numbers inside it, large ones too."""
    inside = np.array([target.low, target.high, 0.0, 1.0, 1e-8, 0.5, 3.0, -3.0, 1e10, -1e10, 1e100])
    return inside[target.includes(inside)]


@every_family
def test_is_a_frozen_family(family, law):
    assert isinstance(family, Family)
    assert family == type(family)(**vars(family))
    assert hash(family) == hash(type(family)(**vars(family)))
    assert pickle.loads(pickle.dumps(family)) == family
    assert family.name == type(family).__name__
    assert family.curvature in ("second derivative", "expectation", "majorant")
    with pytest.raises(AttributeError):
        family.anything = 1


@every_family
def test_shapes(family, law):
    y, eta = draw(family, law)
    value, g, h = family.loss(y, eta)
    assert value.shape == y.shape
    assert g.shape == h.shape == eta.shape == (len(y), family.n_eta)
    assert family.mean(eta).shape in (y.shape, eta.shape)
    assert family.guess(y, np.ones_like(y)).shape == (family.n_eta,)


@every_family
def test_g_is_the_slope_of_the_loss(family, law):
    y, eta = draw(family, law)
    g = family.loss(y, eta)[1]
    for k in range(family.n_eta):
        step = 1e-6 * np.eye(family.n_eta)[k]
        slope = (family.loss(y, eta + step)[0] - family.loss(y, eta - step)[0]) / 2e-6
        np.testing.assert_allclose(g[:, k], slope, rtol=1e-6, atol=1e-6)


def second_derivative(family, y, eta):
    """By each linear predictor, from differences of g: (n, K)."""
    steps = 1e-6 * np.eye(family.n_eta)
    columns = [(family.loss(y, eta + s)[1] - family.loss(y, eta - s)[1])[:, k] / 2e-6 for k, s in enumerate(steps)]
    return np.stack(columns, axis=1)


@every_family
def test_expected_losses(family, law):
    """Of known linear predictors they are the losses; their slopes are theirs whatever the variance."""
    y, eta = draw(family, law)
    for given, expected in zip(family.loss(y, eta), family.expected(y, eta, np.zeros_like(eta)), strict=True):
        np.testing.assert_array_equal(given, expected)
    variance = np.random.default_rng(1).exponential(size=eta.shape)
    g = family.expected(y, eta, variance)[1]
    for k in range(family.n_eta):
        step = 1e-6 * np.eye(family.n_eta)[k]
        ends = [family.expected(y, eta + sign * step, variance)[0] for sign in (1, -1)]
        np.testing.assert_allclose(g[:, k], (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-6)


@every_family
def test_h_is_what_curvature_says(family, law):
    y, eta = draw(family, law)
    value, g, h = family.loss(y, eta)
    assert (h >= 0).all()
    if family.curvature == "second derivative":
        np.testing.assert_allclose(h, second_derivative(family, y, eta), rtol=1e-5, atol=1e-7)
    elif family.curvature == "expectation":
        chances = (np.arange(5000) + 0.5) / 5000
        for one, mine in zip(eta[:5], h[:5], strict=True):
            rows = np.broadcast_to(one, (len(chances), len(one)))
            everywhere = second_derivative(family, law(family, rows).ppf(chances), rows)
            np.testing.assert_allclose(everywhere.mean(axis=0), mine, rtol=2e-3)
    else:
        assert family.n_eta == 1
        for step in np.random.default_rng(1).standard_cauchy(200):
            parabola = value + (g * step + 0.5 * h * step**2)[:, 0]
            assert (family.loss(y, eta + step)[0] <= parabola + 1e-12 * (1 + parabola)).all()


@families_that(lambda family, law: family.curvature != "expectation")
def test_losses_are_convex_unless_h_is_an_expectation(family, law):
    y, eta = draw(family, law, n=2000)
    other = draw_eta(family, np.random.default_rng(1), 2000)
    middle = family.loss(y, (eta + other) / 2)[0]
    chord = (family.loss(y, eta)[0] + family.loss(y, other)[0]) / 2
    assert (middle <= chord + 1e-12 * (1 + np.abs(chord))).all()


@families_that(lambda family, law: law is not None)
def test_loss_is_minus_the_log_likelihood_up_to_a_constant(family, law):
    """Differences between two etas: terms free of eta drop out."""
    y, eta = draw(family, law)
    other = draw_eta(family, np.random.default_rng(1), len(y))
    first, second = law(family, eta), law(family, other)
    expected = (
        second.logpdf(y) - first.logpdf(y)
        if hasattr(getattr(first, "dist", None), "pdf")
        else second.logpmf(y) - first.logpmf(y)
    )
    np.testing.assert_allclose(family.loss(y, eta)[0] - family.loss(y, other)[0], expected, rtol=1e-9, atol=1e-9)


@every_family
def test_extremes_give_infinity_but_never_nan_nor_a_warning(family, law):
    y = edges(family.target)
    ends = [-1e4, -700.0, -1.0, 0.0, 1.0, 700.0, 1e4]
    for real in (np.float64, np.float32):
        for eta in itertools.product(ends, repeat=family.n_eta):
            rows = np.broadcast_to(np.array(eta, dtype=real), (len(y), family.n_eta))
            targets = y.clip(-1e30, 1e30).astype(real) if real is np.float32 else y
            value, g, h = family.loss(targets, rows)
            assert not np.isnan(value).any()
            assert (value > -np.inf).all()
            assert not np.isnan(g).any()
            assert (h >= 0).all(), "not NaN either"
            mean = family.mean(rows)
            if not positive_predictors(family) or min(eta) > 0:
                assert not np.isnan(mean).any()


@families_that(lambda family, law: positive_predictors(family))
def test_outside_the_link_the_loss_is_infinite(family, law):
    y, eta = draw(family, law)
    for outside in (0.0, -eta):
        value, g, h = family.loss(y, outside * np.ones_like(eta))
        assert (value == np.inf).all()
        assert (g == 0).all()
        assert (h == 0).all()


@every_family
def test_mean_lies_in_the_range(family, law):
    _, eta = draw(family, law, n=500)
    mean = family.mean(eta)
    if mean.ndim == 2:
        np.testing.assert_allclose(mean.sum(axis=1), 1.0)
        assert (mean > 0).all()
    elif family.target.low == 0:
        assert ((mean > 0) & (mean < family.target.high)).all()
    if positive_predictors(family):
        assert (mean > 0).all()


@every_family
def test_check_takes_the_range_and_nothing_else(family, law):
    target = family.target
    y = np.concatenate([draw(family, law, n=200)[0], edges(target)])
    family.check(y)
    family.check(y.clip(-1e30, 1e30).astype(np.float32))
    below = [np.nextafter(target.low, -np.inf) if target.low_included else target.low] if target.low > -np.inf else []
    above = [np.nextafter(target.high, np.inf) if target.high_included else target.high] if target.high < np.inf else []
    for bad in [np.nan, np.inf, -np.inf, *below, *above, *([0.5] if target.whole else [])]:
        y[7] = bad
        with pytest.raises(ValueError, match=r"(?s)y .*row 7") as error:
            family.check(y)
        assert np.isnan(bad) or (str(target) in str(error.value) and family.name in str(error.value))


def best_constant(family, y, weight, offset):
    """By values of the loss alone."""

    def value(eta):
        return weight @ family.loss(y, eta + offset)[0] / weight.sum()

    start = family.guess(y, weight)
    start = start - offset.min(axis=0) if positive_predictors(family) else start - offset.mean(axis=0)
    result = minimize(value, start, method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-13, "maxiter": 5000})
    return result.x, value


@every_family
@pytest.mark.parametrize("shifted", [False, True], ids=["plain", "offset"])
def test_start_is_the_best_constant(family, law, shifted):
    rng = np.random.default_rng(2)
    y, eta = draw(family, law, n=150, constant=True)
    weight = rng.uniform(0.1, 3.0, len(y))
    offset = 0.5 * rng.normal(size=eta.shape) if shifted else np.zeros_like(eta)
    start = family.start(y, weight, offset if shifted else None)
    expected, value = best_constant(family, y, weight, offset)
    assert start.shape == (family.n_eta,)
    assert value(start) <= value(expected) + 1e-11 * (1 + abs(value(expected)))
    g = weight @ family.loss(y, start + offset)[1] / weight.sum()
    assert np.abs(g).max() < 1e-7
    difference = start - expected
    if isinstance(family, Multinomial):
        difference = difference - difference.mean()
    np.testing.assert_allclose(difference, 0.0, atol=1e-4)


@every_family
@pytest.mark.parametrize("shifted", [False, True], ids=["plain", "offset"])
def test_a_weight_is_that_many_rows(family, law, shifted):
    y, _ = draw(family, law, n=80, constant=True)
    weight = np.tile([0, 1, 2, 5], 20)
    offset = 0.3 * draw_eta(family, np.random.default_rng(1), len(y)) if shifted else None
    repeated = np.repeat(y, weight)
    ones = np.ones(len(repeated))
    first = family.start(y, weight.astype(float), offset)
    second = family.start(repeated, ones, None if offset is None else np.repeat(offset, weight, axis=0))
    np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-7)
    by_weight, by_rows = family.standardised(y, weight.astype(float)), family.standardised(repeated, ones)
    assert by_weight[0] == by_rows[0]
    for name in ("centre", "scale", "shift", "factor"):
        np.testing.assert_allclose(getattr(by_weight[1], name), getattr(by_rows[1], name), rtol=1e-12)


@every_family
def test_rows_without_weight_do_not_count(family, law):
    """Not even with a loss that overflows."""
    y, _ = draw(family, law, n=50, constant=True)
    offset = np.zeros((50, family.n_eta))
    offset[7] = -1e5
    weight = np.ones(50)
    weight[7] = 0.0
    expected = family.start(np.delete(y, 7), np.ones(49))
    np.testing.assert_allclose(family.start(y, weight, offset), expected, rtol=1e-6, atol=1e-7)


@every_family
@pytest.mark.parametrize("shifted", [False, True], ids=["plain", "offset"])
def test_standardised_units_change_nothing_but_the_units(family, law, shifted):
    rng = np.random.default_rng(4)
    y, eta = draw(family, law, n=150, constant=True)
    if family.target == TargetRange():
        y = 40.0 + 3.0 * y
    weight = rng.uniform(0.1, 3.0, len(y))
    offset = 0.3 * rng.normal(size=eta.shape) if shifted else np.zeros_like(eta)
    standard, units = family.standardised(y, weight)
    start = standard.start(units.of_target(y), weight, units.of_offset(offset))
    back = np.array(units.shift) + np.array(units.factor) * start
    np.testing.assert_allclose(back, family.filled(y, weight).start(y, weight, offset), rtol=1e-5)


@every_family
def test_single_precision(family, law):
    y, eta = draw(family, law)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y)).astype(np.float32)
    y, eta = y.astype(np.float32), eta.astype(np.float32)
    same = y.astype(float), eta.astype(float)
    for single, double in zip(family.loss(y, eta), family.loss(*same), strict=True):
        np.testing.assert_allclose(single, double, rtol=3e-5, atol=1e-5 * (1 + np.abs(y).max() ** 2))
    np.testing.assert_allclose(family.mean(eta), family.mean(same[1]), rtol=1e-5)
    if family.deviance(y, eta) is not None:
        np.testing.assert_allclose(family.deviance(y, eta), family.deviance(*same), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        family.start(y, weight, eta), family.start(same[0], weight.astype(float), same[1]), rtol=1e-5, atol=1e-5
    )
    units, expected = family.standardised(y, weight)[1], family.standardised(same[0], weight.astype(float))[1]
    np.testing.assert_allclose([units.centre, units.scale], [expected.centre, expected.scale], rtol=1e-5, atol=1e-6)


@families_that(lambda family, law: family.builtin is not None)
def test_built_in_loss_is_the_kernels(family, law):
    rng = np.random.default_rng(0)
    sizes, K = (3, 4), family.n_eta
    chunk = random_chunk(rng, 50, sizes, loss=family.builtin, n_eta=K, weighted=True)
    linear_predictors = [random_tables(rng, sum(sizes), {2: 2}, scale=0.3) for _ in range(K)]
    eta = NativeKernel().eta(chunk, linear_predictors)
    for mine, theirs in zip(family.loss(chunk.y, eta), LOSSES[family.builtin](chunk.y, eta), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    value = NativeKernel().value_and_gradient(chunk, linear_predictors, family.builtin).value
    assert chunk.weight @ family.loss(chunk.y, eta)[0] == pytest.approx(value, rel=1e-5)


@every_family
def test_deviance_is_zero_at_the_best_eta_and_nowhere_below(family, law):
    y, eta = draw(family, law)
    if family.floor(y) is None:
        assert family.deviance(y, eta) is None
        return
    np.testing.assert_allclose(family.deviance(y, eta), 2 * (family.loss(y, eta)[0] - family.floor(y)), atol=1e-12)
    assert (family.deviance(y, eta) >= 0).all()
    if isinstance(family, Multinomial):
        best = 50.0 * np.eye(family.n_classes)[y.astype(int)]
    elif isinstance(family, ZeroInflatedPoisson):
        best = np.column_stack([np.log(np.maximum(y, 1.0)), np.where(y > 0, -50.0, 50.0)])
    else:
        reachable = y > 0.05 if getattr(family, "link", "identity") != "identity" else np.abs(y) > 0.05
        y = y[reachable | (y == family.target.low)]
        bounds = (1e-8, 60.0) if positive_predictors(family) else (-300.0, 60.0)
        rows = [lambda eta, t=t: family.loss(np.array([t]), np.array([[eta]]))[0][0] for t in y]
        best = np.array([minimize_scalar(row, bounds=bounds).x for row in rows])[:, None]
    np.testing.assert_allclose(family.deviance(y, best), 0.0, atol=1e-5)


@families_that(lambda family, law: family.n_eta == 1)
def test_deviance_of_large_targets_is_not_negative(family, law):
    """Near its zero, where loss and floor cancel."""
    y = edges(family.target)
    with np.errstate(all="ignore"):
        eta = np.log(y) if family.mean(np.array([[2.0]])) == np.exp(2.0) else y
        if isinstance(family, Bernoulli):
            eta = np.log(y / (1 - y))
    for moved in (eta - 1e-9, eta, eta + 1e-9):
        valid = np.isfinite(moved) & (moved > 0 if positive_predictors(family) else True)
        assert (family.deviance(y[valid], moved[valid, None]) >= 0).all()


class LogCosh(Family):
    """A family as a user would write it, with the least that is needed."""

    target = TargetRange()

    def loss(self, y, eta):
        r = eta[:, 0] - y
        return np.logaddexp(r, -r) - np.log(2.0), np.tanh(r)[:, None], (1 - np.tanh(r) ** 2)[:, None]

    def mean(self, eta):
        return eta[:, 0]

    def guess(self, y, weight):
        return np.array([np.median(y)])


@families_that(lambda family, law: family.dispersed and law is not None)
def test_pearson_estimates_the_dispersion(family, law):
    """All these laws have dispersion 1."""
    y, eta = draw(family, law, n=100_000)
    assert family.pearson(y, eta).mean() == pytest.approx(1.0, abs=0.06)


@every_family
def test_a_majorant_touches_and_is_nowhere_below(family, law):
    y, eta = draw(family, law)
    h = family.majorant(eta, np.zeros_like(eta))
    if h is None:
        return
    value, g, _ = family.loss(y, eta)
    for k in range(family.n_eta):
        for step in (-9.0, -1.0, -1e-3, 1e-3, 0.5, 30.0):
            moved = eta + step * (np.arange(family.n_eta) == k)
            above = value + g[:, k] * step + 0.5 * h[:, k] * step**2
            assert (family.loss(y, moved)[0] <= above + 1e-12).all()
    assert (family.majorant(eta, np.ones_like(eta)) < h).all()


@every_family
def test_nothing_is_learned_that_is_given(family, law):
    y, eta = draw(family, law)
    assert not family.open
    assert family.learned(y, eta, np.ones(len(y))) is family


def test_a_family_of_ones_own():
    rng = np.random.default_rng(0)
    y, weight, offset = rng.normal(3.0, 2.0, 100), rng.uniform(0.5, 2.0, 100), rng.normal(size=(100, 1))
    family = LogCosh()
    assert (family.name, family.n_eta, family.builtin) == ("LogCosh", 1, None)
    expected, _ = best_constant(family, y, weight, offset)
    np.testing.assert_allclose(family.start(y, weight, offset), expected, atol=1e-6)
    np.testing.assert_allclose(family.deviance(y, y[:, None] + 1.0), 2 * np.log(np.cosh(1.0)))
    assert family.standardised(y, weight)[0] is family
    with pytest.raises(ValueError, match="y must hold finite numbers for LogCosh, got inf in row 0"):
        family.check(np.array([np.inf, 1.0]))


def test_a_family_lacking_something_says_what():
    class Half(LogCosh):
        target = Family.target
        mean = Family.mean

    with pytest.raises(TypeError, match=r"mean.*target"):
        Half()
