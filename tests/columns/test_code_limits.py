"""How many codes a column of numbers has when nobody says: many if its values repeat, few if they do not."""

import numpy as np
import pytest

from ahofm.columns.support import MANY_CODES, MAX_CODES, learn_numbers


def distinct(count, seed=0):
    return np.random.default_rng(seed).permutation(np.arange(count) / 7.0)


def codes(column, weight=None):
    return learn_numbers(column, weight, None)[0].size


def test_limits():
    assert (MAX_CODES, MANY_CODES) == (254, 2048)


@pytest.mark.parametrize("count", [1, 2, 254])
def test_few_values_have_a_code_each_whether_they_repeat_or_not(count):
    assert codes(distinct(count)) == count
    assert codes(np.repeat(distinct(count), 5)) == count


@pytest.mark.parametrize("count", [255, 1000, 2048])
def test_values_that_repeat_twice_on_average_keep_their_codes(count):
    x = distinct(count)
    support, edges = learn_numbers(np.concatenate([x, x]), None, None)
    assert support.exact
    np.testing.assert_array_equal(support.values, np.sort(x))
    np.testing.assert_array_equal(support.mass, np.full(count, 2.0))
    assert len(edges) == count - 1


def test_one_value_may_do_all_the_repeating():
    assert codes(np.concatenate([distinct(500), np.zeros(500)])) == 500


@pytest.mark.parametrize("count", [2049, 10_000])
def test_values_that_repeat_have_at_most_2048_codes(count):
    support, _ = learn_numbers(np.repeat(distinct(count), 2), None, None)
    assert not support.exact
    assert MAX_CODES < support.size <= MANY_CODES
    assert support.mass.sum() == 2 * count


@pytest.mark.parametrize("count", [255, 2048, 10_000])
def test_values_that_hardly_repeat_have_at_most_254_codes(count):
    x = distinct(count)
    support, _ = learn_numbers(np.concatenate([x, x[: count - 1]]), None, None)
    assert not support.exact
    assert support.size <= MAX_CODES
    assert support.mass.sum() == 2 * count - 1


def test_missing_values_are_no_repeats():
    assert codes(np.concatenate([distinct(300), np.full(300, np.nan)])) <= MAX_CODES
    weight = np.full(600, 1.5)
    assert codes(np.concatenate([distinct(300), np.full(300, np.nan)]), weight) <= MAX_CODES


def test_both_zeros_are_one_value():
    assert codes(np.concatenate([np.arange(1.0, 300.0), np.tile([0.0, -0.0], 151)])) == 300


@pytest.mark.parametrize("mean", [0.5, 1.0, 3.0])
def test_integer_weights_are_repeats(mean):
    x, weight = distinct(700), np.random.default_rng(1).poisson(mean, 700).astype(float)
    support, edges = learn_numbers(x, weight, None)
    repeated, repeated_edges = learn_numbers(np.repeat(x, weight.astype(int)), None, None)
    np.testing.assert_allclose(support.values, repeated.values, rtol=1e-13)
    np.testing.assert_array_equal(support.mass, repeated.mass)
    np.testing.assert_array_equal(edges, repeated_edges)


def test_integer_weights_on_either_side_of_the_limit():
    x = distinct(300)
    assert codes(x, np.full(300, 2.0)) == 300
    assert codes(x, np.append(np.full(299, 2.0), 1.0)) <= MAX_CODES


@pytest.mark.parametrize("scale", [0.3, 1.7, 100.5])
def test_other_weights_do_not_make_rows_more_or_fewer(scale):
    x, rng = distinct(300), np.random.default_rng(2)
    assert codes(x, scale * rng.uniform(0.5, 1.5, 300)) <= MAX_CODES
    assert codes(np.repeat(x, 2), scale * rng.uniform(0.5, 1.5, 600)) == 300


@pytest.mark.parametrize("scale", [0.5, 1.5])
def test_halves_are_no_integers_even_if_they_add_up_to_some(scale):
    x = np.repeat(distinct(300), 2)
    assert codes(x, np.full(600, scale)) == codes(x, np.full(600, scale + 0.01)) == 300


@pytest.mark.parametrize("weight", [1.0, 0.7])
def test_rows_of_weight_zero_are_no_repeats(weight):
    x = np.repeat(distinct(300), 2)
    assert codes(x, np.tile([weight, 0.0], 300)) <= MAX_CODES


@pytest.mark.parametrize("max_codes", [2, 254, 300])
def test_a_limit_that_is_given_holds(max_codes):
    assert learn_numbers(np.repeat(distinct(1000), 2), None, max_codes)[0].size <= max_codes
    assert learn_numbers(np.repeat(distinct(max_codes), 2), None, max_codes)[0].size == max_codes
