"""The band around a fit: the Bayesian covariance of a penalised fit, and an estimate of its bias.

    V = (H + S)^-1        shift = (H + R)^-1 (J' score - R theta)        H = sum omega J'J

J are the derivatives of the linear predictor by the coordinates theta, omega the curvatures of the rows' losses. The
penalties S and R are averages over the posterior of smoothing parameters, S for variances and R for means
(:mod:`ahofm.inference.averaged_smoothing`). Averaged over a function's points, V is the variance of the best fit under
such penalties plus its squared bias (Nychka 1988). The shift is the step from the fit to the best fit, so that
``V + shift^2`` estimates the mean squared error of the fit.

The shift of main effects is the step with factors held fixed; the shift of rows is the joint step of all coordinates. A
term is not linear in its factors, so the changes that a joint step makes to main effects do not estimate their bias.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ahofm.columns import Categorical, Codebook, Codes, known_codes
from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.inference.averaged_smoothing import averaged_penalties, edf_of_coordinates
from ahofm.inference.concurvity import concurvity_of
from ahofm.inference.implied_smoothing import by_penalty, fitted_coordinates, main_sizes
from ahofm.inference.information import Information, root_of, shifts, variances
from ahofm.inference.many_levels import OtherLevels, level_edf, most_others
from ahofm.inference.sample import rare_rows, sample_of
from ahofm.inference.tests_of_effects import Statistic, main_statistics, p_value
from ahofm.kernels import Chunk, Tables
from ahofm.kernels.blas import one_blas_thread
from ahofm.model import Model, check_offset, check_weight
from ahofm.model.band import Band
from ahofm.model.jacobian import Places, diagonal, jacobian, places_of, pulled_back, tables_at
from ahofm.orders import PRODUCT, Orders, factors_of
from ahofm.priors.column import ColumnPriors, column_priors, level_functions
from ahofm.training.data import row_counts
from ahofm.training.settings import ESTIMATING
from ahofm.tuning.bands import (
    LARGEST_BAND_LAM,
    MOST_COORDINATES,
    MOST_CORRELATED,
    MOST_WOODBURY_ROWS,
    SMALLEST_BAND_LAM,
    USUAL_STD_QUANTILE,
    USUAL_STD_ROWS,
)

MOST_LEVELS, _MOST_VALUES, _FEWEST_LEVELS = 1_000, 1_000_000, 24
"""Most levels of all columns together that have coordinates, the most frequent of each column; main effects of other
levels have a variance each (:mod:`ahofm.inference.many_levels`), and their factors count as known. A column has at most
``_MOST_VALUES / codes`` coordinates, or ``_FEWEST_LEVELS`` if that is more, which bounds the size of its (codes,
levels) array.
"""

_JACOBIAN_ROWS = 1_000
"""Rows whose derivatives (rows, Q) are in memory at a time."""


@dataclass(frozen=True)
class _LossDerivatives:
    """Derivatives of the rows' losses by one linear predictor, in units of its scale.

    Attributes
    ----------
    codes : Codes
        Of all n rows.
    slope, curvature : arrays of shape (n,)
        First and second derivatives of the rows' losses by the linear predictor, divided by the dispersion.
    sampled : array of int of shape (m,)
        The sample of rows that H is computed from.
    scale_up : array of shape (m,)
        Number of rows that each row of the sample stands for.
    """

    codes: Codes
    slope: Floats
    curvature: Floats
    sampled: NDArray[np.intp]
    scale_up: Floats

    @property
    def sampled_curvature(self) -> Floats:
        """Curvatures (m,) of the sample, scaled up to the weight of all rows."""
        return self.scale_up * self.curvature[self.sampled]


@dataclass(frozen=True)
class _Functions:
    """Coordinates of all columns: values at the codes of main effects and factors, and their priors."""

    mains: Sequence[Floats]
    factors: Sequence[Floats]
    columns: Sequence[ColumnPriors | None]
    ranks: Orders
    most: int

    @property
    def penalty_eigenvalues(self) -> list[Floats]:
        """Penalties of the coordinates of each column's main effect, the smoothest first."""
        return [
            np.zeros(0) if one is None else one.penalty_eigenvalues[by_penalty(one)][: main.shape[1]]
            for one, main in zip(self.columns, self.mains, strict=True)
        ]


@dataclass(frozen=True)
class _BandOfEta:
    """The band of one linear predictor: see :class:`Band`."""

    theta: Floats
    root: Floats
    shift: Floats
    row_shift: Floats
    edf: dict[int, Floats]
    concurvity: Floats
    statistics: dict[int, Statistic]
    correlated: tuple[int, ...]
    uncorrelated: Floats
    random_effects: dict[int, Floats]


@one_blas_thread()
def band_of(
    model: Model,
    table: Table,
    y: ArrayLike,
    weight: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    *,
    kappa: float = 1.0,
    seed: int = 0,
) -> Band:
    """The band of a model, from the rows it was fitted to; kappa multiplies all smoothing parameters."""
    target = np.asarray(y, dtype=np.float64)
    weights = row_counts(check_weight(weight, table.n_rows), model.family)
    shifts = None if offset is None else check_offset(offset, table.n_rows, model.family)
    kept = np.flatnonzero(weights)
    rows = table if len(kept) == table.n_rows else table.take(kept)
    codes = model.encoder.encode(rows)
    eta = model.without_repeated.eta(rows, None if shifts is None else shifts[kept])
    _, g, h = model.family.loss(target[kept], eta)
    unit = weights[kept] / _dispersion(model, target[kept], eta, weights[kept])
    scales = model.family.standardised(target[kept], weights[kept])[1].factor
    linear_predictors = [
        replace(
            predictor.scaled(0.0, 1.0 / scale).balanced().functions(model.encoder.codebooks),
            means=predictor.product_means,
        )
        for predictor, scale in zip(model.linear_predictors, scales, strict=True)
    ]
    functions = _coordinates(_columns(model.encoder.codebooks), model, linear_predictors)
    bands = []
    for k, (tables, scale) in enumerate(zip(linear_predictors, scales, strict=True)):
        lam = _level_penalties(model, scale**2 * float(unit.sum() / weights.sum()))
        others = {
            j: OtherLevels.of(j, functions.mains[j], value)
            for j, value in lam.items()
            if len(functions.mains[j]) - 1 > functions.mains[j].shape[1]
        }
        sample = sample_of(codes, unit, rare_rows(codes, model.encoder.codebooks), others, seed)
        losses = _LossDerivatives(codes, scale * unit * g[:, k], scale**2 * unit * h[:, k], *sample)
        one = _band_of_eta(losses, tables, functions, others, scale, kappa)
        unseen = {j: scale**2 * _variances_of_unseen_levels(functions.mains[j], value) for j, value in lam.items()}
        bands.append(replace(one, random_effects=unseen | one.random_effects))
    used = sum(float(part.sum()) for one in bands for part in one.edf.values())
    residual = max(float(weights.sum()) - used, 1.0) if model.family.dispersed else None
    band = Band(
        tuple(functions.mains),
        tuple(functions.factors),
        dict(model.ranks),
        tuple(one.theta for one in bands),
        tuple(one.root for one in bands),
        tuple(one.shift for one in bands),
        tuple(one.edf for one in bands),
        tuple(one.concurvity for one in bands),
        {j: p_value([one.statistics[j] for one in bands], residual) for j in bands[0].statistics},
        loadings=tuple(
            {d: scale * loading if d == PRODUCT else loading for d, loading in (tables.loadings or {}).items()}
            for tables, scale in zip(linear_predictors, scales, strict=True)
        ),
        correlated=tuple(one.correlated for one in bands),
        uncorrelated=tuple(one.uncorrelated for one in bands),
        row_shifts=tuple(one.row_shift for one in bands),
        product_means=tuple(one.product_means for one in model.linear_predictors if one.product_means is not None),
        random_effects=tuple(one.random_effects for one in bands),
    )
    some = np.arange(0, codes.n_rows, -(-codes.n_rows // USUAL_STD_ROWS))
    usual = np.quantile(band.eta(codes.take(some)), USUAL_STD_QUANTILE, axis=0)
    return replace(band, usual_std=tuple(float(std) for std in usual))


def _band_of_eta(
    losses: _LossDerivatives,
    at_codes: Tables,
    functions: _Functions,
    others: Mapping[int, OtherLevels],
    scale: float,
    kappa: float,
) -> _BandOfEta:
    """The band of one linear predictor, from the loss derivatives of the rows.

    1. Coordinates theta of the fit, and the penalties that functions of their size imply.
    2. Information H of the sample about the coordinates that have correlations; other levels are integrated out.
    3. Penalties S and R, averaged over the posterior of smoothing parameters.
    4. Shifts, the Cholesky factor of the covariance, and variances of the other coordinates and levels.
    5. All of it in the units of the linear predictor.
    """
    mains, factors, ranks = functions.mains, functions.factors, functions.ranks
    theta, implied_penalty, groups = fitted_coordinates(
        at_codes, mains, factors, functions.columns, ranks, LARGEST_BAND_LAM
    )
    tables = tables_at(theta, mains, factors, ranks, at_codes.loadings, at_codes.means)
    sample = Chunk(losses.codes.take(losses.sampled))
    information_diagonal = diagonal(sample, tables, mains, factors, losses.sampled_curvature)
    correlated = _correlated(edf_of_coordinates(information_diagonal, theta, implied_penalty, groups), functions)
    places = places_of(mains, factors, ranks, correlated.tolist())
    at = [places.main(j) for j in range(len(mains))]
    rows_information = matrix = _information(sample.codes, tables, mains, factors, places, losses.sampled_curvature)

    def jacobian_at(codes: Codes) -> Floats:
        return jacobian(Chunk(codes), tables, mains, factors, places)

    if others:
        column = most_others(others)
        scaled = replace(column, lam=float(losses.scale_up.max()) * column.lam)
        sums = scaled.sums(losses.codes, losses.sampled, losses.sampled_curvature, jacobian_at)
        matrix = scaled.marginal(rows_information, sums)
        information_diagonal[correlated] = np.diag(matrix)
    rows = None  # the whole Jacobian, where Woodbury's formula is used
    few_rows = len(losses.sampled) <= MOST_WOODBURY_ROWS and len(correlated) < len(theta) and not others
    if few_rows and bool((losses.sampled_curvature >= 0.0).all()):
        rows = np.sqrt(losses.sampled_curvature)[:, np.newaxis] * jacobian(sample, tables, mains, factors)
    information = Information(matrix, correlated, information_diagonal, rows)
    score = -pulled_back(Chunk(losses.codes), tables, mains, factors, losses.slope)
    edf = _edf(matrix, implied_penalty[correlated], places, ranks)
    if others:
        lam = {j: one.lam for j, one in others.items()}
        of_mains = [implied_penalty[correlated][part] for part in at]
        for j, value in level_edf(losses.codes, losses.curvature, mains, of_mains, lam).items():
            edf[1][j] = value
    penalties = averaged_penalties(information, information.times(theta) + score, theta, implied_penalty, groups)
    penalty, theta_correlated = kappa * penalties.mean[correlated], theta[correlated]
    shift, row_shift = shifts(matrix, score[correlated] - penalty * theta_correlated, penalty, at)
    statistics = main_statistics(
        matrix, score[correlated], theta_correlated, penalty, at, functions.penalty_eigenvalues, edf[1]
    )
    units = _units(scale, mains, factors, ranks)
    uncorrelated = units**2 * information.posterior(kappa * penalties.variance, score)[0]
    uncorrelated[correlated] = 0.0
    root, all_rows = information.root(kappa * penalties.variance), np.arange(losses.codes.n_rows)
    levels = {
        j: scale**2 * one.variances(root, one.sums(losses.codes, all_rows, losses.curvature, jacobian_at))
        for j, one in others.items()
    }
    return _BandOfEta(
        units * theta,
        root / units[correlated][:, np.newaxis],
        units[correlated] * shift,
        units[correlated] * row_shift,
        edf,
        concurvity_of(rows_information, theta_correlated, at),
        statistics,
        tuple(correlated.tolist()),
        uncorrelated if len(correlated) < len(uncorrelated) else np.zeros(0),
        levels,
    )


def _correlated(edf: Floats, functions: _Functions) -> NDArray[np.intp]:
    """Coordinates with a covariance matrix: intercept, main effects, and those of factors with the largest edf."""
    places = places_of(functions.mains, functions.factors, functions.ranks)
    rank = edf.copy()
    rank[0] = np.inf
    for j in range(len(functions.mains)):
        rank[places.main(j)] = np.inf
    return np.sort(np.argsort(-rank, kind="stable")[: max(functions.most, int(np.isinf(rank).sum()))])


def _information(
    codes: Codes,
    tables: Tables,
    mains: Sequence[Floats],
    factors: Sequence[Floats],
    places: Places,
    curvature: Floats,
) -> Floats:
    """``J' diag(curvature) J`` of the rows' Jacobian, (Q, Q)."""
    total: Floats = np.zeros(())
    convex = bool((curvature >= 0.0).all())
    roots = np.sqrt(curvature) if convex else curvature
    for start in range(0, codes.n_rows, _JACOBIAN_ROWS):
        stop = min(start + _JACOBIAN_ROWS, codes.n_rows)
        J = jacobian(Chunk(codes.rows(start, stop)), tables, mains, factors, places)
        times = J * roots[start:stop, np.newaxis]
        total = total + (times.T @ times if convex else J.T @ times)  # X'X is symmetric: half the operations
    return total


def _units(scale: float, mains: Sequence[Floats], factors: Sequence[Floats], ranks: Mapping[int, int]) -> Floats:
    """Multipliers (P,) from the coordinates of ``eta / scale`` with balanced loadings to those of ``eta``."""
    orders = factors_of(Orders(ranks).of_each)
    roots = np.where(orders == PRODUCT, 1.0, scale ** (1.0 / orders))  # loadings of products contain the scale
    parts = [np.array([scale])]
    for main, factor in zip(mains, factors, strict=True):
        parts += [np.full(main.shape[1], scale), np.tile(roots, factor.shape[1])]
    return np.concatenate(parts)


def _dispersion(model: Model, y: Floats, eta: Floats, weight: Floats) -> float:
    if not model.family.dispersed:
        return 1.0
    if model.dispersion is not None:
        return model.dispersion
    return max(float(np.average(model.family.pearson(y, eta), weights=weight)), np.finfo(float).tiny)


def _columns(books: Sequence[Codebook]) -> list[ColumnPriors | None]:
    """Priors of each column: splines for numbers, the most frequent levels for categories; None for a constant."""
    counts = [book.n_codes - 1 for book in books if book.size and isinstance(book.kind, Categorical)]
    most = max((m for m in range(1, MOST_LEVELS + 1) if sum(min(n, m) for n in counts) <= MOST_LEVELS), default=1)
    priors: list[ColumnPriors | None] = []
    for book in books:
        column = column_priors(book, "spline", center=True) if book.size else None
        if column is not None and isinstance(book.kind, Categorical):
            levels = level_functions(column.mass, min(most, max(_MOST_VALUES // book.n_codes, _FEWEST_LEVELS)))
            column = replace(column, start=levels, penalty_eigenvalues=np.zeros(levels.shape[1]))
        priors.append(column)
    return priors


def _coordinates(columns: list[ColumnPriors | None], model: Model, at_codes: Sequence[Tables]) -> _Functions:
    """Values at the codes: for main effects all coordinates, or those that many columns leave room for; for factors the
    smoothest, within ``MOST_COORDINATES``."""
    sizes, rank, n_eta = main_sizes(columns, model.encoder.codebooks, at_codes), model.ranks.n_factors, 1
    if model.family.n_eta > 2:
        n_eta = model.family.n_eta  # with shared curves factors are many, and every class has a covariance
    spare = int(MOST_COORDINATES / np.sqrt(n_eta)) - 1 - sum(sizes)
    # Without room for coordinates, the curves of several classes count as known
    most = max(sizes, default=0) if rank == 0 else max(spare // (rank * max(len(columns), 1)), 0 if n_eta > 1 else 2)
    mains, factors = [], []
    for book, column, size in zip(model.encoder.codebooks, columns, sizes, strict=True):
        values = np.zeros((book.n_codes, size))
        if column is not None:
            known_codes(values)[:] = column.start[:, by_penalty(column)[:size]]
        mains.append(values)
        factors.append(values[:, :most] if rank else values[:, :0])
    return _Functions(mains, factors, columns, model.ranks, int(MOST_CORRELATED / np.sqrt(n_eta)))


def _level_penalties(model: Model, unit: float) -> dict[int, float]:
    """Inverse variances of the effects of levels, by column.

    Smoothing parameters that were given, not estimated, are converted to units of the dispersion.
    """
    unit = 1.0 if model.trace.solver in ESTIMATING else unit
    return {
        j: max(float(model.smoothing_parameters[1][j]) * unit, SMALLEST_BAND_LAM)
        for j, book in enumerate(model.encoder.codebooks)
        if isinstance(book.kind, Categorical)
    }


def _variances_of_unseen_levels(main: Floats, lam: float) -> Floats:
    """Variances (codes,) of levels without a coordinate, where all levels of training rows have one."""
    variance = np.zeros(len(main))
    variance[-1] = 1.0 / lam
    return variance


def _edf(information: Floats, lam: Floats, places: Places, ranks: Orders) -> dict[int, Floats]:
    """Effective degrees of freedom by order and column: sums over the diagonal of ``(H + S)^-1 H``."""
    root = root_of(information, lam)
    penalty = np.einsum("ij,ij->i", root, root) - np.diag(information)
    diagonal = 1.0 - penalty * variances(root)
    out = {order: np.zeros(len(places.sizes)) for order in ranks.all}
    for j, factor in enumerate(places.factor):
        out[1][j] = diagonal[places.main(j)].sum()
        by_factor = np.bincount(factor, weights=diagonal[places.factors(j)], minlength=ranks.n_factors)
        for order, part in ranks.factor_slices.items():
            out[order][j] = by_factor[part].sum()
    return out
