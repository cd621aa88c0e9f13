"""The fits that tests of exports share."""

import warnings

import pytest

from tests.export.models import MAKERS


@pytest.fixture(scope="session")
def fitted():
    """Estimators by name, fitted when they are asked for."""
    made = {}

    def get(name):
        if name not in made:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # constant columns
                made[name] = MAKERS[name]()
        return made[name]

    return get
