"""Rows that are no table in memory: stores and Dask collections."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.rows import Dataset
from ahofm.scale.partitions import is_dask, mapped
from ahofm.training.settings import Settings


def dataset_of(fitted: Any, X: Any, y: Any, sample_weight: Any, offset: Any, groups: Any = None) -> Dataset | None:
    """Rows to fit an estimator to: a dataset as it is, a Dask collection as a dataset, and None for a table."""
    if is_dask(X) or isinstance(X, Dataset):
        for name, value in (("groups", groups), ("cv", fitted.cv)):
            if value is not None:
                raise ValueError(f"{name} is for tables in memory: leave it out, or give a table")
    if is_dask(X):
        X = _coded(fitted, X, y, sample_weight, offset)
        y = sample_weight = offset = None
    if not isinstance(X, Dataset):
        return None
    given = {"y": y, "sample_weight": sample_weight, "offset": offset}
    if any(value is not None for value in given.values()):
        names = ", ".join(name for name, value in given.items() if value is not None)
        raise ValueError(f"X has its targets, weights and offsets with it: leave out {names}")
    fitted.n_features_in_ = len(X.columns)
    if X.named:
        fitted.feature_names_in_ = np.array([column.name for column in X.columns], dtype=object)
    return X


def _coded(fitted: Any, X: Any, y: Any, sample_weight: Any, offset: Any) -> Dataset:
    """A Dask collection, by the codebooks of the last fit when this is to start from it."""
    from ahofm.fit.api import most_codes  # noqa: PLC0415 - fits are imported when there is one
    from ahofm.scale.collection import ClusterDataset  # noqa: PLC0415 - needs Dask, which X is of

    if y is None:
        raise ValueError("y is None: a Dask collection needs its targets, as one with the same partitions")
    learned = fitted.model_.encoder.learned if fitted.warm_start and hasattr(fitted, "model_") else None
    names = ("solver", "smoothing", "df", "max_codes")
    most = most_codes(Settings(**{name: getattr(fitted, name) for name in names}))
    return ClusterDataset(X, y, sample_weight, offset, columns=fitted.columns, max_codes=most, learned=learned)


def training_rows(rows: Dataset, classes: Any) -> tuple[Any, ...]:
    """Rows whose true values are known, with the weight of all: table, targets, weights, offsets."""
    raw_sample = rows.raw_sample
    y = (
        raw_sample.y
        if classes is None or rows.target.text
        else np.searchsorted(classes, raw_sample.y).astype(np.float64)
    )
    return raw_sample.table, y, raw_sample.weight * (rows.total / raw_sample.weight.sum()), raw_sample.offset


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
