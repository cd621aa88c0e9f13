"""The smoothing parameter with given effective degrees of freedom."""

import numpy as np
import pytest

from ahofm.priors.df import smoothing_parameter_of
from ahofm.priors.edf import lam_with_edf

RATIOS = np.array([[0.01, 0.3, 2.0, 50.0], [1.0, 1.0, 1.0, 1.0]])


def test_edf_are_those_that_were_asked_for():
    edf, width = np.array([2.7, 1.0]), np.full(2, 40.0)
    lam = lam_with_edf(RATIOS, edf, -width, width, 60)
    assert (1.0 / (1.0 + lam[:, np.newaxis] * RATIOS)).sum(axis=1) == pytest.approx(edf, rel=1e-12)
    assert lam[1] == pytest.approx(3.0)


def test_it_is_the_one_of_a_df_of_the_hat_matrix():
    total = 100.0
    (lam,) = lam_with_edf(RATIOS[:1] / total, np.array([1.9]), np.array([-40.0]), np.array([40.0]), 60)
    assert lam == pytest.approx(smoothing_parameter_of(1.9, RATIOS[0], total, "hat"), rel=1e-10)


def test_the_ends_of_the_interval_bound_it():
    low, high = np.array([np.log(0.5)]), np.array([np.log(2.0)])
    assert lam_with_edf(RATIOS[:1], np.array([3.9]), low, high, 50) == pytest.approx([0.5])
    assert lam_with_edf(RATIOS[:1], np.array([0.1]), low, high, 50) == pytest.approx([2.0])
