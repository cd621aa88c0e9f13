"""Every target against ``predict`` and ``shapley_values``, for every model: outside the range, missing, unseen."""

import numpy as np
import pytest

from ahofm.explain import shapley_values
from tests.export.models import MAKERS, hard_rows
from tests.export.targets import TARGETS, levels_of

pytestmark = pytest.mark.slow


def expected(model, X, offset):
    """Means (n, outputs), with probabilities of levels, and Shapley values (n, linear predictors, columns)."""
    own = model.model_
    labels = [None] if own.family.n_eta == 1 else own.classes or range(own.family.n_eta)
    parts = [shapley_values(model, X, linear_predictor=label).values for label in labels]
    means = own.mean(X, offset).reshape(len(X), -1)
    if levels_of(model):
        means = np.column_stack([means, model.predict_proba(X)])
    return means, np.stack(parts, axis=1)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("target", TARGETS)
def test_targets_equal_predict(fitted, name, target, tmp_path):
    model, X = fitted(name), hard_rows()
    offset = np.linspace(-1.0, 1.0, len(X)) if name == "counts" else None
    means, parts = expected(model, X, offset)
    found_means, found_parts = TARGETS[target](model, X, offset, tmp_path)
    assert found_means.shape == means.shape
    usual = np.median(np.abs(means), axis=0)  # far rows may have means of any size
    assert (np.abs(found_means - means) <= 1e-9 * np.abs(means) + 1e-12 * usual).all()
    size = np.abs(parts).max(axis=2, keepdims=True)
    assert found_parts.shape == parts.shape
    assert (np.abs(found_parts - parts) <= 1e-9 * np.abs(parts) + 1e-11 * size).all()
