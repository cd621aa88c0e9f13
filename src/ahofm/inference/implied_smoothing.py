"""Projection of a fit on the coordinates of its band: coefficients, and the smoothing parameters they imply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Categorical, Codebook, known_codes
from ahofm.columns.basis import Floats
from ahofm.kernels import Tables
from ahofm.priors.column import ColumnPriors
from ahofm.tuning.bands import MOST_COORDINATES, SMALLEST_BAND_LAM, UNUSED_VARIANCE


def by_penalty(column: ColumnPriors) -> NDArray[np.intp]:
    """Permutation of a column's coordinates by increasing penalty."""
    return np.argsort(column.penalty_eigenvalues, kind="stable")


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
    order_fraction : float
        One divided by the number of factors of the order; 1 for main effects.
    """

    at: NDArray[np.intp]
    main: bool
    line: bool
    order_fraction: float


def fitted_coordinates(
    tables: Tables,
    mains: Sequence[Floats],
    factors: Sequence[Floats],
    columns: Sequence[ColumnPriors | None],
    ranks: Mapping[int, int],
    most: float,
) -> tuple[Floats, Floats, list[Group]]:
    """Coordinates of the fitted functions in the bases of a band, by weighted least squares.

    Parameters
    ----------
    tables : Tables
        The linear predictor at the codes.
    mains, factors : sequences of arrays of shape (codes, coordinates)
        Coordinates of each column's main effect and factors, at the codes.
    columns : sequence of ColumnPriors or None
        None for constant columns.
    ranks : dict of order to rank
    most : float
        Largest smoothing parameter.

    Returns
    -------
    theta : array of shape (P,)
        Intercept, then main effect and factors of every column.
    lam : array of shape (P,)
        Penalties that functions of their size imply: ``lambda w_i`` with ``lambda = m / sum_i w_i theta_i^2``.
    groups : list of Group
        Coordinates that share a smoothing parameter.
    """
    theta, lam, groups = [np.array([tables.intercept])], [np.zeros(1)], []
    starts, place = list(accumulate((len(main) for main in mains), initial=0)), 1
    for j, column in enumerate(columns):
        if column is None:
            continue
        at, order = slice(starts[j], starts[j + 1]), by_penalty(column)
        eigenvalues = column.penalty_eigenvalues[order]
        functions_of = [(mains[j], tables.main[at, np.newaxis])]
        if ranks:
            functions_of += [(factors[j], table[at]) for table in tables.factors.values()]
        parts = [_projected(values, functions, column.mass, eigenvalues, most) for values, functions in functions_of]
        for group in (parts[:1], parts[1:]):
            theta.append(np.hstack([part for part, _ in group] or [np.zeros(0)]).ravel())
            lam.append(np.hstack([part for _, part in group] or [np.zeros(0)]).ravel())
        size, shape = mains[j].shape[1], (factors[j].shape[1], sum(ranks.values()))
        groups += _groups(np.arange(place, place + size)[:, np.newaxis], eigenvalues, main=True)
        numbers = place + size + np.arange(shape[0] * shape[1]).reshape(shape)
        for rank, end in zip(ranks.values(), accumulate(ranks.values()), strict=True):
            groups += _groups(numbers[:, end - rank : end], eigenvalues, main=False)
        place += size + numbers.size
    return np.concatenate(theta), np.concatenate(lam), groups


def main_sizes(
    columns: Sequence[ColumnPriors | None], books: Sequence[Codebook], at_codes: Sequence[Tables]
) -> list[int]:
    """Numbers of coordinates of the main effects of all columns: all, or together at most ``MOST_COORDINATES``.

    A covariance is cubic in its coordinates. With too many columns a main effect keeps its smoothest coordinates: as
    many as the fit (tables of each linear predictor) uses, and all columns at least the same number, as large as there
    is room for. Levels keep theirs.
    """
    sizes = np.array([0 if one is None else one.start.shape[1] for one in columns], dtype=np.intp)
    if sizes.sum() <= MOST_COORDINATES:
        return [int(size) for size in sizes]
    levels = np.array([isinstance(book.kind, Categorical) for book in books])
    used = np.max([_used_sizes(columns, books, tables) for tables in at_codes], axis=0)
    used_sizes, fewest = np.where(levels, sizes, used), int(sizes.max())
    while fewest > 1 and np.minimum(sizes, np.maximum(used_sizes, fewest)).sum() > MOST_COORDINATES:
        fewest -= 1
    return [int(size) for size in np.minimum(sizes, np.maximum(used_sizes, fewest))]


def _used_sizes(columns: Sequence[ColumnPriors | None], books: Sequence[Codebook], tables: Tables) -> NDArray[np.intp]:
    """How many of the smoothest coordinates of each column have its main effect, but for ``UNUSED_VARIANCE``."""
    starts = accumulate((book.n_codes for book in books), initial=0)
    squares = []
    for start, column in zip(starts, columns, strict=False):
        if column is None:
            squares.append(np.zeros(0))
            continue
        main = tables.main[start : start + len(column.mass)]
        coef = column.start[:, by_penalty(column)].T @ (column.mass * main)  # functions are orthonormal
        squares.append(coef**2)
    most = UNUSED_VARIANCE * sum(float(square.sum()) for square in squares)
    return np.array([int((np.cumsum(square[::-1]) > most).sum()) for square in squares], dtype=np.intp)


def _groups(numbers: NDArray[np.intp], eigenvalues: Floats, *, main: bool) -> list[Group]:
    """Groups of K functions whose coordinates have indices ``numbers`` (m, K)."""
    penalised = eigenvalues[: len(numbers)] > 0.0
    has_line = main and (bool(penalised.any()) or len(numbers) == 1)
    parts = [(chosen, is_line) for chosen, is_line in ((penalised, False), (~penalised, True)) if chosen.any()]
    if not parts:  # curves of several classes may have no coordinates, and there are many of them
        return []
    return [
        Group(indices[chosen], main, has_line and is_line, 1.0 / numbers.shape[1])
        for indices in numbers.T
        for chosen, is_line in parts
    ]


def _projected(
    values: Floats, functions: Floats, mass: Floats, eigenvalues: Floats, most: float
) -> tuple[Floats, Floats]:
    """Coordinates (m, K) of K functions, and their penalties (m, K): one smoothing parameter for all penalised
    coordinates, one for the others.
    """
    if not values.shape[1]:
        return np.zeros((0, functions.shape[1])), np.zeros((0, functions.shape[1]))
    roots = np.sqrt(mass)[:, np.newaxis]
    coef: Floats = np.linalg.lstsq(roots * known_codes(values), roots * known_codes(functions), rcond=None)[0].astype(
        np.float64
    )
    eigenvalues = eigenvalues[: len(coef)]
    lam = np.ones_like(coef)
    for group in (eigenvalues > 0.0, eigenvalues == 0.0):
        if group.any():
            relative = (
                eigenvalues[group] / eigenvalues[group].mean() if eigenvalues[group].any() else np.ones(group.sum())
            )
            weight = relative[:, np.newaxis]
            size = max(float((weight * coef[group] ** 2).mean()), np.finfo(float).tiny)
            lam[group] = weight * np.clip(1.0 / size, SMALLEST_BAND_LAM, most)
    return coef, lam
