"""Every prior's solve against dense matrices. A new prior is tested by its line in CASES."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from ahofm.priors.iid import IIDPrior, SplineIIDPrior, prior_trace
from ahofm.priors.random_walk import RandomWalkPrior
from ahofm.priors.spline import SplinePrior

CODES = 9


@dataclass(frozen=True)
class Case:
    """A prior, and the same written down: values at codes are `design` times coefficients, `forms` their penalties."""

    prior: object
    design: np.ndarray
    forms: list


ALL = np.ones(CODES, dtype=bool)


def levels(mass):
    return Case(IIDPrior(mass, ALL), np.eye(CODES), [np.eye(CODES)])


def differences(edges):
    D = np.diff(np.eye(CODES), axis=0)
    return D.T @ np.diag(edges) @ D


def walk(mass, cut=()):
    edges = np.random.default_rng(1).uniform(0.5, 2.0, CODES - 1)
    edges[list(cut)] = 0.0
    roughness = differences(edges)
    return Case(RandomWalkPrior(edges, mass), np.eye(CODES), [roughness, np.eye(CODES)])


def smooth(mass):
    values = np.random.default_rng(2).normal(size=(CODES, 4))
    group, weight = np.array([0, 1, 0, 1]), np.array([1.0, 2.0, 0.5, 1.0])
    forms = [np.diag(weight * (group == k)) for k in range(2)]
    return Case(SplinePrior(values, group, weight), values, forms)


def mixed(mass):
    inner = smooth(None)
    padded = [np.pad(form, (0, CODES)) for form in inner.forms]
    per_code = np.pad(np.eye(CODES), (4, 0))
    return Case(SplineIIDPrior(inner.prior, mass, ALL), np.hstack([inner.design, np.eye(CODES)]), [*padded, per_code])


CASES = {
    "levels": levels,
    "random_walk": walk,
    "walk, interrupted": lambda mass: walk(mass, cut=[7]),
    "walk, interrupted twice": lambda mass: walk(mass, cut=[3, 5]),
    "spline": smooth,
    "spline_iid": mixed,
}
CENTRED = [name for name in CASES if name != "spline"]
EXACT = [name for name in CASES if name != "spline_iid"]

MASS = np.random.default_rng(3).exponential(size=CODES)
MASS /= MASS.sum()


def every(names):
    return pytest.mark.parametrize("name", names)


functions = pytest.mark.parametrize("width", [1, 3])


@dataclass(frozen=True)
class Problem:
    """Sums of rows, smoothing parameters, and a case."""

    case: Case
    gram: np.ndarray
    rhs: np.ndarray
    lam: np.ndarray
    mass: np.ndarray | None

    @classmethod
    def random(cls, name, mass, width, seed=0):
        rng = np.random.default_rng(seed)
        case = CASES[name](mass)
        root = rng.normal(size=(CODES, width, width + 2))
        gram, rhs = root @ root.transpose(0, 2, 1), rng.normal(size=(CODES, width))
        return cls(case, gram, rhs, rng.uniform(0.3, 3.0, size=(len(case.forms), width)), mass)

    def solve(self):
        return self.case.prior.solve(self.gram, self.rhs, self.lam)

    def precision(self, gram):
        """Of all coefficients of all functions: (m, K, m, K)."""
        design, width = self.case.design, self.gram.shape[1]
        matrix = np.einsum("bi,bfg,bj->ifjg", design, gram, design)
        for f in range(width):
            matrix[:, f, :, f] += sum(t * form for t, form in zip(self.lam[:, f], self.case.forms, strict=True))
        return matrix

    def covariance(self, gram):
        """Of the coefficients, given that every function has mean zero."""
        precision = self.precision(gram)
        m, width = precision.shape[:2]
        V = np.linalg.inv(precision.reshape(m * width, -1))
        if self.mass is not None:
            C = np.kron((self.mass @ self.case.design)[:, None], np.eye(width))
            U = V @ C
            V = V - U @ np.linalg.solve(C.T @ U, U.T)
        return V.reshape(precision.shape)

    def coefficients(self):
        return np.einsum("ifjg,bj,bg->if", self.covariance(self.gram), self.case.design, self.rhs)

    def mean(self):
        return self.case.design @ self.coefficients()

    def variance(self):
        return np.einsum("bi,ifjf,bj->bf", self.case.design, self.covariance(self.gram), self.case.design)

    def edf(self):
        change = self.covariance(0.0 * self.gram) - self.covariance(self.gram)
        return self.lam * [np.einsum("ij,ifjf->f", form, change) for form in self.case.forms]

    def quadratic_form(self):
        coef = self.coefficients()
        return np.array([np.einsum("if,ij,jf->f", coef, form, coef) for form in self.case.forms])


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


@every(CASES)
def test_has_a_strength_for_every_form(name):
    case = CASES[name](None)
    low, high = case.prior.bounds
    assert case.prior.n_groups == len(case.forms) == len(low) == len(high) == len(case.prior.initial_lam(0.5))
    assert (low < high).all()


@every(CASES)
@pytest.mark.parametrize("mean_square", [1e-3, 1.0, 10.0])
def test_starts_within_its_bounds_and_stiffer_for_smaller_functions(name, mean_square):
    prior = CASES[name](None).prior
    low, high = prior.bounds
    start = prior.initial_lam(mean_square)
    assert ((start >= low) & (start <= high)).all()
    assert (prior.initial_lam(0.5 * mean_square) > start).all()


@every(CASES)
@functions
def test_mean_is_the_dense_solve(name, width):
    problem = Problem.random(name, None, width)
    assert_close(problem.solve().mean, problem.mean())


@every(CENTRED)
@functions
def test_centred_mean_is_the_dense_solve(name, width):
    problem = Problem.random(name, MASS, width)
    assert_close(problem.solve().mean, problem.mean())


@every(CENTRED)
@functions
def test_centred_functions_have_mean_zero(name, width):
    problem = Problem.random(name, MASS, width)
    np.testing.assert_allclose(MASS @ problem.solve().mean, 0.0, atol=1e-10)


@every(EXACT)
@functions
def test_variance_is_the_diagonal_of_the_dense_inverse(name, width):
    problem = Problem.random(name, None, width)
    assert_close(problem.solve().variance, problem.variance())


@every([name for name in CENTRED if name != "spline_iid"])
@functions
def test_centred_variance_is_the_diagonal_of_the_dense_inverse(name, width):
    problem = Problem.random(name, MASS, width)
    assert_close(problem.solve().variance, problem.variance())


@pytest.mark.parametrize("mass", [None, MASS], ids=["free", "centred"])
@functions
def test_mixed_variance_is_exact_for_functions_that_do_not_share_rows(mass, width):
    """A mixed prior leaves out covariances between functions: one alone, or a diagonal gram, has none."""
    problem = Problem.random("spline_iid", mass, width)
    problem = replace(problem, gram=problem.gram * np.eye(width))
    assert_close(problem.solve().variance, problem.variance())


@every(EXACT)
@functions
def test_freedom_is_what_the_rows_take_from_the_prior(name, width):
    problem = Problem.random(name, None, width)
    assert_close(problem.solve().edf, problem.edf())


def test_mixed_freedom_of_one_function_is_what_the_rows_take_from_the_prior():
    problem = Problem.random("spline_iid", None, 1)
    assert_close(problem.solve().edf, problem.edf())


@every([name for name in CENTRED if name != "spline_iid"])
def test_centred_freedom_when_all_codes_weigh_the_same(name):
    problem = Problem.random(name, np.full(CODES, 1.0 / CODES), 3)
    assert_close(problem.solve().edf, problem.edf())


@every(CASES)
@functions
def test_quadratic_form_is_the_quadratic_form_of_the_mean(name, width):
    problem = Problem.random(name, None, width)
    assert_close(problem.solve().quadratic_form, problem.quadratic_form())


@every(CENTRED)
def test_quadratic_form_of_centred_functions(name):
    problem = Problem.random(name, MASS, 3)
    assert_close(problem.solve().quadratic_form, problem.quadratic_form())


@every(["levels", "spline_iid"])
@pytest.mark.parametrize("mass", [None, MASS], ids=["free", "centred"])
def test_codes_of_one_row_do_not_tell_how_far_levels_are_apart(name, mass):
    """The posterior is the same; freedom and size of the levels are those of the other codes, added up to the whole."""
    problem = Problem.random(name, mass, 3)
    whole = problem.solve()
    single = np.arange(CODES) % 3 == 0
    parts = [
        replace(problem, case=replace(problem.case, prior=replace(problem.case.prior, repeated=some))).solve()
        for some in (single, ~single)
    ]
    for part in parts:
        np.testing.assert_array_equal(part.mean, whole.mean)
        np.testing.assert_array_equal(part.variance, whole.variance)
        np.testing.assert_array_equal(part.edf[:-1], whole.edf[:-1])
        assert (part.edf[-1] > 0.0).all()
    assert_close(parts[0].edf[-1] + parts[1].edf[-1], whole.edf[-1])
    assert_close(parts[1].quadratic_form[-1], (whole.per_code[~single] ** 2).sum(axis=0))


@pytest.mark.parametrize("name", ["levels", "spline_iid"])
def test_prior_variances_of_centred_levels(name):
    """Given that their weighted mean is zero."""
    prior = CASES[name](MASS).prior
    some = np.arange(CODES) < 4
    covariance = np.eye(CODES) - np.outer(MASS, MASS) / (MASS @ MASS)
    assert prior_trace(prior.mass, some) == pytest.approx(np.diag(covariance)[some].sum())
    assert prior_trace(None, some) == 4


@every(CASES)
def test_without_rows_nothing_is_learned(name):
    problem = Problem.random(name, None, 3)
    problem = replace(problem, gram=0.0 * problem.gram, rhs=0.0 * problem.rhs)
    posterior = problem.solve()
    np.testing.assert_allclose(posterior.mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(posterior.edf, 0.0, atol=1e-6)
    assert_close(posterior.variance, problem.variance())


@every(["levels", "random_walk"])
def test_rough_kinds_say_what_their_values_are(name):
    posterior = Problem.random(name, MASS, 3).solve()
    np.testing.assert_array_equal(posterior.per_code, posterior.mean)
    assert posterior.smooth is None


@pytest.mark.parametrize("mass", [None, MASS], ids=["free", "centred"])
@functions
def test_mixed_is_the_sum_of_its_parts(mass, width):
    problem = Problem.random("spline_iid", mass, width)
    posterior = problem.solve()
    values = problem.case.prior.smooth.values
    np.testing.assert_allclose(values @ posterior.smooth + posterior.per_code, posterior.mean, rtol=0, atol=1e-12)
    assert_close(np.vstack([posterior.smooth, posterior.per_code]), problem.coefficients())


def test_smooth_is_the_sum_of_its_coordinates():
    problem = Problem.random("spline", None, 3)
    posterior = problem.solve()
    np.testing.assert_allclose(problem.case.design @ posterior.smooth, posterior.mean, rtol=0, atol=1e-12)
    assert posterior.per_code is None


@every(CASES)
def test_functions_that_share_no_rows_are_solved_as_if_alone(name):
    problem = Problem.random(name, None, 3)
    gram = problem.gram * np.eye(3)
    together = replace(problem, gram=gram).solve()
    for f in range(3):
        part = slice(f, f + 1)
        alone = replace(problem, gram=gram[:, part, part], rhs=problem.rhs[:, part], lam=problem.lam[:, part]).solve()
        assert_close(together.mean[:, part], alone.mean)
        assert_close(together.variance[:, part], alone.variance)
        assert_close(together.edf[:, part], alone.edf)
