"""Curves, surfaces, marginals and latent curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.explain import Effect, Factors, Marginals, effect, factors, marginals
from ahofm.plot.canvas import (
    BLUE,
    CYCLE,
    DIVERGING,
    GREY,
    axes,
    is_discrete,
    many_axes,
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

    Examples
    --------
    >>> from ahofm.plot import EffectDisplay
    >>> display = EffectDisplay.from_estimator(model, "wind", labels={"wind": "wind (m/s)"})
    >>> display.ax_.get_xlabel()
    'wind (m/s)'
    """

    effect: Effect

    @classmethod
    def from_estimator(cls, estimator: Any, column: Any, *, ax: Any = None, labels: Labels = None, **asked: Any) -> Any:
        """Work the effect out (``asked`` goes to ``ahofm.explain.effect``) and draw it."""
        return cls(effect(estimator, column, **asked)).plot(ax=ax, labels=labels)

    def plot(self, *, ax: Any = None, labels: Labels = None, color: str = BLUE, everywhere: bool = True) -> Any:
        """Draw it.

        Parameters
        ----------
        ax : matplotlib axes, optional
        labels : dict, optional
            Texts for axes by column name.
        color : str
        everywhere : bool
            Whether to draw the band that holds everywhere at once as well.
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
        ax.set_ylabel("effect" if found.scale == "link" else "mean")
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
        cls, estimator: Any, columns: Any, *, ax: Any = None, labels: Labels = None, **asked: Any
    ) -> Any:
        """Work the effect out (``asked`` goes to ``ahofm.explain.effect``) and draw it."""
        return cls(effect(estimator, columns, **asked)).plot(ax=ax, labels=labels)

    def plot(self, *, ax: Any = None, labels: Labels = None, colorbar: bool = True) -> Any:
        """Draw it."""
        found = self.effect
        if len(found.columns) != 2:
            raise ValueError(f"a surface has two columns, this effect has {len(found.columns)}")
        self.ax_ = ax = axes(ax, (5.2, 4.2))
        self.figure_ = ax.figure
        x, y = (places(grid) for grid in found.grid)
        middle = 0.0 if found.scale == "link" else float(np.median(found.value))
        reach = max(float(np.abs(found.value - middle).max()), np.finfo(float).tiny)
        smooth = not any(is_discrete(grid) for grid in found.grid)
        mesh = ax.pcolormesh(
            _edges(x),
            _edges(y),
            found.value.T,
            cmap=DIVERGING,
            vmin=middle - reach,
            vmax=middle + reach,
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
            self.figure_.colorbar(mesh, ax=ax, label="effect" if found.scale == "link" else "mean")
        return self


@dataclass
class MarginalsDisplay:
    """A function of several columns along each of them: its mean, and bars as long as it spreads over the others.

    Examples
    --------
    >>> from ahofm.plot import MarginalsDisplay
    >>> display = MarginalsDisplay.from_estimator(model, ["rain", "sun"])
    >>> len(display.axes_)
    2
    """

    marginals: Marginals

    @classmethod
    def from_estimator(
        cls, estimator: Any, columns: Any, *, ax: Any = None, labels: Labels = None, **asked: Any
    ) -> Any:
        """Work them out (``asked`` goes to ``ahofm.explain.marginals``) and draw them."""
        return cls(marginals(estimator, columns, **asked)).plot(ax=ax, labels=labels)

    def plot(self, *, ax: Any = None, labels: Labels = None, color: str = BLUE, label: str | None = None) -> Any:
        """Draw one picture per column; ``ax`` may hold as many axes."""
        found = self.marginals
        self.axes_ = many_axes(ax, len(found.columns))
        self.figure_ = self.axes_[0].figure
        parts = zip(self.axes_, found.columns, found.grid, found.mean, found.std, strict=True)
        for panel, name, grid, mean, std in parts:
            x = places(grid)
            panel.vlines(x, mean - std, mean + std, color=color, alpha=0.28, linewidth=1.2)
            style = "o" if is_discrete(grid) else "-"
            panel.plot(x, mean, style, color=color, linewidth=1.8, label=label)
            name_axis(panel.xaxis, grid, name, labels)
            tidy(panel)
        ends = [panel.get_ylim() for panel in self.axes_]  # one scale for all
        for panel in self.axes_:
            panel.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))
        self.axes_[0].set_ylabel("interaction" if found.alone else "effect")
        return self


@dataclass
class FactorsDisplay:
    """Latent curves: one picture per column, one line per factor, the strongest factors only.

    Examples
    --------
    >>> from ahofm.plot import FactorsDisplay
    >>> display = FactorsDisplay.from_estimator(model, order=2)
    >>> len(display.axes_)
    3
    """

    factors: Factors

    @classmethod
    def from_estimator(
        cls, estimator: Any, order: int = 2, *, ax: Any = None, labels: Labels = None, **asked: Any
    ) -> Any:
        """Work them out (``asked`` goes to ``ahofm.explain.factors``) and draw them."""
        return cls(factors(estimator, order, **asked)).plot(ax=ax, labels=labels)

    def plot(self, *, ax: Any = None, labels: Labels = None, most: int = 5) -> Any:
        """Draw them; ``most`` factors at most."""
        found = self.factors
        self.axes_ = many_axes(ax, len(found.columns))
        self.figure_ = self.axes_[0].figure
        count = min(most, len(found.weights), len(CYCLE))
        for panel, name, grid, curves in zip(self.axes_, found.columns, found.grid, found.curves, strict=True):
            x = places(grid)
            for f in range(count):
                style = "o" if is_discrete(grid) else "-"
                panel.plot(
                    x, curves[:, f], style, color=CYCLE[f], linewidth=1.6, label=f"{f + 1} ({found.share[f]:.0%})"
                )
            name_axis(panel.xaxis, grid, name, labels)
            tidy(panel)
        self.axes_[0].set_ylabel(f"factors of order {found.order}")
        self.axes_[0].legend(fontsize=7, title="factor (share)", title_fontsize=7, frameon=False)
        return self


def _step(x: Floats) -> float:
    return float(np.diff(np.sort(x)).min()) if len(x) > 1 else 1.0


def _edges(x: Floats) -> Floats:
    """Edges of the cells around grid values."""
    if len(x) == 1:
        return np.array([x[0] - 0.5, x[0] + 0.5])
    middle = 0.5 * (x[1:] + x[:-1])
    return np.concatenate([[x[0] - (middle[0] - x[0])], middle, [x[-1] + (x[-1] - middle[-1])]])
