"""Smoothing parameters of bands: averages over what the data leave open about them."""

import numpy as np
import pytest
from scipy import integrate

from ahofm.inference.averaged_smoothing import averaged, root_of
from ahofm.inference.implied_smoothing import Group

WIGGLES = np.arange(1.0, 13.0) ** 4


def problem(columns, n=500):
    """Information about an intercept and, of each column, a line and twelve wiggles; groups of all of them."""
    Z = np.hstack([np.ones((n, 1)), *columns])
    groups, penalty = [], [0.0]
    for j in range(len(columns)):
        start = 1 + 13 * j
        groups.append(Group(np.arange(start, start + 1), main=True, line=True, portion=1.0))
        groups.append(Group(np.arange(start + 1, start + 13), main=True, line=False, portion=1.0))
        penalty += [1.0, *WIGGLES]
    return Z, np.asarray(penalty), groups


def functions(x):
    """A line and twelve waves, of mean zero and mean square about one."""
    return np.column_stack([np.sqrt(3) * x, *(np.sqrt(2) * np.cos(np.pi * k * (x + 1) / 2) for k in range(2, 14))])


def fitted(Z, y, penalty, groups):
    """Smoothing parameters around a penalised fit, with the posterior mean under them."""
    H = Z.T @ Z
    theta = np.linalg.solve(H + np.diag(penalty), Z.T @ y)
    lam = averaged(H, Z.T @ y, theta, penalty, groups)
    return H, theta, lam


def edf(H, lam, at):
    return float(np.diag(np.linalg.solve(H + np.diag(lam), H))[at].sum())


def test_one_coefficient_has_the_posterior_mean_of_its_fraction():
    """Against quadrature: half-Cauchy of the standard deviation, at the scale of the standard error."""
    information, estimate = 40.0, 0.3
    group = Group(np.array([1]), main=False, line=False, portion=1.0)
    H = np.diag([1.0, information])
    found = averaged(H, H @ [0.0, estimate], np.array([0.0, estimate]), np.ones(2), [group])[1]

    def density(tau):
        variance = tau**2 + 1.0 / information
        return np.exp(-0.5 * estimate**2 / variance) / np.sqrt(variance) / (1.0 + tau**2 * information)

    def fraction(tau):
        return tau**2 / (tau**2 + 1.0 / information) * density(tau)

    expected = integrate.quad(fraction, 0.0, np.inf)[0] / integrate.quad(density, 0.0, np.inf)[0]
    assert information / (information + found) == pytest.approx(expected, rel=1e-3)


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


def test_slopes_of_correlated_columns_have_the_variance_of_least_squares():
    """Also where the other slope was shrunk away: it is not known to be zero."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, 500)
    other = x + 0.25 * rng.uniform(-1, 1, 500)
    Z = np.column_stack([np.ones(500), x, other])
    groups = [Group(np.array([j]), main=True, line=True, portion=1.0) for j in (1, 2)]
    H = Z.T @ Z
    lam = averaged(H, H @ [0.0, 1.0, 0.0], np.array([0.0, 1.0, 1e-6]), np.ones(3), groups)
    found = np.linalg.inv(H + np.diag(lam))[1, 1]
    assert 0.5 < found / np.linalg.inv(H)[1, 1] < 1.0


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

    def kept(portion):
        groups = [Group(own, main=False, line=False, portion=portion) for own in at]
        pull = Z.T @ rng.normal(size=2000)
        lam = averaged(H, pull, np.linalg.solve(H + 1e3 * np.eye(49), pull), np.ones(49), groups)
        return edf(H, lam, at.ravel())

    assert kept(1.0 / 12) < 0.5 * kept(1.0)


def test_coordinates_without_rows_keep_their_penalty():
    H = np.diag([10.0, 5.0, 0.0])
    group = Group(np.array([1, 2]), main=False, line=False, portion=1.0)
    lam = averaged(H, H @ [1.0, 1.0, 0.0], np.array([1.0, 1.0, 0.0]), np.array([1.0, 1.0, 7.0]), [group])
    assert lam[2] == 7.0
    assert np.isfinite(lam).all()


def test_units_of_the_penalty_do_not_matter():
    """Only ratios of the penalties within a group count."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, 500)
    Z, penalty, groups = problem([functions(x)])
    y = np.cos(5 * x) + rng.normal(size=500)
    H, theta = Z.T @ Z, np.linalg.solve(Z.T @ Z + np.eye(14), Z.T @ y)
    first, second = (averaged(H, Z.T @ y, theta, unit * penalty, groups)[2:] for unit in (1.0, 100.0))
    np.testing.assert_allclose(second, first, rtol=1e-8)
