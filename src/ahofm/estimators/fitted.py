"""What both estimators compute once they are fitted: linear predictors, uncertainty, likelihoods, draws.

Nothing here changes the estimator. What is computed late, the band of the model, is kept by its training rows.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.estimators.dask_input import lazily
from ahofm.estimators.intervals import with_std
from ahofm.estimators.training import TrainingRows
from ahofm.model import Band, Model
from ahofm.model.scores import log_likelihood, pit, sample
from ahofm.scale.partitions import is_dask
from ahofm.threads import limited, obeys_n_jobs

Self = TypeVar("Self", bound="Fitted")


class Fitted:
    """What both estimators compute once they are fitted."""

    model_: Model
    training_: TrainingRows | None

    @obeys_n_jobs
    def predict_eta(
        self, X: Any, offset: ArrayLike | None = None, *, return_std: bool = False
    ) -> Floats | tuple[Floats, Floats]:
        """Predict on the scale of the linear predictor, before the link.

        Parameters
        ----------
        X : table of n rows
            With the columns of training; columns that have names may be in any order.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.
        return_std : bool, default False
            Whether to return standard deviations as well.

        Returns
        -------
        eta : array of shape (n,), or (n, linear predictors) for a family with several
            Of a Dask collection a Dask Array, computed when asked for.
        std : array of the same shape
            Only with ``return_std``.
        """
        if is_dask(X):
            check_is_fitted(self, "model_")
            count = self.model_.family.n_eta
            width = None if count == 1 else count
            return lazily(self, "predict_eta", X, offset, width=width, return_std=return_std)
        table = self._read(X)
        eta = self.model_.eta(table, offset, n_threads=self._threads())
        eta = eta[:, 0] if eta.shape[1] == 1 else eta
        if not return_std:
            return eta
        std = with_std(self.model_, self.band_, table, offset)[1]
        return eta, std[:, 0] if std.shape[1] == 1 else std

    @property
    def band_(self) -> Band:
        """The band of the model: covariances, biases and effective degrees of freedom of its coefficients.

        Computed from the training rows when it, or anything that needs it, is first asked for, and then kept by
        ``training_``; that of ``model_`` where the model has one, as after :meth:`with_uncertainty` or loading.
        """
        check_is_fitted(self, "model_")
        if self.model_.band is not None:
            return self.model_.band
        with limited(self._threads()):
            return cast("Band", self._training_rows().model.band)

    @property
    def edf_(self) -> dict[int, Floats]:
        """Effective degrees of freedom: for each order an array of shape (columns,), summed over linear predictors."""
        edf = self.band_.edf
        return {order: sum((part[order] for part in edf), np.zeros(1)) for order in edf[0]}

    @obeys_n_jobs
    def with_uncertainty(
        self: Self,
        X: Any = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Make a copy of the estimator whose ``model_`` holds its band, so that pickles and ``model_.save`` have it.

        A fitted estimator computes the band by itself when something needs it, from its training rows. Pickles do not
        hold these: make such a copy before pickling, or give the training rows after unpickling.

        Parameters
        ----------
        X : table of n rows, optional
            The training rows; by default those that the estimator has in ``training_``.
        y : array of shape (n,), optional
            Their targets; needed with ``X``.
        sample_weight : array of shape (n,), optional
            Their weights, if ``fit`` had weights.
        offset : array of shape (n,) or (n, linear predictors), optional
            Their offsets, if ``fit`` had offsets.

        Returns
        -------
        AHOFMRegressor or AHOFMClassifier
            The copy; ``self`` is as it was.

        Raises
        ------
        ValueError
            Without ``X``, where neither the model has a band nor the estimator its training rows.
        """
        check_is_fitted(self, "model_")
        made = copy.copy(self)
        if X is not None:
            if y is None:
                raise ValueError("y is None: with X its targets are needed")
            target = self._target(y)
            weight = self._weight(target, sample_weight)
            made.training_ = TrainingRows(replace(self.model_, band=None), self._read(X), target, weight, offset)
        if X is not None or self.model_.band is None:
            made.model_ = made._training_rows().model
        return made

    def sample(self, X: Any, n: int = 1, offset: ArrayLike | None = None, random_state: Any = None) -> Floats:
        """Draw new targets from the fitted distribution, linear predictors taken as known.

        Parameters
        ----------
        X : table of rows
            With the columns of training.
        n : int, default 1
            Draws for each row.
        offset : array of shape (rows,) or (rows, linear predictors), optional
            Added to the linear predictor.
        random_state : int, Generator or None
            Seed of the draws.

        Returns
        -------
        array of shape (n, rows)
            Targets; class numbers 0, 1, ... for a classifier.
        """
        table = self._read(X)
        return sample(self.model_, table, n, random_state, offset)

    def log_likelihood(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, offset: ArrayLike | None = None
    ) -> float:
        """Sum up the logarithms of the fitted densities, or probabilities, of targets.

        Parameters
        ----------
        X : table of n rows
            With the columns of training.
        y : array of shape (n,)
            Targets, or labels for a classifier.
        sample_weight : array of shape (n,), optional
            Weights in the sum.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.

        Returns
        -------
        float
        """
        table = self._read(X)
        return log_likelihood(self.model_, table, self._target(y), sample_weight, offset)

    def aic(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, offset: ArrayLike | None = None
    ) -> float:
        """Compute Akaike's criterion: minus twice the log-likelihood, plus twice the effective degrees of freedom.

        Intercepts, a dispersion and a parameter of the family count one each.

        Parameters
        ----------
        X, y, sample_weight, offset
            The training rows, as for :meth:`log_likelihood`.

        Returns
        -------
        float
        """
        check_is_fitted(self, "model_")
        extra = self.model_.family.n_eta + self.model_.family.dispersed + self.model_.family.open
        edf = float(sum(part.sum() for part in self.edf_.values())) + extra
        return -2.0 * self.log_likelihood(X, y, sample_weight, offset) + 2.0 * edf

    def pit(self, X: Any, y: ArrayLike, offset: ArrayLike | None = None, random_state: Any = 0) -> Floats:
        """Compute where targets lie in their fitted distributions (probability integral transform).

        Parameters
        ----------
        X : table of n rows
            With the columns of training.
        y : array of shape (n,)
            Targets, or labels for a classifier.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.
        random_state : int, Generator or None, default 0
            Counts and classes are spread at random over their step: its seed.

        Returns
        -------
        array of shape (n,)
            Uniform between 0 and 1 when the model is right.
        """
        table = self._read(X)
        return pit(self.model_, table, self._target(y), random_state, offset)

    def _training_rows(self) -> TrainingRows:
        if self.training_ is None:
            raise ValueError(
                "the training rows are not here any more, e.g. after pickling: with_uncertainty(X, y) takes them; "
                "before pickling, with_uncertainty() makes a copy that needs them no more"
            )
        return self.training_

    def _target(self, y: Any) -> Floats:
        """Targets as the family knows them."""
        return np.asarray(y, dtype=np.float64)

    def _weight(self, target: Floats, sample_weight: ArrayLike | None) -> ArrayLike | None:
        """Weights of rows in the fit."""
        del target
        return sample_weight

    def _read(self, X: Any, *, reset: bool = False) -> Table:
        raise NotImplementedError

    def _threads(self) -> int:
        raise NotImplementedError
