"""What only the compiled kernel promises: precision at size, refusal of what could crash it."""

from dataclasses import replace

import numpy as np
import pytest

from ahofm import AHOFMRegressor, _native
from ahofm.columns import Codes
from ahofm.kernels import INSTRUCTION_SETS, Chunk, NativeKernel, ReferenceKernel, Tables
from tests.fit.fits import simulated
from tests.kernels.damaged_calls import unaligned
from tests.problems import random_chunk, random_tables


def test_settings_are_checked():
    with pytest.raises(ValueError, match="precision must be"):
        NativeKernel(precision="float16")
    with pytest.raises(ValueError, match="instruction_set must be one of"):
        NativeKernel(instruction_set="mmx")


def test_baseline_is_always_there():
    assert INSTRUCTION_SETS[0] == "baseline"
    assert "GNU" in _native.compiler() or "Clang" in _native.compiler()


@pytest.mark.parametrize("order", [2, 3, 5])
def test_float32_rows_keep_sums_exact(order):
    """200,000 rows in few codes: float32 sums would have lost their last digits many times over."""
    rng = np.random.default_rng(order)
    n = 200_000
    chunk = random_chunk(rng, n, (2, 3, 2, 4, 2, 3), loss="poisson")
    tables = [random_tables(rng, 16, {order: 4}, scale=0.3)]
    expected = NativeKernel("float64").value_and_gradient(chunk, tables, "poisson")
    actual = NativeKernel("float32").value_and_gradient(chunk, tables, "poisson")
    assert actual.value == pytest.approx(expected.value, rel=1e-7)
    for mine, theirs in (
        (actual.gradient[0].main, expected.gradient[0].main),
        (actual.gradient[0].factors[order], expected.gradient[0].factors[order]),
    ):
        assert np.abs(mine - theirs).max() < 1e-6 * np.abs(theirs).max()


def test_large_intercepts_and_offsets_stay_exact():
    """eta is put together in float64: 1e9 + small effects keeps the small effects."""
    rng = np.random.default_rng(0)
    chunk = random_chunk(rng, 100, (3, 3))
    tables = random_tables(rng, 6, {2: 2})
    shifted = replace(tables, intercept=tables.intercept + 1e9)
    difference = NativeKernel().eta(chunk, [shifted]) - NativeKernel().eta(chunk, [tables])
    np.testing.assert_allclose(difference, 1e9, rtol=0, atol=1e-5)


@pytest.mark.parametrize("loss", ["bernoulli", "poisson", "gamma"])
@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
def test_exponentials_over_their_whole_range(loss, isa):
    """The kernel's own exp and log1p against NumPy's, entry by entry."""
    eta = np.concatenate([np.linspace(-700, 700, 2001), np.linspace(-2, 2, 2001)])
    if loss != "bernoulli":
        eta = eta[np.abs(eta) < 300]
    for value in eta[::40]:
        chunk = Chunk(Codes((np.zeros(1, np.uint8),), (1,)), np.array([0.7]))
        tables = [Tables(float(value), np.zeros(1), {})]
        actual = NativeKernel("float32", isa).value_and_gradient(chunk, tables, loss)
        expected = ReferenceKernel().value_and_gradient(chunk, tables, loss)
        assert actual.value == pytest.approx(expected.value, rel=1e-13)
        assert actual.gradient[0].intercept == pytest.approx(expected.gradient[0].intercept, rel=1e-13, abs=1e-15)


def test_nan_comes_out_as_nan():
    chunk = Chunk(Codes((np.zeros(3, np.uint8),), (1,)), np.array([0.0, 1.0, 1.0]))
    for loss in ("gaussian", "bernoulli", "poisson", "gamma", "multinomial"):
        assert np.isnan(NativeKernel().value_and_gradient(chunk, [Tables(np.nan, np.zeros(1), {})], loss).value)


def test_overflow_is_huge_not_wrong():
    chunk = Chunk(Codes((np.zeros(1, np.uint8),), (1,)), np.array([1.0]))
    assert NativeKernel().value_and_gradient(chunk, [Tables(1e5, np.zeros(1), {})], "poisson").value > 1e300


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"codes": []}, ValueError, "at least one column"),
        (
            {"codes": [np.zeros(3, np.uint8), np.zeros(4, np.uint8)]},
            ValueError,
            r"column 1 has shape \(4\), expected \(3\)",
        ),
        ({"codes": [np.zeros(3, np.int8), np.zeros(3, np.uint8)]}, TypeError, "uint8, uint16 or uint32"),
        ({"sizes": [2]}, ValueError, "2 columns but 1 sizes"),
        ({"sizes": [4, 0]}, ValueError, "has no codes"),
        ({"main": np.zeros(3)}, ValueError, r"main has shape \(3\), expected \(4\)"),
        ({"sums": np.zeros((4, 2))}, ValueError, r"factor sums has shape \(4, 2\), expected \(4, 3\)"),
        ({"order": 1}, ValueError, "must be at least 2"),
        ({"loadings": np.ones(2)}, ValueError, r"loadings has shape \(2\), expected \(3\)"),
        ({"loadings": None}, TypeError, "loadings must be"),
        ({"y": np.zeros(2)}, ValueError, r"y has shape \(2\), expected \(3\)"),
        ({"y": np.zeros(3, int)}, TypeError, "y must be float32 or float64"),
        ({"y": None}, ValueError, "a target is needed"),
        ({"weight": np.zeros(4)}, ValueError, "weight has shape"),
        ({"offset": np.zeros(3)}, ValueError, "offset has shape"),
        ({"loss": "none"}, ValueError, "not built in"),
        ({"isa": "mmx"}, ValueError, "not available on this machine"),
    ],
)
def test_the_compiled_module_checks_for_itself(change, error, message):
    """The wrapper cannot reach all of these; the module must not rely on it."""
    given = {
        "isa": "baseline", "codes": [np.zeros(3, np.uint8)] * 2, "sizes": [2, 2], "main": np.zeros(4), "order": 2,
        "table": np.zeros((4, 3)), "loadings": np.ones(3), "sums": np.zeros((4, 3)), "loss": "gaussian",
        "y": np.zeros(3), "weight": None, "offset": None,
    }  # fmt: skip
    given.update(change)
    linear_predictors = [
        (
            0.0,
            given["main"],
            np.zeros(len(given["main"])),
            [(given["order"], given["table"], given["loadings"], given["sums"])],
        )
    ]
    with pytest.raises(error, match=message):
        _native.value_and_gradient(
            given["isa"],
            False,
            given["codes"],
            given["sizes"],
            linear_predictors,
            given["loss"],
            given["y"],
            given["weight"],
            given["offset"],
        )


def test_the_compiled_module_keeps_what_it_converts_and_writes_only_where_it_is_told():
    """Single precision is read by way of a copy, which must outlive the pass; nothing is written into a copy."""
    codes, sizes, out = [np.arange(3, dtype=np.uint8)], [50_000], np.empty((3, 1))
    main, table = np.ones(50_000, np.float32), np.ones((50_000, 9), np.float32)
    _native.eta(
        "baseline", True, codes, sizes, [(0.0, main, None, [(2, table, np.ones(9, np.float32), None)])], None, out
    )
    np.testing.assert_array_equal(out, 1.0)
    with pytest.raises(TypeError):
        _native.eta("baseline", True, codes, sizes, [(0.0, main, None, [])], None, out.astype(np.float32))
    with pytest.raises(TypeError, match="main sums must be a writable, contiguous float64 array"):
        _native.pull_back("baseline", True, codes, sizes, [(0.0, main, main, [])], np.ones((3, 1)))


def test_the_compiled_module_checks_column_calls():
    codes, sizes, linear_predictor = (
        [np.zeros(3, np.uint8)] * 2,
        [2, 2],
        [(0.0, np.zeros(4), None, [(2, np.zeros((4, 3)), np.ones(3), None)])],
    )
    with pytest.raises(ValueError, match="column 2 is out of range"):
        _native.column("baseline", False, codes, sizes, linear_predictor, 2, None, None, np.zeros((3, 4)), None, None)
    with pytest.raises(ValueError, match="together or not at all"):
        _native.column("baseline", False, codes, sizes, linear_predictor, 0, np.zeros(3), None, None, None, None)
    with pytest.raises(ValueError, match="u has shape"):
        _native.column("baseline", False, codes, sizes, linear_predictor, 0, None, None, np.zeros((3, 3)), None, None)


def test_arrays_at_any_address():
    """What came in a message from a cluster starts anywhere; wrappers copy it, and raw values are read as they are."""
    rng = np.random.default_rng(0)
    chunk, tables = random_chunk(rng, 100, (3, 300), loss="poisson"), random_tables(rng, 303, {2: 3})
    moved = Chunk(
        Codes(tuple(map(unaligned, chunk.codes.columns)), chunk.codes.sizes), unaligned(chunk.y.astype(np.float64))
    )
    elsewhere = Tables(
        tables.intercept,
        unaligned(tables.main),
        {2: unaligned(tables.factors[2])},
        {2: unaligned(tables.loadings[2])},
    )
    plain = Chunk(chunk.codes, chunk.y)
    for kernel in (NativeKernel(), NativeKernel("float64", "baseline")):
        np.testing.assert_array_equal(kernel.eta(moved, [elsewhere]), kernel.eta(plain, [tables]))
        mine, theirs = (
            kernel.value_and_gradient(*given, "poisson") for given in ((moved, [elsewhere]), (plain, [tables]))
        )
        assert mine.value == theirs.value
        np.testing.assert_array_equal(kernel.leave_one_out(moved, elsewhere, 1), kernel.leave_one_out(plain, tables, 1))
    values, edges = rng.normal(size=100), np.sort(rng.normal(size=20))
    mine, theirs = np.empty(100, np.uint8), np.empty(100, np.uint8)
    _native.encode_numbers(unaligned(values), unaligned(edges), 21, mine)
    _native.encode_numbers(values, edges, 21, theirs)
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_values_at_any_address_are_predicted():
    X, y, _ = simulated(n=150)
    model = AHOFMRegressor(smoothing="df", order=2, max_iter=5).fit(X, y)
    np.testing.assert_array_equal(model.predict(unaligned(X)), model.predict(X))


@pytest.mark.parametrize("n_edges", [0, 1, 2, 3, 7, 8, 253, 1000])
@pytest.mark.parametrize("n", [1, 7, 8, 9, 1000])
def test_encode_numbers_counts_edges_below(n_edges, n):
    rng = np.random.default_rng(n_edges)
    edges = np.sort(rng.normal(size=n_edges))
    values = np.concatenate([rng.normal(size=n), edges])
    values[::5] = np.nan
    out = np.empty(len(values), dtype=np.uint16)
    _native.encode_numbers(values, edges, 9999, out)
    expected = np.where(np.isnan(values), 9999, np.searchsorted(edges, values, side="left"))
    np.testing.assert_array_equal(out, expected)
