"""Changes of a fitted estimator by hand: every method returns a copy with another model, and a record of the change."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ahofm.estimators.fitted import Fitted
from ahofm.model import Edit, Model, Negligible, check_weight
from ahofm.model.edits import (
    balanced,
    book_of,
    changed_main,
    clipped,
    flattened,
    rescaled,
    set_to,
    without_interactions,
    without_pair,
)

Self = TypeVar("Self", bound="Edited")


class Edited(Fitted):
    """Methods that change effects. Values of effects are on the scale of the linear predictor, with mean zero."""

    negligible_: Negligible

    def clip_effect(
        self: Self, column: str | int, low: float | None = None, high: float | None = None, linear_predictor: int = 0
    ) -> Self:
        """Keep a main effect between two numbers.

        Parameters
        ----------
        column : str or int
            Name or place.
        low, high : float, optional
            Least and largest effect, on the scale of the linear predictor.
        linear_predictor : int, default 0
            Which one, where the family has several.

        Returns
        -------
        AHOFMRegressor or AHOFMClassifier
            A copy; ``self`` is as it was. It has no band and no training rows: ``with_uncertainty(X, y)`` takes them.

        Examples
        --------
        >>> cautious = model.clip_effect("wind", high=0.5)
        >>> bool(np.all(cautious.predict(X) <= model.predict(X) + 1))
        True
        >>> print(cautious.model_.edits[0])
        clip: main effect of wind, at most 0.5
        """
        if low is None and high is None:
            raise ValueError("give low, high or both: the bounds of the effect")
        if low is not None and high is not None and low > high:
            raise ValueError(f"low={low!r} is above high={high!r}")
        said = ", ".join(
            [*([] if low is None else [f"at least {low:g}"]), *([] if high is None else [f"at most {high:g}"])]
        )
        edit = self._edit("clip", column, said)
        found = changed_main(self.model_, column, clipped(low, high), edit, missing=True, k=linear_predictor)
        return self._with_model(found)

    def flatten_effect(
        self: Self, column: str | int, low: Any = None, high: Any = None, linear_predictor: int = 0
    ) -> Self:
        """Make a main effect the same from one value of the column to another: its mean over the training rows there.

        Parameters
        ----------
        column : str or int
            Name or place, of a column of numbers unless all of it is flattened.
        low, high : float, optional
            First and last value; by default those of training.
        linear_predictor : int, default 0
            Which one, where the family has several.

        Returns
        -------
        AHOFMRegressor or AHOFMClassifier
            A copy, as of :meth:`clip_effect`.
        """
        edit = self._edit("flatten", column, _range(low, high))
        change = flattened(self._book(column), low, high)
        return self._with_model(changed_main(self.model_, column, change, edit, missing=False, k=linear_predictor))

    def set_effect(
        self: Self,
        column: str | int,
        value: float,
        low: Any = None,
        high: Any = None,
        at: Sequence[Any] | None = None,
        linear_predictor: int = 0,
    ) -> Self:
        """Set a main effect to a number, from one value of the column to another or at some of its levels.

        Parameters
        ----------
        column : str or int
            Name or place.
        value : float
            The effect, on the scale of the linear predictor, before effects are centred again.
        low, high : float, optional
            First and last value of a column of numbers.
        at : sequence, optional
            Levels of a column of levels, or single values.
        linear_predictor : int, default 0
            Which one, where the family has several.

        Returns
        -------
        AHOFMRegressor or AHOFMClassifier
            A copy, as of :meth:`clip_effect`.
        """
        if not np.isfinite(value):
            raise ValueError(f"value must be a finite number, got {value!r}")
        where = _range(low, high) if at is None else f"at {', '.join(map(str, at))}"
        edit = self._edit("set", column, f"{value:g} {where}")
        change = set_to(self._book(column), float(value), low, high, at)
        return self._with_model(changed_main(self.model_, column, change, edit, missing=False, k=linear_predictor))

    def remove_effect(
        self: Self,
        column: str | int | Sequence[str | int] | None = None,
        *,
        order: int | None = None,
        interactions: bool = False,
        linear_predictor: int = 0,
    ) -> Self:
        """Remove a main effect, the interaction of two columns, all interactions of a column, or all of an order.

        Parameters
        ----------
        column : str, int or two of them, optional
            Name or place. Of two columns the interaction between them goes, ``effect(model, [first, second])``;
            interactions of more columns stay.
        order : int, optional
            In place of a column: an order of interactions from 2 on.
        interactions : bool, default False
            Whether the column's interactions go, and its main effect stays.
        linear_predictor : int, default 0
            Which one, where the family has several.

        Returns
        -------
        AHOFMRegressor or AHOFMClassifier
            A copy, as of :meth:`clip_effect`.
        """
        if isinstance(column, Sequence) and not isinstance(column, str):
            return self._without_pair(tuple(column), order, linear_predictor, interactions=interactions)
        if interactions:
            if column is None or order is not None:
                raise ValueError("interactions=True needs a column, and no order")
            edit = self._edit("remove", column, "all interactions", what="")
            return self._with_model(without_interactions(self.model_, column, edit, linear_predictor))
        return self._rescaled("remove", column, order, 0.0, "", linear_predictor)

    def _without_pair(
        self: Self, columns: tuple[str | int, ...], order: int | None, k: int, *, interactions: bool
    ) -> Self:
        check_is_fitted(self, "model_")
        names = [self._book(column).name for column in columns]
        if len(set(names)) != 2 or len(names) != 2:
            raise ValueError(f"an interaction to remove has two different columns, got {columns!r}")
        if interactions or order is not None:
            raise ValueError("two columns are an interaction: give neither interactions= nor order= with them")
        edit = Edit("remove", f"interaction of {names[0]} and {names[1]}", "")
        return self._with_model(without_pair(self.model_, columns, edit, k))

    def rescale_effect(
        self: Self,
        column: str | int | None = None,
        factor: float = 1.0,
        *,
        order: int | None = None,
        linear_predictor: int = 0,
    ) -> Self:
        """Multiply a main effect, or all interactions of an order, by a number.

        Parameters
        ----------
        column : str or int, optional
            Name or place.
        factor : float
            By what.
        order : int, optional
            In place of a column: an order of interactions from 2 on.
        linear_predictor : int, default 0
            Which one, where the family has several.

        Returns
        -------
        AHOFMRegressor or AHOFMClassifier
            A copy, as of :meth:`clip_effect`.
        """
        if not np.isfinite(factor):
            raise ValueError(f"factor must be a finite number, got {factor!r}")
        return self._rescaled("rescale", column, order, float(factor), f"times {factor:g}", linear_predictor)

    def rebalanced(
        self: Self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Move the intercept so that predictions of some rows add up to their targets: the balance property.

        Parameters
        ----------
        X : table of n rows
            Usually the training rows.
        y : array of shape (n,)
            Targets, or labels for a classifier of two classes.
        sample_weight : array of shape (n,), optional
            Weights in both sums.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor, e.g. the log of an exposure.

        Returns
        -------
        AHOFMRegressor or AHOFMClassifier
            A copy, as of :meth:`clip_effect`.
        """
        check_is_fitted(self, "model_")
        table, target = self._read(X), self._target(y)
        weight = check_weight(sample_weight, table.n_rows)
        edit = Edit("balance", "intercept", f"on {table.n_rows} rows")
        repeated = self.model_.repeated
        shifted = repeated is None or repeated.near is None  # effects of near rows depend on the intercept
        model = self.model_ if shifted else self.model_.without_repeated
        return self._with_model(balanced(model, model.eta(table, offset), target, weight, edit))

    def forget_rows(self: Self) -> Self:
        """Leave out effects of rows that training had more than once (``model_.repeated``), if there are any.

        Returns
        -------
        AHOFMRegressor or AHOFMClassifier
            A copy whose linear predictors are functions of the columns alone, with the band and the training rows.

        Examples
        --------
        >>> model.forget_rows().model_.repeated is None
        True
        """
        check_is_fitted(self, "model_")
        made = copy.copy(self)
        made.model_ = self.model_.without_repeated
        return made

    def _rescaled(
        self: Self, action: str, column: str | int | None, order: int | None, factor: float, said: str, k: int
    ) -> Self:
        """A copy with a main effect, or all interactions of an order, multiplied by a number."""
        edit = Edit(action, f"interactions of order {order}", said)
        if column is not None:
            edit = self._edit(action, column, said)
        return self._with_model(rescaled(self.model_, column, order, factor, edit, k))

    def _edit(self, action: str, column: str | int, said: str, what: str = "main effect of ") -> Edit:
        check_is_fitted(self, "model_")
        return Edit(action, f"{what}{self._book(column).name}", said)

    def _book(self, column: str | int) -> Any:
        return book_of(self.model_, column)[1]

    def _with_model(self: Self, model: Model) -> Self:
        """A copy with another model, and without the training rows of the fit."""
        made = copy.copy(self)
        made.model_, made.training_ = model, None
        made.negligible_ = model.negligible()
        return made


def _range(low: Any, high: Any) -> str:
    if low is None and high is None:
        return "everywhere"
    if low is None:
        return f"up to {high}"
    return f"from {low} on" if high is None else f"from {low} to {high}"
