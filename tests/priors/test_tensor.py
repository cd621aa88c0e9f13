"""Smoothing parameters of pairs: their prior against the obvious sums, the solve against dense matrices, their use."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from ahofm import AHOFMRegressor, Spline
from ahofm.fit.solvers.variational.posterior import LinearPredictor
from ahofm.fit.solvers.variational.staged_fit import StagedFit
from ahofm.priors import tensor
from ahofm.priors.iid import IIDPrior
from ahofm.priors.spline import SplinePrior
from ahofm.priors.tensor import TensorMargin, TensorPenalty, TensorSmoothing

RANK = 3


def used(surfaces, margins, information):
    """Effective degrees of freedom of all surfaces."""
    parts = [information / (information + surfaces._precision(pairs)) for pairs in tensor._pairs(margins)]
    return sum(float(part.sum()) for part in parts)


def some_margins(scale=1.0):
    """A curve, a line, levels (nothing of which is null), and another curve."""
    rng = np.random.default_rng(0)
    penalty = [np.array([0.0, 0.1, 2.0, 5.0]), np.zeros(1), np.array([3.0, 4.0, 9.0]), np.array([0.0, 0.0, 1.0])]
    return [TensorMargin(scale * rng.normal(size=(len(own), RANK)), own) for own in penalty]


def some_smoothing(p=4):
    rng = np.random.default_rng(1)
    along, plain = rng.uniform(0.1, 3.0, (2, p, p))
    return TensorSmoothing(along, plain + plain.T)


def precisions(surfaces, margins, j, k):
    """Of the prior of every coefficient of the surface of j and k."""
    own, other = margins[j].penalty, margins[k].penalty
    found = np.empty((len(own), len(other)))
    for a, b in np.ndindex(found.shape):
        null = own[a] == 0.0 and other[b] == 0.0
        found[a, b] = surfaces.margin_lam[j, k] * own[a] + surfaces.margin_lam[k, j] * other[b]
        found[a, b] += surfaces.null_lam[j, k] * null
    return found


@pytest.mark.parametrize("j", range(4))
def test_a_column_meets_the_prior_of_all_its_surfaces(j):
    margins, surfaces = some_margins(), some_smoothing()
    expected = 0.0
    for k in range(4):
        if k != j:
            expected += np.sum(precisions(surfaces, margins, j, k) * (margins[j].coef @ margins[k].coef.T) ** 2)
    tensor_penalty, own = surfaces.tensor_penalty(margins, j), margins[j]
    forms = [
        np.einsum("af,fg,ag->a", own.coef, part, own.coef) for part in (tensor_penalty.penalised, tensor_penalty.null)
    ]
    found = np.where(own.penalty > 0.0, own.penalty * forms[0], forms[1]).sum()
    found += np.einsum("af,fg,ag->", own.coef, tensor_penalty.all, own.coef)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("information", [0.5, 50.0])
def test_strengths_are_freedom_over_size(information):
    """The Fellner–Schall rule for each surface alone, within the bounds of a step."""
    margins, before = some_margins(), some_smoothing()
    after = before.updated(margins, information)
    edf = 0.0
    for j, k in combinations(range(4), 2):
        prior, C = precisions(before, margins, j, k), margins[j].coef @ margins[k].coef.T
        own, other = np.meshgrid(margins[j].penalty, margins[k].penalty, indexing="ij")
        forms = own, other, (own == 0.0) & (other == 0.0)
        olds = before.margin_lam[j, k], before.margin_lam[k, j], before.null_lam[j, k]
        news = after.margin_lam[j, k], after.margin_lam[k, j], after.null_lam[j, k]
        for form, old, new in zip(forms, olds, news, strict=True):
            if form.any():
                left = old * np.sum(form / prior - form / (information + prior))
                assert new == pytest.approx(np.clip(left / np.sum(form * C**2), old / 5.0, old * 2.0))
        edf += np.sum(information / (information + precisions(after, margins, j, k)))
    assert after.edf == pytest.approx(edf)
    assert after.null_lam == pytest.approx(after.null_lam.T)
    assert used(after, margins, information) == pytest.approx(edf)


def test_surfaces_that_vanish_have_bounded_strengths_and_no_freedom():
    margins, surfaces = some_margins(1e-9), some_smoothing()
    for _ in range(60):
        surfaces = surfaces.updated(margins, 1000.0)
    assert np.isfinite(surfaces.margin_lam).all()
    assert surfaces.edf < 0.01 * sum(len(margin.penalty) for margin in margins) ** 2 / 2


@pytest.mark.parametrize("n_rows", [10, 1e9])
def test_surfaces_begin_with_a_share_of_the_rows_or_of_their_coefficients(n_rows):
    margins = some_margins()
    coefficients = sum(len(a.penalty) * len(b.penalty) for a, b in combinations(margins, 2))
    surfaces = TensorSmoothing.start(margins, 100.0, n_rows)
    assert used(surfaces, margins, 100.0) == pytest.approx(min(2.0 * n_rows, 0.1 * coefficients), rel=1e-6)


def tensor_penalty():
    rng = np.random.default_rng(2)
    return TensorPenalty(*(root @ root.T for root in rng.normal(size=(3, 2, 2))))


def sums(codes, width):
    rng = np.random.default_rng(3)
    root = rng.normal(size=(codes, width, width + 2))
    return root @ root.transpose(0, 2, 1), rng.normal(size=(codes, width))


def test_a_smooth_column_is_solved_with_matrices_between_its_first_factors():
    gram, rhs = sums(9, RANK)
    values, penalty = np.random.default_rng(4).normal(size=(9, 4)), np.array([0.0, 0.5, 1.0, 2.0])
    prior = SplinePrior(values, np.array([1, 0, 0, 0]), np.array([1.0, 0.5, 1.0, 2.0]))
    np.testing.assert_array_equal(prior.penalty, penalty)
    lam, between = np.full((2, RANK), 0.7), tensor_penalty()
    matrix = np.einsum("ba,bfg,bc->afcg", values, gram, values)
    for a in range(4):
        matrix[a, :, a, :] += 0.7 * prior.relative_penalty[a] * np.eye(RANK)
        matrix[a, :2, a, :2] += penalty[a] * between.penalised if penalty[a] else between.null
    expected = np.linalg.solve(matrix.reshape(12, 12), (values.T @ rhs).ravel()).reshape(4, RANK)
    np.testing.assert_allclose(prior.solve(gram, rhs, lam, between).smooth, expected, rtol=1e-6)


def test_levels_are_solved_with_matrices_between_their_first_factors():
    gram, rhs = sums(9, RANK)
    between = tensor_penalty()
    prior = 0.7 * np.eye(RANK)
    prior[:2, :2] += between.penalised
    expected = np.stack([np.linalg.solve(own + prior, right) for own, right in zip(gram, rhs, strict=True)])
    found = IIDPrior(None, np.ones(9, dtype=bool)).solve(gram, rhs, np.full((1, RANK), 0.7), between)
    np.testing.assert_allclose(found.mean, expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the fit stopped at max_iter")
def test_with_enough_factors_it_is_the_exact_fit_of_all_surfaces(monkeypatch):
    """The penalised sum of squares is convex in the coefficients of the surfaces: its slopes by them vanish."""
    staged_fits, run = [], StagedFit.run

    def listening(self, *given):
        staged_fits.append(self)
        return run(self, *given)

    monkeypatch.setattr(StagedFit, "run", listening)
    monkeypatch.setattr(TensorSmoothing, "updated", lambda self, *_: self)
    monkeypatch.setattr(StagedFit, "release", lambda _: None)
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (400, 3))
    y = np.sin(3 * X[:, 0] + 2 * X[:, 1]) + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=400)
    settings = {"rank": 12, "n_members": 1, "max_iter": 2000, "tol": 1e-12, "random_state": 0}
    AHOFMRegressor(order=2, columns=Spline(n_basis=6), **settings).fit(X, y)
    (staged,) = staged_fits
    state = staged._state
    (linear_predictor,) = state.linear_predictors
    left = staged.response.target - state.rows.derivatives.eta[:, 0]
    designs = [
        block.column.factors.values[codes]
        for block, codes in zip(linear_predictor.blocks, staged.codes.columns, strict=True)
    ]
    margins, surfaces = linear_predictor._margins(), linear_predictor.posterior.tensor_smoothing
    for j, k in combinations(range(3), 2):
        C = margins[j].coef @ margins[k].coef.T
        data = designs[j].T @ (left[:, np.newaxis] * designs[k]) / state.dispersion
        penalty_gradient = precisions(surfaces, margins, j, k) * C
        assert np.abs(data - penalty_gradient).max() < 0.01 * np.abs(penalty_gradient).max()


def two_surfaces(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n + 2000, 8))
    waves = 1.5 * np.sin(2 * X[:, 2] + 3 * X[:, 3]) + 1.5 * np.exp(-3 * (X[:, 0] - X[:, 4]) ** 2)
    mean = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + waves
    return X, mean, mean + rng.normal(size=len(mean))


@pytest.mark.slow
def test_pairs_are_found_better_than_with_strengths_of_factors(monkeypatch):
    X, mean, y = two_surfaces(3000)

    def error():
        model = AHOFMRegressor(order=2, factor_prior="spline", n_members=1, random_state=0).fit(X[:3000], y[:3000])
        return np.sqrt(np.mean((model.predict(X[3000:]) - mean[3000:]) ** 2))

    with_pairs = error()
    monkeypatch.setattr(LinearPredictor, "begin_tensor_smoothing", lambda *_: None)
    assert with_pairs < 0.9 * error()


def test_more_functions_than_rows_do_not_follow_the_noise():
    """With smoothing parameters of factors, the error was nine tenths of the variance."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4500, 10))
    mean = np.sin(3 * X[:, 0]) + 1.5 * X[:, 1] ** 2 + X[:, 2]
    y = mean + rng.normal(size=4500) * mean.std() / np.sqrt(2.0)
    model = AHOFMRegressor(order=2, columns=Spline(), n_members=1, random_state=0).fit(X[:500], y[:500])
    assert np.mean((model.predict(X[500:]) - mean[500:]) ** 2) < 0.15 * mean.var()


@pytest.mark.parametrize(("levels", "with_pairs"), [(5, True), (30, False)])
def test_levels_have_surfaces_where_cells_have_rows(monkeypatch, levels, with_pairs):
    found, begin = [], LinearPredictor.begin_tensor_smoothing

    def listening(self, *given):
        begin(self, *given)
        found.append(self.posterior.tensor_smoothing is not None)

    monkeypatch.setattr(LinearPredictor, "begin_tensor_smoothing", listening)
    rng = np.random.default_rng(0)
    codes = rng.integers(levels, size=(400, 2))
    X = pd.DataFrame({"a": [f"l{c}" for c in codes[:, 0]], "b": [f"l{c}" for c in codes[:, 1]]})
    AHOFMRegressor(order=2, n_members=1, random_state=0).fit(X, rng.normal(size=(levels, levels))[tuple(codes.T)])
    assert found == [with_pairs] * len(found)
    assert found
