"""What adds up: shares of the variance, and the parts of one row's prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.explain import (
    Contributions,
    Shapley,
    TopInteractions,
    VarianceShares,
    contributions,
    shapley_values,
    top_interactions,
    variance_shares,
)
from ahofm.plot.canvas import BLUE, GREY, ORANGE, axes, many_axes, tidy


@dataclass
class SharesDisplay:
    """Shares of the variance: columns (main effects and interactions), and the strongest interactions.

    Parameters
    ----------
    shares : VarianceShares
        Of columns and orders.
    top : TopInteractions
        The strongest interactions.

    Examples
    --------
    >>> from ahofm.plot import SharesDisplay
    >>> display = SharesDisplay.from_estimator(model)
    >>> [ax.get_title() for ax in display.axes_]
    ['columns', 'interactions']
    """

    shares: VarianceShares
    top: TopInteractions

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, most: int = 15, linear_predictor: Any = None) -> Any:
        """Compute shares and draw them.

        Parameters
        ----------
        estimator : fitted estimator or model
            What is drawn.
        ax : array of 2 matplotlib axes, optional
            Where to draw; by default a new figure.
        most : int, default 15
            Columns, and interactions, at most.
        linear_predictor : int or class, optional
            Which linear predictor, for families with several.

        Returns
        -------
        SharesDisplay
            Drawn: with ``figure_`` and ``axes_``.
        """
        top = top_interactions(estimator, most, linear_predictor=linear_predictor)
        return cls(variance_shares(estimator, linear_predictor=linear_predictor), top).plot(ax=ax, most=most)

    def plot(self, *, ax: Any = None, most: int = 15) -> Any:
        """Draw bars.

        Parameters
        ----------
        ax : array of 2 matplotlib axes, optional
            Where to draw; by default a new figure.
        most : int, default 15
            Columns, and interactions, at most.

        Returns
        -------
        SharesDisplay
            This one.
        """
        bars = max(min(most, len(self.shares.columns)), min(most, len(self.top.terms)), 4)
        self.axes_ = many_axes(ax, 2, (4.6, 0.9 + 0.24 * bars), 2)
        self.figure_ = self.axes_[0].figure
        order = np.argsort(self.shares.each, kind="stable")[-most:]
        names = [self.shares.columns[j] for j in order]
        main, rest = self.shares.main[order], (self.shares.each - self.shares.main)[order]
        self.axes_[0].barh(names, main, color=BLUE, label="main effect")
        self.axes_[0].barh(names, rest, left=main, color=ORANGE, label="interactions", hatch="///", edgecolor="white")
        self.axes_[0].legend(frameon=False, fontsize=8, loc="lower right")
        self.axes_[0].set_title("columns", fontsize=10)
        terms = [" × ".join(term) for term in self.top.terms[:most]][::-1]
        self.axes_[1].barh(terms, self.top.shares[:most][::-1], color=ORANGE, hatch="///", edgecolor="white")
        self.axes_[1].set_title("interactions", fontsize=10)
        for panel in self.axes_:
            panel.set_xlabel("share of the variance")
            panel.locator_params(axis="x", nbins=5)
            panel.xaxis.set_major_formatter(lambda value, _: f"{100.0 * value:.3g} %")
            tidy(panel)
        return self


@dataclass
class ExplanationDisplay:
    """One row: what adds up to its linear predictor, the largest parts first.

    Parameters
    ----------
    names : tuple of str
        Columns, or terms.
    values : array of shape (names,)
        What each of them adds.
    base : float
        What they are added to: the mean prediction.
    said : tuple of str
        Values of the columns in the row, or empty texts.

    Examples
    --------
    >>> from ahofm.plot import ExplanationDisplay
    >>> display = ExplanationDisplay.from_estimator(model, X, row=3)
    >>> display.ax_.get_xlabel()
    'linear predictor'
    """

    names: tuple[str, ...]
    values: Floats
    base: float
    said: tuple[str, ...]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, row: int = 0, *, terms: bool = False, ax: Any = None, linear_predictor: Any = None
    ) -> Any:
        """Explain a row of a table.

        Parameters
        ----------
        estimator : fitted estimator or model
            What is drawn.
        X : table
            With the columns of training.
        row : int, default 0
            Which row of it.
        terms : bool, default False
            Whether to explain by terms (contributions), not by columns (Shapley values).
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        linear_predictor : int or class, optional
            Which linear predictor, for families with several.

        Returns
        -------
        ExplanationDisplay
            Drawn: with ``figure_`` and ``ax_``.
        """
        if terms:
            return cls.of(contributions(estimator, X, linear_predictor=linear_predictor), row).plot(ax=ax)
        return cls.of(shapley_values(estimator, X, linear_predictor=linear_predictor), row).plot(ax=ax)

    @classmethod
    def of(cls, found: Contributions | Shapley, row: int = 0) -> Any:
        """Take numbers that are there already.

        Parameters
        ----------
        found : Contributions or Shapley
            Of several rows.
        row : int, default 0
            Which of them.

        Returns
        -------
        ExplanationDisplay
            Not drawn yet.
        """
        count = len(found.values)
        if isinstance(row, bool) or not isinstance(row, (int, np.integer)) or not -count <= row < count:
            raise ValueError(f"row must be between 0 and {count - 1}, got {row!r}")
        if isinstance(found, Shapley):
            said = tuple(_said(column[row]) for column in found.data)
            return cls(found.columns, found.values[row], found.base, said)
        rest = ("all other terms",) if found.rest.any() else ()
        values = np.concatenate([found.values[row], found.rest[row : row + 1] if rest else []])
        return cls((*found.names, *rest), values, found.intercept, ("",) * len(values))

    def plot(self, *, ax: Any = None, most: int = 10) -> Any:
        """Draw bars that add up.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        most : int, default 10
            Parts at most; the others are added up.

        Returns
        -------
        ExplanationDisplay
            This one.
        """
        order = np.argsort(-np.abs(self.values), kind="stable")
        names = [self.names[j] + (f" = {self.said[j]}" if self.said[j] else "") for j in order[:most]]
        parts = list(self.values[order[:most]])
        if len(order) > most:
            names.append(f"{len(order) - most} more")
            parts.append(float(self.values[order[most:]].sum()))
        self.ax_ = ax = axes(ax, (6.2, 0.9 + 0.34 * (len(parts) + 2)))
        self.figure_ = ax.figure
        starts = self.base + np.concatenate([[0.0], np.cumsum(parts)])
        y = np.arange(len(parts))
        colors = [BLUE if part >= 0 else ORANGE for part in parts]
        hatches = ["" if part >= 0 else "///" for part in parts]
        ax.barh(y, parts, left=starts[:-1], color=colors, hatch=hatches, edgecolor="white", height=0.7)
        reach = max(float(np.ptp(starts)), np.finfo(float).tiny)
        for at, (part, start) in enumerate(zip(parts, starts[:-1], strict=True)):
            end = start + part
            ax.text(max(start, end) + 0.015 * reach, at, f"{part:+.3g}", va="center", fontsize=8, color="black")
        ax.axvline(self.base, color=GREY, linewidth=0.9)
        ax.axvline(starts[-1], color="black", linewidth=0.9, linestyle="--")
        ax.set_yticks(y, names)
        ax.invert_yaxis()
        ax.set_xlim(starts.min() - 0.05 * reach, starts.max() + 0.14 * reach)
        ax.set_title(f"mean {self.base:.4g}  →  this row {starts[-1]:.4g}", fontsize=10)
        ax.set_xlabel("linear predictor")
        tidy(ax)
        return self


def _said(value: Any) -> str:
    if value is None or (isinstance(value, (float, np.floating)) and np.isnan(value)):
        return "missing"
    return f"{value:.4g}" if isinstance(value, (int, float, np.number)) else str(value)
