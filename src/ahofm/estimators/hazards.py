"""Piecewise exponential hazards: a Cox model with a smooth baseline, as Poisson regression of events per interval.

A row that is observed until time t is one row for every interval until t. The event count of such a row is Poisson with
mean ``exposure exp(eta)``, whose likelihood is that of a hazard constant within intervals. Time is one more column: its
main effect is the logarithm of the baseline hazard, its interactions are hazards that are not proportional.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from ahofm.columns.basis import Floats
from ahofm.columns.table import Table, read_table
from ahofm.estimators.regressor import AHOFMRegressor
from ahofm.estimators.survival import signed_times
from ahofm.estimators.training import TrainingRows
from ahofm.families import Poisson
from ahofm.inference.dispersion import DispersionWarning
from ahofm.model.survival_scores import brier_score, concordance


class AHOFMHazard(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Hazards of right-censored times, with all interactions up to an order, those with time included.

    Parameters
    ----------
    regressor : AHOFMRegressor, optional
        Settings of the fit of hazards; its family is Poisson whatever it says. By default ``AHOFMRegressor()``.
    n_intervals : int, default 20
        Between quantiles of the times of events; the hazard is constant within an interval.
    time : str, default "time"
        Name of the column of time in the fitted model.

    Attributes
    ----------
    regressor_ : AHOFMRegressor
        Fitted to one row per row and interval: everything that explains a model explains hazards.
    breaks_ : array of shape (n_intervals + 1,)
        Ends of the intervals; the last hazard goes on beyond.

    Examples
    --------
    >>> from ahofm import AHOFMHazard
    >>> lifetime = rng.exponential(np.exp(-X.wind))
    >>> y_seen = np.column_stack([np.minimum(lifetime, 2.0), lifetime < 2.0])
    >>> regressor = AHOFMRegressor(order=1, random_state=0)
    >>> hazard = AHOFMHazard(regressor, n_intervals=5).fit(X, y_seen)
    >>> hazard.predict_survival(X[:3], [0.5, 1.0]).shape
    (3, 2)
    """

    def __init__(self, regressor: AHOFMRegressor | None = None, n_intervals: int = 20, time: str = "time") -> None:
        self.regressor = regressor
        self.n_intervals = n_intervals
        self.time = time

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> AHOFMHazard:
        """Fit the hazards.

        Parameters
        ----------
        X : table of n rows
            As for :meth:`AHOFMRegressor.fit`.
        y : array of shape (n, 2), or structured array
            Time and event (1, or 0 where censored); a structured array has the event first, as in scikit-survival.
        sample_weight : array of shape (n,), optional
            Weights of the rows.
        groups : array of shape (n,), optional
            Rows that go together; by default the intervals of a row do.

        Returns
        -------
        AHOFMHazard
            The estimator itself.
        """
        table, signed = read_table(X), signed_times(y)
        if len(signed) != table.n_rows:
            raise ValueError(f"y has {len(signed)} rows, but X has {table.n_rows}")
        if self.time in table.names:
            raise ValueError(f"X has a column {self.time!r} of its own; give another name for time=")
        if not (signed > 0.0).any():
            raise ValueError("y has no event: every time is censored; hazards need at least one event")
        count = self.n_intervals
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
            raise ValueError(f"n_intervals must be an integer of at least 1, got {count!r}")
        self.breaks_ = interval_ends(signed, int(count))
        rows, interval, exposure = person_periods(np.abs(signed), self.breaks_)
        ended = np.searchsorted(self.breaks_[1:-1], np.abs(signed), side="left")
        events = ((interval == ended[rows]) & (signed[rows] > 0.0)).astype(np.float64)
        inner = clone(self.regressor) if self.regressor is not None else AHOFMRegressor()
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)[rows]
        whose = rows if groups is None else np.asarray(groups)[rows]
        long = self._with_time(table.take(rows), interval)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DispersionWarning)  # of single events: it says nothing of hazards
            inner._fit(long, events, weight, np.log(exposure), Poisson(), groups=whose)
        told = tuple(one for one in inner.model_.choices if one.name != "dispersion")
        model = replace(inner.model_, choices=told, pearson_dispersion=None)
        inner._keep(model, TrainingRows(model, long, events, weight, np.log(exposure)))
        self.regressor_ = inner
        self.n_features_in_ = len(table.names)
        if table.named:
            self.feature_names_in_ = np.array(table.names, dtype=object)
        return self

    def predict_hazard(self, X: Any) -> Floats:
        """Predict hazards, events per unit of time.

        Parameters
        ----------
        X : table of n rows
            With the columns of training.

        Returns
        -------
        array of shape (n, n_intervals)
            In each interval of ``breaks_``.
        """
        check_is_fitted(self, "regressor_")
        table, count = self._read(X), len(self.breaks_) - 1
        found = [self.regressor_.model_.mean(self._with_time(table, np.full(table.n_rows, k))) for k in range(count)]
        return np.stack(found, axis=1)

    def predict_survival(self, X: Any, times: ArrayLike) -> Floats:
        """Predict survival curves: probabilities that nothing has happened until some times.

        Parameters
        ----------
        X : table of n rows
            With the columns of training.
        times : array of shape (m,)
            Positive; beyond the last break the last hazard goes on.

        Returns
        -------
        array of shape (n, m)
            Decreasing along a row.
        """
        at = np.asarray(times, dtype=np.float64)
        if at.ndim != 1 or not (at > 0.0).all():
            raise ValueError(f"times must be an array of positive numbers, got {times!r}")
        return np.asarray(np.exp(-self.predict_hazard(X) @ self._exposures(at).T))

    def predict(self, X: Any) -> Floats:
        """Predict median times.

        Parameters
        ----------
        X : table of n rows
            With the columns of training.

        Returns
        -------
        array of shape (n,)
            When half of all would have had the event; beyond the last break by its last hazard.
        """
        hazard, widths = self.predict_hazard(X), np.diff(self.breaks_)
        reached = np.cumsum(hazard * widths, axis=1)
        before = np.minimum((reached < np.log(2.0)).sum(axis=1), hazard.shape[1] - 1)
        at = np.arange(len(hazard))
        done = np.where(before > 0, reached[at, np.maximum(before - 1, 0)], 0.0)
        return np.asarray(self.breaks_[before] + (np.log(2.0) - done) / hazard[at, before])

    def concordance(self, X: Any, y: Any) -> float:
        """Compute Harrell's index of median times; see :meth:`AHOFMRegressor.concordance`.

        Parameters
        ----------
        X, y
            As for :meth:`fit`.

        Returns
        -------
        float
            1 where all pairs that can be compared are in the right order.
        """
        return concordance(signed_times(y), self.predict(X))

    def brier_score(self, X: Any, y: Any, times: ArrayLike) -> Floats:
        """Compute Brier scores at some times; see :meth:`AHOFMRegressor.brier_score`.

        Parameters
        ----------
        X, y
            As for :meth:`fit`.
        times : array of shape (m,)
            Between the first and the last observed time.

        Returns
        -------
        array of shape (m,)
            Mean squared errors of survival probabilities, weighted for censoring.
        """
        at = np.asarray(times, dtype=np.float64)
        return brier_score(signed_times(y), self.predict_survival(X, at), at)

    def score(self, X: Any, y: Any) -> float:
        """Compute Harrell's index, as :meth:`concordance`.

        Parameters
        ----------
        X, y
            As for :meth:`fit`.

        Returns
        -------
        float
        """
        return self.concordance(X, y)

    def _read(self, X: Any) -> Table:
        table = read_table(X)
        if table.named and hasattr(self, "feature_names_in_"):
            missing = [name for name in self.feature_names_in_ if name not in table.names]
            if missing:
                raise ValueError(f"X lacks the column {missing[0]!r} of training")
            place = {name: k for k, name in enumerate(table.names)}
            names = tuple(str(name) for name in self.feature_names_in_)
            return replace(table, names=names, columns=tuple(table.columns[place[name]] for name in names))
        if len(table.names) != self.n_features_in_:
            raise ValueError(f"X has {len(table.names)} columns, but training had {self.n_features_in_}")
        return table

    def _with_time(self, table: Table, interval: NDArray[np.intp]) -> Table:
        """With the middle of each row's interval as one more column."""
        middle = 0.5 * (self.breaks_[:-1] + self.breaks_[1:])
        return replace(table, names=(*table.names, self.time), columns=(*table.columns, middle[interval]))

    def _exposures(self, times: Floats) -> Floats:
        """Time in each interval until given times: (m, n_intervals); the last interval has no end."""
        ends = np.concatenate([self.breaks_[1:-1], [np.inf]])
        return np.asarray(np.maximum(np.minimum(times[:, np.newaxis], ends) - self.breaks_[:-1], 0.0))


def interval_ends(signed: Floats, count: int) -> Floats:
    """Ends of intervals with about equal numbers of events, from 0 to the last observed time."""
    events, last = signed[signed > 0.0], float(np.abs(signed).max())
    inner = np.quantile(events, np.arange(1, count) / count) if count > 1 else np.empty(0)
    inner = np.unique(inner[(inner > 0.0) & (inner < last)])
    return np.concatenate([[0.0], inner, [last]])


def person_periods(times: Floats, breaks: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Row, interval and exposure of every interval in which a row is observed: three arrays of the same length."""
    last = np.searchsorted(breaks[1:-1], times, side="left")
    rows = np.repeat(np.arange(len(times)), last + 1)
    interval = np.arange(len(rows)) - np.repeat(np.cumsum(last + 1) - last - 1, last + 1)
    exposure = np.minimum(times[rows], breaks[interval + 1]) - breaks[interval]
    return rows, interval, exposure
