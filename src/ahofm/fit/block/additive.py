"""Smooth main effects of all columns at once, at the true values: where every fit starts.

Blocks visit one column after another, and columns that say nearly the same (a temperature in two places) then take many
sweeps to share an effect; and they see a value only through its code. An additive model in smooth coordinates is one
small dense problem, so it is solved for all columns together and without codes; the blocks explain what it leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.fit.block.column import SmoothCoordinates

MOST_COEFFICIENTS = 1500
"""More of them are left to the blocks: the solve is cubic."""

_STEPS = 30


@dataclass(frozen=True)
class Additive:
    """Smooth main effects.

    Attributes
    ----------
    intercept : float
    coef : tuple of arrays of shape (functions of the column,)
        In each column's basis.
    level : tuple of float
        Added at every value.
    fitted : array of shape (n,)
        At the rows it was fitted to.
    """

    intercept: float
    coef: tuple[Floats, ...]
    level: tuple[float, ...]
    fitted: Floats

    def at(self, books: Sequence[Codebook], columns: Sequence[NDArray[Any]]) -> Floats:
        """Predictor at raw values of the same columns."""
        out = np.full(len(columns[0]), self.intercept)
        for book, column, coef, level in zip(books, columns, self.coef, self.level, strict=True):
            if coef.any():
                out += book.evaluate(column) @ coef + level
        return out


def fit_additive(
    books: Sequence[Codebook],
    coordinates: Sequence[SmoothCoordinates | None],
    columns: Sequence[NDArray[Any]],
    target: Floats,
    weight: Floats,
) -> Additive:
    """Fit a standardised target; strengths per column and group by the generalised Fellner–Schall rule.

    Columns without smooth coordinates, such as levels, are left out.
    """
    used = [j for j, own in enumerate(coordinates) if own is not None]
    nothing = Additive(0.0, tuple(np.zeros(book.size) for book in books), (0.0,) * len(books), np.zeros(len(target)))
    parts = [own for own in coordinates if own is not None]
    sizes = [own.values.shape[1] for own in parts]
    if not parts or sum(sizes) > min(MOST_COEFFICIENTS, len(target)):
        return nothing
    design = np.hstack([own.at(books[j], columns[j]) for j, own in zip(used, parts, strict=True)])
    centre = float(np.average(target, weights=weight))
    middle = np.average(design, axis=0, weights=weight)
    design -= middle
    groups = np.concatenate([own.group + 4 * k for k, own in enumerate(parts)])
    theta = _ridge(design, target - centre, weight, groups, np.concatenate([own.weight for own in parts]))
    ends = np.cumsum([0, *sizes])
    coef, level = list(nothing.coef), list(nothing.level)
    for j, own, a, b in zip(used, parts, ends[:-1], ends[1:], strict=True):
        coef[j], level[j] = own.to_basis @ theta[a:b], float(own.level @ theta[a:b])
    return Additive(centre - float(middle @ theta), tuple(coef), tuple(level), design @ theta + centre)


def _ridge(design: Floats, target: Floats, weight: Floats, groups: NDArray[np.intp], within: Floats) -> Floats:
    """Coefficients with learned strengths."""
    kinds, group = np.unique(groups, return_inverse=True)
    member = np.where(np.arange(len(kinds))[:, np.newaxis] == group, within, 0.0)
    counts = np.bincount(group).astype(float)
    total = float(weight.sum())
    weighted = design * weight[:, np.newaxis]
    gram, right = weighted.T @ design, weighted.T @ target
    square = float(weight @ target**2)
    strength, noise = np.ones(len(kinds)), max(square / total, 1e-12)
    theta = np.zeros(len(right))
    for step in range(_STEPS):
        matrix = gram / noise
        diagonal = np.einsum("ii->i", matrix)
        diagonal += strength[group] * within + 1e-13 * diagonal.mean()
        factor, failed = lapack.dpotrf(matrix, lower=1, overwrite_a=1)
        if failed:
            return theta
        theta, _ = lapack.dpotrs(factor, right / noise, lower=1)
        covariance, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        variance = np.diag(covariance)
        freedom = np.maximum(counts - strength * (member @ variance), 1e-3)
        size = np.maximum(member @ theta**2, 1e-12)
        spread = float((gram * covariance).sum() * 2.0 - np.diag(gram) @ variance)  # the lower triangle counts twice
        lost = float(weight @ (target - design @ theta) ** 2)
        before, noise = noise, max((lost + spread) / total, 1e-12)
        strength = np.clip(np.clip(freedom / size, strength / 5.0, strength * 5.0), 1e-6, 1e8)
        if step > 5 and abs(np.log(noise / before)) < 1e-4:
            break
    return np.asarray(theta)
