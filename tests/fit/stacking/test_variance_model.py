"""Rows that count by how precise they are."""

from dataclasses import replace

import numpy as np
import pytest

from ahofm import AHOFMRegressor
from ahofm.backends import FailedError
from ahofm.columns import Encoder, SplineIID
from ahofm.columns.table import read_table
from ahofm.families import Gaussian, Poisson
from ahofm.fit.solvers.variational.staged_fit import StagedFit
from ahofm.fit.stacking import candidates, ensemble
from ahofm.fit.stacking.candidates import CANDIDATES, WEIGHTED, candidates_for
from ahofm.fit.stacking.cross_validate import cross_validate
from ahofm.fit.stacking.problem import TrainingProblem
from ahofm.fit.stacking.runner import StagedRunner
from ahofm.fit.stacking.variance import weighted_by_precision, with_original_weights
from ahofm.fit.stacking.weights import Scores, predict
from ahofm.model import Reason
from ahofm.training import checkpoint
from ahofm.training.data import counted_rows, prepare
from ahofm.training.settings import Settings
from ahofm.training.validation import validation_split


def work_of(X, y, family=None, weight=None):
    family = family or Gaussian()
    table, rows = counted_rows(read_table(X), y, weight, None, family)
    encoder = Encoder.learn(table, default=SplineIID(), max_codes=None)
    data = prepare(table, rows, encoder, family, all_raw=True, n_threads=1)
    return TrainingProblem.of(data, {2: 2}, Settings(order=2, n_threads=1))


def columns_of(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (n, 3)), rng


def mean_of(X):
    return np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]


def spread_of(X):
    """From one to twenty times as much."""
    return 0.3 * np.exp(1.5 * X[:, 0])


def precise_work(X, y, weight=None):
    """Weighted by errors of the true means, at a fifth of the rows."""
    plain = work_of(X, y, weight=weight)
    ((_, rest),) = validation_split(plain.response.n_rows, 0, dispersed=True)
    units = plain.data.units
    predicted = (mean_of(rows_of(plain)[rest]) - units.centre) / units.scale
    scores = Scores((1,), predicted[:, np.newaxis, np.newaxis, np.newaxis], plain.response.take(rest))
    return plain, weighted_by_precision(plain, rest, scores, StagedRunner(1, len(y), ()))


def rows_of(problem):
    """Columns of the table, rows in the order of the problem's, which need not be that of the table."""
    return np.column_stack(problem.table)[:, np.argsort(problem.columns)]


@pytest.mark.parametrize("counted", [False, True])
def test_weights_are_one_over_the_standard_deviation(counted):
    X, rng = columns_of(6000)
    weight = rng.integers(1, 4, 6000).astype(float) if counted else None
    plain, precise = precise_work(X, mean_of(X) + spread_of(X) * rng.normal(size=6000), weight)
    found = precise.response.weight / plain.response.weight
    wanted = 1 / spread_of(rows_of(plain))
    wanted /= np.average(wanted, weights=plain.response.weight)
    assert np.sqrt(np.mean(np.log(found / wanted) ** 2)) < 0.1
    assert precise.response.total == pytest.approx(plain.response.total)


@pytest.mark.parametrize("noise", [0.5, 0.0])
def test_rows_that_are_equally_precise_are_not_weighted(noise):
    X, rng = columns_of(6000)
    assert precise_work(X, mean_of(X) + noise * rng.normal(size=6000))[1] is None


@pytest.mark.filterwarnings("error")
def test_errors_that_cannot_be_fitted_are_left_alone(monkeypatch):
    X, rng = columns_of(4000)

    def fails(self, report, highest=None):
        raise FailedError("the dispersion is not finite")

    monkeypatch.setattr(StagedFit, "run", fails)
    assert precise_work(X, mean_of(X) + spread_of(X) * rng.normal(size=4000))[1] is None


def test_one_target_far_off_is_no_precision():
    X, rng = columns_of(4000)
    y = mean_of(X) + 0.3 * rng.normal(size=4000)
    y[7] = 1e12
    assert precise_work(X, y)[1] is None


def test_weights_are_bounded():
    X, rng = columns_of(6000)
    y = mean_of(X) + np.where(X[:, 1] > 0.0, 1.0, 1e-5) * rng.normal(size=6000)
    weight = precise_work(X, y)[1].response.weight
    assert 100 < weight.max() / weight.min() <= 20**2 * (1 + 1e-9)


def test_noise_is_that_of_rows_that_count_alike():
    X, rng = columns_of(4000)
    plain, precise = precise_work(X, mean_of(X) + spread_of(X) * rng.normal(size=4000))
    staged = replace(precise, ranks={}).staged_fit(WEIGHTED[0], 0, 0)
    fits = staged.run(lambda _: False)
    (found,) = with_original_weights(fits, precise, plain)
    squares = (plain.response.y - predict(fits[0], plain.books, plain.table)[:, 0]) ** 2
    times = squares.mean() / np.average(squares, weights=precise.response.weight)
    assert times > 1.5
    assert found[0].dispersion == pytest.approx(times * fits[0][0].dispersion)
    assert found[0].predictor is fits[0][0].predictor


def test_who_has_a_weighted_how():
    X, rng = columns_of(2500)
    y = mean_of(X) + spread_of(X) * rng.normal(size=2500)
    many = work_of(X, y)
    assert candidates_for(many, many.settings) == (*CANDIDATES, *WEIGHTED)
    for other in (
        work_of(X[:1900], y[:1900]),
        replace(many, refined=True),
        replace(many, ranks={}),
        work_of(X, rng.poisson(np.exp(mean_of(X))).astype(float), Poisson()),
    ):
        assert not any(candidate.weighted for candidate in candidates_for(other, other.settings))
    assert len(candidates_for(many, replace(many.settings, factor_prior="random_walk"))) == 1


def rough(n, seed):
    """A pair of rough curves; a hundred times the variance where one column is high."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 60, (n, 2)) / 60, rng.uniform(size=n)])
    curves = 0.4 * np.random.default_rng(0).normal(size=(60, 2)).cumsum(axis=0)
    curves -= curves.mean(axis=0)
    a, b = (curves[np.round(X[:, k] * 60).astype(int), k] for k in (0, 1))
    return X, a + a * b, np.where(X[:, 2] > 0.7, 3.0, 0.3), rng


@pytest.mark.slow
def test_rough_pairs_with_uneven_noise_are_found_better(monkeypatch):
    X, mean, sd, rng = rough(2500, 1)
    y = mean + sd * rng.normal(size=2500)
    new, truth, _, _ = rough(4000, 2)
    settings = {"order": 2, "random_state": 0, "n_jobs": 1}
    model = AHOFMRegressor(**settings).fit(X, y)
    monkeypatch.setattr(candidates, "WEIGHTED", ())
    plain = AHOFMRegressor(**settings).fit(X, y)
    errors = [np.mean((fit.predict(new) - truth) ** 2) for fit in (model, plain)]
    assert errors[0] < 0.9 * errors[1]
    assert "weighted random_walk at order 2" in model.model_.choices[0].value
    assert "weighted random_walk" in model.model_.choices[0].reason
    assert "weighted" not in str(plain.model_.choices[0])
    assert model.model_.dispersion == pytest.approx(np.mean(sd**2), rel=0.15)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the fit stopped:sklearn.exceptions.ConvergenceWarning")
def test_a_fit_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "CHECKPOINT_SECONDS", 0.0)
    X, rng = columns_of(2500)
    y = mean_of(X) + spread_of(X) * rng.normal(size=2500)
    settings = {"order": 2, "random_state": 0, "n_jobs": 1, "max_iter": 5}
    whole = AHOFMRegressor(**settings).fit(X, y)
    assert "weighted" in whole.model_.choices[0].value
    sweeps = len(whole.model_.trace.records)
    for stop in (sweeps // 2, 2 * sweeps // 3):

        def interrupt(record, stop=stop):
            if record.iteration == stop:
                raise KeyboardInterrupt

        path = tmp_path / f"{stop}.checkpoint"
        stopped = AHOFMRegressor(checkpoint=path, callbacks=[interrupt], **settings)
        with pytest.raises(KeyboardInterrupt):
            stopped.fit(X, y)
        again = AHOFMRegressor(checkpoint=path, **settings).fit(X, y)
        assert len(again.model_.trace.records) < sweeps
        np.testing.assert_array_equal(again.predict(X), whole.predict(X))
        assert again.model_.dispersion == whole.model_.dispersion


@pytest.mark.slow
def test_equally_precise_rows_cost_no_further_fits():
    X, rng = columns_of(2500)
    begun, shares = [], []

    class Watched(StagedRunner):
        def __call__(self, staged_fits, name=None, *given):
            begun.append(name)
            return super().__call__(staged_fits, name, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ensemble, "StagedRunner", Watched)
        settings = {
            "order": 2,
            "random_state": 0,
            "n_jobs": 1,
            "callbacks": [lambda record: shares.append(record.fraction)],
        }
        model = AHOFMRegressor(**settings).fit(X, mean_of(X) + 0.3 * rng.normal(size=2500))
    # The last ones, side by side, are the variance model of intervals: of all validation rows, and of each half
    assert begun == ["search", "precision", "member", None]
    assert "weighted" not in str(model.model_.choices)
    assert np.diff(shares).min() >= 0.0
    assert shares[-1] == pytest.approx(1.0, abs=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["precision", "weighted candidate"])
def test_an_interrupt_keeps_the_plain_fits(monkeypatch, part):
    """In the second half of the search the first half is still there."""
    X, rng = columns_of(2500)
    y = mean_of(X) + spread_of(X) * rng.normal(size=2500)
    begun, seen = [], []

    class Watched(StagedRunner):
        def __call__(self, staged_fits, name=None, *given):
            begun.append(name)
            return super().__call__(staged_fits, name, *given)

    wanted = {"precision": ["search", "precision"], "weighted candidate": ["search", "precision", "search"]}[part]

    def interrupt(record):
        if begun == wanted:
            raise KeyboardInterrupt

    def spy(*given):
        seen.append(cross_validate(*given))
        return seen[-1]

    monkeypatch.setattr(ensemble, "StagedRunner", Watched)
    monkeypatch.setattr(ensemble, "cross_validate", spy)
    model = AHOFMRegressor(order=2, random_state=0, n_jobs=1, callbacks=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert begun == wanted
    (found,) = seen
    assert found.scores is None
    assert len(found.fits) == len(CANDIDATES)
    assert model.model_.trace.reason is Reason.INTERRUPTED
    assert np.mean((model.predict(X) - mean_of(X)) ** 2) < 0.2 * mean_of(X).var()
