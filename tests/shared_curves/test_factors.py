"""Blocks of shared curves and loadings against direct least squares over the rows."""

import numpy as np
import pytest

from ahofm.kernels.reference import symmetric_polynomial
from ahofm.shared_curves.factors import SharedFactors
from ahofm.shared_curves.polynomials import Polynomials, Variances
from ahofm.shared_curves.problem import ClassProblem
from ahofm.shared_curves.starts import random_curves
from ahofm.tuning.classes import LOADING_LAM
from tests.shared_curves.problems import problem


def _factors(p: ClassProblem, ranks: dict[int, int], seed: int = 0) -> tuple[SharedFactors, np.ndarray]:
    rng = np.random.default_rng(seed)
    factors = SharedFactors(ranks, p.columns, p.coded, random_curves(p.columns, sum(ranks.values()), rng))
    loadings = rng.normal(size=(sum(ranks.values()), p.rows.n_classes))
    factors.loadings = loadings - loadings.mean(axis=1, keepdims=True)
    return factors, factors.eta()


@pytest.mark.parametrize("order", [2, 3, 4])
def test_polynomials_follow_changes_of_columns(order: int) -> None:
    rng = np.random.default_rng(0)
    curves = [rng.normal(size=(20, 3)) for _ in range(5)]
    polynomials = Polynomials(order, curves)
    np.testing.assert_allclose(polynomials.terms, symmetric_polynomial(np.stack(curves), order), atol=1e-12)
    rest = polynomials.without(curves[2])
    others = np.stack([curve for j, curve in enumerate(curves) if j != 2])
    np.testing.assert_allclose(rest[-1], symmetric_polynomial(others, order - 1), atol=1e-12)
    new = rng.normal(size=(20, 3))
    polynomials.change(rest, new - curves[2])
    curves[2] = new
    np.testing.assert_allclose(polynomials.terms, symmetric_polynomial(np.stack(curves), order), atol=1e-11)


@pytest.mark.parametrize("order", [2, 3])
def test_variances_of_terms_and_slopes_are_those_of_random_curves(order: int) -> None:
    rng = np.random.default_rng(0)
    means, stds = rng.normal(size=(5, 1, 2)), rng.uniform(0.05, 0.15, size=(5, 1, 2))
    polynomials = Polynomials(order, list(means))
    polynomials.variances = variances = Variances.none(order, (1, 2))
    for mean, std in zip(means, stds, strict=True):
        variances.change(std**2, mean, 1.0)
    variances.change(np.full((1, 2), 9.0), np.full((1, 2), 2.0), 1.0)
    variances.change(np.full((1, 2), 9.0), np.full((1, 2), 2.0), -1.0)
    draws = means + stds * rng.normal(size=(5, 400_000, 2))
    np.testing.assert_allclose(
        polynomials.term_variances()[0], symmetric_polynomial(draws, order).var(axis=0), rtol=0.05
    )
    slope, rest = symmetric_polynomial(draws[1:], order - 1), symmetric_polynomial(draws[1:], order)
    own, between = polynomials.slope_variances(polynomials.without(means[0]), stds[0] ** 2, means[0])
    np.testing.assert_allclose(own[0], slope.var(axis=0), rtol=0.05)
    drawn = [np.cov(slope[:, f], rest[:, f])[0, 1] for f in range(2)]
    np.testing.assert_allclose(between[0], drawn, rtol=0.08, atol=1e-3)


@pytest.mark.parametrize("ranks", [{2: 3}, {3: 2}, {2: 2, 3: 2}])
@pytest.mark.parametrize("in_ranks", [False, True])
def test_a_columns_solve_is_penalised_least_squares_over_all_rows_and_classes(
    ranks: dict[int, int], in_ranks: bool
) -> None:
    p = problem(in_ranks=in_ranks, offset=True)
    factors, eta = _factors(p, ranks)
    j, work = 0, p.rows.working_response(eta)  # a smooth column with missing values
    prior, codes, own = p.columns[j].priors.factors, p.coded[j].codes, factors.columns[j]
    design = np.vstack([prior.values, np.zeros((1, prior.values.shape[1]))])[codes]
    curves = [column.values[coded.codes] for column, coded in zip(factors.columns, p.coded, strict=True)]
    slopes = np.hstack(
        [
            symmetric_polynomial(np.stack([curve[:, part] for i, curve in enumerate(curves) if i != j]), order - 1)
            for order, part in factors.slices.items()
        ]
    )
    # one long regression: rows times classes, coordinates times factors
    X = np.einsum("im,if,fk->ikmf", design, slopes, factors.loadings).reshape(eta.size, -1)
    mine = np.einsum("if,if,fk->ik", slopes, curves[j], factors.loadings)
    target = (mine + work.slope.T / work.weight[:, np.newaxis]).ravel()
    weight = np.repeat(work.weight, p.rows.n_classes)
    penalty = (own.lam[prior.group] * prior.relative_penalty[:, np.newaxis]).ravel()
    coef = np.linalg.solve(X.T @ (X * weight[:, np.newaxis]) + np.diag(penalty), X.T @ (weight * target))
    change = factors.column_step(j, work, update_lam=False)
    found = factors.columns[j].posterior
    assert found is not None
    np.testing.assert_allclose(found.smooth.ravel(), coef, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(eta + change, factors.eta(), atol=1e-8)
    before = factors.eta()
    factors.rebuild()
    np.testing.assert_allclose(factors.eta(), before, atol=1e-8)


@pytest.mark.parametrize("j", range(5))
def test_steps_of_every_kind_of_column_keep_terms_and_lower_the_penalised_loss(j: int) -> None:
    p = problem()
    factors, eta = _factors(p, {2: 3})
    for column in range(5):  # so that all have penalties
        eta = eta + factors.column_step(column, p.rows.working_response(eta, bound=True), update_lam=False)
    before = p.rows.loss(eta) + factors.penalty()
    eta = eta + factors.column_step(j, p.rows.working_response(eta, bound=True), update_lam=False)
    np.testing.assert_allclose(eta, factors.eta(), atol=1e-8)
    assert p.rows.loss(eta) + factors.penalty() <= before + 1e-6


def test_the_loadings_solve_is_least_squares() -> None:
    p = problem()
    factors, eta = _factors(p, {2: 4})
    work, terms = p.rows.working_response(eta), factors.terms
    target = eta.T + work.slope.T / work.weight[:, np.newaxis]
    gram = terms.T @ (terms * work.weight[:, np.newaxis]) + LOADING_LAM * np.eye(4)
    direct = np.linalg.solve(gram, terms.T @ (work.weight[:, np.newaxis] * target))
    change = factors.loading_step(work)
    np.testing.assert_allclose(factors.loadings, direct - direct.mean(axis=1, keepdims=True), atol=1e-8)
    np.testing.assert_allclose(eta + change, factors.eta(), atol=1e-8)


def test_uncertain_partners_add_the_expected_squares() -> None:
    """Of the gram's diagonal and rhs, by drawing partners and loadings."""
    p = problem(n=30)
    factors, _ = _factors(p, {2: 1})
    rng = np.random.default_rng(3)
    for own in factors.columns:
        own.variance[:-1] = rng.uniform(0.01, 0.1, size=own.variance[:-1].shape)
    factors.loading_variance = np.array([0.2])
    factors.temper(1.0)
    codes = [coded.codes for coded in p.coded]
    curve, variance = factors.columns[0].values[codes[0]], factors.columns[0].variance[codes[0]]
    rest = factors.polynomials[2].without(curve)
    slopes = rest[-1]
    square = float(factors.loadings[0] @ factors.loadings[0])
    diagonal, less = factors._uncertain(0, 2, rest, curve, variance, np.ones(30))
    draws = 100_000
    partners = [
        own.values[at, 0] + np.sqrt(own.variance[at, 0]) * rng.normal(size=(draws, 30))
        for own, at in zip(factors.columns[1:], codes[1:], strict=True)
    ]
    g, e2 = sum(partners), symmetric_polynomial(np.stack(partners), 2)
    total = square + (p.rows.n_classes - 1) * 0.2
    np.testing.assert_allclose(slopes[:, 0] ** 2 * square + diagonal[:, 0], total * (g**2).mean(axis=0), rtol=0.03)
    known = square * slopes[:, 0] * (factors.polynomials[2].terms - curve * slopes)[:, 0]
    np.testing.assert_allclose(known + less[:, 0], total * (g * e2).mean(axis=0), rtol=0.05, atol=0.02)
