"""Triples that factors of order 3 start from: scores against the obvious sums, found in a truth and not in noise."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

from ahofm import AHOFMClassifier
from ahofm.columns import Encoder, SplineIID
from ahofm.explain import top_interactions
from ahofm.shared_curves.class_rows import ClassRows
from ahofm.shared_curves.columns import CodedColumn, class_columns
from ahofm.shared_curves.factors import SharedFactors
from ahofm.shared_curves.problem import ClassProblem
from ahofm.shared_curves.starts import random_start
from ahofm.shared_curves.triples import _scores, significant_triples, start_triples
from ahofm.tuning.classes import SCREENED_CLASS_FUNCTIONS, TRIPLE_START_SIZE


def _drawn(n: int, strength: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of eight columns, classes that depend on a column, a pair and a triple, and their probabilities."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 8))
    parts = [np.sin(3.0 * X[:, 0]), 2.5 * X[:, 1] * X[:, 2], strength * 6.0 * X[:, 3] * X[:, 4] * X[:, 5]]
    loadings = 1.2 * np.array([[1, -1, 0, 0, 0], [1, 0, -1, 0.5, -0.5], [1, -1, 0.5, -1, 0.5]])
    eta = np.column_stack(parts) @ loadings
    p = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
    return X, (p.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1), p


def _problem(n: int, strength: float) -> tuple[ClassProblem, list[np.ndarray], np.ndarray]:
    X, y, _ = _drawn(n, strength)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)])
    encoder = Encoder.learn(table, {}, default=SplineIID(n_basis=8), max_codes=None)
    codes = encoder.encode(table)
    columns = class_columns(encoder.codebooks, [True] * 8, "spline", center=True)
    coded = [CodedColumn(own, size) for own, size in zip(codes.columns, codes.sizes, strict=True)]
    functions = [column.priors.start[:, :SCREENED_CLASS_FUNCTIONS] for column in columns]
    return ClassProblem(ClassRows(y, np.ones(n), None, 5), columns, coded), functions, np.repeat(np.arange(8), 2)


def test_scores_are_those_of_the_products() -> None:
    rng = np.random.default_rng(0)
    z, slopes, weight = rng.normal(size=(50, 7)), rng.normal(size=(50, 3)), rng.uniform(0.1, 0.5, 50)
    column_of = np.array([0, 0, 1, 2, 2, 3, 3])
    found = _scores(z, column_of, slopes, weight)
    count = 0
    for a, b, c in combinations(range(7), 3):
        expected = 0.0
        if column_of[a] < column_of[b] < column_of[c]:
            product = z[:, a] * z[:, b] * z[:, c]
            expected = sum((product @ slopes[:, k]) ** 2 for k in range(3)) / (weight @ product**2)
            count += 1
        assert found[a, b, c] == pytest.approx(expected)
    assert np.count_nonzero(found) == count


def test_a_triple_stands_out_and_noise_does_not() -> None:
    p, functions, column_of = _problem(1_500, 1.0)
    working = p.rows.working_response(np.tile(p.rows.constants()[:, np.newaxis], 1_500))
    found = significant_triples(functions, column_of, p.coded, working, 4)
    assert tuple(column_of[list(found[0])]) == (3, 4, 5)
    p, functions, column_of = _problem(1_500, 0.0)
    working = p.rows.working_response(np.tile(p.rows.constants()[:, np.newaxis], 1_500))
    assert (3, 4, 5) not in [
        tuple(column_of[list(one)]) for one in significant_triples(functions, column_of, p.coded, working, 4)
    ]


def test_factors_start_from_the_triple() -> None:
    p, _, _ = _problem(1_500, 1.0)
    ranks, rng = {2: 2, 3: 2}, np.random.default_rng(0)
    starts, _ = random_start(p.columns, ranks, rng)
    before = [values.copy() for values in starts]
    working = p.rows.working_response(np.tile(p.rows.constants()[:, np.newaxis], 1_500))
    start_triples(starts, slice(2, 4), p.columns, p.coded, working)
    for j, values in enumerate(starts):
        size = np.sqrt(p.columns[j].priors.mass @ values[:, 2] ** 2)
        assert size == pytest.approx(TRIPLE_START_SIZE if j in (3, 4, 5) else 0.0, rel=1e-3)
        np.testing.assert_array_equal(values[:, :2], before[j][:, :2])
    assert SharedFactors(ranks, p.columns, p.coded, starts).terms[:, 2].std() > 0.05


@pytest.mark.slow
def test_pairs_and_a_triple_of_a_multinomial_truth_are_found() -> None:
    X, y, _ = _drawn(1_500, 1.0, seed=1)
    new, labels, truth = _drawn(4_000, 1.0, seed=2)
    model = AHOFMClassifier(random_state=0, n_jobs=1).fit(X, y)
    least = log_loss(labels, truth)
    additive = AHOFMClassifier(order=1, random_state=0, n_jobs=1).fit(X, y)
    most = log_loss(labels, additive.predict_proba(new))
    assert log_loss(labels, model.predict_proba(new)) < least + 0.15 * (most - least)
    assert {frozenset(term) for term in top_interactions(model, 2, linear_predictor=0).terms} == {
        frozenset({"x1", "x2"}),
        frozenset({"x3", "x4", "x5"}),
    }
