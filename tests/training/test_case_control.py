"""Samples with more events than their share."""

from dataclasses import replace

import numpy as np
import pytest

from ahofm.backends import Response
from ahofm.families import Gaussian, Poisson
from ahofm.fit.solvers.subsample import refine
from ahofm.fit.solvers.subsample.refine import subsample_of
from ahofm.training.case_control import sample_rows, sample_weight
from tests.fit.solvers.variational.samples import small_problem


def rare_problem(n=3000):
    problem, _ = small_problem(Poisson(), "spline", n=n)
    y = np.random.default_rng(0).poisson(0.04, problem.response.n_rows).astype(float)
    return replace(problem, response=Response(Poisson(), y, np.ones(len(y)), None))


def test_all_events_that_fit_are_in_the_sample():
    response = rare_problem().response
    assert response.rare
    pool, rng = np.arange(response.n_rows), np.random.default_rng(1)
    rows = sample_rows(response, pool, 1000, rng)
    assert len(np.unique(rows)) == 1000
    assert response.y[rows].sum() == response.y.sum()
    few = sample_rows(response, pool, 40, rng)
    assert (response.y[few] > 0).sum() == 20


def test_targets_that_are_not_rare_are_sampled_at_random():
    y = np.random.default_rng(0).normal(size=2000)
    response = Response(Gaussian(), y, np.ones(2000), None)
    rows = sample_rows(response, np.arange(2000), 500, np.random.default_rng(1))
    expected = np.sort(np.random.default_rng(1).permutation(2000)[:500])
    np.testing.assert_array_equal(rows, expected)


def test_weighted_means_are_those_of_all_rows(monkeypatch):
    problem = rare_problem()
    monkeypatch.setattr(refine, "SAMPLE_ROWS", 600)
    sample = subsample_of(problem).response
    assert sample.mean_of((sample.y > 0).astype(float)) == pytest.approx((problem.response.y > 0).mean(), rel=1e-9)
    # The information is that of a random sample of more rows, but of fewer than all.
    assert 600 < sample.total < problem.response.n_rows


def test_the_information_is_what_estimates_contain():
    """The variance of the score of a column of signs is the number of events that the weights count."""
    rng, estimates, counted = np.random.default_rng(3), [], []
    problem = rare_problem()
    for _ in range(300):
        y = rng.poisson(0.04, problem.response.n_rows).astype(float)
        whole = replace(problem, response=replace(problem.response, y=y))
        rows = sample_rows(whole.response, np.arange(len(y)), 300, rng)
        part = whole.response.take(rows)
        weight = sample_weight(part, whole.response)
        slope = weight * (part.y - 0.04) * rng.choice([-1.0, 1.0], len(rows))
        estimates.append(slope.sum())
        counted.append(0.04 * weight.sum())
    assert np.var(estimates) == pytest.approx(np.mean(counted), rel=0.35)
