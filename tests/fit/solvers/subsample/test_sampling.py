"""Factors that rows support."""

from itertools import combinations

import numpy as np
import pytest

from ahofm import AHOFMRegressor
from ahofm.families import Gaussian, Multinomial
from ahofm.fit.solvers.subsample import refine
from ahofm.fit.solvers.subsample.objective import tables_of
from ahofm.fit.solvers.subsample.refine import pruned
from ahofm.fit.stacking.runner import StagedRunner
from ahofm.tuning.subsample import LEAST_SIGNAL_TO_NOISE
from tests.fit.solvers.variational.samples import simulated, small_problem


def fitted_posteriors(family):
    problem, staged = small_problem(family, "spline")
    StagedRunner(1, problem.response.n_rows, ())([staged])
    return staged.posteriors[-1], staged.additive


def variance_by_hand(posterior, order, factor):
    """Sum over all products of that many columns."""
    squares = [block.column.mass @ block.mean[:-1, factor] ** 2 for block in posterior.blocks]
    return sum(np.prod(part) for part in combinations(squares, order))


@pytest.mark.parametrize("family", [Gaussian(), Multinomial(3)], ids=str)
def test_a_factor_stays_while_its_variance_compares_with_its_noise_in_some_predictor(family):
    posteriors, _ = fitted_posteriors(family)
    assert posteriors[0].ranks == {2: 2, 3: 1}
    orders = [2, 2, 3]
    limits = []  # the information from which on each factor stays
    for at, order in enumerate(orders):
        own = []
        for posterior in posteriors:
            edf = sum(block.factors.edf[:, at].sum() for block in posterior.blocks)
            own.append(LEAST_SIGNAL_TO_NOISE * max(edf, 1.0) / variance_by_hand(posterior, order, 1 + at))
        limits.append(min(own))
    pairs = sorted(limits[:2])
    for information, rank in ((0.99 * pairs[1], 1), (1.01 * pairs[1], 2), (1e-9, 1), (1e300, 2)):
        found = pruned(posteriors, [information] * len(posteriors))
        assert all(posterior.ranks == {2: rank, 3: 1} for posterior in found)  # one of every order stays
        kept = [int(np.argmin(limits[:2]))] if rank == 1 else [0, 1]
        for before, after in zip(posteriors, found, strict=True):
            for old, new in zip(before.blocks, after.blocks, strict=True):
                columns = [0, *(1 + k for k in kept), 3]
                np.testing.assert_array_equal(new.mean, old.mean[:, columns])
                np.testing.assert_array_equal(new.variance, old.variance[:, columns])
                np.testing.assert_array_equal(new.lam, old.lam[:, [*kept, 2]])
                np.testing.assert_array_equal(new.factors.mean, old.factors.mean[:, [*kept, 2]])


def test_predictors_without_factors_stay_what_they_are():
    problem, staged = small_problem(Gaussian(), "spline")
    StagedRunner(1, problem.response.n_rows, ())([staged])
    first = staged.posteriors[0]
    assert pruned(first, [1.0]) == list(first)


def test_what_is_left_predicts_as_without_the_others():
    posteriors, additive = fitted_posteriors(Gaussian())
    (less,) = pruned(posteriors, [1e-9])
    before, after = tables_of(posteriors[0], additive), tables_of(less, additive)
    np.testing.assert_allclose(after.main, before.main)
    gaps = np.abs(before.factors[2][:, :, np.newaxis] - after.factors[2][:, np.newaxis, :]).max(axis=0)
    assert (gaps.min(axis=0) < 1e-12).all()


@pytest.mark.slow
def test_many_rows_are_not_asked_about_noise(monkeypatch):
    X, truth = simulated(60_000)
    y = truth + np.random.default_rng(1).normal(size=len(truth))
    monkeypatch.setattr(refine, "SAMPLE_ROWS", 4_000)
    new, mean = simulated(20_000, seed=5)
    settings = {"order": 2, "interactions": "random_walk", "solver": "subsample", "rank": 10, "random_state": 0}
    ranks = []

    def fitted():
        model = AHOFMRegressor(**settings).fit(X, y)
        return np.sqrt(np.mean((model.predict(new) - mean) ** 2))

    def counting(posteriors, information):
        found = pruned(posteriors, information)
        ranks.append(found[0].ranks.get(2, 0))
        return found

    monkeypatch.setattr(refine, "pruned", counting)
    error = fitted()
    assert ranks[0] == 0
    assert 1 <= ranks[1] < 8
    monkeypatch.setattr(refine, "pruned", lambda posteriors, _: posteriors)
    assert error < 1.02 * fitted()
