"""A basis: functions of one column, what penalises them, and which of them are free. Knows no rows and no codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ahofm.columns.piecewise import Pieces

Floats: TypeAlias = NDArray[np.float64]
Sparse: TypeAlias = Any  # scipy.sparse.csr_array; SciPy ships no types

Outside = Literal["auto", "clamp", "linear"]
"""A kind's setting of what its functions are beyond the training range."""

BasisOutside = Literal["clamp", "linear"]
"""What the functions of a basis are there: the value at the border, or a line from it."""


def basis_outside(outside: Outside) -> BasisOutside:
    """What the functions of a kind with that setting are; with "auto", lines of main effects are the fit's matter."""
    return "linear" if outside == "linear" else "clamp"


@dataclass(frozen=True)
class Penalty:
    """A quadratic penalty ``coef' matrix coef``; smoothing parameters are chosen per penalty, by name and column.

    Attributes
    ----------
    name : "roughness" or "ridge"
        What it penalises.
    matrix : sparse array of shape (size, size)
        Positive semi-definite.
    """

    name: Literal["roughness", "ridge"]
    matrix: Sparse  # (size, size), positive semi-definite


@runtime_checkable
class Basis(Protocol):
    """Functions of one column, learned once, evaluated anywhere."""

    @property
    def size(self) -> int:
        """Number of functions."""
        ...

    @property
    def penalties(self) -> tuple[Penalty, ...]:
        """Each on the whole coefficient vector."""
        ...

    @property
    def constant(self) -> Floats | None:
        """Coefficients of the function 1, (size,); None when it is not in the span."""
        ...

    @property
    def null_space(self) -> Floats:
        """Coefficients without a penalty (the null space), one column each: (size, q)."""
        ...

    def evaluate(self, x: NDArray[Any]) -> Sparse:
        """Evaluate the functions.

        Parameters
        ----------
        x : array of shape (n,)
            Values without missing ones.

        Returns
        -------
        sparse array of shape (n, size)
            Values of the functions.
        """
        ...

    def pieces(self) -> Pieces | None:
        """Write the functions as polynomials between breaks.

        Returns
        -------
        Pieces or None
            None when the functions depend on the code of a value alone.
        """
        ...


def difference_penalty(size: int, order: int) -> Penalty:
    """``D'D`` with D the matrix of `order`-th differences; polynomials of lower degree in the index are free."""
    D = sp.eye_array(size, format="csr")
    for _ in range(order):
        D = D[1:] - D[:-1]
    return Penalty("roughness", sp.csr_array(D.T @ D))


def circular_difference_penalty(size: int, order: int) -> Penalty:
    """Differences that go round: the first function follows the last; only the constant is free."""
    step = sp.csr_array((np.ones(size), (np.arange(size), (np.arange(size) + 1) % size)), shape=(size, size))
    D = sp.eye_array(size, format="csr")
    for _ in range(order):
        D = (step - sp.eye_array(size, format="csr")) @ D
    return Penalty("roughness", sp.csr_array(D.T @ D))


def ridge_penalty(size: int) -> Penalty:
    """The identity: every coefficient is pulled to zero on its own."""
    return Penalty("ridge", sp.eye_array(size, format="csr"))


def pad_penalty(penalty: Penalty, before: int, after: int) -> Penalty:
    """The same penalty on the middle part of a longer coefficient vector."""
    blocks = [sp.csr_array((before, before)), penalty.matrix, sp.csr_array((after, after))]
    return Penalty(penalty.name, sp.csr_array(sp.block_diag(blocks, format="csr")))


def fraction(x: Floats, low: Floats | float, high: Floats | float) -> Floats:
    """``(x - low) / (high - low)``, also where ``high - low`` overflows; 0 where the two are equal."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        width = np.subtract(high, low)
        plain = np.subtract(x, low) / width
        halves = (x / 2 - np.divide(low, 2)) / (np.divide(high, 2) - np.divide(low, 2))
    return np.asarray(np.where(width == 0, 0.0, np.where(np.isfinite(width), plain, halves)), dtype=np.float64)
