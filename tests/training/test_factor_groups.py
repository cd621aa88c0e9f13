"""Which columns may interact: groups against brute force over all sets of columns, and errors."""

from itertools import combinations

import numpy as np
import pytest

from ahofm.orders import PRODUCT
from ahofm.training.factor_groups import FactorGroups, allowed_groups, factor_groups
from ahofm.training.settings import Settings
from ahofm.tuning.constraints import JOINT_COLUMNS

NAMES = list("abcdef")


def sets_in(groups):
    """All sets of at least two columns that are in a group."""
    return {frozenset(own) for group in groups for d in range(2, 7) for own in combinations(sorted(group), d)}


@pytest.mark.parametrize("seed", range(30))
def test_groups_hold_exactly_what_is_allowed(seed):
    rng = np.random.default_rng(seed)
    given = [list(rng.choice(6, rng.integers(1, 5), replace=False)) for _ in range(rng.integers(0, 3))]
    barred = [tuple(rng.choice(6, rng.integers(1, 4), replace=False)) for _ in range(rng.integers(1, 5))]
    found = allowed_groups(given or None, barred, NAMES)
    groups = [set(group) for group in given] or [set(range(6))]
    rest = set(range(6)).difference(*groups)  # scikit-learn: a further group
    expected = {own for own in sets_in([*groups, rest]) if not any(set(one) <= own for one in barred)}
    assert sets_in(found) == expected
    assert not any(one < other for one in found for other in found)


def test_names_positions_and_single_columns():
    assert allowed_groups([("a", 1), ["b", "c"]], None, NAMES) == [{3, 4, 5}, {0, 1}, {1, 2}]
    assert allowed_groups(None, ["a"], NAMES) == [{1, 2, 3, 4, 5}]
    assert allowed_groups("pairwise", None, NAMES) is None
    assert allowed_groups(None, [], NAMES) is None


def test_factors_of_a_group_have_no_other_columns():
    groups = FactorGroups(4, ((0, 1, 2), (2, 3)))
    out = groups.left_out(2, 5)
    assert out.T.tolist() == [[False, False, False, True], [True, True, False, False]] * 2 + [[False] * 3 + [True]]
    assert groups.left_out(3, 1).T.tolist() == [[False, False, False, True]]
    assert groups.of_order(4) == ()
    assert groups.of_order(PRODUCT) == groups.groups
    assert groups.total_rank(2, 4, given=True) == 8
    assert groups.total_rank(4, 4) == 0
    assert FactorGroups(4).left_out(2, 3) is None
    assert FactorGroups(4, tuple((0, k) for k in range(1, 4)) * 10).total_rank(2, 4) == 60  # two for each of 30


def test_columns_that_do_not_vary_are_in_no_group():
    settings = Settings(interaction_cst=[["a", "b"], ["c", "d"]])
    assert factor_groups(settings, NAMES, [0, 2, 3]).groups == ((1, 2),)
    assert factor_groups(Settings(exclude=[("a", "b")]), NAMES, [1, 2, 3]).groups is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"interaction_cst": "all"}, "interaction_cst must be None, 'no_interactions', 'pairwise' or a list"),
        ({"interaction_cst": 3}, "interaction_cst must be None"),
        ({"interaction_cst": ["ab"]}, "interaction_cst must have sets of columns, such as"),
        ({"interaction_cst": [("a", "z")]}, "names column 'z', which X does not have; its columns are 'a', 'b'"),
        ({"interaction_cst": [[0, 6]]}, "names column 6, which X does not have"),
        ({"interaction_cst": [[]]}, "interaction_cst has an empty set"),
        ({"exclude": [("a", "a")]}, "exclude names column 'a' twice in one set; name it once, or alone to leave it"),
        ({"interaction_cst": [("a", 0, "b")]}, "interaction_cst names column 'a' twice in one set; name it once"),
        ({"exclude": "a"}, "exclude must be a list of sets of columns, got 'a'"),
        ({"exclude": [("a", -1)]}, "exclude names column -1"),
        ({"exclude": [{"a": 1}]}, "exclude must have sets of columns"),
    ],
)
def test_bad_constraints(settings, message):
    with pytest.raises(ValueError, match=message):
        factor_groups(Settings(**settings), NAMES, range(6))


def test_too_many_groups():
    names = [f"x{k}" for k in range(20)]
    pairs = [(2 * k, 2 * k + 1) for k in range(10)]  # 2^10 largest sets
    with pytest.raises(ValueError, match="leaves more than 100 groups"):
        allowed_groups(None, pairs, names)


def test_factors_go_to_the_groups_that_keep_most_of_them():
    groups = FactorGroups(4, ((0, 1, 2), (2, 3)))
    assert groups.allowed().astype(int).tolist() == [[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 1, 1]]
    assert FactorGroups(4).allowed() is None
    of_first, of_second, of_both = [3.0, 2.0, 1.0, 0.1], [0.1, 0.0, 1.0, 2.0], [0.0, 0.0, 2.0, 0.0]
    first, second = [False, False, False, True], [True, True, False, False]
    out = groups.left_out_of(np.transpose([of_first, of_second, of_first, of_both]), 2)
    assert out.T.tolist() == [first, second, first, second]  # what both keep goes to the one with fewer factors
    out = groups.left_out_of(np.transpose([of_first] * 3), 2)
    assert out.T.tolist() == [first, first, second]  # every group has a factor


def test_pairs_of_few_columns_share_the_rank():
    groups = FactorGroups(5, ((0, 1, 2), (2, 3), (3, 4)))
    assert [groups.total_rank(2, rank, spectral=True) for rank in (2, 4)] == [3, 4]
    assert groups.total_rank(2, 4, given=True, spectral=True) == 12
    assert groups.total_rank(2, 4) == 6  # two each, in turns
    many = FactorGroups(JOINT_COLUMNS + 1, ((0, 1, 2), (2, 3), (3, 4)))
    assert many.total_rank(2, 4, spectral=True) == 6
