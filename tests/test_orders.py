"""One place knows where the functions of a column are."""

import pickle

import numpy as np
import pytest

from ahofm.orders import FACTORS, MAIN, PRODUCT, Orders, factors_of, main_of

ORDERS = Orders({2: 2, 4: 3})


def test_orders_are_a_mapping_of_order_to_rank():
    assert ORDERS == {4: 3, 2: 2} == Orders({4: 3, 2: 2})
    assert hash(ORDERS) == hash(Orders({4: 3, 2: 2}))
    assert list(ORDERS) == [2, 4]
    assert dict(Orders()) == {}
    assert Orders(ORDERS) == ORDERS == pickle.loads(pickle.dumps(ORDERS))
    assert eval(repr(ORDERS)) == ORDERS
    with pytest.raises(TypeError):
        ORDERS[2] = 5


def test_every_function_has_its_place():
    assert (ORDERS.n_factors, ORDERS.width, ORDERS.highest, ORDERS.all) == (5, 6, 4, (1, 2, 4))
    assert (Orders().width, Orders().highest, Orders().all) == (1, 1, (1,))
    np.testing.assert_array_equal(ORDERS.of_each, [1, 2, 2, 4, 4, 4])
    functions = np.arange(6)
    assert functions[MAIN] == main_of(functions) == 0
    np.testing.assert_array_equal(functions[FACTORS], factors_of(functions))
    for order, part in ORDERS.slices.items():
        np.testing.assert_array_equal(functions[part], np.flatnonzero(ORDERS.of_each == order))
        np.testing.assert_array_equal(factors_of(functions)[ORDERS.factor_slices[order]], functions[part])


@pytest.mark.parametrize("orders", [Orders(), ORDERS, Orders({3: 1, 2: 4}), Orders({2: 0, 3: 2})], ids=str)
def test_what_is_split_can_be_joined(orders):
    values = np.random.default_rng(0).normal(size=(3, 4, orders.width))
    main, factors = orders.split(values)
    assert main.base is values
    assert {order: part.shape for order, part in factors.items()} == {d: (3, 4, rank) for d, rank in orders.items()}
    np.testing.assert_array_equal(orders.join(main, factors), values)
    np.testing.assert_array_equal(orders.joined_factors(factors, (3, 4)), values[..., FACTORS])


def test_orders_are_restricted():
    assert ORDERS.up_to(3) == ORDERS.only([2, 7]) == {2: 2}
    assert ORDERS.up_to(4) == ORDERS
    assert ORDERS.up_to(1) == {}


def test_loadings_are_one_per_factor():
    assert {order: own.tolist() for order, own in ORDERS.ones().items()} == {2: [1.0] * 2, 4: [1.0] * 3}
    given = ORDERS.checked_loadings({4: [1, 2, 3], 2: [-1, 0]})
    assert list(given) == [2, 4]
    assert given[4].dtype == np.float64
    for wrong in ({2: np.ones(2)}, {2: np.ones(2), 4: np.ones(2)}, {2: np.ones((2, 1)), 4: np.ones(3)}):
        with pytest.raises(ValueError, match=r"expected one per factor of \{2: 2, 4: 3\}"):
            ORDERS.checked_loadings(wrong)


@pytest.mark.parametrize("ranks", [{1: 2}, {0: 1}, {2: -1}])
def test_bad_orders(ranks):
    with pytest.raises(ValueError, match="orders start at 2 and ranks at 0, got order"):
        Orders(ranks)
    with pytest.raises(ValueError, match=r"expected .*6"):
        ORDERS.split(np.zeros((2, 5)))


def test_orders_print_as_they_are_made():
    found = Orders({2: 4, 3: 1, PRODUCT: 16})
    assert repr(found) == "Orders({2: 4, 3: 1, PRODUCT: 16})"
    assert eval(repr(found)) == found
