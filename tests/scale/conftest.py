import pytest

from ahofm.fit.solvers.subsample import refine
from ahofm.fit.stacking import problem
from ahofm.rows import dataset
from ahofm.training import data


@pytest.fixture
def small_raw_sample(monkeypatch):
    """As if 1,500 rows were many."""
    for module in (dataset, data):
        monkeypatch.setattr(module, "RAW_SAMPLE_ROWS", 1_500)
    monkeypatch.setattr(data, "MERGED_ROWS", 1_500)
    monkeypatch.setattr(problem, "SUBSAMPLE_ROWS", 1_500)
    monkeypatch.setattr(refine, "SAMPLE_ROWS", 1_000)
