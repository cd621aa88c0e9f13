"""What the examples in docstrings find: the names that docs/api.md defines for them, and no window for figures."""

import re
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def shared_names():
    """By running the first block of docs/api.md."""
    page = (Path(__file__).parent / "docs" / "api.md").read_text()
    names = {}
    exec(re.search(r"```python\n(.*?)```", page, flags=re.DOTALL)[1], names)
    return names


@pytest.fixture(autouse=True)
def doctest_names(request, doctest_namespace):
    """For doctests only."""
    if isinstance(request.node, pytest.DoctestItem):
        plt = pytest.importorskip("matplotlib.pyplot")
        plt.switch_backend("Agg")
        doctest_namespace.update(request.getfixturevalue("shared_names"), rng=np.random.default_rng(1))
        yield
        plt.close("all")
    else:
        yield
