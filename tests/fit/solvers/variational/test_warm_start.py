"""Stages that start from the posterior of a fit to other rows."""

from dataclasses import replace

import numpy as np
import pytest

from ahofm import AHOFMRegressor
from ahofm.backends import FailedError
from ahofm.families import Gaussian, Multinomial, Poisson
from ahofm.fit.solvers.variational.staged_fit import StagedFit
from ahofm.fit.stacking import problem as training_problem
from ahofm.fit.stacking.candidates import Candidate
from ahofm.fit.stacking.runner import StagedRunner
from ahofm.fit.stacking.weights import predict
from ahofm.tuning import WARM_STARTED_INNER_SWEEPS, WARM_STARTED_LAST_SWEEPS
from tests.fit.fits import simulated
from tests.fit.solvers.variational.samples import small_problem
from tests.fit.solvers.variational.test_staged_fit import assert_equal_fits


def finished(staged, highest=None):
    """The fit after all stages, and the orders of its sweeps."""
    seen = []
    staged.run(lambda sweep: bool(seen.append(sweep.order)), highest)
    return staged, seen


def offered_by(staged):
    staged.offers_warm_starts = True
    finished(staged)[0].release()
    return staged.offered


def eta_of(state):
    """Linear predictors of the rows at the means of all functions."""
    state.release_sweeper()
    state.build(0.0)
    state.rows.evaluate(state.other_variances())
    return state.rows.derivatives.eta


@pytest.mark.parametrize("family", [Gaussian(), Poisson(), Multinomial(3)])
@pytest.mark.parametrize("factor_prior", ["spline", "random_walk", "spline_iid"])
def test_a_state_at_other_rows_has_the_same_functions(family, factor_prior):
    problem, _ = small_problem(family, factor_prior)
    candidate, rows = Candidate(factor_prior, 0.7, 0.7), np.arange(100, 350)
    part, expected = problem.take(rows).staged_fit(candidate, 0, 0), {}
    for order in (2, 3):
        finished(part, order)
        expected[order] = eta_of(part._state)
    offered = offered_by(part)
    assert sorted(offered) == [2, 3]
    for order, start in offered.items():
        staged, _ = finished(problem.staged_fit(candidate, 0, 1), 1)
        staged._state.warm_start(start)
        np.testing.assert_allclose(eta_of(staged._state)[rows], expected[order], atol=1e-8)


@pytest.mark.parametrize("family", [Gaussian(), Poisson()])
@pytest.mark.parametrize("factor_prior", ["spline", "random_walk", "spline_iid"])
def test_a_fit_from_its_own_posterior_stays_there(family, factor_prior):
    problem, first = small_problem(family, factor_prior)
    first.schedule = replace(first.schedule, inner=60, last=60)
    offered = offered_by(first)
    again = problem.staged_fit(Candidate(factor_prior, 0.7, 0.7), 0, 1, warm_starts=offered)
    again, swept = finished(again)
    assert swept.count(2) <= WARM_STARTED_INNER_SWEEPS
    assert swept.count(3) <= WARM_STARTED_LAST_SWEEPS
    for one, other in zip(first.fits[1:], again.fits[1:], strict=True):
        eta = predict(one, problem.books, problem.table, problem.backend)
        change = predict(other, problem.books, problem.table, problem.backend) - eta
        assert np.std(change) < 0.15 * np.std(eta)  # smoothing parameters have not converged


def test_the_compiled_backend_goes_on_as_the_reference_does():
    found = []
    for compiled in (True, False):
        problem, first = small_problem(Poisson(), "spline_iid")
        offered = offered_by(first)
        again = problem.staged_fit(Candidate("spline_iid", 0.7, 0.7), 0, 1, warm_starts=offered)
        again.backend = replace(again.backend, compiled_sweeps=compiled)
        found.append(finished(again)[0].fits[-1])
    etas = [predict(fit, problem.books, problem.table, problem.backend) for fit in found]
    np.testing.assert_allclose(etas[0], etas[1], atol=1e-7)


def test_other_numbers_of_factors_are_no_start():
    problem, first = small_problem(Gaussian(), "spline")
    offered, candidate = offered_by(first), Candidate("spline", 0.7, 0.7)
    wider = replace(problem, ranks={2: 3, 3: 1})
    warm, cold = (wider.staged_fit(candidate, 0, 1, warm_starts=starts) for starts in (offered, {}))
    assert_equal_fits(finished(warm)[0].fits, finished(cold)[0].fits)


def test_a_start_that_fails_is_left(monkeypatch):
    problem, first = small_problem(Poisson(), "spline")
    offered, candidate = offered_by(first), Candidate("spline", 0.7, 0.7)
    warm, cold = (problem.staged_fit(candidate, 0, 1, warm_starts=starts) for starts in (offered, {}))
    finished(cold)
    stage = StagedFit._stage

    def failing(self, order, report, n_growths=0, reference=None):
        if reference is not None:
            raise FailedError("diverged")
        return stage(self, order, report, n_growths)

    monkeypatch.setattr(StagedFit, "_stage", failing)
    assert_equal_fits(finished(warm)[0].fits, cold.fits)


def test_members_start_from_parts_of_the_rows(monkeypatch):
    X, y, _ = simulated(600)
    run, seen = StagedRunner.__call__, {}

    def listening(self, staged_fits, name=None, *given, **named):
        found = run(self, staged_fits, name, *given, **named)
        seen.setdefault(name, []).extend(staged_fits)
        return found

    monkeypatch.setattr(StagedRunner, "__call__", listening)
    for rows in (0, 10_000):
        monkeypatch.setattr(training_problem, "WARM_START_ROWS", rows)
        seen.clear()
        AHOFMRegressor(random_state=0, order=3, n_members=3).fit(X, y)
        offered = [one.offered for one in seen["search"] if one.offered]
        starts = [one.warm_starts for one in seen["member"] if len(one.orders) > 1]
        assert all((start in offered) == (rows == 0) for start in starts)
        assert rows or len({id(start[2]) for start in starts}) == len(starts), "each from a fit of its own"
        assert starts, "interactions count"
