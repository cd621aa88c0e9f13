"""What both estimators share: settings, reading a table, fitting and freezing. No numerics."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ahofm.columns import ColumnKind
from ahofm.columns.basis import Floats
from ahofm.columns.table import Table, as_array, read_table
from ahofm.estimators.dask_input import lazily, training_rows
from ahofm.estimators.partial_fit import Pieces
from ahofm.families import Family
from ahofm.fit import Forecast, Settings, Solver, fit_model, forecast_fit
from ahofm.fit.progress import Progress
from ahofm.fit.uncertainty import band_of
from ahofm.kernels.blas import one_blas_thread
from ahofm.model import Band, Model, Negligible, Reason, Record, Trace
from ahofm.model.scores import log_likelihood, pit, sample
from ahofm.rows import Dataset
from ahofm.scale.partitions import is_dask

Rank: TypeAlias = int | Mapping[int, int] | Literal["auto"]
Columns: TypeAlias = Mapping[str | int, ColumnKind] | ColumnKind | None


class AHOFM(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators share."""

    model_: Model
    trace_: Trace
    negligible_: Negligible
    _pieces: Pieces | None

    def __init__(
        self,
        order: int | Literal["auto"] | None = None,
        rank: Rank = "auto",
        columns: Columns = None,
        family: str | Family = "auto",
        smoothing: Literal["auto", "df"] = "auto",
        df: float | Mapping[Any, Any] | None = None,
        df_kind: Literal["residual", "hat"] = "residual",
        ridge: float = 0.01,
        solver: str | Solver[Any] = "auto",
        interactions: Literal["auto", "spline", "random_walk", "spline_iid"] = "auto",
        tempering: float | Literal["auto"] = "auto",
        n_members: int | Literal["auto"] = "auto",
        prune: bool = False,
        center: bool = True,
        max_codes: int | None = None,
        validation_fraction: float | None = 0.1,
        patience: int = 50,
        max_iter: int | None = None,
        tol: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Sequence[Callable[[Record], bool | None]] | None = None,
        checkpoint: Any = None,
        warm_start: bool = False,
    ) -> None:
        self.order = order
        self.rank = rank
        self.columns = columns
        self.family = family
        self.smoothing = smoothing
        self.df = df
        self.df_kind = df_kind
        self.ridge = ridge
        self.solver = solver
        self.interactions = interactions
        self.tempering = tempering
        self.n_members = n_members
        self.prune = prune
        self.center = center
        self.max_codes = max_codes
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.warm_start = warm_start

    def predict_eta(
        self, X: Any, offset: ArrayLike | None = None, *, return_std: bool = False
    ) -> Floats | tuple[Floats, Floats]:
        """Linear predictors before the link: (n,), or (n, linear predictors) for a family with several.

        With ``return_std`` also their standard deviations, in the same shape.
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
        std = self._band().eta(self.model_.encoder.encode(table))
        return eta, std[:, 0] if std.shape[1] == 1 else std

    def add_uncertainty(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> AHOFM:
        """Work out how far linear predictors may be off, and keep it with the model.

        Happens by itself when something first needs it, from the rows of training, which a fitted estimator remembers
        until it is pickled. Afterwards, or for a model that goes into a file, give those rows, or call this before.
        """
        check_is_fitted(self, "model_")
        if X is None:
            if getattr(self, "_training", None) is None:
                raise ValueError(
                    "the rows of training are not here any more, e.g. after pickling: "
                    "add_uncertainty(X, y) needs them, or call add_uncertainty() before pickling"
                )
            given = self._training
        else:
            given = (self._read(X), self._target(y), sample_weight, offset)
        self.model_ = replace(self.model_, band=band_of(self.model_, *given))
        return self

    def forecast(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Forecast:
        """What ``fit`` would cost in time and memory: a few seconds' work on some of the rows.

        Good to a factor of two as a rule. ``print`` it, or read ``seconds`` and ``memory``. A Gaussian fit needs no
        target for it; the others, and classifiers, do.
        """
        target, family = self._asked(y)
        table = read_table(X)
        return forecast_fit(
            table, target, weight=sample_weight, offset=offset, family=family, settings=self._settings(())
        )

    @property
    def edf_(self) -> dict[int, Floats]:
        """Effective degrees of freedom of every column, by order; of all linear predictors together."""
        edf = self._band().edf
        return {order: sum((part[order] for part in edf), np.zeros(1)) for order in edf[0]}

    def sample(self, X: Any, n: int = 1, offset: ArrayLike | None = None, random_state: Any = None) -> Floats:
        """Draw new targets from the fitted distribution: (n, rows); numbers of classes for a classifier."""
        table = self._read(X)
        return sample(self.model_, table, n, random_state, offset)

    def log_likelihood(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, offset: ArrayLike | None = None
    ) -> float:
        """Weighted sum of the logarithms of the fitted densities, or probabilities, of targets."""
        table = self._read(X)
        return log_likelihood(self.model_, table, self._target(y), sample_weight, offset)

    def aic(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, offset: ArrayLike | None = None
    ) -> float:
        """Minus twice the log-likelihood, plus twice the effective degrees of freedom, of the rows of training.

        Intercepts, a dispersion and a parameter of the family count one each.
        """
        check_is_fitted(self, "model_")
        extra = self.model_.family.n_eta + self.model_.family.dispersed + self.model_.family.open
        edf = float(sum(part.sum() for part in self.edf_.values())) + extra
        return -2.0 * self.log_likelihood(X, y, sample_weight, offset) + 2.0 * edf

    def pit(self, X: Any, y: ArrayLike, offset: ArrayLike | None = None, random_state: Any = 0) -> Floats:
        """Where targets lie in their fitted distributions: uniform on (0, 1) when the model is right.

        Counts and classes are spread at random over their step.
        """
        table = self._read(X)
        return pit(self.model_, table, self._target(y), random_state, offset)

    @one_blas_thread()
    def report(self, path: Any, *, title: str | None = None, target: str = "the target") -> Path:
        """Write a page that shows the model: self-contained, evaluates the model in the browser. Where it is.

        Parameters
        ----------
        path : str or path
            Of the HTML file.
        title : str, optional
        target : str
            What is predicted, for headings.
        """
        from ahofm.report import write  # noqa: PLC0415 - a page knows estimators, not the other way round

        check_is_fitted(self, "model_")
        return write(self, path, title=title, target=target)

    def __getstate__(self) -> dict[str, Any]:
        """Without the rows of training."""
        state = dict(super().__getstate__())
        state.pop("_training", None)
        return state

    def _target(self, y: Any) -> Floats:
        """Targets as the family knows them."""
        return np.asarray(y, dtype=np.float64)

    def _band(self) -> Band:
        check_is_fitted(self, "model_")
        if self.model_.band is None:
            self.add_uncertainty()
        return cast("Band", self.model_.band)

    def __sklearn_tags__(self) -> Any:
        """Missing values and text are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _fit(
        self,
        rows: Table | Dataset,
        y: Any,
        sample_weight: Any,
        offset: Any,
        family: Family,
        classes: Any = None,
        *,
        earlier: Model | None = None,
    ) -> None:
        """Fit and keep the model, none if it fails; an interrupt keeps the best one so far, and reaches the caller."""
        earlier = earlier or (getattr(self, "model_", None) if self.warm_start else None)
        labels = None if classes is None else tuple(classes)
        progress = Progress(self.max_iter) if self.verbose else nullcontext()
        with progress as bar:
            settings = self._settings(() if bar is None else (bar,))
            given = {"weight": sample_weight, "offset": offset, "classes": labels, "earlier": earlier}
            model = fit_model(rows, y, family=family, settings=settings, **given)
        self.model_ = model
        self._training = (rows, y, sample_weight, offset) if isinstance(rows, Table) else training_rows(rows, labels)
        self._pieces = rows if isinstance(rows, Pieces) else None
        if classes is not None:
            self.classes_ = classes
        self.trace_ = model.trace
        self.n_iter_ = model.trace.n_iter
        self.negligible_ = model.negligible()
        if model.trace.reason is Reason.INTERRUPTED:
            raise KeyboardInterrupt("the fit was interrupted; model_ is the best model so far")

    def _settings(self, callbacks: Sequence[Callable[[Record], bool | None]] = ()) -> Settings:
        """What was asked for, with more callbacks."""
        names = {setting.name for setting in fields(Settings)} & self.get_params(deep=False).keys()
        return Settings(
            **{name: getattr(self, name) for name in names - {"callbacks"}},
            n_threads=self._threads(),
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            callbacks=(*(self.callbacks or ()), *callbacks),
        )

    def _asked(self, y: Any) -> tuple[Floats | None, Family]:
        """The target of a fit to come, as numbers, and its family."""
        raise NotImplementedError

    def _read(self, X: Any, *, reset: bool = False) -> Table:
        """A table, with scikit-learn's checks of shapes and names."""
        if not reset:
            check_is_fitted(self, "model_")
        if not hasattr(X, "columns") and not hasattr(X, "__dataframe__"):
            X = check_array(as_array(X), dtype=None, ensure_all_finite=False, estimator=self)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return read_table(X)

    def _threads(self) -> int:
        if self.n_jobs is None or self.n_jobs == -1:
            return os.cpu_count() or 1
        if isinstance(self.n_jobs, bool) or not isinstance(self.n_jobs, Integral) or self.n_jobs < 1:
            raise ValueError(f"n_jobs must be None, -1 or a positive integer, got {self.n_jobs!r}")
        return int(self.n_jobs)
