"""What is expected_sums of one column, between its solves."""

import numpy as np
import pandas as pd
import pytest

from ahofm.columns import Encoder, SplineIID
from ahofm.kernels import BlockSums
from ahofm.priors.column import all_column_priors
from ahofm.priors.posterior import ColumnPosterior


@pytest.fixture(params=["spline", "random_walk", "spline_iid", "levels"])
def block(request):
    """Of a column of numbers some of which are missing, or of a column of text."""
    rng = np.random.default_rng(0)
    numbers = np.where(rng.random(300) < 0.1, np.nan, rng.normal(size=300).round(1))
    text = rng.choice(list("abcdef"), 300)
    table = pd.DataFrame({"x": text if request.param == "levels" else numbers})
    books = Encoder.learn(table, default=SplineIID(n_basis=7)).codebooks
    factor_prior = "spline_iid" if request.param == "levels" else request.param
    (column,) = all_column_priors(books, [True], factor_prior, center=True)
    return ColumnPosterior.empty(column, 300, 1.0)


def with_factors(block, rank, seed):
    start = block.column.start
    return block.with_factors(start @ np.random.default_rng(seed).normal(size=(start.shape[1], rank)))


def solved(block):
    rng = np.random.default_rng(1)
    codes, width = block.mean.shape
    half = rng.normal(size=(codes, width, width))
    sums = BlockSums(half @ half.transpose(0, 2, 1), rng.normal(size=(codes, width)))
    return block.solved(sums, 0.5, [width - 1] if width > 1 else [], update_lam=True)


def written_down(block):
    """Values at the codes, from the coefficients that a model would have."""
    coef, level = block.column.coefficients(block.main, block.factors)
    return np.asarray(block.column.book.basis @ coef)[:-1] + level


def test_factors_that_were_never_solved_are_absent(block):
    resting = with_factors(block, 3, 0).without_unsolved()
    assert resting.factors.mean.shape[1] == 3
    assert not resting.mean.any()
    assert not resting.variance.any()
    assert not written_down(resting).any()


def test_new_factors_are_absent_beside_those_that_were_solved(block):
    first = solved(with_factors(block, 2, 0))
    before = written_down(first)
    resting = with_factors(first, 3, 1).without_unsolved()
    np.testing.assert_allclose(written_down(resting), np.hstack([before, np.zeros((len(before), 3))]), atol=1e-12)
    np.testing.assert_allclose(written_down(resting), resting.mean[:-1], atol=1e-9)
    again = solved(resting)  # and can be solved from there
    assert again.factors.mean.shape[1] == 5


def test_a_block_that_was_solved_rests_as_it_is(block):
    found = solved(with_factors(block, 2, 0))
    resting = found.without_unsolved()
    assert resting.main is found.main
    assert resting.factors is found.factors
