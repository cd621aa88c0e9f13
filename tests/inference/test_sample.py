"""The sample of rows behind a band: rows of rare numbers are in it, and it stands for all rows."""

import numpy as np
import pandas as pd
import pytest

from ahofm import AHOFMRegressor
from ahofm.columns import Encoder
from ahofm.columns.table import read_table
from ahofm.inference import sample
from ahofm.inference.uncertainty import band_of


def test_a_sample_has_all_rows_of_rare_numbers_and_stands_for_the_others(monkeypatch):
    monkeypatch.setattr(sample, "MOST_ROWS", 400)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": np.minimum(rng.geometric(0.1, 5000), 60.0), "x": rng.integers(0, 5, 5000)})
    encoder = Encoder.learn(table)
    codes, weight = encoder.encode(table), rng.uniform(0.5, 2.0, 5000)
    rare = sample.rare_rows(codes, encoder.codebooks)
    assert 50 < rare.sum() <= 200
    assert table["age"][rare].min() > table["age"][~rare].max()  # the long tail
    seen, scale_up = sample.sample_of(codes, weight, rare, {}, 0)
    assert len(seen) == 400
    assert np.isin(np.flatnonzero(rare), seen).all()
    assert (scale_up[rare[seen]] == 1.0).all()
    assert weight[seen] @ scale_up == pytest.approx(weight.sum())
    everything, ones = sample.sample_of(codes.rows(0, 300), weight[:300], rare[:300], {}, 0)
    assert everything.tolist() == list(range(300))
    assert (ones == 1.0).all()


@pytest.mark.slow
def test_bands_of_long_tails_do_not_depend_on_the_sample(monkeypatch):
    """Slopes of all rows against the information of a sample without a tail's rows made a bias of 10^6."""
    rng, n = np.random.default_rng(2), 12_000
    age = np.minimum(rng.geometric(0.12, n), 40).astype(float)
    old = rng.random(n) < 0.002
    age[old] = rng.choice(np.arange(41, 101), old.sum())
    X = pd.DataFrame({"age": age, "x": rng.uniform(size=n)})
    y = rng.poisson(0.1 * np.exp(X["x"] + 0.5 * np.sin(age / 5)))
    model = AHOFMRegressor(order=1, family="poisson", random_state=0).fit(X, y).model_
    codes = [np.arange(model.encoder.codebooks[0].n_codes - 1)]
    whole = band_of(model, read_table(X), y)
    monkeypatch.setattr(sample, "MOST_ROWS", 1000)
    part = band_of(model, read_table(X), y)
    ratio = part.term_std((0,), codes) / whole.term_std((0,), codes)
    assert 0.8 < ratio.min() < ratio.max() < 1.2
