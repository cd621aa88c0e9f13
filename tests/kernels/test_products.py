"""Product factors in every kernel: the product over p columns is the elementary symmetric polynomial of order p."""

from itertools import combinations

import numpy as np
import pytest

from ahofm import _native
from ahofm.kernels import (
    INSTRUCTION_SETS,
    Chunk,
    ColumnMoments,
    Curves,
    LevelCurves,
    NativeCurves,
    NativeKernel,
    NativeRowStateKernel,
    ReferenceCurves,
    ReferenceKernel,
    ReferenceRowStateKernel,
    Tables,
)
from ahofm.kernels.symmetric import symmetric, terms, truncated, without_each
from ahofm.orders import PRODUCT, Orders
from tests import brute_force
from tests.problems import random_chunk, random_codes, random_tables

SIZES = (4, 3, 5, 2, 6, 3)
P = len(SIZES)
KERNELS = [
    pytest.param(ReferenceKernel(), 1e-12, id="reference"),
    *[pytest.param(NativeKernel("float64", isa), 1e-12, id=f"float64-{isa}") for isa in INSTRUCTION_SETS],
    *[pytest.param(NativeKernel("float32", isa), 5e-6, id=f"float32-{isa}") for isa in INSTRUCTION_SETS],
]
BLOCK_KERNELS = [
    pytest.param(ReferenceRowStateKernel(), 1e-12, id="reference"),
    *[pytest.param(NativeRowStateKernel("float64", isa), 1e-11, id=f"float64-{isa}") for isa in INSTRUCTION_SETS],
    *[pytest.param(NativeRowStateKernel("float32", isa), 3e-5, id=f"float32-{isa}") for isa in INSTRUCTION_SETS],
]
every_kernel = pytest.mark.parametrize(("kernel", "tolerance"), KERNELS)
every_block_kernel = pytest.mark.parametrize(("kernel", "tolerance"), BLOCK_KERNELS)


def close(actual, expected, tolerance):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * max(np.max(np.abs(expected)), 1e-300))


def renamed(tables, old, new):
    """The same tables with another key of the factors."""

    def moved(parts):
        return {new if d == old else d: part for d, part in parts.items()}

    return Tables(tables.intercept, tables.main, moved(tables.factors), moved(tables.loadings))


def test_both_sides_have_the_same_key():
    assert _native.PRODUCT == PRODUCT
    assert Orders({2: 3, PRODUCT: 2}).slices == {2: slice(1, 4), PRODUCT: slice(4, 6)}
    assert Orders({2: 3, PRODUCT: 2}).symmetric == {2: 3}


@every_kernel
@pytest.mark.parametrize("rank", [1, 8, 19])
def test_linear_predictors_and_derivatives(kernel, tolerance, rank):
    rng = np.random.default_rng(rank)
    chunk = random_chunk(rng, 70, SIZES)
    known = random_tables(rng, chunk.codes.n_codes, {2: 3, P: rank}, scale=1.5)
    tables = renamed(known, P, PRODUCT)
    close(kernel.eta(chunk, [tables]), brute_force.eta(chunk.codes, [known]), tolerance)
    g = rng.normal(size=(70, 1))
    (actual,), (expected,) = kernel.pull_back(chunk, [tables], g), ReferenceKernel().pull_back(chunk, [known], g)
    close(actual.main, expected.main, 10 * tolerance)
    close(actual.factors[2], expected.factors[2], 10 * tolerance)
    close(actual.factors[PRODUCT], expected.factors[P], 10 * tolerance)
    close(kernel.leave_one_out(chunk, tables, 2), ReferenceKernel().leave_one_out(chunk, known, 2), tolerance)


@every_kernel
def test_zeros_are_no_trouble(kernel, tolerance):
    """The derivative by a function that is zero is the product of the others; two zeros leave nothing."""
    rng = np.random.default_rng(0)
    chunk = random_chunk(rng, 50, (2, 2, 2))
    table = rng.normal(size=(6, 2))
    table[0], table[3] = 0.0, 0.0
    tables = Tables(0.0, np.zeros(6), {PRODUCT: table})
    g = np.ones((50, 1))
    (gradient,) = kernel.pull_back(chunk, [tables], g)
    close(
        gradient.factors[PRODUCT], ReferenceKernel().pull_back(chunk, [tables], g)[0].factors[PRODUCT], 10 * tolerance
    )


@every_kernel
@pytest.mark.parametrize("count", [1, 200])
def test_one_column_and_two_hundred(kernel, tolerance, count):
    rng = np.random.default_rng(count)
    chunk = random_chunk(rng, 33, (3,) * count)
    table = 1.0 + 0.2 * rng.normal(size=(3 * count, 5))
    tables = Tables(0.0, np.zeros(3 * count), {PRODUCT: table}, {PRODUCT: rng.normal(size=5)})
    rows = np.stack([3 * j + column.astype(int) for j, column in enumerate(chunk.codes.columns)])
    expected = np.prod(table[rows], axis=0) @ tables.loadings[PRODUCT]
    close(kernel.eta(chunk, [tables])[:, 0], expected, count * tolerance)


class Block:
    """Rows with moments of all columns, as product factors and as those of order p."""

    def __init__(self, rank, seed, n=40):
        rng = np.random.default_rng(seed)
        self.codes = random_codes(rng, n, SIZES)
        self.weight, self.y, self.rank = rng.uniform(0.2, 2.0, n), rng.normal(size=n), rank
        self.loadings = rng.uniform(0.5, 2.0, rank) * rng.choice([-1.0, 1.0], rank)
        width = 3 + rank
        self.moments = [
            ColumnMoments(j, rng.normal(size=(size, width)), rng.uniform(0.0, 0.3, (size, width)))
            for j, size in enumerate(SIZES)
        ]

    def state(self, kernel, order):
        """With loadings in the first column where the kernel has none."""
        moments = self.moments
        if order == PRODUCT:
            state = kernel.state(Chunk(self.codes), {2: 2, PRODUCT: self.rank}, self.loadings)
        else:
            scale = np.concatenate([np.ones(3), self.loadings])
            first = ColumnMoments(0, moments[0].mean * scale, moments[0].variance * scale**2)
            moments, state = [first, *moments[1:]], kernel.state(Chunk(self.codes), {2: 2, order: self.rank})
        state.set_working_response(self.weight, self.weight * self.y)
        for one in moments:
            state.swap(one, None)
        return state


@every_block_kernel
@pytest.mark.parametrize("rank", [1, 4, 11])
def test_row_states(kernel, tolerance, rank):
    """Sums and moments are those of factors of order p, for every column and after columns have come and gone."""
    problem = Block(rank, seed=rank)
    state, expected = problem.state(kernel, PRODUCT), problem.state(ReferenceRowStateKernel(), P)
    for j in (3, 0, 5):
        if j == 0:
            continue  # has the loadings in the expected state
        for actual, other in zip(
            _parts(state.swap(None, problem.moments[j])), _parts(expected.swap(None, problem.moments[j])), strict=True
        ):
            close(actual, other, tolerance)
        state.swap(problem.moments[j], None)
        expected.swap(problem.moments[j], None)
    for actual, other in zip(state.fitted(), expected.fitted(), strict=True):
        close(actual, other, tolerance)


def _parts(sums):
    return sums.gram, sums.rhs


@every_block_kernel
def test_sums_are_expectations(kernel, tolerance):
    """Of the squared error over all values that two-point distributions of the moments give."""
    rng = np.random.default_rng(4)
    codes = random_codes(rng, 1, (2, 2, 2))
    moments = [ColumnMoments(j, rng.normal(size=(2, 2)), rng.uniform(0.1, 0.5, (2, 2))) for j in range(3)]
    state = kernel.state(Chunk(codes), {PRODUCT: 1}, np.array([1.7]))
    state.set_working_response(np.array([2.0]), np.array([2.0 * 0.3]))
    for one in moments:
        state.swap(one, None)
    sums = state.swap(None, moments[1])
    at = [int(column[0]) for column in codes.columns]
    signs = [np.array(pick) for pick in np.ndindex(2, 2, 2, 2)]
    gram, rhs = np.zeros((2, 2)), np.zeros(2)
    for pick in signs:
        values = [
            moments[j].mean[at[j]] + (2 * pick[2 * k : 2 * k + 2] - 1) * np.sqrt(moments[j].variance[at[j]])
            for k, j in enumerate((0, 2))
        ]
        u = np.array([1.0, 1.7 * values[0][1] * values[1][1]])
        gram += 2.0 * np.outer(u, u) / 16
        rhs += 2.0 * u * (0.3 - values[0][0] - values[1][0]) / 16
    close(sums.gram[at[1]], gram, 10 * tolerance)
    close(sums.rhs[at[1]], rhs, 10 * tolerance)


def random_curves(rng, count, rank, means):
    orders = Orders({2: 2, PRODUCT: rank})
    columns = tuple(LevelCurves(rng.normal(size=(4, orders.width))) for _ in range(count))
    loadings = {order: rng.normal(size=own) for order, own in orders.items()}
    return Curves(0.7, orders, columns, loadings, rng.normal(size=(count, rank)) if means else None)


@pytest.mark.parametrize("count", [1, 2, 5, 6])
@pytest.mark.parametrize("rank", [1, 8, 11])
@pytest.mark.parametrize("means", [False, True])
def test_curves_and_their_shapley_values(count, rank, means):
    rng = np.random.default_rng(10 * count + rank)
    curves = random_curves(rng, count, rank, means)
    codes = [rng.integers(0, 4, 50).astype(np.uint8) for _ in range(count)]
    reference = ReferenceCurves((curves,))
    psi = np.stack([own.values[code] for own, code in zip(curves.columns, codes, strict=True)])
    main, factors = curves.orders.split(psi)
    expected = 0.7 + main.sum(axis=0) + symmetric(factors[2], 2) @ curves.loadings[2]
    expected += np.prod(factors[PRODUCT], axis=0) @ curves.loadings[PRODUCT]
    close(reference.eta(codes)[:, 0], expected, 1e-12)
    for isa in INSTRUCTION_SETS:
        native = NativeCurves((curves,), isa)
        close(native.eta(codes), reference.eta(codes), 1e-12)
        close(native.contributions(codes), reference.contributions(codes), 1e-12)
    base = 0.7 + np.prod(curves.product_means, axis=0) @ curves.loadings[PRODUCT]
    close(base + reference.contributions(codes)[:, 0].sum(axis=1), expected, 1e-11)


def test_generating_polynomials():
    rng = np.random.default_rng(5)
    means, parts = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    brute = np.array(
        [
            sum(
                np.prod([parts[j] if j in chosen else means[j] for j in range(5)], axis=0)
                for chosen in combinations(range(5), k)
            )
            for k in range(6)
        ]
    )
    close(truncated(means, parts, 5), brute, 1e-13)
    close(truncated(means, parts, 2), brute[:3], 1e-13)
    close(truncated(means, parts, 5).sum(axis=0), terms(means + parts, PRODUCT), 1e-12)
    found = without_each(means, parts, 3)
    for j in range(5):
        close(found[:, j], truncated(np.delete(means, j, axis=0), np.delete(parts, j, axis=0), 3), 1e-12)
