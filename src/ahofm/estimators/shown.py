"""A fitted estimator for people: importances, summary, figures, a page, a file. All of it is made elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from ahofm.columns.basis import Floats
from ahofm.estimators.editing import Edited
from ahofm.kernels.blas import one_blas_thread
from ahofm.threads import obeys_n_jobs


class Shown(Edited):
    """What shows and keeps a fitted estimator."""

    @property
    def feature_importances_(self) -> Floats:
        """Share of the variance of the linear predictor that each column carries: (columns,), in sum 1.

        The variance is that under independent columns, where main effects and interactions are uncorrelated. An
        interaction of d columns counts for each of them by 1/d. All are 0 when the model is constant. Variances of
        several linear predictors are added up. ``ahofm.explain.variance_shares`` has main effects and orders apart.
        """
        from ahofm.explain.shares import importances  # noqa: PLC0415 - explaining knows estimators, not the other way round

        check_is_fitted(self, "model_")
        return importances(self)

    @obeys_n_jobs
    def summary(self) -> Any:
        """Summarise the model: columns and orders with their shares, degrees of freedom, tests, and warnings.

        Returns
        -------
        ahofm.explain.Summary
            ``print`` it, or call ``to_frame``.
        """
        from ahofm.explain import summary  # noqa: PLC0415 - as for importances

        check_is_fitted(self, "model_")
        return summary(self)

    @obeys_n_jobs
    def plot(self, terms: Any = None, *, ax: Any = None, labels: Any = None, most: int = 30, **options: Any) -> Any:
        """Draw effects: a curve for each column, a surface for each pair of columns. Needs matplotlib.

        Parameters
        ----------
        terms : list of column names and pairs of them, or a single name, optional
            E.g. ``["wind", ("rain", "sun")]``; columns may be given by number. By default all main effects, with their
            effective degrees of freedom, and pairs that carry half a percent of the variance, strongest first.
        ax : matplotlib axes, or an array of as many as there are terms, optional
            Where to draw; by default a new figure.
        labels : dict of column name to text, optional
            For axes, e.g. with units.
        most : int, default 30
            Terms at most, where ``terms`` is not given.
        **options
            Settings of ``ahofm.explain.effect``, e.g. ``scale``, ``level`` or ``linear_predictor``.

        Returns
        -------
        ahofm.plot.EffectsDisplay
            With ``figure_`` and ``axes_``.
        """
        from ahofm.plot import EffectsDisplay  # noqa: PLC0415 - as for importances

        check_is_fitted(self, "model_")
        return EffectsDisplay.from_estimator(self, terms, ax=ax, labels=labels, most=most, **options)

    @obeys_n_jobs
    @one_blas_thread()
    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        X: Any = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        title: str | None = None,
        target: str = "the target",
        command: str | None = None,
    ) -> Any:
        """Make a page that shows the model; it is self-contained and evaluates the model in the browser.

        Parameters
        ----------
        path : str or path, optional
            Of an HTML file; .json is everything that the page shows as data, .md a text with tables. Without a path
            a notebook shows the page inline.
        X : table of n rows, optional
            Rows that were not fitted: their scores come first, and diagnostics are those of these rows.
        y : array of shape (n,), optional
            Their targets; needed with ``X``.
        sample_weight : array of shape (n,), optional
            Their weights.
        offset : array of shape (n,) or (n, linear predictors), optional
            As in ``fit``.
        title : str, optional
            Headline of the page.
        target : str, default "the target"
            What is predicted, for headings.
        command : str, optional
            With which the model was made, to be shown.

        Returns
        -------
        Path or ahofm.report.Report
            Where the file is; without a path the report, which has ``to_html``, ``to_json`` and ``to_markdown``.
        """
        from ahofm.report import report, write  # noqa: PLC0415 - as for importances

        check_is_fitted(self, "model_")
        rows = {"X": X, "y": y, "sample_weight": sample_weight, "offset": offset}
        if path is None:
            return report(self, **rows, title=title, target=target, command=command)
        return write(self, path, **rows, title=title, target=target, command=command)

    def appraise(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        ax: Any = None,
    ) -> Any:
        """Draw four pictures of how well the fitted distributions hold. Needs matplotlib.

        Quantile residuals against the normal distribution with a band, against predictions, and as a histogram; and
        observed against fitted means.

        Parameters
        ----------
        X : table of n rows, optional
            Best rows that were not fitted; by default those of training.
        y : array of shape (n,), optional
            Their targets; needed with ``X``.
        sample_weight : array of shape (n,), optional
            Weights in the means.
        offset : array of shape (n,), optional
            As in ``fit``.
        ax : array of 4 matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        ahofm.plot.DiagnosticsDisplay
            With ``figure_`` and ``axes_``.
        """
        from ahofm.plot import DiagnosticsDisplay  # noqa: PLC0415 - as for importances

        check_is_fitted(self, "model_")
        return DiagnosticsDisplay.from_estimator(self, X, y, sample_weight=sample_weight, offset=offset, ax=ax)

    def _repr_html_inner(self) -> str:
        """What a notebook shows: scikit-learn's diagram and, of a fitted estimator, what each column carries."""
        drawn: str = estimator_html_repr(self)
        if not hasattr(self, "model_"):
            return drawn
        from ahofm.explain.html import fitted_html  # noqa: PLC0415 - as for importances

        return drawn + fitted_html(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """The same, for notebooks that ask for every form."""
        found = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            found["text/html"] = self._repr_html_inner()
        return found

    @obeys_n_jobs
    def save(self, path: str | os.PathLike[str], *, uncertainty: bool = True) -> None:
        """Write the fitted model to a file that :func:`ahofm.load` reads; nothing in such a file is executed.

        Parameters
        ----------
        path : str or path
            Of the file; one that is there is replaced when the new one is complete.
        uncertainty : bool, default True
            Whether the file has the band of the model, which is computed if there is none yet. Without it
            the estimator that ``load`` returns has no intervals, standard deviations and degrees of freedom.

        Raises
        ------
        TypeError
            For a family, column kind or label that is not built in: pickle the estimator instead.
        ValueError
            With ``uncertainty``, where neither the model has a band nor the estimator its training rows.
        """
        check_is_fitted(self, "model_")
        (self.with_uncertainty() if uncertainty else self).model_.save(Path(path))
