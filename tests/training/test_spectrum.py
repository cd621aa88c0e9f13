"""Leading eigenvectors of the residual's covariance, with few columns and with many."""

import numpy as np
import pytest

from ahofm import AHOFMRegressor
from ahofm.columns import Encoder
from ahofm.explain import top_interactions
from ahofm.priors.column import column_priors
from ahofm.training import spectrum
from ahofm.training.spectrum import Spectrum, ends_of, screened_columns, stacked_functions


def wide_table(n_rows, n_columns, seed):
    """Independent uniform columns, and a target with a product of columns 4 and 9, and a slope."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.7, 1.7, (n_rows, n_columns))
    return X, X[:, 4] * X[:, 9] + 0.5 * X[:, 0] + 0.1 * rng.normal(size=n_rows)


def coded(n_rows=400, n_columns=20, *, levels=False, product=True):
    """Columns, codes, and a gradient with a product of columns 4 and 9."""
    X, y = wide_table(n_rows, n_columns, 0)
    gradient = y if product else np.random.default_rng(1).normal(size=n_rows)
    if levels:
        X = X.astype(object)
        X[:, 3] = np.array(list("abcdefg"))[np.arange(n_rows) % 7]
        X[:, 9] = X[:, 9].astype(float).round(0)
    encoder = Encoder.learn(X)
    columns = [column_priors(book, "spline", center=True) for book in encoder.codebooks]
    return columns, encoder.encode(X), (gradient - gradient.mean()) / n_rows


def iterative(monkeypatch):
    """All problems count as those of many columns, in which no pair stands out."""
    monkeypatch.setattr(spectrum, "MOST_DENSE_FUNCTIONS", 0)
    monkeypatch.setattr(spectrum, "LEAST_SCREENING_RATIO", np.inf)


@pytest.mark.parametrize("levels", [False, True])
def test_iterations_find_what_the_decomposition_finds(monkeypatch, levels):
    problem = coded(levels=levels)
    whole = Spectrum.of(*problem, 6)
    iterative(monkeypatch)
    found = Spectrum.of(*problem, 6)
    assert found.vectors.shape == (len(whole.values), 6)
    np.testing.assert_allclose(found.values, whole.values[-6:], rtol=1e-8)
    np.testing.assert_allclose(found.null_eigenvalue, whole.null_eigenvalue, rtol=1e-8)
    shared = np.linalg.svd(whole.vectors[:, -6:].T @ found.vectors, compute_uv=False)
    np.testing.assert_allclose(shared, 1.0, atol=1e-6)
    assert min(whole.n_above_null, 6) == found.n_above_null


def test_iterations_are_the_same_every_time(monkeypatch):
    iterative(monkeypatch)
    problem = coded()
    first, second = (Spectrum.of(*problem, 3) for _ in range(2))
    np.testing.assert_array_equal(first.values, second.values)
    np.testing.assert_array_equal(first.vectors, second.vectors)


def test_no_residuals_have_no_eigenvalues(monkeypatch):
    monkeypatch.setattr(spectrum, "MOST_DENSE_FUNCTIONS", 0)
    columns, codes, gradient = coded()
    found = Spectrum.of(columns, codes, 0.0 * gradient, 3)
    assert not found.values.any()
    assert found.n_above_null == 0


def test_pairs_that_stand_out_are_looked_at_alone(monkeypatch):
    columns, codes, gradient = coded(300, 120)
    assert ends_of(stacked_functions(columns))[-1] > spectrum.MOST_DENSE_FUNCTIONS
    found = Spectrum.of(columns, codes, gradient, 4)
    sizes = np.add.reduceat(found.vectors[:, -1] ** 2, ends_of(stacked_functions(columns))[:-1])
    assert sorted(np.argsort(-sizes)[:2].tolist()) == [4, 9]
    assert sizes[[4, 9]].sum() > 0.9
    assert found.values[-1] > found.null_eigenvalue
    monkeypatch.setattr(spectrum, "MOST_DENSE_FUNCTIONS", 30)  # more than that stand out
    again = Spectrum.of(columns, codes, gradient, 4)
    np.testing.assert_allclose(again.values[-1], found.values[-1], rtol=1e-8)


def test_columns_stand_out_in_strips_as_at_once(monkeypatch):
    columns, codes, gradient = coded(levels=True)
    signs = np.random.default_rng(2).choice([-1.0, 1.0], (3, len(gradient)))
    once = screened_columns(columns, codes, gradient, signs)
    monkeypatch.setattr(spectrum, "_STRIP", 3)
    np.testing.assert_array_equal(screened_columns(columns, codes, gradient, signs), once)
    assert {4, 9} <= set(once.tolist())


def test_nothing_stands_out_of_noise():
    columns, codes, gradient = coded(300, 120, product=False)
    signs = np.random.default_rng(2).choice([-1.0, 1.0], (3, len(gradient)))
    assert len(screened_columns(columns, codes, gradient, signs)) == 0


@pytest.mark.slow
def test_a_fit_finds_a_pair_among_two_hundred_columns():
    X, y = wide_table(300, 200, 3)
    model = AHOFMRegressor(order=2, effort="fast", random_state=0).fit(X, y)
    assert model.model_.order == 2
    assert top_interactions(model.model_, 1).terms[0] == ("x4", "x9")


def test_columns_that_may_not_interact_have_no_part():
    columns, codes, gradient = coded()
    allowed = np.zeros((20, 20), dtype=bool)
    allowed[2:8, 2:8] = allowed[7:, 7:] = True
    found, ends = Spectrum.of(columns, codes, gradient, 3, allowed), ends_of(stacked_functions(columns))
    places = np.repeat(np.arange(20), np.diff(ends, prepend=0)[-20:])
    whole = Spectrum.of(columns, codes, gradient, 3, allowed | True)
    np.testing.assert_array_equal(whole.values, Spectrum.of(columns, codes, gradient, 3).values)
    matrix = (whole.vectors * whole.values) @ whole.vectors.T
    expected = np.linalg.eigvalsh(np.where(allowed[np.ix_(places, places)], matrix, 0.0))
    np.testing.assert_allclose(found.values, expected, atol=1e-10)
