"""Predictions of a regressor: means, their intervals, and how much of the deviance they explain."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ahofm.columns.basis import Floats
from ahofm.estimators.dask_input import lazily
from ahofm.estimators.fitted import Fitted
from ahofm.estimators.intervals import check_level, conformal, mean_interval, mean_std, new_interval, with_std
from ahofm.families import Ordinal
from ahofm.kernels.blas import one_blas_thread
from ahofm.model import Band
from ahofm.scale.partitions import is_dask
from ahofm.threads import obeys_n_jobs


def _has_levels(fitted: Any) -> bool:
    return isinstance(fitted.model_.family if hasattr(fitted, "model_") else fitted.family, Ordinal) or (
        not hasattr(fitted, "model_") and fitted.family == "ordinal"
    )


class MeanPredictions(Fitted):
    """Means of a fitted regressor."""

    @obeys_n_jobs
    def predict(
        self, X: Any, offset: ArrayLike | None = None, *, return_std: bool = False
    ) -> NDArray[Any] | tuple[NDArray[Any], Floats]:
        """Predict the mean.

        Parameters
        ----------
        X : table of n rows
            With the columns of training, and no others. Columns that have names, in training and here, may be in any
            order; without names they are taken in the order of training.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.
        return_std : bool, default False
            Whether to return standard deviations of the means as well: how far the fit may be off, not how far new
            targets scatter.

        Returns
        -------
        mean : array of shape (n,), or (n, linear predictors) for a family whose mean has several parts
            Of a Dask collection a Dask Array, computed when asked for.
        std : array of shape (n,)
            Only with ``return_std``.

        Raises
        ------
        ValueError
            For columns that are missing, or that training did not have.
        """
        if is_dask(X):
            check_is_fitted(self, "model_")
            family = self.model_.family
            several = family.mean(np.zeros((1, family.n_eta))).ndim > 1
            width = family.n_eta if several else None
            return lazily(self, "predict", X, offset, width=width, return_std=return_std)
        table = self._read(X)
        if not return_std:
            return self.model_.predict(table, offset, n_threads=self._threads())
        eta, std = with_std(self.model_, self._one_band(), table, offset)
        return self.model_.family.mean(eta), mean_std(self.model_, eta, std)

    @obeys_n_jobs
    @one_blas_thread()
    def predict_interval(
        self,
        X: Any,
        level: float = 0.95,
        kind: Literal["mean", "new"] = "mean",
        offset: ArrayLike | None = None,
        calibration: tuple[Any, ...] | None = None,
    ) -> Floats:
        """Predict intervals that hold about ``level`` of what they are for, on average over rows.

        Parameters
        ----------
        X : table of n rows
            With the columns of training.
        level : float, default 0.95
            Between 0 and 1.
        kind : "mean" or "new", default "mean"
            For the mean, or for new targets: the mean's uncertainty and the family's scatter around it.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.
        calibration : (X, y) or (X, y, offset), optional
            Rows that were not fitted. Intervals for new targets are then widened (or narrowed) by the same amount
            everywhere so that they hold for these rows: split conformal prediction, which is right on average
            whatever the model.

        Returns
        -------
        array of shape (n, 2)
            Lower and upper ends.

        Raises
        ------
        ValueError
            Where neither the model has a band nor the estimator its training rows, as after pickling: see
            :meth:`with_uncertainty`.

        Examples
        --------
        >>> low, high = model.predict_interval(X).T
        >>> bool(np.all((low <= model.predict(X)) & (model.predict(X) <= high)))
        True
        >>> low, high = model.predict_interval(X, level=0.9, kind="new").T
        >>> bool(0.85 < np.mean((low < y) & (y < high)) < 0.97)
        True
        """
        check_is_fitted(self, "model_")
        level, band = check_level(level), self._one_band()
        if kind not in ("mean", "new"):
            raise ValueError(f"kind must be 'mean' or 'new', got {kind!r}")
        if calibration is not None and kind == "mean":
            raise ValueError("calibration is for kind='new': means are not observed")
        table = self._read(X)
        if kind == "mean":
            return np.column_stack(mean_interval(self.model_, *with_std(self.model_, band, table, offset), level))
        low, high = new_interval(self.model_, band, table, offset, level, seed=0)
        if calibration is not None:
            rows, y, *rest = calibration
            seen, shift = self._read(rows), rest[0] if rest else None
            ends = new_interval(self.model_, band, seen, shift, level, seed=1)
            wider = conformal(*ends, y, level)
            low, high = low - wider, high + wider
        return np.column_stack([low, high])

    @available_if(_has_levels)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def predict_proba(self, X: Any, offset: ArrayLike | None = None) -> Floats:
        """Predict the probability of every level, for ``family="ordinal"``.

        Parameters
        ----------
        X : table of n rows
            With the columns of training.
        offset : array of shape (n,), optional
            Added to the linear predictor.

        Returns
        -------
        array of shape (n, levels)
            In the order of ``model_.family.categories``.
        """
        return self.model_.ordinal_probabilities(self._read(X), offset)

    def _one_band(self) -> Band:
        """The band, of a family whose mean follows its first linear predictor."""
        if self.model_.family.mean(np.zeros((1, self.model_.family.n_eta))).ndim > 1:
            raise ValueError(f"{self.model_.family.name} has no single mean; use predict_eta(X, return_std=True)")
        return self.band_

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, offset: ArrayLike | None = None
    ) -> float:
        """Compute the fraction of the family's deviance explained: R^2 for the Gaussian, and D^2 for the others.

        Families without a deviance (location and scale) give the R^2 of the mean. Of a constant target it is 1 where
        the mean hits it and else 0, as in scikit-learn.

        Parameters
        ----------
        X : table of n rows
            With the columns of training.
        y : array of shape (n,)
            Targets.
        sample_weight : array of shape (n,), optional
            Weights of the rows.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.

        Returns
        -------
        float
            At most 1.
        """
        table, target = self._read(X), column_or_1d(self._target(y) if self.model_.family.censored else y)
        return self.model_.deviance_explained(table, target, sample_weight, offset, n_threads=self._threads())
