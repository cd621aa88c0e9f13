"""Rows that are fitted on the way to many."""

import numpy as np

from ahofm import Categorical, RandomWalk, Spline
from ahofm.columns import Encoder, SplineIID
from ahofm.columns.table import read_table
from ahofm.families import Gaussian, Multinomial, Poisson
from ahofm.fit.stacking.candidates import Candidate
from ahofm.fit.stacking.problem import TrainingProblem
from ahofm.training.data import counted_rows, prepare
from ahofm.training.settings import Settings

KINDS = {0: Categorical(), 1: RandomWalk(), 2: Spline(n_basis=6)}  # the fourth is automatic


def small_problem(family, factor_prior, n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 4, n), rng.integers(0, 9, n), rng.normal(size=(n, 2)).round(1)])
    eta = 0.5 * np.sin(X[:, 1]) * X[:, 2] + 0.3 * X[:, 3]
    y = {
        Gaussian: lambda: eta + 0.3 * rng.normal(size=n),
        Poisson: lambda: rng.poisson(np.exp(eta)).astype(float),
        Multinomial: lambda: (eta[:, None] * [1, 0, -1] + rng.gumbel(size=(n, 3))).argmax(axis=1).astype(float),
    }[type(family)]()
    settings = Settings(columns=KINDS, factor_prior=factor_prior, solver="subsample", n_threads=1)
    table, rows = counted_rows(read_table(X), y, rng.exponential(size=n), None, family)
    encoder = Encoder.learn(table, KINDS, default=SplineIID(n_basis=6), max_codes=30)
    data = prepare(table, rows, encoder, family, all_raw=True, n_threads=1)
    problem = TrainingProblem.of(data, {2: 2, 3: 1}, settings)
    return problem, problem.staged_fit(Candidate(factor_prior, 0.7, 0.7), 0, 0)


def simulated(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 6))
    truth = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 1.5 * np.sin(2 * X[:, 2]) * X[:, 3]
    return X, truth
