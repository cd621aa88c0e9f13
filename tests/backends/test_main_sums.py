"""Sums of the smooth main effects: Gram matrices are kept while working weights change little."""

import numpy as np
import pytest

from ahofm.backends import design, working_rows
from ahofm.families import Multinomial, Poisson
from ahofm.fit.solvers.variational.coordinate_ascent import VariationalState
from tests.fit.solvers.variational.samples import small_problem


def started(family):
    _, fit = small_problem(family, "spline")
    return VariationalState.start(fit._rows(), fit.response, fit.additive, fit.columns)


def moved(state, by):
    """Shift the linear predictor, and accept it."""
    rows, posterior = state.rows, state.linear_predictors[0].posterior
    rows.set_main_effects(0, posterior.intercept + by, posterior.smooth.coef)
    rows.trial(0)
    rows.accept(state.other_variances())


def test_small_changes_of_working_weights_keep_the_gram_matrix_and_use_the_present_slopes():
    state = started(Poisson())
    rows, values = state.rows, state.additive.rows.matrix
    rows.evaluate()
    before, old_weight = rows.main_sums(0), rows.response.weight * rows.derivatives.curvature[:, 0]
    moved(state, 0.01)
    after, losses = rows.main_sums(0), rows.derivatives
    assert after.gram is before.gram
    right = old_weight * losses.eta[:, 0] - rows.response.weight * losses.slope[:, 0]
    assert after.total_response == pytest.approx(right.sum())
    np.testing.assert_allclose(after.rhs, (values - after.middle).T @ right, rtol=1e-9, atol=1e-9)
    rows.evaluate()
    assert rows.main_sums(0).gram is not before.gram


def test_large_changes_of_working_weights_do_not():
    state = started(Poisson())
    state.rows.evaluate()
    before = state.rows.main_sums(0)
    moved(state, 0.5)
    np.testing.assert_allclose(state.rows.main_sums(0).gram, np.exp(0.5) * before.gram, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", [Poisson(), Multinomial(3)], ids=["poisson", "multinomial"])
def test_the_optimum_is_the_same_with_fewer_gram_matrices(family, monkeypatch):
    computed, gram = [], design.design_gram
    monkeypatch.setattr(design, "design_gram", lambda *arrays: computed.append(0) or gram(*arrays))
    found, state = [], started(family)
    for change in (-1.0, working_rows.MAIN_WEIGHTS_CHANGE):
        monkeypatch.setattr(working_rows, "MAIN_WEIGHTS_CHANGE", change)
        one = state.copy()
        one.rows.evaluate()
        computed.clear()
        for _ in range(20):
            for k in range(len(one.linear_predictors)):
                one.step_main_effects(k, update_lam=False)
        found.append((len(computed), [linear.posterior.smooth.coef for linear in one.linear_predictors]))
    (often, exact), (seldom, kept) = found
    assert seldom <= often / 5
    np.testing.assert_allclose(kept, exact, rtol=1e-6, atol=1e-8)
