"""Sketches add up to what the whole column would have told, within the error they state."""

import numpy as np
import pytest

from ahofm.columns import Categorical, Encoder
from ahofm.columns.learned import learn_column
from ahofm.rows import dataset, raw_sample_rows
from ahofm.scale import sketch
from ahofm.scale.sketch import ColumnSketch, Numbers, add_up


def sketched(column, weight=None, pieces=7, kind=None, seed=0):
    cuts = np.sort(np.random.default_rng(seed).integers(0, len(column), pieces - 1))
    parts = zip(np.split(column, cuts), [None] * pieces if weight is None else np.split(weight, cuts), strict=True)
    return add_up(ColumnSketch.of("x", part, own, kind, f"piece {k}") for k, (part, own) in enumerate(parts))


def columns():
    rng = np.random.default_rng(0)
    x = rng.normal(size=5_000)
    return {
        "continuous": x,
        "rounded": x.round(1),
        "missing": np.where(x > 1, np.nan, x.round(2)),
        "many codes": np.repeat(rng.normal(size=900), 5),
        "mostly zero": np.where(x > 1.5, x, 0.0),
        "constant": np.ones(100),
        "nothing": np.full(50, np.nan),
        "text": rng.choice(np.array(["u", "v", "w", None], dtype=object), 500),
        "negative zero": np.array([-0.0, 0.0, 1.0, 2.0] * 20),
    }


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("max_codes", [None, 20])
@pytest.mark.parametrize("name", columns())
def test_exact_while_values_are_few(name, max_codes, weighted):
    column = columns()[name]
    weight = np.random.default_rng(1).integers(0, 3, len(column)).astype(float) if weighted else None
    whole = learn_column("x", column, None, max_codes, weight)
    for pieces in (1, 2, 9):
        own = sketched(column, weight, pieces).learned(None, max_codes)
        np.testing.assert_array_equal(own.support.values, whole.support.values)
        np.testing.assert_allclose(own.support.mass, whole.support.mass, rtol=1e-12)
        assert own.support.exact == whole.support.exact
        assert own.missing == whole.missing
        assert (own.support.low, own.support.high) == (whole.support.low, whole.support.high)
        if whole.support.size:
            np.testing.assert_array_equal(own.edges, whole.edges) if whole.edges is not None else None


def test_numbers_as_levels_are_all_kept(monkeypatch):
    monkeypatch.setattr(sketch, "DISTINCT", 40)
    column = np.random.default_rng(0).integers(0, 300, 2_000).astype(float)
    own, whole = (
        sketched(column, kind=Categorical()).learned(Categorical(), None),
        learn_column("x", column, Categorical(), None, None),
    )
    np.testing.assert_array_equal(own.support.values, whole.support.values)
    assert own.edges is None


DRAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy": lambda rng, n: rng.standard_cauchy(size=n) * 1e12,
    "half zero": lambda rng, n: np.where(rng.random(n) < 0.5, 0.0, rng.exponential(size=n)),
    "sorted": lambda rng, n: np.sort(rng.uniform(size=n)),
    "huge": lambda rng, n: 1.7e308 * rng.uniform(-1, 1, size=n),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("weighted", [False, True])
def test_ranks_are_off_by_no_more_than_stated(name, weighted, monkeypatch):
    monkeypatch.setattr(sketch, "CELLS", 256)
    monkeypatch.setattr(sketch, "DISTINCT", 1_024)
    rng = np.random.default_rng(0)
    x = DRAWS[name](rng, 200_000)
    weight = rng.exponential(size=len(x)) if weighted else None
    pieces = np.split(np.arange(len(x)), range(2_048, len(x), 2_048))
    found = add_up(Numbers.of(x[rows], None if weight is None else weight[rows], False) for rows in pieces)
    mass = np.ones(len(x)) if weight is None else weight
    assert found.mass.sum() == pytest.approx(mass.sum())
    order = np.argsort(x)
    at = np.quantile(x, np.linspace(0, 1, 400), method="nearest")
    true = np.concatenate([[0.0], np.cumsum(mass[order])])[np.searchsorted(x[order], at, side="right")]
    own = np.concatenate([[0.0], np.cumsum(found.mass)])[np.searchsorted(found.values, at, side="right")]
    assert 0.0 < found.error < 0.03 * mass.sum(), "98 pieces and 256 cells"
    assert np.abs(own - true).max() <= found.error * (1 + 1e-9)
    assert len(found.values) <= 1_024
    assert found.ends == (x.min(), x.max())


def test_the_error_of_ten_million_rows():
    """What the module's first lines say, with the sizes that are used."""
    rng = np.random.default_rng(0)
    leaf = Numbers.of(rng.normal(size=131_072), None, False)
    found = add_up(leaf for _ in range(76))
    shifted = [Numbers(leaf.values + 1e-9 * k, *_rest(leaf)) for k in range(76)]  # no two of them share a value
    assert found.error <= 0.0007 * found.mass.sum()
    assert add_up(shifted).error <= 0.0007 * found.mass.sum()


def _rest(leaf):
    return leaf.mass, leaf.ends, leaf.error, leaf.hashes, leaf.rows, leaf.whole


@pytest.mark.parametrize("count", [100, 5_000, 200_000])
def test_distinct_values_are_counted(count):
    rng = np.random.default_rng(count)
    values = rng.normal(size=count)
    column = values[rng.integers(0, count, 300_000)]
    found = add_up(Numbers.of(part, None, False) for part in np.array_split(column, 6))
    assert found.n_distinct == pytest.approx(len(np.unique(column)), rel=0.08)


def test_a_column_that_repeats_has_more_codes():
    """More distinct values than a sketch keeps, each many times: 2,048 codes and not 254."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=70_000)
    parts = [Numbers.of(rng.permutation(values), None, False) for _ in range(3)]
    assert add_up(parts).learned(None)[0].size == 2_048
    assert Numbers.of(rng.normal(size=210_000), None, False).learned(None)[0].size == 254


def test_text_and_numbers_do_not_mix():
    parts = [np.array([1.0]), np.array(["a"], dtype=object)]
    sketches = [ColumnSketch.of("x", part, None, None, f"file {k}") for k, part in enumerate(parts)]
    with pytest.raises(TypeError, match="column 'x' holds numbers in file 0 and text in file 1"):
        add_up(sketches)


def test_identifiers_are_no_levels(monkeypatch):
    monkeypatch.setattr(sketch, "MOST_LEVELS", 100)
    column = np.array([f"id {k}" for k in range(200)], dtype=object)
    with pytest.raises(ValueError, match="column 'x' has more than 100 levels"):
        sketched(column)


def test_learned_columns_make_the_same_codebooks():
    X = np.column_stack([columns()["continuous"], columns()["rounded"]])
    whole = Encoder.learn(X)
    again = Encoder.of(whole.learned, named=False)
    np.testing.assert_array_equal(again.encode(X).columns[0], whole.encode(X).columns[0])
    levels = Encoder.of(whole.learned, {1: Categorical()}, named=False)
    np.testing.assert_array_equal(levels.encode(X).columns[1], whole.encode(X).columns[1])
    with pytest.raises(ValueError, match="column 'x0' was binned and cannot be Categorical"):
        Encoder.of(whole.learned, {0: Categorical()})


def test_known_rows_are_spread_and_always_the_same(monkeypatch):
    monkeypatch.setattr(dataset, "RAW_SAMPLE_ROWS", 1_000)
    monkeypatch.setattr(dataset, "_AT_A_TIME", 777)
    rows = raw_sample_rows(50_000)
    assert len(rows) == len(np.unique(rows)) == 1_000
    assert (np.diff(rows) > 0).all()
    counts = np.bincount(rows // 5_000, minlength=10)
    assert (counts > 60).all()
    monkeypatch.setattr(dataset, "_AT_A_TIME", 1 << 22)
    np.testing.assert_array_equal(raw_sample_rows(50_000), rows)
    np.testing.assert_array_equal(raw_sample_rows(900), np.arange(900))
