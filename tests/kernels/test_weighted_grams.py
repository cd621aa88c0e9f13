"""Gram matrices at several weights, on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from ahofm.kernels.native_engine import ThreadBudget, job_of, shared_budget, weighted_grams


@pytest.mark.parametrize(("n", "m"), [(1, 1), (7, 3), (700, 49), (5_000, 97)])
def test_weighted_grams_are_sums_over_rows(n, m):
    rng = np.random.default_rng(n)
    design, weights = 100.0 * rng.normal(size=(n, m)), rng.normal(size=(3, n))
    expected = np.einsum("si,ia,ib->sab", weights, design, design)
    np.testing.assert_allclose(weighted_grams(design, weights), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_bits_do_not_depend_on_the_threads_of_the_job():
    rng = np.random.default_rng(0)
    design, weights = rng.normal(size=(30_000, 20)), rng.normal(size=(2, 30_000))
    alone = weighted_grams(design, weights)
    for threads in (1, 2, 5, 16):
        budget = ThreadBudget(threads)
        with job_of(budget):
            assert shared_budget() is budget
            assert budget.free == threads - 1
            np.testing.assert_array_equal(weighted_grams(design, weights), alone)
        assert budget.free == threads
    assert shared_budget() is None


def test_bits_are_the_same_while_other_jobs_wait_for_a_thread():
    rng = np.random.default_rng(0)
    design, weights = rng.normal(size=(30_000, 20)), rng.normal(size=(2, 30_000))
    alone = weighted_grams(design, weights)
    with job_of(ThreadBudget(4, 9)):  # no helpers: what is free is theirs
        np.testing.assert_array_equal(weighted_grams(design, weights), alone)
    with pytest.raises(ValueError, match="jobs"):
        ThreadBudget(4, -1)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="weights"):
        weighted_grams(np.ones((4, 2)), np.ones((1, 5)))
