"""Random chunks and tables for tests."""

import numpy as np

from ahofm.columns import Codes
from ahofm.kernels import Chunk, Tables


def random_codes(rng, n, sizes):
    """Columns of every width, in turn, as far as they hold their codes."""
    columns = []
    for j, size in enumerate(sizes):
        width = np.promote_types((np.uint8, np.uint16, np.uint32)[j % 3], np.min_scalar_type(size))
        columns.append(rng.integers(0, size, n).astype(width))
    return Codes(tuple(columns), tuple(sizes))


def random_tables(rng, n_codes, ranks, scale=1.0):
    """ranks: order -> rank. Loadings have any sign."""
    factors = {order: scale * rng.normal(size=(n_codes, rank)) for order, rank in ranks.items()}
    return Tables(float(rng.normal()), rng.normal(size=n_codes), factors, random_loadings(rng, ranks))


def random_loadings(rng, ranks):
    return {order: rng.choice([-1.0, 1.0], rank) * rng.uniform(0.3, 3.0, rank) for order, rank in ranks.items()}


def random_target(rng, loss, n, n_eta):
    return {
        "gaussian": lambda: rng.normal(size=n),
        "bernoulli": lambda: rng.integers(0, 2, n).astype(float),
        "poisson": lambda: rng.poisson(2.0, n).astype(float),
        "gamma": lambda: rng.gamma(2.0, size=n),
        "multinomial": lambda: rng.integers(0, n_eta, n).astype(float),
    }[loss]()


def random_chunk(rng, n, sizes, *, loss="gaussian", n_eta=1, weighted=False, offset=False):
    return Chunk(
        random_codes(rng, n, sizes),
        random_target(rng, loss, n, n_eta),
        rng.uniform(0.0, 3.0, n) if weighted else None,
        rng.normal(size=(n, n_eta)) if offset else None,
    )
