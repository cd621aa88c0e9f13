"""Order 1 with given smoothing parameters is mgcv's `gam(..., sp=...)` on the same basis and penalty.

The numbers are printed by this (R 4.2, mgcv 1.8-41); mgcv divides its penalties by `S.scale`, hence smoothing parameter
= sp / S.scale.

    library(mgcv)
    i <- 0:199
    x1 <- (i * 0.6180339887498949) %% 1
    x2 <- (i * 0.7548776662466927) %% 1
    x3 <- (i * 0.5698402909980532) %% 1
    y <- sin(2*pi*x1) + (2*x2 - 1)^2 + 0.3*cos(7*i)
    fit <- gam(y ~ s(x1, bs="ps", k=12, m=c(2,2), sp=3) + s(x2, bs="ps", k=10, m=c(2,2), sp=0.5)
                   + s(x3, bs="ps", k=8, m=c(2,1), sp=10), weights=1 + i %% 3)
    yp <- round(exp(0.5 + sin(2*pi*x1) + 0.5*x2 + 0.5*cos(7*i)))
    counts <- gam(yp ~ s(x1, bs="ps", k=12, m=c(2,2), sp=3) + s(x2, bs="ps", k=10, m=c(2,2), sp=0.5),
                  family=poisson, control=gam.control(epsilon=1e-13))
    for (s in fit$smooth) print(s$S.scale, digits=17)
    rows <- c(1, 2, 3, 50, 100, 150, 200)
    print(predict(fit)[rows], digits=17); print(predict(counts)[rows], digits=17)
    print(fit$deviance, digits=17); print(counts$deviance, digits=17)
"""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.interpolate import BSpline

from ahofm.backends import CpuBackend
from ahofm.columns import ColumnKind, Encoder
from ahofm.columns.basis import difference_penalty
from ahofm.families import Gaussian, Poisson
from ahofm.fit import Bcd, Lbfgs, Objective, minimise, random_start
from ahofm.model import Layout
from ahofm.rows import ArraySource, SerialExecutor


@dataclass(frozen=True)
class PSpline(ColumnKind):
    """mgcv's bs="ps": evenly spaced knots that go on beyond the data, differences penalised. A user's own kind."""

    k: int
    penalty_order: int

    def validate(self):
        pass

    def learn(self, support):
        inner = self.k - 2
        margin = (support.high - support.low) * 0.001
        low, high = support.low - margin, support.high + margin
        step = (high - low) / (inner - 1)
        knots = low + step * np.arange(-3, inner + 3)
        return PSplineBasis(knots, self.penalty_order)


@dataclass(frozen=True)
class PSplineBasis:
    knots: np.ndarray
    penalty_order: int

    @property
    def size(self):
        return len(self.knots) - 4

    @property
    def penalties(self):
        return (difference_penalty(self.size, self.penalty_order),)

    @property
    def constant(self):
        return np.ones(self.size)

    @property
    def null_space(self):
        index = np.linspace(-1.0, 1.0, self.size)
        return np.linalg.qr(np.vander(index, self.penalty_order, increasing=True))[0]

    def evaluate(self, x):
        return sp.csr_array(BSpline.design_matrix(x, self.knots, 3))


INDEX = np.arange(200)
X = np.column_stack([(INDEX * a) % 1 for a in (0.6180339887498949, 0.7548776662466927, 0.5698402909980532)])
ROWS = np.array([0, 1, 2, 49, 99, 149, 199])
MGCV_LEAST_SQUARES = [
    1.1600655437981415,
    -0.40393937205485431,
    1.0026623093332512,
    1.8842861504463917,
    1.1090940458407443,
    0.51120021666224791,
    0.14979897450539267,
]
MGCV_COUNTS = [
    0.82561418436165479,
    0.33387668199036552,
    1.8976832495229676,
    1.7652736551041854,
    1.8228446854455693,
    1.4482368520567011,
    0.23890336375956087,
]
KINDS = {0: PSpline(12, 2), 1: PSpline(10, 2), 2: PSpline(8, 1)}
STRENGTHS = np.array([3 / 15.999999999999986, 0.5 / 15.999999999999993, 10 / 3.9999999999999964])


def fitted(solver, family, y, weight, columns):
    encoder = Encoder.learn(X[:, :columns], {j: KINDS[j] for j in range(columns)}, sample_weight=weight)
    assert encoder.codebooks[0].support.exact, "200 distinct values are kept"
    layout = Layout.of(encoder.codebooks, {})
    lam = layout.smoothing_parameters({1: STRENGTHS[:columns]})
    source = ArraySource(encoder.encode(X[:, :columns]), y, weight)
    objective = Objective(CpuBackend().load(source, SerialExecutor()), family, layout, lam, weight.sum())
    start = random_start(objective, family.start(y, weight), encoder.names, 0)
    theta, _ = minimise(solver, objective, start, max_iter=500, tol=1e-15)
    eta = objective.rows.eta(objective.tables(theta))
    return eta[:, 0], weight @ family.deviance(y, eta)


@pytest.mark.parametrize("solver", [Lbfgs(), Bcd()], ids=lambda solver: solver.name)
def test_least_squares(solver):
    y = np.sin(2 * np.pi * X[:, 0]) + (2 * X[:, 1] - 1) ** 2 + 0.3 * np.cos(7 * INDEX)
    eta, deviance = fitted(solver, Gaussian(), y, 1.0 + INDEX % 3, 3)
    np.testing.assert_allclose(eta[ROWS], MGCV_LEAST_SQUARES, atol=1e-6)
    assert deviance == pytest.approx(17.615778894443743, rel=1e-6)


@pytest.mark.parametrize("solver", [Lbfgs(), Bcd()], ids=lambda solver: solver.name)
def test_counts(solver):
    y = np.round(np.exp(0.5 + np.sin(2 * np.pi * X[:, 0]) + 0.5 * X[:, 1] + 0.5 * np.cos(7 * INDEX)))
    eta, deviance = fitted(solver, Poisson(), y, np.ones(200), 2)
    np.testing.assert_allclose(eta[ROWS], MGCV_COUNTS, atol=1e-6)
    assert deviance == pytest.approx(68.99957, rel=1e-6)
