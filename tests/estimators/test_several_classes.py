"""Several classes by default: shared curves with loadings, whatever the columns, weights and classes are."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

from ahofm import AHOFMClassifier, AHOFMRegressor, RandomWalk, load
from ahofm.model import Reason
from ahofm.model.shared_predictors import SharedPredictors

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:the fit stopped at max_iter", "ignore:linear predictors are beyond"),
]

SHORT = {"order": 2, "rank": 4, "n_members": 1, "max_iter": 6, "random_state": 0, "n_jobs": 1}


def simulated(n: int = 400, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Three classes that depend on a product of two columns and on levels; a missing value here and there."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": rng.normal(size=n),
            "level": rng.choice(["x", "y", "z"], n),
            "step": rng.integers(0, 8, n).astype(float),
            "noise": rng.normal(size=n),
        }
    )
    signal = 2.0 * X.a * X.b + (X.level == "x")
    eta = np.column_stack([signal, -signal, X.step / 4.0 - 1.0]) + rng.gumbel(size=(n, 3))
    X.loc[rng.uniform(size=n) < 0.05, "noise"] = np.nan
    return X, np.array(["low", "high", "other"])[eta.argmax(axis=1)]


X, Y = simulated()


@pytest.fixture(scope="module")
def fitted() -> AHOFMClassifier:
    return AHOFMClassifier(random_state=0, n_jobs=1).fit(X, Y)


def test_pairs_are_found(fitted: AHOFMClassifier) -> None:
    new, labels = simulated(2_000, seed=1)
    loss = log_loss(labels, fitted.predict_proba(new), labels=fitted.classes_)
    additive = AHOFMClassifier(order=1, random_state=0, n_jobs=1).fit(X, Y)
    assert loss < 0.9 * log_loss(labels, additive.predict_proba(new), labels=additive.classes_)
    assert fitted.trace_.solver == "shared"
    assert fitted.model_.order >= 2
    assert fitted.model_.at_order(1).order == 1
    assert [gain.order for gain in fitted.model_.gains][:2] == [2, 3]


def test_curves_are_the_same_in_all_classes_and_loadings_differ(fitted: AHOFMClassifier) -> None:
    first, *others = fitted.model_.linear_predictors
    for other in others:
        for mine, theirs in zip(first.coef, other.coef, strict=True):
            np.testing.assert_array_equal(mine[:, 1:], theirs[:, 1:])
        assert not np.allclose(first.loadings[2], other.loadings[2])
    for model in (fitted.model_, *(fitted.model_.at_order(order) for order in (1, 2))):
        assert SharedPredictors.of(model.linear_predictors) is not None, "factors are kept once for all classes"
    total = sum(own.loadings[2] for own in fitted.model_.linear_predictors)
    np.testing.assert_allclose(total, 0.0, atol=1e-10)


def test_files_explanations_and_bands_work(fitted: AHOFMClassifier, tmp_path) -> None:
    fitted.save(tmp_path / "m.ahofm")
    np.testing.assert_array_equal(load(tmp_path / "m.ahofm").predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_allclose(fitted.predict_proba(X).sum(axis=1), 1.0)
    assert fitted.feature_importances_.shape == (5,)
    assert np.isfinite(fitted.band_.eta(fitted.model_.encoder.encode(X[:20]))).all()


def test_a_few_rows_and_settings_of_every_kind() -> None:
    for options in (
        {"order": 1},
        {"order": 3, "rank": {2: 2, 3: 2}},
        {"center": False},
        {"factor_prior": "random_walk"},
    ):
        model = AHOFMClassifier(**{**SHORT, **options}).fit(X[:120], Y[:120])
        assert np.isfinite(model.predict_proba(X)).all()
        assert model.model_.order <= options.get("order", 2)
    walk = AHOFMClassifier(**SHORT, columns={"step": RandomWalk()}).fit(X[:120], Y[:120])
    assert np.isfinite(walk.predict_proba(X)).all()
    few = AHOFMClassifier(**SHORT).fit(X[:30], Y[:30])
    assert np.isfinite(few.predict_proba(X)).all()


def test_repeated_rows_are_weights() -> None:
    rows = np.random.default_rng(0).integers(0, 4, 120)
    weighted = AHOFMClassifier(**SHORT).fit(X[:120], Y[:120], sample_weight=rows)
    at = np.repeat(np.arange(120), rows)
    repeated = AHOFMClassifier(**SHORT).fit(X.iloc[at], Y[at])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-8)


def test_the_order_of_columns_and_names_of_classes_do_not_matter() -> None:
    model = AHOFMClassifier(**SHORT).fit(X, Y)
    turned = AHOFMClassifier(**SHORT).fit(X[X.columns[::-1]], Y)
    np.testing.assert_allclose(model.predict_proba(X), turned.predict_proba(X[X.columns[::-1]]), atol=1e-6)
    names = {"low": "c", "high": "a", "other": "b"}
    other = AHOFMClassifier(**SHORT).fit(X, [names[label] for label in Y])
    same = [list(other.classes_).index(names[label]) for label in model.classes_]
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X)[:, same], atol=1e-6)


def test_threads_do_not_change_a_bit() -> None:
    one = AHOFMClassifier(**SHORT).fit(X, Y)
    two = AHOFMClassifier(**{**SHORT, "n_jobs": 2}).fit(X, Y)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_offsets_and_class_weights_count() -> None:
    shift = np.zeros((len(X), 3))
    shift[:, 0] = 5.0
    plain, moved = AHOFMClassifier(**SHORT).fit(X, Y), AHOFMClassifier(**SHORT).fit(X, Y, offset=shift)
    assert moved.model_.eta(X)[:, 0].mean() < plain.model_.eta(X)[:, 0].mean() - 2.0
    weight = {label: 10.0 if label == "low" else 1.0 for label in plain.classes_}
    heavy = AHOFMClassifier(**SHORT, class_weight=weight).fit(X, Y)
    k = list(plain.classes_).index("low")
    assert heavy.predict_proba(X)[:, k].mean() > plain.predict_proba(X)[:, k].mean() + 0.1


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_rare_classes_have_finite_probabilities(rows: int) -> None:
    labels = Y.copy()
    labels[Y == "other"] = "low"
    labels[:rows] = "rare"
    with pytest.warns(UserWarning, match=rf"class 'rare' \({rows}\): fewer than 5"):
        model = AHOFMClassifier(**SHORT).fit(X, labels)
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    assert p[:, list(model.classes_).index("rare")].mean() < 0.2


def test_separated_classes_and_many_of_them() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 50, size=(1_000, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AHOFMClassifier(**SHORT).fit(x, x[:, 0].astype(int))
    p = model.predict_proba(x)
    assert p.shape == (1_000, 50)
    assert np.isfinite(p).all()
    assert model.score(x, x[:, 0].astype(int)) > 0.5


def test_a_class_of_weight_zero_is_absent() -> None:
    model = AHOFMClassifier(**SHORT).fit(X, np.where(np.arange(len(X)) < 9, "gone", Y), np.arange(len(X)) >= 9)
    assert "gone" not in model.classes_


@pytest.mark.parametrize("iteration", [3, 40, 70])
def test_an_interrupt_leaves_the_best_so_far(iteration: int) -> None:
    def interrupt(record) -> None:
        if record.iteration == iteration:
            raise KeyboardInterrupt

    model = AHOFMClassifier(**SHORT, callbacks=[interrupt])
    with pytest.raises(KeyboardInterrupt, match="best model so far"):
        model.fit(X, Y)
    assert model.trace_.reason is Reason.INTERRUPTED
    assert model.score(X, Y) > 0.4


def test_a_callback_stops_the_fit_and_a_checkpoint_goes_on(tmp_path) -> None:
    sweeps = len(AHOFMClassifier(**SHORT).fit(X, Y).trace_.records)
    settings = {**SHORT, "checkpoint": tmp_path / "c"}

    def interrupt(record) -> None:
        if record.iteration == sweeps - 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        AHOFMClassifier(**settings, callbacks=[interrupt]).fit(X, Y)
    again = AHOFMClassifier(**settings).fit(X, Y)
    assert len(again.trace_.records) < sweeps
    np.testing.assert_array_equal(again.predict_proba(X), AHOFMClassifier(**SHORT).fit(X, Y).predict_proba(X))


def test_shared_curves_are_for_classes() -> None:
    with pytest.raises(ValueError, match="solver='shared' is for several classes"):
        AHOFMRegressor(solver="shared").fit(X[["a", "b"]], X.a)
    given = AHOFMClassifier(order=1, smoothing="df", max_iter=20).fit(X, Y)
    assert given.trace_.solver == "lbfgs"
    own = AHOFMClassifier(order=1, solver="variational", max_iter=3).fit(X[:100], Y[:100])
    assert own.trace_.solver == "variational"
