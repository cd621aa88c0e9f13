"""A fit in the coordinates of its band: coefficients, and the smoothing parameters that their sizes imply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import known_codes
from ahofm.columns.basis import Floats
from ahofm.kernels import Tables
from ahofm.priors.column import ColumnPriors

SOFTEST = 1e-3
"""Lowest smoothing parameter, in the units that fits are made in."""


def smoothest(column: ColumnPriors) -> NDArray[np.intp]:
    """The order of a column's coordinates, those with the least penalty first."""
    return np.argsort(column.stiffness, kind="stable")


def at_fit(
    tables: Tables,
    mains: Sequence[Floats],
    factors: Sequence[Floats],
    columns: Sequence[ColumnPriors | None],
    ranks: Mapping[int, int],
    most: float,
) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Coordinates of the fitted functions, the smoothing parameters that functions of their size would have, up to a
    bound, and which of these are one: -1 where there is none.
    """
    theta, lam, groups = [np.array([tables.intercept])], [np.zeros(1)], [np.full(1, -1)]
    starts = list(accumulate((len(main) for main in mains), initial=0))
    for j, column in enumerate(columns):
        if column is None:
            continue
        at, order = slice(starts[j], starts[j + 1]), smoothest(column)
        stiffness = column.stiffness[order]
        own = [(mains[j], tables.main[at, np.newaxis])]
        if ranks:
            own += [(factors[j], table[at]) for table in tables.factors.values()]
        found = [_projected(values, functions, column.mass, stiffness, most) for values, functions in own]
        first = [len(found) * 2 * j + 2 * part for part in range(len(found))]
        numbers = [np.where(own >= 0, own + start, -1) for (_, _, own), start in zip(found, first, strict=True)]
        theta.append(found[0][0].ravel())
        lam.append(found[0][1].ravel())
        groups.append(numbers[0].ravel())
        if ranks:
            theta.append(np.hstack([part for part, _, _ in found[1:]]).ravel())
            lam.append(np.hstack([part for _, part, _ in found[1:]]).ravel())
            groups.append(np.hstack(numbers[1:]).ravel())
    return np.concatenate(theta), np.concatenate(lam), np.concatenate(groups).astype(np.intp)


def _projected(
    values: Floats, functions: Floats, mass: Floats, stiffness: Floats, most: float
) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Coordinates (m, K) of K functions, smoothing parameters (m, K) shared by them, and which each of these is: 0 of
    what is stiff, 1 of the rest.
    """
    roots = np.sqrt(mass)[:, np.newaxis]
    coef: Floats = np.linalg.lstsq(roots * known_codes(values), roots * known_codes(functions), rcond=None)[0].astype(
        np.float64
    )
    stiff = stiffness[: len(coef)]
    lam, which = np.ones_like(coef), np.full(coef.shape, -1, dtype=np.intp)
    for number, group in enumerate((stiff > 0.0, stiff == 0.0)):
        if group.any():
            weight = (stiff[group] / stiff[group].mean() if stiff[group].any() else np.ones(group.sum()))[:, np.newaxis]
            size = max(float((weight * coef[group] ** 2).mean()), np.finfo(float).tiny)
            lam[group] = weight * np.clip(1.0 / size, SOFTEST, most)
            which[group] = number
    return coef, lam, which
