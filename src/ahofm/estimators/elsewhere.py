"""Rows that are no table in memory: stores and Dask collections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from ahofm.columns import Learned
from ahofm.columns.basis import Floats
from ahofm.fit import Settings
from ahofm.fit.train import most_codes
from ahofm.rows import Dataset
from ahofm.scale.partitions import is_dask, mapped


def dataset_of(
    X: Any, y: Any, sample_weight: Any, offset: Any, asked: Mapping[str, Any], learned: Sequence[Learned] | None
) -> Dataset | None:
    """A dataset as it is, a Dask collection as a dataset, and None for a table.

    Parameters
    ----------
    asked : dict of an estimator's parameters
    learned : sequence of Learned or None
        Columns as an earlier fit has learned them, to code a collection by.
    """
    if is_dask(X):
        from ahofm.scale.collection import ClusterDataset  # noqa: PLC0415 - needs Dask, which X is of

        if y is None:
            raise ValueError("y is None: a Dask collection needs its targets, as one with the same partitions")
        most = most_codes(Settings(**{name: asked[name] for name in ("solver", "smoothing", "df", "max_codes")}))
        return ClusterDataset(X, y, sample_weight, offset, columns=asked["columns"], max_codes=most, learned=learned)
    if not isinstance(X, Dataset):
        return None
    given = {"y": y, "sample_weight": sample_weight, "offset": offset}
    if any(value is not None for value in given.values()):
        names = ", ".join(name for name, value in given.items() if value is not None)
        raise ValueError(f"X has its targets, weights and offsets with it: leave out {names}")
    return X


def training_rows(rows: Dataset, classes: Any) -> tuple[Any, ...]:
    """Rows whose true values are known, with the weight of all: table, targets, weights, offsets."""
    known = rows.known
    y = known.y if classes is None or rows.target.text else np.searchsorted(classes, known.y).astype(np.float64)
    return known.table, y, known.weight * (rows.total / known.weight.sum()), known.offset


def lazily(
    fitted: Any,
    method: str,
    X: Any,
    offset: Any,
    *,
    width: int | None = None,
    dtype: Any = np.float64,
    return_std: bool = False,
) -> Floats:
    """What a method returns for each partition of a Dask collection, as a Dask Array."""
    if return_std:
        raise ValueError("return_std is for tables in memory; use X.map_partitions for a Dask collection")
    return cast("Floats", mapped(partial(_call, method=method), fitted, X, offset, width=width, dtype=dtype))


def _call(fitted: Any, X: Any, offset: Any, method: str) -> Any:
    return getattr(fitted, method)(X, offset)
