"""What both estimators share: settings, reading a table, fitting and freezing. No numerics."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from numbers import Integral
from typing import Any, Literal, TypeAlias

from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ahofm.columns import ColumnKind
from ahofm.columns.basis import Floats
from ahofm.columns.table import Table, as_array, read_table
from ahofm.families import Family
from ahofm.fit import Settings, Solver, fit_model
from ahofm.fit.progress import Progress
from ahofm.model import Model, Record

Rank: TypeAlias = int | Mapping[int, int] | Literal["auto"]
Columns: TypeAlias = Mapping[str | int, ColumnKind] | ColumnKind | None


class AHOFM(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators share."""

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
        interactions: Literal["auto", "smooth", "walk", "mixed"] = "auto",
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

    def predict(self, X: Any, offset: ArrayLike | None = None) -> NDArray[Any]:
        """Predict the mean, or the most likely class.

        Parameters
        ----------
        X : table with the columns of training
        offset : array of shape (n,) or (n, predictors), optional
            Added to the predictor.

        Returns
        -------
        array of shape (n,)
        """
        table = self._read(X)
        return self.model_.predict(table, offset, n_threads=self._threads())

    def predict_eta(self, X: Any, offset: ArrayLike | None = None) -> Floats:
        """Predictors before the link: (n,), or (n, predictors) for a family with several."""
        table = self._read(X)
        eta = self.model_.eta(table, offset, n_threads=self._threads())
        return eta[:, 0] if eta.shape[1] == 1 else eta

    def __sklearn_tags__(self) -> Any:
        """Missing values and text are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _fit(
        self, table: Table, y: Floats, sample_weight: Any, offset: Any, family: Family, classes: Any = None
    ) -> None:
        """Fit and keep the model; nothing is kept when it fails."""
        callbacks = tuple(self.callbacks or ())
        progress = Progress(self.max_iter) if self.verbose else nullcontext()
        with progress as bar:
            settings = Settings(
                order=self.order,
                rank=self.rank,
                columns=self.columns,
                smoothing=self.smoothing,
                df=self.df,
                df_kind=self.df_kind,
                ridge=self.ridge,
                solver=self.solver,
                interactions=self.interactions,
                tempering=self.tempering,
                n_members=self.n_members,
                prune=self.prune,
                center=self.center,
                max_codes=self.max_codes,
                validation_fraction=self.validation_fraction,
                patience=self.patience,
                max_iter=self.max_iter,
                tol=self.tol,
                n_threads=self._threads(),
                seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
                callbacks=callbacks if bar is None else (*callbacks, bar),
            )
            model = fit_model(
                table, y, weight=sample_weight, offset=offset, family=family, settings=settings, classes=classes
            )
        self.model_: Model = model
        self.trace_ = model.trace
        self.n_iter_ = model.trace.n_iter
        self.removed_ = model.removed()

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
