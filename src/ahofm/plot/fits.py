"""A fit as a whole: how it converged, and how well its distributions hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from ahofm.columns.basis import Floats
from ahofm.model import Trace
from ahofm.plot.canvas import BLUE, GREY, ORANGE, axes, many_axes, tidy


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

    Parameters
    ----------
    predicted : array of shape (n,)
        Means.
    observed : array of shape (n,)
        Targets.
    residuals : array of shape (n,)
        Quantile residuals.

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
        """Compute residuals of rows and draw them.

        Parameters
        ----------
        estimator : fitted estimator
            With one mean per row: a regressor, or a classifier of two classes.
        X : table of n rows
            Best rows that were not fitted.
        y : array of shape (n,)
            Their targets.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.
        ax : array of 3 matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        DiagnosticsDisplay
            Drawn: with ``figure_`` and ``axes_``.
        """
        target = np.asarray(estimator._target(y), dtype=np.float64)
        model = estimator.model_
        mean = model.mean(X, offset)
        if mean.ndim == 2:  # the first class against all others would be arbitrary: the observed one
            raise ValueError("diagnostics of several classes are not drawn; use a classifier of two classes at a time")
        residuals = stats.norm.ppf(np.clip(estimator.pit(X, y, offset), 1e-12, 1.0 - 1e-12))
        return cls(mean, target, residuals).plot(ax=ax)

    def plot(self, *, ax: Any = None, bins: int = 12) -> Any:
        """Draw three pictures.

        Parameters
        ----------
        ax : array of 3 matplotlib axes, optional
            Where to draw; by default a new figure.
        bins : int, default 12
            Groups of rows for the calibration.

        Returns
        -------
        DiagnosticsDisplay
            This one.
        """
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
