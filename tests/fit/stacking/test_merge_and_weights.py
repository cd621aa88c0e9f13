"""A weighted mean of fits is one model, and its weights are those that predict validation rows."""

import numpy as np
import pandas as pd
import pytest

from ahofm.backends import Response
from ahofm.columns import Categorical, Encoder, Linear, RandomWalk, Spline
from ahofm.families import Bernoulli, Gaussian, Multinomial, Poisson, Units
from ahofm.fit import Settings, fit_model
from ahofm.fit.solvers.variational.posterior import StageResult
from ahofm.fit.stacking import ensemble
from ahofm.fit.stacking.ensemble import merged_linear_predictors
from ahofm.fit.stacking.weights import Scores, predict, stacking_weights
from ahofm.kernels import Tables
from ahofm.model import Predictor
from ahofm.training.members import interactions_choice
from ahofm.training.validation import folds, stratified, targets_differ, validation_split
from ahofm.tuning.classes import MEDIAN_SCALED_ETA
from tests import brute_force


@pytest.fixture(scope="module")
def encoded():
    """Codebooks of every sort, one of a constant column, and codes with missing and unseen values."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "level": rng.choice(["a", "b", "c"], 40),
            "random_walk": rng.integers(0, 6, 40).astype(float),
            "constant": np.ones(40),
            "curve": np.where(rng.uniform(size=40) < 0.2, np.nan, np.round(rng.normal(size=40), 1)),
            "line": rng.normal(size=40),
        }
    )
    kinds = {"level": Categorical(), "random_walk": RandomWalk(), "curve": Spline(n_basis=6), "line": Linear()}
    with pytest.warns(UserWarning, match="constant"):
        encoder = Encoder.learn(frame, kinds)
    new = frame.iloc[:12].copy()
    new.loc[0, "level"] = "unseen"
    return encoder.codebooks, encoder.encode(new)


def varying(books):
    return [book for book in books if book.size > 0]


def values_at_codes(book, coef, level):
    values = np.asarray(book.basis @ coef)
    values[: book.neutral_code] += level
    return values


def random_snapshot(rng, books, ranks):
    width = 1 + sum(ranks.values())
    coef = [rng.normal(size=(book.size, width)) for book in varying(books)]
    level = [rng.normal(size=width) for _ in coef]
    for book, own, shift in zip(varying(books), coef, level, strict=True):  # main effects have mean zero
        shift[0] = -(book.mass / book.mass.sum()) @ (book.basis @ own[:, 0])
    return snapshot_of(books, ranks, float(rng.normal()), coef, level)


def snapshot_of(books, ranks, intercept, coef, level):
    values = map(values_at_codes, varying(books), coef, level)
    return StageResult(Predictor.of(ranks, intercept, coef, level), 1.0, tuple(values), ())


def merged_one(parts, books, shift=0.0, factor=1.0, constant=0.0):
    """For a single linear predictor."""
    units = Units(0.0, 1.0, (shift,), (factor,))
    (terms,) = merged_linear_predictors(
        [(weight, (part,)) for weight, part in parts],
        books,
        [j for j, book in enumerate(books) if book.size],
        units,
        np.array([constant]),
    )
    return terms.orders, terms


def without_factors(books, stage_result, gone):
    """The snapshot with zeros in the place of some of its functions."""
    own = stage_result.predictor
    kept = ~np.isin(np.arange(own.orders.width), gone)
    coef, level = [part * kept for part in own.coef], [part * kept for part in own.centring]
    return snapshot_of(books, own.orders, own.intercept, coef, level)


def tables_of(intercept, ranks, values, loadings=None):
    values = np.vstack(values)
    factors, start = {}, 1
    for order, rank in ranks.items():
        factors[order] = values[:, start : start + rank]
        start += rank
    return Tables(intercept, values[:, 0], factors, loadings)


def eta_of_snapshot(stage_result, books, codes):
    """Subset by subset; constant columns are not in it."""
    keep = [j for j, book in enumerate(books) if book.size > 0]
    inner = type(codes)(tuple(codes.columns[j] for j in keep), tuple(codes.sizes[j] for j in keep))
    own = stage_result.predictor
    return brute_force.eta(inner, [tables_of(own.intercept, own.orders, stage_result.values)])[:, 0]


def eta_of_terms(ranks, terms, books, codes):
    values = list(map(values_at_codes, books, terms.coef, terms.centring))
    return brute_force.eta(codes, [tables_of(terms.intercept, ranks, values, terms.loadings)])[:, 0]


@pytest.mark.parametrize(
    "ranks",
    [
        [{}],
        [{2: 3}],
        [{}, {2: 2}],
        [{2: 3, 3: 2}, {2: 1}, {}],
        [{2: 2, 3: 1}, {2: 3, 4: 2}],
        [{3: 2}, {3: 1, 2: 2}],
    ],
    ids=str,
)
def test_the_merged_model_predicts_the_weighted_mean(encoded, ranks):
    books, codes = encoded
    rng = np.random.default_rng(1)
    weights = 0.9 * rng.dirichlet(np.ones(len(ranks)))
    parts = [(w, random_snapshot(rng, books, own)) for w, own in zip(weights, ranks, strict=True)]
    all_ranks, terms = merged_one(parts, books, shift=-1.5, factor=2.5, constant=0.7)
    mean = sum(w * eta_of_snapshot(part, books, codes) for w, part in parts) + 0.1 * 0.7
    expected = -1.5 + 2.5 * mean
    np.testing.assert_allclose(eta_of_terms(all_ranks, terms, books, codes), expected, rtol=1e-10, atol=1e-10)
    assert all_ranks == {d: total for d in (2, 3, 4) if (total := sum(own.get(d, 0) for own in ranks))}


def test_constant_columns_have_no_functions(encoded):
    books, _ = encoded
    _, terms = merged_one([(1.0, random_snapshot(np.random.default_rng(0), books, {2: 2}))], books)
    assert [coef.shape for coef in terms.coef] == [(book.size, 3) for book in books]
    assert books[2].size == 0
    np.testing.assert_array_equal(terms.centring[2], np.zeros(3))


def test_factors_of_zeros_are_dropped(encoded):
    books, codes = encoded
    rng = np.random.default_rng(2)
    first = without_factors(books, random_snapshot(rng, books, {2: 3, 3: 2}), gone=[2, 5])
    second = random_snapshot(rng, books, {2: 1})
    parts = [(0.5, first), (0.5, second)]
    ranks, terms = merged_one(parts, books)
    assert ranks == {2: 3, 3: 1}
    expected = 0.5 * eta_of_snapshot(first, books, codes) + 0.5 * eta_of_snapshot(second, books, codes)
    np.testing.assert_allclose(eta_of_terms(ranks, terms, books, codes), expected, rtol=1e-10, atol=1e-10)


def test_orders_without_any_factor_are_dropped(encoded):
    books, codes = encoded
    stage_result = without_factors(books, random_snapshot(np.random.default_rng(3), books, {2: 2, 3: 2}), gone=[1, 2])
    ranks, terms = merged_one([(1.0, stage_result)], books)
    assert ranks == {3: 2}
    expected = eta_of_snapshot(stage_result, books, codes)
    np.testing.assert_allclose(eta_of_terms(ranks, terms, books, codes), expected, rtol=1e-10, atol=1e-10)


def test_factors_of_too_few_columns_are_dropped(encoded):
    """A factor of order 3 that only two columns have values for."""
    books, _ = encoded
    stage_result = random_snapshot(np.random.default_rng(4), books, {3: 2})
    own = stage_result.predictor
    for coef, level in zip(own.coef[2:], own.centring[2:], strict=True):
        coef[:, 1] = level[1] = 0.0
    stage_result = snapshot_of(books, own.orders, own.intercept, own.coef, own.centring)
    assert merged_one([(1.0, stage_result)], books)[0] == {3: 1}


def test_predictors_share_their_ranks(encoded):
    """A factor that is nothing in one of them stays when it is something in the other."""
    books, codes = encoded
    rng = np.random.default_rng(6)
    first = without_factors(books, random_snapshot(rng, books, {2: 3}), gone=[1, 2])
    second = without_factors(books, random_snapshot(rng, books, {2: 3}), gone=[2])
    units = Units(0.0, 1.0, (0.5, -0.5), (2.0, 3.0))
    terms = merged_linear_predictors(
        [(0.8, (first, second))], books, [j for j, book in enumerate(books) if book.size], units, np.array([1.0, 2.0])
    )
    ranks = terms[0].orders
    assert ranks == {2: 2}
    for one, part, shift, factor, constant in zip(
        terms, (first, second), units.shift, units.factor, (1, 2), strict=True
    ):
        expected = shift + factor * (0.8 * eta_of_snapshot(part, books, codes) + 0.2 * constant)
        np.testing.assert_allclose(eta_of_terms(ranks, one, books, codes), expected, rtol=1e-10, atol=1e-10)


def raw_values(book, codes):
    """Values that have these codes; all supports here are exact."""
    text = book.edges is None
    known = [*book.support.values, *([np.nan] if book.learns_missing else []), "unseen" if text else np.nan]
    return np.array(known, dtype=object if text else float)[codes]


@pytest.mark.parametrize("ranks", [{}, {2: 3}, {2: 2, 3: 1}], ids=str)
def test_a_snapshot_predicts_at_raw_values(encoded, ranks):
    books, codes = encoded
    stage_result = random_snapshot(np.random.default_rng(5), books, ranks)
    raw = [raw_values(book, column) for book, column in zip(books, codes.columns, strict=True) if book.size > 0]
    predicted = predict((stage_result,), varying(books), raw)[:, 0]
    np.testing.assert_allclose(predicted, eta_of_snapshot(stage_result, books, codes), rtol=1e-10, atol=1e-10)


N = 500


def scores_of(errors, orders=None, seed=0, weight=None):
    """Predictions with errors of those standard deviations, (candidates, orders), independent of each other."""
    rng = np.random.default_rng(seed)
    errors = np.asarray(errors, dtype=float)
    target = rng.normal(size=N)
    predicted = target[:, None, None] + errors * rng.normal(size=(N, *errors.shape))
    orders = tuple(range(1, errors.shape[1] + 1)) if orders is None else orders
    return gaussian_scores(orders, predicted, target, np.ones(N) if weight is None else weight)


def gaussian_scores(orders, predicted, target, weight):
    return Scores(orders, predicted[:, np.newaxis], Response(Gaussian(), target, weight, None))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("order", [1, 2, 3])
def test_shares_are_those_of_a_mean(seed, order):
    rng = np.random.default_rng(seed)
    scores = scores_of(rng.uniform(0.2, 1.0, size=(3, 3)), seed=seed, weight=rng.exponential(size=N))
    shares = scores.stacking_weights(order)
    assert 0.5 < sum(shares.values()) < 1.0 + 1e-12
    assert min(shares.values()) > 0.0
    assert {candidate for candidate, _ in shares} <= {0, 1, 2}
    assert max(below for _, below in shares) <= order


@pytest.mark.parametrize("good", [0, 1, 2])
def test_the_only_good_how_has_it_all(good):
    errors = np.full((3, 2), 2.0)
    errors[good, 1] = 0.05
    assert scores_of(errors).stacking_weights(2) == {(good, 2): 1.0}


def test_lower_orders_count_when_they_are_better():
    assert scores_of([[0.05, 2.0, 2.0]]).stacking_weights(3) == {(0, 1): 1.0}
    assert scores_of([[2.0, 0.05, 2.0], [2.0, 2.0, 2.0]]).stacking_weights(3) == {(0, 2): 1.0}


def test_shares_know_nothing_of_higher_orders():
    shares = scores_of([[1.0, 0.05], [0.5, 1.0]]).stacking_weights(1)
    assert set(shares) <= {(0, 1), (1, 1)}
    assert shares[1, 1] > 0.5


def test_orders_may_have_gaps():
    assert scores_of([[2.0, 2.0, 0.05]], orders=(1, 3, 5)).stacking_weights(5) == {(0, 5): 1.0}
    assert scores_of([[2.0, 0.05, 0.05]], orders=(1, 3, 5)).stacking_weights(4) == {(0, 3): 1.0}


def test_equally_good_ways_share_alike():
    shares = scores_of([[0.5], [0.5]]).stacking_weights(1)
    assert shares[0, 1] == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(("candidates", "orders"), [(2, 2), (3, 3), (3, 8)])
def test_predictions_that_are_all_the_same_still_have_shares(candidates, orders):
    same = scores_of([[0.5]])
    predicted = np.tile(same.predicted, (1, 1, candidates, orders))
    shares = Scores(tuple(range(1, orders + 1)), predicted, same.response).stacking_weights(orders)
    assert 0.5 < sum(shares.values()) < 1.0 + 1e-12


def test_where_columns_say_little_a_constant_counts():
    """The best multiple of a prediction with as much noise as signal is a half; of pure noise, nothing."""
    assert sum(scores_of([[1.0], [1.0]]).stacking_weights(1).values()) == pytest.approx(2 / 3, abs=0.1)
    noise = scores_of([[1.0], [1.0]])
    target = noise.response.y[::-1].copy() + 5.0
    unrelated = gaussian_scores(noise.orders, noise.predicted[:, 0], target, noise.response.weight)
    assert sum(unrelated.stacking_weights(1).values()) == pytest.approx(0.05, abs=0.05)


def test_a_mixture_is_no_worse_than_its_best_member():
    scores = scores_of([[0.9, 0.6], [0.8, 0.7], [0.9, 0.65]])
    shares = scores.stacking_weights(2)
    mean = sum(share * scores.predicted[:, 0, candidate, order - 1] for (candidate, order), share in shares.items())
    mean += (1.0 - sum(shares.values())) * scores.response.y.mean()
    assert 0.5 * np.mean((mean - scores.response.y) ** 2) <= scores.losses().min()


def test_an_order_that_gains_nothing_is_not_supported():
    """A mixture of more members is never worse on the rows it was made for."""
    rng = np.random.default_rng(7)
    target = rng.normal(size=N)
    below = target + rng.normal(size=(3, N))
    above = below + 0.1 * rng.normal(size=(3, N))
    better = target + 0.5 * rng.normal(size=(3, N))
    predicted = np.stack([below, above, better], axis=2).transpose(1, 0, 2)
    scores = gaussian_scores((1, 2, 3), predicted, target, np.ones(N))
    assert scores.supported(2) == scores.pruned(2) == 1
    assert scores.supported(3) == scores.pruned(3) == 3
    assert {order for _, order in scores.stacking_weights(2)} == {1}
    second, third = scores.gains()
    assert (second.order, second.over, third.order, third.over, third.rows) == (2, 1, 3, 2, N)
    assert abs(second.gain) < 3 * second.error
    assert third.gain > 3 * third.error


def test_a_gain_is_a_share_of_the_loss_without_the_order():
    target = np.linspace(-1.0, 1.0, N)
    predicted = np.stack([np.zeros(N), target], axis=1)[:, np.newaxis]
    (gain,) = gaussian_scores((1, 2), predicted, target, np.ones(N)).gains()
    assert gain.gain == pytest.approx(1.0, abs=0.1)
    assert "better than order 1: mean loss 100" in str(gain)


@pytest.mark.filterwarnings("error")
def test_orders_with_losses_beyond_double_precision_are_compared(monkeypatch):
    rng = np.random.default_rng(3)
    eta = rng.normal(size=N)
    predicted = np.stack([0.5 * eta, eta], axis=1)[:, np.newaxis, np.newaxis]
    predicted[:3, ..., 1] = [[[400.0]], [[700.0]], [[1e4]]]
    response = Response(Poisson(), rng.poisson(np.exp(eta)).astype(float), np.ones(N), None)
    scores = Scores((1, 2), predicted, response)
    monkeypatch.setattr(Scores, "_best_mixture", lambda _, order: {(0, order): 1.0})
    (gain,) = scores.gains()
    assert gain.gain < 0.0
    assert np.isfinite([gain.gain, gain.error]).all()
    assert scores.supported(2) == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("extreme", [100.0, 300.0, 600.0, 2000.0])
def test_candidates_that_extrapolate_far_do_not_keep_weights_from_the_minimum(extreme):
    """Poisson losses of a few rows overflow at equal weights, where iterated least squares would not converge."""
    rng = np.random.default_rng(4)
    eta = rng.normal(size=N)
    predicted = np.repeat(eta[:, None, None, None], 2, axis=2).repeat(2, axis=3) + 0.1 * rng.normal(size=(N, 1, 2, 2))
    predicted[:2, 0, 0, 1] = [extreme, -extreme]
    scores = Scores((1, 2), predicted, Response(Poisson(), rng.poisson(np.exp(eta)).astype(float), np.ones(N), None))
    assert scores.survivors(1) <= {0, 1}
    for order in (1, 2):
        weights = scores._best_mixture(order)
        mean = sum(weight * predicted[:, 0, candidate, below - 1] for (candidate, below), weight in weights.items())
        assert np.abs(mean - eta).max() < 1.0
        assert 0.9 < sum(weights.values()) < 1.0 + 1e-12


def test_rows_without_weight_do_not_count():
    weight = np.ones(N)
    weight[: N // 2] = 0.0
    scores = scores_of([[2.0], [0.05]], weight=weight)
    scores.predicted[: N // 2, :, 1] += 100.0
    assert scores.stacking_weights(1) == {(1, 1): 1.0}


def test_losses_are_weighted_means():
    predicted = np.array([[[1.0, 0.0]], [[3.0, 1.0]]])
    scores = gaussian_scores((1, 2), predicted, np.zeros(2), np.array([3.0, 1.0]))
    np.testing.assert_allclose(scores.losses(), [[1.5, 0.125]])


def test_shares_minimise_the_losses_of_any_family():
    """Against a grid of shares of two candidates."""
    rng = np.random.default_rng(11)
    eta = rng.normal(size=2000)
    predicted = np.stack([eta + rng.normal(size=2000), eta + 0.7 * rng.normal(size=2000)], axis=1)[:, None, :, None]
    response = Response(Poisson(), rng.poisson(np.exp(eta)).astype(float), rng.exponential(size=2000), None)
    shares = Scores((1,), predicted, response).stacking_weights(1)

    def loss(a, b):
        mean = a * predicted[:, :, 0, 0] + b * predicted[:, :, 1, 0] + (1 - a - b) * response.constants
        return response.mean_of(response.derivatives(mean).value)

    grid = np.linspace(0.0, 1.0, 51)
    best = min((loss(a, b), a, b) for a in grid for b in grid if a + b <= 1.0)
    assert shares[0, 1] == pytest.approx(best[1], abs=0.04)
    assert shares[1, 1] == pytest.approx(best[2], abs=0.04)


def test_shares_with_several_predictors():
    rng = np.random.default_rng(12)
    eta = 2.0 * rng.normal(size=(1500, 3))
    y = (eta + rng.gumbel(size=eta.shape)).argmax(axis=1).astype(float)
    good, bad = eta, rng.normal(size=eta.shape)
    scores = Scores((1,), np.stack([good, bad], axis=2)[..., None], Response(Multinomial(3), y, np.ones(1500), None))
    assert scores.stacking_weights(1) == {(0, 1): pytest.approx(1.0, abs=0.1)}


@pytest.mark.parametrize("n", [3, 100, 3000])
def test_few_rows_are_each_predicted_once(n):
    rest = np.concatenate([rest for _, rest in folds(n, seed=0)])
    np.testing.assert_array_equal(np.sort(rest), np.arange(n))


@pytest.mark.parametrize("n", [3001, 10_002])
def test_of_many_rows_a_fifth_is_predicted(n):
    ((_, rest),) = folds(n, seed=0)
    assert len(rest) == pytest.approx(n / 5, abs=1)


@pytest.mark.parametrize("n", [3, 100, 3000, 3001])
def test_rows_are_either_fitted_or_predicted(n):
    for rows, rest in folds(n, seed=1):
        np.testing.assert_array_equal(np.sort(np.concatenate([rows, rest])), np.arange(n))


@pytest.mark.parametrize("n", [100, 5000])
def test_folds_depend_on_the_seed_alone(n):
    first, again, other = folds(n, seed=3), folds(n, seed=3), folds(n, seed=4)
    for (rows, rest), (rows_again, rest_again) in zip(first, again, strict=True):
        np.testing.assert_array_equal(rows, rows_again)
        np.testing.assert_array_equal(rest, rest_again)
    assert not np.array_equal(first[0][1], other[0][1])


@pytest.mark.filterwarnings("ignore:the fit stopped")
def test_copies_of_a_how_share_its_weight(monkeypatch):
    """Three members of a candidate that counts 80 % count 80 % together."""
    seen = []

    def spy(parts, *rest):
        seen.append(parts)
        return merged_linear_predictors(parts, *rest)

    monkeypatch.setattr(ensemble, "merged_linear_predictors", spy)
    monkeypatch.setattr(
        "ahofm.fit.stacking.weights._weights_at",
        lambda scores, order, count, judged: {(0, order): 0.8, (1, order): 0.15},
    )
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(150, 3))
    fit_model(X, X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=150), settings=Settings(order=2, n_members=4, max_iter=3))
    mains, pairs = ([weight for weight, _ in parts] for parts in seen)
    np.testing.assert_allclose(mains, [0.95 / 3] * 3)  # main effects of both candidates are the same
    np.testing.assert_allclose(pairs, [0.8 / 3] * 3 + [0.15])


@pytest.mark.parametrize(
    ("n", "told", "fitted", "weighing"),
    [
        (150_000, {"dispersed": True}, 8_000, 20_000),
        (150_000, {"dispersed": False}, 16_000, 100_000),  # a row of counts or events tells less
        (150_000, {"dispersed": False, "rare": True}, 48_000, 100_000),
        (60_000, {"dispersed": False, "rare": True}, 20_000, 40_000),
        (30_000, {"dispersed": False, "rare": True}, 16_000, 14_000),
        (15_000, {"dispersed": False}, 12_000, 3_000),
    ],
)
def test_rows_that_weigh_ways(n, told, fitted, weighing):
    ((rows, rest),) = validation_split(n, 0, **told)
    assert (len(rows), len(rest)) == (fitted, weighing)
    assert not np.intersect1d(rows, rest).size
    assert max(rows.max(), rest.max()) < n


@pytest.mark.parametrize("n", [60, 5_000, 60_000])
@pytest.mark.parametrize("events", [2, 3])
def test_stratified_parts_have_events_on_both_sides(n, events):
    y = np.zeros(n)
    y[np.random.default_rng(n + events).choice(n, events, replace=False)] = 1.0
    parts = stratified(y, seed=0, dispersed=False, rare=True)
    assert targets_differ(parts, y)
    plain = validation_split(n, 0, dispersed=False, rare=True)
    assert [(len(rows), len(rest)) for rows, rest in parts] == [(len(rows), len(rest)) for rows, rest in plain]
    for rows, rest in parts:
        assert not np.intersect1d(rows, rest).size
    assert not targets_differ(stratified(np.eye(1, n, 0)[0], seed=0, dispersed=False, rare=True), np.eye(1, n, 0)[0])


def test_candidates_that_go_on():
    """With stacking weight, or for one ensemble member close to the best; one alone where pairs do not help."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=1000)
    noise = rng.normal(size=(1000, 3))
    mains = np.broadcast_to(0.5 * y[:, np.newaxis] + 0.5 * noise[:, :1], (1000, 3))  # the same for all candidates
    pairs = y[:, np.newaxis] + noise * [0.2, 0.201, 3.0]
    response = Response(Gaussian(), y, np.ones(1000), None)
    scores = Scores((1, 2), np.stack([mains, pairs], axis=2)[:, np.newaxis], response)
    assert scores.survivors(3) == {0, 1}
    assert scores.survivors(1) == {0, 1}
    behind = Scores((1, 2), np.stack([mains, pairs * [1.0, 1.5, 1.0]], axis=2)[:, np.newaxis], response)
    assert behind.survivors(1) == {0}
    useless = Scores((1, 2), np.stack([mains, mains + np.array([0.5, 0.4, 0.6])], axis=2)[:, np.newaxis], response)
    assert useless.survivors(3) == {1}


def test_shared_main_effects_go_to_a_candidate_that_is_fitted_anyway():
    rng = np.random.default_rng(1)
    y = rng.normal(size=600)
    mains = np.broadcast_to(0.6 * y[:, np.newaxis], (600, 2))
    pairs = y[:, np.newaxis] + rng.normal(size=(600, 2)) * [4.0, 0.2]
    response = Response(Gaussian(), y, np.ones(600), None)
    scores = Scores((1, 2), np.stack([mains, pairs], axis=2)[:, np.newaxis], response)
    weights = stacking_weights(scores, (1, 2), 3)
    assert {candidate for by_order in weights.values() for candidate, _ in by_order} == {1}


def two_class_scores(wrong_rows):
    """Two candidates that predict all validation rows right but for some, with timid linear predictors."""
    y = (np.arange(300) % 2).astype(float)
    sides = np.where(y > 0.0, 4.0, -4.0)
    sides[:wrong_rows] *= -1.0
    predicted = np.stack([sides, 0.9 * sides], axis=1)[:, None, :, None]
    return Scores((1,), predicted, Response(Bernoulli(), y, np.ones(300), None))


def test_two_classes_that_do_not_overlap_are_told_apart_with_more_certainty():
    sharp, timid = two_class_scores(0), two_class_scores(3)
    assert np.median(np.abs(sharp.stacked_eta())) == pytest.approx(MEDIAN_SCALED_ETA)
    assert sum(timid.stacking_weights(1).values()) <= 1.0 + 1e-9
    before = np.logaddexp(0.0, -4.0)
    assert sharp.response.mean_of(sharp.response.derivatives(sharp.stacked_eta()).value) < 0.01 * before


def test_a_stack_that_is_scaled_up_says_so():
    choice = interactions_choice([(1.2, "spline"), (0.6, "random_walk")], "")
    assert choice.value == "67% spline, 33% random_walk, times 1.8"
