"""Products over all columns of factors at rows, as columns change one after another.

    T = product over all columns j of psi_j        psi_j = m_j + phi_j
    its slope by the curve of one column is the product of the others

Every function psi has a root mean square of one over the rows, and absolute values of ``LEAST_PRODUCT_VALUE`` at least:
compiled sweeps divide by them. With variances v of the functions,

    E T^2 = product of (psi_j^2 + v_j)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.tuning.classes import CLASS_CONSTANT_PRECISION, LEAST_CLASS_PRODUCT_SCALE
from ahofm.tuning.products import LEAST_PRODUCT_VALUE


class Products:
    """Terms of product factors, from the functions of all columns at the rows.

    Parameters
    ----------
    curves : sequence of arrays of shape (n, rank)
        Functions psi of each column.
    variances : sequence of arrays of shape (n, rank), optional
        Their variances, where they count.
    """

    def __init__(self, curves: Sequence[Floats], variances: Sequence[Floats] | None = None) -> None:
        """Keep the functions: nothing is ever divided."""
        self._curves = list(curves)
        self._variances = None if variances is None else list(variances)

    @property
    def terms(self) -> Floats:
        """Products of all columns: (n, rank)."""
        return np.asarray(np.prod(self._curves, axis=0))

    def slopes(self, j: int) -> Floats:
        """Products of all columns but one: (n, rank)."""
        return np.asarray(np.prod(self._curves[:j] + self._curves[j + 1 :], axis=0) * np.ones_like(self._curves[j]))

    def slope_variances(self, j: int) -> Floats:
        """Variances of :meth:`slopes`."""
        return self._variance([i for i in range(len(self._curves)) if i != j])

    def term_variances(self) -> Floats:
        """Variances of :attr:`terms`; zero where those of the functions do not count."""
        return self._variance(range(len(self._curves)))

    def replace(self, j: int, curve: Floats, variance: Floats) -> None:
        """Other functions of one column, with their variances."""
        self._curves[j] = curve
        if self._variances is not None:
            self._variances[j] = variance

    def _variance(self, columns: Sequence[int]) -> Floats:
        square, squares = np.ones_like(self._curves[0]), np.ones_like(self._curves[0])
        for j in columns:
            of_mean = self._curves[j] ** 2
            square = square * of_mean
            squares = squares * (of_mean + (0.0 if self._variances is None else self._variances[j]))
        return np.asarray(np.maximum(squares - square, 0.0))


def solved_constants(
    gram: Floats, rhs: Floats, functions: Floats, products: slice, fisher: float
) -> tuple[Floats, Floats]:
    """Constants m (rank,) of product factors given their functions phi, and variances by Fisher's information.

    Parameters
    ----------
    gram, rhs : arrays of shape (codes, factors, factors) and (codes, factors)
        Sums over rows, for functions psi of product factors.
    functions : array of shape (codes, factors)
        Of product factors phi, without constants.
    products : slice
        Which factors they are.
    fisher : float
        Ratio of Fisher's information to the working weights.
    """
    total = gram[:, products, products].sum(axis=0)
    residual = (rhs[:, products] - np.einsum("bfg,bg->bf", gram[:, products], functions)).sum(axis=0)
    prior = CLASS_CONSTANT_PRECISION * np.eye(len(total))
    return np.linalg.solve(total + prior, residual), np.diag(np.linalg.inv(fisher * total + prior)).copy()


def scale_of(values: Floats, mass: Floats) -> Floats:
    """Root mean squares (rank,) of functions (codes, rank); 1 where they have vanished."""
    scale = np.sqrt(mass @ values**2)
    return np.asarray(np.where(scale > LEAST_CLASS_PRODUCT_SCALE, scale, 1.0))


def away_from_zero(values: Floats) -> Floats:
    """Values of absolute value ``LEAST_PRODUCT_VALUE`` at least."""
    return np.asarray(np.where(np.abs(values) < LEAST_PRODUCT_VALUE, np.copysign(LEAST_PRODUCT_VALUE, values), values))
