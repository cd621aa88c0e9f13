"""The objective is the paper's: summed by hand, and differentiated by differences."""

from itertools import combinations
from math import prod

import numpy as np
import pytest

from ahofm.columns import Encoder
from ahofm.families import Bernoulli, Gaussian, GaussianLocationScale, Huber, Multinomial, NegativeBinomial, Poisson
from ahofm.fit import smoothing_parameters_of
from tests.fit.fits import objective_of, simulated, start_of

TARGETS = {
    Gaussian(): lambda rng, n: rng.normal(size=n),
    Bernoulli(): lambda rng, n: rng.integers(0, 2, n).astype(float),
    Poisson(): lambda rng, n: rng.poisson(2.0, n).astype(float),
    Multinomial(3): lambda rng, n: rng.integers(0, 3, n).astype(float),
    NegativeBinomial(2.0): lambda rng, n: rng.poisson(2.0, n).astype(float),
    Huber(0.5): lambda rng, n: rng.normal(size=n),
    GaussianLocationScale(): lambda rng, n: rng.normal(size=n),
}
every_family = pytest.mark.parametrize("family", TARGETS, ids=lambda family: family.name)


def problem(family, ranks, *, center=True, weighted=True, ridge=0.01):
    rng = np.random.default_rng(3)
    X, _, _ = simulated(300)
    y = TARGETS[family](rng, 300)
    weight = rng.uniform(0.2, 2.0, 300) if weighted else None
    offset = 0.1 * rng.normal(size=(300, family.n_eta))
    return X, y, objective_of(X, y, ranks, family=family, weight=weight, offset=offset, center=center, ridge=ridge)


@every_family
@pytest.mark.parametrize("center", [True, False])
def test_gradient_by_differences(family, center):
    _, y, objective = problem(family, {2: 2, 3: 1}, center=center)
    rng = np.random.default_rng(0)
    theta = start_of(objective, y) + 0.2 * objective.scale * np.sqrt(objective.total) * rng.normal(size=objective.size)
    value, gradient = objective.value_and_gradient(theta)
    assert objective.value(theta) == pytest.approx(value, rel=1e-10)
    for _ in range(5):
        direction = objective.scale * rng.normal(size=objective.size)
        ahead, behind = objective.value(theta + 1e-4 * direction), objective.value(theta - 1e-4 * direction)
        assert (ahead - behind) / 2e-4 == pytest.approx(gradient @ direction, rel=1e-5, abs=1e-6 * abs(value))


@pytest.mark.parametrize("center", [True, False])
def test_value_is_the_papers_objective(center):
    """Losses and penalties from the columns' own bases and penalty matrices, subsets listed one by one."""
    X, y, objective = problem(Gaussian(), {2: 2, 3: 2}, center=center, ridge=0.0)
    layout, rng = objective.layout, np.random.default_rng(1)
    theta = 2.0 * np.sqrt(objective.total) * objective.scale * rng.normal(size=objective.size)
    books = Encoder.learn(X, sample_weight=objective.rows.source.weight).codebooks
    smoothing_parameters = smoothing_parameters_of(books, [1, 2, 3], 5)
    phi, penalty = [], 0.0
    for j, book in enumerate(books):
        beta = layout.mains[j].to_basis @ layout.main(theta, j)
        gamma = layout.factors[j].to_basis @ layout.factor(theta, j)
        P = sum(part.matrix.toarray() for part in book.penalties)
        penalty += smoothing_parameters[1][j] * beta @ P @ beta
        for f in range(4):
            penalty += smoothing_parameters[2 if f < 2 else 3][j] * gamma[:, f] @ P @ gamma[:, f]
        B = book.basis[book.encode(X[:, j])].toarray()
        phi.append(np.column_stack([B @ beta, B @ gamma]))
    eta = theta[0] + sum(part[:, 0] for part in phi) + objective.rows.source.offset[:, 0]
    for f, order in ((1, 2), (2, 2), (3, 3), (4, 3)):
        eta = eta + sum(prod(phi[j][:, f] for j in subset) for subset in combinations(range(4), order))
    by_hand = 0.5 * objective.rows.source.weight @ (y - eta) ** 2 + 0.5 * penalty
    assert objective.value(theta) == pytest.approx(by_hand, rel=1e-9)


def test_ridge_is_on_the_free_directions_of_factors_only():
    _, _, plain = problem(Gaussian(), {2: 2}, ridge=0.0)
    _, _, ridged = problem(Gaussian(), {2: 2}, ridge=0.5)
    layout, extra = plain.layout, ridged.lam - plain.lam
    assert extra[0] == 0.0
    for j, part in enumerate(layout.factors):
        np.testing.assert_array_equal(layout.main(extra, j), 0.0)
        expected = np.where(part.penalty == 0.0, 0.5 * plain.total, 0.0)
        np.testing.assert_array_equal(layout.factor(extra, j), np.column_stack([expected, expected]))
        assert np.count_nonzero(expected) == 1


def test_batches_of_an_epoch_add_up_to_the_gradient():
    _, y, objective = problem(Poisson(), {2: 2}, weighted=False)
    theta = start_of(objective, y)
    _, gradient = objective.value_and_gradient(theta)
    passes = objective.meter.passes
    batches = [batch(theta) for batch in objective.batches(30, np.random.default_rng(0))]
    assert len(batches) == 10
    np.testing.assert_allclose(np.mean(batches, axis=0), gradient, rtol=1e-9, atol=1e-9)
    assert objective.meter.passes - passes == pytest.approx(1.0)


def test_custom_family_and_builtin_loss_agree():
    """The same loss through the kernel and through `loss` and `pull_back`."""

    class Foreign(Poisson):
        builtin = None

    X, y, objective = problem(Poisson(), {2: 2})
    own = objective_of(
        X, y, {2: 2}, family=Foreign(), weight=objective.rows.source.weight, offset=objective.rows.source.offset
    )
    theta = start_of(objective, y)
    (value, gradient), (other, slopes) = objective.value_and_gradient(theta), own.value_and_gradient(theta)
    assert value == pytest.approx(other, rel=1e-12)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-8, atol=1e-8)
