"""Parts of the rows, candidates, and stacking weights of fits to several classes."""

import numpy as np
import pytest
from scipy.special import softmax

from ahofm.orders import PRODUCT
from ahofm.shared_curves.candidates import ClassCandidate, class_candidates
from ahofm.shared_curves.class_rows import ClassRows
from ahofm.shared_curves.search import Judged, Race, Search
from ahofm.shared_curves.stack import class_stacking_weights
from ahofm.training.settings import Settings
from ahofm.training.validation import class_splits


def test_parts_have_every_class_in_proportion() -> None:
    y = np.repeat([0, 1, 2], [200, 30, 3])
    parts = class_splits(y, 0)
    assert len(parts) == 3
    assert np.array_equal(np.sort(np.concatenate([rest for _, rest in parts])), np.arange(len(y)))
    for fitted, rest in parts:
        assert not set(fitted) & set(rest)
        np.testing.assert_array_less(abs(np.bincount(y[rest], minlength=3) - [200 / 3, 10, 1]), 1.01)


def test_many_rows_are_one_split_with_every_class() -> None:
    y = np.repeat([0, 1, 2], [30_000, 3_000, 30])
    ((fitted, rest),) = class_splits(y, 0)
    assert len(fitted) == 8_000
    assert not set(fitted) & set(rest)
    assert (np.bincount(y[fitted], minlength=3) > 0).all()
    assert (np.bincount(y[rest], minlength=3) > 0).all()


def _rows(n: int = 2_000) -> tuple[ClassRows, np.ndarray]:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(3, n))
    y = np.array([rng.choice(3, p=own) for own in softmax(truth, axis=0).T])
    return ClassRows(y, np.ones(n), None, 3), truth


def test_the_truth_has_all_the_weight() -> None:
    rows, truth = _rows()
    weights = class_stacking_weights([np.random.default_rng(1).normal(size=truth.shape), truth], rows)
    assert weights[1] > 0.85
    assert weights[0] < 0.1


def test_noise_is_shrunk_to_constants() -> None:
    rows, truth = _rows()
    weights = class_stacking_weights([3.0 * truth, -truth], rows)
    assert weights[0] == pytest.approx(1 / 3, abs=0.1)
    assert weights[1] < 0.1


def test_weights_are_those_of_the_least_loss() -> None:
    rows, truth = _rows(400)
    rng = np.random.default_rng(2)
    etas = [truth + rng.normal(size=truth.shape) for _ in range(2)]
    found = class_stacking_weights(etas, rows)

    def loss(a: float, b: float) -> float:
        rest = (1.0 - a - b) * rows.constants()[:, np.newaxis]
        ridge = 0.5 * ((a - 0.5) ** 2 + (b - 0.5) ** 2)
        return rows.loss(a * etas[0] + b * etas[1] + rest) + ridge

    best = min((loss(a, b), a, b) for a in np.linspace(0, 1, 41) for b in np.linspace(0, 1 - a, 41))
    assert loss(*found) <= best[0] + 1e-3


@pytest.mark.parametrize(
    ("ranks", "settings", "expected"),
    [
        ({}, Settings(), [{}]),
        ({2: 4}, Settings(), [{}, {2: 16}, {2: 16}, {2: 32}]),
        ({2: 4, 3: 4}, Settings(), [{}, {2: 16}, {2: 16}, {2: 32}, {2: 8, 3: 8}]),
        ({2: 3, 3: 2}, Settings(rank={2: 3, 3: 2}), [{}, {2: 3}, {2: 3}, {2: 3, 3: 2}]),
        ({3: 2}, Settings(rank={3: 2}), [{}, {3: 2}, {3: 2}]),
    ],
)
def test_candidates_have_the_orders_and_ranks_that_were_asked_for(
    ranks: dict[int, int], settings: Settings, expected: list[dict[int, int]]
) -> None:
    found = class_candidates(ranks, settings, scales=[False], n_rows=1_000)
    assert [dict(one.curve_settings.ranks) if one.curve_settings else {} for one in found] == expected


def test_settings_reach_the_candidates() -> None:
    found = class_candidates({2: 3}, Settings(rank=3, max_iter=5, tempering=0.4), scales=[False], n_rows=1_000)
    assert {one.curve_settings.sweeps for one in found if one.curve_settings} == {5}
    assert {one.curve_settings.tempering for one in found if one.curve_settings and one.curve_settings.learned} == {0.4}


def test_products_must_predict_better_than_main_effects() -> None:
    products = class_candidates({2: 4, 3: 4}, Settings(), scales=[False], n_rows=1_000, n_columns=5)
    race = Race(np.ones(100))
    for one in products:
        race.candidates.append(one)
        race.losses[one.name] = np.full(100, 1.0)
    last = race.candidates[-1]
    assert last.name == "product factors of values (16)"
    assert last not in race.remaining()
    race.losses[last.name] = np.full(100, 0.9)
    assert last in race.remaining()
    assert len(race.remaining()) == len(products)


@pytest.mark.parametrize(
    ("given", "n_rows", "n_columns", "expected"),
    [
        ({}, 1_000, 5, True),
        ({}, 1_000, 2, False),
        ({}, 1_000, 31, False),
        ({}, 20_000, 5, False),
        ({"order": 3}, 1_000, 5, False),
        ({"rank": 4}, 1_000, 5, False),
        ({"factor_prior": "random_walk"}, 1_000, 5, False),
        ({"interaction_cst": "pairwise"}, 1_000, 5, False),
    ],
)
def test_products_are_for_small_tables_without_settings(
    given: dict, n_rows: int, n_columns: int, expected: bool
) -> None:
    found = class_candidates({2: 4}, Settings(**given), scales=[False], n_rows=n_rows, n_columns=n_columns)
    assert any(one.order == PRODUCT for one in found) == expected


def test_dear_candidates_need_a_parent_and_a_scale_in_the_race() -> None:
    cheap = class_candidates({2: 4, 3: 4}, Settings(), scales=[False, True], n_rows=1_000)
    race = Race(np.ones(100))
    for one in cheap:
        if one.stage < 2:
            race.candidates.append(one)
            race.losses[one.name] = np.full(100, 1.0 + 0.5 * one.in_ranks)
    triple: list[ClassCandidate] = [one for one in cheap if one.stage == 2]
    assert [race.admits(one) for one in triple] == [True, False]
    parent = next(one for one in race.candidates if one.curve_settings == triple[0].parent and not one.in_ranks)
    race.losses[parent.name] = np.full(100, 1.4)
    assert not race.admits(triple[0])
    assert all(one.curve_settings is None or not one.in_ranks for one in race.remaining())
    race.losses[parent.name] = 1.2 + 4.0 * (-1.0) ** np.arange(100)  # as much, within the noise
    assert race.admits(triple[0])


@pytest.mark.parametrize(("size", "factor"), [(0.8, 1.25), (1.0, 1.0), (1.5, 1.0)])
def test_timid_linear_predictors_get_weights_above_one(size: float, factor: float) -> None:
    rows, truth = _rows(20_000)
    candidate = ClassCandidate(in_ranks=False)
    found = Search(rows, [Judged(candidate, size * truth, 1.0)]).weights(1)
    assert [one for _, one in found] == [candidate]
    expected = factor if factor > 1.0 else min(1.0, 1.0 / size)
    assert found[0][0] == pytest.approx(expected, abs=0.08)
