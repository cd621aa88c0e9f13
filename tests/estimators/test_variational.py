"""The default fit: learned smoothing parameters, merged members, and whatever data it may meet."""

import _thread
import signal
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import ahofm
from ahofm import AHOFMRegressor, Categorical, Cyclic, Linear, RandomWalk, Spline, SplineIID
from ahofm.model import Reason
from ahofm.model.shares import variances
from tests.estimators.test_models import by_subsets

ONE = {"factor_prior": "spline", "n_members": 1, "random_state": 0}


def simulated(n, seed=0, p=6, snr=2.0, pair=1.5, triple=3.0):
    """Main effects of x0, x1, x2, a pair (x0, x3), a triple (x1, x2, x4); x5 means nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, p))
    main = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 - 1 / 3 + 0.5 * X[:, 2]
    two = pair * np.sin(2 * X[:, 0]) * X[:, 3]
    three = triple * X[:, 1] * (X[:, 2] ** 2 - 1 / 3) * np.sin(2 * X[:, 4])
    truth = main + two + three
    return X, truth + rng.normal(size=n) * truth.std() / np.sqrt(snr), (main, two, three)


def order_shares(model):
    found = variances(model.tables()[0], model.encoder.codebooks)
    return {order: own / found.total for order, own in found.orders.items()}


@pytest.mark.slow
def test_additive_data_has_no_interactions():
    X, y, _ = simulated(1500, pair=0.0, triple=0.0, snr=10.0)
    model = AHOFMRegressor(random_state=0).fit(X, y)
    shares = order_shares(model.model_)
    assert sum(share for order, share in shares.items() if order > 1) < 0.01
    assert set(model.negligible_.columns) == {"x3", "x4", "x5"}


@pytest.mark.slow
def test_pairs_and_triples_are_recovered():
    X, y, _ = simulated(4000, seed=1)
    model = AHOFMRegressor(random_state=0).fit(X, y).model_
    grid = np.random.default_rng(9).uniform(-1, 1, (2000, 6))

    def surface(columns):
        """Contribution of a set of columns, by inclusion and exclusion around the average."""
        fixed = np.zeros((2000, 6))
        total = 0.0
        for mask in range(2 ** len(columns)):
            at = fixed.copy()
            chosen = [column for k, column in enumerate(columns) if mask >> k & 1]
            at[:, chosen] = grid[:, chosen]
            total = total + (-1) ** (len(columns) - len(chosen)) * model.eta(at)[:, 0]
        return total

    def truth(columns):
        x = grid
        if columns == (0, 3):
            return 1.5 * np.sin(2 * x[:, 0]) * x[:, 3]
        full = 3 * x[:, 1] * (x[:, 2] ** 2 - 1 / 3) * np.sin(2 * x[:, 4])
        zero = 3 * x[:, 1] * (0.0 - 1 / 3) * np.sin(2 * x[:, 4])
        return full - zero

    for columns in ((0, 3), (1, 2, 4)):
        assert np.corrcoef(surface(columns), truth(columns))[0, 1] > 0.95
    assert np.var(surface((0, 5))) < 0.01 * np.var(y)
    assert np.var(surface((2, 3))) < 0.01 * np.var(y)


def test_orders_below_come_with_the_fit():
    X, y, parts = simulated(1500, snr=10.0)
    model = AHOFMRegressor(factor_prior="spline", random_state=0).fit(X, y).model_
    errors = [np.std(model.at_order(order).predict(X) - sum(parts)) for order in (1, 2, 3)]
    assert errors[0] > errors[1] > errors[2]
    assert model.at_order(1).ranks == {}
    assert set(model.at_order(2).ranks) <= {2}
    np.testing.assert_array_equal(model.at_order(3).predict(X), model.predict(X))
    with pytest.raises(ValueError, match="order must be an integer of at least 1, got 0"):
        model.at_order(0)
    plain = AHOFMRegressor(order=2, smoothing="df", tol=0.5).fit(X, y).model_
    with pytest.raises(ValueError, match="only solver='variational' fits lower orders"):
        plain.at_order(1)


def test_one_model_whatever_the_members(tmp_path):
    X, y, _ = simulated(400)
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(town=np.where(X[:, 0] > 0, "Bonn", "Celle"))
    frame.loc[::7, "b"] = np.nan
    model = AHOFMRegressor(factor_prior="spline", n_members=3, random_state=0).fit(frame, y).model_
    frame.loc[5, "town"], frame.loc[6, "c"], frame.loc[8, "d"] = "never seen", np.nan, 99.0
    expected = by_subsets(model, frame)
    np.testing.assert_allclose(model.eta(frame)[:, 0], expected, atol=1e-9 * np.abs(expected).max())
    model.save(tmp_path / "model")
    loaded = ahofm.load(tmp_path / "model").model_
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    np.testing.assert_array_equal(loaded.at_order(1).predict(frame), model.at_order(1).predict(frame))
    assert loaded.choices == model.choices
    assert loaded.dispersion == model.dispersion


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, 12_000])
def test_any_number_of_threads_gives_the_same_bits(n):
    X, y, _ = simulated(n)
    settings = {"order": 2, "max_iter": 6, "random_state": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one, two, five = (AHOFMRegressor(n_jobs=k, **settings).fit(X, y).predict(X) for k in (1, 2, 5))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, five)


@pytest.mark.slow
def test_weights_are_repeats_and_offsets_shift():
    X, y, _ = simulated(300)
    times = np.random.default_rng(0).integers(0, 3, 300)
    weighted = AHOFMRegressor(**ONE).fit(X, y, sample_weight=times)
    repeated = AHOFMRegressor(**ONE).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    offset = 5.0 * X[:, 5]
    shifted = AHOFMRegressor(order=1, **ONE).fit(X, y + offset, offset=offset)
    plain = AHOFMRegressor(order=1, **ONE).fit(X, y)
    assert np.corrcoef(shifted.predict(X), plain.predict(X))[0, 1] > 0.99
    np.testing.assert_allclose(shifted.predict(X, offset=offset), shifted.predict(X) + offset)


@pytest.mark.parametrize(
    "kind", [Spline(), RandomWalk(), SplineIID(), Cyclic(period=2), Linear(), Categorical()], ids=repr
)
@pytest.mark.parametrize("center", [True, False], ids=["centred", "free"])
def test_every_kind_has_a_block(kind, center):
    rng = np.random.default_rng(0)
    X = np.round(rng.uniform(-1, 1, (300, 3)), 1)
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * rng.normal(size=300)
    model = AHOFMRegressor(order=2, columns=kind, center=center, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    assert type(model.model_.encoder.codebooks[0].kind) is type(kind)
    tables = model.model_.tables()[0]
    if center:
        start = 0
        for book in model.model_.encoder.codebooks:
            for table in tables.factors.values():
                rows = table[start : start + book.n_codes]
                assert np.abs(book.mass @ rows / book.mass.sum()).max(initial=0.0) < 1e-6
            start += book.n_codes


@pytest.mark.slow
def test_what_is_not_needed_can_be_dropped():
    X, y, _ = simulated(2500, pair=0.0, triple=0.0, snr=10.0)
    model = AHOFMRegressor(prune=True, **ONE).fit(X, y)
    terms = model.model_.linear_predictors[0]
    assert all(not terms.coef[j].any() and not terms.centring[j].any() for j in (3, 4, 5))
    assert model.model_.order == 1
    kept = AHOFMRegressor(**ONE).fit(X, y)
    assert np.std(kept.predict(X) - model.predict(X)) < 0.1 * np.std(y)


@pytest.mark.slow
def test_order_auto_stops_where_nothing_is_gained():
    X, y, _ = simulated(800, triple=0.0, snr=5.0)
    model = AHOFMRegressor(order="auto", **ONE).fit(X, y)
    assert model.model_.order == 2
    with pytest.raises(ValueError, match="order='auto' needs solver='variational'"):
        AHOFMRegressor(order="auto", solver="lbfgs").fit(X, y)


@pytest.mark.slow
def test_choices_are_told():
    X, y, _ = simulated(300)
    choices = {choice.name: choice for choice in AHOFMRegressor(order=2, random_state=0).fit(X, y).model_.choices}
    assert "validation rows" in choices["interactions"].reason
    assert "order" in choices["rank"].value
    given = AHOFMRegressor(**ONE).fit(X, y).model_.choices[0]
    assert given.reason == "given"


def test_a_target_without_variance():
    X, _, _ = simulated(100)
    model = AHOFMRegressor(random_state=0).fit(X, np.full(100, 3.0))
    np.testing.assert_allclose(model.predict(X), 3.0, atol=1e-6)


def test_fewer_rows_than_coefficients():
    X, y, _ = simulated(12)
    assert np.isfinite(AHOFMRegressor(random_state=0).fit(X, y).predict(X)).all()
    assert np.isfinite(AHOFMRegressor(random_state=0).fit(X[:2], y[:2]).predict(X)).all()


@pytest.mark.slow
def test_duplicated_and_collinear_columns():
    X, y, parts = simulated(600, snr=10.0)
    twice = np.column_stack([X, X[:, 0], 2.0 * X[:, 1] - 3.0, X[:, 0] + X[:, 1]])
    model = AHOFMRegressor(**ONE).fit(twice, y)
    assert np.corrcoef(model.predict(twice), sum(parts))[0, 1] > 0.95


def test_an_outlier_of_a_trillion():
    X, y, parts = simulated(600, snr=10.0)
    X[17, 2] = 1e12
    model = AHOFMRegressor(**ONE).fit(X, y)
    others = np.arange(600) != 17
    assert np.corrcoef(model.predict(X)[others], sum(parts)[others])[0, 1] > 0.9


@pytest.mark.slow
def test_weights_over_twelve_orders_of_magnitude():
    X, y, _ = simulated(400)
    weight = 10.0 ** np.random.default_rng(0).uniform(-6, 6, 400)
    model = AHOFMRegressor(order=2, random_state=0).fit(X, y, sample_weight=weight)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.filterwarnings("ignore:.*constant")
def test_a_column_all_missing():
    X, y, _ = simulated(200)
    X[:, 3] = np.nan
    model = AHOFMRegressor(**ONE).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert "x3" in model.negligible_.columns


@pytest.fixture
def listening():
    """SIGINT interrupts, also where tests run in the background and inherit that it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupt_keeps_the_best_state(n_jobs):
    X, y, _ = simulated(5000)  # enough for threads

    def interrupt(record):
        if record.iteration == 30:
            _thread.interrupt_main()

    model = AHOFMRegressor(callbacks=[interrupt], n_jobs=n_jobs, random_state=0)
    with pytest.raises(KeyboardInterrupt, match="model_ is the best model so far"):
        model.fit(X, y)
    assert model.trace_.reason is Reason.INTERRUPTED
    assert model.score(X, y) > 0.3


def test_settings_of_the_block_solver():
    X, y, _ = simulated(60)
    for settings, message in [
        (
            {"factor_prior": "rough"},
            "factor_prior must be one of 'auto', 'spline', 'random_walk', 'spline_iid', got 'rough'",
        ),
        ({"tempering": 2.0}, "tempering must be 'auto' or a number from 0 to 1, got 2.0"),
        ({"n_members": 0}, "n_members must be an integer of at least 1, got 0"),
        ({"solver": "variational", "smoothing": "df"}, "learns its smoothing parameters"),
        ({"order": 9}, "order"),
    ]:
        with pytest.raises(ValueError, match=message):
            AHOFMRegressor(**settings).fit(np.hstack([X, X]), np.abs(y))


@pytest.mark.parametrize("column", ["names", "numbers that never repeat"])
def test_what_single_rows_have_for_themselves_is_noise(column):
    """A name for every row, or a value times a level, could fit every row by itself."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=1200)
    y = np.sin(x) + 0.3 * rng.normal(size=1200)
    X = pd.DataFrame({"x": x, "level": pd.Categorical(np.arange(1200) % 3)})
    if column == "names":
        X["name"] = [f"row {i}" for i in range(1200)]
    model = AHOFMRegressor(order=2, factor_prior="spline_iid", n_members=1, random_state=0).fit(X[:200], y[:200])
    assert model.model_.dispersion == pytest.approx(0.09, rel=0.25)
    low, high = model.predict_interval(X[200:], kind="new").T
    assert np.mean((low < y[200:]) & (y[200:] < high)) > 0.9
