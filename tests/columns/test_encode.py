"""Learning codebooks and encoding with them: exact where promised, the same for weights as for repeated rows."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from ahofm.columns import Categorical, Codes, Cyclic, Encoder, Linear, RandomWalk, Spline
from ahofm.columns.encode import ConstantColumnWarning
from ahofm.columns.support import _capped, learn_numbers


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "size": np.linspace(0.0, 1.0, 60),
            "flag": [0, 1] * 30,
            "town": ["b", "a", "c"] * 20,
            "rain": [np.nan, 0.0, 0.5, 1.0] * 15,
        }
    )


def test_kinds_are_chosen_by_the_data(frame):
    books = Encoder.learn(frame).codebooks
    assert [type(book.kind) for book in books] == [Spline, Linear, Categorical, Spline]
    assert [book.describe()["kind"] for book in books] == ["Spline", "Linear", "Categorical", "Spline"]
    assert books[3].missing_mass == 15


def test_kinds_can_be_given_by_name_position_or_all_at_once(frame):
    books = Encoder.learn(frame, {"size": RandomWalk(), -1: Linear()}).codebooks
    assert [type(book.kind) for book in books] == [RandomWalk, Linear, Categorical, Linear]
    books = Encoder.learn(frame.drop(columns="town"), RandomWalk()).codebooks
    assert [type(book.kind) for book in books] == [RandomWalk, Linear, RandomWalk]


def test_levels_are_sorted_and_unseen_ones_neutral(frame):
    book = Encoder.learn(frame).codebooks[2]
    assert book.support.values.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(book.support.mass, [20, 20, 20])
    values = np.array(["c", "zebra", None, "a"], dtype=object)
    np.testing.assert_array_equal(book.encode(values), [2, book.neutral_code, book.neutral_code, 0])
    assert book.evaluate(values)[[1]].count_nonzero() == 0


def test_numbers_can_be_levels():
    book = Encoder.learn(np.array([[3.0], [1.0], [np.nan], [3.0]]), Categorical()).codebooks[0]
    assert book.support.values.tolist() == [1.0, 3.0]
    np.testing.assert_array_equal(book.encode(np.array([1.0, 2.0, 3.0, np.nan, 99.0])), [0, 3, 1, 2, 3])


def test_many_levels_need_wider_codes():
    names = np.array([f"level {k}" for k in range(70_000)], dtype=object)
    encoder = Encoder.learn(names[:, None])
    codes = encoder.encode(names[:, None])
    assert codes.columns[0].dtype == np.uint32
    assert codes.sizes == (70_001,)
    assert encoder.codebooks[0].basis.shape == (70_001, 70_000)
    assert len(np.unique(codes.columns[0])) == 70_000


def test_default_codes_fit_one_byte_even_with_missing_values():
    x = np.random.default_rng(0).normal(size=5000)
    x[0] = np.nan
    encoder = Encoder.learn(x[:, None])
    assert encoder.codebooks[0].n_codes == 256
    assert encoder.encode(x[:, None]).columns[0].dtype == np.uint8


def test_distinct_values_up_to_max_codes_are_exact():
    x = np.random.default_rng(0).permutation(np.repeat(np.arange(50.0), 3))
    book = Encoder.learn(x[:, None], max_codes=50).codebooks[0]
    assert book.support.exact
    np.testing.assert_array_equal(book.support.values[book.encode(x)], x)
    assert not Encoder.learn(x[:, None], max_codes=49).codebooks[0].support.exact


def test_max_codes_of_a_column_overrides_the_tables():
    X = np.random.default_rng(0).normal(size=(500, 2))
    books = Encoder.learn(X, {0: RandomWalk(max_codes=400)}, max_codes=30).codebooks
    assert [book.support.size for book in books] == [400, 30]


def test_bins_have_equal_mass_and_their_mean_as_value():
    x = np.random.default_rng(0).exponential(size=10_000)
    support, edges = learn_numbers(x, None, 100)
    np.testing.assert_array_equal(support.mass, 100.0)
    codes = np.searchsorted(edges, x)
    np.testing.assert_allclose(np.bincount(codes, x) / 100, support.values, rtol=1e-6)
    assert (support.low, support.high) == (x.min(), x.max())


def test_a_frequent_value_has_a_bin_to_itself_and_leaves_the_rest_theirs():
    """Mostly zeros: the zeros take one code, the others share what is left."""
    rng = np.random.default_rng(0)
    x = np.concatenate([np.zeros(95_000), rng.exponential(size=5_000), -rng.exponential(size=200)])
    support, edges = learn_numbers(x, None, 254)
    assert 240 <= support.size <= 254
    zero = np.searchsorted(edges, 0.0)
    assert support.values[zero] == 0.0
    assert support.mass[zero] == 95_000


def test_learning_does_not_depend_on_the_order_of_rows(frame):
    shuffled = frame.sample(frac=1.0, random_state=1)
    for one, other in zip(Encoder.learn(frame).codebooks, Encoder.learn(shuffled).codebooks, strict=True):
        np.testing.assert_array_equal(one.support.values, other.support.values)
        np.testing.assert_array_equal(one.mass, other.mass)
        assert (one.basis != other.basis).nnz == 0


@pytest.mark.parametrize("max_codes", [10, 1000])
def test_integer_weights_are_repeated_rows(max_codes):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300), rng.integers(0, 40, 300), rng.integers(0, 2, 300)])
    X[::11, 0] = np.nan
    weight = rng.integers(0, 4, 300)
    weighted = Encoder.learn(X, {1: Categorical()}, sample_weight=weight, max_codes=max_codes)
    repeated = Encoder.learn(np.repeat(X, weight, axis=0), {1: Categorical()}, max_codes=max_codes)
    for one, other in zip(weighted.codebooks, repeated.codebooks, strict=True):
        np.testing.assert_allclose(one.support.values, other.support.values, rtol=1e-12)
        np.testing.assert_allclose(one.mass, other.mass, rtol=1e-12)
        np.testing.assert_allclose(one.basis.toarray(), other.basis.toarray(), atol=1e-9)
        if one.edges is not None:
            np.testing.assert_allclose(one.edges, other.edges, rtol=1e-12)


def test_constant_columns_are_kept_and_reported_once():
    X = np.column_stack([np.arange(5.0), np.full(5, 7.0), np.full(5, np.nan), np.full(5, 7.0)])
    X[0, 3] = np.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encoder = Encoder.learn(X)
    assert [w.category for w in caught] == [ConstantColumnWarning]
    assert "2 constant column(s) contribute nothing: 'x1', 'x2'" in str(caught[0].message)
    assert [book.size for book in encoder.codebooks] == [5, 0, 0, 1], (
        "one value and missing ones still tell two groups apart"
    )
    assert len(encoder.encode(X).columns) == 4
    assert encoder.codebooks[1].evaluate(np.array([7.0, 8.0, np.nan])).shape == (3, 0)
    np.testing.assert_array_equal(encoder.codebooks[2].encode(np.array([1.0, np.nan])), [0, 0])


def test_new_data_must_have_the_columns_of_training(frame):
    encoder = Encoder.learn(frame)
    with pytest.raises(ValueError, match="missing: 'town'; not seen in training: 'city'"):
        encoder.encode(frame.rename(columns={"town": "city"}))
    turned = encoder.encode(frame[["flag", "size", "town", "rain"]])
    for mine, theirs in zip(turned.columns, encoder.encode(frame).columns, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(ValueError, match="not seen in training: 'extra'"):
        encoder.encode(frame.assign(extra=1.0))
    with pytest.raises(ValueError, match="X has 2 columns, but 4 were seen in training"):
        encoder.encode(np.zeros((3, 2)))
    with pytest.raises(TypeError, match="column 'town' held text in training and holds numbers now"):
        encoder.encode(frame.assign(town=1.0))
    with pytest.raises(TypeError, match="column 'size' held numbers in training and holds text now"):
        encoder.encode(frame.assign(size="a"))


def test_frames_of_another_make_and_arrays_are_fine_at_prediction(frame):
    numbers = frame[["size", "flag", "rain"]]
    encoder = Encoder.learn(numbers)
    expected = encoder.encode(numbers).columns
    for other in (pl.from_pandas(numbers), numbers.to_numpy(), np.asfortranarray(numbers.to_numpy())):
        for one, two in zip(encoder.encode(other).columns, expected, strict=True):
            np.testing.assert_array_equal(one, two)


def test_a_level_column_may_be_all_missing_at_prediction(frame):
    encoder = Encoder.learn(frame)
    codes = encoder.encode(frame.assign(town=np.nan))
    np.testing.assert_array_equal(codes.columns[2], encoder.codebooks[2].neutral_code)


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"sise": RandomWalk()}, ValueError, "names 'sise', which is not in X; did you mean 'size'?"),
        ({9: RandomWalk()}, ValueError, "names position 9, but X has 4 columns"),
        ({"size": RandomWalk(), 0: RandomWalk()}, ValueError, "column 'size' twice"),
        ({"size": "spline"}, TypeError, r"columns\['size'\] must be a column kind"),
        ([RandomWalk()], TypeError, "columns must be a dict"),
        ({"town": RandomWalk()}, TypeError, r"column 'town' holds text and cannot be RandomWalk\(\); use Categorical"),
        ({"size": Cyclic(period=-1)}, ValueError, "period must be a positive number"),
    ],
)
def test_bad_requests(frame, columns, error, message):
    with pytest.raises(error, match=message):
        Encoder.learn(frame, columns)


@pytest.mark.parametrize("max_codes", [1, 2.5, True, "many"])
def test_bad_max_codes(max_codes):
    with pytest.raises(ValueError, match="max_codes must be an integer of at least 2"):
        Encoder.learn(np.zeros((3, 1)), max_codes=max_codes)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(2), r"shape \(2,\), expected \(3,\)"),
        ([1.0, -1.0, 1.0], "not negative"),
        ([1.0, np.nan, 1.0], "finite"),
        (np.zeros(3), "zero everywhere"),
    ],
)
def test_bad_weights(weight, message):
    with pytest.raises(ValueError, match=message):
        Encoder.learn(np.arange(3.0)[:, None], sample_weight=weight)


# hypothesis: any numeric table, with ties, missing values, one row, one distinct value

numeric = st.one_of(
    st.floats(allow_infinity=False, allow_nan=True),
    st.sampled_from([0.0, -0.0, 1.0, np.nan]),
    st.floats(-1, 1, width=16),
)
shapes = array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=40)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(X=arrays(np.float64, shapes, elements=numeric), max_codes=st.integers(2, 30))
def test_any_table_encodes(X, max_codes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantColumnWarning)
        encoder = Encoder.learn(X, max_codes=max_codes)
    codes = encoder.encode(X)
    for j, book in enumerate(encoder.codebooks):
        column, c = X[:, j], codes.columns[j]
        present = ~np.isnan(column)
        assert book.support.size <= max_codes
        assert np.all(book.support.values[1:] > book.support.values[:-1])
        assert np.array_equal(c[~present], np.full((~present).sum(), book.missing_code))
        if book.support.size:
            assert c[present].max(initial=0) < book.support.size
            assert np.array_equal(
                np.bincount(c[present], minlength=book.support.size)[: book.support.size], book.support.mass
            )
            order = np.argsort(column[present])
            assert np.all(np.diff(c[present][order].astype(int)) >= 0), "codes follow the order of values"
        if book.support.exact:
            assert np.array_equal(book.support.values[c[present]], column[present])
        assert np.isfinite(book.basis.data).all()


@settings(max_examples=60, deadline=None)
@given(
    X=st.sampled_from([np.int8, np.int16, np.int64, np.uint8, np.uint64, np.float16, np.float32, np.bool_]).flatmap(
        lambda dtype: arrays(
            dtype,
            shapes,
            elements={"allow_nan": True, "allow_infinity": False} if np.issubdtype(dtype, np.floating) else None,
        )
    )
)
def test_any_dtype_encodes_as_its_float64(X):
    if X.dtype.itemsize == 8:
        X = X // 2**11  # no integer that a number would round
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantColumnWarning)
        codes = Encoder.learn(X).encode(X)
        expected = Encoder.learn(X.astype(np.float64)).encode(X.astype(np.float64))
    for one, two in zip(codes.columns, expected.columns, strict=True):
        np.testing.assert_array_equal(one, two)


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1, max_size=30))
def test_any_text_encodes(values):
    frame = pd.DataFrame({"a": pd.Series(values, dtype=object), "b": np.arange(len(values))})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantColumnWarning)
        encoder = Encoder.learn(frame)
    book = encoder.codebooks[0]
    levels = book.support.values
    if len(levels) == 0:
        return
    for value, code in zip(values, encoder.encode(frame).columns[0], strict=True):
        assert code == book.missing_code if value is None else levels[code] == value


def test_no_value_counts_for_more_than_two_bins():
    rng = np.random.default_rng(0)
    for mass in (rng.choice([1.0, 5.0, 1e4], 400), 10.0 ** rng.uniform(-250, 250, 3_000), np.ones(20)):
        for most in (5, 10, 19):
            counted = _capped(mass, most)
            assert (counted <= mass * (1 + 1e-12)).all()
            assert counted.max() <= 2.0 * counted.sum() / most * (1 + 1e-8)
            below = counted < counted.max() * (1 - 1e-9)
            np.testing.assert_allclose(counted[below], mass[below], rtol=1e-12)


@pytest.mark.parametrize("weight", [1e-250, 1.0, 1e250])
def test_absurd_weights_end(weight):
    x = np.random.default_rng(1).normal(size=(2_000, 1))
    weights = np.where(np.arange(2_000) < 120, weight, 1.0)
    book = Encoder.learn(x, max_codes=254, sample_weight=weights).codebooks[0]
    assert 100 <= book.support.size <= 254


def test_categories_are_levels_whatever_their_values():
    frame = pd.DataFrame(
        {
            "zone": pd.Series([3, 1, 2, 1, 3]).astype("category"),
            "flag": pd.Series([True, False, True, True, False]).astype("category"),
            "size": pd.Categorical(
                ["mid", "low", "high", "low", None], categories=["low", "mid", "high"], ordered=True
            ),
            "number": [1, 2, 3, 1, 2],
        }
    )
    books = Encoder.learn(frame).codebooks
    assert [type(book.kind) for book in books] == [Categorical, Categorical, Categorical, Spline]
    assert books[0].support.values.tolist() == [1.0, 2.0, 3.0]
    assert books[1].support.values.tolist() == [0.0, 1.0]
    assert books[2].support.values.tolist() == ["low", "mid", "high"]
    codes = Encoder.learn(frame).encode(frame.assign(zone=frame["zone"].astype(int), size=frame["size"].astype(object)))
    assert codes.columns[0].tolist() == [2, 0, 1, 0, 2]
    assert codes.columns[2].tolist() == [1, 0, 2, 0, 3]
    given = Encoder.learn(frame, {"zone": Spline()}).codebooks[0]
    assert isinstance(given.kind, Spline)


def test_ordered_levels_of_polars():
    frame = pl.DataFrame({"a": pl.Series(["x", "y", "z"], dtype=pl.Enum(["z", "x", "y"]))})
    assert Encoder.learn(frame).codebooks[0].support.values.tolist() == ["z", "x", "y"]


@pytest.mark.parametrize(
    "table",
    [
        np.array([[2**53 + 1], [3]]),
        np.array([[2**64 - 1], [3]], dtype=np.uint64),
        np.array([[2**53 + 1], [None]], dtype=object),
        np.array([[10**400], [1]], dtype=object),
        pd.DataFrame({"x0": [2**53 + 1, 3]}),
        pd.DataFrame({"x0": pd.array([2**53 + 1, None], dtype="Int64")}),
        pl.DataFrame({"x0": [2**53 + 1, None]}),
    ],
    ids=str,
)
def test_integers_that_numbers_would_round_are_refused(table):
    with pytest.raises(ValueError, match=r"column 'x0' holds .*pass identifiers as text"):
        Encoder.learn(table)


def test_large_integers_that_are_numbers_are_kept():
    book = Encoder.learn(np.array([[2**60], [2**61], [-(2**62)]])).codebooks[0]
    assert book.support.values.tolist() == [-(2.0**62), 2.0**60, 2.0**61]


def test_edges_and_means_of_bins_have_few_digits():
    """Codes of the rows are those of edges in the middle, and means are those of the bins but for a millionth."""
    x = np.random.default_rng(0).normal(size=10_000) + 1e3
    support, edges = learn_numbers(x, None, 100)
    ordered = np.sort(x)
    below, above = ordered[99:-1:100], ordered[100::100]
    assert ((edges > below) & (edges < above)).all()
    assert (np.abs(edges - 0.5 * (below + above)) <= 0.25 * (above - below)).all()
    means = ordered.reshape(100, 100).mean(axis=1)
    least = min((edges - means[:-1]).min(), (means[1:] - edges).min())
    assert 0.0 < np.abs(support.values - means).max() < 2e-6 * least
    for numbers, step in ((edges, 0.25 * (above - below).min()), (support.values, 2.0**-22 * least)):
        multiples = numbers / np.exp2(np.floor(np.log2(step)))
        np.testing.assert_array_equal(multiples, np.rint(multiples))


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e300])
def test_bins_of_tiny_and_huge_numbers_keep_their_order(scale):
    x = np.random.default_rng(0).normal(size=1_000) * scale
    support, edges = learn_numbers(x, None, 50)
    assert (np.diff(support.values) > 0.0).all()
    np.testing.assert_array_equal(np.searchsorted(edges, support.values), np.arange(support.size))


def test_means_of_bins_that_have_few_decimals_stay_as_they_are():
    x = np.arange(500.0) / 10.0
    np.testing.assert_array_equal(learn_numbers(x, None, 250)[0].values, x.reshape(250, 2).mean(axis=1))


def test_codes_of_some_columns():
    first, second = np.arange(3, dtype=np.uint8), np.array([299, 1, 0], dtype=np.uint16)
    chosen = Codes((first, np.zeros(3, dtype=np.uint8), second), (4, 2, 300)).of_columns([2, 0])
    assert chosen.sizes == (300, 4)
    assert chosen.columns[0] is second
    assert chosen.columns[1] is first
