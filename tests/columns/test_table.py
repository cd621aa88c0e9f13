"""Tables of every make read the same; what cannot be read is refused by name."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from ahofm.columns.table import read_table

DATA = {
    "size": [1.5, None, 3.0],
    "count": [1, 2, None],
    "flag": [True, False, True],
    "town": ["a", None, "b"],
}

FRAMES = {
    "pandas": lambda: pd.DataFrame(DATA),
    "pandas-nullable": lambda: pd.DataFrame(DATA).convert_dtypes(),
    "pandas-object": lambda: pd.DataFrame(DATA).astype(object),
    "pandas-category": lambda: pd.DataFrame(DATA).astype({"town": "category"}),
    "pandas-arrow": lambda: pd.DataFrame(DATA).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda: pl.DataFrame(DATA),
    "polars-categorical": lambda: pl.DataFrame(DATA).with_columns(pl.col("town").cast(pl.Categorical)),
    "polars-enum": lambda: pl.DataFrame(DATA).with_columns(pl.col("town").cast(pl.Enum(["a", "b"]))),
    "arrow": lambda: pa.table(DATA),
    "arrow-dictionary": lambda: pa.table({**DATA, "town": pa.array(DATA["town"]).dictionary_encode()}),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_every_frame_reads_the_same(make):
    table = read_table(make())
    assert table.names == ("size", "count", "flag", "town")
    assert table.named
    assert table.n_rows == 3
    np.testing.assert_array_equal(table.columns[0], [1.5, np.nan, 3.0])
    np.testing.assert_array_equal(table.columns[1], [1.0, 2.0, np.nan])
    np.testing.assert_array_equal(table.columns[2], [1.0, 0.0, 1.0])
    assert [column.dtype for column in table.columns] == [np.float64, np.float64, np.float64, object]
    assert table.columns[3].tolist() == ["a", None, "b"]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint16, np.bool_])
def test_numeric_arrays(dtype):
    table = read_table(np.array([[0, 1], [1, 1]], dtype=dtype))
    assert table.names == ("x0", "x1")
    assert not table.named
    np.testing.assert_array_equal(table.columns[0], [0.0, 1.0])


def test_lists_and_object_arrays():
    rows = [[1, "a"], [None, "b"], [2.5, None]]
    for table in (read_table(rows), read_table(np.array(rows, dtype=object))):
        np.testing.assert_array_equal(table.columns[0], [1.0, np.nan, 2.5])
        assert table.columns[1].tolist() == ["a", "b", None]
    np.testing.assert_array_equal(read_table([[1, 2], [3, 4]]).columns[1], [2.0, 4.0])


def test_text_arrays():
    assert read_table(np.array([["a", "b"], ["c", "b"]])).columns[0].tolist() == ["a", "c"]


def test_every_way_to_be_missing():
    frame = pd.DataFrame({"a": pd.Series([None, np.nan, pd.NA, "x"], dtype=object)})
    assert read_table(frame).columns[0].tolist() == [None, None, None, "x"]


def test_a_float64_array_is_not_copied():
    X = np.zeros((10, 2))
    assert all(np.shares_memory(column, X) for column in read_table(X).columns)


@pytest.mark.parametrize(
    "empty",
    [np.empty((0, 3)), pd.DataFrame({"a": []}), pl.DataFrame({"a": []}), pa.table({"a": pa.array([], pa.float64())})],
)
def test_no_rows(empty):
    with pytest.raises(ValueError, match="no rows"):
        read_table(empty)


@pytest.mark.parametrize("empty", [np.empty((3, 0)), pd.DataFrame(index=range(3)), pl.DataFrame()])
def test_no_columns(empty):
    with pytest.raises(ValueError, match="no columns"):
        read_table(empty)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]),
        pd.DataFrame([[1, 2]], columns=["1", 1]),
        pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "b", "a"]),
    ],
)
def test_repeated_names(frame):
    with pytest.raises(ValueError, match=r"(?s)names must differ.*('a'|'1')"):
        read_table(frame)


@pytest.mark.parametrize("make", [pd.DataFrame, lambda d: np.array(d["a"], dtype=object)[:, None]])
def test_mixed_types_in_one_column(make):
    with pytest.raises(
        TypeError, match=r"column '(a|x0)' mixes values of type (int, str|str, int); make it all numbers or all text"
    ):
        read_table(make({"a": [1, "b", None]}))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: np.column_stack([np.zeros(4), x]),
        lambda x: np.column_stack([np.zeros(4), x]).astype(object),
        lambda x: pd.DataFrame({"x0": np.zeros(4), "x1": x}),
        lambda x: pl.DataFrame({"x0": np.zeros(4), "x1": x}),
        lambda x: pa.table({"x0": np.zeros(4), "x1": x}),
    ],
    ids=["numpy", "object", "pandas", "polars", "arrow"],
)
def test_infinite_values_name_column_and_row(make):
    with pytest.raises(ValueError, match=r"column 'x1' is infinite in row 2 \(and 1 more\); replace infinities"):
        read_table(make(np.array([np.nan, 0.0, -np.inf, np.inf])))


def test_large_finite_values_are_not_infinite():
    read_table(np.full((4, 2), 1.7e308))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (sp.eye_array(3), "sparse matrix; pass a dense array"),
        ("text", "must be a NumPy array or a pandas, polars or Arrow table, got str"),
        (None, "got NoneType"),
        (pl.LazyFrame({"a": [1]}), "got LazyFrame"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), "X has dtype datetime64"),
        (np.array([[1j]]), "X has dtype complex128"),
        (
            pd.DataFrame({"when": pd.to_timedelta([1], unit="D")}),
            "column 'when' has type Duration.*turn it into text or numbers",
        ),
        (pl.DataFrame({"when": [datetime.timedelta(1)]}), "column 'when' has type Duration"),
        (pl.DataFrame({"list": [[1, 2]]}), "column 'list' has type List"),
    ],
)
def test_what_is_no_table(X, message):
    with pytest.raises(TypeError, match=message):
        read_table(X)


def test_wrong_dimensions():
    with pytest.raises(ValueError, match=r"two dimensions .* got 1; for one column use X.reshape\(-1, 1\)"):
        read_table(np.zeros(3))
    with pytest.raises(ValueError, match="got 3"):
        read_table(np.zeros((2, 2, 2)))
