"""Rows beyond memory: a store of codes on disk, and Dask. ``pip install 'ahofm[scale]'``.

What needs pyarrow or Dask is imported when it is asked for.
"""

from typing import Any

__all__ = ["CodeStore", "StoreError"]


def __getattr__(name: str) -> Any:
    """The names that need pyarrow."""
    if name == "CodeStore":
        from ahofm.scale.store import CodeStore  # noqa: PLC0415 - needs pyarrow

        return CodeStore
    if name == "StoreError":
        from ahofm.scale.parts import StoreError  # noqa: PLC0415 - needs pyarrow

        return StoreError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
