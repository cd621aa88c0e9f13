"""Smoothing parameters of bands: averages over what the data leave open about them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate

from ahofm.inference.averaged_smoothing import averaged_penalties
from ahofm.inference.implied_smoothing import Group
from ahofm.inference.information import Information, root_of
from ahofm.priors.edf import lam_with_edf
from ahofm.tuning import bands as tuning

WIGGLES = np.arange(1.0, 13.0) ** 4


def problem(columns, n=500):
    """Information about an intercept and, of each column, a line and twelve wiggles; groups of all of them."""
    Z = np.hstack([np.ones((n, 1)), *columns])
    groups, penalty = [], [0.0]
    for j in range(len(columns)):
        start = 1 + 13 * j
        groups.append(Group(np.arange(start, start + 1), main=True, line=True, order_fraction=1.0))
        groups.append(Group(np.arange(start + 1, start + 13), main=True, line=False, order_fraction=1.0))
        penalty += [1.0, *WIGGLES]
    return Z, np.asarray(penalty), groups


def functions(x):
    """A line and twelve waves, of mean zero and mean square about one."""
    return np.column_stack([np.sqrt(3) * x, *(np.sqrt(2) * np.cos(np.pi * k * (x + 1) / 2) for k in range(2, 14))])


def fitted(Z, y, penalty, groups):
    """Smoothing parameters around a penalised fit, with the posterior mean under them."""
    H = Z.T @ Z
    theta = np.linalg.solve(H + np.diag(penalty), Z.T @ y)
    penalties = averaged_penalties(Information.whole(H), Z.T @ y, theta, penalty, groups)
    return H, theta, penalties.variance


def edf(H, lam, at):
    return float(np.diag(np.linalg.solve(H + np.diag(lam), H))[at].sum())


def test_one_coefficient_has_mean_and_variance_of_the_mixture():
    """Against quadrature: half-Cauchy of the standard deviation, at the scale of the standard error."""
    information, estimate = 40.0, 0.3
    group = Group(np.array([1]), main=True, line=False, order_fraction=1.0)
    H = np.diag([1.0, information])
    start = np.array([0.0, estimate])
    found = averaged_penalties(Information.whole(H), H @ start, start, np.ones(2), [group])

    def density(tau):
        variance = tau**2 + 1.0 / information
        return np.exp(-0.5 * estimate**2 / variance) / np.sqrt(variance) / (1.0 + tau**2 * information)

    def mean_of(what):
        return integrate.quad(lambda tau: what(tau) * density(tau), 0.0, np.inf)[0] / total

    def fraction(tau):
        return tau**2 / (tau**2 + 1.0 / information)

    total = integrate.quad(density, 0.0, np.inf)[0]
    mean = mean_of(fraction)
    variance = mean / information + estimate**2 * mean_of(lambda tau: (fraction(tau) - mean) ** 2)
    assert information / (information + found.mean[1]) == pytest.approx(mean, rel=1e-3)
    assert 1.0 / (information + found.variance[1]) == pytest.approx(min(variance, 1 / (information + 1e-3)), rel=1e-3)
    factor = averaged_penalties(Information.whole(H), H @ start, start, np.ones(2), [replace(group, main=False)])
    assert factor.variance[1] == factor.mean[1], "of factors, the variance of the means does not count"


def mixture_by_hand(c, q, weight, centre, shapes):
    """Mean and variance of each coordinate, a density of log lambda and of the shape at a time, by a fine sum."""
    masses, means, variances = [], [], []
    for shape in shapes:
        lams = weight**shape
        scale = lam_with_edf((lams / c)[np.newaxis], np.array([centre]))[0]
        for log in np.arange(-25.0, 25.0, 0.05):
            lam = scale * np.exp(log) * lams
            likelihood = np.prod(np.sqrt(lam / (c + lam)) * np.exp(0.5 * q**2 / (c + lam)))
            masses.append(likelihood / (np.exp(0.5 * log) + np.exp(-0.5 * log)))
            means.append(q / (c + lam))
            variances.append(1.0 / (c + lam))
    masses = np.array(masses) / np.sum(masses)
    mean = masses @ np.array(means)
    return mean, masses @ (np.array(variances) + (np.array(means) - mean) ** 2)


def test_a_main_effect_is_averaged_over_shapes_of_its_penalty():
    c, weight = np.array([50.0, 40.0, 45.0, 60.0]), np.array([1.0, 8.0, 30.0, 90.0])
    estimate = np.array([0.5, -0.2, 0.05, 0.1])
    H, start = np.diag([1.0, *c]), np.array([0.0, *estimate])
    group = Group(np.arange(1, 5), main=True, line=False, order_fraction=1.0)
    found = averaged_penalties(Information.whole(H), H @ start, start, np.array([1.0, *weight]), [group])
    mean, variance = mixture_by_hand(c, c * estimate, weight, tuning.MAIN_PRIOR_EDF, tuning.PENALTY_POWERS)
    np.testing.assert_allclose(c * estimate / (c + found.mean[1:]), mean, rtol=2e-3)
    np.testing.assert_allclose(1.0 / (c + found.variance[1:]), np.minimum(variance, 1.0 / (c + 1e-3)), rtol=2e-3)


def test_smoothing_parameters_leave_the_degrees_of_freedom_that_are_asked_for():
    ratios = np.exp(np.random.default_rng(7).normal(scale=5.0, size=(20, 6)))
    edf = np.linspace(0.01, 5.9, 20)
    lam = lam_with_edf(ratios, edf)
    np.testing.assert_allclose((1.0 / (1.0 + lam[:, np.newaxis] * ratios)).sum(axis=1), edf, rtol=1e-9)


def test_coordinates_without_correlations_have_a_posterior_of_their_own():
    rng = np.random.default_rng(8)
    A = rng.normal(size=(30, 4))
    H = A.T @ A
    at, diagonal, slope, penalty = np.array([0, 2]), np.diag(H).copy(), rng.normal(size=4), np.arange(1.0, 5.0)
    information = Information(H[np.ix_(at, at)], at, diagonal)
    whole = np.diag(diagonal)
    whole[np.ix_(at, at)] = H[np.ix_(at, at)]
    inverse = np.linalg.inv(whole + np.diag(penalty))
    variance, mean = information.posterior(penalty, slope)
    np.testing.assert_allclose(variance, np.diag(inverse), rtol=1e-8)
    np.testing.assert_allclose(mean, inverse @ slope, rtol=1e-8)
    np.testing.assert_allclose(information.times(slope), whole @ slope, rtol=1e-12)


def test_few_rows_have_the_posterior_of_all_coordinates():
    """By a matrix of the rows instead of one of the coordinates."""
    rng = np.random.default_rng(9)
    rows, slope, penalty, at = rng.normal(size=(5, 12)), rng.normal(size=12), rng.uniform(0.5, 2.0, 12), np.arange(3, 8)
    penalty[0] = 0.0
    H = rows.T @ rows
    information = Information(H[np.ix_(at, at)], at, np.diag(H).copy(), rows)
    inverse = np.linalg.inv(H + np.diag(penalty))
    variance, mean = information.posterior(penalty, slope)
    np.testing.assert_allclose(variance, np.diag(inverse), rtol=1e-4)
    np.testing.assert_allclose(mean, inverse @ slope, rtol=1e-4)
    np.testing.assert_allclose(information.times(slope), H @ slope, rtol=1e-10)
    root = information.root(penalty)
    np.testing.assert_allclose(np.linalg.inv(root @ root.T), inverse[np.ix_(at, at)], rtol=1e-4, atol=1e-4)


def test_what_has_no_effect_keeps_about_a_degree_of_freedom():
    rng = np.random.default_rng(0)
    kept = []
    for _ in range(20):
        Z, penalty, groups = problem([functions(rng.uniform(-1, 1, 500))])
        H, _, lam = fitted(Z, rng.normal(size=500), penalty, groups)
        kept.append(edf(H, lam, groups[1].at))
    assert 0.2 < np.mean(kept) < 1.2


def test_curves_keep_what_their_marginal_likelihood_asks_for():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 500)
    Z, penalty, groups = problem([functions(x)])
    H, _, lam = fitted(Z, 3.0 * np.cos(5 * x) + rng.normal(size=500), penalty, groups)
    assert 5.0 < edf(H, lam, groups[1].at) < 11.0
    assert edf(H, lam, groups[0].at) > 0.9, "lines have their whole variance"


def test_slopes_of_correlated_columns_keep_much_of_the_variance_of_least_squares():
    """Also where the other slope was shrunk away: it is not known to be zero."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, 500)
    other = x + 0.25 * rng.uniform(-1, 1, 500)
    Z = np.column_stack([np.ones(500), x, other])
    groups = [Group(np.array([j]), main=True, line=True, order_fraction=1.0) for j in (1, 2)]
    H = Z.T @ Z
    start = np.array([0.0, 1.0, 1e-6])
    lam = averaged_penalties(Information.whole(H), H @ [0.0, 1.0, 0.0], start, np.ones(3), groups).variance
    found = np.linalg.inv(H + np.diag(lam))[1, 1]
    assert 0.4 < found / np.linalg.inv(H)[1, 1] < 1.0
    assert 1.0 / H[1, 1] < 0.2 * found


def test_the_step_to_the_best_fit_does_not_shrink_slopes():
    """A slope of two standard errors is shrunk by the fit, and by the mean of the mixture: neither shows the bias."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, 500)
    Z, penalty, groups = problem([functions(x), functions(rng.uniform(-1, 1, 500))])
    slope = 2.0 / np.sqrt(x @ x)
    _, theta, _ = fitted(Z, rng.normal(size=500), penalty, groups)
    H = Z.T @ Z
    found = averaged_penalties(Information.whole(H), H[:, groups[0].at[0]] * slope, theta, penalty, groups)
    for group in groups:
        assert ((found.mean[group.at] < 1e-6 * H[1, 1]) == group.line).all(), "curves keep their penalty"
    assert found.variance[groups[0].at[0]] > 0.0
    twice, penalty, groups = problem([functions(x), functions(x)])
    H = twice.T @ twice
    repeated = averaged_penalties(Information.whole(H), H[:, groups[0].at[0]] * slope, theta, penalty, groups)
    for group in groups[::2]:
        assert repeated.mean[group.at] > 0.5 * repeated.variance[group.at], "a slope that the data leave open keeps it"


def test_a_column_that_repeats_another_is_as_uncertain_as_its_effect_is_large():
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, 500)
    curve = 3.0 * np.cos(5 * x)
    Z, penalty, groups = problem([functions(x), functions(x)])
    H, theta, lam = fitted(Z, curve + rng.normal(size=500), penalty, groups)
    root = root_of(H, lam)
    J = np.zeros((500, len(theta)))
    J[:, 1:14] = functions(x)
    std = np.sqrt((np.linalg.solve(root, J.T) ** 2).sum(axis=0))
    half = 0.5 * (curve - curve.mean())  # the fit gives each of them half of the curve
    assert np.mean(np.abs(half) < 1.96 * std) > 0.8


def test_factors_share_a_degree_of_freedom():
    """Twelve factors without an effect keep less than twelve functions of their own would."""
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(2000, 49))
    H = Z.T @ Z
    at = 1 + np.arange(48).reshape(12, 4)

    def kept(order_fraction):
        groups = [Group(own, main=False, line=False, order_fraction=order_fraction) for own in at]
        pull = Z.T @ rng.normal(size=2000)
        theta = np.linalg.solve(H + 1e3 * np.eye(49), pull)
        return edf(H, averaged_penalties(Information.whole(H), pull, theta, np.ones(49), groups).mean, at.ravel())

    assert kept(1.0 / 12) < 0.5 * kept(1.0)


def test_coordinates_without_rows_keep_their_penalty():
    H = np.diag([10.0, 5.0, 0.0])
    group = Group(np.array([1, 2]), main=False, line=False, order_fraction=1.0)
    start = np.array([1.0, 1.0, 0.0])
    found = averaged_penalties(Information.whole(H), H @ start, start, np.array([1.0, 1.0, 7.0]), [group])
    for lam in (found.mean, found.variance):
        assert lam[2] == 7.0
        assert np.isfinite(lam).all()


def test_units_of_the_penalty_do_not_matter():
    """Only ratios of the penalties within a group count."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, 500)
    Z, penalty, groups = problem([functions(x)])
    y = np.cos(5 * x) + rng.normal(size=500)
    H, theta = Z.T @ Z, np.linalg.solve(Z.T @ Z + np.eye(14), Z.T @ y)
    first, second = (
        averaged_penalties(Information.whole(H), Z.T @ y, theta, unit * penalty, groups) for unit in (1.0, 100.0)
    )
    np.testing.assert_allclose(second.variance[2:], first.variance[2:], rtol=1e-8)
    np.testing.assert_allclose(second.mean[2:], first.mean[2:], rtol=1e-8)
