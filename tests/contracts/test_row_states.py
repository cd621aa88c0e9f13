"""Every block kernel computes the same moments. A new kernel is tested by its line in KERNELS."""

import numpy as np
import pytest

from ahofm.columns import Codes
from ahofm.kernels import (
    INSTRUCTION_SETS,
    MAX_STATE_ORDER,
    BlockSums,
    Chunk,
    ColumnMoments,
    NativeRowStateKernel,
    ReferenceRowStateKernel,
    RowState,
    RowStateKernel,
)
from tests import brute_force
from tests.problems import random_codes

FLOAT64 = [pytest.param(NativeRowStateKernel("float64", isa), 1e-12, id=f"float64-{isa}") for isa in INSTRUCTION_SETS]
FLOAT32 = [pytest.param(NativeRowStateKernel("float32", isa), 1e-5, id=f"float32-{isa}") for isa in INSTRUCTION_SETS]
# kernel, largest error relative to the largest entry of what is compared
KERNELS = [pytest.param(ReferenceRowStateKernel(), 1e-12, id="reference"), *FLOAT64, *FLOAT32]
every_kernel = pytest.mark.parametrize(("kernel", "tolerance"), KERNELS)
native = pytest.mark.parametrize(("kernel", "tolerance"), [*FLOAT64, *FLOAT32])

SIZES = (4, 3, 5, 2, 6, 3)


def random_moments(rng, column, size, ranks, scale=1.0):
    """Values of one magnitude: to take a column out costs digits when it is larger than the others."""
    shape = size, 1 + sum(ranks.values())
    mean = scale * rng.choice([-1.0, 1.0], shape) * rng.uniform(0.5, 1.0, shape)
    return ColumnMoments(column, mean, scale**2 * rng.uniform(0.0, 0.25, shape))


class Problem:
    """Rows, their weights and targets, and moments of all columns."""

    def __init__(self, ranks, n=12, sizes=SIZES, seed=0, scale=1.0):
        rng = np.random.default_rng(seed)
        self.ranks, self.sizes = ranks, sizes
        self.codes = random_codes(rng, n, sizes)
        self.weight, self.y = rng.uniform(0.2, 2.0, n), rng.normal(size=n)
        self.moments = [random_moments(rng, j, size, ranks, scale) for j, size in enumerate(sizes)]

    def state(self, kernel, columns=None):
        """With these columns in; all by default."""
        state = kernel.state(Chunk(self.codes), self.ranks)
        state.set_working_response(self.weight, self.weight * self.y)
        for j in range(len(self.sizes)) if columns is None else columns:
            state.swap(self.moments[j], None)
        return state


def expected_sums(problem, column):
    given = problem.codes, problem.moments, problem.ranks
    return BlockSums(*brute_force.block_sums(*given, problem.weight, problem.weight * problem.y, column))


def row_moments(problem, columns):
    return brute_force.RowMoments(problem.codes, [problem.moments[j] for j in columns], problem.ranks)


def assert_close(actual, expected, tolerance):
    scale = max(np.max(np.abs(expected), initial=0.0), 1e-300)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


def assert_sums_close(actual, expected, tolerance):
    assert_close(actual.gram, expected.gram, tolerance)
    assert_close(actual.rhs, expected.rhs, tolerance)


def relative_error(actual, expected):
    return np.abs(actual - expected).max() / np.abs(expected).max()


@every_kernel
def test_is_a_block_kernel(kernel, tolerance):
    assert isinstance(kernel, RowStateKernel)
    assert isinstance(Problem({2: 1}).state(kernel), RowState)


@every_kernel
@pytest.mark.parametrize("order", range(2, 6))
@pytest.mark.parametrize("rank", [1, 3, 9])
def test_sums_are_those_over_subsets(kernel, tolerance, order, rank):
    problem = Problem({order: rank}, seed=order)
    sums = problem.state(kernel).swap(None, problem.moments[2])
    assert_sums_close(sums, expected_sums(problem, 2), tolerance)


@every_kernel
@pytest.mark.parametrize("order", range(2, 6))
@pytest.mark.parametrize("rank", [1, 3, 9])
def test_fitted_moments_are_those_over_subsets(kernel, tolerance, order, rank):
    problem = Problem({order: rank}, seed=10 + order)
    mean, variance = problem.state(kernel).fitted()
    expected = row_moments(problem, range(len(SIZES)))
    assert_close(mean, expected.rest.sum(axis=1), tolerance)
    assert_close(variance, expected.variance.sum(axis=1), tolerance)


@native
@pytest.mark.parametrize("rank", [3, 8])
def test_the_highest_order(kernel, tolerance, rank):
    problem = Problem({MAX_STATE_ORDER: rank}, n=5, sizes=(3,) * (MAX_STATE_ORDER + 1))
    sums = problem.state(kernel).swap(None, problem.moments[4])
    assert_sums_close(sums, problem.state(ReferenceRowStateKernel()).swap(None, problem.moments[4]), 10 * tolerance)


@every_kernel
@pytest.mark.parametrize("ranks", [{2: 3, 3: 2}, {2: 9, 3: 1, 4: 5}, {4: 2, 2: 1}], ids=str)
def test_several_orders_at_once(kernel, tolerance, ranks):
    problem = Problem(ranks)
    state = problem.state(kernel)
    mean, variance = state.fitted()
    expected = row_moments(problem, range(len(SIZES)))
    assert_close(mean, expected.rest.sum(axis=1), tolerance)
    assert_close(variance, expected.variance.sum(axis=1), tolerance)
    assert_sums_close(state.swap(None, problem.moments[0]), expected_sums(problem, 0), tolerance)


@every_kernel
def test_without_factors_there_are_main_effects(kernel, tolerance):
    problem = Problem({})
    state = problem.state(kernel)
    mean, variance = state.fitted()
    columns = list(zip(problem.moments, problem.codes.columns, strict=True))
    assert_close(mean, sum(part.mean[codes, 0] for part, codes in columns), tolerance)
    assert_close(variance, sum(part.variance[codes, 0] for part, codes in columns), tolerance)
    assert_sums_close(state.swap(None, problem.moments[4]), expected_sums(problem, 4), tolerance)


@every_kernel
def test_one_row(kernel, tolerance):
    problem = Problem({2: 3, 3: 1}, n=1)
    sums = problem.state(kernel).swap(None, problem.moments[1])
    assert_sums_close(sums, expected_sums(problem, 1), tolerance)


@every_kernel
def test_codes_without_rows_have_no_sums(kernel, tolerance):
    problem = Problem({2: 3}, n=1)
    sums = problem.state(kernel).swap(None, problem.moments[4])
    absent = np.arange(SIZES[4]) != problem.codes.columns[4][0]
    assert not sums.gram[absent].any()
    assert not sums.rhs[absent].any()
    assert sums.gram[~absent].any()


@native
@pytest.mark.parametrize("n", [255, 4001])
def test_many_rows(kernel, tolerance, n):
    """More than are handled together, and than are summed in single precision."""
    problem = Problem({2: 5, 3: 2}, n=n, sizes=(2, 300, 3, 4))
    for column in (0, 1):
        sums = problem.state(kernel).swap(None, problem.moments[column])
        expected = problem.state(ReferenceRowStateKernel()).swap(None, problem.moments[column])
        assert_sums_close(sums, expected, tolerance)


@every_kernel
@pytest.mark.parametrize(("dtype", "size"), [(np.uint8, 256), (np.uint16, 1000), (np.uint32, 70_000)])
def test_every_width_of_codes(kernel, tolerance, dtype, size):
    problem = Problem({2: 1}, n=4, sizes=(size, 3, 2))
    problem.codes.columns[0][:2] = size - 1, 0
    codes = (problem.codes.columns[0].astype(dtype), *problem.codes.columns[1:])
    problem.codes = Codes(codes, problem.codes.sizes)
    for column in (0, 1):
        sums = problem.state(kernel).swap(None, problem.moments[column])
        assert_sums_close(sums, expected_sums(problem, column), tolerance)


@every_kernel
def test_one_step_puts_in_before_it_takes_out(kernel, tolerance):
    problem = Problem({2: 3, 3: 2})
    state = problem.state(kernel, columns=[0, 1, 2, 3, 5])
    assert_sums_close(state.swap(problem.moments[4], problem.moments[1]), expected_sums(problem, 1), tolerance)
    assert_sums_close(state.swap(problem.moments[1], problem.moments[4]), expected_sums(problem, 4), tolerance)


@every_kernel
def test_the_column_that_goes_in_may_come_out_again(kernel, tolerance):
    problem = Problem({3: 2})
    state = problem.state(kernel, columns=[0, 1, 2, 3, 5])
    assert_sums_close(state.swap(problem.moments[4], problem.moments[4]), expected_sums(problem, 4), tolerance)


@every_kernel
def test_putting_in_alone_returns_nothing(kernel, tolerance):
    problem = Problem({2: 1})
    assert problem.state(kernel, columns=[]).swap(problem.moments[0], None) is None


@every_kernel
def test_without_columns_nothing_is_fitted(kernel, tolerance):
    mean, variance = Problem({2: 3}).state(kernel, columns=[]).fitted()
    np.testing.assert_array_equal(mean, np.zeros(12))
    np.testing.assert_array_equal(variance, np.zeros(12))


@every_kernel
def test_weights_and_targets_can_change_in_between(kernel, tolerance):
    problem = Problem({2: 3})
    state = problem.state(kernel)
    problem.weight, problem.y = problem.weight[::-1] ** 2, problem.y + 1.0
    state.set_working_response(problem.weight, problem.weight * problem.y)
    assert_sums_close(state.swap(None, problem.moments[3]), expected_sums(problem, 3), tolerance)


@every_kernel
@pytest.mark.parametrize("ranks", [{}, {2: 9}, {3: 3}, {2: 1, 3: 2, 4: 3}], ids=str)
def test_columns_may_come_and_go_in_any_order(kernel, tolerance, ranks):
    """Many times, each time with other moments: the state is the one that is built from scratch."""
    problem, rng = Problem(ranks, scale=0.5), np.random.default_rng(1)
    state, waiting = problem.state(kernel), None
    for column in rng.integers(0, len(SIZES), 40):
        if waiting is None or waiting.column != column:
            state.swap(waiting, problem.moments[column])
        waiting = problem.moments[column] = random_moments(rng, column, SIZES[column], ranks, 0.5)
    state.swap(waiting, None)
    fresh = problem.state(kernel)
    for actual, expected in zip(state.fitted(), fresh.fitted(), strict=True):
        assert_close(actual, expected, tolerance)
    last = problem.moments[0]
    assert_sums_close(state.swap(None, last), fresh.swap(None, last), tolerance)


@every_kernel
def test_without_variance_gram_is_that_of_known_partners(kernel, tolerance):
    """Of rank one in a row: no spread, no covariance."""
    problem = Problem({2: 3, 4: 2}, n=1)
    problem.moments = [ColumnMoments(part.column, part.mean, 0.0 * part.variance) for part in problem.moments]
    state = problem.state(kernel)
    mean, variance = state.fitted()
    np.testing.assert_allclose(variance, 0.0, rtol=0, atol=1e-13 * mean[0] ** 2)
    sums = state.swap(None, problem.moments[1])
    rows, code = row_moments(problem, [0, 2, 3, 4, 5]), problem.codes.columns[1][0]
    weight, g = problem.weight[0], rows.g[0]
    assert_close(sums.gram[code], weight * np.outer(g, g), tolerance)
    assert_close(sums.rhs[code], weight * (problem.y[0] - rows.rest[0].sum()) * g, tolerance)


@native
def test_without_variance_there_is_none_after_any_steps(kernel, tolerance):
    problem = Problem({2: 3, 4: 2})
    problem.moments = [ColumnMoments(part.column, part.mean, 0.0 * part.variance) for part in problem.moments]
    state, waiting = problem.state(kernel), None
    for part in problem.moments * 3:
        state.swap(waiting, part)
        waiting = part
    state.swap(waiting, None)
    np.testing.assert_array_equal(state.fitted()[1], np.zeros(12))


single_and_double = pytest.mark.parametrize(
    ("kernel", "bound"),
    [
        pytest.param(NativeRowStateKernel(precision, isa), bound, id=f"{precision}-{isa}")
        for precision, bound in (("float64", 1e-9), ("float32", 1e-3))
        for isa in INSTRUCTION_SETS
    ],
)


def problem_with_a_large_column(order, times):
    problem = Problem({order: 9}, n=40, seed=order)
    problem.moments[0] = ColumnMoments(0, times * problem.moments[0].mean, problem.moments[0].variance)
    return problem


@single_and_double
@pytest.mark.parametrize("order", [2, 3, 4])
def test_a_large_column_leaves_digits_to_the_others(kernel, bound, order):
    problem = problem_with_a_large_column(order, 1e3)
    for column in (1, 4):
        sums = problem.state(kernel).swap(None, problem.moments[column])
        assert relative_error(sums.gram, expected_sums(problem, column).gram) < bound


@single_and_double
@pytest.mark.parametrize(("order", "times"), [(2, 1e3), (3, 1e2), (4, 10.0)])
def test_a_large_column_can_be_taken_out(kernel, bound, order, times):
    """What is left is a difference of large numbers: digits go with the power of the order."""
    problem = problem_with_a_large_column(order, times)
    sums = problem.state(kernel).swap(None, problem.moments[0])
    assert relative_error(sums.gram, expected_sums(problem, 0).gram) < bound


@native
@pytest.mark.parametrize("row", [0, 11, 700])
def test_codes_out_of_range_are_named(kernel, tolerance, row):
    problem = Problem({2: 3}, n=row + 1)
    problem.codes.columns[2][row] = SIZES[2]
    message = rf"code 5 in row {row} of column 2 is out of range: the column has 5 codes"
    with pytest.raises(ValueError, match=message):
        problem.state(kernel, columns=[0, 2])
    with pytest.raises(ValueError, match=message):
        problem.state(kernel, columns=[0, 1]).swap(problem.moments[3], problem.moments[2])


@native
@pytest.mark.parametrize(
    ("mean", "variance", "message"),
    [
        ((4, 3), (4, 3), r"means has shape \(4, 3\), expected \(4, 4\)"),
        ((4, 5), (4, 4), r"means has shape \(4, 5\), expected \(4, 4\)"),
        ((4, 4), (4, 3), r"variances has shape \(4, 3\), expected \(4, 4\)"),
        ((4, 4), (3, 4), r"variances has shape \(3, 4\), expected \(4, 4\)"),
        ((4,), (4, 4), "means must have"),
        ((0, 4), (0, 4), "means must have"),
    ],
    ids=str,
)
def test_moments_of_wrong_shape_are_refused(kernel, tolerance, mean, variance, message):
    state = Problem({2: 3}).state(kernel)
    moments = ColumnMoments(0, np.zeros(mean), np.zeros(variance))
    for add_column, remove_column in ((moments, None), (None, moments)):
        with pytest.raises(ValueError, match=message):
            state.swap(add_column, remove_column)


@native
@pytest.mark.parametrize("length", [11, 13])
def test_work_of_wrong_length_is_refused(kernel, tolerance, length):
    state = Problem({2: 3}).state(kernel)
    with pytest.raises(ValueError, match="shape"):
        state.set_working_response(np.ones(length), np.ones(12))
    with pytest.raises(ValueError, match="shape"):
        state.set_working_response(np.ones(12), np.ones(length))


@native
@pytest.mark.parametrize("order", [1, MAX_STATE_ORDER + 1])
def test_orders_that_are_not_built_are_refused(kernel, tolerance, order):
    with pytest.raises(ValueError, match=f"order must be between 2 and {MAX_STATE_ORDER}, got {order}"):
        Problem({order: 1}).state(kernel)
