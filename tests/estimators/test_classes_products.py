"""Several classes that depend on products over all columns, from end to end."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

from ahofm import AHOFMClassifier, load
from ahofm.explain import contributions, shapley_values, summary, top_interactions, variance_shares
from ahofm.model.shared_predictors import SharedPredictors
from ahofm.orders import PRODUCT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:1 constant column", "ignore:linear predictors are beyond"),
]


def signs(X: pd.DataFrame) -> np.ndarray:
    """A product of signs of four columns, so that no three of them say anything."""
    return np.prod(
        [
            np.where(X.wind.fillna(1.0) > 0.0, 1.0, -1.0),
            np.where(X.rain > 0.0, 1.0, -1.0),
            np.where(X.soil == "clay", 1.0, -1.0),
            np.where(X.month == 1.0, 1.0, -0.5),
        ],
        axis=0,
    )


def simulated(n: int = 700, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Three classes, with missing values, levels, few distinct values, and a constant column."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "wind": rng.normal(size=n),
            "rain": rng.uniform(-1.0, 1.0, n),
            "soil": rng.choice(["clay", "sand", "silt"], n),
            "month": rng.integers(0, 3, n).astype(float),
            "same": 1.0,
        }
    )
    X.loc[rng.uniform(size=n) < 0.08, "wind"] = np.nan
    eta = np.column_stack([3.0 * signs(X), -3.0 * signs(X), 1.5 * X.rain]) + rng.gumbel(size=(n, 3))
    return X, np.array(["low", "high", "other"])[eta.argmax(axis=1)]


X, Y = simulated()


@pytest.fixture(scope="module")
def fitted() -> AHOFMClassifier:
    return AHOFMClassifier(random_state=0, n_jobs=1).fit(X, Y)


def eta_of(model: AHOFMClassifier, X: pd.DataFrame, k: int) -> np.ndarray:
    return model.model_.eta(X)[:, k]


def test_products_are_found_and_weighed(fitted: AHOFMClassifier) -> None:
    new, labels = simulated(2_000, seed=1)
    loss = log_loss(labels, fitted.predict_proba(new), labels=fitted.classes_)
    orders = AHOFMClassifier(order=3, random_state=0, n_jobs=1).fit(X, Y)
    assert PRODUCT not in orders.model_.ranks
    assert loss < 0.75 * log_loss(labels, orders.predict_proba(new), labels=orders.classes_)
    assert PRODUCT in fitted.model_.ranks
    assert [gain.order for gain in fitted.model_.gains] == [2, 3, PRODUCT]
    assert "product factors" in fitted.model_.choices[0].value
    assert fitted.model_.order == 4
    assert [fitted.model_.at_order(order).order for order in (1, 4)] == [1, 4]
    assert SharedPredictors.of(fitted.model_.linear_predictors) is not None


def test_classes_without_products_keep_none() -> None:
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(600, 4))
    eta = np.column_stack([1.5 * np.sin(2.0 * Z[:, 0]), -Z[:, 1], Z[:, 2]]) + rng.gumbel(size=(600, 3))
    model = AHOFMClassifier(random_state=0, n_jobs=1).fit(Z, eta.argmax(axis=1))
    weights = variance_shares(model, linear_predictor=0).orders
    assert weights.get(3, 0.0) + weights.get(4, 0.0) < 0.05


@pytest.mark.parametrize("settings", [{"order": 2}, {"rank": 3}, {"exclude": [("wind", "rain")]}, {"effort": "fast"}])
def test_settings_without_products(settings: dict) -> None:
    assert PRODUCT not in AHOFMClassifier(random_state=0, n_jobs=1, **settings).fit(X, Y).model_.ranks


def test_explanations_of_every_class_add_up(fitted: AHOFMClassifier) -> None:
    some = X[:60]
    for k, label in enumerate(fitted.classes_):
        parts = contributions(fitted, some, linear_predictor=label)
        why = shapley_values(fitted, some, linear_predictor=label)
        np.testing.assert_allclose(parts.intercept + parts.values.sum(axis=1), eta_of(fitted, some, k), atol=1e-9)
        np.testing.assert_allclose(why.base + why.values.sum(axis=1), eta_of(fitted, some, k), atol=1e-9)
        assert sum(variance_shares(fitted, linear_predictor=label).orders.values()) == pytest.approx(1.0)
    assert variance_shares(fitted, linear_predictor="low").orders[4] > 0.5
    assert set(top_interactions(fitted, 1, linear_predictor="low").terms[0]) == {"wind", "rain", "soil", "month"}
    assert "product factors" in str(summary(fitted))


def test_contributions_are_the_means_over_subsets(fitted: AHOFMClassifier) -> None:
    """Of a pair, by brute force: means of the linear predictor over the other columns' training values."""
    parts = contributions(fitted, X[:3], linear_predictor="low")
    at = parts.terms.index(("wind", "rain"))
    k = list(fitted.classes_).index("low")

    def mean(row: int, fixed: list[str]) -> float:
        rng = np.random.default_rng(0)
        drawn = pd.DataFrame({name: rng.permutation(np.resize(X[name].to_numpy(), 70_000)) for name in X})
        for name in fixed:
            drawn[name] = X[name].to_numpy()[row]
        return float(eta_of(fitted, drawn, k).mean())

    for row in range(3):
        pair = mean(row, ["wind", "rain"]) - mean(row, ["wind"]) - mean(row, ["rain"]) + mean(row, [])
        assert parts.values[row, at] == pytest.approx(pair, abs=0.1)


def test_files_keep_every_prediction(fitted: AHOFMClassifier, tmp_path) -> None:
    fitted.save(tmp_path / "model.ahofm")
    again = load(tmp_path / "model.ahofm")
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_allclose(again.predict_interval(X[:20]), fitted.predict_interval(X[:20]), atol=1e-9)
    assert again.model_.ranks == fitted.model_.ranks


def test_intervals_hold_the_probabilities_of_the_truth(fitted: AHOFMClassifier) -> None:
    new, _ = simulated(1_000, seed=2)
    found = fitted.predict_interval(new)
    assert np.isfinite(found).all()
    eta = np.column_stack([-3.0 * signs(new), 3.0 * signs(new), 1.5 * new.rain])  # classes_ are in alphabetical order
    p = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
    inside = (found[..., 0] <= p) & (p <= found[..., 1])
    assert inside.mean() > 0.6  # smooth functions have no jumps
    assert np.median(found[..., 1] - found[..., 0]) < 0.5


def test_missing_unseen_and_far_values(fitted: AHOFMClassifier) -> None:
    odd = X[:5].copy()
    odd["soil"] = ["peat", None, "clay", "sand", "silt"]
    odd["wind"] = [1e300, -1e300, np.nan, 0.0, 1.0]
    odd["month"] = [np.nan, 9.0, -9.0, 1.5, 1.0]
    odd["same"] = [np.nan, 2.0, 1.0, 1.0, 1.0]
    p = fitted.predict_proba(odd)
    assert np.isfinite(p).all()
    assert (p > 1e-4).all()
    levels = X[:200].copy()
    levels["soil"] = "peat"
    others = pd.concat([X[:200].assign(soil=soil) for soil in X.soil])
    k, mean = 0, np.empty(200)
    each = eta_of(fitted, others, k).reshape(len(X), 200)
    mean[:] = each.mean(axis=0)
    np.testing.assert_allclose(eta_of(fitted, levels, k), mean, atol=1e-8)  # an unseen level is averaged over


@pytest.mark.slow
def test_thirty_columns_stay_finite() -> None:
    rng = np.random.default_rng(6)
    Z = rng.integers(0, 6, size=(300, 30)) - 2.5
    y = np.digitize(Z[:, 0] * Z[:, 1] * np.sign(Z[:, 2]) + rng.normal(size=300), [-1.0, 1.0])
    model = AHOFMClassifier(random_state=0, n_jobs=1).fit(Z, y)
    assert "product factors" in model.model_.choices[0].reason
    far = np.where(rng.random((50, 30)) < 0.5, 1e6, -1e6)
    for rows in (Z, far):
        assert np.isfinite(model.predict_proba(rows)).all()
    assert np.isfinite(shapley_values(model, Z[:3], linear_predictor=0).values).all()


def test_threads_do_not_change_a_bit() -> None:
    models = [AHOFMClassifier(random_state=0, n_jobs=jobs).fit(X[:300], Y[:300]) for jobs in (1, 2)]
    np.testing.assert_array_equal(*(model.predict_proba(X) for model in models))
