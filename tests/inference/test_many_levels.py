"""Levels without a coordinate: against the dense covariance in which every level has one, and in simulation."""

import numpy as np
import pandas as pd
import pytest

from ahofm import AHOFMRegressor
from ahofm.columns import Encoder
from ahofm.columns.table import read_table
from ahofm.explain import difference, effect
from ahofm.inference import many_levels, sample, uncertainty
from ahofm.inference.many_levels import OtherLevels


def test_other_levels_are_integrated_out_exactly(monkeypatch):
    monkeypatch.setattr(many_levels, "_ROWS_IN_MEMORY", 10)  # a few levels at a time
    rng = np.random.default_rng(0)
    level = np.r_[np.arange(12), rng.integers(0, 12, size=48)]
    table = pd.DataFrame({"level": [f"{i:02d}" for i in level], "row": np.arange(60.0)})
    codes = Encoder.learn(table).encode(table)
    design, curvature, lam = rng.normal(size=(60, 3)), rng.uniform(0.5, 2.0, size=60), 0.7
    main = np.zeros((13, 2))
    main[3, 0] = main[8, 1] = 1.0  # the two levels with coordinates
    column = OtherLevels.of(0, main, lam)
    others = np.flatnonzero(column.others)
    assert others.tolist() == [i for i in range(12) if i not in (3, 8)]

    def derivatives(part):
        return design[part.columns[1]]

    indicators = (level[:, np.newaxis] == others).astype(float)
    joint = np.hstack([design, indicators])
    covariance = np.linalg.inv(
        joint.T @ (curvature[:, np.newaxis] * joint) + np.diag(np.r_[np.full(3, 0.2), np.full(len(others), lam)])
    )
    rows = np.arange(60)
    information = design.T @ (curvature[:, np.newaxis] * design)
    marginal = column.marginal(information, column.sums(codes, rows, curvature, derivatives))
    posterior = marginal + 0.2 * np.eye(3)
    np.testing.assert_allclose(np.linalg.inv(posterior), covariance[:3, :3], rtol=1e-9)
    root = np.linalg.cholesky(posterior)
    found = column.variances(root, column.sums(codes, rows, curvature, derivatives))
    np.testing.assert_allclose(found[others], np.diag(covariance)[3:], rtol=1e-9)
    assert found[[3, 8]].tolist() == [0.0, 0.0]
    assert found[-1] == pytest.approx(1.0 / lam)


@pytest.fixture(scope="module")
def grouped():
    """1,500 groups of one to a dozen rows, with a column that is constant within groups."""
    rng = np.random.default_rng(1)
    probability = rng.exponential(size=1500)
    group = rng.choice(1500, size=7000, p=probability / probability.sum())
    effects, of_group = 0.5 * rng.normal(size=1500), rng.uniform(size=1500)
    x = rng.uniform(size=7000)
    y = effects[group] + np.sin(6.0 * x) + 0.5 * of_group[group] + 0.7 * rng.normal(size=7000)
    X = pd.DataFrame({"group": [f"g{i}" for i in group], "x": x, "of_group": of_group[group]})
    return AHOFMRegressor(order=1, random_state=0).fit(X, y), X, y, group, effects


@pytest.mark.slow
def test_standard_errors_of_many_levels_are_the_errors_of_their_effects(grouped):
    """Levels beyond the most frequent ones used to count as known: a standard error of .0015 for .4."""
    model, _, _, group, effects = grouped
    levels = model.model_.encoder.codebooks[0].support.values
    at = np.array([int(level[1:]) for level in levels])
    counts = np.bincount(group, minlength=1500)
    found = effect(model, "group", {"group": list(levels)})
    error = found.value - (effects[at] - np.average(effects, weights=counts))
    for low, high in ((1, 2), (2, 4), (4, 8), (8, 100)):
        part = (counts[at] >= low) & (counts[at] < high)
        assert part.sum() > 100
        assert np.mean((error[part] / found.std[part]) ** 2) == pytest.approx(1.0, abs=0.2), (low, high)
        assert np.mean(np.abs(error[part]) < 1.96 * found.std[part]) == pytest.approx(0.95, abs=0.04), (low, high)
    multiple = ((found.all_high - found.value) / found.std).max()
    assert 3.9 < multiple < 4.5  # the largest of 1,500 independent normal errors: 4.1


@pytest.mark.slow
def test_a_column_that_is_constant_within_groups_has_the_error_of_a_mixed_model(grouped):
    """Its slope is known from 1,500 group means, not from 7,000 rows."""
    model, X, _, group, _ = grouped
    found = difference(model, "of_group", 1.0, 0.0)
    counts = np.bincount(group, minlength=1500)
    weight = np.where(counts > 0, 1.0 / (0.25 + 0.49 / np.maximum(counts, 1)), 0.0)
    z = np.zeros(1500)
    z[group] = X["of_group"]
    expected = 1.0 / np.sqrt(weight @ (z - np.average(z, weights=weight)) ** 2)
    assert expected < found.std[0] < 2.5 * expected
    assert expected > 1.5 / np.sqrt(7000 / 0.49 * z.var())  # what independent rows would give is far smaller


@pytest.mark.slow
def test_a_level_that_training_rows_do_not_have_is_as_uncertain_as_any(grouped):
    model, X, *_ = grouped
    rows = X.iloc[:2].assign(group=["unheard of", X["group"][1]])
    low, high = model.predict_interval(rows).T
    half = (high - low) / 2 / 1.96
    assert half[0] == pytest.approx(0.5, rel=0.15)
    assert half[1] < 0.42


@pytest.mark.slow
def test_a_sample_of_levels_gives_the_same_band(grouped, monkeypatch):
    model, X, y, *_ = grouped
    whole = model.with_uncertainty().model_.band
    monkeypatch.setattr(sample, "MOST_ROWS", 3000)
    part = uncertainty.band_of(model.model_, read_table(X), y)
    np.testing.assert_allclose(part.random_effects[0][0], whole.random_effects[0][0], rtol=0.05)
    for j, (low, high) in ((1, (0.85, 1.2)), (2, (0.9, 2.5))):  # a slope between groups is known less well from fewer
        codes = [np.arange(0, model.model_.encoder.codebooks[j].n_codes - 1, 20)]
        ratio = part.term_std((j,), codes) / whole.term_std((j,), codes)
        assert low < np.median(ratio) < high
