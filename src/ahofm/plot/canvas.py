"""What all figures share: axes, colours that everybody can tell apart, names of levels, and where there is data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#6B7280"
"""From Okabe and Ito: distinct for every kind of colour vision, and in print."""

CYCLE = (BLUE, ORANGE, GREEN, "#CC79A7", "#E69F00", "#56B4E9", "#000000")

DIVERGING, SEQUENTIAL = "RdBu_r", "YlGnBu"

_THIN = 0.05
"""Of the density of an even spread: less data than that is little."""


def pyplot() -> Any:
    """Matplotlib, which is asked for only when something is drawn."""
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415 - only who draws needs it
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'ahofm[plot]'") from error
    return plt


def axes(ax: Any = None, size: tuple[float, float] = (5.0, 3.6)) -> Any:
    """The axes given, or new ones."""
    if ax is not None:
        return ax
    _, made = pyplot().subplots(figsize=size, layout="constrained")
    return made


def many_axes(ax: Any, count: int, size: tuple[float, float] = (3.2, 2.6), columns: int = 4) -> NDArray[Any]:
    """The axes given, as many as are needed, or new ones side by side."""
    if ax is not None:
        given = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        if len(given) < count:
            raise ValueError(f"ax holds {len(given)} axes, {count} are needed")
        return given[:count]
    wide = min(count, columns)
    high = -(-count // wide)
    _, made = pyplot().subplots(
        high, wide, figsize=(size[0] * wide, size[1] * high), layout="constrained", squeeze=False
    )
    for spare in made.ravel()[count:]:
        spare.remove()
    return np.asarray(made.ravel()[:count])


def is_discrete(grid: NDArray[Any]) -> bool:
    """Whether grid values stand for themselves: levels, or a handful of numbers."""
    return grid.dtype == object or len(grid) <= 12


def places(grid: NDArray[Any]) -> Floats:
    """Where grid values stand on an axis: numbers where they are, levels one after another."""
    return np.asarray(grid, dtype=np.float64) if grid.dtype != object else np.arange(len(grid), dtype=np.float64)


def name_axis(axis: Any, grid: NDArray[Any], name: str, labels: Mapping[str, str] | None) -> None:
    """The name of a column on an axis, and its levels."""
    axis.set_label_text((labels or {}).get(name, name))
    if grid.dtype == object:
        axis.set_ticks(np.arange(len(grid)), [str(level) for level in grid])
        long = sum(map(len, map(str, grid))) > 40
        if axis.axis_name == "x" and long:
            for text in axis.get_ticklabels():
                text.set_rotation(35)
                text.set_ha("right")
    elif is_discrete(grid):
        axis.set_ticks(grid)


def rug(ax: Any, grid: NDArray[Any], density: Floats) -> None:
    """How much data there is along the horizontal axis, as a strip at the bottom."""
    if grid.dtype == object or len(grid) < 2:
        return
    x, height = places(grid), density / max(float(density.max()), np.finfo(float).tiny)
    strip = ax.inset_axes((0.0, 0.0, 1.0, 0.08), sharex=ax, zorder=0)
    strip.fill_between(x, 0.0, height, step="mid", color=GREY, alpha=0.35, linewidth=0)
    strip.set(ylim=(0.0, 1.0))
    strip.axis("off")


def thin(density: Sequence[Floats]) -> NDArray[np.bool_]:
    """Where there is hardly any data, over the product of grids."""
    together = np.ones(())
    for own in density:
        together = np.multiply.outer(together, _nearby(own) * len(own))
    return np.asarray(together < _THIN)


def _nearby(density: Floats) -> Floats:
    """The largest density within a fifteenth of the grid: between whole numbers there are rows, too."""
    reach = len(density) // 15
    padded = np.pad(density, reach)
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1).max(axis=1))


def tidy(ax: Any) -> None:
    """No frame where nothing is read off."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, alpha=0.2, linewidth=0.6)
    ax.set_axisbelow(True)
