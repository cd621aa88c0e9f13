"""Parts of cross-validation divide copies of rows."""

import numpy as np
import pytest

from ahofm.training.parts import Part, has_copies, parts_of_classes, parts_of_copies, validated_weight

rng = np.random.default_rng(0)
WEIGHT = rng.integers(1, 40, 60).astype(float)
Y = rng.integers(0, 4, 60)


@pytest.mark.parametrize("stratify", [False, True])
def test_every_copy_is_validated_once_and_fitted_otherwise(stratify):
    parts = parts_of_copies(WEIGHT, Y, 1, (3, 3), stratify=stratify)
    validated, fitted = np.zeros((2, 60))
    for part in parts:
        own = np.zeros(60)
        own[part.validation] += part.validation_fraction
        own[part.fitted] += part.fitted_fraction
        np.testing.assert_allclose(own, 1.0)
        validated[part.validation] += part.validation_fraction
        fitted[part.fitted] += part.fitted_fraction
    np.testing.assert_allclose(validated, 1.0)
    np.testing.assert_allclose(fitted, 2.0)
    copies = [np.round(part.validation_fraction * WEIGHT[part.validation], 9) for part in parts]
    assert all((count % 1.0 == 0.0).all() and (count > 0.0).all() for count in copies)
    sizes = [count.sum() for count in copies]
    assert max(sizes) - min(sizes) <= 1.0
    np.testing.assert_allclose(validated_weight(parts, WEIGHT).sum(), WEIGHT.sum())
    assert sum(part.n_fitted for part in parts) == pytest.approx(2.0 * 60)


def test_classes_are_spread_evenly_over_parts_of_copies():
    for part in parts_of_classes(Y, WEIGHT, 0):
        held = np.bincount(Y[part.validation], WEIGHT[part.validation] * part.validation_fraction)
        np.testing.assert_allclose(held, np.bincount(Y, WEIGHT) / 3.0, atol=1.0)


def test_one_fold_of_five_is_a_fifth_of_the_copies():
    (part,) = parts_of_copies(WEIGHT, Y, 0, (1, 5), stratify=False)
    assert validated_weight([part], WEIGHT).sum() == np.ceil(WEIGHT.sum() / 5.0)


def test_whole_rows_have_all_of_their_weight():
    part = Part(np.array([0, 2]), np.array([1]))
    assert part.n_fitted == 2.0
    np.testing.assert_array_equal(validated_weight([part], np.array([1.0, 2.5, 3.0])), [2.5])


def test_fractions_and_ones_are_no_copies():
    assert has_copies(np.array([1.0, 2.0]))
    assert not has_copies(np.ones(3))
    assert not has_copies(np.array([1.0, 2.5]))
    assert not has_copies(np.array([1.0, 2e9]))
