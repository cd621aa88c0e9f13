"""The weighted mean of several fits as one model: main effects add up, factors stand side by side with loadings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import Codebook
from ahofm.families import Units
from ahofm.model.predictor import Predictor
from ahofm.model.shared_predictors import SharedPredictors


@dataclass(frozen=True)
class MixturePart:
    """One fit of a weighted mean.

    Attributes
    ----------
    weight : float
    linear_predictors : sequence of Predictor, one per linear predictor of the family
        Over the columns that vary.
    kept : dict of order to array of bool of shape (rank,)
        Factors with an effect; the others are dropped.
    """

    weight: float
    linear_predictors: Sequence[Predictor]
    kept: Mapping[int, NDArray[np.bool_]]


def mixture(
    parts: Sequence[MixturePart],
    books: Sequence[Codebook],
    columns: Sequence[int],
    constants: Sequence[float] | NDArray[np.float64],
    units: Units,
) -> tuple[Predictor, ...]:
    """The linear predictors ``shift_k + factor_k (sum_m weight_m eta_mk + (1 - sum_m weight_m) constant_k)``.

    Parameters
    ----------
    parts : sequence of MixturePart
    books : sequence of Codebook
        All columns of the table.
    columns : sequence of int
        Positions of the parts' columns among ``books``; the others are constant.
    constants : array of shape (K,)
        Linear predictors of a fit without columns, whose weight is what ``weight`` lacks to 1.
    units : Units
        From the parts' linear predictors to those of the family.

    Returns
    -------
    tuple of Predictor
        They share their factors where those of every part do.
    """
    left, sizes = 1.0 - sum(part.weight for part in parts), [book.size for book in books]
    shared = [(part, all_of_them) for part in parts if (all_of_them := SharedPredictors.of(part.linear_predictors))]
    if len(shared) == len(parts):
        merged = SharedPredictors.weighted_sum(
            [(part.weight, together.keeping(part.kept).among(columns, sizes)) for part, together in shared]
        )
        shifts = np.asarray(units.shift) + left * np.multiply(units.factor, constants)
        scaled = merged.scaled(shifts, units.factor)
        return scaled.centred(books).separate()
    found = []
    for k, (shift, factor, constant) in enumerate(zip(units.shift, units.factor, constants, strict=True)):
        members = [(part.weight, part.linear_predictors[k].keeping(part.kept).among(columns, sizes)) for part in parts]
        whole = Predictor.weighted_sum(members).scaled(float(shift + factor * left * constant), factor)
        found.append(whole.centred(books))  # main effects have mean zero over rows, not quite over codes
    return tuple(found)
