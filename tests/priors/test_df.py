"""Degrees of freedom against an explicit hat matrix, and what happens to those that cannot be had."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ahofm.columns import Categorical, Cyclic, Encoder, Linear, RandomWalk, Spline, SplineIID
from ahofm.fit import degrees_of_freedom, smoothing_parameter_of, smoothing_parameters_of
from ahofm.model import eigenvalues
from ahofm.tuning.penalised import FACTOR_DF, LARGEST_DF_FRACTION, MAIN_DF

KINDS = [
    Spline(),
    Spline(n_basis=12, penalty_order=1),
    RandomWalk(),
    SplineIID(n_basis=6),
    Cyclic(),
    Categorical(),
    Linear(),
]


def hat_matrix(book, x, weight, lam):
    """H of the penalised regression of rows on one column, written out."""
    B = np.sqrt(weight)[:, None] * book.basis[book.encode(x)].toarray()
    P = sum(penalty.matrix.toarray() for penalty in book.penalties)
    return B @ np.linalg.pinv(B.T @ B + lam * P, rcond=1e-13) @ B.T


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("lam", [0.01, 1.0, 300.0])
def test_both_definitions_are_traces_of_the_hat_matrix(kind, missing, lam):
    rng = np.random.default_rng(0)
    x, weight = np.round(rng.normal(size=250), 1), rng.uniform(0.5, 2.0, 250)
    if missing:
        x[:30] = np.nan
    book = Encoder.learn(x[:, None], kind, sample_weight=weight).codebooks[0]
    H = hat_matrix(book, x, weight, lam)
    s, total = eigenvalues(book), weight.sum()
    assert degrees_of_freedom(lam, s, total, "hat") == pytest.approx(np.trace(H), rel=1e-6)
    assert degrees_of_freedom(lam, s, total, "residual") == pytest.approx(np.trace(2 * H - H.T @ H), rel=1e-6)


@pytest.mark.parametrize(
    "x", [[0.0, 1.0, 2.0, 2.0, 5.0, 5.0], [0.0, 1.0, 1.0 + 1e-9, 2.0, 3.0, 9.0]], ids=["few", "close"]
)
def test_rank_deficient_bases(x):
    """More functions than distinct values, and values that can hardly be told apart."""
    x = np.asarray(x)
    knots = tuple(np.linspace(0.5, 4.5, 30)) if x[-1] == 5.0 else (2.0, 2.0, 2.0)
    book = Encoder.learn(x[:, None], Spline(knots=knots)).codebooks[0]
    s = eigenvalues(book)
    assert np.isfinite(s).all()
    H = hat_matrix(book, x, np.ones(6), 0.3)
    assert degrees_of_freedom(0.3, s, 6.0, "hat") == pytest.approx(np.trace(H), rel=1e-5)


@settings(max_examples=200, deadline=None)
@given(
    s=st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=30),
    free=st.integers(0, 3),
    share=st.floats(0.001, 0.999),
    total=st.floats(1.0, 1e9),
    kind=st.sampled_from(["residual", "hat"]),
)
def test_strength_gives_the_df_it_was_asked_for(s, free, share, total, kind):
    s = np.concatenate([np.zeros(free), np.sort(s)])
    df = free + share * (len(s) - free)
    assert degrees_of_freedom(smoothing_parameter_of(df, s, total, kind), s, total, kind) == pytest.approx(df, rel=1e-8)


def test_limits():
    s = np.array([0.0, 0.0, 1.0, 10.0])
    assert smoothing_parameter_of(4, s, 100.0) == 0.0
    for df in (2.0, 1.0, 4.1):
        with pytest.raises(ValueError, match="more than 2 and at most 4"):
            smoothing_parameter_of(df, s, 100.0)


def table(n=400):
    rng = np.random.default_rng(1)
    return np.column_stack([rng.normal(size=n), rng.integers(0, 2, n), rng.integers(0, 6, n), rng.normal(size=n)])


def _df(book, lam, kind):
    return degrees_of_freedom(lam, eigenvalues(book, center=True), book.mass.sum(), kind)


def dfs(books, smoothing_parameters, kind="residual"):
    return {
        order: [_df(b, v, kind) for b, v in zip(books, values, strict=True)]
        for order, values in smoothing_parameters.items()
    }


@pytest.mark.parametrize("kind", ["residual", "hat"])
def test_global_per_order_per_column(kind):
    books = Encoder.learn(table()[:, [0, 3, 2]]).codebooks
    assert dfs(books, smoothing_parameters_of(books, [1, 2], 5, kind), kind)[2] == pytest.approx([5, 5, 5])
    found = dfs(books, smoothing_parameters_of(books, [1, 2], {1: 4, "x1": 7}, kind), kind)
    assert found[1] == pytest.approx([4, 7, 4])
    assert found[2] == pytest.approx([FACTOR_DF, 7, 2 + LARGEST_DF_FRACTION * 4])
    found = dfs(books, smoothing_parameters_of(books, [1, 2], {2: {"x0": 3.5}, "x2": {1: 3}}, kind), kind)
    assert found[1] == pytest.approx([MAIN_DF, MAIN_DF, 3])
    assert found[2][0] == pytest.approx(3.5)


def test_defaults_can_be_reached_by_every_column():
    books = Encoder.learn(table()).codebooks
    found = dfs(books, smoothing_parameters_of(books, [1, 2, 3], None))
    assert found[1] == pytest.approx([10.0, LARGEST_DF_FRACTION, 2 + LARGEST_DF_FRACTION * 4, 10.0])
    assert found[3] == pytest.approx([8.0, LARGEST_DF_FRACTION, 2 + LARGEST_DF_FRACTION * 4, 8.0])


@pytest.mark.parametrize(
    ("df", "message"),
    [
        (15, r"column 'x1', order 1: df=15 cannot be reached: its 1 function.*df=\{'x1'"),
        ({"x3": 2}, "column 'x3', order 1: df=2 cannot be reached: its 20 function.* more than 2 and at most 20"),
        ({"x3": 21}, "more than 2 and at most 20"),
        (0, "df must be a positive number, got 0"),
        (float("nan"), "positive number"),
        ("many", "positive number"),
        ({4: 3}, "order 4, but the model has the orders 1, 2"),
        ({"y": 3}, "column 'y', which is not in X"),
        ({2: {"x9": 3}}, "column 'x9', which is not in X; there are 'x0'"),
        ({"x0": {3: 3}}, "order 3"),
    ],
)
def test_what_cannot_be_had_is_named(df, message):
    with pytest.raises(ValueError, match=message):
        smoothing_parameters_of(Encoder.learn(table()).codebooks, [1, 2], df)


def test_unknown_kind_of_df():
    with pytest.raises(ValueError, match="df_kind must be 'residual' or 'hat', got 'trace'"):
        smoothing_parameters_of(Encoder.learn(table()).codebooks, [1], None, "trace")


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
def test_a_line_far_from_zero_is_smoothed_like_one_at_zero(missing):
    x = np.tile([0.0, 1.0, np.nan if missing else 1.0], 20)
    near, far = (Encoder.learn((x + at)[:, None], Linear()).codebooks for at in (0.0, 1e6))
    for order, (lam,) in smoothing_parameters_of(near, [1, 2], None).items():
        assert smoothing_parameters_of(far, [1, 2], None)[order] == pytest.approx([lam], rel=1e-6)
    as_they_are = smoothing_parameters_of(far, [1, 2], None, center=False)
    centred = smoothing_parameters_of(near, [1], None)[1]
    assert as_they_are[1] == pytest.approx(centred, rel=1e-6), "main effects are centred"
    s, total = eigenvalues(far[0]), far[0].mass.sum()
    assert degrees_of_freedom(as_they_are[2][0], s, total) == pytest.approx(LARGEST_DF_FRACTION * len(s))
