"""The weighted mean of fits with shared curves: main effects add up, factors stand side by side with their loadings."""

from __future__ import annotations

from collections.abc import Sequence

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.model import Predictor
from ahofm.orders import Orders
from ahofm.shared_curves.class_fit import ClassFit
from ahofm.tuning import LEAST_VARIANCE


def merged(
    parts: Sequence[tuple[float, ClassFit]], books: Sequence[Codebook], columns: Sequence[int], constants: Floats
) -> tuple[Predictor, ...]:
    """The linear predictors ``sum_m weight_m eta_mk`` of all classes k; what weights lack to 1 is that of constants.

    Factors whose terms move no linear predictor are dropped.

    Parameters
    ----------
    parts : sequence of (weight, ClassFit)
    books : sequence of Codebook
        Of all columns of the table.
    columns : sequence of int
        Places of the fits' columns among these.
    constants : array of shape (K,)
    """
    left, sizes = 1.0 - sum(weight for weight, _ in parts), [book.size for book in books]
    kept = []
    for weight, fit in parts:
        alive = weight**2 * fit.squares * (fit.loadings**2).max(axis=1, initial=0.0) > LEAST_VARIANCE
        kept.append({order: alive[part] for order, part in Orders(fit.ranks).factor_slices.items()})
    found = []
    for k, constant in enumerate(constants):
        own = [
            (weight, fit.predictor(k).keeping(which).among(columns, sizes))
            for (weight, fit), which in zip(parts, kept, strict=True)
        ]
        whole = Predictor.weighted_sum(own).scaled(float(left * constant))
        found.append(whole.centred(books))
    return tuple(found)
