"""Columns that are to have a shape have smooth factors by default: steps of rough ones are too steep."""

from dataclasses import replace

import numpy as np
import pytest

from ahofm.fit.stacking.candidates import CANDIDATES
from tests.fit.stacking.test_variance_model import columns_of, work_of


@pytest.mark.parametrize("candidate", CANDIDATES, ids=lambda one: one.factor_prior)
@pytest.mark.parametrize(("factor_prior", "smooth"), [("auto", True), ("random_walk", False)])
def test_factors_of_shaped_columns_are_smooth(candidate, factor_prior, smooth):
    X, _ = columns_of(300)
    free = work_of(X, X @ np.array([1.0, 2.0, 0.0]))
    settings = replace(free.settings, monotonic_cst={1: 1}, factor_prior=factor_prior)
    work = replace(free, settings=settings, _priors={})
    of_splines, of_candidate = (free._columns(one) for one in (CANDIDATES[1], candidate))
    for j, column in enumerate(work._columns(candidate)):
        shaped = work.columns[j] == 1 and smooth
        expected = (of_splines if shaped else of_candidate)[j]
        assert type(column.factors) is type(expected.factors)
        np.testing.assert_allclose(column.penalty_eigenvalues, expected.penalty_eigenvalues)
