"""Prediction at true values: compiled, NumPy and brute force agree; what does not fit is refused."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from ahofm import _native
from ahofm.columns import Categorical, Cyclic, Encoder, Linear, RandomWalk, Spline, SplineIID
from ahofm.columns.table import Table
from ahofm.kernels import (
    INSTRUCTION_SETS,
    CurveKernel,
    Curves,
    LevelCurves,
    NativeCurves,
    NumberCurves,
    ReferenceCurves,
    column_curves,
)
from tests.brute_force import eta_of_row
from tests.problems import random_loadings

KINDS = [
    Spline(),
    Spline(n_basis=7, degree=2, outside="linear"),
    Spline(knots=(0.0, 0.0, 0.0, 0.0, 0.3)),
    RandomWalk(),
    RandomWalk(outside="linear"),
    SplineIID(n_basis=6),
    Cyclic(),
    Cyclic(period=0.7, degree=2),
    Linear(),
    Categorical(),
    None,  # text
]


def learned(rng, kinds, *, missing=True, n=400):
    """Codebooks of columns of these kinds, and new columns: unseen levels, missing values, beyond the range."""
    train, new = [], []
    for kind in kinds:
        x, z = rng.normal(size=n), 1.5 * rng.normal(size=n)
        if kind is None or isinstance(kind, Categorical):
            x, z = (np.round(v) for v in (x, 2.0 * z))
        x[rng.random(n) < 0.1 * missing] = np.nan
        z[rng.random(n) < 0.1] = np.nan
        if kind is None:
            x, z = (np.array([None if np.isnan(v) else f"level {v}" for v in w], dtype=object) for w in (x, z))
        train.append(x)
        new.append(z)
    names = tuple(f"x{j}" for j in range(len(kinds)))
    chosen = {j: kind for j, kind in enumerate(kinds) if kind is not None}
    return Encoder.learn(Table(names, tuple(train), named=False), chosen).codebooks, new


def random_predictor(rng, books, ranks, scale=1.0):
    """Curves, and the coefficients and levels they are made of."""
    width = 1 + sum(ranks.values())
    coefs = [scale * rng.normal(size=(book.size, width)) for book in books]
    levels = [scale * rng.normal(size=width) for _ in books]
    columns = tuple(column_curves(*parts) for parts in zip(books, coefs, levels, strict=True))
    return Curves(float(rng.normal()), ranks, columns, random_loadings(rng, ranks)), coefs, levels


def functions(book, values, coef, level):
    """phi as the definition says: the basis at the value, and the level wherever the value is not neutral."""
    known = book.encode(values) != book.neutral_code
    return book.evaluate(values) @ coef + known[:, np.newaxis] * level


def brute_force(books, columns, linear_predictors):
    eta = np.empty((len(columns[0]), len(linear_predictors)))
    for k, (curves, coefs, levels) in enumerate(linear_predictors):
        phi = np.stack([functions(*parts) for parts in zip(books, columns, coefs, levels, strict=True)], axis=1)
        for i, row in enumerate(phi):
            factors = {order: row[:, part] for order, part in curves.orders.slices.items()}
            tables = SimpleNamespace(
                intercept=curves.intercept, main=row[:, 0], factors=factors, loadings=curves.loadings
            )
            eta[i, k] = eta_of_row(range(len(books)), tables)
    return eta


def assert_close(actual, expected, tolerance=1e-12):
    assert actual.shape == expected.shape
    if expected.size:
        assert np.abs(actual - expected).max() <= tolerance * np.abs(expected).max()


def places_of(books, columns):
    return [book.places(column) for book, column in zip(books, columns, strict=True)]


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_one_column_of_every_kind(kind, missing):
    rng = np.random.default_rng(1)
    books, columns = learned(rng, [kind], missing=missing)
    linear_predictor = random_predictor(rng, books, {}, scale=30.0)
    expected = brute_force(books, columns, [linear_predictor])
    for kernel in (ReferenceCurves, NativeCurves):
        assert_close(kernel((linear_predictor[0],)).eta(places_of(books, columns)), expected)


@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
@pytest.mark.parametrize("ranks", [{}, {2: 3}, {3: 2}, {2: 2, 3: 1, 4: 2, 5: 1}, {6: 2, 2: 1}, {12: 1}], ids=str)
def test_orders_with_large_values_and_several_predictors(ranks, isa):
    """Columns of every kind together; values around 30, so that high orders decide."""
    rng = np.random.default_rng(2)
    books, columns = learned(rng, KINDS)
    columns = [column[:40] for column in columns]
    linear_predictors = [random_predictor(rng, books, r, scale=30.0) for r in (ranks, {2: 1}, ranks)]
    expected = brute_force(books, columns, linear_predictors)
    curves = tuple(linear_predictor[0] for linear_predictor in linear_predictors)
    for kernel in (ReferenceCurves(curves), NativeCurves(curves, isa)):
        assert isinstance(kernel, CurveKernel)
        actual = kernel.eta(places_of(books, columns))
        for k in range(3):  # each to its own size
            assert_close(actual[:, [k]], expected[:, [k]])


@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
@pytest.mark.parametrize(
    "kinds", [[Spline()] * 4, [RandomWalk()] * 3, [Spline(), RandomWalk(), Categorical()]], ids=str
)
@pytest.mark.parametrize("rank", [0, 1, 5, 16, 33])
def test_ranks(rank, kinds, isa):
    rng = np.random.default_rng(rank)
    books, columns = learned(rng, kinds)
    curves, _, _ = random_predictor(rng, books, {2: rank, 3: rank + 1}, scale=10.0)
    places = places_of(books, columns)
    assert_close(NativeCurves((curves,), isa).eta(places), ReferenceCurves((curves,)).eta(places))


@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
@pytest.mark.parametrize("kinds", [[Spline()] * 4, [RandomWalk()] * 3, KINDS], ids=str)
@pytest.mark.parametrize("ranks", [{}, {2: 3}, {3: 9}, {4: 2, 2: 1}, {5: 2}, {6: 1}], ids=str)
def test_shares_of_columns(ranks, kinds, isa):
    rng = np.random.default_rng(5)
    books, columns = learned(rng, kinds, n=33)
    linear_predictors = tuple(random_predictor(rng, books, ranks)[0] for _ in range(2))
    places = places_of(books, columns)
    expected = ReferenceCurves(linear_predictors).contributions(places)
    assert_close(NativeCurves(linear_predictors, isa).contributions(places), expected, tolerance=1e-10)
    intercepts = np.array([curves.intercept for curves in linear_predictors])
    eta = ReferenceCurves(linear_predictors).eta(places)
    assert_close(expected.sum(axis=2) + intercepts, eta, tolerance=1e-10)


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 1000, 1025])
def test_any_number_of_rows(n):
    rng = np.random.default_rng(n)
    books, columns = learned(rng, KINDS, n=1025)
    linear_predictors = tuple(random_predictor(rng, books, {2: 9, 3: 2})[0] for _ in range(2))
    places = [place[:n] for place in places_of(books, columns)]
    assert_close(NativeCurves(linear_predictors).eta(places), ReferenceCurves(linear_predictors).eta(places))


def test_columns_of_a_matrix_are_read_where_they_are():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 3))
    books = Encoder.learn(X).codebooks
    curves, _, _ = random_predictor(rng, books, {2: 4})
    native = NativeCurves((curves,))
    expected = native.eta([np.ascontiguousarray(X[:, j]) for j in range(3)])
    np.testing.assert_array_equal(native.eta([X[:, j] for j in range(3)]), expected)
    np.testing.assert_array_equal(native.eta([X[::-1, j] for j in range(3)]), expected[::-1])
    np.testing.assert_array_equal(native.eta([X[::2, j] for j in range(3)]), expected[::2])
    np.testing.assert_array_equal(native.eta([np.broadcast_to(X[0, j], 9) for j in range(3)]), expected[[0] * 9])
    single = native.eta([X[:, j].astype(np.float32) for j in range(3)])
    np.testing.assert_array_equal(single, native.eta([X[:, j].astype(np.float32).astype(float) for j in range(3)]))


def test_threads_change_nothing():
    rng = np.random.default_rng(4)
    books, columns = learned(rng, [*KINDS, Spline()], n=70_000)
    linear_predictors = tuple(random_predictor(rng, books, {2: 5, 3: 2})[0] for _ in range(2))
    places, native = places_of(books, columns), NativeCurves(linear_predictors)
    expected = native.eta(places, n_threads=1)
    for n_threads in (2, 5, None):
        np.testing.assert_array_equal(native.eta(places, n_threads=n_threads), expected)
    with pytest.raises(ValueError, match="n_threads must be at least 1, got 0"):
        native.eta(places, n_threads=0)


def test_many_breaks_and_numbers_at_breaks():
    """Every number of breaks around the change of search, and numbers on breaks and next to them."""
    rng = np.random.default_rng(5)
    for n_breaks in (0, 1, 2, 3, 15, 31, 32, 33, 34, 64, 100, 1000):
        breaks = np.sort(rng.normal(size=n_breaks))
        values = rng.normal(size=(n_breaks + 1, 1, 1))
        curves = NumberCurves(breaks, np.zeros(n_breaks + 1), np.zeros(n_breaks + 1), values, np.array([7.0]))
        near = [breaks, np.nextafter(breaks, -9.0), np.nextafter(breaks, 9.0), 2.0 * rng.normal(size=40), [np.nan]]
        linear_predictor, x = Curves(0.0, {}, (curves,)), np.concatenate(near)
        expected = np.append(values[np.searchsorted(breaks, x[:-1], side="right"), 0, 0], 7.0)
        np.testing.assert_array_equal(NativeCurves((linear_predictor,)).eta([x])[:, 0], expected)
        np.testing.assert_array_equal(ReferenceCurves((linear_predictor,)).eta([x])[:, 0], expected)


def test_turns_far_away():
    rng = np.random.default_rng(6)
    books = Encoder.learn(rng.uniform(-3.0, 4.0, size=(300, 1)), Cyclic(period=7.0)).codebooks
    curves, _, _ = random_predictor(rng, books, {})
    turns = 7.0 * np.array([-1e12, -3.0, -1.0, 0.0, 1.0, 2.0, 1e12])
    x = np.concatenate([turns, books[0].support.low + turns, [-1e-320, 1e300, -1e300, 0.1], rng.normal(size=50) * 1e3])
    assert_close(NativeCurves((curves,)).eta([x]), ReferenceCurves((curves,)).eta([x]))


def test_level_is_where_the_value_is_known():
    """At every value and at missing ones that were learned; not at unseen levels, nor at missing ones unlearned."""
    rng = np.random.default_rng(7)
    for kind, missing in ((Spline(), True), (Spline(), False), (None, True), (None, False)):
        books, _ = learned(rng, [kind], missing=missing)
        curves = Curves(0.0, {}, (column_curves(books[0], np.zeros((books[0].size, 1)), np.ones(1)),))
        new = np.array([0.0, 99.0, np.nan]) if kind else np.array(["level 0.0", "unseen", None], dtype=object)
        known = [1.0, 1.0 if kind else 0.0, 1.0 if missing else 0.0]
        np.testing.assert_array_equal(NativeCurves((curves,)).eta([books[0].places(new)])[:, 0], known)


def test_constant_and_empty_columns():
    columns = (np.array([2.0, 2.0, np.nan]), np.full(3, np.nan), np.array([0.0, 1.0, 2.0]))
    with pytest.warns(UserWarning, match="constant"):
        books = Encoder.learn(Table(("a", "b", "c"), columns, named=False)).codebooks
    rng = np.random.default_rng(8)
    linear_predictor = random_predictor(rng, books, {2: 2}, scale=20.0)
    assert_close(
        NativeCurves((linear_predictor[0],)).eta(places_of(books, columns)),
        brute_force(books, columns, [linear_predictor]),
    )


def test_pickles():
    rng = np.random.default_rng(9)
    books, columns = learned(rng, KINDS)
    native = NativeCurves([random_predictor(rng, books, {2: 2})[0]])
    expected = native.eta(places_of(books, columns))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(native)).eta(places_of(books, columns)), expected)


def number_curves(**change):
    given = {"breaks": np.zeros(1), "scales": np.ones(2), "shifts": np.ones(2), "values": np.ones((2, 3, 4)),
             "missing": np.zeros(4)}  # fmt: skip
    return NumberCurves(**{**given, **change})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: number_curves(values=np.ones((3, 3, 4))), r"values has shape \(3, 3, 4\), expected \(2, degree \+ 1"),
        (lambda: number_curves(values=np.ones((2, 0, 4))), "values has shape"),
        (lambda: number_curves(scales=np.ones(3)), r"scales has shape \(3,\), expected \(2,\)"),
        (lambda: number_curves(shifts=np.ones((2, 1))), "shifts has shape"),
        (lambda: number_curves(missing=np.ones(3)), r"missing has shape \(3,\), expected \(4,\)"),
        (lambda: number_curves(period=0.0), "period must be a positive number or None, got 0.0"),
        (lambda: LevelCurves(np.zeros(3)), r"values has shape \(3,\)"),
        (lambda: LevelCurves(np.zeros((0, 3))), "at least one code"),
        (lambda: Curves(0.0, {1: 3}, (number_curves(),)), "got order 1 of rank 3"),
        (lambda: Curves(0.0, {2: -1}, (number_curves(),)), "got order 2 of rank -1"),
        (lambda: Curves(0.0, {2: 3}, ()), "columns is empty"),
        (lambda: Curves(0.0, {2: 4}, (number_curves(),)), "column 0 has 4 functions, but intercept and ranks need 5"),
        (lambda: Curves(0.0, {2: 3}, (number_curves(),), {2: np.ones(2)}), "loadings have shapes"),
        (lambda: NativeCurves(()), "linear predictors is empty"),
        (lambda: NativeCurves((two_columns(),), "mmx"), "instruction_set must be one of"),
        (lambda: ReferenceCurves((two_columns(), one_column())), "linear predictor 1 has 1 columns"),
        (lambda: NativeCurves((two_columns(), two_columns(breaks=np.ones(1)))), "column 0 has other pieces in"),
        (lambda: NativeCurves((two_columns(), two_columns(period=2.0))), "column 0 has other pieces"),
        (lambda: NativeCurves((two_columns(), two_columns(codes=6))), "column 1 has other pieces"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def one_column():
    return Curves(0.0, {2: 3}, (number_curves(),))


def two_columns(codes=5, **change):
    return Curves(0.0, {2: 3}, (number_curves(**change), LevelCurves(np.zeros((codes, 4)))))


@pytest.mark.parametrize("kernel", [ReferenceCurves, NativeCurves])
@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ([np.zeros(3)], ValueError, "columns: got 1, but there are curves of 2"),
        ([np.zeros(3), np.zeros(4, np.uint8)], ValueError, r"column 1 has shape \(4,\), expected \(3,\)"),
        ([np.zeros((3, 1)), np.zeros(3, np.uint8)], ValueError, r"column 0 has shape \(3, 1\)"),
        ([np.zeros(3), np.zeros(3)], TypeError, "column 1 must hold codes"),
        ([np.zeros(3), np.zeros(3, np.uint64)], TypeError, "column 1 must hold codes"),
        ([np.array(["a"]), np.zeros(1, np.uint8)], TypeError, "column 0 must hold numbers"),
        ([np.zeros(3), np.array([0, 5, 1], np.uint16)], ValueError, "code 5 in row 1 .*out of range.* 5 codes"),
    ],
)
def test_columns_are_checked(kernel, columns, error, message):
    with pytest.raises(error, match=message):
        kernel((two_columns(),)).eta(columns)


PLACE = (np.zeros(1), np.ones(2), np.ones(2), 2, 0.0, 0.0)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"isa": "mmx"}, ValueError, "not available on this machine"),
        ({"columns": [], "places": []}, ValueError, "at least one is needed"),
        ({"columns": [np.zeros(3)]}, ValueError, "got 1, but there are curves of 2"),
        ({"columns": [np.zeros(3), np.zeros(4, np.uint8)]}, ValueError, "column 1 has 4 rows, expected 3"),
        ({"columns": [np.zeros(3), np.zeros((3, 1), np.uint8)]}, ValueError, "codes must have one dimension"),
        ({"columns": [np.zeros(3), np.zeros(3, np.int8)]}, TypeError, "uint8, uint16 or uint32"),
        ({"columns": [np.zeros(3), np.full(3, 5, np.uint8)]}, ValueError, "code 5 in row 0 of column 1"),
        ({"places": [PLACE[:5], 5]}, ValueError, "expected .breaks, scales, shifts, degree, phase, period."),
        ({"places": [(np.zeros((1, 1)), *PLACE[1:]), 5]}, ValueError, "column 0: breaks has shape"),
        ({"places": [(np.zeros(2), *PLACE[1:]), 5]}, ValueError, r"column 0: scales has shape \(2\), expected \(3\)"),
        ({"places": [(*PLACE[:2], np.ones(3), *PLACE[3:]), 5]}, ValueError, "column 0: shifts has shape"),
        ({"places": [(*PLACE[:3], -1, 0.0, 0.0), 5]}, ValueError, "degree must be between 0 and 1000, got -1"),
        ({"places": [PLACE, 0]}, ValueError, "between 1 and 2.31 codes, got 0"),
        ({"linear_predictors": []}, ValueError, "at least one is needed"),
        ({"linear_predictors": [(0.0, np.zeros(13), [])]}, ValueError, r"main has shape \(13\), expected \(14\)"),
        ({"order": 1}, ValueError, "must be at least 2, got 1"),
        ({"panels": np.zeros((14, 8))}, ValueError, "three dimensions"),
        ({"panels": np.zeros((1, 14, 7))}, ValueError, r"panels has shape \(1, 14, 7\), expected \(1, 14, 8\)"),
        ({"panels": np.zeros((1, 13, 8))}, ValueError, "panels has shape"),
        ({"weights": np.zeros((1, 7))}, ValueError, r"weights has shape \(1, 7\), expected \(1, 8\)"),
        ({"out": np.zeros((3, 1, 3))}, ValueError, r"out has shape \(3, 1, 3\), expected \(3, 1, 2\)"),
        ({"out": np.zeros((3, 2))}, ValueError, r"out has shape \(3, 2\), expected \(3, 1\)"),
    ],
)
def test_the_compiled_module_checks_for_itself(change, error, message):
    given = {
        "isa": "baseline", "columns": [np.zeros(3), np.zeros(3, np.uint8)], "places": [PLACE, 5], "order": 2,
        "panels": np.zeros((1, 14, 8)), "out": np.zeros((3, 1)),
    }  # fmt: skip
    given.update(change)
    group = (given["order"], given["panels"], given.get("weights", np.zeros((1, 8))), None)
    linear_predictors = given.get("linear_predictors", [(0.0, np.zeros(14), [group])])
    with pytest.raises(error, match=message):
        _native.curves(given["isa"], given["columns"], given["places"], linear_predictors, given["out"])
