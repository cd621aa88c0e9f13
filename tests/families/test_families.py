"""Finding families by name, refusing bad settings and targets, and facts about single families."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import expit, huber

import ahofm.families as package
from ahofm.families import (
    FAMILIES,
    Bernoulli,
    Family,
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
    find_family,
)
from ahofm.families.distributions import log_density_of_tweedie
from ahofm.families.units import location_units, robust_scale, weighted_quantile


@pytest.fixture
def rng():
    return np.random.default_rng(0)


# -- by name


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "multinomial"])
def test_names_find_families(name):
    family = find_family(name)
    assert type(family) is FAMILIES[name]
    assert find_family(family) is family


def test_binomial_is_bernoulli():
    assert find_family("binomial") == Bernoulli()


def test_every_family_has_a_name():
    families = {thing for thing in vars(package).values() if isinstance(thing, type) and issubclass(thing, Family)}
    assert families - {Family} == set(FAMILIES.values())


@pytest.mark.parametrize(
    ("family", "error", "message"),
    [
        ("posson", ValueError, "'posson' is unknown; did you mean 'poisson'"),
        ("Gaussian", ValueError, "did you mean 'gaussian'"),
        ("negative-binomial", ValueError, "did you mean 'negative_binomial'"),
        ("zzz", ValueError, "names are gaussian, bernoulli"),
        ("multinomial", ValueError, r"Multinomial\(n_classes=3\).*classifier"),
        (Poisson, TypeError, r"the class Poisson; add parentheses: Poisson\("),
        (None, TypeError, "must be a name or a Family, got None; names are"),
        (stats.norm, TypeError, "must be a name or a Family"),
    ],
)
def test_what_is_no_family_is_an_error_with_a_remedy(family, error, message):
    with pytest.raises(error, match=message):
        find_family(family)


# -- settings


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(link="logit"), "Gaussian: link must be one of 'identity', 'log', 'inverse', got 'logit'"),
        (lambda: Poisson(link="inverse"), "Poisson: link must be one of 'log', 'identity', got 'inverse'"),
        (lambda: Gamma(link="probit"), "Gamma: link must be one of"),
        (lambda: Multinomial(n_classes=1), "Multinomial: n_classes must be an integer of at least 2, got 1; give"),
        (lambda: Multinomial(n_classes=2.5), "got 2.5"),
        (lambda: Multinomial(n_classes=True), "got True"),
        (lambda: NegativeBinomial(size=0.0), "NegativeBinomial: size must be a finite number above 0, got 0.0; .*Pois"),
        (lambda: NegativeBinomial(size=np.inf), "got inf"),
        (lambda: NegativeBinomial(size="big"), "got 'big'"),
        (lambda: NegativeBinomial(size=True), "got True"),
        (lambda: Tweedie(power=2.0), r"Tweedie: power must be a number between 1 and 2, got 2.0; .*Gamma\(\)"),
        (lambda: Tweedie(power=np.nan), "got nan"),
        (lambda: Quantile(level=1.0), "Quantile: level must be a number between 0 and 1, got 1.0; 0.5 is the median"),
        (lambda: Quantile(smoothing=-1.0), "Quantile: smoothing must be a finite number above 0, got -1.0; None"),
        (lambda: Laplace(smoothing=0.0), "Laplace: smoothing must be .* got 0.0"),
        (lambda: Huber(delta=-2.0), "Huber: delta must be a finite number above 0, got -2.0; None"),
    ],
)
def test_bad_settings_are_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("family", [Quantile(), Laplace(), Huber()], ids=str)
def test_open_settings_are_filled_from_the_target(family, rng):
    y, weight = 5.0 + 3.0 * rng.normal(size=4000), np.ones(4000)
    with pytest.raises(ValueError, match=f"{family.name}: .* is still None; give a number .*filled"):
        family.loss(y, y[:, None])
    filled = family.filled(y, weight)
    setting = "delta" if isinstance(family, Huber) else "smoothing"
    expected = 3.0 * (1.345 if setting == "delta" else 0.02)
    assert getattr(filled, setting) == pytest.approx(expected, rel=0.05)
    assert type(getattr(filled, setting)) is float
    assert filled.filled(2 * y, weight) == filled
    standard, units = family.standardised(y, weight)
    assert getattr(standard, setting) * units.scale == pytest.approx(getattr(filled, setting))
    assert units.scale == pytest.approx(3.0, rel=0.05)


# -- targets


@pytest.mark.parametrize(
    ("family", "y", "message"),
    [
        (Bernoulli(), [1.0, 1.0], "y is 1 in every row: one class only"),
        (Bernoulli(), [0.0, 0.0], "y is 0 in every row: one class only"),
        (Bernoulli(), [0.0, 1.5], r"y must hold finite numbers in \[0, 1\] for Bernoulli, got 1.5 in row 1"),
        (Multinomial(3), [0.0, 2.0, 2.0], r"no row of class 1; Multinomial\(n_classes=3\) needs all of 0 .. 2"),
        (Multinomial(3), [1.0, 1.0], "no row of class 0, 2"),
        (Multinomial(3), [0.0, 1.0, 2.0, 3.0], r"whole numbers in \[0, 2\]"),
        (Poisson(), [0.0, 0.0], "no positive value; Poisson"),
        (Poisson(), [-1.0, -2.0, 1.0], r"got -1 in row 0 \(and 1 more\)"),
        (NegativeBinomial(), [0.0, 0.0], "no positive value; NegativeBinomial"),
        (Tweedie(), [0.0, 0.0], "no positive value; Tweedie"),
        (Gamma(), [0.0, 1.0], r"finite numbers in \(0, inf\) for Gamma, got 0 in row 0"),
        (Gaussian(link="log"), [-1.0, 0.0], r"no positive value; Gaussian\(link='log'\)"),
        (GaussianLocationScale(), [2.0, 2.0], "y is 2 in every row; GaussianLocationScale"),
    ],
)
def test_targets_that_cannot_be_fitted_are_errors(family, y, message):
    with pytest.raises(ValueError, match=message):
        family.check(np.array(y))


def test_one_share_everywhere_is_fine():
    Bernoulli().check(np.full(3, 0.25))
    assert expit(Bernoulli().start(np.full(3, 0.25), np.ones(3))) == pytest.approx(0.25)


# -- units


def test_weighted_quantile_is_that_of_repeated_rows(rng):
    y, weight = rng.normal(size=31), rng.integers(0, 4, 31)
    for level in (0.01, 0.25, 0.5, 0.9):
        expected = np.quantile(np.repeat(y, weight), level, method="inverted_cdf")
        assert weighted_quantile(y, weight.astype(float), level) == expected


def test_robust_scale_and_its_fallbacks(rng):
    normal = rng.normal(0.0, 2.0, 20_000)
    assert robust_scale(normal, np.ones(20_000)) == pytest.approx(2.0, rel=0.03)
    mostly = np.array([0.0, 0.0, 0.0, 1.0])
    assert robust_scale(mostly, np.ones(4)) == pytest.approx(np.sqrt(np.pi / 2) / 4)
    assert robust_scale(np.full(5, 3.0), np.ones(5)) == 1.0
    assert Huber().filled(mostly, np.ones(4)).delta > 0


@pytest.mark.parametrize("robust", [False, True])
def test_units_of_constant_and_of_huge_targets(robust):
    constant = location_units(np.full(4, 7.0), np.ones(4), robust=robust)
    assert (constant.centre, constant.scale) == (7.0, 1.0)
    huge = location_units(np.array([-1e150, 0.0, 1e150]), np.ones(3), robust=robust)
    assert huge.scale == pytest.approx(1.4826e150 if robust else np.sqrt(2 / 3) * 1e150)
    with pytest.raises(ValueError, match=r"y is of the order of (1e\+200|8e\+199)"):
        location_units(np.array([-1e200, 0.0, 1e200]), np.ones(3), robust=robust)


def test_robust_units_do_not_follow_outliers(rng):
    y = rng.normal(size=1000)
    y[:10] = 1e6
    for family in (Huber(), Quantile(), Laplace()):
        assert family.standardised(y, np.ones(1000))[1].scale == pytest.approx(1.0, rel=0.1)


# -- single families


@pytest.mark.parametrize(
    ("family", "metric", "power"),
    [
        (Poisson(), "mean_poisson_deviance", None),
        (Poisson(link="identity"), "mean_poisson_deviance", None),
        (Gamma(), "mean_gamma_deviance", None),
        (Gamma(link="inverse"), "mean_gamma_deviance", None),
        (Tweedie(power=1.3), "mean_tweedie_deviance", 1.3),
        (Gaussian(), "mean_squared_error", None),
    ],
    ids=str,
)
def test_deviance_is_scikit_learns(family, metric, power, rng):
    metrics = pytest.importorskip("sklearn.metrics")
    y, eta = rng.gamma(2.0, size=50), rng.uniform(0.2, 2.0, (50, 1))
    expected = getattr(metrics, metric)(y, family.mean(eta), **({} if power is None else {"power": power}))
    assert family.deviance(y, eta).mean() == pytest.approx(expected)


def test_shares_with_trials_as_weights_are_binomial(rng):
    trials = rng.integers(1, 9, 40)
    successes = rng.binomial(trials, 0.4)
    eta, other = rng.normal(size=(2, 40, 1))
    share = successes / trials
    mine = trials * (Bernoulli().loss(share, eta)[0] - Bernoulli().loss(share, other)[0])
    theirs = stats.binom(trials, expit(other[:, 0])).logpmf(successes) - stats.binom(trials, expit(eta[:, 0])).logpmf(
        successes
    )
    np.testing.assert_allclose(mine, theirs, atol=1e-10)


def test_two_classes_are_bernoulli(rng):
    y, eta = rng.integers(0, 2, 30).astype(float), rng.normal(size=(30, 1))
    pair = np.hstack([np.zeros_like(eta), eta])
    np.testing.assert_allclose(Multinomial(2).loss(y, pair)[0], Bernoulli().loss(y, eta)[0])
    np.testing.assert_allclose(Multinomial(2).mean(pair)[:, 1], Bernoulli().mean(eta))


def test_multinomial_guess_is_centred_log_shares():
    y = np.array([0.0, 1.0, 1.0, 2.0, 2.0, 2.0])
    guess = Multinomial(3).guess(y, np.ones(6))
    assert guess.sum() == pytest.approx(0.0)
    np.testing.assert_allclose(Multinomial(3).mean(guess[None])[0], [1 / 6, 2 / 6, 3 / 6])


@pytest.mark.parametrize(
    ("near", "limit"),
    [(NegativeBinomial(size=1e9), Poisson()), (Tweedie(power=1 + 1e-9), Poisson()), (Tweedie(power=2 - 1e-9), Gamma())],
    ids=str,
)
def test_limits_are_poisson_and_gamma(near, limit, rng):
    y, eta = rng.gamma(2.0, size=30), rng.normal(size=(30, 1))
    np.testing.assert_allclose(near.deviance(y, eta), limit.deviance(y, eta), atol=1e-5)
    for mine, theirs in zip(near.loss(y, eta)[1:], limit.loss(y, eta)[1:], strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)


@pytest.mark.parametrize("smoothing", [1.0, 0.1, 1e-3, 1e-9])
@pytest.mark.parametrize("level", [0.05, 0.5, 0.8])
def test_smoothing_adds_at_most_s_log_2(smoothing, level, rng):
    y, eta = rng.normal(size=400), rng.normal(size=(400, 1))
    y[:3] = eta[:3, 0]
    r = y - eta[:, 0]
    excess = Quantile(level, smoothing).loss(y, eta)[0] - np.maximum(level * r, (level - 1) * r)
    assert ((excess >= 0) & (excess <= smoothing * np.log(2) + 1e-15)).all()
    excess = Laplace(smoothing).loss(y, eta)[0] - np.abs(r)
    assert ((excess >= 0) & (excess <= 2 * smoothing * np.log(2) + 1e-15)).all()


def test_default_smoothing_hardly_moves_a_quantile(rng):
    y, weight = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000), np.ones(20_000)
    for level in (0.01, 0.3, 0.5, 0.99):
        fitted = Quantile(level).filled(y, weight).start(y, weight)[0]
        assert fitted == pytest.approx(np.quantile(y, level), abs=0.003)


def test_quantile_curvature_is_continuous_where_its_formula_changes():
    family = Quantile(0.3, 0.5)
    r = np.array([1e-12, 1e-3, 0.999e-2, 1.001e-2, -0.999e-2, -1.001e-2, 1.0])
    h = family.loss(r, np.zeros((len(r), 1)))[2][:, 0]
    np.testing.assert_allclose(h, np.tanh(r) / (2 * r), rtol=1e-12)
    assert family.loss(np.zeros(1), np.zeros((1, 1)))[2] == 1 / (4 * 0.5)


def test_huber_is_scipys(rng):
    y, eta = 3 * rng.normal(size=100), rng.normal(size=(100, 1))
    np.testing.assert_allclose(Huber(1.5).loss(y, eta)[0], huber(1.5, y - eta[:, 0]))


def test_huber_start_withstands_outliers(rng):
    y = rng.normal(size=500)
    y[:25] = 1e8
    family = Huber().filled(y, np.ones(500))
    assert abs(family.start(y, np.ones(500))[0]) < 0.3


def test_location_scale_starts_at_mean_and_spread(rng):
    y = rng.normal(5.0, 3.0, 300)
    family = GaussianLocationScale()
    start = family.start(y, np.ones(300))
    np.testing.assert_allclose(start, [y.mean(), np.log(y.std())])
    assert family.scale(start[None])[0] == pytest.approx(y.std())
    assert family.mean(start[None])[0] == pytest.approx(y.mean())


@pytest.mark.parametrize("link", ["identity", "inverse", "log"])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_start_does_not_depend_on_the_unit_of_the_target(link, unit, rng):
    """Curvatures of the identity and the inverse link go with the square of the unit."""
    y = rng.gamma(3.0, size=200)
    offset = {"identity": 1.0, "inverse": 0.2, "log": 0.5}[link] * rng.normal(size=(200, 1))
    scale = {"identity": unit, "inverse": 1 / unit}.get(link, 1.0)
    shift = np.log(unit) if link == "log" else 0.0
    expected = Gamma(link).start(y, np.ones(200), offset)
    actual = Gamma(link).start(unit * y, np.ones(200), scale * offset)
    np.testing.assert_allclose((actual - shift) / scale, expected, rtol=1e-6)


def test_start_when_the_mean_offset_leaves_the_link():
    y, offset = np.array([1.0, 1.0, 1.0, 1.0]), np.array([[0.0], [0.0], [0.0], [-9.0]])
    start = Poisson(link="identity").start(y, np.ones(4), offset)
    assert start[0] > 9.0
    assert np.abs(Poisson(link="identity").loss(y, start + offset)[1].sum()) < 1e-6


def test_start_with_two_predictors_that_pull_the_same_way():
    """Newton steps by the diagonal alone jump from side to side; each is twice too long."""
    y, offset = np.array([0.0, 1.0, 1.0]), np.array([[3.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    start = Multinomial(2).start(y, np.ones(3), offset)
    np.testing.assert_allclose(Multinomial(2).loss(y, start + offset)[1].sum(axis=0), 0.0, atol=1e-7)


def test_settings_are_replaced_not_changed():
    family = Huber(delta=2.0)
    standard, units = family.standardised(np.array([0.0, 10.0, 20.0]), np.ones(3))
    assert family.delta == 2.0
    assert standard == replace(family, delta=2.0 / units.scale)


# -- parameters of their own


@pytest.mark.parametrize("size", [0.5, 3.0])
def test_the_size_of_a_negative_binomial_is_learned(size, rng):
    eta = rng.normal(size=(20_000, 1))
    mu = np.exp(eta[:, 0])
    y = rng.negative_binomial(size, size / (size + mu)).astype(float)
    family = NegativeBinomial().filled(y, np.ones(len(y)))
    assert family.open
    learned = family.learned(y, eta, np.ones(len(y)))
    assert learned.size == pytest.approx(size, rel=0.1)
    sizes = np.array([0.99, 1.0, 1.01]) * learned.size
    likelihood = [stats.nbinom(k, k / (k + mu)).logpmf(y).sum() for k in sizes]
    assert np.argmax(likelihood) == 1


def test_a_size_counts_weights(rng):
    eta, times = rng.normal(size=(300, 1)), rng.integers(0, 3, 300)
    y = rng.negative_binomial(1.0, 1.0 / (1.0 + np.exp(eta[:, 0]))).astype(float)
    family = NegativeBinomial().filled(y, times)
    many, eta_many = np.repeat(y, times), np.repeat(eta, times, axis=0)
    assert family.size == pytest.approx(NegativeBinomial().filled(many, np.ones(len(many))).size)
    weighted, repeated = family.learned(y, eta, times), family.learned(many, eta_many, np.ones(len(many)))
    assert weighted.size == pytest.approx(repeated.size, rel=1e-3)


def test_a_family_that_is_still_open_says_so(rng):
    with pytest.raises(ValueError, match="NegativeBinomial: size is still None"):
        NegativeBinomial().loss(np.ones(2), np.zeros((2, 1)))
    with pytest.raises(ValueError, match="Tweedie: power is still None"):
        Tweedie(power=None).loss(np.ones(2), np.zeros((2, 1)))


def tweedie_draws(rng, mu, phi, power):
    """Poisson numbers of gamma amounts."""
    a, b = 2.0 - power, power - 1.0
    count = rng.poisson(mu**a / (phi * a))
    amount = rng.gamma(np.maximum(count, 1) * a / b, phi * b * mu**b)
    return np.where(count > 0, amount, 0.0)


@pytest.mark.parametrize("power", [1.2, 1.5, 1.8])
def test_the_power_of_a_tweedie_is_learned(power, rng):
    eta = rng.normal(size=(20_000, 1))
    y = tweedie_draws(rng, np.exp(eta[:, 0]), 0.8, power)
    family = Tweedie(power=None).filled(y, np.ones(len(y)))
    assert family.learned(y, eta, np.ones(len(y))).power == pytest.approx(power, abs=0.06)


@pytest.mark.parametrize("power", [1.2, 1.5, 1.8])
@pytest.mark.parametrize("phi", [0.1, 1.0])
def test_tweedie_density_has_the_right_moments(power, phi):
    def density(y):
        return float(np.exp(log_density_of_tweedie(np.array([y]), np.array([1.7]), phi, power))[0])

    def moment(k):
        """In logarithms: the density may have a pole at zero."""
        return quad(lambda t: np.exp((k + 1) * t) * density(np.exp(t)), -60.0, 6.0, limit=500, epsabs=1e-6)[0]

    assert moment(0) + density(0.0) == pytest.approx(1.0, abs=3e-3)
    assert moment(1) == pytest.approx(1.7, rel=5e-3)
    assert moment(2) - 1.7**2 == pytest.approx(phi * 1.7**power, rel=2e-2)


def test_expected_loss_of_an_uncertain_mean(rng):
    """The mean over what the mean may be, by quadrature; the spread known."""
    family = GaussianLocationScale()
    y, eta, variance = rng.normal(size=5), rng.normal(size=(5, 2)), rng.exponential(size=(5, 2))
    points, weights = np.polynomial.hermite_e.hermegauss(20)
    moved = [eta + np.outer(np.sqrt(variance[:, 0]), [point, 0.0]) for point in points]
    mean = sum(w * family.loss(y, at)[0] for w, at in zip(weights, moved, strict=True)) / weights.sum()
    np.testing.assert_allclose(family.expected(y, eta, variance)[0], mean, rtol=1e-10)
