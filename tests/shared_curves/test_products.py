"""Product factors of several classes: terms, and the solves of curves and constants, against the obvious sums."""

import numpy as np
import pytest

from ahofm.orders import PRODUCT
from ahofm.priors.bounds import Bounds
from ahofm.shared_curves.class_fit import ClassFit, predicted
from ahofm.shared_curves.factors import SharedFactors
from ahofm.shared_curves.main_effects import JointDesign
from ahofm.shared_curves.problem import ClassProblem
from ahofm.shared_curves.products import Products, away_from_zero, scale_of
from ahofm.shared_curves.shared_fit import CurveSettings, fit_factors, fit_mains
from ahofm.shared_curves.starts import random_start
from ahofm.training.factor_groups import FactorGroups
from ahofm.tuning.classes import CLASS_CONSTANT_PRECISION, LARGEST_CLASS_VALUE
from tests.shared_curves.problems import problem


def _factors(p: ClassProblem, ranks: dict[int, int]) -> tuple[SharedFactors, np.ndarray]:
    rng = np.random.default_rng(0)
    starts, constants = random_start(p.columns, ranks, rng)
    factors = SharedFactors(ranks, p.columns, p.coded, starts, None, constants)
    loadings = rng.normal(size=(sum(ranks.values()), p.rows.n_classes))
    factors.loadings = loadings - loadings.mean(axis=1, keepdims=True)
    return factors, factors.eta()


def _curves(p: ClassProblem, factors: SharedFactors) -> list[np.ndarray]:
    return [column.values[coded.codes] for column, coded in zip(factors.columns, p.coded, strict=True)]


def test_terms_slopes_and_variances_are_those_of_random_functions() -> None:
    rng = np.random.default_rng(0)
    means, stds = rng.normal(size=(4, 1, 2)), rng.uniform(0.1, 0.3, size=(4, 1, 2))
    products = Products(list(means), list(stds**2))
    draws = means + stds * rng.normal(size=(4, 400_000, 2))
    np.testing.assert_allclose(products.terms, means[0] * means[1] * means[2] * means[3])
    np.testing.assert_allclose(products.slopes(2), means[0] * means[1] * means[3])
    np.testing.assert_allclose(products.term_variances()[0], np.prod(draws, axis=0).var(axis=0), rtol=0.03)
    others = np.prod(draws[[0, 1, 3]], axis=0)
    np.testing.assert_allclose(products.slope_variances(2)[0], others.var(axis=0), rtol=0.03)
    products.replace(1, 2.0 * means[1], stds[1] ** 2)
    np.testing.assert_allclose(products.terms, 2.0 * np.prod(means, axis=0))
    assert not Products(list(means)).term_variances().any()


def test_starts_have_a_root_mean_square_of_one() -> None:
    p = problem()
    starts, constants = random_start(p.columns, {2: 2, PRODUCT: 3}, np.random.default_rng(0))
    assert constants is not None
    for column, values, constant in zip(p.columns, starts, constants, strict=True):
        np.testing.assert_allclose(scale_of(values[:, 2:], column.priors.mass), 1.0)
        assert (constant > 0.5).all()
    assert np.abs(away_from_zero(np.array([0.0, -1e-9, 0.5]))).min() == pytest.approx(1e-6)


@pytest.mark.parametrize("ranks", [{PRODUCT: 2}, {2: 2, PRODUCT: 2}])
def test_a_columns_solve_is_penalised_least_squares_over_all_rows_and_classes(ranks: dict[int, int]) -> None:
    """Constants given the functions before, then functions given these."""
    p = problem(offset=True)
    factors, eta = _factors(p, ranks)
    j, working, which = 0, p.rows.working_response(eta), factors.slices[PRODUCT]
    prior, codes, own = p.columns[j].priors.factors, p.coded[j].codes, factors.columns[j]
    constants_before, curves = own.values[-1], _curves(p, factors)
    slopes = np.hstack(
        [
            np.prod([curve[:, part] for i, curve in enumerate(curves) if i != j], axis=0)
            if order == PRODUCT
            else sum(curve[:, part] for i, curve in enumerate(curves) if i != j)
            for order, part in factors.slices.items()
        ]
    )
    n, n_classes, rank = p.rows.n_rows, p.rows.n_classes, sum(ranks.values())
    weight = np.repeat(working.weight, n_classes)
    mine = np.einsum("if,if,fk->ik", slopes, curves[j], factors.loadings)
    target = (mine + working.slope.T / working.weight[:, np.newaxis]).ravel()
    of_functions = np.einsum("if,if,fk->ik", slopes, curves[j] - constants_before, factors.loadings).ravel()
    X = np.einsum("if,fk->ikf", slopes[:, which], factors.loadings[which]).reshape(n * n_classes, -1)
    gram = X.T @ (X * weight[:, np.newaxis]) + CLASS_CONSTANT_PRECISION * np.eye(ranks[PRODUCT])
    constants = np.zeros(rank)
    constants[which] = np.linalg.solve(gram, X.T @ (weight * (target - of_functions)))
    design = np.vstack([prior.values, np.zeros((1, prior.values.shape[1]))])[codes]
    X = np.einsum("im,if,fk->ikmf", design, slopes, factors.loadings).reshape(n * n_classes, -1)
    fixed = np.einsum("if,f,fk->ik", slopes, constants, factors.loadings).ravel()
    penalty = (own.lam[prior.group] * prior.relative_penalty[:, np.newaxis]).ravel()
    coef = np.linalg.solve(
        X.T @ (X * weight[:, np.newaxis]) + np.diag(penalty), X.T @ (weight * (target - fixed))
    ).reshape(-1, rank)
    loadings, change = factors.loadings.copy(), factors.column_step(j, working, update_lam=False)
    found, values = factors.columns[j].posterior, factors.columns[j].values
    assert found is not None
    mass = p.columns[j].priors.mass
    functions = Bounds(mass, np.full(len(mass), LARGEST_CLASS_VALUE))(prior.values @ coef)
    scale = np.sqrt(mass @ (functions + constants) ** 2)
    scale[: rank - ranks[PRODUCT]] = 1.0
    np.testing.assert_allclose(found.smooth, coef / scale, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(values[-1], constants / scale, rtol=1e-6)
    np.testing.assert_allclose(factors.loadings, loadings * scale[:, np.newaxis], rtol=1e-6)
    np.testing.assert_allclose(scale_of(values[:-1, which], p.columns[j].priors.mass), 1.0)
    np.testing.assert_allclose(eta + change, factors.eta(), atol=1e-8)
    before = factors.eta()
    factors.rebuild()
    np.testing.assert_allclose(factors.eta(), before, atol=1e-8)


@pytest.mark.parametrize("j", range(5))
def test_steps_of_every_kind_of_column_keep_terms_and_lower_the_loss(j: int) -> None:
    p = problem()
    factors, eta = _factors(p, {PRODUCT: 3})
    before = p.rows.loss(eta)
    eta = eta + factors.column_step(j, p.rows.working_response(eta, bound=True), update_lam=True)
    np.testing.assert_allclose(eta, factors.eta(), atol=1e-8)
    assert p.rows.loss(eta) < before
    own = factors.columns[j]
    assert own.posterior is not None
    assert np.abs(own.posterior.mean).max() <= (LARGEST_CLASS_VALUE + 1.0) / p.columns[j].priors.mass.min()
    eta = eta + factors.loading_step(p.rows.working_response(eta, bound=True))
    np.testing.assert_allclose(eta, factors.eta(), atol=1e-8)


def test_uncertain_partners_add_the_expected_squares() -> None:
    p = problem(n=30)
    factors, _ = _factors(p, {PRODUCT: 1})
    rng = np.random.default_rng(3)
    for own in factors.columns:
        own.variance[:-1] = rng.uniform(0.01, 0.1, size=own.variance[:-1].shape)
    factors.loading_variance = np.array([0.2])
    factors.temper(1.0)
    codes, square = [coded.codes for coded in p.coded], float(factors.loadings[0] @ factors.loadings[0])
    slopes = factors.products.slopes(0)
    added, less = factors._uncertain(0, PRODUCT, [slopes], *_curves(p, factors)[:2], np.ones(30))
    draws = [
        own.values[at, 0] + np.sqrt(own.variance[at, 0]) * rng.normal(size=(100_000, 30))
        for own, at in zip(factors.columns[1:], codes[1:], strict=True)
    ]
    total = square + (p.rows.n_classes - 1) * 0.2
    expected = total * (np.prod(draws, axis=0) ** 2).mean(axis=0)
    np.testing.assert_allclose(slopes[:, 0] ** 2 * square + added[:, 0], expected, rtol=0.03)
    assert not less.any()  # a term has no part without the column


@pytest.mark.parametrize("in_ranks", [False, True])
@pytest.mark.parametrize("tempering", [0.0, 0.5])
def test_linear_predictors_of_a_fit_are_its_predictions(in_ranks: bool, tempering: float) -> None:
    p = problem(in_ranks=in_ranks)
    design = JointDesign.of(p.columns, p.coded)
    start = fit_mains(p, design, lambda _: False)
    settings = CurveSettings({PRODUCT: 3}, 8, learned=True, tempering=tempering)
    state = fit_factors(p, design, start, settings, 0, lambda _: False)
    books = [column.priors.book for column in p.columns]
    expected = predicted(p, design, state, p.coded)
    np.testing.assert_allclose(expected, state.eta, atol=1e-6)
    for k, one in enumerate(ClassFit.of(p, design, state).linear_predictors):
        one.check(books)
        tables = one.tables(books)
        at = np.cumsum([0, *(book.n_codes for book in books)])
        rows = [at[j] + coded.codes for j, coded in enumerate(p.coded)]
        eta = tables.intercept + sum(tables.main[row] for row in rows)
        eta = eta + np.prod([tables.factors[PRODUCT][row] for row in rows], axis=0) @ one.loadings[PRODUCT]
        np.testing.assert_allclose(eta, expected[k], atol=2e-5)  # values away from zero


def test_products_have_all_columns() -> None:
    p = problem()
    starts, constants = random_start(p.columns, {PRODUCT: 2}, np.random.default_rng(0))
    with pytest.raises(ValueError, match="there can be no groups of columns"):
        SharedFactors({PRODUCT: 2}, p.columns, p.coded, starts, FactorGroups(5, ((0, 1, 2), (3, 4))), constants)
