"""Demmler–Reinsch coordinates: penalties diagonal, data orthonormal, centred, and nothing lost on the way."""

import numpy as np
import pytest
import scipy.linalg

from ahofm.columns import Categorical, Cyclic, Encoder, Linear, RandomWalk, Spline, SplineIID
from ahofm.kernels import Tables
from ahofm.model import Layout, coordinates, eigenvalues
from ahofm.model.coordinates import canonical_rotation, penalty_root

KINDS = [
    Spline(),
    Spline(n_basis=30),
    Spline(knots=(0.0, 0.0, 0.0, 0.0, 0.5)),
    RandomWalk(),
    SplineIID(n_basis=8),
    Cyclic(),
    Categorical(),
    Linear(),
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
either = pytest.mark.parametrize("center", [True, False], ids=["centred", "free"])
missing = pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])


def codebook(kind, missing=False, n=300, seed=0, weight=None):
    x = np.round(np.random.default_rng(seed).normal(size=n), 1)
    if missing:
        x[::7] = np.nan
    return Encoder.learn(x[:, None], kind, sample_weight=weight).codebooks[0]


def functions_at_codes(book, part):
    return part.at_codes(np.eye(part.size))


@every_kind
@either
@missing
def test_data_are_orthonormal_and_the_penalty_is_diagonal(kind, center, missing):
    book = codebook(kind, missing)
    part = coordinates(book, center=center)
    share = book.mass / book.mass.sum()
    Z = functions_at_codes(book, part)
    np.testing.assert_allclose(Z.T @ (share[:, None] * Z), np.eye(part.size), atol=1e-8)
    total = sum(penalty.matrix.toarray() for penalty in book.penalties)
    T = np.asarray(part.to_basis).copy()
    if book.constant is None and center and missing:  # what takes back the level of other functions costs nothing
        T[-1] = (T[-1] + part.centring) / (1.0 - share[book.missing_code])
    scale = 1.0 + np.sqrt(np.multiply.outer(part.penalty, part.penalty))
    np.testing.assert_allclose((T.T @ total @ T) / scale, np.diag(part.penalty) / scale, atol=1e-6)


@every_kind
@missing
def test_centred_functions_have_mean_zero_and_the_neutral_code_is_zero(kind, missing):
    book = codebook(kind, missing)
    part = coordinates(book, center=True)
    Z = functions_at_codes(book, part)
    np.testing.assert_allclose(book.mass @ Z / book.mass.sum(), 0.0, atol=1e-10)
    np.testing.assert_array_equal(Z[book.neutral_code], 0.0)


@every_kind
@either
def test_coordinates_and_basis_are_the_same_functions(kind, center):
    """Codes through `values` and raw values through `to_basis` and `level` agree."""
    book = codebook(kind, missing=True)
    part = coordinates(book, center=center)
    w = np.random.default_rng(1).normal(size=(part.size, 3))
    known = (np.arange(book.n_codes) != book.neutral_code)[:, None]
    by_basis = book.basis @ (part.to_basis @ w) + known * (part.centring @ w)
    np.testing.assert_allclose(part.at_codes(w), by_basis, atol=1e-9 * np.abs(by_basis).max())


@every_kind
@either
def test_adjoint_is_the_transpose(kind, center):
    book = codebook(kind, missing=True)
    part = coordinates(book, center=center)
    rng = np.random.default_rng(2)
    w, g = rng.normal(size=part.size), rng.normal(size=book.n_codes)
    assert part.at_codes(w) @ g == pytest.approx(w @ part.adjoint(g), rel=1e-10)


@every_kind
@missing
@pytest.mark.parametrize("lam", [1e-3, 1.0, 1e4])
def test_ridge_in_coordinates_equals_ridge_in_the_basis(kind, missing, lam):
    """The penalised least-squares fit of one column, computed both ways."""
    book = codebook(kind, missing)
    part = coordinates(book, center=False)
    rng = np.random.default_rng(3)
    target = rng.normal(size=book.n_codes - 1)
    mass, B = book.mass[:-1], book.basis.toarray()[:-1]
    P = sum(penalty.matrix.toarray() for penalty in book.penalties)
    direct = (
        B
        @ np.linalg.lstsq(
            np.vstack([np.sqrt(mass)[:, None] * B, np.sqrt(lam) * penalty_root(book)]),
            np.concatenate([np.sqrt(mass) * target, np.zeros(len(penalty_root(book)))]),
            rcond=1e-13,
        )[0]
    )
    Z = functions_at_codes(book, part)[:-1]
    w = (Z.T @ (mass * target)) / (mass.sum() + lam * part.penalty)
    np.testing.assert_allclose(Z @ w, direct, atol=1e-7)
    np.testing.assert_allclose(penalty_root(book).T @ penalty_root(book), P, atol=1e-10 * max(np.abs(P).max(), 1.0))


def test_more_functions_than_values():
    """Repeated and far too many knots: rank-deficient data, no warning, no huge numbers, exact interpolation."""
    x = np.repeat([0.0, 1.0, 2.0, 5.0], 10)
    book = Encoder.learn(x[:, None], Spline(knots=tuple(np.linspace(0.1, 4.9, 40)))).codebooks[0]
    part = coordinates(book, center=False)
    assert part.size == 4
    assert np.isfinite(np.asarray(part.to_basis)).all()
    Z = functions_at_codes(book, part)[:-1]
    np.testing.assert_allclose(Z @ np.linalg.solve(Z, np.eye(4)), np.eye(4), atol=1e-6)
    assert np.count_nonzero(part.penalty == 0.0) == 2
    assert len(eigenvalues(book)) == 4


def test_many_levels_stay_sparse_and_mean_the_same():
    levels = np.random.default_rng(0).integers(0, 700, 5000).astype(float)
    book = Encoder.learn(levels[:, None], Categorical()).codebooks[0]
    assert book.size > 512
    part = coordinates(book, center=True)
    assert part.shifted
    assert part.to_basis.nnz == book.size
    w = np.random.default_rng(1).normal(size=part.size)
    values = part.at_codes(w)
    assert book.mass @ values == pytest.approx(0.0, abs=1e-8)
    assert values[book.neutral_code] == 0.0
    g = np.random.default_rng(2).normal(size=book.n_codes)
    assert values @ g == pytest.approx(w @ part.adjoint(g), rel=1e-9)


@pytest.mark.parametrize("center", [True, False])
def test_layout_gradient_is_the_transpose_of_tables(center):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), rng.integers(0, 4, 200), np.ones(200)])
    with pytest.warns(UserWarning, match="constant"):
        encoder = Encoder.learn(X, {1: Categorical()})
    layout = Layout.of(encoder.codebooks, {2: 3, 4: 2}, center=center)
    theta, direction = rng.normal(size=(2, layout.size))
    tables, moved = layout.tables(theta), layout.tables(theta + 1e-6 * direction)
    codes = len(tables.main)
    slopes = Tables(0.7, rng.normal(size=codes), {2: rng.normal(size=(codes, 3)), 4: rng.normal(size=(codes, 2))})

    def inner(a):
        by_factor = sum((slopes.factors[order] * a.factors[order]).sum() for order in (2, 4))
        return slopes.intercept * a.intercept + slopes.main @ a.main + by_factor

    assert (inner(moved) - inner(tables)) / 1e-6 == pytest.approx(layout.gradient(slopes) @ direction, rel=1e-6)


@pytest.mark.parametrize("size", [1e-300, 1.0, 2019.0, 1e300])
def test_a_linear_function_is_zero_at_missing_values(size):
    """Also far from zero, and at the ends of double precision: its level is for values that are there."""
    x = size * np.array([1.0, 1.0, 1.0005, np.nan, 1.0005])
    book = Encoder.learn(x[:, None], Linear()).codebooks[0]
    with np.errstate(all="raise", under="ignore"):
        part = coordinates(book, center=True)
        Z = functions_at_codes(book, part)
    assert part.size == 2
    assert np.isfinite(part.penalty).all()
    alone = np.linalg.lstsq(Z[:-1], np.array([-0.5, 0.5, 0.0]), rcond=None)[0]  # x alone, centred
    np.testing.assert_allclose(Z[:-1] @ alone, [-0.5, 0.5, 0.0], atol=1e-8)
    np.testing.assert_allclose(book.mass @ Z, 0.0, atol=1e-8)


def test_eigenvectors_are_unique_whatever_a_library_returns():
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(40, 6)))[0]
    values = np.array([0.0, 0.0, 1.0, 2.0, 2.0, 2.0])
    first = vectors @ canonical_rotation(vectors, values)
    np.testing.assert_allclose(first.T @ first, np.eye(6), atol=1e-12)
    for seed in range(3):
        turn = scipy.linalg.block_diag(*(ortho_group(seed, size) for size in (2, 1, 3)))
        other = vectors @ turn
        np.testing.assert_allclose(other @ canonical_rotation(other, values), first, atol=1e-12)


def ortho_group(seed, size):
    """A random orthogonal matrix, with reflections."""
    return np.linalg.qr(np.random.default_rng([seed, size]).normal(size=(size, size)))[0]


def test_coordinates_of_symmetric_columns_do_not_depend_on_signs(monkeypatch):
    # even and odd functions: sums, or the largest value, would leave the sign to rounding
    book = Encoder.learn(np.linspace(-1.0, 1.0, 21)[:, None], Spline(n_basis=8)).codebooks[0]
    found = coordinates(book, center=True)
    svd = scipy.linalg.svd

    def flipped(matrix, **settings):
        left, singular, right = svd(matrix, **settings)
        signs = np.where(np.arange(len(singular)) % 2 == 0, -1.0, 1.0)
        return left * signs, singular, right * signs[:, np.newaxis]

    monkeypatch.setattr(scipy.linalg, "svd", flipped)
    np.testing.assert_allclose(coordinates(book, center=True).values, found.values, atol=1e-10)
