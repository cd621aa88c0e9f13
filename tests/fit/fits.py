"""Small problems for tests of fitting."""

import numpy as np

from ahofm.backends import CpuBackend
from ahofm.columns import Encoder
from ahofm.families import Gaussian
from ahofm.fit import Objective, random_start, smoothing_parameters_of
from ahofm.model import Layout
from ahofm.rows import ArraySource, SerialExecutor


def simulated(n=400, p=4, seed=0, noise=0.3):
    """Numbers with main effects and one interaction."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, p))
    eta = np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2
    if p > 2:
        eta = eta + np.tanh(2.0 * X[:, 0]) * X[:, 2]
    return X, eta + noise * rng.normal(size=n), eta


def objective_of(
    X, y, ranks, *, family=None, weight=None, offset=None, df=5, center=True, ridge=0.01, chunk_rows=150, kinds=None
):
    """The objective of a model on a table, in float64."""
    family = family or Gaussian()
    encoder = Encoder.learn(X, kinds, sample_weight=weight)
    layout = Layout.of(encoder.codebooks, ranks, center=center)
    total = float(len(y) if weight is None else weight.sum())
    by_order = smoothing_parameters_of(encoder.codebooks, [1, *ranks], df)
    lam = np.tile(layout.smoothing_parameters(by_order, ridge * total), family.n_eta)
    source = ArraySource(encoder.encode(X), y, weight, offset, chunk_rows)
    return Objective(CpuBackend().load(source, SerialExecutor()), family, layout, lam, total)


def start_of(objective, y, seed=0):
    names = tuple(f"x{j}" for j in range(len(objective.layout.mains)))
    return random_start(objective, objective.family.start(y, np.ones(len(y))), names, seed)
