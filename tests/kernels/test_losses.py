"""The NumPy losses against SciPy's log-likelihoods and finite differences."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logsumexp, softmax

from ahofm.kernels import LOSSES, log_of_sum
from tests.problems import random_target

LOG_LIKELIHOODS = {
    "gaussian": lambda y, eta: stats.norm.logpdf(y, eta[:, 0]),
    "bernoulli": lambda y, eta: stats.bernoulli.logpmf(y, expit(eta[:, 0])),
    "poisson": lambda y, eta: stats.poisson.logpmf(y, np.exp(eta[:, 0])),
    "gamma": lambda y, eta: stats.gamma.logpdf(y, 1.0, scale=np.exp(eta[:, 0])),
    "multinomial": lambda y, eta: np.log(softmax(eta, axis=1))[np.arange(len(y)), y.astype(int)],
}


@pytest.fixture(params=LOSSES)
def problem(request):
    rng = np.random.default_rng(1)
    K = 3 if request.param == "multinomial" else 1
    return request.param, random_target(rng, request.param, 50, K), rng.normal(size=(50, K))


def test_value_is_minus_the_log_likelihood_up_to_a_constant(problem):
    """Differences between two etas: terms free of eta drop out."""
    name, y, eta = problem
    other = eta + np.random.default_rng(2).normal(size=eta.shape)
    difference = LOSSES[name](y, eta)[0] - LOSSES[name](y, other)[0]
    expected = LOG_LIKELIHOODS[name](y, other) - LOG_LIKELIHOODS[name](y, eta)
    np.testing.assert_allclose(difference, expected, rtol=1e-9, atol=1e-9)


def test_g_and_h_are_the_derivatives(problem):
    name, y, eta = problem
    _, g, h = LOSSES[name](y, eta)
    assert g.shape == h.shape == eta.shape
    for k in range(eta.shape[1]):
        step = np.zeros_like(eta)
        step[:, k] = 1e-6
        up, down = LOSSES[name](y, eta + step), LOSSES[name](y, eta - step)
        np.testing.assert_allclose(g[:, k], (up[0] - down[0]) / 2e-6, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(h[:, k], (up[1] - down[1])[:, k] / 2e-6, rtol=1e-6, atol=1e-7)


def test_log_of_sum_is_scipys_whatever_the_size():
    eta = np.random.default_rng(3).normal(size=(200, 4)) * np.logspace(-3, 6, 200)[:, np.newaxis]
    np.testing.assert_allclose(log_of_sum(eta), logsumexp(eta, axis=1), rtol=1e-14)
