"""Coefficients of a sample, refined on all rows by gradient passes."""

import warnings

import numpy as np
import pytest

from ahofm import AHOFMRegressor
from ahofm.families import Gaussian, Multinomial, Poisson
from ahofm.fit.block import many, refine
from ahofm.fit.block.many import all_rows, refined_fits
from ahofm.fit.block.prior import Part
from ahofm.fit.block.problem import Problem, beliefs_of, tables_of
from ahofm.fit.block.run import Runner
from ahofm.fit.block.weigh import predict
from ahofm.model import Reason
from tests.fit.block.samples import simulated, small_work


def problem_of(family, interactions):
    work, member = small_work(family, interactions)
    Runner(1, work.response.n_rows, ())([member])
    beliefs, rows = member.beliefs[-1], all_rows(work, member)
    return Problem(beliefs, member.additive, rows, rows, member.believed(beliefs), 0.7), member


@pytest.mark.parametrize("interactions", ["smooth", "walk", "mixed"])
@pytest.mark.parametrize("family", [Gaussian(), Poisson(), Multinomial(3)], ids=str)
def test_slopes_are_those_of_the_objective(family, interactions):
    problem, _ = problem_of(family, interactions)
    rng = np.random.default_rng(1)
    u = problem.start + 0.05 * rng.normal(size=len(problem.start))
    value, _, gradient = problem.value(u)
    assert np.isfinite(value)
    for _ in range(5):
        direction = rng.normal(size=len(u))
        up, down = (problem.value(u + step * direction)[0] for step in (1e-5, -1e-5))
        assert gradient @ direction == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("interactions", ["smooth", "walk", "mixed"])
def test_the_start_is_what_the_sample_found(interactions):
    problem, member = problem_of(Gaussian(), interactions)
    (table,), expected = problem.at(problem.start), tables_of(member.beliefs[-1][0], member.additive)
    assert table.intercept == expected.intercept
    np.testing.assert_allclose(table.main, expected.main, atol=1e-12)
    for order, values in expected.factors.items():
        np.testing.assert_allclose(table.factors[order], values, atol=1e-12)


@pytest.mark.parametrize("interactions", ["smooth", "walk", "mixed"])
def test_what_is_found_is_what_beliefs_hold(interactions):
    """Also the smooth main effects, which are centred on rows and not on codes."""
    problem, member = problem_of(Gaussian(), interactions)
    u = problem.start + 0.01 * np.random.default_rng(3).normal(size=len(problem.start))
    (belief,) = beliefs_of(member.beliefs[-1], member.additive, problem, u)
    new, (table,) = tables_of(belief, member.additive), problem.at(u)
    codes = problem.rows.source.chunk(0)
    eta = [problem.rows.kernel.eta(codes, (part,))[:, 0] for part in (new, table)]
    np.testing.assert_allclose(eta[0], eta[1], atol=1e-10)


@pytest.mark.parametrize("interactions", ["smooth", "walk", "mixed"])
def test_block_solves_invert_the_blocks(interactions):
    """For a slope of any form: (curvature + Q) times what comes out is the slope, on functions of mean zero."""
    problem, _ = problem_of(Gaussian(), interactions)
    rng = np.random.default_rng(2)
    for _, function, _ in problem.each():
        part = function.part.like(rng.normal(size=len(function.part.flat())))
        at_codes = rng.normal(size=function.origin.shape)
        found = function.part.like(function.inverse(at_codes, part))
        back = np.einsum("bfg,bg->bf", function.gram, function.values(found))
        residual = function.part.like(function.slope(back - at_codes, _minus(found, part)))
        mass = getattr(function.prior, "mass", None)
        flat = residual.flat()
        if mass is None:
            assert np.abs(flat).max() < 1e-6 * max(np.abs(at_codes).max(), 1.0) * 10
        else:  # what is left is a multiple of the constraint's normal, per function
            rough = residual.rough / mass[:, np.newaxis]
            np.testing.assert_allclose(rough - rough[0], 0.0, atol=1e-5 * np.abs(rough).max() + 1e-6)


@pytest.mark.parametrize("interactions", ["smooth", "walk", "mixed"])
@pytest.mark.parametrize("family", [Gaussian(), Multinomial(3)], ids=str)
def test_learning_strengths_needs_no_pass(family, interactions):
    """The objective and its slopes with the new strengths are those that a pass over the rows finds."""
    problem, _ = problem_of(family, interactions)
    u = problem.start + 0.05 * np.random.default_rng(1).normal(size=len(problem.start))
    before, strengths = problem.value(u), problem.strengths
    value, gradient = problem.learn(u, before[0], before[1])
    again = problem.value(u)
    assert value == pytest.approx(again[0], rel=1e-12)
    np.testing.assert_allclose(gradient, again[2], rtol=1e-9, atol=1e-9)
    changed = [not np.array_equal(a, b) for a, b in zip(strengths, problem.strengths, strict=True)]
    learns = [function.learns for _, function, _ in problem.each()]
    assert sum(changed) > 0.5 * sum(learns)  # others are at their bounds
    assert not any(change and not may for change, may in zip(changed, learns, strict=True))


@pytest.mark.parametrize("interactions", ["smooth", "walk", "mixed"])
def test_block_solves_move_no_factor_by_much_more_than_its_size(interactions):
    problem, _ = problem_of(Gaussian(), interactions)
    u = problem.start.copy()
    for _, function, at in problem.each():
        if function.columns.start == 1:
            u[at] *= 0.02  # where partners are nearly zero, what a column alone wants is far away

    def times():
        _, slopes, _ = problem.value(u)
        step = problem.inverse(slopes, u)
        given = zip(problem.each(), problem.parts(u), problem.parts(step), strict=True)
        sizes = [
            [np.sqrt(function.mass @ function.values(part) ** 2) for part in parts]
            for (_, function, _), *parts in given
            if function.columns.start == 1
        ]
        return np.max([step / np.maximum(own, 1e-3) for own, step in sizes])

    before = times()
    problem.damp(u, problem.value(u)[1])
    assert before > 4.0
    assert times() < 0.4 * before
    learned, again = problem.learned, problem_of(Gaussian(), interactions)[0]
    again.resume(learned)
    for new, old in zip(again.learned, learned, strict=True):
        np.testing.assert_array_equal(new[0], old[0])
        np.testing.assert_array_equal(new[1], old[1])


@pytest.mark.slow
def test_a_refinement_of_many_weak_factors_ends(monkeypatch):
    X, truth = simulated(150_000)
    y = truth + np.random.default_rng(1).normal(size=len(truth))
    monkeypatch.setattr(many, "SAMPLE_ROWS", 5_000)
    monkeypatch.setattr(many, "needed", lambda beliefs, _: beliefs)
    model = AHOFMRegressor(order=2, interactions="smooth", solver="newton", rank=10, random_state=0).fit(X, y)
    new, mean = simulated(20_000, seed=5)
    assert np.sqrt(np.mean((model.predict(new) - mean) ** 2)) < 0.04


@pytest.mark.slow
def test_strengths_are_those_of_all_rows(monkeypatch):
    X, truth = simulated(40_000)
    y = truth + np.random.default_rng(1).normal(size=len(truth))
    monkeypatch.setattr(many, "SAMPLE_ROWS", 2_000)
    settings = {"order": 2, "interactions": "walk", "n_members": 1, "random_state": 0}
    new, mean = simulated(20_000, seed=5)

    def fitted():
        model = AHOFMRegressor(solver="newton", **settings).fit(X, y).model_
        return np.sqrt(np.mean((model.predict(new) - mean) ** 2)), model.strengths[2].copy()

    error, strengths = fitted()
    monkeypatch.setattr(refine, "_DESCENTS", 1)  # those of the sample
    plain, before = fitted()
    assert error < 0.95 * plain
    assert not np.allclose(strengths, before)


def _minus(a, b):
    return Part(
        None if a.smooth is None else a.smooth - b.smooth,
        None if a.rough is None else a.rough - b.rough,
    )


@pytest.mark.parametrize("family", [Gaussian(), Poisson()], ids=str)
def test_withall_rows_in_the_sample_little_changes(family):
    work, member = small_work(family, "smooth", n=1500)
    runner = Runner(1, work.response.n_rows, ())
    runner([member])
    fits = refined_fits(member, work, work, runner)
    before, after = (predict(fit, work.books, work.table) for fit in (member.fits[-1], fits[-1]))
    assert np.corrcoef(before.ravel(), after.ravel())[0, 1] > 0.95
    assert np.std(after) == pytest.approx(np.std(before), rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_more_rows_than_the_sample(family, monkeypatch):
    monkeypatch.setattr(many, "SAMPLE_ROWS", 15_000)
    X, truth = simulated(36_000)
    rng = np.random.default_rng(1)
    y = truth + rng.normal(size=len(truth)) if family == "gaussian" else rng.poisson(np.exp(truth)).astype(float)
    settings = {"order": 2, "interactions": "smooth", "random_state": 0, "family": family}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AHOFMRegressor(solver="newton", **settings).fit(X, y)
    assert model.trace_.solver == "newton"
    assert model.trace_.records[-1].passes < 60
    part = AHOFMRegressor(**settings).fit(X[:15_000], y[:15_000])
    assert part.trace_.solver == "block"
    new, truth = simulated(20_000, seed=5)
    own, sample = (np.sqrt(np.mean((one.predict_eta(new) - truth) ** 2)) for one in (model, part))
    assert own < 0.96 * sample
    assert model.model_.at_order(1).eta(new).shape == (20_000, 1)


@pytest.mark.slow
def test_callbacks_stop_it():
    X, truth = simulated(60_000)
    stop = AHOFMRegressor(
        order=2, solver="newton", interactions="smooth", callbacks=[lambda record: record.passes > 20], random_state=0
    )
    stop.fit(X, truth)
    assert stop.trace_.reason is Reason.CALLBACK
    assert np.isfinite(stop.predict(X[:10])).all()


@pytest.mark.slow
def test_the_default_changes_with_the_rows(monkeypatch):
    X, truth = simulated(3_000)
    settings = {"order": 2, "interactions": "smooth", "random_state": 0}
    assert AHOFMRegressor(**settings).fit(X, truth).trace_.solver == "block"
    monkeypatch.setattr(many, "NEWTON_ROWS", 2_000)
    assert AHOFMRegressor(**settings).fit(X, truth).trace_.solver == "newton"
