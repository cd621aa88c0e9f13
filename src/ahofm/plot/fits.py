"""A fit as a whole: how it converged, and how well its distributions hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from ahofm.columns.basis import Floats
from ahofm.explain.assessment import assess
from ahofm.model import Record, Trace
from ahofm.plot.canvas import BLUE, GREY, ORANGE, axes, many_axes, tidy

_FEW_RUNS = 8


@dataclass
class TraceDisplay:
    """How the fit went: its objective, and the loss on validation rows, if there were any.

    Parameters
    ----------
    trace : Trace
        Of a fit.

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
        """Draw how the fit of an estimator went.

        Parameters
        ----------
        estimator : fitted estimator
            Whose ``trace_`` is drawn.
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        TraceDisplay
            Drawn: with ``figure_`` and ``ax_``.
        """
        return cls(estimator.trace_).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the objective by iteration.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        TraceDisplay
            This one.
        """
        records = self.trace.records
        if not records:
            raise ValueError("the trace is empty: the fit made no iteration")
        self.ax_ = ax = axes(ax)
        self.figure_ = ax.figure
        runs = _runs(records)
        style = ".-" if len(runs) <= _FEW_RUNS else "."  # records of fits side by side alternate: lines would be a saw
        for place, run in enumerate(runs):
            at, objective = [record.iteration for record in run], [record.objective for record in run]
            label = "_" if place else "objective"
            ax.plot(at, objective, style, color=BLUE, markersize=3, linewidth=0.8, alpha=0.7, label=label)
        held = [(record.iteration, record.validation) for record in records if record.validation is not None]
        if held:
            ax.plot(*zip(*held, strict=True), color=ORANGE, linewidth=1.2, label="validation rows")
            ax.legend(frameon=False, fontsize=8)
        ax.set(xlabel="sweep" if self.trace.solver == "variational" else "iteration", ylabel="objective")
        ax.set_title(f"{self.trace.solver}: {self.trace.reason.value}", fontsize=9, wrap=True)
        tidy(ax)
        return self


def _runs(records: Sequence[Record]) -> list[list[Record]]:
    """Records of single fits: a search makes several, each of which begins above the end of the one before.

    The start of a fit, a model without columns, is left out where iterations follow: it would hide all of them.
    """
    kept = list(records[1:]) if len(records) > 2 else list(records)
    heights = [record.objective for record in kept]
    jump = 0.02 * (max(heights) - min(heights))
    found = [[kept[0]]]
    for before, record in pairwise(kept):
        if record.objective > before.objective + jump:
            found.append([])
        found[-1].append(record)
    return found


@dataclass
class DiagnosticsDisplay:
    """Quantile residuals against the normal distribution, against predictions and as a histogram; and calibration.

    Quantile residuals are normal when the model is right, whatever the family: where targets lie in their fitted
    distributions, through the normal quantile.

    Parameters
    ----------
    predicted : array of shape (n,)
        Means.
    observed : array of shape (n,)
        Targets.
    residuals : array of shape (n,)
        Quantile residuals.
    weight : array of shape (n,), optional
        Weights in the means of the calibration; all 1 by default.

    Examples
    --------
    >>> from ahofm.plot import DiagnosticsDisplay
    >>> display = DiagnosticsDisplay.from_estimator(model, X, y)
    >>> len(display.axes_)
    4
    """

    predicted: Floats
    observed: Floats
    residuals: Floats
    weight: Floats | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        ax: Any = None,
    ) -> Any:
        """Compute residuals of rows and draw them.

        Parameters
        ----------
        estimator : fitted estimator
            With one mean per row: a regressor, or a classifier of two classes.
        X : table of n rows, optional
            Best rows that were not fitted; by default those of training.
        y : array of shape (n,), optional
            Their targets; needed with ``X``.
        sample_weight : array of shape (n,), optional
            Weights in the means.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.
        ax : array of 4 matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        DiagnosticsDisplay
            Drawn: with ``figure_`` and ``axes_``.
        """
        rows = assess(estimator, X, y, sample_weight, offset)
        if rows is None:
            raise ValueError("X is None and the estimator has no training rows: give X and y")
        if rows.observed.shape[1] > 1:  # the first class against all others would be arbitrary
            raise ValueError("diagnostics of several classes are not drawn; use a classifier of two classes at a time")
        residuals = rows.quantile_residuals()
        if residuals is None:
            raise ValueError(f"{rows.model.family.name} does not say how its targets are distributed: no residuals")
        return cls(rows.fitted[:, 0], rows.observed[:, 0], residuals, rows.size).plot(ax=ax)

    def plot(self, *, ax: Any = None, bins: int = 12) -> Any:
        """Draw four pictures.

        Parameters
        ----------
        ax : array of 4 matplotlib axes, optional
            Where to draw; by default a new figure.
        bins : int, default 12
            Groups of rows for the calibration.

        Returns
        -------
        DiagnosticsDisplay
            This one.
        """
        self.axes_ = many_axes(ax, 4, (3.8, 3.2), 2)
        self.figure_ = self.axes_[0].figure
        quantiles, against, histogram, calibration = self.axes_
        self._quantiles(quantiles)
        few = np.random.default_rng(0).permutation(len(self.predicted))[:3_000]
        against.scatter(
            self.predicted[few], self.residuals[few], s=6, color=BLUE, alpha=0.35, linewidths=0, rasterized=True
        )
        against.axhline(0.0, color=GREY, linewidth=0.8)
        against.set(xlabel="fitted mean", ylabel="quantile residual")
        histogram.hist(np.clip(self.residuals, -4.0, 4.0), 40, range=(-4.0, 4.0), density=True, color=BLUE, alpha=0.45)
        x = np.linspace(-4.0, 4.0, 101)
        histogram.plot(x, stats.norm.pdf(x), color=ORANGE, linewidth=1.2)
        histogram.set(xlabel="quantile residual", ylabel="density")
        x, means, errors = self._calibration(bins)
        calibration.errorbar(x, means, errors, fmt="o", color=BLUE, markersize=4, linewidth=1.0)
        reach = [float(min(x.min(), means.min())), float(max(x.max(), means.max()))]
        calibration.plot(reach, reach, color=GREY, linewidth=0.8)
        calibration.set(xlabel="fitted mean", ylabel="observed mean, 95 %")
        for panel in self.axes_:
            tidy(panel)
        return self

    def _calibration(self, bins: int) -> tuple[Floats, Floats, Floats]:
        """Weighted means of groups of rows by their prediction: fitted, observed, and 1.96 standard errors."""
        weight = np.ones(len(self.predicted)) if self.weight is None else self.weight
        order = np.argsort(self.predicted, kind="stable")
        order = order[weight[order] > 0.0]
        found = []
        for group in np.array_split(order, min(bins, len(order))):
            share = weight[group] / weight[group].sum()
            mean = share @ self.observed[group]
            error = np.sqrt(np.sum((share * (self.observed[group] - mean)) ** 2))
            found.append((share @ self.predicted[group], mean, 1.96 * error))
        x, means, errors = np.array(found).T
        return x, means, errors

    def _quantiles(self, ax: Any) -> None:
        """Against the normal distribution, with a band that has 95 % of each where the model is right."""
        n = len(self.residuals)
        keep = np.unique(np.linspace(0, n - 1, 1_000).astype(int))
        normal = stats.norm.ppf((keep + 0.5) / n)
        band = [stats.norm.ppf(stats.beta.ppf(level, keep + 1, n - keep)) for level in (0.025, 0.975)]
        ax.fill_between(normal, *band, color=BLUE, alpha=0.2, linewidth=0)
        ax.plot(normal, normal, color=GREY, linewidth=0.8)
        ax.plot(normal, np.sort(self.residuals)[keep], ".", color=BLUE, markersize=3)
        ax.set(xlabel="normal quantile", ylabel="quantile residual")
