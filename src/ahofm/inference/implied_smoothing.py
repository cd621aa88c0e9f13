"""Projection of a fit on the coordinates of its band: coefficients, and the smoothing parameters they imply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import known_codes
from ahofm.columns.basis import Floats
from ahofm.kernels import Tables
from ahofm.priors.column import ColumnPriors

SOFTEST = 1e-3
"""Lower bound of smoothing parameters, in the units that fits are made in."""


def smoothest(column: ColumnPriors) -> NDArray[np.intp]:
    """Permutation of a column's coordinates by increasing penalty."""
    return np.argsort(column.stiffness, kind="stable")


@dataclass(frozen=True)
class Group:
    """Coordinates that share a smoothing parameter: those of one function with a penalty, or those without.

    Attributes
    ----------
    at : array of int
        Indices of the coordinates.
    main : bool
        Whether the function is a main effect.
    line : bool
        Whether they are the unpenalised (linear) coordinates of a smooth main effect.
    portion : float
        One divided by the number of factors of the order; 1 for main effects.
    """

    at: NDArray[np.intp]
    main: bool
    line: bool
    portion: float


def at_fit(
    tables: Tables,
    mains: Sequence[Floats],
    factors: Sequence[Floats],
    columns: Sequence[ColumnPriors | None],
    ranks: Mapping[int, int],
    most: float,
) -> tuple[Floats, Floats, list[Group]]:
    """Coordinates theta (P,) of the fitted functions, the penalties (P,) that functions of their size imply, at most
    ``most`` times a relative penalty, and the groups of coordinates that have one smoothing parameter each.
    """
    theta, lam, groups = [np.array([tables.intercept])], [np.zeros(1)], []
    starts, place = list(accumulate((len(main) for main in mains), initial=0)), 1
    for j, column in enumerate(columns):
        if column is None:
            continue
        at, order = slice(starts[j], starts[j + 1]), smoothest(column)
        stiffness = column.stiffness[order]
        functions_of = [(mains[j], tables.main[at, np.newaxis])]
        if ranks:
            functions_of += [(factors[j], table[at]) for table in tables.factors.values()]
        found = [_projected(values, functions, column.mass, stiffness, most) for values, functions in functions_of]
        for group in (found[:1], found[1:]):
            theta.append(np.hstack([part for part, _ in group] or [np.zeros(0)]).ravel())
            lam.append(np.hstack([part for _, part in group] or [np.zeros(0)]).ravel())
        size, shape = mains[j].shape[1], (factors[j].shape[1], sum(ranks.values()))
        groups += _groups(np.arange(place, place + size)[:, np.newaxis], stiffness, main=True)
        numbers = place + size + np.arange(shape[0] * shape[1]).reshape(shape)
        for rank, end in zip(ranks.values(), accumulate(ranks.values()), strict=True):
            groups += _groups(numbers[:, end - rank : end], stiffness, main=False)
        place += size + numbers.size
    return np.concatenate(theta), np.concatenate(lam), groups


def _groups(numbers: NDArray[np.intp], stiffness: Floats, *, main: bool) -> list[Group]:
    """Groups of K functions whose coordinates have indices ``numbers`` (m, K)."""
    bends = stiffness[: len(numbers)] > 0.0
    line = main and (bool(bends.any()) or len(numbers) == 1)
    return [
        Group(indices[chosen], main, line and not bent, 1.0 / numbers.shape[1])
        for indices in numbers.T
        for chosen, bent in ((bends, True), (~bends, False))
        if chosen.any()
    ]


def _projected(
    values: Floats, functions: Floats, mass: Floats, stiffness: Floats, most: float
) -> tuple[Floats, Floats]:
    """Coordinates (m, K) of K functions, and their penalties (m, K): one smoothing parameter for all penalised
    coordinates, one for the others.
    """
    roots = np.sqrt(mass)[:, np.newaxis]
    coef: Floats = np.linalg.lstsq(roots * known_codes(values), roots * known_codes(functions), rcond=None)[0].astype(
        np.float64
    )
    stiff = stiffness[: len(coef)]
    lam = np.ones_like(coef)
    for group in (stiff > 0.0, stiff == 0.0):
        if group.any():
            weight = (stiff[group] / stiff[group].mean() if stiff[group].any() else np.ones(group.sum()))[:, np.newaxis]
            size = max(float((weight * coef[group] ** 2).mean()), np.finfo(float).tiny)
            lam[group] = weight * np.clip(1.0 / size, SOFTEST, most)
    return coef, lam
