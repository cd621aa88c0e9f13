"""Copies of training rows: their effects, when there are any, and where they are said."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ahofm import AHOFMClassifier, AHOFMRegressor, load
from ahofm.cli.app import run
from ahofm.columns.table import read_table
from ahofm.explain import contributions, shapley_values, summary
from ahofm.export import rating_tables, to_python
from ahofm.families import Bernoulli, Gaussian
from ahofm.fit.api import prepared
from ahofm.model.repeated import RepeatedRows, hashed_rows
from ahofm.report import page
from ahofm.training.data import counted_rows
from ahofm.training.repeated import judged_copies
from ahofm.training.settings import Settings
from ahofm.tuning.classes import DISAGREEING_COPIES
from ahofm.tuning.copies import REPEATED_KAPPAS

pytestmark = pytest.mark.slow

DISTINCT = 120


def rows(seed=0):
    """Distinct rows with random targets of their own, beside an effect of b, and copies of them by another draw."""
    rng = np.random.default_rng(7)
    base = pd.DataFrame(
        {
            "a": rng.integers(0, 8, DISTINCT) / 4,
            "b": rng.integers(0, 6, DISTINCT).astype(float),
            "c": rng.choice(["x", "y", "z"], DISTINCT).astype(object),
            "d": rng.integers(0, 5, DISTINCT).astype(float),
        }
    )
    base.loc[:5, "a"] = np.nan
    own = base["b"] + 2.0 * rng.normal(size=DISTINCT)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, DISTINCT, 4 * DISTINCT)
    y = own.to_numpy()[drawn] + 0.3 * rng.normal(size=len(drawn))
    return base.iloc[drawn].reset_index(drop=True), y


X, Y = rows()
ENDS = np.quantile(Y, [0.3, 0.7])
LEVELS = np.digitize(Y, ENDS) + 1
NEW = pd.DataFrame({"a": [9.0, 0.1234], "b": [2.0, 3.0], "c": ["x", "never seen"], "d": [1.0, 1.0]})


@pytest.fixture(scope="module")
def fitted():
    return AHOFMRegressor(random_state=0).fit(X, Y)


def by_hand(table, target, given, kappa, model):
    """The credibility formula, row by row."""
    known = [tuple(map(str, row)) for row in table.itertuples(index=False)]
    before = model.predict(given) if not hasattr(model, "classes_") else model.predict_proba(given)[:, 1]
    found = []
    for row, own in zip(given.itertuples(index=False), before, strict=True):
        same = [value for key, value in zip(known, target, strict=True) if key == tuple(map(str, row))]
        found.append((sum(same) + kappa * own) / (len(same) + kappa) if same else own)
    return np.array(found)


def test_copies_of_rows_have_the_credibility_formula(fitted):
    memory = fitted.model_.repeated
    assert memory is not None
    assert len(memory.effects) == len(X.drop_duplicates())
    forgot, given = fitted.forget_rows(), pd.concat([X[:60], NEW], ignore_index=True)
    np.testing.assert_allclose(fitted.predict(given), by_hand(X, Y, given, memory.kappa, forgot), rtol=1e-9)
    np.testing.assert_array_equal(fitted.predict(NEW), forgot.predict(NEW))
    np.testing.assert_array_equal(fitted.predict(given[["c", "d", "a", "b"]]), fitted.predict(given))
    fresh, y = rows(seed=1)
    errors = [np.mean((model.predict(fresh) - y) ** 2) for model in (fitted, forgot)]
    assert errors[0] < 0.9 * errors[1], errors


def test_probabilities_of_copies():
    y = (Y.mean() < Y).astype(int)
    model = AHOFMClassifier(random_state=0).fit(X, y)
    kappa = model.model_.repeated.kappa
    expected = by_hand(X, y, X[:50], kappa, model.forget_rows())
    np.testing.assert_allclose(model.predict_proba(X[:50])[:, 1], expected, rtol=1e-9)


@pytest.fixture(scope="module")
def ordered():
    return AHOFMRegressor(family="ordinal", random_state=0).fit(X, LEVELS)


def test_expected_levels_of_copies(ordered):
    kappa = ordered.model_.repeated.kappa
    expected = by_hand(X, LEVELS, X[:50], kappa, ordered.forget_rows())
    np.testing.assert_allclose(ordered.predict(X[:50]), expected, rtol=1e-6)
    np.testing.assert_allclose(ordered.predict_proba(X[:50]) @ [1.0, 2.0, 3.0], expected, rtol=1e-6)


def test_probabilities_of_levels_of_copies(ordered):
    """Shares of the copies and probabilities without them: the level in the middle of three may be nearly certain."""
    memory, without = ordered.model_.repeated, ordered.forget_rows().predict_proba(X[:50])
    known = [tuple(map(str, row)) for row in X.itertuples(index=False)]
    for row, own, found in zip(known[:50], without, ordered.predict_proba(X[:50]), strict=True):
        counts = np.bincount([y - 1 for key, y in zip(known, LEVELS, strict=True) if key == row], minlength=3)
        expected = (counts + memory.kappa * own) / (counts.sum() + memory.kappa)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_array_equal(ordered.predict_proba(NEW), ordered.forget_rows().predict_proba(NEW))
    fresh, new = rows(seed=1)
    at = np.digitize(new, ENDS)
    own = [one.predict_proba(fresh)[np.arange(len(at)), at] for one in (ordered, ordered.forget_rows())]
    own.append(ordered.model_.family.probabilities(ordered.model_.eta(fresh))[np.arange(len(at)), at])
    losses = [-np.log(one).mean() for one in own]
    assert losses[0] < 0.8 * losses[1], losses
    assert losses[0] < losses[2], losses  # a shift of the linear predictor alone
    np.testing.assert_allclose(ordered.log_likelihood(fresh, at + 1), np.log(own[0]).sum(), rtol=1e-9)
    assert ordered.score(fresh, at + 1) > ordered.forget_rows().score(fresh, at + 1)


def test_intervals_and_draws_of_levels_of_copies(ordered):
    middle = np.flatnonzero(ordered.predict_proba(X)[:, 1] > 0.98)
    certain = X.iloc[middle[:20]]
    assert len(certain)
    ends = ordered.predict_interval(certain, kind="new")
    free = ordered.forget_rows().predict_interval(certain, kind="new")
    assert (ends[:, 1] - ends[:, 0]).mean() < 0.5 * (free[:, 1] - free[:, 0]).mean()
    assert (ordered.sample(certain, 50, random_state=0) == 2.0).mean() > 0.95


def test_an_offset_shifts_the_odds_of_copies(ordered):
    odds = []
    for offset in (0.0, 0.7):
        below = np.cumsum(ordered.predict_proba(X[:20], offset=np.full(20, offset)), axis=1)[:, :-1]
        odds.append(np.log(below) - np.log1p(-below))
    np.testing.assert_allclose(odds[0] - odds[1], 0.7, rtol=1e-6)


def test_levels_of_copies_are_saved(ordered, tmp_path):
    ordered.save(tmp_path / "model")
    np.testing.assert_allclose(load(tmp_path / "model").predict_proba(X), ordered.predict_proba(X), atol=1e-7)
    good = ordered.model_.repeated
    for bad in (good.levels[:, :2], -good.levels, good.levels[1:]):
        with pytest.raises(ValueError, match="levels of copies"):
            replace(ordered.model_, repeated=replace(good, levels=bad))


def test_intervals_are_as_wide_as_errors_with_copies(fitted):
    """They were 5.2 standard deviations of the errors when those of validation rows were taken without copies."""
    fresh, new = rows(seed=1)
    low, high = fitted.predict_interval(fresh, kind="new").T
    assert np.mean(high - low) < 4.3 * np.std(fitted.predict(fresh) - new)
    assert np.mean((low <= new) & (new <= high)) > 0.93


def test_kappa_is_the_best_for_validation_rows(fitted):
    """Against loops over rows and copies, with linear predictors as they might come from cross-validation."""
    table, target = counted_rows(read_table(X), Y, None, None, Gaussian())
    data = prepared(table, target, Gaussian(), Settings(), len(Y))
    rng = np.random.default_rng(1)
    numbers = rng.permutation(len(data.rows.y))[:80]
    eta = rng.normal(size=(80, 1))
    found = judged_copies(data, Settings(), numbers, data.rows.weight[numbers], eta)
    keys = [tuple(str(column[i]) for column in data.table.columns) for i in range(len(data.rows.y))]
    losses = []
    for kappa in np.geomspace(*REPEATED_KAPPAS):
        total = 0.0
        for number, own in zip(numbers, eta[:, 0], strict=True):
            same = [i for i, key in enumerate(keys) if key == keys[number]]
            count = sum(data.rows.weight[i] for i in same)
            if count > 1:
                others = sum(data.rows.weight[i] * data.rows.y[i] for i in same) - data.rows.y[number]
                mean = (others + kappa * own) / (count - 1 + kappa)
                total += data.rows.weight[number] * (data.rows.y[number] - mean) ** 2
        losses.append(total)
    assert found.kappa == pytest.approx(np.geomspace(*REPEATED_KAPPAS)[int(np.argmin(losses))])


def classes_of_copies(disagreeing, seed=0):
    """Rows of two classes that all have one copy, of the same class but for some; with linear predictors."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"a": np.repeat(np.arange(60.0), 2), "b": np.repeat(rng.normal(size=60), 2)})
    y = np.repeat(rng.integers(0, 2, 60), 2).astype(float)
    y[: 2 * disagreeing : 2] = 1.0 - y[: 2 * disagreeing : 2]
    read, target = counted_rows(read_table(table), y, None, None, Bernoulli())
    data = prepared(read, target, Bernoulli(), Settings(), len(y))
    return data, np.arange(len(data.rows.y)), rng.normal(size=(len(data.rows.y), 1))


@pytest.mark.parametrize("disagreeing", [0, 3])
def test_kappa_of_two_classes_allows_for_rows_unlike_their_copies(disagreeing):
    """Against loops. Copies that all agree left kappa at its least value, and one new row that differs cost 7 nats."""
    data, numbers, eta = classes_of_copies(disagreeing)
    found = judged_copies(data, Settings(), numbers, data.rows.weight[numbers], eta)
    keys = [tuple(str(column[i]) for column in data.table.columns) for i in numbers]
    totals, kappas = [], np.geomspace(*REPEATED_KAPPAS)
    for kappa in kappas:
        total = 0.0
        for i in numbers:
            same = [j for j in numbers if keys[j] == keys[i]]
            count = sum(data.rows.weight[j] for j in same)
            others = sum(data.rows.weight[j] * data.rows.y[j] for j in same) - data.rows.y[i]
            p = (others + kappa / (1.0 + np.exp(-eta[i, 0]))) / (count - 1 + kappa)
            total -= data.rows.weight[i] * np.log(p if data.rows.y[i] else 1.0 - p)
        q = 0.3  # any: it does not matter
        totals.append(total - DISAGREEING_COPIES * (np.log(kappa * q / (1.0 + kappa)) - np.log(q)))
    assert found.kappa == pytest.approx(kappas[int(np.argmin(totals))])
    assert found.kappa > 3.0 * kappas[0]


@pytest.mark.parametrize(
    "options",
    [{"order": 2}, {"rank": 2}, {"factor_prior": "spline"}, {"monotonic_cst": {"b": 1}}, {"exclude": ["c"]}],
    ids=str,
)
def test_not_where_interactions_are_restricted(options):
    assert AHOFMRegressor(random_state=0, **options).fit(X, Y).model_.repeated is None


def test_not_where_they_do_not_help():
    y = X["b"].to_numpy() + np.random.default_rng(5).normal(size=len(X))
    assert AHOFMRegressor(random_state=0).fit(X, y).model_.repeated is None
    distinct = X.drop_duplicates()
    assert AHOFMRegressor(random_state=0).fit(distinct, Y[distinct.index]).model_.repeated is None
    assert AHOFMRegressor(random_state=0).fit(X, Y, groups=np.arange(len(X)) // 4).model_.repeated is None


def test_hashes_tell_rows_apart_and_stay_the_same(fitted):
    books = fitted.model_.encoder.codebooks
    cells = {"a": [0.0, -0.0, np.nan, 1.5], "b": [1.0, 1.0, 2.0, 3.0], "c": ["x", "x", None, "z"], "d": 2.0}
    found = hashed_rows(books, read_table(pd.DataFrame(cells)))
    assert found[0] == found[1]
    assert found.tolist() == [11464321882894065980, 11464321882894065980, 12779869871385438095, 8588816104674857238]
    many = pd.DataFrame({"a": np.arange(20_000) / 7, "b": 1.0, "c": "x", "d": 2.0})
    assert len(np.unique(hashed_rows(books, read_table(many)))) == 20_000


def test_said_saved_and_explained(fitted, tmp_path):
    given = pd.concat([X[:8], NEW], ignore_index=True)
    assert "repeated rows: copies of training rows have effects of their own" in str(summary(fitted))
    fitted.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(given), fitted.predict(given))
    eta, why = fitted.predict_eta(given), shapley_values(fitted, given)
    np.testing.assert_allclose(why.base + why.values.sum(axis=1), eta, rtol=1e-9)
    parts = contributions(fitted, given)
    np.testing.assert_allclose(parts.intercept + parts.values.sum(axis=1) + parts.rest, eta, rtol=1e-9)
    np.testing.assert_allclose(
        parts.rest[:8],
        fitted.predict_eta(X[:8]) - fitted.forget_rows().predict_eta(X[:8]),
    )
    assert fitted.model_.at_order(1).repeated is None
    assert fitted.rescale_effect("b", factor=0.5).model_.repeated is None
    assert "copies of training rows" in page(fitted)


def test_bands_are_those_of_the_model_without(fitted):
    forgot = fitted.forget_rows()
    _, std = fitted.predict_eta(X[:10], return_std=True)
    np.testing.assert_allclose(std, forgot.predict_eta(X[:10], return_std=True)[1], rtol=1e-9)


def test_exports_ask_to_forget_them(fitted, tmp_path, capsys):
    for refuse in (to_python, rating_tables):
        with pytest.raises(ValueError, match=r"copies of training rows.*forget_rows"):
            refuse(fitted)
    assert "def " in to_python(fitted.forget_rows())
    fitted.save(tmp_path / "model.ahofm")
    command = ["export", str(tmp_path / "model.ahofm"), "--to", "python", "--out", str(tmp_path / "model.py")]
    assert run(command) != 0
    assert "--forget-rows" in capsys.readouterr().err
    assert run([*command, "--forget-rows"]) == 0
    assert (tmp_path / "model.py").exists()


def test_parts_must_fit(fitted):
    good = fitted.model_.repeated
    for bad in (
        replace(good, hashes=good.hashes[:-1]),
        replace(good, hashes=good.hashes[::-1]),
        replace(good, hashes=good.hashes + 0.5),
        replace(good, kappa=0.0),
    ):
        with pytest.raises(ValueError, match="hashes"):
            replace(fitted.model_, repeated=bad)
    one = RepeatedRows.of(np.array([2**63 + 5], dtype=np.uint64), np.array([1.0]), 1.0)
    one.check((), Gaussian())
    assert one._keys.tolist() == [2**63 + 5]


@pytest.mark.parametrize(("family", "pairs"), [(Bernoulli(), 18), (Gaussian(), 40)])
def test_copies_of_a_small_share_of_the_rows_count_if_they_agree(family, pairs):
    """Of 1,000 rows: in data on yeast 3 % are copies whose classes agree, in wine 8 %; they were not looked at."""
    rng = np.random.default_rng(3)
    n_distinct = 1_000 - pairs
    y = rng.integers(0, 2, n_distinct).astype(float)
    base = pd.DataFrame({"a": rng.normal(size=n_distinct), "b": rng.normal(size=n_distinct)})
    table = pd.concat([base, base[:pairs]], ignore_index=True)
    read, target = counted_rows(read_table(table), np.append(y, y[:pairs]), None, None, family)
    data = prepared(read, target, family, Settings(), len(table))
    numbers = np.arange(len(data.rows.y))
    found = judged_copies(data, Settings(), numbers, data.rows.weight, np.zeros((len(numbers), 1)))
    assert found is not None
    assert found.kappa < 0.5


@pytest.mark.parametrize("pairs", [1, 5])
def test_a_handful_of_copies_is_not_looked_at(pairs):
    """A model with effects of copies cannot be exported, and so few rows cannot gain by them."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 1_000 - pairs).astype(float)
    base = pd.DataFrame({"a": rng.normal(size=len(y)), "b": rng.normal(size=len(y))})
    table = pd.concat([base, base[:pairs]], ignore_index=True)
    read, target = counted_rows(read_table(table), np.append(y, y[:pairs]), None, None, Bernoulli())
    data = prepared(read, target, Bernoulli(), Settings(), len(table))
    numbers = np.arange(len(data.rows.y))
    assert judged_copies(data, Settings(), numbers, data.rows.weight, np.zeros((len(numbers), 1))) is None
