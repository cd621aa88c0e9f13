"""What is predicted, and how the page computes it from linear predictors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ahofm.export.means import mean_name
from ahofm.families import Family, GaussianLocationScale, Ordinal, ZeroInflatedPoisson
from ahofm.families.survival import FailureTime

OTHER = "other"
"""The link of a family whose mean the page does not know: it shows linear predictors."""

PAGE_LINKS = ("ordinal", "zero_inflated", OTHER)
"""Means that the page computes itself, from linear predictors, and that of no known form."""


def response(family: Family) -> dict[str, Any]:
    """What is predicted: its link and name, and the constants that it takes.

    ``parts`` says what each linear predictor is for, where that is not the link of the mean; ``shift`` is added to the
    linear predictor before its exponential; ``thresholds`` and ``levels`` are those of ordered levels.
    """
    found: dict[str, Any] = {"link": _link(family), "name": "mean", "parts": [], "shift": 0.0}
    found |= {"thresholds": [], "levels": []}
    if isinstance(family, FailureTime):
        median = float(np.log(family.mean(np.zeros((1, 1))))[0])
        return found | {"link": "log", "name": "median", "shift": median}
    if isinstance(family, Ordinal):
        levels = {"thresholds": list(family.thresholds or ()), "levels": list(family.categories)}
        return found | {"link": "ordinal", "name": "expected level"} | levels
    if isinstance(family, ZeroInflatedPoisson):
        return found | {"link": "zero_inflated", "parts": ["count", "zeros"]}
    if isinstance(family, GaussianLocationScale):
        return found | {"parts": ["identity", "deviation"]}
    return found


def predictor_names(family: Family, classes: tuple[Any, ...] | None) -> list[str]:
    """Of linear predictors: those of classes, or what they are for; empty for the only one."""
    if family.n_eta == 1:
        return [""]
    if classes is not None:
        return [str(label) for label in classes]
    if isinstance(family, ZeroInflatedPoisson):
        return ["count", "zeros"]
    if isinstance(family, GaussianLocationScale):
        return ["mean", "standard deviation"]
    return [str(k) for k in range(family.n_eta)]


def _link(family: Family) -> str:
    try:
        return mean_name(family)
    except TypeError:
        return OTHER
