"""Smooth main effects of all columns at once."""

import numpy as np
import pytest

from ahofm.columns import Encoder, SplineIID
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign
from ahofm.priors.column import all_column_priors


def additive(X, weight=None, **settings):
    encoder = Encoder.learn(X, default=SplineIID(n_basis=8), **settings)
    books, columns = encoder.codebooks, encoder.check(X).columns
    coordinates = [
        column.main_smooth for column in all_column_priors(books, [True] * len(books), "spline", center=True)
    ]
    return AdditiveDesign.of(books, coordinates, columns, np.ones(len(X)) if weight is None else weight), books, columns


def initial(fit, target):
    """The additive fit to a target."""
    return fit.initial(
        fit.rows.sums(fit.weight, fit.weight * target),
        fit.weight @ target**2 / fit.weight.sum(),
        lambda coef: fit.weight @ (target - fit.rows.matrix @ coef) ** 2,
    )


def at_raw_values(fit, smooth, books, columns):
    parts = fit.coefficients(smooth.coef, books)
    return sum(book.evaluate(x) @ coef + level for book, x, (coef, level) in zip(books, columns, parts, strict=True))


def test_a_step_is_the_ridge_solution():
    rng = np.random.default_rng(0)
    X, weight, target = rng.normal(size=(200, 3)), rng.exponential(size=200), rng.normal(size=200)
    fit, *_ = additive(X, weight)
    begun = initial(fit, target)
    penalty = begun.lam[fit._group] * fit._relative_penalty
    gram = fit.rows.matrix.T @ (weight[:, None] * fit.rows.matrix)
    expected = np.linalg.solve(gram / 0.3 + np.diag(penalty), fit.rows.matrix.T @ (weight * target) / 0.3)
    intercept, smooth = fit.step(begun, fit.rows.sums(fit.weight, fit.weight * target), 0.3)
    np.testing.assert_allclose(smooth.coef, expected, rtol=1e-6, atol=1e-9)
    assert intercept == pytest.approx(np.average(target, weights=weight))


def test_a_step_with_other_weights_has_its_intercept_in():
    rng = np.random.default_rng(0)
    X, weight, response = rng.normal(size=(200, 3)), rng.exponential(size=200), rng.normal(size=200)
    fit, *_ = additive(X)
    begun = initial(fit, response)
    wide = np.column_stack([np.ones(200), fit.rows.matrix])
    penalty = np.append(0.0, begun.lam[fit._group] * fit._relative_penalty)
    expected = np.linalg.solve(wide.T @ (weight[:, None] * wide) / 0.3 + np.diag(penalty), wide.T @ response / 0.3)
    intercept, smooth = fit.step(begun, fit.rows.sums(weight, response), 0.3)
    np.testing.assert_allclose([intercept, *smooth.coef], expected, rtol=1e-6, atol=1e-9)


def test_coefficients_give_the_fit_at_raw_values_and_means_are_zero():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3))
    X[::9, 1] = np.nan
    fit, books, columns = additive(X, max_codes=20)
    smooth = initial(fit, np.sin(2 * X[:, 0]) + np.isnan(X[:, 1]))
    fitted = at_raw_values(fit, smooth, books, columns)
    np.testing.assert_allclose(fitted, fit.rows.matrix @ smooth.coef, atol=1e-9)
    assert abs(fitted.mean()) < 1e-9


def test_collinear_columns_and_bins_do_not_hide_an_additive_truth():
    """A hundred sweeps over columns one at a time, each seen in 20 bins, would be far from it."""
    rng = np.random.default_rng(2)
    a, b = rng.uniform(size=2000), rng.uniform(size=2000)
    X = np.column_stack([a, a + 0.01 * b, b + 0.01 * a])
    target = 3.0 * a - 2.0 * b
    target -= target.mean()
    fit, *_ = additive(X, max_codes=20)
    assert np.std(target - fit.rows.matrix @ initial(fit, target).coef) < 1e-4


def test_strengths_grow_where_there_is_nothing():
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(500, 2))
    target = np.sin(9 * X[:, 0]) + X[:, 0]
    fit, *_ = additive(X)
    lam = initial(fit, target - target.mean() + 0.1 * rng.normal(size=500)).lam
    groups = len(lam) // 2
    assert (lam[groups:] > 10 * lam[:groups]).all()


def test_too_many_coordinates_are_left_to_the_blocks():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(50, 150))
    fit, books, _ = additive(X)
    assert fit.size == 0
    assert all(not coef.any() for coef, _ in fit.coefficients(initial(fit, rng.normal(size=50)).coef, books))


def test_more_coordinates_than_rows_are_penalised():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(50, 12))
    fit, *_ = additive(X)
    assert fit.size > 50
    target = X[:, 0] - X[:, 0].mean()
    found = fit.rows.matrix @ initial(fit, target + 0.1 * rng.normal(size=50)).coef
    assert np.corrcoef(found, target)[0, 1] > 0.95
