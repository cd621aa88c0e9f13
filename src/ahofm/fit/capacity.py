"""Orders and ranks: what was asked for, and what the columns can carry."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from ahofm.fit.tuning import RANKS


class OrderWarning(UserWarning):
    """The order was reduced to the number of columns that vary."""


def check_order(order: Any, n_columns: int, n_rows: int) -> int:
    """The order to fit: at most the number of columns that are not constant."""
    if isinstance(order, bool) or not isinstance(order, (int, np.integer)) or order < 1:
        raise ValueError(f"order must be 'auto' or an integer of at least 1, got {order!r}")
    if n_columns == 0:
        raise ValueError(f"every column of X is constant over its rows (n_samples={n_rows}); there is nothing to fit")
    if order > n_columns:
        warnings.warn(
            f"order={order} is more than the {n_columns} column(s) that vary; order {n_columns} is fitted",
            OrderWarning,
            stacklevel=2,
        )
    return int(min(order, n_columns))


def check_ranks(rank: Any, asked_order: int, order: int, n_rows: int | None) -> dict[int, int]:
    """Rank of every order from 2 to ``order``; an order that a dict leaves out has no factors.

    "auto" grows with the rows where what they do not support is pruned, and is 5 where it is not (without ``n_rows``).
    """
    if isinstance(rank, str) and rank == "auto":
        rank = 5 if n_rows is None else next(rank for most, rank in RANKS if n_rows < most)
    if not isinstance(rank, Mapping):
        return dict.fromkeys(range(2, order + 1), _check_rank(rank))
    for key, value in rank.items():
        if isinstance(key, bool) or not isinstance(key, (int, np.integer)) or not 2 <= key <= asked_order:
            raise ValueError(f"rank names order {key!r}; orders of factors go from 2 to order={asked_order}")
        _check_rank(value)
    return {int(key): int(rank[key]) for key in sorted(rank) if key <= order}


def _check_rank(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(
            f"rank must be 'auto' or an integer of at least 1, got {value!r}; without interactions the order is 1"
        )
    return int(value)
