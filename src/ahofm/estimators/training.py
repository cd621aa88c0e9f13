"""The rows that a model was fitted to: what a fitted estimator keeps for questions that come after the fit."""

from __future__ import annotations

import threading
from typing import Any

from numpy.typing import ArrayLike

from ahofm.columns.table import Table
from ahofm.inference.uncertainty import band_of
from ahofm.model import Model


class TrainingRows:
    """Training rows of a model, and the model with its band, which is computed once when it is first asked for.

    The rows never change, and the arrays are those that ``fit`` was given, not copies. Copies of an estimator share
    this object, so that the band is computed once for all of them; threads that ask at the same time wait for the one
    that computes it. Pickles do not hold training rows: in their place an unpickled estimator has None.

    Parameters
    ----------
    model : Model
        The fitted model.
    table : Table
        The n rows: one array of shape (n,) per column.
    y : array of shape (n,)
        Targets as the family knows them: numbers, or class numbers 0, 1, ...
    weight : array of shape (n,) or None
        Weights of the rows, including class weights; None is 1 for all.
    offset : array of shape (n,) or (n, linear predictors), or None
        What was added to the linear predictor.
    """

    def __init__(
        self, model: Model, table: Table, y: ArrayLike, weight: ArrayLike | None = None, offset: ArrayLike | None = None
    ) -> None:
        self.table = table
        self.y = y
        self.weight = weight
        self.offset = offset
        self._model = model
        self._lock = threading.Lock()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.table.n_rows

    @property
    def model(self) -> Model:
        """The model with its band (``model.band``): computed by the first who asks, the same object for all."""
        with self._lock:
            if self._model.band is None:
                band = band_of(self._model, self.table, self.y, self.weight, self.offset)
                self._model = self._model.with_band(band)
            return self._model

    @property
    def without_repeated(self) -> TrainingRows:
        """The same rows, and the model without effects of repeated rows; with its band, where it has been computed."""
        with self._lock:
            return TrainingRows(self._model.without_repeated, self.table, self.y, self.weight, self.offset)

    def __deepcopy__(self, memo: Any) -> TrainingRows:
        """The same object: nothing in it changes."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """None in a pickle."""
        return _no_rows, ()

    def __getstate__(self) -> dict[str, Any]:
        """Nothing, for files that do not ask ``__reduce__`` (skops): no training rows in them either."""
        return {}

    @property
    def gone(self) -> bool:
        """Whether it came from such a file."""
        return "table" not in vars(self)


def _no_rows() -> None:
    return None
