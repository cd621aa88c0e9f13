"""Constraints, groups, censored times and levels that make no sense: each error names the value and the remedy."""

import numpy as np
import pandas as pd
import pytest

from ahofm import AHOFMHazard, AHOFMRegressor

rng = np.random.default_rng(0)
N = 60
X = pd.DataFrame({"age": rng.normal(size=N), "income": rng.normal(size=N), "zone": rng.choice(["north", "south"], N)})
Y = rng.normal(size=N)
UNKNOWN = (
    "names column 'agee', which X does not have; its columns are 'age', 'income', 'zone', or positions from 0 to 2"
)


class Nothing:
    """A splitter that gives no splits."""

    def split(self, *_):
        return iter(())


def times(column, value):
    found = np.column_stack([rng.exponential(size=N) + 0.1, np.ones(N)])
    found[3, column] = value
    return found


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"monotonic_cst": {"agee": 1}}, f"monotonic_cst {UNKNOWN}"),
        ({"exclude": [("age", "agee")]}, f"exclude {UNKNOWN}"),
        ({"interaction_cst": [("age", "agee")]}, f"interaction_cst {UNKNOWN}"),
        (
            {"monotonic_cst": {"zone": 1}},
            "monotonic_cst names column 'zone', which holds levels without an order; convert it to numbers",
        ),
        (
            {"monotonic_cst": {"age": 1, 0: -1}},
            "monotonic_cst asks for two shapes of column 'age': increasing and decreasing; name it once",
        ),
        (
            {"monotonic_cst": {"age": "convex"}, "order": 2},
            "monotonic_cst={'age': 'convex'} is for columns without interactions: add exclude=['age'], or fit order=1",
        ),
        (
            {"interaction_cst": "pairwise", "order": 3},
            "order=3 contradicts interaction_cst='pairwise', which allows order 2; leave one of them out",
        ),
        ({"cv": Nothing()}, "cv gave no splits; it must give at least one pair of rows to fit and validation rows"),
        (
            {"cv": [([0, 1], [2, N])]},
            f"cv: split 0 names row {N}, but X has rows 0 to {N - 1}; use those",
        ),
        (
            {"cv": N + 1},
            f"cv={N + 1} is more folds than there are rows: {N} rows; give at most that many",
        ),
    ],
)
def test_constraints_and_splits_that_make_no_sense(settings, message):
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        AHOFMRegressor(**settings).fit(X, Y)
    assert str(raised.value) == message


def test_groups():
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        AHOFMRegressor().fit(X, Y, groups=np.full(N, "a"))
    expected = "groups is 'a' in every row; validation rows need groups of their own: give at least two, or none"
    assert str(raised.value) == expected
    of_one_row = AHOFMRegressor(order=1, random_state=0).fit(X, Y, groups=np.arange(N))
    assert np.isfinite(of_one_row.predict(X)).all()  # groups with one member each are rows
    one_alone = AHOFMRegressor(order=1, random_state=0).fit(X, Y, groups=[0, *np.repeat([1, 2], N // 2)][:N])
    assert np.isfinite(one_alone.predict(X)).all()


@pytest.mark.parametrize("model", [AHOFMRegressor(family="weibull"), AHOFMHazard()])
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (
            1,
            2.0,
            "y: the event must be 1, or 0 where the time is censored, got 2 in row 3; recode it, or swap the columns "
            "of y, which are time and event",
        ),
        (
            0,
            0.0,
            "y: times must be positive and finite, got 0 in row 3; drop the row, or count time from an earlier start",
        ),
        (
            0,
            -4.0,
            "y: times must be positive and finite, got -4 in row 3; drop the row, or count time from an earlier start",
        ),
    ],
)
def test_censoring_codes_and_times(model, column, value, message):
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        model.fit(X, times(column, value))
    assert str(raised.value) == message


def test_levels_with_gaps():
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        AHOFMRegressor(family="ordinal").fit(X, np.where(Y > 0.0, 2.0, 0.0))
    assert str(raised.value) == (
        "y has no row of level 1, between 0 and 2; Ordinal needs levels without gaps: number those that occur 0, 1, "
        "2, ..."
    )


def test_a_pair_that_is_allowed_and_excluded_is_excluded():
    model = AHOFMRegressor(interaction_cst=[("age", "income")], exclude=[("age", "income")], random_state=0).fit(X, Y)
    assert set(model.model_.linear_predictors[0].orders) == set()
