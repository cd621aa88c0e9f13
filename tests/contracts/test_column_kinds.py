"""Every column kind offers a basis that keeps its promises. A new kind is tested by its line in KINDS."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ahofm.columns import Basis, Categorical, ColumnKind, Cyclic, Encoder, Linear, RandomWalk, Spline, SplineIID

KINDS = [
    Spline(),
    Spline(n_basis=8, degree=2, penalty_order=1, knots="uniform", outside="linear"),
    Spline(knots=(0.0, 0.0, 0.5), outside="linear"),
    Spline(knots=(0.0, 0.0, 0.0, 0.0, 0.3), outside="linear"),
    RandomWalk(),
    RandomWalk(outside="linear"),
    SplineIID(n_basis=6),
    SplineIID(n_basis=6, outside="linear"),
    Cyclic(),
    Cyclic(period=7.0, n_basis=9, degree=2, penalty_order=1),
    Categorical(),
    Linear(),
    Linear(outside="linear"),
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


def codebook_of(kind, x, **settings):
    return Encoder.learn(np.asarray(x, dtype=float)[:, None], kind, **settings).codebooks[0]


@pytest.fixture
def x():
    return np.round(np.random.default_rng(0).normal(size=500), 1)


@every_kind
def test_is_a_kind_and_learns_a_basis(kind, x):
    assert isinstance(kind, ColumnKind)
    assert kind == type(kind)(**vars(kind)), "equal settings must be equal kinds"
    assert hash(kind) == hash(type(kind)(**vars(kind)))
    assert isinstance(codebook_of(kind, x).functions, Basis)


@every_kind
@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
def test_shapes_agree(kind, x, missing):
    if missing:
        x[::7] = np.nan
    book = codebook_of(kind, x)
    assert book.basis.shape == (book.n_codes, book.size)
    for penalty in book.penalties:
        assert penalty.matrix.shape == (book.size, book.size)
    assert book.null_space.shape[0] == book.size
    assert book.mass.shape == (book.n_codes,)
    assert book.mass.sum() == len(x)


@every_kind
@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
def test_constant_is_one_everywhere_but_at_the_neutral_code(kind, x, missing):
    if missing:
        x[::7] = np.nan
    book = codebook_of(kind, x)
    if isinstance(kind, Linear):
        assert book.constant is None
        return
    ones = np.ones(book.n_codes)
    ones[book.neutral_code] = 0.0
    np.testing.assert_allclose(book.basis @ book.constant, ones, atol=1e-12)


@every_kind
@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
def test_null_space_is_exactly_what_no_penalty_touches(kind, x, missing):
    if missing:
        x[::7] = np.nan
    book = codebook_of(kind, x)
    total = sum(penalty.matrix.toarray() for penalty in book.penalties)
    values = np.linalg.eigvalsh(total)
    assert values.min() > -1e-9 * values.max(), "penalties are positive semi-definite"
    free = np.count_nonzero(values < 1e-9 * values.max())
    assert book.null_space.shape[1] == free
    assert free == 0 or np.linalg.matrix_rank(book.null_space) == free
    np.testing.assert_allclose(total @ book.null_space, 0.0, atol=1e-9)


@every_kind
def test_codes_and_values_agree_on_the_support(kind, x):
    """The basis at the code of a value is the basis at the value itself, when codes are exact."""
    book = codebook_of(kind, x)
    codes = book.encode(x)
    np.testing.assert_allclose(book.basis[codes].toarray(), book.evaluate(x).toarray(), atol=1e-12)


@every_kind
def test_missing_values_have_a_function_of_their_own_only_when_learned(kind, x):
    complete = codebook_of(kind, x)
    assert complete.encode(np.array([np.nan])) == complete.neutral_code
    assert complete.evaluate(np.array([np.nan])).count_nonzero() == 0
    x[3] = np.nan
    book = codebook_of(kind, x)
    code = book.encode(np.array([np.nan]))[0]
    assert code == book.missing_code == book.support.size
    row = book.basis[[code]].toarray()[0]
    np.testing.assert_array_equal(row, np.eye(book.size)[-1])
    np.testing.assert_array_equal(book.evaluate(np.array([np.nan])).toarray()[0], row)
    assert book.basis[[0], [book.size - 1]] == 0.0


@every_kind
def test_neutral_code_is_zero(kind, x):
    book = codebook_of(kind, x)
    assert book.basis[[book.neutral_code]].count_nonzero() == 0
    assert book.neutral_code == book.n_codes - 1


@every_kind
def test_outside_the_training_range(kind, x):
    book = codebook_of(kind, x)
    low, high = x.min(), x.max()
    far = np.array([low - 2.0, low - 1.0, low, high, high + 1.0, high + 2.0])
    values = book.evaluate(far).toarray()
    if isinstance(kind, Categorical):
        assert np.count_nonzero(values[[0, 1, 4, 5]]) == 0
    elif isinstance(kind, Cyclic):
        np.testing.assert_allclose(values, book.evaluate(far + 3 * book.functions.period).toarray(), atol=1e-10)
    elif kind.outside in ("auto", "clamp"):
        np.testing.assert_array_equal(values[[0, 1]], values[[2, 2]])
        np.testing.assert_array_equal(values[[4, 5]], values[[3, 3]])
    else:
        near = book.evaluate(np.array([low + 1e-7, high - 1e-7])).toarray()
        smooth = slice(None, book.functions.smooth.size) if isinstance(kind, SplineIID) else slice(None)
        for outer, middle, border, inner, sign in ((0, 1, 2, near[0], -1), (5, 4, 3, near[1], 1)):
            steps = values[outer] - values[middle], values[middle] - values[border]
            np.testing.assert_allclose(steps[0], steps[1], atol=1e-9)
            slope = sign * (values[border] - inner) / 1e-7
            np.testing.assert_allclose((sign * steps[1])[smooth], slope[smooth], atol=1e-4)


@every_kind
def test_two_values_become_linear_and_one_nothing(kind):
    two = codebook_of(kind, [1.0, 3.0, 3.0, 1.0])
    if isinstance(kind, Categorical):
        assert isinstance(two.kind, Categorical)
    else:
        assert isinstance(two.kind, Linear)
        assert two.kind.outside == getattr(kind, "outside", "clamp")
    with pytest.warns(UserWarning, match="constant"):
        one = codebook_of(kind, [2.0, 2.0])
    assert one.kind is None
    assert one.size == 0
    assert one.basis.shape == (2, 0)


def places_of_interest(book, pieces):
    """The support, knots and their neighbours, places between, borders, and both sides of the range and of turns."""
    low, high = book.support.values[[0, -1]]
    breaks = pieces.breaks
    if pieces.period is not None:
        share = np.concatenate([np.linspace(-2.0, 3.0, 11), breaks])
        breaks = pieces.start + share * pieces.period
    knots = np.concatenate([breaks, book.support.values, [low, high]])
    with np.errstate(over="ignore"):
        places = [
            knots,
            np.nextafter(knots, -np.inf),
            np.nextafter(knots, np.inf),
            low + np.linspace(0.0, 1.0, 301) * (high - low),
            low - np.array([1e-9, 0.1, 1.0]) * (high - low),
            high + np.array([1e-9, 0.1, 1.0]) * (high - low),
        ]
    places = np.concatenate(places)
    return places[np.isfinite(places)]


@every_kind
@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e15], ids="scale {:g}".format)
@pytest.mark.parametrize("max_codes", [254, 20])
def test_pieces_are_the_same_functions(kind, x, scale, max_codes):
    given_knots = isinstance(kind, Spline) and not isinstance(kind.knots, str)
    book = codebook_of(kind, x if given_knots else scale * x, max_codes=max_codes)
    pieces = book.functions.pieces()
    if isinstance(kind, Categorical):
        assert pieces is None
        return
    assert len(pieces.scales) == len(pieces.shifts) == len(pieces.breaks) + 1
    assert all(power.shape == (len(pieces.scales), book.functions.size) for power in pieces.powers)
    assert (np.diff(pieces.breaks) > 0).all()
    places = places_of_interest(book, pieces)
    expected = book.functions.evaluate(places).toarray()
    tolerance = 1e-12 * np.abs(expected).max()
    np.testing.assert_allclose(pieces.evaluate(places), expected, rtol=0, atol=tolerance)


@every_kind
def test_places_are_numbers_or_codes(kind, x):
    x[::7] = np.nan
    book = codebook_of(kind, x)
    expected = book.encode(x) if isinstance(kind, Categorical) else x
    np.testing.assert_array_equal(book.places(x), expected)
    with pytest.raises(TypeError, match="held numbers in training and holds text now"):
        book.places(np.array(["a"], dtype=object))


finite = st.floats(allow_nan=False, allow_infinity=False)


@every_kind
@settings(max_examples=60, deadline=None)
@given(
    x=arrays(
        np.float64,
        st.integers(3, 60),
        elements=st.one_of(finite, st.floats(-3, 3), st.sampled_from([0.0, 1.0, 2.0, -0.0])),
    )
)
def test_any_numbers_give_a_finite_basis(kind, x):
    assume(np.unique(x).size > 1)
    if isinstance(kind, Spline) and not isinstance(kind.knots, str):
        assume(x.min() < 0.0 and x.max() > 0.5)  # knots must lie inside the range: an error, tested elsewhere
    if kind == Cyclic():
        assume(x.max() / 2 - x.min() / 2 < 1e307)  # likewise for a turn that is too wide
    book = codebook_of(kind, x, max_codes=20)
    assert np.isfinite(book.basis.data).all()
    assert np.isfinite(book.evaluate(x).data).all()
    codes = book.encode(x)
    assert codes.max() < book.support.size
    assert np.array_equal(np.bincount(codes, minlength=book.n_codes), book.mass)


@pytest.mark.slow
@every_kind
@settings(max_examples=60, deadline=None)
@given(
    x=arrays(
        np.float64,
        st.integers(3, 60),
        elements=st.one_of(finite, st.floats(-3, 3), st.sampled_from([0.0, 1.0, 2.0, -0.0])),
    )
)
def test_pieces_of_any_numbers(kind, x):
    assume(np.unique(x).size > 2)
    if isinstance(kind, Spline) and not isinstance(kind.knots, str):
        assume(x.min() < 0.0 and x.max() > 0.5)
    if kind == Cyclic():
        assume(x.max() / 2 - x.min() / 2 < 1e307)
    if isinstance(kind, Categorical):
        return
    book = codebook_of(kind, x, max_codes=20)
    pieces = book.functions.pieces()
    inside = np.clip(np.concatenate([x, book.support.values]), x.min(), x.max())
    expected, actual = book.functions.evaluate(inside).toarray(), pieces.evaluate(inside)
    size = np.abs(expected).max()
    assert np.isfinite(actual).all()
    # Knots that rounding can hardly tell apart: the basis itself is then known no better.
    smooth = book.functions.smooth if isinstance(kind, SplineIID) else book.functions
    gap = np.diff(np.unique(smooth.knots)).min() if isinstance(kind, Spline | SplineIID) else 1.0
    np.testing.assert_allclose(actual / size, expected / size, rtol=0, atol=min(1e-12 + 1e-14 / gap, 1.0))
