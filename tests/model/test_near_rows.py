"""Training rows near a row count as parts of copies: against loops, where they gain, and where they are said."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ahofm import AHOFMClassifier, AHOFMRegressor, load
from ahofm.columns.table import read_table
from ahofm.explain import contributions, shapley_values
from ahofm.export import to_python
from ahofm.model.near_rows import codes_of, distances

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:1 constant column")]

CLUSTERS = 120
NUMBERS = ["a", "b", "e", "f", "g", "h"]
LEVELS = np.array(["x", "y", "z"], dtype=object)


def rows(seed):
    """Clusters of nearly equal rows with targets of their own, some of them copies; a missing value, a constant."""
    rng = np.random.default_rng(5)
    centres, level = rng.integers(0, 6, (CLUSTERS, 6)), rng.integers(0, 3, CLUSTERS)
    own = 2.0 * rng.normal(size=CLUSTERS)
    rng = np.random.default_rng(seed)
    at = rng.integers(0, CLUSTERS, 500)
    table = pd.DataFrame(10.0 * centres[at] + (rng.uniform(size=(500, 6)) < 0.15), columns=NUMBERS)
    table.loc[at < 3, "b"] = np.nan
    return table.assign(c=LEVELS[level[at]], d=1.0), own[at] + 0.02 * table["a"] + 0.3 * rng.normal(size=500)


X, Y = rows(0)
FRESH, NEW = rows(1)
ODD = X[:2].assign(a=[-9.0, 33.3], b=[np.nan, 1e6], c=["x", "never seen"])


@pytest.fixture(scope="module")
def fitted():
    return AHOFMRegressor(random_state=0).fit(X, Y)


def place_by_hand(values, value):
    """The middle rank of the training value nearest to a value, as a fraction of the rows; 1.5 where it is missing."""
    if np.isnan(value):
        return 1.5
    nearest = values[np.argmin(np.abs(values - value))]
    return (np.sum(values < nearest) + 0.5 * np.sum(values == nearest)) / len(values)


def distance_by_hand(one, other, table):
    """Mean over columns of differences in middle ranks; half of a unit between levels."""
    total = 0.5 * (one["c"] != other["c"])
    for name in NUMBERS:
        values = table[name].dropna().to_numpy()
        total += abs(place_by_hand(values, one[name]) - place_by_hand(values, other[name]))
    return total / 7.0


@pytest.mark.parametrize("classes", [False, True])
def test_near_rows_have_the_credibility_formula_with_parts_of_copies(fitted, classes):
    y = (np.median(Y) < Y).astype(int) if classes else Y
    model = AHOFMClassifier(random_state=0).fit(X, y) if classes else fitted
    memory, without = model.model_.repeated, model.forget_rows()
    given = pd.concat([X[:4], FRESH[:4], ODD], ignore_index=True)
    before = without.predict_proba(given)[:, 1] if classes else without.predict(given)
    expected = []
    for at, own in enumerate(before):
        part = [np.exp(-distance_by_hand(given.iloc[at], X.iloc[i], X) / memory.near.width) for i in range(len(X))]
        expected.append((part @ y + memory.kappa * own) / (np.sum(part) + memory.kappa))
    found = model.predict_proba(given)[:, 1] if classes else model.predict(given)
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    assert memory.near.counts.sum() == len(X)
    assert len(memory.near.counts) == len(X.drop_duplicates())


def test_they_predict_better_than_copies_alone(fitted, monkeypatch):
    monkeypatch.setattr("ahofm.training.credibility.NEAR_STANDARD_ERRORS", np.inf)
    alone = AHOFMRegressor(random_state=0).fit(X, Y)
    assert alone.model_.repeated is None or alone.model_.repeated.near is None
    errors = [np.mean((model.predict(FRESH) - NEW) ** 2) for model in (fitted, alone, fitted.forget_rows())]
    assert errors[0] < 0.9 * errors[1], errors
    assert errors[0] < 0.95 * errors[2], errors


def test_not_where_near_rows_tell_nothing():
    y = 0.05 * X["a"] + np.random.default_rng(3).normal(size=len(X))
    memory = AHOFMRegressor(random_state=0).fit(X, y).model_.repeated
    assert memory is None or memory.near is None


def test_not_with_too_many_rows(monkeypatch):
    monkeypatch.setattr("ahofm.training.credibility.MOST_NEAR_ROWS", 100)
    memory = AHOFMRegressor(random_state=0).fit(X, Y).model_.repeated
    assert memory is None or memory.near is None


def test_said_saved_explained_and_left_out(fitted, tmp_path):
    choice = fitted.model_.choices[-1]
    assert choice.name == "repeated rows"
    assert "rows near them" in choice.value
    assert "on validation rows were" in choice.reason
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    given = pd.concat([FRESH[:50], ODD], ignore_index=True)
    np.testing.assert_allclose(again.predict(given), fitted.predict(given), rtol=1e-6)
    parts, shares = contributions(fitted, given), shapley_values(fitted, given)
    total = fitted.predict_eta(given)
    np.testing.assert_allclose(parts.intercept + parts.values.sum(axis=1) + parts.rest, total, rtol=1e-9)
    np.testing.assert_allclose(shares.base + shares.values.sum(axis=1), total, rtol=1e-9)
    with pytest.raises(ValueError, match="copies of training rows"):
        to_python(fitted)
    assert fitted.rebalanced(FRESH, NEW).model_.repeated is None  # their effects depend on the intercept
    assert np.mean(fitted.rebalanced(FRESH, NEW).predict(FRESH)) == pytest.approx(np.mean(NEW))


def test_distances_are_zero_for_equal_codes_and_one_half_for_other_levels(fitted):
    books = fitted.model_.encoder.codebooks
    other = X[:1].assign(c="z" if X["c"][0] != "z" else "x")
    codes = codes_of(books, read_table(pd.concat([X[:1], other], ignore_index=True)))
    np.testing.assert_allclose(distances(books, codes, codes), [[0.0, 0.5 / 7], [0.5 / 7, 0.0]], atol=1e-15)


def test_parts_must_fit(fitted):
    memory = fitted.model_.repeated
    near = memory.near
    for bad in (
        {"codes": near.codes[:, :2]},
        {"codes": near.codes + 0.5},
        {"codes": near.codes - 5.0},
        {"sums": near.sums[1:]},
        {"counts": 0.0 * near.counts},
        {"width": 0.0},
    ):
        with pytest.raises(ValueError, match="near rows"):
            replace(fitted.model_, repeated=replace(memory, near=replace(near, **bad)))
