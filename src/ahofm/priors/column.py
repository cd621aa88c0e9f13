"""Priors of one column's main effect and factors, and the way back to its basis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ahofm.columns import Categorical, Codebook, RandomWalk, SplineIID, known_codes
from ahofm.columns.basis import Basis, Floats, Sparse
from ahofm.columns.kind import Support
from ahofm.columns.spline_iid import SplineIIDBasis
from ahofm.model.coordinates import coordinates
from ahofm.priors.base import FunctionPosterior, Prior
from ahofm.priors.iid import IIDPrior, SplineIIDPrior
from ahofm.priors.random_walk import RandomWalkPrior
from ahofm.priors.spline import SplinePrior
from ahofm.tuning import FEWEST_EFFECT_ROWS, LARGEST_COORDINATE_PENALTY, LARGEST_LAM, MOST_START_LEVELS
from ahofm.tuning.numerics import LEAST_MASS

FactorPrior: TypeAlias = Literal["spline", "random_walk", "spline_iid"]
"""Prior of the factors of automatic columns."""

Scale: TypeAlias = Literal["values", "ranks"]
"""What smooth functions of an automatic column are functions of."""


@runtime_checkable
class KindWithPrior(Protocol):
    """A column kind with its prior, derived from one that has a function for each code (RandomWalk, Categorical)."""

    def prior(self, book: Codebook, mass: Floats | None) -> Prior:
        """Prior of a function of the column.

        Parameters
        ----------
        book : Codebook
            With ``n_codes - 1`` codes besides the neutral one; the last of them is missing values, where there are.
        mass : array of shape (codes,) or None
            Weights of the codes, for functions of mean zero; None if they need not have it.

        Returns
        -------
        Prior
            On values at the codes.
        """
        ...


@dataclass(frozen=True)
class ColumnPriors:
    """A column's priors.

    Attributes
    ----------
    book : Codebook
    main, factors : Prior
    main_smooth, smooth : SmoothCoordinates or None
        Of the two priors' smooth parts; a main effect that is a random walk has them for its smooth start.
    start : array of shape (codes, m)
        Functions that factors start from, of mean zero and mean square one.
    penalty_eigenvalues : array of shape (m,)
        Eigenvalues of the penalty: that of each of those, 0 for lines and levels.
    """

    book: Codebook
    main: Prior
    factors: Prior
    main_smooth: SmoothCoordinates | None
    smooth: SmoothCoordinates | None
    start: Floats
    penalty_eigenvalues: Floats

    @property
    def saturated(self) -> bool:
        """Whether the codebook's basis is saturated: it has a function for each code, so that it spans any values."""
        return isinstance(self.book.kind, (SplineIID, RandomWalk, Categorical))

    @property
    def mass(self) -> Floats:
        """Fraction of the weight at each code."""
        mass = known_codes(self.book.mass)
        return np.asarray(mass / mass.sum())

    def coefficients(self, main: FunctionPosterior | None, factors: FunctionPosterior | None) -> tuple[Floats, Floats]:
        """Coefficients of the codebook's functions (size, 1 + factors), and centrings (1 + factors,).

        A main effect that has not been solved is zero.
        """
        functions = ((main, self.main_smooth), (factors, self.smooth))
        coefficients = [
            self._coefficients(posterior, smooth) for posterior, smooth in functions if posterior is not None
        ]
        if main is None:
            coefficients.insert(0, (np.zeros((self.book.size, 1)), np.zeros(1)))
        return np.hstack([coef for coef, _ in coefficients]), np.concatenate([centring for _, centring in coefficients])

    def function_coefficients(self, posterior: FunctionPosterior, *, main: bool) -> tuple[Floats, Floats]:
        """The same for main effects or factors alone, any number of them: (size, width) and (width,)."""
        return self._coefficients(posterior, self.main_smooth if main else self.smooth)

    def _coefficients(self, posterior: FunctionPosterior, smooth: SmoothCoordinates | None) -> tuple[Floats, Floats]:
        """``to_basis @ smooth`` plus effects per code, which are the last functions of the basis; and centrings."""
        width = posterior.mean.shape[1]
        coef, centring = np.zeros((self.book.size, width)), np.zeros(width)
        if posterior.smooth is not None and smooth is not None:
            coef += smooth.to_basis @ posterior.smooth
            centring += smooth.centring @ posterior.smooth
        if posterior.per_code is not None:
            first = self.book.functions.smooth.size if isinstance(self.book.functions, SplineIIDBasis) else 0
            coef[first:] += posterior.per_code
        return coef, centring


@dataclass(frozen=True)
class SmoothCoordinates:
    """The m coordinates of the smooth part of a column's functions.

    Attributes
    ----------
    values : array of shape (codes, m)
        At the codes, without the neutral one.
    to_basis : array of shape (size, m)
        Coefficients of each coordinate in the codebook's basis.
    centring : array of shape (m,)
        Constant that is added to a coordinate in that basis, so that its mean is zero.
    group : array of shape (m,), integers
        Which smoothing parameter a coordinate has.
    relative_penalty : array of shape (m,)
        Eigenvalue of the penalty over the mean of its group.
    penalty_eigenvalues : array of shape (m,)
        Eigenvalues of the penalty; 0 in its null space.
    largest_lam : float
        Largest smoothing parameter.
    functions : Basis
        The basis that coordinates at raw values are computed from.
    basis : array of shape (codes, functions)
        These functions at the codes.
    between_codes : (sparse array of shape (codes, size), array of shape (size, m)), optional
        Of curves that are linear in the value between codes: fewer functions than the codebook's, at the codes, and the
        coordinates in them.
    """

    values: Floats
    to_basis: Floats
    centring: Floats
    group: NDArray[np.intp]
    relative_penalty: Floats
    penalty_eigenvalues: Floats
    largest_lam: float
    functions: Basis
    basis: Floats
    between_codes: tuple[Sparse, Floats] | None = None

    @property
    def prior(self) -> SplinePrior:
        """The prior with a penalty ``lam[group] relative_penalty`` of each squared coordinate."""
        return SplinePrior(
            self.values, self.group, self.relative_penalty, self.largest_lam, self.penalty_eigenvalues > 0.0, self.basis
        )

    def functions_at(self, book: Codebook, values: NDArray[Any]) -> tuple[Sparse, Floats]:
        """Functions at raw values of the column (len(values), functions), and coordinates in them (functions, m).

        Their product, and ``centring``, are the coordinates at these values.
        """
        if self.between_codes is not None:
            at_codes, coordinates = self.between_codes
            return sp.csr_array(book.evaluate(values)[:, -at_codes.shape[0] :] @ at_codes), coordinates
        rows = [*range(self.functions.size), *([book.size - 1] if book.learns_missing else [])]
        return replace(book, functions=self.functions).evaluate(values), self.to_basis[rows]


def relative_eigenvalues(eigenvalues: Floats) -> Floats:
    """Eigenvalues of the penalty (m,) over the mean of those that are not zero."""
    penalised = eigenvalues > 0.0
    return eigenvalues / eigenvalues[penalised].mean() if penalised.any() else eigenvalues


def column_priors(
    book: Codebook,
    factor_prior: FactorPrior | None,
    *,
    center: bool,
    counts: Floats | None = None,
    like: ColumnPriors | None = None,
    scale: Scale = "values",
) -> ColumnPriors:
    """The priors of a column.

    Parameters
    ----------
    book : Codebook
    factor_prior : "spline", "random_walk", "spline_iid" or None
        For a column whose kind was chosen automatically, how its factors behave; its main effect is a random walk. None
        for a kind that was given: main effect and factors are then of that kind.
    center : bool
        Whether factors have mean zero. Main effects always have: the intercept takes the rest.
    counts : array of shape (codes,), optional
        Rows of each code but the neutral one; by default the weight there.
    like : ColumnPriors, optional
        Other priors of the same column, whose coordinates are taken over.
    scale : "values" or "ranks"
        What the smooth parts of a column of automatic kind are functions of.
    """
    if like is not None and not isinstance(book.kind, SplineIID):
        return like  # it does not depend on the prior of factors
    fraction = known_codes(book.mass) / book.mass.sum()
    mass = fraction if center else None
    repeated = (known_codes(book.mass) if counts is None else counts) >= FEWEST_EFFECT_ROWS
    if isinstance(book.kind, Categorical):
        return _priors_of_levels(book, fraction, mass, repeated)
    if isinstance(book.kind, RandomWalk):
        return _priors_of_random_walk(book, fraction, mass)
    basis = _smooth_basis(book)
    if basis is None:
        raise TypeError(f"column '{book.name}': {type(book.kind).__name__} has no prior")
    in_ranks = scale == "ranks" and factor_prior is not None and isinstance(book.kind, SplineIID)
    main_smooth, smooth = (None, None) if like is None else (like.main_smooth, like.smooth)
    if main_smooth is None:
        main_smooth = _coordinates(book, basis, in_ranks=in_ranks, center=True)
    if smooth is None:
        smooth = main_smooth if center else _coordinates(book, basis, in_ranks=in_ranks, center=False)
    main: Prior = main_smooth.prior
    factors: Prior = smooth.prior
    if isinstance(book.kind, SplineIID):
        main = (
            SplineIIDPrior(main_smooth.prior, fraction, repeated)
            if factor_prior is None
            else _random_walk(book, fraction)
        )
        if factor_prior == "random_walk":
            factors = _random_walk(book, mass)
        elif factor_prior != "spline":
            factors = SplineIIDPrior(smooth.prior, mass, repeated)
    return ColumnPriors(book, main, factors, main_smooth, smooth, main_smooth.values, main_smooth.penalty_eigenvalues)


def _priors_of_levels(
    book: Codebook, fraction: Floats, mass: Floats | None, repeated: NDArray[np.bool_]
) -> ColumnPriors:
    """Independent effects per level, or the prior of a kind that defines one; factors start from frequent levels."""
    start = level_functions(fraction, MOST_START_LEVELS)
    main = _prior_of_kind(book, fraction) or IIDPrior(fraction, repeated)
    factors = _prior_of_kind(book, mass) or IIDPrior(mass, repeated)
    return ColumnPriors(book, main, factors, None, None, start, np.zeros(start.shape[1]))


def _priors_of_random_walk(book: Codebook, fraction: Floats, mass: Floats | None) -> ColumnPriors:
    """Random walks, or the prior of a kind that defines one; factors start from smooth functions."""
    start = smooth_coordinates(book, SplineIID().smooth.learn(book.support), center=True)
    main = _prior_of_kind(book, fraction) or _random_walk(book, fraction)
    factors = _prior_of_kind(book, mass) or _random_walk(book, mass)
    return ColumnPriors(book, main, factors, None, None, start.values, start.penalty_eigenvalues)


def level_functions(fraction: Floats, most: int) -> Floats:
    """Indicators (codes, m) of the most frequent levels, of mean zero and, before that, mean square one."""
    frequent = np.argsort(-fraction, kind="stable")[:most]
    indicators = np.zeros((len(fraction), len(frequent)))
    indicators[frequent, np.arange(len(frequent))] = 1.0 / np.sqrt(np.maximum(fraction[frequent], LEAST_MASS))
    return np.asarray(indicators - fraction @ indicators)


def _coordinates(book: Codebook, basis: Basis, *, in_ranks: bool, center: bool) -> SmoothCoordinates:
    return rank_coordinates(book, center=center) if in_ranks else smooth_coordinates(book, basis, center=center)


def _smooth_basis(book: Codebook) -> Basis | None:
    """The smooth functions of a column; None for one that has values at the codes alone."""
    if isinstance(book.functions, SplineIIDBasis):
        return book.functions.smooth
    return None if isinstance(book.kind, (RandomWalk, Categorical)) else book.functions


def _prior_of_kind(book: Codebook, mass: Floats | None) -> Prior | None:
    """The prior of a column kind that defines its own."""
    return book.kind.prior(book, mass) if isinstance(book.kind, KindWithPrior) else None


def _random_walk(book: Codebook, mass: Floats | None) -> RandomWalkPrior:
    """A random walk over the codes of the support; the code of missing values is independent."""
    edges = np.ones(book.n_codes - 2)
    if book.learns_missing:
        edges[-1] = 0.0
    return RandomWalkPrior(edges, mass)


def smooth_coordinates(book: Codebook, functions: Basis, *, center: bool) -> SmoothCoordinates:
    """Demmler–Reinsch coordinates of a basis; an indicator of missing values; the constant unless it is centred.

    Four groups of coordinates have a smoothing parameter each: the penalised ones, the null space of the penalty (the
    line), the constant, the indicator of missing values.
    """
    smooth = replace(book, functions=functions, missing_mass=0.0)
    reinsch = coordinates(smooth, center=True)
    n_codes, size, m = book.n_codes - 1, functions.size, reinsch.size
    values = np.zeros((n_codes, m))
    values[: book.support.size] = known_codes(np.asarray(reinsch.values)) + reinsch.centring
    to_basis, centring = np.zeros((book.size, m)), reinsch.centring.copy()
    to_basis[:size] = reinsch.to_basis
    if book.learns_missing:
        to_basis[-1] = -reinsch.centring  # the level is added at missing values too, where these functions are zero
    eigenvalues = reinsch.penalty / (1.0 + reinsch.penalty / LARGEST_COORDINATE_PENALTY)
    wiggly = eigenvalues > 0.0
    relative = np.where(wiggly, eigenvalues / eigenvalues[wiggly].mean() if wiggly.any() else 1.0, 1.0)
    kind = np.where(wiggly, 0, 1)  # of a coordinate: 0 penalised, 1 null space, 2 constant, 3 missing values
    if not center:
        constant = np.zeros(book.size)
        values, to_basis = np.column_stack([values, np.ones(n_codes)]), np.column_stack([to_basis, constant])
        centring, kind, relative = np.append(centring, 1.0), np.append(kind, 2), np.append(relative, 1.0)
        eigenvalues = np.append(eigenvalues, 0.0)
    if book.learns_missing:
        fraction = book.missing_mass / book.mass.sum()
        indicator = np.zeros(n_codes)
        indicator[-1] = 1.0
        unit = np.zeros(book.size)
        unit[-1] = 1.0
        scale = 1.0 / np.sqrt(fraction * (1.0 - fraction))
        values = np.column_stack([values, scale * (indicator - fraction)])
        to_basis = np.column_stack([to_basis, scale * unit])
        centring, kind = np.append(centring, -scale * fraction), np.append(kind, 3)
        relative, eigenvalues = np.append(relative, 1.0), np.append(eigenvalues, 0.0)
    group = np.unique(kind, return_inverse=True)[1]
    largest_lam = float(np.clip(book.mass.sum() ** 2, *LARGEST_LAM))
    basis = np.zeros((n_codes, functions.size))
    basis[: book.support.size] = smooth.basis.toarray()[:-1]
    return SmoothCoordinates(values, to_basis, centring, group, relative, eigenvalues, largest_lam, functions, basis)


def rank_coordinates(book: Codebook, *, center: bool) -> SmoothCoordinates:
    """Coordinates of a spline in the ranks of a column's values, not in the values: bounded in the tails.

    A code's rank is the middle of its fraction of the mass. In the codebook's basis such a curve has its values at the
    codes as coefficients of the effects per value; between codes it is linear in the value.
    """
    mass = book.support.mass / book.support.mass.sum()
    ranks = np.cumsum(mass) - 0.5 * mass
    support = Support(ranks, book.support.mass, float(ranks[0]), float(ranks[-1]), exact=True)
    kind = book.kind if isinstance(book.kind, SplineIID) else SplineIID()
    found = smooth_coordinates(replace(book, support=support), kind.smooth.learn(support), center=center)
    to_basis = np.zeros((book.size, found.values.shape[1]))
    to_basis[book.size - len(found.values) :] = found.values
    # B-splines sum to one: the centring is part of their coefficients. Missing values have a function of their own.
    missing = [found.values[-1:]] if book.learns_missing else []
    indicator = np.zeros((len(found.values), len(missing)))
    indicator[-1:] = 1.0
    at_codes = (
        sp.csr_array(np.hstack([found.basis, indicator])),
        np.vstack([found.to_basis[: found.functions.size] + found.centring, *missing]),
    )
    no_centring = np.zeros(to_basis.shape[1])
    return replace(found, to_basis=to_basis, centring=no_centring, functions=book.functions, between_codes=at_codes)


def all_column_priors(
    books: Sequence[Codebook],
    automatic: Sequence[bool],
    factor_prior: FactorPrior,
    *,
    center: bool,
    counts: Sequence[Floats | None] | None = None,
    like: Sequence[ColumnPriors] | None = None,
    scale: Scale = "values",
) -> tuple[ColumnPriors, ...]:
    """The priors of columns that vary; ``like`` are those of another prior of factors on the same scale."""
    none = [None] * len(books)
    columns = zip(books, automatic, counts or none, like or none, strict=True)
    return tuple(
        column_priors(
            book, factor_prior if auto else None, center=center, counts=column_counts, like=column_like, scale=scale
        )
        for book, auto, column_counts, column_like in columns
    )
