"""Losses of several classes against the obvious sums, and the bound of their curvature."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from ahofm.shared_curves.class_rows import ClassRows


def _rows(offset: bool) -> tuple[ClassRows, np.ndarray]:
    rng = np.random.default_rng(0)
    y, weight, eta = rng.integers(0, 5, 40), rng.uniform(0.5, 3.0, 40), 3.0 * rng.normal(size=(5, 40))
    return ClassRows(y, weight, rng.normal(size=(5, 40)) if offset else None, 5), eta


@pytest.mark.parametrize("offset", [False, True])
def test_loss_and_slopes_are_those_of_the_multinomial(offset: bool) -> None:
    rows, eta = _rows(offset)
    shifted = eta if rows.offset is None else eta + rows.offset
    logs = log_softmax(shifted, axis=0)
    assert rows.loss(eta) == pytest.approx(-sum(rows.weight * logs[rows.y, np.arange(40)]))
    work = rows.working_response(eta)
    assert work.loss == pytest.approx(rows.loss(eta))
    for k in range(5):
        for i in (0, 7, 39):
            moved = eta.copy()
            moved[k, i] += 1e-6
            assert -work.slope[k, i] == pytest.approx((rows.loss(moved) - rows.loss(eta)) / 1e-6, abs=1e-4)
    np.testing.assert_allclose(work.slope.sum(axis=0), 0.0, atol=1e-12)


def test_the_bound_is_one_on_vectors_of_sum_zero() -> None:
    rows, eta = _rows(False)
    p, bound = softmax(eta, axis=0), rows.working_response(eta, bound=True).weight / rows.weight
    rng = np.random.default_rng(1)
    for i in range(40):
        d = rng.normal(size=5)
        d -= d.mean()
        assert d @ (np.diag(p[:, i]) - np.outer(p[:, i], p[:, i])) @ d <= bound[i] * (d @ d) + 1e-12


def test_the_fisher_ratio_is_the_mean_curvature_over_the_weights() -> None:
    rows, eta = _rows(False)
    p, work = softmax(eta, axis=0), rows.working_response(eta)
    information = sum(rows.weight[i] * np.trace(np.diag(p[:, i]) - np.diag(p[:, i] ** 2)) for i in range(40)) / 4.0
    assert work.fisher == pytest.approx(information / work.weight.sum())


def test_constants_of_a_class_without_rows_are_finite() -> None:
    rows = ClassRows(np.array([0, 0, 2]), np.ones(3), None, 4)
    assert np.isfinite(rows.constants()).all()
    assert rows.constants().sum() == pytest.approx(0.0)
