"""Where the functions of a column are. The only place that knows it.

Every column of a linear predictor has the same number of functions, its ``width``, always in this order along the last
axis of an array: the main effect, then the factors of the lowest order, those of the next, and so on. Nothing here
knows what functions are made of: arrays hold coefficients, values at codes, smoothing parameters, loadings.

A factor of order d is a sum over all sets of d columns (an elementary symmetric polynomial). A product factor is the
product over all columns, of functions that need not have mean zero: it has terms of every order. Product factors are
one more group of functions behind the others, with the key ``PRODUCT`` in the place of an order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["FACTORS", "MAIN", "PRODUCT", "Orders", "factors_of", "main_of", "order_name"]

Floats = NDArray[np.float64]

MAIN, FACTORS = 0, slice(1, None)
"""Which of a column's functions is its main effect, and which are its factors."""

PRODUCT = 10_000
"""Key of product factors in mappings by order: behind all orders, since a product has terms of every order."""

_Item = TypeVar("_Item", bound=np.generic)


class Orders(Mapping[int, int]):
    """Orders of the interactions of a linear predictor, and the number of factors of each: its rank.

    A mapping of order to rank that does not change.

    Parameters
    ----------
    ranks : dict of order (>= 2), or ``PRODUCT``, to rank (>= 0)

    Examples
    --------
    >>> orders = Orders({2: 8, 3: 4})
    >>> orders.width, orders.n_factors, orders.highest
    (13, 12, 3)
    >>> orders.slices
    {2: slice(1, 9, None), 3: slice(9, 13, None)}
    >>> orders.up_to(2)
    Orders({2: 8})
    """

    def __init__(self, ranks: Mapping[int, int] | None = None) -> None:
        """Refuse orders below 2 and negative ranks."""
        for order, rank in (ranks or {}).items():
            if order < 2 or rank < 0:
                raise ValueError(f"ranks: orders start at 2 and ranks at 0, got order {order} of rank {rank}")
        self._ranks = {int(order): int(rank) for order, rank in (ranks or {}).items()}

    def __getitem__(self, order: int) -> int:
        """Rank of an order."""
        return self._ranks[order]

    def __iter__(self) -> Iterator[int]:
        """Orders of interactions, as they were given."""
        return iter(self._ranks)

    def __len__(self) -> int:
        """Number of orders with factors."""
        return len(self._ranks)

    def __hash__(self) -> int:
        """Of equal orders in any order."""
        return hash(frozenset(self._ranks.items()))

    def __repr__(self) -> str:
        """As it is made."""
        ranks = ", ".join(f"{'PRODUCT' if order == PRODUCT else order}: {rank}" for order, rank in self._ranks.items())
        return f"Orders({{{ranks}}})"

    @property
    def n_factors(self) -> int:
        """Factors of all orders together."""
        return sum(self._ranks.values())

    @property
    def width(self) -> int:
        """Functions of one column: its main effect and all its factors."""
        return 1 + self.n_factors

    @property
    def highest(self) -> int:
        """Highest order; 1 where there are only main effects, ``PRODUCT`` where there are product factors."""
        return max(self._ranks, default=1)

    @property
    def symmetric(self) -> Orders:
        """Without product factors."""
        return Orders({order: rank for order, rank in self._ranks.items() if order != PRODUCT})

    @property
    def all(self) -> tuple[int, ...]:
        """All orders, that of main effects first."""
        return (1, *self._ranks)

    @cached_property
    def slices(self) -> dict[int, slice]:
        """Which of a column's functions are the factors of each order."""
        return {order: slice(1 + part.start, 1 + part.stop) for order, part in self.factor_slices.items()}

    @cached_property
    def factor_slices(self) -> dict[int, slice]:
        """Which of a column's factors, counted without the main effect, are those of each order."""
        found, start = {}, 0
        for order, rank in self._ranks.items():
            found[order] = slice(start, start + rank)
            start += rank
        return found

    @cached_property
    def of_each(self) -> NDArray[np.intp]:
        """Order of every function of a column: (width,)."""
        return np.repeat([1, *self._ranks], [1, *self._ranks.values()]).astype(np.intp)

    def up_to(self, order: int) -> Orders:
        """Without the orders above one."""
        return Orders({d: rank for d, rank in self._ranks.items() if d <= order})

    def only(self, kept: Sequence[int]) -> Orders:
        """Without the orders that are not kept."""
        return Orders({order: rank for order, rank in self._ranks.items() if order in kept})

    def split(self, values: NDArray[_Item]) -> tuple[NDArray[_Item], dict[int, NDArray[_Item]]]:
        """Main effect (...) and factors by order (..., rank) of an array (..., width): views."""
        if values.shape[-1] != self.width:
            raise ValueError(f"values has shape {values.shape}, expected (..., {self.width}): a column's functions")
        return values[..., MAIN], {order: values[..., part] for order, part in self.slices.items()}

    def join(self, main: ArrayLike, factors: Mapping[int, Any]) -> Floats:
        """The array (..., width) of a main effect (...) and factors by order (..., rank)."""
        main_column = np.asarray(main, dtype=np.float64)[..., np.newaxis]
        return np.concatenate([main_column, *(np.asarray(factors[order]) for order in self._ranks)], axis=-1)

    def joined_factors(self, factors: Mapping[int, Any], rows: tuple[int, ...] = ()) -> Floats:
        """The array (..., n_factors) of factors by order (..., rank); (*rows, 0) where there are none."""
        if not self._ranks:
            return np.empty((*rows, 0))
        return np.concatenate([np.asarray(factors[order]) for order in self._ranks], axis=-1)

    def ones(self) -> dict[int, Floats]:
        """Loadings of one: (rank,) by order."""
        return {order: np.ones(rank) for order, rank in self._ranks.items()}

    def checked_loadings(self, loadings: Mapping[int, Any] | None) -> dict[int, Floats]:
        """Loadings as arrays (rank,) by order, ones where none are given; ValueError where they do not fit."""
        if loadings is None:
            return self.ones()
        shapes = {order: np.shape(loading) for order, loading in loadings.items()}
        if shapes != {order: (rank,) for order, rank in self._ranks.items()}:
            raise ValueError(f"loadings have shapes {shapes} by order, expected one per factor of {dict(self._ranks)}")
        return {order: np.asarray(loadings[order], dtype=np.float64) for order in self._ranks}


def order_name(order: int) -> str:
    """An order as people read it."""
    return "all" if order == PRODUCT else str(order)


def main_of(values: NDArray[_Item]) -> NDArray[_Item]:
    """Main effects (...) of an array (..., width) of functions: a view."""
    return values[..., MAIN]


def factors_of(values: NDArray[_Item]) -> NDArray[_Item]:
    """Factors (..., n_factors) of an array (..., width) of functions: a view."""
    return values[..., FACTORS]
