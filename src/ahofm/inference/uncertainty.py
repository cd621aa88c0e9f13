"""The band around a fit: the Bayesian covariance of a penalised fit, and an estimate of its bias.

    V = (H + S)^-1        shift = V (J' score - S theta)        H = sum omega J'J

Smoothing parameters in S are averages over what the data leave open about them
(:mod:`ahofm.inference.averaged_smoothing`). Averaged over a function's points, V holds the variance of the best fit
under such penalties and its squared bias (Nychka 1988). The shift is the way from the fit to that one, so that
``V + shift^2`` is the mean squared error of the fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ahofm.columns import Categorical, Codebook, Codes, known_codes
from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.inference.averaged_smoothing import STIFFEST, averaged, root_of, variances
from ahofm.inference.concurvity import concurvity_of
from ahofm.inference.implied_smoothing import SOFTEST, at_fit, smoothest
from ahofm.inference.many_levels import level_edf
from ahofm.inference.tests_of_effects import Statistic, main_statistics, p_value
from ahofm.kernels import Chunk, Tables
from ahofm.kernels.blas import one_blas_thread
from ahofm.model import Model, check_offset, check_weight
from ahofm.model.band import Band, jacobian, pulled_back, starts_of, tables_at
from ahofm.orders import PRODUCT, Orders, factors_of
from ahofm.priors.column import ColumnPriors, column_priors, level_functions
from ahofm.training.data import row_counts
from ahofm.training.settings import ESTIMATING

MOST_COEFFICIENTS, MOST_ROWS = 2_500, 20_000
"""Coordinates of a linear predictor; rows whose curvature is looked at: more are sampled. Slopes are those of all rows:
a sample's would move the centre of the band by the sample's noise."""

MOST_LEVELS, _MOST_VALUES, _FEWEST_LEVELS = 1_000, 1_000_000, 24
"""Of all columns together, the most frequent ones of each: main effects of the others count as known. A column of very
many levels has fewer, which are kept at all its codes.
"""


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
    eta = model.eta(rows, None if shifts is None else shifts[kept])
    _, g, h = model.family.loss(target[kept], eta)
    unit = weights[kept] / _dispersion(model, target[kept], eta, weights[kept])
    seen = np.arange(len(kept))
    if len(kept) > MOST_ROWS:
        seen = np.sort(np.random.default_rng(seed).permutation(len(kept))[:MOST_ROWS])
    curvature = unit[seen, np.newaxis] * h[seen] * (unit.sum() / unit[seen].sum())
    scales = model.family.standardised(target[kept], weights[kept])[1].factor
    linear_predictors = [
        predictor.scaled(0.0, 1.0 / scale).balanced().functions(model.encoder.codebooks)
        for predictor, scale in zip(model.linear_predictors, scales, strict=True)
    ]
    columns = _columns(model.encoder.codebooks)
    mains, factors = _coordinates(columns, model.ranks.n_factors, model)
    thetas, roots, moved, edf, shared = [], [], [], [], []
    statistics: list[dict[int, Statistic]] = []
    stiffness = [np.zeros(0) if column is None else column.stiffness[smoothest(column)] for column in columns]
    starts = starts_of(mains, factors, model.ranks)
    at = [slice(start, start + main.shape[1]) for start, main in zip(starts, mains, strict=False)]
    for k, (at_codes, scale) in enumerate(zip(linear_predictors, scales, strict=True)):
        theta, firm, groups = at_fit(at_codes, mains, factors, columns, model.ranks, STIFFEST)
        means = model.linear_predictors[k].product_means
        tables = tables_at(theta, mains, factors, model.ranks, at_codes.loadings, means)
        information = _information(codes.take(seen), tables, mains, factors, means, scale**2 * curvature[:, k])
        score = -pulled_back(Chunk(codes), tables, mains, factors, scale * unit * g[:, k], means)
        edf.append(_edf(information, firm, mains, factors, model.ranks))
        left_out = _left_out(model, mains, scale**2 * float(unit.sum() / weights.sum()))
        if left_out:
            omega = scale**2 * unit * h[:, k]
            for j, own in level_edf(codes, omega, mains, [firm[part] for part in at], left_out).items():
                edf[-1][1][j] = own
        softened = kappa * averaged(information, information @ theta + score, theta, firm, groups)
        root = root_of(information, softened)
        shared.append(concurvity_of(information, theta, at))
        statistics.append(main_statistics(information, score, theta, softened, at, stiffness, edf[-1][1]))
        units = _units(scale, mains, factors, model.ranks)
        thetas.append(units * theta)
        roots.append(root / units[:, np.newaxis])
        moved.append(units * scipy.linalg.cho_solve((root, True), score - softened * theta))
    used = sum(float(part.sum()) for own in edf for part in own.values())
    residual = max(float(weights.sum()) - used, 1.0) if model.family.dispersed else None
    return Band(
        tuple(mains),
        tuple(factors),
        dict(model.ranks),
        tuple(thetas),
        tuple(roots),
        tuple(moved),
        tuple(edf),
        tuple(shared),
        {j: p_value([part[j] for part in statistics], residual) for j in statistics[0]},
        loadings=tuple(
            {d: scale * own if d == PRODUCT else own for d, own in (tables.loadings or {}).items()}
            for tables, scale in zip(linear_predictors, scales, strict=True)
        ),
        product_means=tuple(one.product_means for one in model.linear_predictors if one.product_means is not None),
    )


def _information(
    codes: Codes,
    tables: Tables,
    mains: Sequence[Floats],
    factors: Sequence[Floats],
    means: Floats | None,
    curvature: Floats,
) -> Floats:
    """``J' diag(curvature) J`` of the rows' Jacobian, (P, P)."""
    total: Floats = np.zeros(())
    convex = bool((curvature >= 0.0).all())
    roots = np.sqrt(curvature) if convex else curvature
    for start in range(0, codes.n_rows, 1_000):
        stop = min(start + 1_000, codes.n_rows)
        J = jacobian(Chunk(codes.rows(start, stop)), tables, mains, factors, means)
        times = J * roots[start:stop, np.newaxis]
        total = total + (times.T @ times if convex else J.T @ times)  # a matrix by itself is half the work
    return total


def _units(scale: float, mains: Sequence[Floats], factors: Sequence[Floats], ranks: Mapping[int, int]) -> Floats:
    """Factors from the coordinates of a linear predictor divided by a number, with balanced loadings, to its own."""
    orders = factors_of(Orders(ranks).of_each)
    roots = np.where(orders == PRODUCT, 1.0, scale ** (1.0 / orders))  # products have the scale in their loadings
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
    """Smooth, or with more of its levels than factors start from; None for a constant."""
    counts = [book.n_codes - 1 for book in books if book.size and isinstance(book.kind, Categorical)]
    most = max((m for m in range(1, MOST_LEVELS + 1) if sum(min(n, m) for n in counts) <= MOST_LEVELS), default=1)
    found: list[ColumnPriors | None] = []
    for book in books:
        column = column_priors(book, "spline", center=True) if book.size else None
        if column is not None and isinstance(book.kind, Categorical):
            levels = level_functions(column.mass, min(most, max(_MOST_VALUES // book.n_codes, _FEWEST_LEVELS)))
            column = replace(column, start=levels, stiffness=np.zeros(levels.shape[1]))
        found.append(column)
    return found


def _coordinates(columns: Sequence[ColumnPriors | None], rank: int, model: Model) -> tuple[list[Floats], list[Floats]]:
    """Values at the codes: all coordinates for main effects, the smoothest ones for factors if there are many."""
    sizes = [0 if column is None else column.start.shape[1] for column in columns]
    several = model.family.n_eta > 2
    spare = int(MOST_COEFFICIENTS / np.sqrt(model.family.n_eta if several else 1)) - 1 - sum(sizes)
    # Shared curves of several classes are many, and every class has a covariance: curves without room count as known.
    least = 0 if several else 2
    most = max(sizes, default=0) if rank == 0 else max(spare // (rank * max(len(columns), 1)), least)
    mains, factors = [], []
    for book, column in zip(model.encoder.codebooks, columns, strict=True):
        values = np.zeros((book.n_codes, 0 if column is None else column.start.shape[1]))
        if column is not None:
            known_codes(values)[:] = column.start[:, smoothest(column)]
        mains.append(values)
        factors.append(values[:, :most] if rank else values[:, :0])
    return mains, factors


def _left_out(model: Model, mains: Sequence[Floats], unit: float) -> dict[int, float]:
    """Columns with more levels than coordinates, and the inverse variances of their effects.

    Where smoothing parameters were given, they count in units of the dispersion.
    """
    unit = 1.0 if model.trace.solver in ESTIMATING else unit
    return {
        j: max(float(model.smoothing_parameters[1][j]) * unit, SOFTEST)
        for j, (book, main) in enumerate(zip(model.encoder.codebooks, mains, strict=True))
        if isinstance(book.kind, Categorical) and book.n_codes - 1 > main.shape[1] > 0
    }


def _edf(
    information: Floats,
    lam: Floats,
    mains: Sequence[Floats],
    factors: Sequence[Floats],
    ranks: Mapping[int, int],
) -> dict[int, Floats]:
    """Effective degrees of freedom by order and column: the diagonal of (H + S)^-1 H, added up."""
    root = root_of(information, lam)
    penalty = np.einsum("ij,ij->i", root, root) - np.diag(information)
    diagonal = 1.0 - penalty * variances(root)
    orders = Orders(ranks)
    rank = orders.n_factors
    out = {order: np.zeros(len(mains)) for order in orders.all}
    start = 1
    for j, (main, factor) in enumerate(zip(mains, factors, strict=True)):
        out[1][j] = diagonal[start : start + main.shape[1]].sum()
        start += main.shape[1]
        block = diagonal[start : start + factor.shape[1] * rank].reshape(factor.shape[1], rank)
        start += factor.shape[1] * rank
        for order, part in orders.factor_slices.items():
            out[order][j] = block[:, part].sum()
    return out
