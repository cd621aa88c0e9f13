"""Results as data frames, of whatever library is installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import narwhals as nw

BACKENDS = ("pandas", "polars", "pyarrow")


def frame(data: Mapping[str, Any], backend: str | None = None) -> Any:
    """A pandas, polars or Arrow table of equally long columns; by default the first of those that is installed."""
    if backend is not None and backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    found: Any = backend or next((name for name in BACKENDS if find_spec(name)), None)
    if found is None:
        raise ImportError(f"to_frame() needs one of {', '.join(BACKENDS)}: install one of them")
    return nw.from_dict(dict(data), backend=found).to_native()


class Framed:
    """A result that can be a data frame."""

    def to_frame(self, backend: str | None = None) -> Any:
        """Make a data frame: what its rows are, each kind of result says.

        Parameters
        ----------
        backend : "pandas", "polars", "pyarrow" or None, default None
            None is the first of these that is installed.

        Returns
        -------
        pandas, polars or Arrow table
        """
        raise NotImplementedError
