"""Losses at rows, their quadratic approximations, and what a trial tells of a step."""

import numpy as np
import pytest

from ahofm.backends import Response
from ahofm.families import Bernoulli, Gamma, Gaussian, Multinomial, Poisson


def response_of(family, n=200, offset=True, seed=0):
    rng = np.random.default_rng(seed)
    draws = {
        Gaussian: rng.normal(size=n),
        Gamma: rng.gamma(2.0, size=n),
        Poisson: rng.poisson(1.0, n).astype(float),
        Bernoulli: rng.integers(0, 2, n).astype(float),
        Multinomial: rng.integers(0, 3, n).astype(float),
    }
    shift = 0.3 * rng.normal(size=(n, family.n_eta)) if offset else None
    eta = 0.5 * rng.normal(size=(n, family.n_eta))
    return Response(family, draws[type(family)], rng.exponential(size=n), shift), eta


FAMILIES = [Gaussian(), Bernoulli(), Poisson(), Gamma(), Multinomial(3)]


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_parabolas_have_the_losses_slopes(family):
    """weight eta - weighted response is the slope of the weighted loss, whatever the offset."""
    response, eta = response_of(family)
    derivatives = response.derivatives(eta)
    for k in range(family.n_eta):
        working_response = response.working_response(derivatives, k)
        up, down = eta.copy(), eta.copy()
        up[:, k] += 1e-5
        down[:, k] -= 1e-5
        slope = response.weight * (response.derivatives(up).value - response.derivatives(down).value) / 2e-5
        np.testing.assert_allclose(
            working_response.weight * eta[:, k] - working_response.weighted_response, slope, rtol=1e-5, atol=1e-6
        )


def test_gaussian_parabolas_are_the_losses():
    response, eta = response_of(Gaussian())
    assert response.quadratic
    working_response = response.working_response(response.derivatives(eta), 0)
    np.testing.assert_allclose(working_response.weight, response.weight)
    np.testing.assert_allclose(working_response.weighted_response, response.weight * response.target)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_left_is_one_for_the_constants_and_zero_at_the_floor(family):
    response, _ = response_of(family, offset=False)
    constants = np.tile(response.constants, (response.n_rows, 1))
    assert response.remaining(response.mean_of(response.derivatives(constants).value)) == pytest.approx(1.0)
    assert response.mean_of(family.floor(response.y)) == pytest.approx(response.floor)


def test_a_trial_says_what_a_step_does():
    response, eta = response_of(Poisson())
    before, after = response.derivatives(eta), response.derivatives(eta + 0.7)
    trial = response.trial(before, after, 0)
    weight, mu = response.weight, np.exp(response.shifted(eta)[:, 0])
    assert trial.before == pytest.approx(response.mean_of(before.value))
    assert trial.loss == pytest.approx(response.mean_of(after.value))
    assert trial.curved == pytest.approx(0.49 * weight @ mu)
    assert trial.excess == pytest.approx(weight @ (mu * (np.expm1(0.7) - 0.7 - 0.245)))
    assert trial.largest_change == pytest.approx(0.7)
    assert trial.finite
    far = response.trial(before, response.derivatives(eta + 800.0), 0)
    assert not far.finite
    assert not np.isfinite(far.excess)


def test_careful_curvatures_do_not_vanish():
    response, _ = response_of(Bernoulli(), offset=False)
    eta = np.full((response.n_rows, 1), 30.0)
    derivatives = response.derivatives(eta)
    careful = response.majorised(derivatives, np.zeros_like(eta))
    assert derivatives.curvature.max() < 1e-12
    np.testing.assert_allclose(careful.curvature, 1.0 / 60.0)
    poisson, eta = response_of(Poisson())
    derivatives = poisson.derivatives(eta)
    assert poisson.majorised(derivatives, np.zeros_like(eta)) is derivatives


def test_rare_events_tell_little():
    y = np.zeros(1000)
    y[:20] = 1.0
    rare = Response(Poisson(), y, np.ones(1000), None)
    assert rare.rare
    assert rare.information == pytest.approx(20.0)
    common = Response(Poisson(), np.full(1000, 3.0), np.ones(1000), None)
    assert not common.rare
    assert common.information == 1000.0
    dispersed = Response(Gamma(), np.full(1000, 1e-6), np.ones(1000), None)
    assert dispersed.information == 1000.0
