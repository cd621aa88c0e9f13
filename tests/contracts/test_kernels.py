"""Every kernel computes the same sums. A new kernel is tested by its line in KERNELS."""

from dataclasses import replace

import numpy as np
import pytest

from ahofm.columns import Codes
from ahofm.kernels import INSTRUCTION_SETS, LOSSES, Chunk, Kernel, NativeKernel, ReferenceKernel, Tables
from tests import brute_force
from tests.problems import random_chunk, random_codes, random_tables

# kernel, largest error relative to the largest entry of what is compared
KERNELS = [
    pytest.param(ReferenceKernel(), 1e-12, id="reference"),
    *[pytest.param(NativeKernel("float64", isa), 1e-12, id=f"native-float64-{isa}") for isa in INSTRUCTION_SETS],
    *[pytest.param(NativeKernel("float32", isa), 5e-6, id=f"native-float32-{isa}") for isa in INSTRUCTION_SETS],
]
every_kernel = pytest.mark.parametrize(("kernel", "tolerance"), KERNELS)

SIZES = (5, 3, 7, 2, 4, 6)


def assert_close(actual, expected, tolerance):
    scale = max(np.max(np.abs(expected), initial=0.0), 1e-300)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


def assert_tables_close(actual, expected, tolerance):
    assert_close(actual.intercept, expected.intercept, tolerance)
    assert_close(actual.main, expected.main, tolerance)
    assert list(actual.factors) == list(expected.factors)
    for order, table in expected.factors.items():
        assert_close(actual.factors[order], table, tolerance)


@every_kernel
def test_is_a_kernel(kernel, tolerance):
    assert isinstance(kernel, Kernel)


@every_kernel
@pytest.mark.parametrize("order", range(1, 8))
@pytest.mark.parametrize("rank", [1, 5, 8, 13, 16, 27])
def test_eta_is_the_explicit_sum(kernel, tolerance, order, rank):
    """Large values, so that the highest order dominates: an error there cannot hide behind lower orders."""
    rng = np.random.default_rng(order * 100 + rank)
    chunk = random_chunk(rng, 12, SIZES)
    tables = random_tables(rng, chunk.codes.n_codes, dict.fromkeys(range(2, order + 1), rank))
    if order >= 2:
        tables.factors[order][:] *= 5.0
    expected = brute_force.eta(chunk.codes, [tables])
    if 2 <= order <= len(SIZES):
        lower = range(2, order)
        rest = Tables(
            tables.intercept,
            tables.main,
            {d: tables.factors[d] for d in lower},
            {d: tables.loadings[d] for d in lower},
        )
        highest = expected - brute_force.eta(chunk.codes, [rest])
        assert np.linalg.norm(highest) > 0.9 * np.linalg.norm(expected)
    assert_close(kernel.eta(chunk, [tables]), expected, tolerance)


@every_kernel
@pytest.mark.parametrize("order", range(1, 8))
@pytest.mark.parametrize("rank", [3, 8, 16, 21])
def test_pull_back_is_the_derivative(kernel, tolerance, order, rank):
    """eta is affine in each entry of a table, so a unit difference is the derivative exactly."""
    rng = np.random.default_rng(order * 100 + rank)
    sizes = (3, 2, 4, 2, 3, 2)
    chunk = random_chunk(rng, 40, sizes)
    tables = random_tables(rng, chunk.codes.n_codes, {order: rank} if order > 1 else {}, scale=2.0)
    g = rng.normal(size=(40, 1))
    (gradient,) = kernel.pull_back(chunk, [tables], g)
    reference = ReferenceKernel()
    base = reference.eta(chunk, [tables])

    def shifted(main=None, factors=None):
        return (
            g
            * (
                reference.eta(chunk, [replace(tables, main=tables.main if main is None else main, factors=factors)])
                - base
            )
        ).sum()

    expected_main = [shifted(tables.main + e, tables.factors) for e in np.eye(len(tables.main))]
    assert_close(gradient.main, np.array(expected_main), 10 * tolerance)
    assert_close(gradient.intercept, g.sum(), 10 * tolerance)
    for d, table in tables.factors.items():
        expected = np.zeros_like(table)
        for c, f in np.ndindex(*table.shape):
            moved = table.copy()
            moved[c, f] += 1.0
            expected[c, f] = shifted(None, {**tables.factors, d: moved})
        assert_close(gradient.factors[d], expected, 10 * tolerance)


@every_kernel
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_value_and_gradient(kernel, tolerance, loss, weighted, real):
    rng = np.random.default_rng(7)
    n_eta = 4 if loss == "multinomial" else 1
    chunk = random_chunk(rng, 101, SIZES, loss=loss, n_eta=n_eta, weighted=weighted, offset=True)
    chunk = Chunk(chunk.codes, *[None if a is None else a.astype(real) for a in (chunk.y, chunk.weight, chunk.offset)])
    linear_predictors = [random_tables(rng, chunk.codes.n_codes, {2: 3, 3: 9}, scale=0.3) for _ in range(n_eta)]
    expected = ReferenceKernel().value_and_gradient(chunk, linear_predictors, loss)
    actual = kernel.value_and_gradient(chunk, linear_predictors, loss)
    assert_close(actual.value, expected.value, tolerance)
    assert len(actual.gradient) == n_eta
    for mine, theirs in zip(actual.gradient, expected.gradient, strict=True):
        assert_tables_close(mine, theirs, 10 * tolerance)


@every_kernel
@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_is_the_slope_of_the_value(kernel, tolerance, loss):
    """Central differences along a random direction, on the reference's value."""
    rng = np.random.default_rng(3)
    n_eta = 3 if loss == "multinomial" else 1
    chunk = random_chunk(rng, 64, SIZES, loss=loss, n_eta=n_eta, weighted=True)
    linear_predictors = [random_tables(rng, chunk.codes.n_codes, {2: 2, 4: 3}, scale=0.4) for _ in range(n_eta)]
    direction = [random_tables(rng, chunk.codes.n_codes, {2: 2, 4: 3}) for _ in range(n_eta)]

    def value(step):
        moved = [
            Tables(
                t.intercept + step * d.intercept,
                t.main + step * d.main,
                {o: t.factors[o] + step * d.factors[o] for o in t.factors},
                t.loadings,
            )
            for t, d in zip(linear_predictors, direction, strict=True)
        ]
        return ReferenceKernel().value_and_gradient(chunk, moved, loss).value

    slope = (value(1e-5) - value(-1e-5)) / 2e-5
    gradient = kernel.value_and_gradient(chunk, linear_predictors, loss).gradient
    inner = sum(
        t.intercept * d.intercept + t.main @ d.main + sum((t.factors[o] * d.factors[o]).sum() for o in t.factors)
        for t, d in zip(gradient, direction, strict=True)
    )
    assert inner == pytest.approx(slope, rel=1e-4)


@every_kernel
@pytest.mark.parametrize("order", range(1, 8))
def test_leave_one_out_and_column_sums(kernel, tolerance, order):
    rng = np.random.default_rng(order)
    chunk = random_chunk(rng, 77, SIZES)
    ranks = {d: 3 + 5 * (d == 3) for d in range(2, order + 1)}
    tables = random_tables(rng, chunk.codes.n_codes, ranks, scale=2.0)
    g, h = rng.normal(size=77), rng.uniform(size=77)
    rows = brute_force.table_rows(chunk.codes)
    for column in (0, 3, 5):
        u = np.ones((77, 1 + sum(ranks.values())))
        at = 1
        for d, table in tables.factors.items():
            for f in range(table.shape[1]):
                for i in range(77):
                    others = [table[r, f] for j, r in enumerate(rows[i]) if j != column]
                    u[i, at] = tables.loadings[d][f] * brute_force.newton_girard(others, d - 1)
                at += 1
        assert_close(kernel.leave_one_out(chunk, tables, column), u, max(tolerance, 1e-9))  # Newton-Girard cancels
        sums = kernel.column_sums(chunk, tables, column, g, h)
        codes = chunk.codes.columns[column]
        for c in range(SIZES[column]):
            mine = codes == c
            assert_close(sums.g[c], g[mine] @ u[mine], max(10 * tolerance, 1e-9))
            assert_close(sums.h[c], (u[mine] * h[mine, None]).T @ u[mine], max(10 * tolerance, 1e-9))


@every_kernel
def test_one_column_has_no_interactions(kernel, tolerance):
    rng = np.random.default_rng(0)
    chunk = random_chunk(rng, 10, (4,))
    tables = random_tables(rng, 4, {2: 3, 3: 2})
    assert_close(kernel.eta(chunk, [tables])[:, 0], tables.intercept + tables.main[chunk.codes.columns[0]], tolerance)
    (gradient,) = kernel.pull_back(chunk, [tables], np.ones((10, 1)))
    assert np.abs(gradient.factors[2]).max() < 1e-5
    assert kernel.leave_one_out(chunk, tables, 0).shape == (10, 6)
    np.testing.assert_array_equal(kernel.leave_one_out(chunk, tables, 0)[:, 1:], 0.0)


@every_kernel
@pytest.mark.parametrize("n", [1, 31, 32, 33, 1231, 1233, 8193])
def test_any_number_of_rows(kernel, tolerance, n):
    """Blocks of the native kernel are 32 rows, its bins are emptied every 4 rows per code."""
    rng = np.random.default_rng(n)
    chunk = random_chunk(rng, n, (3, 300, 5), loss="poisson", weighted=True)
    tables = [random_tables(rng, 308, {2: 3, 3: 4}, scale=0.2)]
    expected = ReferenceKernel().value_and_gradient(chunk, tables, "poisson")
    actual = kernel.value_and_gradient(chunk, tables, "poisson")
    assert_close(actual.value, expected.value, tolerance)
    assert_tables_close(actual.gradient[0], expected.gradient[0], 10 * tolerance)


@every_kernel
@pytest.mark.parametrize("ranks", [{2: 9}, {2: 3, 3: 16, 4: 2}, {6: 9}], ids=str)
def test_tables_larger_than_the_cache(kernel, tolerance, ranks):
    """The native kernel cuts columns into tiles of 384 KiB and rows into batches; nothing of that may show."""
    rng = np.random.default_rng(0)
    sizes = (2500, 2, 1500, 4000, 10, 700, 2000)
    chunk = random_chunk(rng, 1500, sizes, loss="poisson", offset=True)
    tables = [random_tables(rng, sum(sizes), ranks, scale=0.3)]
    assert_close(kernel.eta(chunk, tables), ReferenceKernel().eta(chunk, tables), tolerance)
    expected = ReferenceKernel().value_and_gradient(chunk, tables, "poisson")
    actual = kernel.value_and_gradient(chunk, tables, "poisson")
    assert_close(actual.value, expected.value, tolerance)
    assert_tables_close(actual.gradient[0], expected.gradient[0], 10 * tolerance)
    chunk.codes.columns[6][1234] = 2000
    with pytest.raises(ValueError, match="code 2000 in row 1234 of column 6"):
        kernel.value_and_gradient(chunk, tables, "poisson")


@every_kernel
def test_dominant_column_keeps_its_digits(kernel, tolerance):
    """One column a thousand times the others: removing it again must not cost more than the digits it has."""
    rng = np.random.default_rng(1)
    chunk = random_chunk(rng, 400, (4, 4, 4, 4))
    tables = random_tables(rng, 16, {2: 4, 3: 4})
    for table in tables.factors.values():
        table[:4] *= 1000.0
    g = rng.normal(size=(400, 1))
    expected = ReferenceKernel().pull_back(chunk, [tables], g)[0]
    assert_tables_close(kernel.pull_back(chunk, [tables], g)[0], expected, 10 * tolerance)


@every_kernel
def test_rank_zero_is_no_factor(kernel, tolerance):
    rng = np.random.default_rng(0)
    chunk = random_chunk(rng, 5, (3, 3))
    tables = Tables(1.0, rng.normal(size=6), {2: np.empty((6, 0))})
    assert_close(kernel.eta(chunk, [tables]), brute_force.eta(chunk.codes, [tables]), tolerance)
    assert kernel.pull_back(chunk, [tables], np.ones((5, 1)))[0].factors[2].shape == (6, 0)


@every_kernel
@pytest.mark.parametrize("width", [np.uint8, np.uint16, np.uint32])
def test_code_out_of_range_is_an_error(kernel, tolerance, width):
    codes = [np.zeros(50, dtype=width), np.zeros(50, dtype=width)]
    codes[1][41] = 7
    chunk = Chunk(Codes(tuple(codes), (3, 7)), np.zeros(50))
    tables = random_tables(np.random.default_rng(0), 10, {2: 2})
    calls = [
        lambda: kernel.eta(chunk, [tables]),
        lambda: kernel.value_and_gradient(chunk, [tables], "gaussian"),
        lambda: kernel.pull_back(chunk, [tables], np.ones((50, 1))),
        lambda: kernel.leave_one_out(chunk, tables, 0),
        lambda: kernel.leave_one_out(chunk, tables, 1),
        lambda: kernel.column_sums(chunk, tables, 1, np.ones(50), np.ones(50)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="code 7 in row 41 of column 1 is out of range: the column has 7 codes"):
            call()


@every_kernel
def test_bad_tables_and_losses_are_errors(kernel, tolerance):
    rng = np.random.default_rng(0)
    chunk = random_chunk(rng, 5, (3, 4))
    good = random_tables(rng, 7, {2: 2})
    with pytest.raises(ValueError, match=r"main has shape \(6,\), expected \(7,\)"):
        kernel.eta(chunk, [Tables(0.0, np.zeros(6), {})])
    with pytest.raises(ValueError, match=r"factors of order 2 have shape \(7,\)"):
        kernel.eta(chunk, [Tables(0.0, np.zeros(7), {2: np.zeros(7)})])
    with pytest.raises(ValueError, match="factors start at 2"):
        kernel.eta(chunk, [Tables(0.0, np.zeros(7), {1: np.zeros((7, 1))})])
    with pytest.raises(ValueError, match="at least one"):
        kernel.eta(chunk, [])
    with pytest.raises(ValueError, match="'cauchy' is not built in"):
        kernel.value_and_gradient(chunk, [good], "cauchy")
    with pytest.raises(ValueError, match="'poisson' has one linear predictor, got 2"):
        kernel.value_and_gradient(chunk, [good, good], "poisson")
    with pytest.raises(ValueError, match="a target is needed"):
        kernel.value_and_gradient(Chunk(chunk.codes), [good], "gaussian")


def test_codes_may_be_strided():
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 4, (30, 3)).astype(np.uint8)
    tables = random_tables(rng, 12, {2: 2})
    strided = Codes(tuple(matrix[:, j] for j in range(3)), (4, 4, 4))
    straight = Codes(tuple(matrix[:, j].copy() for j in range(3)), (4, 4, 4))
    np.testing.assert_array_equal(
        NativeKernel().eta(Chunk(strided), [tables]), NativeKernel().eta(Chunk(straight), [tables])
    )


def test_random_codes_has_every_width():
    codes = random_codes(np.random.default_rng(0), 3, (2, 2, 2))
    assert [column.dtype for column in codes.columns] == [np.uint8, np.uint16, np.uint32]
