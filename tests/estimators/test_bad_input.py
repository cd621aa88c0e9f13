"""What goes wrong is said clearly, and nothing is left half fitted."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from ahofm import AHOFMClassifier, AHOFMRegressor, Spline
from ahofm.families import Gaussian, Quantile
from ahofm.fit import Adam, OrderWarning
from ahofm.model import Reason
from tests.fit.fits import simulated

X, Y, _ = simulated(120)


def changed(array, at, value):
    array = np.array(array, dtype=float)
    array[at] = value
    return array


@pytest.mark.parametrize(
    ("family", "y", "message"),
    [
        ("gaussian", changed(Y, 3, np.nan), "contains NaN. Row 3 has no target: leave such rows out of X and y"),
        ("gaussian", changed(Y, 3, np.inf), "infinity"),
        ("gaussian", np.where(Y > 0, "up", "down"), r"y holds text \(.*\); AHOFMClassifier fits classes"),
        ("poisson", changed(np.round(np.abs(Y)), 7, -1.0), r"whole numbers in \[0, inf\) for Poisson, got -1 in row 7"),
        ("poisson", np.zeros(120), "y has no positive value; Poisson needs at least one"),
        ("negative_binomial", changed(np.round(np.abs(Y)), 7, -2), r"\[0, inf\) for NegativeBinomial, got -2 in row 7"),
        ("gamma", changed(np.abs(Y) + 1, 0, 0.0), r"\(0, inf\) for Gamma, got 0 in row 0"),
        ("tweedie", changed(np.abs(Y), 1, -0.1), r"\[0, inf\) for Tweedie, got -0.1 in row 1"),
        ("bernoulli", changed(np.round(np.abs(np.sin(Y))), 2, 2.0), r"\[0, 1\] for Bernoulli, got 2 in row 2"),
        ("bernoulli", np.ones(120), "one class"),
        (
            "gaussian_location_scale",
            np.ones(120),
            "y is 1 in every row; GaussianLocationScale needs targets that differ",
        ),
        ("gausian", Y, "did you mean 'gaussian'"),
        (Gaussian, Y, "parenthes"),
        (3.0, Y, "family"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_targets_and_families(family, y, message):
    model = AHOFMRegressor(order=1, family=family)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, y)
    assert not hasattr(model, "model_")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sample_weight": -np.ones(120)}, "sample_weight must be finite and not negative"),
        ({"sample_weight": np.zeros(120)}, "sample_weight is zero everywhere"),
        ({"sample_weight": np.ones(119)}, r"sample_weight has shape \(119,\), expected \(120,\)"),
        ({"sample_weight": changed(np.ones(120), 0, np.nan)}, "sample_weight must be finite"),
        ({"offset": np.zeros(7)}, r"offset has shape \(7,\), expected \(120,\)"),
        ({"offset": np.zeros((120, 2))}, r"offset has shape \(120, 2\), expected \(120,\)"),
        ({"offset": changed(np.zeros(120), 5, -np.inf)}, "offset must be finite"),
    ],
    ids=lambda given: ", ".join(given) if isinstance(given, dict) else "",
)
@pytest.mark.parametrize("kind", [AHOFMRegressor, AHOFMClassifier])
def test_weights_and_offsets(kind, given, message):
    model = kind(order=1)
    with pytest.raises(ValueError, match=message):
        model.fit(X, (Y > 0).astype(int), **given)
    assert not hasattr(model, "model_")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": 0}, "order must be 'auto' or an integer of at least 1, got 0"),
        ({"order": 1.5}, "order must be 'auto' or an integer"),
        ({"order": True}, "order must be 'auto' or an integer"),
        ({"rank": 0}, "rank must be 'auto' or an integer of at least 1, got 0; without interactions the order is 1"),
        ({"rank": {2: 0}}, "rank must be 'auto' or an integer of at least 1, got 0"),
        ({"order": 2, "rank": {3: 2}}, "rank names order 3; orders of factors go from 2 to order=2"),
        ({"rank": {1: 2}}, "rank names order 1"),
        ({"rank": "many"}, "rank must be 'auto' or an integer"),
        ({"df": 25}, "column 'x0', order 1: df=25 cannot be reached: its 20 function"),
        ({"df": 2}, "more than 2 and at most 20"),
        ({"df_kind": "trace"}, "df_kind must be one of 'residual', 'hat'"),
        ({"smoothing": "gcv"}, "smoothing must be one of 'auto', 'df', got 'gcv'"),
        (
            {"solver": "sgd"},
            "solver must be one of 'auto', 'variational', 'subsample', 'shared', 'lbfgs', 'bcd', 'adam', got 'sgd'",
        ),
        ({"solver": 3}, "solver must be a name or have `init` and `step`"),
        ({"ridge": -1}, "ridge must be a number of at least 0, got -1"),
        ({"max_codes": 1}, "max_codes must be an integer of at least 2"),
        ({"validation_fraction": 1.0}, r"validation_fraction must be in \[0, 1\), got 1.0"),
        ({"patience": 0}, "patience must be an integer of at least 1, got 0"),
        ({"max_iter": 0}, "max_iter must be an integer of at least 1, got 0"),
        ({"tol": 0.0}, "tol must be positive, got 0.0"),
        ({"n_jobs": 0}, "n_jobs must be None, -1 or a positive integer, got 0"),
        ({"columns": {"y": Spline()}}, "columns names 'y', which is not in X"),
        ({"columns": {0: "spline"}}, "must be a column kind"),
    ],
    ids=lambda settings: str(settings) if isinstance(settings, dict) else "",
)
def test_settings(settings, message):
    model = AHOFMRegressor(**settings)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, Y)
    assert not hasattr(model, "model_")


def test_a_failed_fit_leaves_the_last_model():
    model = AHOFMRegressor(order=1).fit(X, Y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, changed(Y, 0, np.nan))
    np.testing.assert_array_equal(model.predict(X), before)


def test_order_above_the_number_of_columns_is_reduced():
    with pytest.warns(OrderWarning, match=r"order=3 is more than the 2 column\(s\) that vary; order 2 is fitted"):
        model = AHOFMRegressor(order=3, rank={2: 2, 3: 2}, smoothing="df").fit(X[:, :2], Y)
    assert model.model_.ranks == {2: 2}
    with pytest.warns(UserWarning, match="constant"), pytest.raises(ValueError, match="every column of X is constant"):
        AHOFMRegressor().fit(np.ones((120, 2)), Y)


@pytest.mark.filterwarnings("ignore:.*constant")
def test_constant_columns_do_not_count():
    with pytest.warns(OrderWarning, match="order 1 is fitted"):
        model = AHOFMRegressor(order=2).fit(np.column_stack([X[:, 0], np.ones(120)]), Y)
    assert model.model_.order == 1


def test_one_class_only():
    with pytest.raises(ValueError, match="at least two classes in y, got only one class: 'a'"):
        AHOFMClassifier().fit(X, ["a"] * 120)
    with pytest.raises(ValueError, match="family Bernoulli has two classes, but y has 3"):
        AHOFMClassifier(family="bernoulli").fit(X, np.arange(120) % 3)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, "no"] * 60, r"labels of mixed types \(int, str\); give labels of one type"),
        (np.array([True, "no"] * 60, dtype=object), r"mixed types \(bool, str\)"),
        (np.array(["a", None] * 60, dtype=object), r"no label \(None\) in 60 row\(s\), first in row 1"),
        ([0.0, np.nan] * 60, r"y contains NaN. Row 1 \(and 59 more\) has no target: leave such rows out of X and y"),
        (np.linspace(0, 1, 120), r"Unknown label type: continuous.*AHOFMRegressor\(family='binomial'\)"),
        (np.tile([0.3, 0.7], (120, 1)), r"shape \(120, 2\).*one label per row.*family='binomial'"),
    ],
    ids=["text and numbers", "objects", "None", "NaN", "soft", "soft for both classes"],
)
def test_labels_that_are_none(labels, message):
    model = AHOFMClassifier(order=1)
    with pytest.raises(ValueError, match=message):
        model.fit(X, labels)
    assert not hasattr(model, "model_")


def test_weights_that_leave_one_class():
    labels = np.array(["a", "b"])[np.arange(120) % 2]
    with pytest.raises(ValueError, match="got only one class: 'a'; all rows of class 'b' have weight 0"):
        AHOFMClassifier().fit(X, labels, sample_weight=(labels == "a").astype(float))
    with pytest.raises(ValueError, match="class_weight leaves no rows of class 'a': at least two classes are needed"):
        AHOFMClassifier(class_weight={"a": 0.0}).fit(X, labels)


@pytest.mark.parametrize("others", [1, 2])
def test_a_class_of_two_rows_is_named(others):
    labels = np.array(["often", "also"])[np.arange(120) % others]
    labels[[3, 50]] = "few"
    with pytest.warns(UserWarning, match=r"class 'few' \(2\): fewer than 5 of 120 rows"):
        model = AHOFMClassifier(order=2, random_state=0).fit(X, labels)
    assert model.predict_proba(X)[:, model.classes_ == "few"].mean() == pytest.approx(2 / 120, rel=0.5)


def test_two_hundred_classes_are_fitted():
    labels = np.arange(1000) % 200
    model = AHOFMClassifier(order=1, random_state=0).fit(np.column_stack([labels, labels % 7]).astype(float), labels)
    assert len(model.classes_) == 200
    p = model.predict_proba(np.array([[3.0, 3.0]]))
    np.testing.assert_allclose(p.sum(), 1.0)


def test_classes_that_columns_separate_are_named():
    x = np.random.default_rng(0).normal(size=(400, 3))
    labels = np.where(x[:, 0] > 0, "above", "below")
    with pytest.warns(RuntimeWarning, match=r"beyond 20 in \d+ row\(s\) of training \(class 'above' in \d+"):
        model = AHOFMClassifier(order=1, factor_prior="spline", random_state=0).fit(x, labels)
    assert model.score(x, labels) > 0.98


def test_flat_offsets_are_unclear_for_several_classes():
    with pytest.raises(ValueError, match=r"offset has shape \(120,\), expected \(120, 3\)"):
        AHOFMClassifier(order=1).fit(X, np.arange(120) % 3, offset=np.zeros(120))


def test_classes_of_weight_zero_do_not_exist():
    labels = np.arange(120) % 3
    model = AHOFMClassifier(order=1).fit(X, labels, sample_weight=(labels != 1).astype(float))
    assert model.classes_.tolist() == [0, 2]
    assert set(model.predict(X)) <= {0, 2}


def test_not_fitted_yet():
    for method in ("predict", "predict_eta"):
        with pytest.raises(NotFittedError):
            getattr(AHOFMRegressor(), method)(X)
    with pytest.raises(NotFittedError):
        AHOFMClassifier().predict_proba(X)


def test_predicting_with_a_wrong_offset():
    model = AHOFMRegressor(order=1).fit(X, Y)
    with pytest.raises(ValueError, match=r"offset has shape \(3,\), expected \(120,\)"):
        model.predict(X, offset=np.zeros(3))


def test_too_few_iterations_warn_with_the_remedy():
    with pytest.warns(ConvergenceWarning, match=r"stopped at max_iter before it converged; raise max_iter=2"):
        model = AHOFMRegressor(max_iter=2).fit(X, Y)
    assert model.trace_.reason is Reason.MAX_ITER


class Exploding(Gaussian):
    """Least squares that overflows after a few epochs."""

    builtin = None
    calls = 0

    def loss(self, y, eta):
        type(self).calls += 1
        value, g, h = super().loss(y, eta)
        return (value, g, h) if self.calls < 200 else (np.full_like(value, np.nan), g, h)


def test_divergence_warns_and_keeps_the_best_state():
    with pytest.warns(ConvergenceWarning, match="diverged.*best one seen"):
        model = AHOFMRegressor(order=1, family=Exploding(), solver="adam").fit(X, Y)
    assert model.trace_.reason is Reason.DIVERGED
    assert np.isfinite(model.predict(X)).all()
    assert np.corrcoef(model.predict(X), Y)[0, 1] > 0.5


def test_interrupt_reaches_the_caller_and_keeps_the_best_state():
    def interrupt(record):
        if record.iteration == 3:
            raise KeyboardInterrupt

    model = AHOFMRegressor(order=2, callbacks=[interrupt])
    with pytest.raises(KeyboardInterrupt, match="model_ is the best model so far"):
        model.fit(X, Y)
    assert model.trace_.reason is Reason.INTERRUPTED
    assert model.score(X, Y) > 0.3


def test_callback_stops_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AHOFMRegressor(order=2, smoothing="df", callbacks=[lambda record: record.iteration >= 4]).fit(X, Y)
    assert model.n_iter_ == 4


def test_solver_object_of_ones_own():
    model = AHOFMRegressor(order=1, solver=Adam(batch_rows=20, patience=5), random_state=0).fit(X, Y)
    assert model.trace_.solver == "adam"


@pytest.mark.slow
def test_extreme_targets_stay_finite():
    for y in (1e150 * Y, 1e-150 * Y, np.full(120, 3.0)):
        predicted = AHOFMRegressor(order=2, random_state=0).fit(X, y).predict(X)
        assert np.isfinite(predicted).all()
    np.testing.assert_allclose(predicted, 3.0, atol=0.01)  # what is left of the random start


def test_quantile_is_where_it_should_be():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(2000, 1))
    y = x[:, 0] + rng.exponential(size=2000)
    model = AHOFMRegressor(order=1, family=Quantile(0.8), df=4, tol=1e-7).fit(x, y)
    assert (y <= model.predict(x)).mean() == pytest.approx(0.8, abs=0.01)


def test_a_target_in_a_table_of_one_column():
    model = AHOFMRegressor(order=1, random_state=0).fit(X, Y)
    assert model.score(X, pd.DataFrame({"y": Y})) == model.score(X, Y)


def test_a_class_that_only_validation_rows_have():
    """Three classes are fitted, the one that no row to fit has included; of two classes nothing is left to compare."""
    late = np.where(np.arange(120) < 100, np.where(X[:, 0] > 0, "above", "below"), "late")
    given = [(np.arange(80), np.arange(80, 120))]
    model = AHOFMClassifier(order=1, random_state=0, cv=given).fit(X, late)
    p = model.predict_proba(X)
    assert model.classes_.tolist() == ["above", "below", "late"]
    assert np.isfinite(p).all()
    assert p.sum(axis=1) == pytest.approx(1.0)
    with pytest.raises(ValueError, match=r"cv: targets of the rows to fit.*are all equal in a split"):
        AHOFMClassifier(order=1, cv=given).fit(X, np.where(np.arange(120) < 80, "early", "late"))


@pytest.mark.slow
def test_one_positive_in_a_thousand():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(5_000, 3))
    happened = np.zeros(5_000, dtype=bool)
    happened[rng.choice(5_000, 5, replace=False)] = True
    p = AHOFMClassifier(order=2, random_state=0).fit(x, happened).predict_proba(x)[:, 1]
    assert p.mean() == pytest.approx(0.001, rel=0.5)
    assert p.max() < 0.2
