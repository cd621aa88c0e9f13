"""How much each recipe counts, and each order: by their errors on rows they have not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.fit.block.stages import Snapshot
from ahofm.kernels import Curves, NativeCurves, column_curves

_LEAST = 0.05
"""Smaller shares are left out: a member costs rank."""


@dataclass(frozen=True)
class Scores:
    """What recipes predicted for rows that were set aside.

    Attributes
    ----------
    orders : tuple of int
        1, and those that have factors.
    predicted : array of shape (rows, recipes, orders)
    target, weight : arrays of shape (rows,)
    """

    orders: tuple[int, ...]
    predicted: Floats
    target: Floats
    weight: Floats

    def errors(self) -> Floats:
        """Root mean squares, (recipes, orders)."""
        squares = (self.predicted - self.target[:, np.newaxis, np.newaxis]) ** 2
        return np.sqrt(np.average(squares, axis=0, weights=self.weight))

    def _of(self, recipe: int, order: int) -> Floats:
        return self.predicted[:, recipe, self.orders.index(order)]

    def supported(self, order: int) -> int:
        """The highest order up to this one that predicts better, by more than two standard errors, than those below.

        Interactions that a few rows suggest look harmless on most rows set aside; on a new row they may be absurd.
        """
        best = 1
        for higher in self.orders[1:]:
            if higher > order:
                break
            gain = self._squares(self._mixture(best)) - self._squares(self._mixture(higher))
            mean = float(np.average(gain, weights=self.weight))
            spread = float(np.average((gain - mean) ** 2, weights=self.weight))
            rows = float(self.weight.sum() ** 2 / (self.weight @ self.weight))
            if mean > 2.0 * np.sqrt(spread / rows):
                best = higher
        return best

    def shares(self, order: int) -> dict[tuple[int, int], float]:
        """Shares of (recipe, order), up to the highest order that is supported, that together predict best."""
        return self._mixture(self.supported(order))

    def _squares(self, shares: Mapping[tuple[int, int], float]) -> Floats:
        """Squared errors of a weighted mean."""
        mean = sum(share * self._of(recipe, order) for (recipe, order), share in shares.items())
        return np.asarray((mean - self.target) ** 2)

    def _mixture(self, order: int) -> dict[tuple[int, int], float]:
        """Non-negative shares of all recipes at all orders up to one, with sum 1.

        A little ridge draws them together where the rows cannot tell.
        """
        n, recipes, _ = self.predicted.shape
        orders = [d for d in self.orders if d <= order]
        members = [(recipe, d) for recipe in range(recipes) for d in orders]
        roots = np.sqrt(self.weight / self.weight.mean())
        columns = np.column_stack([self._of(recipe, d) for recipe, d in members]) * roots[:, np.newaxis]
        target = self.target * roots
        noise = float(self.errors()[:, : len(orders)].min())
        ridge, firm = np.sqrt(3.0) * noise, 1e3 * np.sqrt(n) * max(float(np.abs(target).max()), 1.0)
        count = len(members)
        matrix = np.vstack([columns, ridge * np.eye(count), firm * np.ones((1, count))])
        weights, _ = nnls(matrix, np.concatenate([target, np.full(count, ridge / count), [firm]]))
        weights = np.where(weights / weights.sum() < min(_LEAST, 1.0 / count), 0.0, weights)
        weights /= weights.sum()
        return {member: float(weight) for member, weight in zip(members, weights, strict=True) if weight > 0.0}


def folds(n_rows: int, seed: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows to fit and rows to predict: every row is predicted once when there are few, a fifth of them when many."""
    order = np.random.default_rng(seed).permutation(n_rows)
    count = 3 if n_rows <= 3000 else 1
    parts = np.array_split(order, count if count > 1 else 5)[:count]
    return [(np.sort(np.setdiff1d(order, part)), np.sort(part)) for part in parts]


def predict(snapshot: Snapshot, books: Sequence[Codebook], columns: Sequence[NDArray[Any]]) -> Floats:
    """The predictor at raw values, as the final model will see them: a code stands for many of them."""
    curves = tuple(map(column_curves, books, snapshot.coef, snapshot.level))
    places = [book.places(column) for book, column in zip(books, columns, strict=True)]
    return NativeCurves((Curves(snapshot.intercept, snapshot.ranks, curves),)).eta(places, 1)[:, 0]
