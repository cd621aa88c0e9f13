"""The fitted model, frozen: everything that predicting and explaining need, and none of the training rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import UndefinedMetricWarning

from ahofm.backends import Prediction, backend_of
from ahofm.columns import Encoder
from ahofm.columns.basis import Floats
from ahofm.families import Family
from ahofm.kernels import Curves, Tables
from ahofm.kernels.blas import one_blas_thread
from ahofm.model.band import Band
from ahofm.model.checks import check_offset, check_weight
from ahofm.model.error_quantiles import ErrorQuantiles
from ahofm.model.levels import deviance_of_levels, probabilities_of_levels
from ahofm.model.prediction_scores import deviance_explained, scores_of_numbers
from ahofm.model.predictor import Lower, Predictor
from ahofm.model.repeated import RepeatedRows
from ahofm.model.shared_predictors import SharedPredictors
from ahofm.model.shares import all_variances
from ahofm.model.trace import Choice, Edit, Gain, Trace, Validated
from ahofm.model.truncation import truncated
from ahofm.model.variance_model import VarianceModel
from ahofm.orders import PRODUCT, Orders

if TYPE_CHECKING:
    from ahofm.columns.table import Table
    from ahofm.families import Ordinal

NEGLIGIBLE_FRACTION = 5e-3
"""Columns and orders below this fraction of the variance are negligible."""


@dataclass(frozen=True)
class Negligible:
    """Names of columns, and orders, that carry less than a fraction of the variance."""

    columns: tuple[str, ...]
    orders: tuple[int, ...]
    fraction: float


@dataclass(frozen=True)
class Model:
    """A fitted model.

    Attributes
    ----------
    encoder : Encoder
        What the columns became.
    family : Family
    linear_predictors : tuple of Predictor
        One for each of the family's; all of the same orders and ranks.
    classes : tuple or None
        Labels, for a classifier.
    smoothing_parameters : dict of order to array of shape (columns,)
        Smoothing parameter of each column's functions, in the units of the fit.
    total : float
        Sum of the training weights.
    trace : Trace
    lower : tuple of Lower
        The fits of lower orders that came on the way.
    choices : tuple of Choice
        What the fit decided by itself.
    dispersion : float or None
        Where the family has one: the variance of the noise, a squared coefficient of variation, a scale.
    band : Band or None
        Uncertainty of the linear predictors, once it was computed.
    missing : tuple of str
        Cells of text files that meant missing in training, besides empty ones and NA: the command reads files so.
    gains : tuple of Gain
        What validation rows said of each order; empty where there were none.
    pearson_dispersion : float or None
        Where the family takes the dispersion as known: Pearson's statistic of the fit's smooth part per row, about 1
        when the family's variance is right. None where it says nothing (rows of one trial) or was not worked out.
    validated : Validated or None
        How well cross-validation predicted its validation rows, where there was any.
    variance_model : VarianceModel or None
        How the variance differs between rows, where the dispersion is that of their mean; None: it does not.
    edits : tuple of Edit
        What was changed by hand after the fit.
    variance_components : dict of column name to float
        Variance of the levels' effects (a random effect) on the scale of the first linear predictor, for columns of
        levels where it was estimated.
    error_quantiles : ErrorQuantiles or None
        How large errors of new rows are, from validation rows; None: there were none, or too few.
    repeated : RepeatedRows or None
        Effects of rows that are copies of training rows, where many repeat and these predict validation rows better.
    """

    encoder: Encoder
    family: Family
    linear_predictors: tuple[Predictor, ...]
    classes: tuple[Any, ...] | None
    smoothing_parameters: Mapping[int, Floats]
    total: float
    trace: Trace
    lower: tuple[Lower, ...] = ()
    choices: tuple[Choice, ...] = ()
    dispersion: float | None = None
    band: Band | None = None
    missing: tuple[str, ...] = ()
    gains: tuple[Gain, ...] = ()
    pearson_dispersion: float | None = None
    validated: Validated | None = None
    variance_model: VarianceModel | None = None
    edits: tuple[Edit, ...] = ()
    variance_components: Mapping[str, float] = field(default_factory=dict)
    error_quantiles: ErrorQuantiles | None = None
    repeated: RepeatedRows | None = None

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together."""
        self._check(self.linear_predictors)
        for part in self.lower:
            self._check(part.linear_predictors)
        if self.variance_model is not None:
            self.variance_model.effects.check(self.encoder.codebooks)
        if self.repeated is not None:
            self.repeated.check(self.encoder.codebooks, self.family)

    def __getstate__(self) -> dict[str, Any]:
        """The fields: what follows from them is computed again where a copy or a pickle is used."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def _check(self, linear_predictors: tuple[Predictor, ...]) -> None:
        if len(linear_predictors) != self.family.n_eta:
            raise ValueError(
                f"{self.family.name} has {self.family.n_eta} linear predictor(s), not {len(linear_predictors)}"
            )
        orders = linear_predictors[0].orders
        if any(rank < 1 for rank in orders.values()):
            raise ValueError(f"loadings must be those of ranks of at least 1, got {dict(orders)}")
        for predictor in linear_predictors:
            if list(predictor.orders.items()) != list(orders.items()):
                raise ValueError(
                    f"linear predictors differ in their ranks: {dict(orders)} and {dict(predictor.orders)}"
                )
            predictor.check(self.encoder.codebooks)

    @property
    def ranks(self) -> Orders:
        """Number of factors of each order (>= 2): a mapping."""
        return self.linear_predictors[0].orders

    @property
    def order(self) -> int:
        """Highest order: of product factors, the number of columns that vary."""
        if PRODUCT in self.ranks:
            return max(int(sum(book.size > 0 for book in self.encoder.codebooks)), self.ranks.symmetric.highest, 2)
        return self.ranks.highest

    def at_order(self, order: int) -> Model:
        """The model without terms above an order: the result of the stage of that order.

        Its main effects and factors are those that fit best without the higher orders, not this model's. At an order
        above those of all other factors there is no such fit of product factors: their terms of more columns are cut
        off.

        Examples
        --------
        >>> additive = model.model_.at_order(1)
        >>> additive.order, bool(additive.deviance_explained(X, y) < model.score(X, y))
        (1, True)
        """
        if isinstance(order, bool) or not isinstance(order, (int, np.integer)) or order < 1:
            raise ValueError(f"order must be an integer of at least 1, got {order!r}")
        if order >= self.order:
            return self
        below = [part for part in self.lower if part.order <= order]
        if PRODUCT in self.ranks and order > max((part.order for part in self.lower), default=1):
            return self._truncated(order, tuple(below))
        if not below:
            raise ValueError(
                f"no fit of order {order} was kept: only solver='variational' fits lower orders on its way"
            )
        part = below[-1]
        orders = part.linear_predictors[0].orders.all
        smoothing_parameters = {d: row for d, row in self.smoothing_parameters.items() if d in orders}
        return replace(
            self,
            linear_predictors=part.linear_predictors,
            smoothing_parameters=smoothing_parameters,
            lower=tuple(below[:-1]),
            band=None,
            repeated=None,
        )

    def _truncated(self, order: int, lower: tuple[Lower, ...]) -> Model:
        """Without terms of more columns than that."""
        books = self.encoder.codebooks
        linear_predictors = tuple(truncated(one.pure(books), order) for one in self.linear_predictors)
        lam = self.smoothing_parameters
        kept = {d: lam.get(d, lam[PRODUCT]) for d in linear_predictors[0].orders.all}
        return replace(
            self.without_repeated,
            linear_predictors=linear_predictors,
            smoothing_parameters=kept,
            lower=lower,
            band=None,
        )

    @one_blas_thread()
    def eta(self, X: Any, offset: ArrayLike | None = None, *, n_threads: int | None = None) -> Floats:
        """Linear predictors at the true values of a table: (n, linear predictors).

        Parameters
        ----------
        X : table with the columns of training
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to eta; of one dimension, to the first linear predictor (a multinomial model needs two dimensions).
        n_threads : int, optional
            All cores by default.
        """
        table = self.encoder.check(X)
        eta = self._eta_of_columns(table, n_threads)
        if self.repeated is not None:
            eta[:, 0] += self.repeated.at(self.encoder.codebooks, table, eta[:, 0], self.family)
        return eta if offset is None else np.add(eta, check_offset(offset, len(eta), self.family))

    def _eta_of_columns(self, table: Table, n_threads: int | None = None) -> Floats:
        """Linear predictors (n, linear predictors) without effects of copies of rows."""
        places = [book.places(column) for book, column in zip(self.encoder.codebooks, table.columns, strict=True)]
        return self._curves.eta(places, n_threads)

    @one_blas_thread()
    def relative_std(self, X: Any, offset: ArrayLike | None = None) -> Floats:
        """Standard deviations of targets relative to that of the dispersion, (n,): 1 without a variance model."""
        table = self.encoder.check(X)
        if self.variance_model is None:
            return np.ones(table.n_rows)
        books = self.encoder.codebooks
        places = [book.places(column) for book, column in zip(books, table.columns, strict=True)]
        of_mean = self.variance_model.of_mean(self.eta(table, offset)[:, 0])
        return np.exp(np.clip(self.variance_model.of_columns(books, places) + of_mean, -20.0, 20.0))

    def mean(self, X: Any, offset: ArrayLike | None = None, *, n_threads: int | None = None) -> Floats:
        """The family's mean: (n,), or (n, classes) probabilities."""
        return self.family.mean(self.eta(X, offset, n_threads=n_threads))

    @one_blas_thread()
    def ordinal_probabilities(self, X: Any, offset: ArrayLike | None = None) -> Floats:
        """Probabilities of ordered levels, (n, levels): of copies of training rows, their credibility means.

        An offset shifts the log-odds of being above a level, of copies as of other rows.
        """
        family, table = cast("Ordinal", self.family), self.encoder.check(X)
        eta, moved = self._eta_of_columns(table), None
        if offset is not None:
            moved = check_offset(offset, len(eta), family)[:, 0]
        counts = None if self.repeated is None else self.repeated.levels_at(self.encoder.codebooks, table)
        if self.repeated is None or counts is None:
            return family.probabilities(self.eta(table, offset))
        return probabilities_of_levels(family, eta, counts, self.repeated.kappa, moved)

    def predict(self, X: Any, offset: ArrayLike | None = None, *, n_threads: int | None = None) -> NDArray[Any]:
        """The mean, or for a classifier the most likely label: (n,)."""
        mean = self.mean(X, offset, n_threads=n_threads)
        if self.classes is None:
            return mean
        at = mean.argmax(axis=1) if mean.ndim == 2 else (mean > 0.5).astype(np.intp)
        return np.asarray(np.asarray(self.classes)[at])

    @one_blas_thread()
    def deviance_explained(
        self,
        X: Any,
        y: ArrayLike,
        weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        *,
        n_threads: int | None = None,
    ) -> float:
        """Fraction of the deviance of the best constant that the model explains: R^2 for the Gaussian, D^2 for others.

        Families without a deviance (location and scale) give the R^2 of the mean. A constant target leaves nothing to
        explain: as in scikit-learn the share is then 1 where the mean hits it, else 0; of fewer than two rows it is
        NaN, with a warning.
        """
        eta = self.eta(X, n_threads=n_threads)
        target, weights = np.asarray(y, dtype=np.float64), check_weight(weight, len(eta))
        shifts = np.zeros_like(eta) if offset is None else check_offset(offset, len(eta), self.family)
        if target.shape != (len(eta),):
            raise ValueError(f"y has shape {target.shape}, expected ({len(eta)},): one target per row of X")
        if len(target) < 2:
            warnings.warn("the deviance explained needs at least two rows", UndefinedMetricWarning, stacklevel=2)
            return float("nan")
        rows = weights > 0.0
        if (target[rows] == target[rows][0]).all() and (shifts[rows] == shifts[rows][0]).all():
            Family.check(self.family, target)  # some families cannot be fitted to a constant, but any can predict one
            mean = self.family.mean(eta + shifts)
            return float(mean.ndim == 1 and np.allclose(mean[rows], target[rows], rtol=1e-9, atol=0.0))
        self.family.check(target)
        deviance = None
        if self.repeated is not None and self.repeated.levels is not None:
            deviance = deviance_of_levels(cast("Ordinal", self.family), self.ordinal_probabilities(X, shifts), target)
        explained = deviance_explained(self.family, target, eta + shifts, weights, shifts, deviance)
        if explained is not None:
            return explained
        return scores_of_numbers(target, self.family.mean(eta + shifts), weights)["R2"]

    @one_blas_thread()
    def negligible(self, fraction: float = NEGLIGIBLE_FRACTION) -> Negligible:
        """Columns and orders that carry less than a fraction of the linear predictors' variance.

        The variance is that under the product of the columns' marginal distributions. A column counts with its main
        effect and with every interaction it is in.
        """
        parts = all_variances(self.tables(), self.encoder.codebooks)
        total = sum(part.total for part in parts)
        columns = sum(part.columns for part in parts)
        names = zip(self.encoder.names, np.broadcast_to(columns, len(self.encoder.names)), strict=True)
        orders = {order: sum(part.orders[order] for part in parts) for order in self.ranks.all}
        return Negligible(
            tuple(name for name, share in names if share <= fraction * total),
            tuple(order for order, share in orders.items() if share <= fraction * total),
            fraction,
        )

    def without(self, negligible: Negligible) -> Model:
        """The model whose coefficients of those columns and orders are exactly zero; empty orders have no factors."""
        kept = [order for order in self.ranks if order not in negligible.orders]
        gone = [name in negligible.columns for name in self.encoder.names]
        linear_predictors = tuple(
            predictor.at_orders(kept).without(gone, main_effects=1 not in negligible.orders)
            for predictor in self.linear_predictors
        )
        smoothing_parameters = {order: row for order, row in self.smoothing_parameters.items() if order in (1, *kept)}
        return replace(
            self,
            linear_predictors=linear_predictors,
            smoothing_parameters=smoothing_parameters,
            band=None,
        )

    @one_blas_thread()
    def tables(self) -> tuple[Tables, ...]:
        """Each linear predictor at the codes of training."""
        shared = SharedPredictors.of(self.linear_predictors)
        if shared is not None:
            return shared.tables(self.encoder.codebooks)
        return tuple(predictor.tables(self.encoder.codebooks) for predictor in self.linear_predictors)

    @property
    def without_repeated(self) -> Model:
        """The model without effects of repeated rows: its linear predictors are functions of the columns alone."""
        return self if self.repeated is None else self._beside(repeated=None)

    def with_band(self, band: Band) -> Model:
        """The model with the band of its linear predictors."""
        return self._beside(band=band)

    def _beside(self, **changes: Any) -> Model:
        """The model with other parts beside the same linear predictors: what follows from these is kept."""
        found = replace(self, **changes)
        found.__dict__.update({name: self.__dict__[name] for name in ("_curves", "_pure") if name in self.__dict__})
        return found

    def with_each(self, change: Callable[[tuple[Predictor, ...]], tuple[Predictor, ...]]) -> Model:
        """The model with a change of its linear predictors, and of those of lower orders: the same are changed once."""
        found: dict[int, tuple[Predictor, ...]] = {}
        for linear_predictors in (self.linear_predictors, *(part.linear_predictors for part in self.lower)):
            if id(linear_predictors) not in found:
                found[id(linear_predictors)] = change(linear_predictors)
        lower = tuple(replace(part, linear_predictors=found[id(part.linear_predictors)]) for part in self.lower)
        return replace(self, linear_predictors=found[id(self.linear_predictors)], lower=lower)

    def save(self, path: str | Path) -> None:
        """Write the model to a file that ``ahofm.load`` reads."""
        from ahofm.model.files import save  # noqa: PLC0415 - files know models

        save(self, path)

    @property
    def curves(self) -> tuple[Curves, ...]:
        """Each linear predictor at true values."""
        return self._curves.linear_predictors

    @cached_property
    def _curves(self) -> Prediction:
        """The linear predictors as a backend evaluates them."""
        books, shared = self.encoder.codebooks, SharedPredictors.of(self.linear_predictors)
        if shared is not None:
            return backend_of().curves(shared.curves(books))
        return backend_of().curves(tuple(one.curves(books) for one in self.linear_predictors))
