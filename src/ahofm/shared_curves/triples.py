"""Starts of factors of order 3: triples of columns whose products are correlated with the slopes of the losses.

A factor that starts from random curves of all columns is mostly noise: of p columns it has p (p - 1) (p - 2) / 6
triples, and an actual one among them is pruned before it is found. So all products of the first functions z of
three columns are scored,

    score of (a, b, c) = sum_k (sum_i slope_ik z_ia z_ib z_ic)^2 / sum_i weight_i z_ia^2 z_ib^2 z_ic^2

and factors start from the triples of columns whose scores exceed the largest one of all when rows have random signs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.kernels.blas import one_blas_thread
from ahofm.shared_curves.class_rows import ClassWorkingResponse
from ahofm.shared_curves.columns import ClassColumn, CodedColumn
from ahofm.tuning.classes import (
    MOST_SCREENED_TRIPLES,
    SCREENED_CLASS_FUNCTIONS,
    SCREENED_CLASS_ROWS,
    TRIPLE_START_SIZE,
)


@one_blas_thread()
def start_triples(
    starts: Sequence[Floats],
    which: slice,
    columns: Sequence[ClassColumn],
    coded: Sequence[CodedColumn],
    working: ClassWorkingResponse,
) -> None:
    """Let the first factors of order 3 start from significant triples; the others stay as they are.

    Parameters
    ----------
    starts : sequence of arrays of shape (codes, factors), one per column
        Changed in place.
    which : slice
        Factors of order 3.
    columns, coded : sequences of ClassColumn and CodedColumn
    working : ClassWorkingResponse
        At the main effects.
    """
    functions = [column.priors.start[:, :SCREENED_CLASS_FUNCTIONS] for column in columns]
    column_of = np.repeat(np.arange(len(columns)), [values.shape[1] for values in functions])
    if len(columns) < 3 or len(column_of) ** 3 > MOST_SCREENED_TRIPLES:
        return
    number_of = np.concatenate([np.arange(values.shape[1]) for values in functions])
    for at, triple in enumerate(significant_triples(functions, column_of, coded, working, which.stop - which.start)):
        for curves in starts:
            curves[:, which.start + at] = 0.0
        for function in triple:
            j = column_of[function]
            starts[j][:, which.start + at] = TRIPLE_START_SIZE * functions[j][:, number_of[function]]


def significant_triples(
    functions: Sequence[Floats],
    column_of: NDArray[np.intp],
    coded: Sequence[CodedColumn],
    working: ClassWorkingResponse,
    most: int,
) -> list[tuple[int, int, int]]:
    """Functions (a, b, c) of the triples of columns that exceed random signs, the best first, at most ``most``."""
    rows = np.arange(len(working.weight))
    if len(rows) > SCREENED_CLASS_ROWS:
        rows = rows[:: -(-len(rows) // SCREENED_CLASS_ROWS)]
    z = np.hstack(
        [
            np.vstack([values, np.zeros((1, values.shape[1]))])[column.codes[rows]]
            for values, column in zip(functions, coded, strict=True)
        ]
    )
    slopes, weight = working.slope[:, rows].T, working.weight[rows]
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (len(rows), 1))  # the same for all fits
    score = _scores(z, column_of, slopes, weight)
    null_score = float(_scores(z, column_of, slopes * signs, weight).max())
    found: dict[tuple[int, ...], tuple[int, int, int]] = {}
    for at in np.argsort(-score, axis=None, kind="stable"):
        a, b, c = (int(one) for one in np.unravel_index(at, score.shape))
        if score[a, b, c] <= null_score or len(found) == most:
            break
        found.setdefault((int(column_of[a]), int(column_of[b]), int(column_of[c])), (a, b, c))
    return list(found.values())


def _scores(z: Floats, column_of: NDArray[np.intp], slopes: Floats, weight: Floats) -> Floats:
    """Scores (functions, functions, functions) of triples of ascending columns; zero for all others."""
    count, squares = z.shape[1], z**2
    found = np.zeros((count, count, count))
    for a in range(count):
        later = np.flatnonzero(column_of > column_of[a])
        for b in later:
            third = column_of > column_of[b]
            if not third.any():
                continue
            pair = z[:, a] * z[:, b]
            sums = z[:, third].T @ (slopes * pair[:, np.newaxis])
            information = squares[:, third].T @ (weight * pair**2)
            found[a, b, third] = np.divide(
                (sums**2).sum(axis=1), information, out=np.zeros(len(information)), where=information > 0.0
            )
    return found
