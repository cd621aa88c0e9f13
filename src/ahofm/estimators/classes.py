"""Predictions of a classifier: labels, probabilities, linear predictors, and the fraction of rows that are right."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ahofm.columns.basis import Floats
from ahofm.estimators.dask_input import lazily
from ahofm.estimators.fitted import Fitted
from ahofm.estimators.intervals import check_level, class_intervals, with_std
from ahofm.kernels.blas import one_blas_thread
from ahofm.model import check_weight
from ahofm.scale.partitions import is_dask
from ahofm.threads import obeys_n_jobs


class ClassPredictions(Fitted):
    """Labels and probabilities of a fitted classifier."""

    classes_: NDArray[Any]

    def predict(self, X: Any, offset: ArrayLike | None = None) -> NDArray[Any]:
        """Predict the most likely class of each row.

        Parameters
        ----------
        X : table of n rows
            With the columns of training, and no others. Columns that have names, in training and here, may be in any
            order; without names they are taken in the order of training.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.

        Returns
        -------
        array of shape (n,)
            Labels; of a Dask collection a Dask Array, computed when asked for.
        """
        if is_dask(X):
            check_is_fitted(self, "model_")
            return lazily(self, "predict", X, offset, width=None, dtype=self.classes_.dtype)
        table = self._read(X)
        return self.model_.predict(table, offset, n_threads=self._threads())

    def predict_proba(self, X: Any, offset: ArrayLike | None = None) -> Floats:
        """Predict the probability of each class.

        Parameters
        ----------
        X : table of n rows
            With the columns of training, and no others. Columns that have names, in training and here, may be in any
            order; without names they are taken in the order of training.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.

        Returns
        -------
        array of shape (n, classes)
            In the order of ``classes_``; of a Dask collection a Dask Array, computed when asked for.
        """
        if is_dask(X):
            check_is_fitted(self, "model_")
            return lazily(self, "predict_proba", X, offset, width=len(self.classes_))
        table = self._read(X)
        mean = self.model_.mean(table, offset, n_threads=self._threads())
        return mean if mean.ndim == 2 else np.column_stack([1.0 - mean, mean])

    def predict_log_proba(self, X: Any, offset: ArrayLike | None = None) -> Floats:
        """Predict the logarithm of the probability of each class.

        Parameters
        ----------
        X : table of n rows
            With the columns of training, and no others. Columns that have names, in training and here, may be in any
            order; without names they are taken in the order of training.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.

        Returns
        -------
        array of shape (n, classes)
            In the order of ``classes_``.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X, offset)))

    @obeys_n_jobs
    @one_blas_thread()
    def predict_interval(self, X: Any, level: float = 0.95, offset: ArrayLike | None = None) -> Floats:
        """Predict intervals that hold about ``level`` of the probabilities of classes, on average over rows.

        Parameters
        ----------
        X : table of n rows
            With the columns of training.
        level : float, default 0.95
            Between 0 and 1.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.

        Returns
        -------
        array of shape (n, classes, 2)
            Lower and upper ends, classes in the order of ``classes_``: the probabilities of :meth:`predict_proba` lie
            between them. For two classes they are the interval of the log odds; for more, the linear predictors of
            classes are taken as independent.

        Raises
        ------
        ValueError
            Where neither the model has a band nor the estimator its training rows, as after pickling: see
            :meth:`with_uncertainty`.
        """
        check_is_fitted(self, "model_")
        level = check_level(level)
        eta, std = with_std(self.model_, self.band_, self._read(X), offset)
        return np.stack(class_intervals(self.model_, eta, std, level), axis=2)

    def decision_function(self, X: Any, offset: ArrayLike | None = None) -> Floats:
        """Predict on the scale of the linear predictor.

        Parameters
        ----------
        X : table of n rows
            With the columns of training, and no others. Columns that have names, in training and here, may be in any
            order; without names they are taken in the order of training.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.

        Returns
        -------
        array of shape (n,), or (n, classes) for more than two
            For two classes the log odds of the second.
        """
        return cast("Floats", self.predict_eta(X, offset))

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, offset: ArrayLike | None = None
    ) -> float:
        """Compute the fraction of rows whose class is predicted right.

        Parameters
        ----------
        X : table of n rows
            With the columns of training.
        y : array of shape (n,)
            Labels.
        sample_weight : array of shape (n,), optional
            Weights of the rows.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.

        Returns
        -------
        float
            Between 0 and 1.
        """
        right = self.predict(X, offset) == np.asarray(y)
        return float(np.average(right, weights=check_weight(sample_weight, len(right))))
