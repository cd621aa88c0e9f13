"""Censored times in an estimator: targets as people have them, survival curves, and how good predictions are."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ahofm.columns.basis import Floats
from ahofm.estimators.fitted import Fitted
from ahofm.families import Family
from ahofm.families.distributions import CensoredTimes
from ahofm.families.survival import FailureTime
from ahofm.model.survival_scores import brier_score, concordance
from ahofm.threads import obeys_n_jobs


def signed_times(y: Any) -> Floats:
    """Times (n,), negative where censored, of targets with censoring.

    Parameters
    ----------
    y : array of shape (n, 2), structured array or array of shape (n,)
        Time and event (1, or 0 where censored); a structured array has the event first, as in scikit-survival; one
        number per row is a time with an event.

    Raises
    ------
    ValueError
        For events that are neither 0 nor 1, and for times that are not positive.
    """
    time, event = _time_and_event(y)
    bad = np.flatnonzero(~((event == 0.0) | (event == 1.0)))
    if len(bad):
        raise ValueError(
            f"y: the event must be 1, or 0 where the time is censored, got {event[bad[0]]:g} in row {bad[0]}; "
            "recode it, or swap the columns of y, which are time and event"
        )
    bad = np.flatnonzero(~((time > 0.0) & np.isfinite(time)))
    if len(bad):
        raise ValueError(
            f"y: times must be positive and finite, got {time[bad[0]]:g} in row {bad[0]}; drop the row, or count time "
            "from an earlier start"
        )
    return np.where(event == 1.0, time, -time)


def _time_and_event(y: Any) -> tuple[Floats, Floats]:
    found = np.asarray(y)
    if found.dtype.names is not None:
        names = found.dtype.names
        if len(names) != 2 or found.dtype[names[0]].kind != "b":
            raise ValueError(f"y: a structured array of times has a truth value (event) and a time, got {found.dtype}")
        return np.asarray(found[names[1]], dtype=np.float64), np.asarray(found[names[0]], dtype=np.float64)
    if found.ndim == 2 and found.shape[1] == 2:
        numbers = np.asarray(found, dtype=np.float64)
        return numbers[:, 0], numbers[:, 1]
    if found.ndim == 1:
        return np.asarray(found, dtype=np.float64), np.ones(len(found))
    raise ValueError(
        f"y has shape {found.shape}; times are an array of shape (n, 2) with time and event, a structured array of "
        "event and time, or times of shape (n,)"
    )


class SurvivalPredictions(Fitted):
    """What a regressor predicts of censored times; ``predict`` is the median time."""

    @obeys_n_jobs
    def predict_survival(self, X: Any, times: ArrayLike, offset: ArrayLike | None = None) -> Floats:
        """Predict survival curves: probabilities that nothing has happened until some times.

        Parameters
        ----------
        X : table of n rows
            With the columns of training.
        times : array of shape (m,)
            Positive.
        offset : array of shape (n,), optional
            Added to the linear predictor.

        Returns
        -------
        array of shape (n, m)
            Decreasing along a row.
        """
        family, table = self._censored(), self._read(X)
        eta = self.model_.eta(table, offset)
        at = np.asarray(times, dtype=np.float64)
        if at.ndim != 1 or not (at > 0.0).all():
            raise ValueError(f"times must be an array of positive numbers, got {times!r}")
        found = cast("CensoredTimes", family.distribution(eta, 1.0))
        return np.stack([found.sf(np.full(len(eta), t)) for t in at], axis=1)

    def concordance(self, X: Any, y: Any, offset: ArrayLike | None = None) -> float:
        """Compute Harrell's index: how often the one of two rows that is predicted to last longer does.

        Parameters
        ----------
        X : table of n rows
            With the columns of training.
        y : array of shape (n, 2), or structured array
            Times and events, as for ``fit``.
        offset : array of shape (n,), optional
            Added to the linear predictor.

        Returns
        -------
        float
            1 where all pairs that can be compared are in the right order, about a half by chance.
        """
        self._censored()
        return concordance(signed_times(y), self.model_.eta(self._read(X), offset)[:, 0])

    def brier_score(self, X: Any, y: Any, times: ArrayLike, offset: ArrayLike | None = None) -> Floats:
        """Compute the mean squared error of survival probabilities at some times, weighted for censoring.

        Rows count by one over the probability of not being censored until then, by the Kaplan-Meier estimator of
        censoring in these rows (Graf et al. 1999).

        Parameters
        ----------
        X : table of n rows
            With the columns of training.
        y : array of shape (n, 2), or structured array
            Times and events, as for ``fit``.
        times : array of shape (m,)
            Between the first and the last observed time.
        offset : array of shape (n,), optional
            Added to the linear predictor.

        Returns
        -------
        array of shape (m,)
            A quarter for a probability of one half everywhere.
        """
        at = np.asarray(times, dtype=np.float64)
        return brier_score(signed_times(y), self.predict_survival(X, at, offset), at)

    def _censored(self) -> FailureTime:
        family: Family = self.model_.family
        if not isinstance(family, FailureTime):
            raise ValueError(
                f"{family.name} has no survival times; use family='weibull', 'log_normal' or 'log_logistic'"
            )
        return family


def target_of(family: Family, y: Any) -> NDArray[Any]:
    """Targets as a family knows them: signed times where they may be censored, and else as they are."""
    return signed_times(y) if family.censored else y
