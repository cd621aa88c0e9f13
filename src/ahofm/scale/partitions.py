"""Dask collections as partitions that belong together, and functions over them that wait until they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection, told without Dask."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


@dataclass(frozen=True)
class Partitions:
    """Rows of X with what belongs to them, partition by partition.

    Attributes
    ----------
    names : tuple of str
        Columns of X.
    named : bool
        Whether the names came with the data.
    parts : tuple of lists of delayed partitions, or None
        X, y, weight, offset.
    """

    names: tuple[str, ...]
    named: bool
    parts: tuple[list[Any] | None, ...]

    @classmethod
    def of(cls, X: Any, y: Any = None, weight: Any = None, offset: Any = None) -> Partitions:
        """Raises where collections do not go together as far as one can tell without computing them."""
        names, named = _names(X)
        parts: list[list[Any] | None] = [_delayed(X, "X")]
        for name, other in (("y", y), ("sample_weight", weight), ("offset", offset)):
            own = None if other is None else _delayed(other, name)
            if own is not None and len(own) != len(parts[0] or ()):
                raise ValueError(
                    f"{name} has {len(own)} partitions, X has {len(parts[0] or ())}; partition both alike, e.g. take "
                    "both from one data frame, or rechunk"
                )
            parts.append(own)
        return cls(names, named, tuple(parts))

    def __len__(self) -> int:
        """Number of partitions."""
        return len(self.parts[0] or ())

    def task(self, i: int, function: Callable[..., Any], *given: Any) -> Any:
        """``function(*given, i, X_i, y_i, weight_i, offset_i)``, to be computed."""
        import dask  # noqa: PLC0415 - only who has its collections needs it

        own = [None if part is None else part[i] for part in self.parts]
        return dask.delayed(function, pure=False)(*given, i, *own)

    @staticmethod
    def shared(value: Any) -> Any:
        """A value that many tasks use: a task of its own, so that it is sent once."""
        import dask  # noqa: PLC0415 - only who has its collections needs it

        return dask.delayed(_same, pure=False)(dask.delayed(value, traverse=False))


def mapped(
    function: Callable[..., NDArray[Any]],
    fitted: Any,
    X: Any,
    offset: Any = None,
    *,
    width: int | None = None,
    dtype: Any = np.float64,
) -> Any:
    """``function(fitted, X_i, offset_i)`` of every partition, as a Dask Array that is computed when asked for.

    Parameters
    ----------
    width : int, optional
        Columns of the result; without it there is one dimension.
    dtype : NumPy type
        Of the result.
    """
    import dask.array as da  # noqa: PLC0415 - only who has its collections needs it

    given = Partitions.of(X, None, None, offset)
    shared = given.shared(fitted)
    lengths = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(given)
    rest = () if width is None else (width,)
    blocks = []
    for i in range(len(given)):
        task = given.task(i, _apply, function, rest, np.dtype(dtype), shared)
        blocks.append(da.from_delayed(task, shape=(lengths[i], *rest), dtype=dtype))
    return da.concatenate(blocks, axis=0, allow_unknown_chunksizes=True)


def _apply(
    function: Callable[..., Any], rest: tuple[int, ...], dtype: Any, fitted: Any, i: int, X: Any, *others: Any
) -> Any:
    del i
    return function(fitted, X, others[-1]) if len(X) else np.empty((0, *rest), dtype=dtype)


def _same(value: Any) -> Any:
    return value


def _names(X: Any) -> tuple[tuple[str, ...], bool]:
    if hasattr(X, "columns"):
        return tuple(map(str, X.columns)), True
    if getattr(X, "ndim", None) != 2:
        raise ValueError(f"X must have two dimensions (rows, columns), got {getattr(X, 'ndim', 'none')}")
    return tuple(f"x{j}" for j in range(X.shape[1])), False


def _delayed(X: Any, name: str) -> list[Any]:
    """Partitions along the rows."""
    if not is_dask(X):
        raise TypeError(
            f"{name} is of type {type(X).__name__}, but X is a Dask collection; give Dask collections of the same "
            "partitions"
        )
    if hasattr(X, "chunks"):
        delayed = (X.rechunk({1: -1}) if X.ndim == 2 else X).to_delayed()
    else:  # only columns that are needed are read, but Dask's further steps would join small files of few columns
        delayed = (X.simplify() if hasattr(X, "simplify") else X).to_delayed(optimize_graph=False)
    parts: Sequence[Any] = np.ravel(np.asarray(delayed, dtype=object)).tolist()
    return list(parts)
