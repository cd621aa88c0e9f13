"""Parabolas that touch the losses, and steps that losses bear out."""

import numpy as np
import pytest

from ahofm.families import Bernoulli, Gamma, Gaussian, Multinomial, Poisson
from ahofm.fit.solvers.variational.working import Response


def response_of(family, n=200, offset=True, seed=0):
    rng = np.random.default_rng(seed)
    draws = {
        Gaussian: rng.normal(size=n),
        Gamma: rng.gamma(2.0, size=n),
        Poisson: rng.poisson(1.0, n).astype(float),
        Bernoulli: rng.integers(0, 2, n).astype(float),
        Multinomial: rng.integers(0, 3, n).astype(float),
    }
    shift = 0.3 * rng.normal(size=(n, family.n_predictors)) if offset else None
    eta = 0.5 * rng.normal(size=(n, family.n_predictors))
    return Response(family, draws[type(family)], rng.exponential(size=n), shift), eta


FAMILIES = [Gaussian(), Bernoulli(), Poisson(), Gamma(), Multinomial(3)]


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_parabolas_have_the_losses_slopes(family):
    """weight eta - pull is the slope of the weighted loss, whatever the offset."""
    response, eta = response_of(family)
    touch = response.touch(eta)
    for k in range(family.n_predictors):
        parabolas = response.parabolas(touch, k)
        up, down = eta.copy(), eta.copy()
        up[:, k] += 1e-5
        down[:, k] -= 1e-5
        slope = response.weight * (response.touch(up).value - response.touch(down).value) / 2e-5
        np.testing.assert_allclose(parabolas.weight * eta[:, k] - parabolas.pull, slope, rtol=1e-5, atol=1e-6)


def test_gaussian_parabolas_are_the_losses():
    response, eta = response_of(Gaussian())
    assert response.quadratic
    parabolas = response.parabolas(response.touch(eta), 0)
    np.testing.assert_allclose(parabolas.weight, response.weight)
    np.testing.assert_allclose(parabolas.pull, response.weight * response.target)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_left_is_one_for_the_constants_and_zero_at_the_floor(family):
    response, _ = response_of(family, offset=False)
    constants = np.tile(response.constants, (response.n_rows, 1))
    assert response.left(response.touch(constants)) == pytest.approx(1.0)
    assert response.mean_of(family.floor(response.y)) == pytest.approx(response.floor)


def test_a_newton_step_of_a_poisson_mean_is_borne_out_and_a_wild_one_is_not():
    response, eta = response_of(Poisson())
    before = response.touch(eta)
    parabolas = response.parabolas(before, 0)
    newton = float(parabolas.pull.sum() - parabolas.weight @ eta[:, 0]) / float(parabolas.weight.sum())
    assert response.bears_out(before, response.touch(eta + newton), 0)
    assert not response.bears_out(before, response.touch(eta + 2.9), 0)
    assert not response.bears_out(before, response.touch(eta + 800.0), 0)
    assert not response.bears_out(before, response.touch(eta - 3.1), 0)


def test_what_is_borne_out_lowers_the_loss_of_an_exact_step():
    """For steps that minimise the parabolas of a random direction, over many of them."""
    response, eta = response_of(Poisson(), offset=False)
    before = response.touch(3.0 * eta)
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(200):
        direction = rng.normal(size=200) * np.exp(2.0 * rng.normal())
        parabolas = response.parabolas(before, 0)
        slope = parabolas.weight * before.eta[:, 0] - parabolas.pull
        step = -(slope @ direction) / (parabolas.weight @ direction**2) * direction
        after = response.touch(before.eta + step[:, None])
        borne = response.bears_out(before, after, 0)
        seen.add(borne)
        if borne:
            assert response.mean_of(after.value) < response.mean_of(before.value)
    assert True in seen


def test_careful_curvatures_do_not_vanish():
    response, _ = response_of(Bernoulli(), offset=False)
    eta = np.full((response.n_rows, 1), 30.0)
    touch = response.touch(eta)
    careful = response.careful(touch, np.zeros_like(eta))
    assert touch.curvature.max() < 1e-12
    np.testing.assert_allclose(careful.curvature, 1.0 / 60.0)
    poisson, eta = response_of(Poisson())
    touch = poisson.touch(eta)
    assert poisson.careful(touch, np.zeros_like(eta)) is touch


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
