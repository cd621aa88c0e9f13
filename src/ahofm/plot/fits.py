"""A fit as a whole: who carries the variance, one row's prediction, how it converged, how well it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

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
from ahofm.model import Trace
from ahofm.plot.canvas import BLUE, GREY, ORANGE, axes, many_axes, tidy


@dataclass
class SharesDisplay:
    """Shares of the variance: columns (main effects and interactions), and the strongest interactions.

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
        """Work them out and draw them."""
        top = top_interactions(estimator, most, linear_predictor=linear_predictor)
        return cls(variance_shares(estimator, linear_predictor=linear_predictor), top).plot(ax=ax, most=most)

    def plot(self, *, ax: Any = None, most: int = 15) -> Any:
        """Draw them; ``ax`` may hold two axes."""
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
            panel.xaxis.set_major_formatter(lambda value, _: f"{value:.3g}" if value < 0.01 else f"{value:.0%}")
            tidy(panel)
        return self


@dataclass
class ExplanationDisplay:
    """One row: what adds up to its linear predictor, the largest parts first.

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
        """Explain a row of a table by its columns (Shapley values), or by its terms (``terms=True``)."""
        if terms:
            return cls.of(contributions(estimator, X, linear_predictor=linear_predictor), row).plot(ax=ax)
        return cls.of(shapley_values(estimator, X, linear_predictor=linear_predictor), row).plot(ax=ax)

    @classmethod
    def of(cls, found: Contributions | Shapley, row: int = 0) -> Any:
        """From numbers that are there already."""
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
        """Draw it."""
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


@dataclass
class TraceDisplay:
    """How the fit went: its objective, and the loss on validation rows, if there were any.

    Examples
    --------
    >>> from ahofm.plot import TraceDisplay
    >>> display = TraceDisplay.from_estimator(model)
    >>> display.ax_.get_xlabel()
    'sweep'
    """

    trace: Trace

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Any:
        """Draw an estimator's ``trace_``."""
        return cls(estimator.trace_).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw it."""
        records = self.trace.records
        if not records:
            raise ValueError("the trace is empty: the fit made no iteration")
        self.ax_ = ax = axes(ax)
        self.figure_ = ax.figure
        at = [record.iteration for record in records]
        ax.plot(at, [record.objective for record in records], ".", color=BLUE, markersize=4, label="objective")
        held = [(record.iteration, record.validation) for record in records if record.validation is not None]
        if held:
            ax.plot(*zip(*held, strict=True), color=ORANGE, linewidth=1.2, label="validation rows")
            ax.legend(frameon=False, fontsize=8)
        ax.set(xlabel="sweep" if self.trace.solver == "variational" else "iteration", ylabel="objective")
        ax.set_title(f"{self.trace.solver}: {self.trace.reason.value}", fontsize=9, wrap=True)
        tidy(ax)
        return self


@dataclass
class DiagnosticsDisplay:
    """Quantile residuals against predictions and against the normal distribution, and calibration of the mean.

    Quantile residuals are normal when the model is right, whatever the family: where targets lie in their fitted
    distributions, through the normal quantile.

    Examples
    --------
    >>> from ahofm.plot import DiagnosticsDisplay
    >>> display = DiagnosticsDisplay.from_estimator(model, X, y)
    >>> len(display.axes_)
    3
    """

    predicted: Floats
    observed: Floats
    residuals: Floats

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, offset: ArrayLike | None = None, ax: Any = None
    ) -> Any:
        """For rows, best those that were not fitted."""
        target = np.asarray(estimator._target(y), dtype=np.float64)
        model = estimator.model_
        mean = model.mean(X, offset)
        if mean.ndim == 2:  # the first class against all others would be arbitrary: the observed one
            raise ValueError("diagnostics of several classes are not drawn; use a classifier of two classes at a time")
        residuals = stats.norm.ppf(np.clip(estimator.pit(X, y, offset), 1e-12, 1.0 - 1e-12))
        return cls(mean, target, residuals).plot(ax=ax)

    def plot(self, *, ax: Any = None, bins: int = 12) -> Any:
        """Draw three pictures; ``ax`` may hold as many axes."""
        self.axes_ = many_axes(ax, 3, (3.8, 3.2), 3)
        self.figure_ = self.axes_[0].figure
        first, second, third = self.axes_
        few = np.random.default_rng(0).permutation(len(self.predicted))[:3_000]
        first.scatter(
            self.predicted[few], self.residuals[few], s=6, color=BLUE, alpha=0.35, linewidths=0, rasterized=True
        )
        first.axhline(0.0, color=GREY, linewidth=0.8)
        first.set(xlabel="predicted mean", ylabel="quantile residual")
        ordered = np.sort(self.residuals)
        normal = stats.norm.ppf((np.arange(len(ordered)) + 0.5) / len(ordered))
        keep = np.unique(np.linspace(0, len(ordered) - 1, 1_000).astype(int))
        second.plot(normal[keep], ordered[keep], ".", color=BLUE, markersize=3)
        reach = [float(normal.min()), float(normal.max())]
        second.plot(reach, reach, color=GREY, linewidth=0.8)
        second.set(xlabel="normal quantile", ylabel="quantile residual")
        groups = np.array_split(np.argsort(self.predicted, kind="stable"), min(bins, len(self.predicted)))
        x = np.array([self.predicted[group].mean() for group in groups])
        means = np.array([self.observed[group].mean() for group in groups])
        errors = np.array([1.96 * self.observed[group].std() / np.sqrt(len(group)) for group in groups])
        third.errorbar(x, means, errors, fmt="o", color=BLUE, markersize=4, linewidth=1.0)
        reach = [float(min(x.min(), means.min())), float(max(x.max(), means.max()))]
        third.plot(reach, reach, color=GREY, linewidth=0.8)
        third.set(xlabel="predicted mean", ylabel="observed mean, 95 %")
        for panel in self.axes_:
            tidy(panel)
        return self


def _said(value: Any) -> str:
    if value is None or (isinstance(value, (float, np.floating)) and np.isnan(value)):
        return "missing"
    return f"{value:.4g}" if isinstance(value, (int, float, np.number)) else str(value)
