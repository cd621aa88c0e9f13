"""Small solves of the block solver against dense matrices."""

import numpy as np
import pytest

from ahofm.kernels import chain, inverses

CODES = pytest.mark.parametrize("codes", [1, 2, 7])
WIDTHS = pytest.mark.parametrize("width", [1, 3, 9])


def positive_definite(rng, codes, width):
    root = rng.normal(size=(codes, width, width + 2))
    return root @ root.transpose(0, 2, 1)


class Chain:
    """A random problem: as it is given to `chain`, and dense."""

    def __init__(self, codes, width, count=1, seed=0):
        rng = np.random.default_rng(seed)
        self.gram = positive_definite(rng, codes, width)
        self.rhs = rng.normal(size=(codes, width, count))
        self.edges = rng.exponential(size=codes - 1)
        self.steps, self.sizes = rng.exponential(size=(2, width))

    def solve(self):
        return chain(self.gram, self.rhs, self.edges, self.steps, self.sizes)

    def dense(self):
        """Inverse of the whole matrix: (codes, K, codes, K)."""
        codes, width, _ = self.gram.shape
        matrix = np.zeros((codes, width, codes, width))
        for b in range(codes):
            matrix[b, :, b] += self.gram[b] + np.diag(self.sizes)
        for b, edge in enumerate(self.edges):
            step = np.diag(self.steps * edge)
            matrix[b, :, b] += step
            matrix[b + 1, :, b + 1] += step
            matrix[b, :, b + 1] -= step
            matrix[b + 1, :, b] -= step
        return np.linalg.inv(matrix.reshape(codes * width, -1)).reshape(matrix.shape)


def assert_solved(problem):
    solved, variance, differences = problem.solve()
    inverse = problem.dense()
    np.testing.assert_allclose(solved, np.einsum("afbg,bgm->afm", inverse, problem.rhs), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(variance, np.einsum("bfbf->bf", inverse), rtol=1e-9)
    across = np.array(
        [problem.edges @ _variances_of_differences(inverse[:, f, :, f]) for f in range(len(problem.steps))]
    )
    np.testing.assert_allclose(differences, across, rtol=1e-9)


def _variances_of_differences(covariance):
    D = np.diff(np.eye(len(covariance)), axis=0)
    return np.diag(D @ covariance @ D.T)


@CODES
@WIDTHS
def test_inverses_are_the_inverses(codes, width):
    matrices = positive_definite(np.random.default_rng(width), codes, width)
    np.testing.assert_allclose(inverses(matrices), np.linalg.inv(matrices), rtol=1e-8, atol=1e-10)


def test_inverses_are_symmetric_to_the_last_bit():
    inverse = inverses(positive_definite(np.random.default_rng(0), 5, 9))
    np.testing.assert_array_equal(inverse, inverse.transpose(0, 2, 1))


def test_inverses_leave_what_they_are_given_alone():
    matrices = positive_definite(np.random.default_rng(0), 2, 3)
    before = matrices.copy()
    inverses(matrices)
    np.testing.assert_array_equal(matrices, before)


def test_no_matrices_have_no_inverses():
    assert inverses(np.empty((0, 3, 3))).shape == (0, 3, 3)


@pytest.mark.parametrize("bad", [np.diag([1.0, -1.0]), np.zeros((2, 2)), np.full((2, 2), np.nan)], ids=str)
@pytest.mark.parametrize("code", [0, 3])
def test_inverses_name_the_matrix_that_is_not_positive_definite(bad, code):
    matrices = np.tile(np.eye(2), (5, 1, 1))
    matrices[code] = bad
    with pytest.raises(ValueError, match=f"the matrix of code {code} is not positive definite"):
        inverses(matrices)


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 4), (2, 4, 3)], ids=str)
def test_inverses_of_wrong_shape_are_refused(shape):
    with pytest.raises(ValueError, match="matrices"):
        inverses(np.ones(shape))


@CODES
@WIDTHS
def test_chain_is_the_dense_solve(codes, width):
    assert_solved(Chain(codes, width))


@CODES
@pytest.mark.parametrize("count", [2, 5])
def test_chain_with_several_right_hand_sides(codes, count):
    assert_solved(Chain(codes, 3, count))


@WIDTHS
@pytest.mark.parametrize("cut", [[0], [5], [2, 3], range(6)], ids=str)
def test_chain_may_be_interrupted(width, cut):
    problem = Chain(7, width, 2)
    problem.edges[cut] = 0.0
    assert_solved(problem)


def test_codes_without_rows_are_held_by_their_neighbours():
    problem = Chain(7, 3)
    problem.gram[[0, 3, 6]], problem.sizes = 0.0, np.full(3, 1e-3)
    assert_solved(problem)


def test_chain_takes_arrays_in_any_layout():
    problem = Chain(7, 3, 2)
    expected = problem.solve()
    problem.gram, problem.rhs = np.asfortranarray(problem.gram), np.asfortranarray(problem.rhs)
    for actual, wanted in zip(problem.solve(), expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("code", [0, 2, 6])
def test_chain_names_the_code_that_is_not_positive_definite(code):
    problem = Chain(7, 3)
    problem.gram[code] = -100.0 * np.eye(3)
    with pytest.raises(ValueError, match=f"the matrix of code {code} is not positive definite"):
        problem.solve()


@pytest.mark.parametrize(
    ("part", "shape"),
    [
        ("gram", (6, 3, 3)),
        ("gram", (7, 3, 2)),
        ("rhs", (7, 3)),
        ("rhs", (7, 2, 1)),
        ("edges", (7,)),
        ("edges", (5,)),
        ("steps", (2,)),
        ("sizes", (4,)),
    ],
)
def test_chain_of_wrong_shape_is_refused(part, shape):
    problem = Chain(7, 3)
    setattr(problem, part, np.ones(shape))
    with pytest.raises(ValueError, match=r"shape|dimensions"):
        problem.solve()


def test_a_chain_has_at_least_one_code():
    with pytest.raises(ValueError, match="at least one code"):
        chain(np.empty((0, 2, 2)), np.empty((0, 2, 1)), np.empty(0), np.ones(2), np.ones(2))
