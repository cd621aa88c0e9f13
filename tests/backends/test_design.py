"""The design of smooth main effects in local functions, against the matrix it stands for."""

import numpy as np
import pytest
import scipy.sparse as sp

from ahofm.backends import DesignRows
from ahofm.backends.design import LOCAL
from ahofm.columns import Cyclic, Encoder, Linear, Spline
from ahofm.kernels.native_engine import ThreadBudget, job_of
from ahofm.priors.column import all_column_priors

N = 300


def functions_of(kind, rng, missing=0.0):
    x = rng.lognormal(size=N)
    x[rng.random(N) < missing] = np.nan
    encoder = Encoder.learn(x[:, np.newaxis], columns={"x0": kind})
    (book,), (column,) = encoder.codebooks, encoder.check(x[:, np.newaxis]).columns
    (priors,) = all_column_priors([book], [False], "spline", center=True)
    return priors.main_smooth.functions_at(book, column)


def rank_functions_of(rng, missing=0.0):
    x = rng.lognormal(size=N)
    x[rng.random(N) < missing] = np.nan
    encoder = Encoder.learn(x[:, np.newaxis])
    (book,), (column,) = encoder.codebooks, encoder.check(x[:, np.newaxis]).columns
    (priors,) = all_column_priors([book], [True], "spline", center=True, scale="ranks")
    return priors.main_smooth, book, column


def a_matrix(rng):
    return sp.csr_array(rng.normal(size=(N, 9))), rng.normal(size=(9, 3))


COLUMNS = {
    "spline": lambda rng: [functions_of(Spline(), rng)],
    "missing": lambda rng: [functions_of(Spline(), rng, missing=0.2)],
    "cyclic": lambda rng: [functions_of(Cyclic(period=2.0), rng)],
    "line": lambda rng: [functions_of(Linear(), rng)],
    "matrix": lambda rng: [a_matrix(rng)],
    "several": lambda rng: [
        functions_of(Spline(), rng),
        functions_of(Linear(), rng),
        a_matrix(rng),
        functions_of(Cyclic(period=2.0), rng, missing=0.1),
        functions_of(Spline(), rng),
    ],
    "none": lambda rng: [],
}


def made(name):
    rng = np.random.default_rng(3)
    columns, weight = COLUMNS[name](rng), rng.exponential(size=N)
    matrix = np.hstack([np.zeros((N, 0)), *(np.asarray(functions @ coef) for functions, coef in columns)])
    return DesignRows.of(columns, weight), matrix - weight @ matrix / weight.sum(), rng


@pytest.mark.parametrize("name", COLUMNS)
def test_it_is_the_centred_product_of_functions_and_coordinates(name):
    design, matrix, _ = made(name)
    np.testing.assert_allclose(design.matrix, matrix, rtol=1e-9, atol=1e-9)
    assert design.size == matrix.shape[1]


@pytest.mark.parametrize("name", COLUMNS)
def test_sums_are_those_of_the_matrix(name):
    design, matrix, rng = made(name)
    weight, response, coef = rng.exponential(size=N), 100.0 * rng.normal(size=N), rng.normal(size=design.size)
    np.testing.assert_allclose(design.gram, matrix.T @ (design.weight[:, np.newaxis] * matrix), rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(design.eta(0.3, coef), 0.3 + matrix @ coef, rtol=1e-9, atol=1e-9)
    found, centred = design.sums(weight, response), matrix - weight @ matrix / weight.sum()
    if design.size:
        np.testing.assert_allclose(found.middle, weight @ matrix / weight.sum(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.gram, centred.T @ (weight[:, np.newaxis] * centred), rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(found.rhs, centred.T @ response, rtol=1e-9, atol=1e-7)


def test_splines_and_circles_have_one_block_and_others_several():
    # a circle with missing values has two: their function is between the last and the first of the circle; the line and
    # the matrix of three coordinates share one
    blocks = {name: made(name)[0].entries.shape[1] for name in COLUMNS}
    assert blocks == {"spline": 1, "missing": 1, "cyclic": 1, "line": 1, "matrix": 1, "several": 5, "none": 0}
    wide = DesignRows.dense(np.random.default_rng(0).normal(size=(N, 9)), np.ones(N))
    assert wide.entries.shape == (N, 3, LOCAL)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_curves_on_ranks_are_those_of_the_codebook_in_two_blocks(missing):
    smooth, book, column = rank_functions_of(np.random.default_rng(1), missing)
    functions, coordinates = smooth.functions_at(book, column)
    np.testing.assert_allclose(functions @ coordinates, book.evaluate(column) @ smooth.to_basis, rtol=1e-9, atol=1e-9)
    assert DesignRows.of([(functions, coordinates)], np.ones(N)).entries.shape[1] <= 2


def test_sums_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(2)
    design = DesignRows.dense(rng.normal(size=(9000, 7)), np.ones(9000))
    weight = rng.exponential(size=9000)
    alone = design.weighted_gram(weight)
    with job_of(ThreadBudget(4)):
        np.testing.assert_array_equal(design.weighted_gram(weight), alone)


def test_indicators_share_blocks():
    rng = np.random.default_rng(4)
    values = [sp.csr_array(rng.integers(0, 2, (N, 1)).astype(float)) for _ in range(10)]
    design = DesignRows.of([(one, np.eye(1)) for one in values], np.ones(N))
    matrix = np.hstack([one.toarray() for one in values])
    assert design.entries.shape[1] == 3
    np.testing.assert_allclose(design.matrix, matrix - matrix.mean(axis=0), atol=1e-12)
    weight = rng.exponential(size=N)
    np.testing.assert_allclose(
        design.weighted_gram(weight), design.matrix.T @ (weight[:, np.newaxis] * design.matrix), atol=1e-9
    )
