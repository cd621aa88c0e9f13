"""A linear predictor's coefficients: every function of every column in the column's own basis. Knows no rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ahofm.columns.basis import Floats, Sparse
from ahofm.families.links import quiet
from ahofm.model.layout import Layout


@dataclass(frozen=True)
class Terms:
    """One linear predictor: every function of every column in the column's own basis.

    Attributes
    ----------
    intercept : float
    coef : tuple of arrays of shape (functions of the column, 1 + factors)
        The main effect, then the factors, order after order.
    centring : tuple of arrays of shape (1 + factors,)
        Added at every value but unseen ones: the centring of functions that lack the constant.
    """

    intercept: float
    coef: tuple[Floats, ...]
    centring: tuple[Floats, ...]

    @classmethod
    def of(cls, layout: Layout, theta: Floats, shift: float = 0.0, factor: float = 1.0) -> Terms:
        """The linear predictor ``shift + factor * eta(theta)``: a factor of order d takes the d-th root."""
        roots = [np.full(rank, factor ** (1.0 / order)) for order, rank in layout.ranks.items()]
        stretch = np.concatenate([[factor], *roots])
        coef, centring = [], []
        for j, (main, factors) in enumerate(zip(layout.mains, layout.factors, strict=True)):
            own, rest = layout.main(theta, j), layout.factor(theta, j)
            with quiet():  # coefficients of tiny values may overflow, which the fit refuses
                coef.append(np.column_stack([main.to_basis @ own, factors.to_basis @ rest]) * stretch)
            centring.append(np.concatenate([[main.centring @ own], factors.centring @ rest]) * stretch)
        return cls(float(shift + factor * theta[0]), tuple(coef), tuple(centring))

    def coordinates(self, layout: Layout, shift: float = 0.0, factor: float = 1.0) -> Floats:
        """The vector that :meth:`of` makes these terms from, or the nearest when there is none."""
        roots = [np.full(rank, factor ** (1.0 / order)) for order, rank in layout.ranks.items()]
        stretch = np.concatenate([[factor], *roots])
        theta = np.zeros(layout.size)
        theta[0] = (self.intercept - shift) / factor
        for j, (main, factors) in enumerate(zip(layout.mains, layout.factors, strict=True)):
            own = self.coef[j] / stretch
            layout.main(theta, j)[:] = _solved(main.to_basis, own[:, :1])[:, 0]
            layout.factor(theta, j)[:] = _solved(factors.to_basis, own[:, 1:])
        return theta


def _solved(to_basis: Floats | Sparse, coef: Floats) -> Floats:
    if sp.issparse(to_basis):  # a diagonal
        return np.asarray(coef / to_basis.diagonal()[:, np.newaxis])
    return np.asarray(np.linalg.lstsq(to_basis, coef, rcond=None)[0])


@dataclass(frozen=True)
class Lower:
    """The same fit, ended at a lower order: that order, its ranks by order, its linear predictors."""

    order: int
    ranks: Mapping[int, int]
    linear_predictors: tuple[Terms, ...]


def without(terms: Terms, ranks: Mapping[int, int], kept: Sequence[int], gone: Sequence[bool], no_mains: bool) -> Terms:
    """Zeros for the columns that are gone, and for main effects if these are; only factors of orders that are kept."""
    orders = np.repeat([1, *ranks], [1, *ranks.values()])
    stays = np.isin(orders, [1, *kept])
    coef = [part[:, stays] * (not zero) for part, zero in zip(terms.coef, gone, strict=True)]
    centring = [part[stays] * (not zero) for part, zero in zip(terms.centring, gone, strict=True)]
    for part in (*coef, *centring) if no_mains else ():
        part[..., 0] = 0.0
    return Terms(terms.intercept, tuple(coef), tuple(centring))
