"""Random curves that shared factors start from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.orders import PRODUCT
from ahofm.priors.column import relative_eigenvalues
from ahofm.shared_curves.columns import ClassColumn
from ahofm.shared_curves.products import away_from_zero, scale_of
from ahofm.tuning.classes import CLASS_PRODUCT_START_STD
from ahofm.tuning.starts import START_PENALTY


def random_curves(columns: Sequence[ClassColumn], rank: int, rng: np.random.Generator) -> list[Floats]:
    """Random smooth curves (codes, rank) per column, scaled so that terms are about 1."""
    found = []
    for column in columns:
        start, unit = column.priors.start, relative_eigenvalues(column.priors.penalty_eigenvalues)
        coef = rng.normal(size=(start.shape[1], rank)) / np.sqrt(1.0 + START_PENALTY * unit)[:, np.newaxis]
        coef /= np.sqrt(len(columns) * (coef**2).sum(axis=0) + np.finfo(float).tiny)
        found.append(start @ coef)
    return found


def random_products(columns: Sequence[ClassColumn], rank: int, rng: np.random.Generator) -> tuple[list[Floats], Floats]:
    """Random functions psi (codes, rank) per column, of root mean square one, and their constants (columns, rank)."""
    found, constants = [], []
    for column, curves in zip(columns, random_curves(columns, rank, rng), strict=True):
        mass = column.priors.mass
        values = 1.0 + CLASS_PRODUCT_START_STD * curves / scale_of(curves, mass)
        scale = scale_of(values, mass)
        found.append(away_from_zero(values / scale))
        constants.append(1.0 / scale)
    return found, np.array(constants)


def random_start(
    columns: Sequence[ClassColumn], ranks: Mapping[int, int], rng: np.random.Generator
) -> tuple[list[Floats], Floats | None]:
    """Random curves (codes, factors) per column of factors of these ranks, and constants of product factors."""
    symmetric = sum(rank for order, rank in ranks.items() if order != PRODUCT)
    if PRODUCT not in ranks:
        return random_curves(columns, symmetric, rng), None
    products, constants = random_products(columns, ranks[PRODUCT], rng)
    curves = random_curves(columns, symmetric, rng) if symmetric else [np.zeros((len(one), 0)) for one in products]
    return [np.hstack(pair) for pair in zip(curves, products, strict=True)], constants
