"""Curves of one column, surfaces of two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.explain import Effect, effect
from ahofm.plot.canvas import (
    BLUE,
    DIVERGING,
    GREY,
    SEQUENTIAL,
    axes,
    is_discrete,
    name_axis,
    places,
    rug,
    thin,
    tidy,
)

Labels = Mapping[str, str] | None
"""Texts for axes by column name, e.g. with units."""


@dataclass
class EffectDisplay:
    """One column's curve with its bands, or one dot per level.

    Parameters
    ----------
    effect : Effect
        Of one column.

    Examples
    --------
    >>> from ahofm.plot import EffectDisplay
    >>> display = EffectDisplay.from_estimator(model, "wind", labels={"wind": "wind (m/s)"})
    >>> display.ax_.get_xlabel()
    'wind (m/s)'
    """

    effect: Effect

    @classmethod
    def from_estimator(
        cls, estimator: Any, column: Any, *, ax: Any = None, labels: Labels = None, **options: Any
    ) -> Any:
        """Compute the effect of a column and draw it.

        Parameters
        ----------
        estimator : fitted estimator or model
            What is drawn.
        column : str or int
            Name or number of the column.
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        labels : dict of column name to text, optional
            For axes, e.g. with units.
        **options
            Settings of ``ahofm.explain.effect``.

        Returns
        -------
        EffectDisplay
            Drawn: with ``figure_`` and ``ax_``.
        """
        return cls(effect(estimator, column, **options)).plot(ax=ax, labels=labels)

    def plot(self, *, ax: Any = None, labels: Labels = None, color: str = BLUE, everywhere: bool = True) -> Any:
        """Draw the effect.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        labels : dict of column name to text, optional
            For axes, e.g. with units.
        color : str
            Of lines and bands.
        everywhere : bool, default True
            Whether to draw the band that holds everywhere at once as well.

        Returns
        -------
        EffectDisplay
            This one.
        """
        found = self.effect
        if len(found.columns) != 1:
            raise ValueError(f"a curve has one column, this effect has {len(found.columns)}; use SurfaceDisplay")
        self.ax_ = ax = axes(ax)
        self.figure_ = ax.figure
        grid = found.grid[0]
        x = places(grid)
        bands = [(found.low, found.high, 0.28, f"{found.level:.0%} of points")]
        if everywhere:
            bands.append((found.all_low, found.all_high, 0.14, f"{found.level:.0%} everywhere"))
        if found.scale == "link":
            ax.axhline(0.0, color=GREY, linewidth=0.8, alpha=0.7)
        if is_discrete(grid):
            self._dots(ax, x, bands, color)
        else:
            for low, high, alpha, label in bands:
                if low is not None:
                    ax.fill_between(x, low, high, color=color, alpha=alpha, linewidth=0, label=label)
            for part, style in ((~found.outside, "-"), (found.outside, ":")):
                if part.any():
                    ax.plot(np.where(part, x, np.nan), found.value, style, color=color, linewidth=1.8)
            rug(ax, grid, found.density[0])
        name_axis(ax.xaxis, grid, found.columns[0], labels)
        label = found.name if found.scale == "link" else "mean"
        ax.set_ylabel(label if found.edf is None else f"{label} (edf {found.edf:.1f})")
        tidy(ax)
        return self

    def _dots(self, ax: Any, x: Floats, bands: list[tuple[Any, Any, float, str]], color: str) -> None:
        found = self.effect
        for (low, high, _, _), width in zip(bands, (3.0, 1.0), strict=False):
            if low is not None:
                ax.vlines(x, low, high, color=color, linewidth=width, alpha=0.7)
        sizes = 25.0 + 120.0 * found.density[0] / max(float(found.density[0].max()), np.finfo(float).tiny)
        ax.scatter(x, found.value, s=sizes, color=color, zorder=3, edgecolors="white", linewidths=0.8)
        ax.set_xlim(x.min() - 0.5 * _step(x), x.max() + 0.5 * _step(x))


@dataclass
class SurfaceDisplay:
    """Two columns' surface; pale where there is hardly any data.

    Parameters
    ----------
    effect : Effect
        Of two columns.

    Examples
    --------
    >>> from ahofm.plot import SurfaceDisplay
    >>> display = SurfaceDisplay.from_estimator(model, ["rain", "sun"])
    >>> display.ax_.get_ylabel()
    'sun'
    """

    effect: Effect

    @classmethod
    def from_estimator(
        cls, estimator: Any, columns: Any, *, ax: Any = None, labels: Labels = None, **options: Any
    ) -> Any:
        """Compute the effect of a pair and draw it.

        Parameters
        ----------
        estimator : fitted estimator or model
            What is drawn.
        columns : two names or numbers
            The pair.
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        labels : dict of column name to text, optional
            For axes, e.g. with units.
        **options
            Settings of ``ahofm.explain.effect``.

        Returns
        -------
        SurfaceDisplay
            Drawn: with ``figure_`` and ``ax_``.
        """
        return cls(effect(estimator, columns, **options)).plot(ax=ax, labels=labels)

    def plot(self, *, ax: Any = None, labels: Labels = None, colorbar: bool = True) -> Any:
        """Draw the surface.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        labels : dict of column name to text, optional
            For axes, e.g. with units.
        colorbar : bool, default True
            Whether to draw a legend of the colours.

        Returns
        -------
        SurfaceDisplay
            This one.
        """
        found = self.effect
        if len(found.columns) != 2:
            raise ValueError(f"a surface has two columns, this effect has {len(found.columns)}")
        self.ax_ = ax = axes(ax, (5.2, 4.2))
        self.figure_ = ax.figure
        x, y = (places(grid) for grid in found.grid)
        low, high = float(found.value.min()), float(found.value.max())  # means have no colours for what cannot be
        if found.scale == "link":
            high = max(abs(low), abs(high), np.finfo(float).tiny)
            low = -high
        smooth = not any(is_discrete(grid) for grid in found.grid)
        mesh = ax.pcolormesh(
            _edges(x),
            _edges(y),
            found.value.T,
            cmap=DIVERGING if found.scale == "link" else SEQUENTIAL,
            vmin=low,
            vmax=high,
            rasterized=True,
        )
        if smooth:
            lines = ax.contour(x, y, found.value.T, levels=7, colors="black", linewidths=0.5, alpha=0.6)
            ax.clabel(lines, fontsize=7, fmt="%.3g")
        little = thin(found.density) | found.outside
        pale = np.ma.masked_where(~little.T, np.ones(little.T.shape))
        ax.pcolormesh(_edges(x), _edges(y), pale, cmap="Greys", vmin=-1.0, vmax=1.0e9, alpha=0.65, rasterized=True)
        name_axis(ax.xaxis, found.grid[0], found.columns[0], labels)
        name_axis(ax.yaxis, found.grid[1], found.columns[1], labels)
        if colorbar:
            self.figure_.colorbar(mesh, ax=ax, label=found.name if found.scale == "link" else "mean")
        return self


def _step(x: Floats) -> float:
    return float(np.diff(np.sort(x)).min()) if len(x) > 1 else 1.0


def _edges(x: Floats) -> Floats:
    """Edges of the cells around grid values."""
    if len(x) == 1:
        return np.array([x[0] - 0.5, x[0] + 0.5])
    middle = 0.5 * (x[1:] + x[:-1])
    return np.concatenate([[x[0] - (middle[0] - x[0])], middle, [x[-1] + (x[-1] - middle[-1])]])
