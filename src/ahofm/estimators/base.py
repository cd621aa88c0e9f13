"""What both estimators share: settings, reading a table, fitting and freezing. No numerics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ahofm.backends import Device
from ahofm.columns import ColumnKind
from ahofm.columns.basis import Floats
from ahofm.columns.dates import with_dates
from ahofm.columns.table import Table, as_array, read_table
from ahofm.estimators.dask_input import training_rows
from ahofm.estimators.partial_fit import Pieces
from ahofm.estimators.progress import Progress
from ahofm.estimators.shown import Shown
from ahofm.estimators.training import TrainingRows
from ahofm.families import Family
from ahofm.inference.dispersion import with_dispersion
from ahofm.model import Model, Negligible, Reason, Record, Trace
from ahofm.rows import Dataset
from ahofm.threads import checked, obeys_n_jobs
from ahofm.training.data import counted_rows
from ahofm.training.settings import Settings
from ahofm.training.splits import splits_of
from ahofm.training.validation import Split

if TYPE_CHECKING:
    from ahofm.cost import Forecast
    from ahofm.fit import Candidate, Solver

Rank: TypeAlias = int | Mapping[int, int] | Literal["auto"]
InteractionCst: TypeAlias = Literal["no_interactions", "pairwise"] | Sequence[Any] | None
MonotonicCst: TypeAlias = Mapping[str | int, Any] | Sequence[Any] | NDArray[Any] | None
Columns: TypeAlias = Mapping[str | int, ColumnKind] | ColumnKind | None


class AHOFM(Shown, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators share."""

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
        factor_prior: str | Sequence[Candidate] = "auto",
        interaction_cst: InteractionCst = None,
        exclude: Sequence[Any] | None = None,
        monotonic_cst: MonotonicCst = None,
        tempering: float | Literal["auto"] = "auto",
        n_members: int | Literal["auto"] = "auto",
        effort: Literal["fast", "balanced", "best"] = "balanced",
        time_budget: float | None = None,
        prune: bool = False,
        center: bool = True,
        max_codes: int | None = None,
        cv: Any = None,
        validation_fraction: float | None = 0.1,
        patience: int = 50,
        max_iter: int | None = None,
        tol: float | None = None,
        n_jobs: int | None = None,
        device: Device = "auto",
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
        self.factor_prior = factor_prior
        self.interaction_cst = interaction_cst
        self.exclude = exclude
        self.monotonic_cst = monotonic_cst
        self.tempering = tempering
        self.n_members = n_members
        self.effort = effort
        self.time_budget = time_budget
        self.prune = prune
        self.center = center
        self.max_codes = max_codes
        self.cv = cv
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.warm_start = warm_start

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Training rows that a file left out are None."""
        rows = state.get("training_")
        super().__setstate__({**state, "training_": None} if isinstance(rows, TrainingRows) and rows.gone else state)

    @obeys_n_jobs
    def forecast(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Forecast:
        """Predict what ``fit`` would cost in time and memory, by a few seconds' work on some of the rows.

        Parameters
        ----------
        X : table of n rows
            As for ``fit``.
        y : array of shape (n,), optional
            Targets; a Gaussian fit needs none for this, the others, and classifiers, do.
        sample_weight : array of shape (n,), optional
            Weights of the rows.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.
        groups : array of shape (n,), optional
            Rows that go together, as for ``fit``; how many folds there are counts, several classes apart.

        Returns
        -------
        Forecast
            ``print`` it, or read ``seconds`` and ``memory``; right to a factor of two as a rule.
        """
        from ahofm.cost import forecast_fit  # noqa: PLC0415 - as for fits

        target, family = self._target_and_family(y)
        table = read_table(X)
        given = {"weight": sample_weight, "offset": offset, "groups": groups}
        cv = splits_of(self.cv, X, y, groups)
        return forecast_fit(table, target, family=family, settings=self._settings(()), cv=cv, **given)

    def __sklearn_tags__(self) -> Any:
        """Missing values and text are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    @obeys_n_jobs
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
        groups: Any = None,
        cv: int | Sequence[Split] | None = None,
    ) -> None:
        """Fit and keep the model, none if it fails; an interrupt keeps the best one so far, and reaches the caller."""
        from ahofm.fit import fit_model  # noqa: PLC0415 - who only predicts needs no solvers

        earlier = earlier or (getattr(self, "model_", None) if self.warm_start else None)
        labels = None if classes is None else tuple(classes)
        progress = Progress(self.max_iter) if self.verbose else nullcontext()
        with progress as bar:
            settings = self._settings(() if bar is None else (bar,))
            if isinstance(rows, Table):
                rows, kinds = with_dates(rows, settings.columns)
                settings = replace(settings, columns=kinds)
            given = {"weight": sample_weight, "offset": offset, "classes": labels, "earlier": earlier}
            model = fit_model(rows, y, family=family, settings=settings, groups=groups, cv=cv, **given)
        if isinstance(rows, Table):
            model = with_dispersion(model, *counted_rows(rows, y, sample_weight, offset, family))
        own = (rows, y, sample_weight, offset) if isinstance(rows, Table) else training_rows(rows, labels)
        self._keep(model, TrainingRows(model, *own), rows if isinstance(rows, Pieces) else None, classes)
        if model.trace.reason is Reason.INTERRUPTED:
            raise KeyboardInterrupt("the fit was interrupted; model_ is the best model so far")

    def _keep(
        self,
        model: Model,
        training: TrainingRows | None = None,
        pieces: Pieces | None = None,
        classes: NDArray[Any] | None = None,
    ) -> None:
        """Everything that fitting, or loading, leaves in the estimator; the columns' names as well, if they are new."""
        self.model_ = model
        self.training_ = training
        self._pieces = pieces
        if model.classes is not None:
            self.classes_ = np.asarray(model.classes) if classes is None else classes
        self.trace_ = model.trace
        self.n_iter_ = model.trace.n_iter
        self.negligible_ = model.negligible()
        if not hasattr(self, "n_features_in_"):
            self.n_features_in_ = len(model.encoder.names)
            if model.encoder.named:
                self.feature_names_in_ = np.array(model.encoder.names, dtype=object)

    def _settings(self, callbacks: Sequence[Callable[[Record], bool | None]] = ()) -> Settings:
        """The settings of the parameters, with more callbacks."""
        names = {setting.name for setting in fields(Settings)} & self.get_params(deep=False).keys()
        return Settings(
            **{name: getattr(self, name) for name in names - {"callbacks"}},
            n_threads=self._threads(),
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            callbacks=(*(self.callbacks or ()), *callbacks),
        )

    def _target_and_family(self, y: Any) -> tuple[Floats | None, Family]:
        """The target of a fit to come, as numbers, and its family."""
        raise NotImplementedError

    def _read(self, X: Any, *, reset: bool = False) -> Table:
        """A table, checked as scikit-learn does. Columns with names are put into the order of training."""
        if not reset:
            check_is_fitted(self, "model_")
        if not hasattr(X, "columns") and not hasattr(X, "__dataframe__"):
            X = check_array(as_array(X), dtype=None, ensure_all_finite=False, estimator=self)
        table = read_table(X)
        if not reset and table.named and self.model_.encoder.named:
            return self.model_.encoder.check(table)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return table

    def _threads(self) -> int:
        return checked(self.n_jobs)
