"""Groups, splitters and time: validation rows of every choice that a fit makes."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, LeaveOneGroupOut, TimeSeriesSplit

from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.columns import Encoder
from ahofm.columns.table import read_table
from ahofm.families import Gaussian
from ahofm.fit.solvers.penalised import training_and_validation_rows
from ahofm.rows import ArraySource
from ahofm.training.data import counted_rows, prepare
from ahofm.training.splits import folds_of_groups, given_splits, group_codes, roles_of, time_splits, with_roles
from ahofm.training.validation import mean_and_error

pytestmark = pytest.mark.slow

QUICK = {"random_state": 0, "n_members": 1, "order": 2, "rank": 4, "n_jobs": 1}


def clustered(seed=0, per=20):
    """Cells of two columns are groups with an effect of their own: only rows of a known cell can be told."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(rng.permutation(36), per)
    X = pd.DataFrame({"a": groups // 6, "b": groups % 6, "c": rng.normal(size=len(groups))})
    own = 0.8 * rng.normal(size=36)
    y = 0.3 * X.a + np.sin(2 * X.c) + own[groups] + 0.3 * rng.normal(size=len(groups))
    return X, y.to_numpy(), groups


def test_random_folds_choose_interactions_that_grouped_ones_refuse():
    X, y, groups = clustered()
    new_rows, new_y, _ = clustered(7)  # the same cells, with other effects
    random = AHOFMRegressor(**QUICK).fit(X, y)
    grouped = AHOFMRegressor(**QUICK).fit(X, y, groups=groups)
    split = AHOFMRegressor(**QUICK, cv=GroupKFold(4)).fit(X, y, groups=[f"g{k}" for k in groups])
    assert random.model_.ranks == {2: 4}
    assert random.model_.gains[0].gain > 10 * random.model_.gains[0].error
    for model in (grouped, split):
        assert not model.model_.ranks
        assert model.model_.gains[0].gain < 2 * model.model_.gains[0].error
        assert model.score(new_rows, new_y) > random.score(new_rows, new_y) + 0.05


def test_several_classes_and_two_classes_keep_groups_together():
    X, y, groups = clustered()
    three, two = np.digitize(y, [0.0, 1.5]), y > np.median(y)
    for labels, most in ((three, 0.1), (two, 0.1)):
        gains = [
            AHOFMClassifier(order=2, random_state=0, n_jobs=1, n_members=1).fit(X, labels, groups=own).model_.gains[0]
            for own in (None, groups)
        ]
        assert gains[0].gain > max(most, 4 * gains[0].error)
        assert gains[1].gain < max(most, 2 * gains[1].error)


def test_a_splitter_an_iterable_and_masks_of_rows_are_the_same_fit():
    X, y, groups = clustered()
    order = np.random.default_rng(1).permutation(len(y))
    X, y, groups = X.iloc[order], y[order], groups[order]
    splits = list(GroupKFold(3).split(X, y, groups))
    fits = [
        AHOFMRegressor(**QUICK, cv=cv).fit(X, y, groups=groups).predict(X)
        for cv in (GroupKFold(3), splits, iter(splits))
    ]
    np.testing.assert_array_equal(fits[0], fits[1])
    np.testing.assert_array_equal(fits[0], fits[2])
    five = AHOFMRegressor(**QUICK, cv=5).fit(X, y)
    assert five.model_.validated.rows == len(y)
    early = AHOFMRegressor(**QUICK, cv=TimeSeriesSplit(3)).fit(X, y)
    assert early.model_.validated.rows == 3 * (len(y) // 4)
    two = AHOFMRegressor(**QUICK, cv=KFold(2)).fit(X, y, sample_weight=np.where(np.arange(len(y)) < 100, 0.0, 1.0))
    assert two.model_.validated.rows == len(y) - 100


def test_equal_rows_of_different_groups_or_roles_are_not_merged():
    X = read_table(np.repeat([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], 4, axis=0))
    y = np.repeat([1.0, 2.0, 3.0], 4)
    groups = np.tile([0, 0, 1, 2], 3)
    splits = [(np.flatnonzero(np.tile([1, 1, 1, 0], 3)), np.flatnonzero(np.tile([0, 0, 0, 1], 3)))]
    encoder = Encoder.learn(X, None)

    def merged(**given):
        table, rows = counted_rows(X, y, None, None, Gaussian(), **given)
        return prepare(table, rows, encoder, Gaussian(), all_raw=True, n_threads=1).rows

    assert len(merged().y) == 3
    own = merged(groups=groups)
    assert len(own.y) == 9
    assert own.weight.sum() == 12
    parted = merged(splits=splits)
    assert len(parted.y) == 6
    (fitted, rest), *_ = given_splits(parted, 0, dispersed=True)
    assert parted.weight[fitted].sum() == 9
    assert parted.weight[rest].sum() == 3


def test_folds_of_groups_are_balanced_and_whole():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 30, 1000)
    fold = folds_of_groups(groups, None, 3, 0)
    assert all(len(np.unique(fold[groups == group])) == 1 for group in range(30))
    assert np.ptp(np.bincount(fold)) < 60
    rare = (groups % 6 == 0).astype(float)
    fold = folds_of_groups(groups, rare, 3, 0)
    assert all(len(np.unique(fold[groups == group])) == 1 for group in range(30))
    assert min(rare[fold == k].sum() for k in range(3)) > 20


def test_groups_of_one_row_are_random_folds():
    X, y, _ = clustered()
    model = AHOFMRegressor(**QUICK).fit(X, y, groups=np.arange(len(y)))
    assert model.model_.validated.rows == len(y)
    assert model.model_.ranks


def test_few_groups_have_as_many_folds():
    X, y, groups = clustered()
    table, rows = counted_rows(read_table(X), y, None, None, Gaussian(), groups=groups % 2)
    rows = with_roles(rows, None, 0, dispersed=True, default_folds=3)
    assert rows.roles.shape == (len(y), 2)
    assert ((rows.roles == 2).sum(axis=1) == 1).all()
    assert table.n_rows == len(y)


def test_standard_errors_count_groups():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(50), 40)
    draws = [
        mean_and_error((rng.normal(size=50)[groups] + 0.1 * rng.normal(size=2000)), np.ones(2000), groups)
        for _ in range(200)
    ]
    means, errors = np.array(draws).T
    assert abs(errors.mean() / means.std() - 1) < 0.15
    assert mean_and_error(np.full(3, 2.0), np.ones(3), np.zeros(3, dtype=int)) == (2.0, 2.0)
    values, weight = rng.normal(size=100), rng.uniform(1, 2, 100)
    alone = mean_and_error(values, weight, np.arange(100))
    np.testing.assert_allclose(alone, mean_and_error(values, weight), rtol=0.1)


def test_early_stopping_holds_out_whole_groups():
    X, y, groups = clustered()
    _, rows = counted_rows(read_table(X), y, None, None, Gaussian(), groups=groups)
    rows = with_roles(rows, None, 0, dispersed=True, default_folds=3, fraction=0.1)
    codes = Encoder.learn(read_table(X), None).encode(read_table(X))
    train, rest = training_and_validation_rows(ArraySource(codes, y), 0.1, 0, rows.roles)
    kept, held = (set(np.asarray(source.y)) for source in (train, rest))
    assert 0.05 < len(held) / len(y) < 0.15
    own = np.array([value in held for value in y])
    assert all(len(np.unique(own[groups == group])) == 1 for group in range(36))
    assert not kept & held
    grouped = AHOFMRegressor(solver="adam", order=2, rank=4, random_state=0).fit(X, y, groups=groups)
    random = AHOFMRegressor(solver="adam", order=2, rank=4, random_state=0).fit(X, y)
    assert not np.array_equal(grouped.predict(X), random.predict(X))


def test_time_splits_predict_later_rows_and_keep_equal_times_together():
    times = np.array([3, 1, 2, 2, 2, 4, 5, 6, 7, 8, 8, 8])
    splits = time_splits(times, 3)
    for fitted, rest in splits:
        assert times[fitted].max() < times[rest].min()
    assert sorted(np.concatenate([splits[0][0], *(rest for _, rest in splits)])) == list(range(12))
    with pytest.raises(ValueError, match="2 different times are too few for 3 splits"):
        time_splits(np.array([1, 1, 2, 2]), 3)
    dates = pd.date_range("2020-01-01", periods=12).to_numpy()
    assert len(time_splits(dates, 3)) == 3


def test_metadata_routing_brings_groups_to_the_fit():
    X, y, groups = clustered(per=8)
    with sklearn.config_context(enable_metadata_routing=True):
        model = AHOFMRegressor(**QUICK).set_fit_request(groups=True)
        found = GridSearchCV(model, {"order": [1, 2]}, cv=GroupKFold(2), error_score="raise")
        found.fit(X, y, groups=groups)
        assert not found.best_estimator_.model_.ranks
        assert found.best_estimator_.model_.validated is None or found.best_params_["order"] == 2


class Nothing:
    """A splitter that returns nothing."""

    def split(self, X, y=None, groups=None):
        return iter(())


@pytest.mark.parametrize(
    ("cv", "groups", "message"),
    [
        (None, np.zeros(60), "groups is 0.0 in every row; validation rows need groups of their own"),
        (None, np.arange(59), r"groups has shape \(59,\), expected \(60,\): one group per row"),
        (None, [None, *range(59)], "groups is missing in row 0; give every row a group"),
        (None, [*range(59), np.nan], "groups is missing in row 59"),
        (Nothing(), None, "cv gave no splits; it must give at least one pair"),
        ([], None, "cv gave no splits"),
        ([([], [1])], None, "cv: split 0 has no rows to fit; every split needs both"),
        ([([1], [])], None, "cv: split 0 has no validation rows"),
        ([([0, 1, 2], [2, 3])], None, "cv: row 2 is fitted and validated in split 0"),
        ([([0, 1], [2, 60])], None, "cv: split 0 names row 60, but X has rows 0 to 59"),
        ([([0, 1], [2, -1])], None, "cv: split 0 names row -1, but X has rows 0 to 59"),
        ([([0.5], [1])], None, "cv: split 0 must hold row numbers, got an array of float64"),
        ([3], None, "cv: split 0 is int, not a pair"),
        (1, None, "cv must be at least 2 folds, got 1"),
        (61, None, "cv=61 is more folds than there are rows: 60 rows"),
        (5, np.repeat([0, 1], 30), "cv=5 is more folds than there are groups: 2 groups"),
        ("kfold", None, "cv must be None, a number of folds, a splitter"),
        (GroupKFold(3), None, "'groups' parameter should not be None"),
        (LeaveOneGroupOut(), np.zeros(60), "expects at least 2"),
    ],
)
def test_bad_groups_and_splits(cv, groups, message):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    with pytest.raises((ValueError, TypeError), match=message):
        AHOFMRegressor(cv=cv).fit(X, X[:, 0], groups=groups)
    if not (cv is None and groups is None):
        with pytest.raises((ValueError, TypeError), match=message):
            AHOFMClassifier(cv=cv).fit(X, rng.integers(0, 3, 60), groups=groups)


def test_splits_whose_targets_are_equal_are_refused():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 2)), np.r_[np.zeros(50), rng.normal(size=50)]
    with pytest.raises(ValueError, match="cv: targets of the rows to fit"):
        AHOFMRegressor(cv=[(np.arange(50), np.arange(50, 100))]).fit(X, y)
    weight, groups = np.r_[np.ones(50), np.zeros(50)], np.repeat([0, 1], 50)
    with pytest.raises(ValueError, match="no rows of positive weight"):
        AHOFMRegressor(cv=[(np.arange(50), np.arange(50, 100))]).fit(X, y[::-1], sample_weight=weight)
    with pytest.raises(ValueError, match="groups: all rows of positive weight are of one group"):
        AHOFMRegressor().fit(X, y[::-1], sample_weight=weight, groups=groups)


def test_group_codes_are_numbers_of_any_labels():
    np.testing.assert_array_equal(group_codes(["b", "a", "b"], 3), [0, 1, 0])
    np.testing.assert_array_equal(group_codes(np.array([("x", 1), 2, ("x", 1)], dtype=object), 3), [0, 1, 0])
    np.testing.assert_array_equal(group_codes(pd.Series([5.5, 5.5, 1.0]), 3), [0, 0, 1])
    np.testing.assert_array_equal(roles_of([(np.array([0]), np.array([2]))], 3)[:, 0], [1, 0, 2])


def test_pieces_have_no_splits():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="cv names validation rows of one table"):
        AHOFMRegressor(cv=3).partial_fit(rng.normal(size=(50, 2)), rng.normal(size=50))


def test_many_rows_have_random_parts_of_their_splits():
    rng = np.random.default_rng(0)
    y, groups = rng.normal(size=30_000), rng.integers(0, 100, 30_000)
    table = read_table(rng.normal(size=(30_000, 1)))
    _, rows = counted_rows(table, y, None, None, Gaussian(), groups=groups)
    rows = with_roles(rows, None, 0, dispersed=True, default_folds=3)
    ((fitted, rest),) = given_splits(rows, 0, dispersed=True)
    assert len(fitted) == 8_000
    assert not set(groups[fitted]) & set(groups[rest])
