"""Coordinates of a column's functions in which the penalty is diagonal and the data are, as far as possible, too.

Demmler–Reinsch orthogonalisation (Ruppert, Wand and Carroll, 2003, appendix B) of the basis at the codes, weighted by
their mass: with G the Gram matrix per unit of weight and P the sum of the penalties, a matrix T with ``T'GT = I`` and
``T'PT = diag(s)``. It is computed from the two square roots (a generalised singular value decomposition), never from a
Cholesky factor of G, so that bases with more functions than the data can tell apart are safe: directions without data
drop out, which leaves them at the value the penalty gives them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from ahofm.columns import Codebook, known_codes
from ahofm.columns.basis import Floats, Sparse

_RANK_TOLERANCE = 1e-7
"""Directions whose root-mean-square value on the data is smaller, relative to their penalty, carry no data."""

_SMALLEST_UNIT, _LARGEST_ROOT = 1e-60, 1e150
"""Size of values whose products are still finite, as those of its inverse are; the largest root of a penalty."""

_EQUAL_EIGENVALUES = 1e-7
"""Relative difference of eigenvalues that rounding may make of none."""

_DENSE_LEVELS = 512
"""More indicator functions than this stay sparse: a dense decomposition is cubic in them."""


@dataclass(frozen=True)
class Coordinates:
    """Functions of one column as a solver sees them.

    Attributes
    ----------
    values : array of shape (codes, q), dense or sparse
        Each function at each code, before the level is added.
    to_basis : array of shape (size of the codebook, q), dense or sparse
        Coefficients of the codebook's functions for each of these.
    centring : array of shape (q,)
        Added at every code but the neutral one (the last): centres functions that do not contain the constant.
    penalty : array of shape (q,)
        Penalty of the square of each coefficient.
    """

    values: Floats | Sparse
    to_basis: Floats | Sparse
    centring: Floats
    penalty: Floats

    @property
    def size(self) -> int:
        """Number of functions."""
        return len(self.penalty)

    @property
    def shifted(self) -> bool:
        """Whether there is a level to add."""
        return bool(self.centring.any())

    def at_codes(self, coef: Floats) -> Floats:
        """Values at the codes of coefficients (q, ...)."""
        values = self.values @ coef
        if self.shifted:
            known_codes(values)[:] += self.centring @ coef
        return np.asarray(values)

    def adjoint(self, slopes: Floats) -> Floats:
        """Derivatives by the coefficients, from those by the values at the codes."""
        by_coef = self.values.T @ slopes
        if self.shifted:
            by_coef = by_coef + np.multiply.outer(self.centring, known_codes(slopes).sum(axis=0))
        return np.asarray(by_coef)


def coordinates(book: Codebook, *, center: bool) -> Coordinates:
    """Coordinates of all functions of a codebook, or of those with mean zero over the training data."""
    if book.size == 0:
        return Coordinates(np.zeros((book.n_codes, 0)), np.zeros((0, 0)), np.zeros(0), np.zeros(0))
    fraction = book.mass / book.mass.sum()
    if _indicators(book) and book.size > _DENSE_LEVELS:
        return _sparse_indicators(book, fraction, center)
    basis, root = book.basis.toarray(), penalty_root(book)
    subspace, centring = np.eye(book.size), np.zeros(book.size)
    if center and book.constant is not None:
        subspace = scipy.linalg.qr((basis.T @ fraction)[:, np.newaxis])[0][:, 1:]
        root, centring = root @ subspace, centring[1:]
    elif center:
        subspace, centring = _centred(book, basis, fraction)
        units = _units(np.abs(known_codes(basis) @ subspace + centring).max(axis=0))
        subspace, centring, root = subspace / units, centring / units, root / np.maximum(units, _SMALLEST_UNIT)
    data = basis @ subspace
    known_codes(data)[:] += centring
    within, penalty = _reinsch(np.sqrt(fraction)[:, np.newaxis] * data, root)
    to_basis = subspace @ within
    return Coordinates(basis @ to_basis, to_basis, centring @ within, penalty)


def _centred(book: Codebook, basis: Floats, fraction: Floats) -> tuple[Floats, Floats]:
    """Coefficients (size, size) and levels (size,) of a codebook's functions with mean zero, where none is constant.

    A function of the value is centred by its mean where values are present and is zero where they are missing; the
    indicator of missing values takes back the level that is added there.
    """
    subspace, n_present = np.eye(book.size), book.support.size
    present = fraction[:n_present] / fraction[:n_present].sum()
    centring = -(fraction @ basis)
    centring[: book.functions.size] = -(present @ basis[:n_present, : book.functions.size])
    if book.learns_missing:
        subspace[-1, :-1] = -centring[:-1]
    return subspace, centring


def eigenvalues(book: Codebook, *, center: bool = False) -> Floats:
    """The s of a codebook's whole basis: ``df(lambda) = sum 1 / (1 + lambda s / N)``, N the total weight.

    ``center``: of functions with mean zero where none is constant. The mean of x is no part of an effect of x, but far
    from zero it is nearly all of the mean square.
    """
    if center and book.size and book.constant is None:
        return coordinates(book, center=True).penalty
    fraction = book.mass / book.mass.sum()
    if _indicators(book):
        return np.sort(1.0 / fraction[fraction > 0])
    return _reinsch(np.sqrt(fraction)[:, np.newaxis] * book.basis.toarray(), penalty_root(book))[1]


def penalty_root(book: Codebook) -> Floats:
    """R with ``R'R`` the sum of the column's penalties."""
    total = sum(penalty.matrix.toarray() for penalty in book.penalties)
    values, vectors = np.linalg.eigh(total)
    kept = values > 1e-12 * max(values[-1], np.finfo(float).tiny)
    return np.asarray(np.sqrt(values[kept])[:, np.newaxis] * vectors[:, kept].T)


def _units(sizes: Floats) -> Floats:
    """Divisors of values of these sizes: the size where products would leave double precision, otherwise 1."""
    usual = (sizes > _SMALLEST_UNIT) & (sizes < 1.0 / _SMALLEST_UNIT)
    return np.where(usual | (sizes == 0.0), 1.0, sizes)


def _reinsch(data: Floats, root: Floats) -> tuple[Floats, Floats]:
    """T and s with ``T' data' data T = I`` and ``T' root' root T = diag(s)``, s increasing."""
    unit = _units(np.abs(data).max(initial=0.0))
    data, root = data / unit, root / np.maximum(unit, _SMALLEST_UNIT)
    ratio = np.linalg.norm(root) / max(np.linalg.norm(data), np.finfo(float).tiny)
    scale = 1.0 / ratio if ratio > 0 else 1.0
    stacked = np.vstack([data, scale * root])
    left, singular, right = scipy.linalg.svd(stacked, full_matrices=False)
    kept = singular > 1e-10 * singular[0]  # what neither data nor penalty see
    left, whiten = left[:, kept], right[kept].T / singular[kept]
    _, cosine, turn = scipy.linalg.svd(left[: len(data)], full_matrices=False)
    seen = cosine > _RANK_TOLERANCE
    cosine, turn = cosine[seen], turn[: len(seen)][seen]
    sine = np.linalg.norm(left[len(data) :] @ turn.T, axis=0)  # accurate where 1 - cosine^2 is not
    sine[sine < 1e-9] = 0.0  # free directions
    eigenvalues = np.minimum(sine / cosine / scale, _LARGEST_ROOT) ** 2
    functions = whiten @ turn.T / cosine
    return functions @ canonical_rotation(data @ functions, eigenvalues) / unit, eigenvalues


def canonical_rotation(vectors: Floats, values: Floats) -> Floats:
    """Rotation R (q, q) after which eigenvectors are unique: ``vectors R`` depends on no linear algebra library.

    An eigenvector is known up to its sign, those of equal eigenvalues up to a rotation, and what a library returns
    depends on the processor. Random starts are linear combinations of them, and would then do so, too. The vectors V of
    equal eigenvalues are rotated to ``V R`` with ``W'V R`` symmetric and positive for a fixed matrix W of irregular
    numbers; with one vector, its product with W is positive.

    Parameters
    ----------
    vectors : array of shape (n, q)
    values : array of shape (q,)
        Eigenvalues, sorted.
    """
    size = max(np.abs(values).max(initial=0.0), np.finfo(float).tiny)
    apart = np.abs(np.diff(values)) > _EQUAL_EIGENVALUES * np.maximum(np.abs(values[1:]), _EQUAL_EIGENVALUES * size)
    ends = [0, *(np.flatnonzero(apart) + 1).tolist(), len(values)]
    rotation = np.zeros((len(values), len(values)))
    places = np.arange(1.0, len(vectors) + 1.0) ** 2
    for start, end in pairwise(ends):
        reference = np.cos(np.multiply.outer(places, np.arange(1.0, end - start + 1.0)))
        left, _, right = np.linalg.svd(vectors[:, start:end].T @ reference)
        rotation[start:end, start:end] = left @ right
    return rotation


def _indicators(book: Codebook) -> bool:
    """Whether every code has a function of its own and penalties do not couple them."""
    unit = book.basis[: book.n_codes - 1]
    identity = unit.shape[0] == unit.shape[1] == unit.nnz and (unit.data == 1.0).all()
    return bool(identity and (unit.indices == np.arange(unit.nnz)).all() and _is_identity(book))


def _is_identity(book: Codebook) -> bool:
    total = sum(penalty.matrix for penalty in book.penalties)
    return bool(abs(total - sp.eye_array(book.size)).max() == 0.0)


def _sparse_indicators(book: Codebook, fraction: Floats, center: bool) -> Coordinates:
    """Indicators scaled to unit mean square; centred by a level, which leaves one direction without effect."""
    scale = 1.0 / np.sqrt(known_codes(fraction))
    to_basis = sp.diags_array(scale, format="csr")
    centring = -np.sqrt(known_codes(fraction)) if center else np.zeros(book.size)
    return Coordinates(sp.csr_array(book.basis @ to_basis), to_basis, centring, scale**2)
