"""Forecasts: of the plan that a fit follows, of rows that grow, and of what cannot be told."""

import io
import time
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

import ahofm
from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.backends import FailedError
from ahofm.columns.table import read_table
from ahofm.cost.probes import Line, Speed, traced
from ahofm.estimators.progress import Progress
from ahofm.families import Gaussian
from ahofm.fit.api import prepared, ranks_for
from ahofm.fit.solvers.variational.schedule import Job, Schedule
from ahofm.fit.stacking.candidates import candidates_for
from ahofm.fit.stacking.problem import TrainingProblem
from ahofm.fit.stacking.runner import Plan
from ahofm.training.data import Rows
from ahofm.training.settings import Settings


def draw(n, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)


def plan_for(n, *, known=300, **settings):
    X, y = draw(known)
    asked = Settings(**settings)
    data = prepared(read_table(X), Rows(y, np.ones(known), None), Gaussian(), asked, n)
    problem = TrainingProblem.of(data, ranks_for(data, asked, n), asked)
    return Plan.of(problem, candidates_for(problem, asked), n)


@pytest.mark.parametrize(
    ("n", "search", "members"),
    [
        (900, [600] * 18, [900] * 3),  # three folds by three candidates, and three with product factors
        (10_000, [8_000] * 8, [10_000] * 3),  # and two with weighted rows
        (100_000, [8_000] * 5, [100_000]),  # no product factors
        (1_000_000, [8_000] * 5, [50_000]),  # on a sample
    ],
)
def test_the_plan_knows_all_members(n, search, members):
    plan = plan_for(n, known=min(n, 25_000))
    assert [job.n_rows for job in plan.search] == search
    assert [job.n_rows for job in plan.members] == members
    assert bool(plan.passes) == (n == 1_000_000)


def test_nothing_is_searched_for_when_all_is_given():
    plan = plan_for(900, factor_prior="spline", n_members=2, order=2)
    assert not plan.search
    assert len(plan.members) == 2
    assert [order for order, _ in plan.members[0].stages] == [1, 2]


@pytest.mark.parametrize("n", [9_000, 1_000_000])
def test_work_of_orders_that_do_not_count_is_spared(n):
    plans = [plan_for(n, order=order, rank=4, factor_prior="spline", n_members=2) for order in (1, 2, 3)]
    first, second, third = (plan.total / len(plan.members) for plan in plans)  # main effects have one member
    assert plans[2].spared([3, 3]) == 0.0
    assert plans[2].spared([2, 2]) == pytest.approx(2 * (third - second))
    assert plans[2].spared([1, 3]) == pytest.approx(third - first)


@pytest.mark.slow
@pytest.mark.parametrize("n", [150, 700])
def test_a_fit_has_done_its_work_when_it_ends(n):
    X, y = draw(n)
    shares = []
    AHOFMRegressor(random_state=0, callbacks=[lambda record: shares.append(record.fraction)]).fit(X, y)
    assert shares == sorted(shares)
    assert 0.0 < shares[0] < 0.1
    assert 0.7 < shares[-1] <= 1.0  # the last stage may end early


def test_work_below_a_stage_is_done_when_the_stage_begins():
    job = Job(500, {2: 4, 3: 4}, Schedule())
    assert 0.0 < job.cost_until(2, 3) < job.cost_until(2, 10_000) < job.cost_until(3, 0) < job.total
    assert job.cost_until(3, 10_000) == pytest.approx(job.total)


def test_work_grows_with_the_factors_of_pairs():
    job = Job(500, {2: 4, 3: 4}, Schedule())
    grown = replace(job, n_growths=2)
    assert [factors for _, factors in grown.stages] == [0, 4, 8, 12, 16]
    assert (
        job.cost_until(2, 10_000)
        < grown.cost_until(2, 0)
        < grown.cost_until(2, 10_000)
        < grown.cost_until(3, 0)
        < grown.total
    )
    assert grown.cost_until(3, 10_000) == pytest.approx(grown.total)


def test_a_line_through_two_measurements():
    line = Line.through((1_000, 3.0), (4_000, 6.0))
    assert line.at(10_000) == pytest.approx(12.0)
    assert line.at(10_000, threads=2) == pytest.approx(7.0)
    assert Line.through((700, 2.0), (700, 2.0)).at(350) == pytest.approx(1.0)
    assert Line.through((1_000, 3.0), (4_000, 2.0)).at(9_000) == pytest.approx(3.0)  # noise: a cost never falls


def test_memory_is_traced():
    kept, peak = traced(lambda: np.zeros(1_000_000) + np.ones(1_000_000))
    assert kept == pytest.approx(8e6, rel=0.01)
    assert 15e6 < peak < 25e6


def test_a_forecast_grows_with_the_rows(monkeypatch):
    lines = {1: Line(0.0, 1e-5), 2: Line(0.1, 2e-5)}  # seconds of a sweep, in the place of measured ones
    monkeypatch.setattr(Speed, "of", lambda *_, **__: Speed(lines, lines))
    given = {"order": 2, "n_members": 1, "factor_prior": "spline", "n_jobs": 2}
    costs = [ahofm.forecast(draw(n)[0], **given) for n in (2_000, 40_000)]
    for cost, threads in zip(costs, (1, 2), strict=True):  # few rows are not shared out
        sweeps = {1: 8, 2: 0.85 * 30}
        expected = sum(count * lines[order].at(cost.n_rows, threads) for order, count in sweeps.items())
        assert cost.parts["fit"] == pytest.approx(expected)
        assert cost.seconds == pytest.approx(sum(cost.parts.values()))
    assert costs[1].memory > costs[0].memory
    assert "40,000 rows, 3 columns; rank: 12 at order 2; ensemble members: 1" in str(costs[1])


def test_a_forecast_leaves_the_estimator_as_it_was():
    X, y = draw(200)
    model = AHOFMRegressor(order=2, random_state=0)
    before = dict(vars(model))
    model.forecast(X, y)
    assert vars(model) == before
    assert AHOFMClassifier(order=2).forecast(X, y > 0).ranks == {2: 4}


def test_what_cannot_be_told():
    X, _ = draw(200)
    with pytest.raises(ValueError, match="smoothing='auto'"):
        ahofm.forecast(X, smoothing="df")
    with pytest.raises(ValueError, match="y is needed to forecast a fit of family Poisson"):
        ahofm.forecast(X, family="poisson")
    with pytest.raises(ValueError, match="how many classes"):
        AHOFMClassifier().forecast(X)


@pytest.mark.slow
def test_the_bar_tells_the_time_left():
    X, y = draw(300)
    screen = io.StringIO()

    def slow(_):
        time.sleep(0.01)  # of each of some hundred sweeps: the bar says how long from a second on

    with Progress(None, Console(file=screen, force_terminal=True, width=120)) as bar:
        AHOFMRegressor(random_state=0, callbacks=[slow, bar]).fit(X, y)
    assert "left" in screen.getvalue()
    assert "objective" in screen.getvalue()


@pytest.mark.parametrize("order", [2, 3])
def test_sweeps_that_raise_the_noise_cost_as_much_as_others(monkeypatch, order):
    """Two sweeps without warm ones may well raise it, as on wine and naval propulsion; fits have more of them."""
    monkeypatch.setattr(
        "ahofm.fit.solvers.variational.stage.DIVERGED_RATIO", 0.0
    )  # any level fails a stage that is judged
    X, y = draw(300)
    cost = ahofm.forecast(X, y, order=order, random_state=0)
    assert cost.parts["fit"] > 0.0
    assert sorted(cost.ranks) == list(range(2, order + 1))


def test_an_order_whose_sweeps_fail_is_priced_by_its_functions(monkeypatch):
    def failing(self, order):
        raise FailedError("sums over rows are not finite")

    monkeypatch.setattr("ahofm.fit.solvers.variational.staged_fit.StagedFit._add_factors", failing)
    X, _ = draw(300)
    data = prepared(read_table(X), Rows(X[:, 0], np.ones(300), None), Gaussian(), Settings(), 300)
    problem = TrainingProblem.of(data, {2: 4, 3: 4}, Settings())
    speed = Speed.of(problem, candidates_for(problem, Settings())[0], single=False)
    first, second, third = (speed.later[order].at(300) for order in (1, 2, 3))
    assert second / first == pytest.approx(3.0)  # main effects cost as much as two factors
    assert third / first == pytest.approx(5.0)


def test_several_classes_are_forecast_by_sweeps_of_their_candidates():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 4, 300)
    found = AHOFMClassifier(order=2, n_jobs=1).forecast(X, y)
    assert 0.01 < found.seconds < 60.0
    assert set(found.parts) == {"learn", "search", "fit"}
    assert found.memory > 1e6


def test_splits_and_groups_are_in_the_plan(monkeypatch):
    (X, y), seen = draw(300), []
    make = Plan.of.__func__
    monkeypatch.setattr(Plan, "of", classmethod(lambda cls, *given: seen.append(make(cls, *given)) or seen[-1]))

    def sizes(cv=None, groups=None):
        AHOFMRegressor(order=2, rank=2, cv=cv).forecast(X, y, groups=groups)
        return sorted({job.n_rows for job in seen[-1].search}), len(seen[-1].search)

    ordinary, count = sizes()
    assert ordinary == [200]
    assert sizes(cv=5) == ([240], 5 * count // 3)
    assert sizes(cv=[(np.arange(100), np.arange(100, 300))]) == ([100], count // 3)
    assert sizes(groups=np.repeat([0, 1, 1, 1], 75)) == ([75, 225], 2 * count // 3)
