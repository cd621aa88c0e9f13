"""What a user can add with one class, without touching the package: a prior, a candidate, a family, a backend."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest

from ahofm import AHOFMRegressor, Categorical, RandomWalk
from ahofm.families import Family, TargetRange
from ahofm.fit import Candidate
from ahofm.priors import FunctionPosterior, RandomWalkPrior
from ahofm.priors.base import Coefficients


@pytest.fixture
def irregular():
    """Values with wide gaps, and a line: steps between neighbours are as long as the gaps."""
    rng = np.random.default_rng(0)
    values = np.cumsum(rng.choice([1.0, 20.0], size=40, p=[0.7, 0.3]))
    x = rng.choice(values, size=400)
    X = np.column_stack([x, rng.normal(size=400)])
    return X, x / values[-1] + 0.3 * rng.normal(size=400), values


class ByDistance(RandomWalk):
    """A random walk in continuous time: the variance of a step is the distance of the two values."""

    def prior(self, book, mass):
        gaps = np.diff(np.asarray(book.support.values, dtype=np.float64))
        return RandomWalkPrior(gaps.mean() / gaps, mass)


def test_a_column_kind_with_a_prior(irregular):
    X, y, values = irregular
    grid = np.column_stack([values, np.zeros(len(values))])
    truth = values / values[-1]
    errors = {}
    for kind in (RandomWalk(), ByDistance()):
        model = AHOFMRegressor(order=1, columns={0: kind}, random_state=0).fit(X, y)
        found = model.predict(grid)
        errors[type(kind)] = np.sqrt(np.mean((found - found.mean() - truth + truth.mean()) ** 2))
    assert errors[ByDistance] < 0.9 * errors[RandomWalk]


@dataclass(frozen=True)
class Exchangeable:
    """Values with one variance and one correlation: dense and slow, in the obvious way."""

    mass: np.ndarray | None
    n_codes: int
    n_groups: int = 1
    seen: list = field(default_factory=list, compare=False)

    @property
    def bounds(self):
        return np.array([1e-6]), np.array([1e8])

    def initial_lam(self, mean_square):
        return np.array([1.0 / mean_square])

    def solve(self, gram, rhs, lam):
        self.seen.append(len(rhs))
        codes, width = rhs.shape
        prior = np.linalg.inv(0.7 * np.eye(codes) + 0.3)
        precision = np.einsum("bfg,bc->bfcg", gram, np.eye(codes)) + np.einsum("bc,fg->bfcg", prior, np.diag(lam[0]))
        covariance = np.linalg.inv(precision.reshape(codes * width, codes * width))
        mean = covariance @ rhs.ravel()
        if self.mass is not None:
            means = np.kron(self.mass, np.eye(width))
            gain = covariance @ means.T @ np.linalg.inv(means @ covariance @ means.T)
            mean, covariance = mean - gain @ (means @ mean), covariance - gain @ means @ covariance
        mean = mean.reshape(codes, width)
        covariance = covariance.reshape(codes, width, codes, width)
        variance = np.einsum("bfbf->bf", covariance)
        edf = codes - lam[0] * np.einsum("bc,bfcf->f", prior, covariance)
        form = np.einsum("bf,bc,cf->f", mean, prior, mean)
        return FunctionPosterior(mean, variance, None, mean, edf[np.newaxis], form[np.newaxis])

    def penalty_gradient(self, coef, lam):
        return Coefficients(None, lam[0] * np.linalg.inv(0.7 * np.eye(self.n_codes) + 0.3) @ coef.per_code)

    def zero_coefficients(self, width):
        return Coefficients(None, np.zeros((self.n_codes, width)))


def test_a_prior_that_the_package_does_not_know():
    used = []

    class Related(Categorical):
        def prior(self, book, mass):
            used.append(Exchangeable(mass, book.n_codes - 1))
            return used[-1]

    rng = np.random.default_rng(1)
    levels = rng.integers(6, size=300)
    X = np.column_stack([levels.astype(float), rng.normal(size=300)])
    truth = np.array([0.0, 2.0, -1.0, 0.5, 1.0, -2.0])[levels] * X[:, 1]
    y = truth + 0.2 * rng.normal(size=300)
    model = AHOFMRegressor(order=2, columns={0: Related()}, random_state=0).fit(X, y)
    assert sum(len(prior.seen) for prior in used) > 20
    assert np.corrcoef(model.predict(X), truth)[0, 1] > 0.98


@dataclass(frozen=True)
class Firm(Candidate):
    """Factors as splines whose smoothing parameters are never below one."""

    factor_prior: str = "spline"
    tempering: float = 0.7
    many_rows_tempering: float = 0.7

    @property
    def name(self):
        return "firm"

    def priors(self, books, automatic, **given):
        found = super().priors(books, automatic, **given)
        return tuple(replace(column, factors=replace(column.factors, largest_lam=1e3)) for column in found)


def test_a_candidate(irregular):
    X, y, _ = irregular
    model = AHOFMRegressor(order=2, factor_prior=[Candidate("random_walk", 0.7, 1.0), Firm()], random_state=0)
    model.fit(X, y + X[:, 0] / 100.0 * X[:, 1])
    (choice,) = [one for one in model.model_.choices if one.name == "interactions"]
    assert "firm" in choice.reason
    assert "random_walk" in choice.reason
    assert model.score(X, y + X[:, 0] / 100.0 * X[:, 1]) > 0.8


@pytest.mark.parametrize("value", [7, [], [3], None])
def test_candidates_that_are_none(value):
    with pytest.raises((TypeError, ValueError), match="factor_prior must be"):
        AHOFMRegressor(factor_prior=value).fit(np.arange(20.0)[:, np.newaxis], np.arange(20.0))


@dataclass(frozen=True)
class Pseudohuber(Family):
    """Squares near zero, absolute values far from it."""

    target: ClassVar[TargetRange] = TargetRange()

    def loss(self, y, eta):
        r = (eta[:, 0] - y) / 0.5
        root = np.sqrt(1.0 + r**2)
        return 0.25 * (root - 1.0), (0.5 * r / root)[:, np.newaxis], (1.0 / root**3)[:, np.newaxis]

    def mean(self, eta):
        return eta[:, 0]

    def guess(self, y, weight):
        return np.array([np.median(y)])


def test_a_family():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1.0, 1.0, size=(300, 2))
    truth = 2.0 * X[:, 0] * X[:, 1] + X[:, 0]
    y = truth + 0.2 * rng.standard_t(1.5, size=300)
    robust = AHOFMRegressor(family=Pseudohuber(), order=2, random_state=0).fit(X, y)
    plain = AHOFMRegressor(order=2, random_state=0).fit(X, y)
    errors = [np.sqrt(np.mean((model.predict(X) - truth) ** 2)) for model in (robust, plain)]
    assert errors[0] < 0.8 * errors[1]
