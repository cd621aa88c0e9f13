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

_TOGETHER = 10.0
"""So many rows' worth of belief that all recipes count alike."""

_FIRM, _LIKELY = 3.0, 1.0
"""Standard errors of a gain: of any interactions over none, and of a higher order over a lower one."""


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
        """This order, or 1 unless interactions up to it predict better than main effects by three standard errors.

        Interactions that a few rows suggest look harmless on most rows set aside; on a new row they may be absurd.
        """
        return order if any(self._gain(1, d) > _FIRM for d in self.orders[1:] if d <= order) else 1

    def needed(self, order: int) -> int:
        """The highest order up to this one that predicts better than those below: pairs firmly, the others likely."""
        best = 1
        for higher in self.orders[1:]:
            if higher <= order and self._gain(best, higher) > (_FIRM if best == 1 else _LIKELY):
                best = higher
        return best

    def shares(self, order: int) -> dict[tuple[int, int], float]:
        """Shares of (recipe, order), up to the highest order that is supported, that together predict best.

        What they lack to 1 is the share of a constant: where columns say little, their effects are shrunk.
        """
        return self._mixture(self.supported(order))

    def _gain(self, lower: int, higher: int) -> float:
        """What the mean squared error falls by from one order to another, in standard errors."""
        gain = self._squares(self._mixture(lower)) - self._squares(self._mixture(higher))
        mean = float(np.average(gain, weights=self.weight))
        spread = float(np.average((gain - mean) ** 2, weights=self.weight))
        rows = float(self.weight.sum() ** 2 / (self.weight @ self.weight))
        return mean / max(np.sqrt(spread / rows), np.finfo(float).tiny)

    def _squares(self, shares: Mapping[tuple[int, int], float]) -> Floats:
        """Squared errors of a weighted mean."""
        mean = sum(share * self._of(recipe, order) for (recipe, order), share in shares.items())
        return np.asarray((mean + (1.0 - sum(shares.values())) * self._constant - self.target) ** 2)

    @property
    def _constant(self) -> float:
        return float(np.average(self.target, weights=self.weight))

    def _mixture(self, order: int) -> dict[tuple[int, int], float]:
        """Non-negative shares of all recipes at all orders up to one, and of a constant, with sum 1.

        A little ridge draws the recipes together, and the constant to nothing, where the rows cannot tell.
        """
        n, recipes, _ = self.predicted.shape
        orders = [d for d in self.orders if d <= order]
        members = [(recipe, d) for recipe in range(recipes) for d in orders]
        count = len(members)
        roots = np.sqrt(self.weight / self.weight.mean())
        columns = [*(self._of(recipe, d) for recipe, d in members), np.full(n, self._constant)]
        target = self.target * roots
        noise = float(self.errors()[:, : len(orders)].min())
        ridge, firm = np.sqrt(_TOGETHER) * noise, 1e3 * np.sqrt(n) * max(float(np.abs(target).max()), 1.0)
        matrix = np.vstack([np.column_stack(columns) * roots[:, np.newaxis], ridge * np.eye(count + 1)])
        even = np.append(np.full(count, ridge / count), 0.0)
        weights, _ = nnls(np.vstack([matrix, np.full(count + 1, firm)]), np.concatenate([target, even, [firm]]))
        weights = np.where(weights / weights.sum() < min(_LEAST, 1.0 / (count + 1)), 0.0, weights)
        weights /= weights.sum()
        shares = {member: float(weight) for member, weight in zip(members, weights, strict=False) if weight > 0.0}
        return shares or {(int(self.errors()[:, 0].argmin()), 1): _LEAST}


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
