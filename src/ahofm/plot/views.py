"""Marginals of several columns, and latent curves: one picture per column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ahofm.explain import Factors, Marginals, factors, marginals
from ahofm.plot.canvas import BLUE, CYCLE, is_discrete, many_axes, name_axis, places, tidy
from ahofm.plot.effects import Labels


@dataclass
class MarginalsDisplay:
    """A function of several columns along each of them: its mean, and bars of its standard deviation over the others.

    Parameters
    ----------
    marginals : Marginals
        Of several columns.

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
        cls, estimator: Any, columns: Any, *, ax: Any = None, labels: Labels = None, **options: Any
    ) -> Any:
        """Compute marginals and draw them.

        Parameters
        ----------
        estimator : fitted estimator or model
            What is drawn.
        columns : sequence of names or numbers
            At least two.
        ax : array of matplotlib axes, one per column, optional
            Where to draw; by default a new figure.
        labels : dict of column name to text, optional
            For axes, e.g. with units.
        **options
            Settings of ``ahofm.explain.marginals``.

        Returns
        -------
        MarginalsDisplay
            Drawn: with ``figure_`` and ``axes_``.
        """
        return cls(marginals(estimator, columns, **options)).plot(ax=ax, labels=labels)

    def plot(self, *, ax: Any = None, labels: Labels = None, color: str = BLUE, label: str | None = None) -> Any:
        """Draw one picture per column.

        Parameters
        ----------
        ax : array of matplotlib axes, one per column, optional
            Where to draw; by default a new figure.
        labels : dict of column name to text, optional
            For axes, e.g. with units.
        color : str
            Of lines and bands.
        label : str, optional
            Of the lines, for a legend.

        Returns
        -------
        MarginalsDisplay
            This one.
        """
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

    Parameters
    ----------
    factors : Factors
        Latent curves of an order.

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
        cls, estimator: Any, order: int = 2, *, ax: Any = None, labels: Labels = None, **options: Any
    ) -> Any:
        """Compute latent curves and draw them.

        Parameters
        ----------
        estimator : fitted estimator or model
            What is drawn.
        order : int, default 2
            Of the interactions.
        ax : array of matplotlib axes, one per column, optional
            Where to draw; by default a new figure.
        labels : dict of column name to text, optional
            For axes, e.g. with units.
        **options
            Settings of ``ahofm.explain.factors``.

        Returns
        -------
        FactorsDisplay
            Drawn: with ``figure_`` and ``axes_``.
        """
        return cls(factors(estimator, order, **options)).plot(ax=ax, labels=labels)

    def plot(self, *, ax: Any = None, labels: Labels = None, most: int = 5) -> Any:
        """Draw one picture per column.

        Parameters
        ----------
        ax : array of matplotlib axes, one per column, optional
            Where to draw; by default a new figure.
        labels : dict of column name to text, optional
            For axes, e.g. with units.
        most : int, default 5
            Factors at most.

        Returns
        -------
        FactorsDisplay
            This one.
        """
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
