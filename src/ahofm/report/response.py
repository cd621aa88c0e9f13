"""What is predicted: the mean that the page evaluates, its name, and what each linear predictor is for."""

from __future__ import annotations

from typing import Any

from ahofm.export.means import Mean, mean_of
from ahofm.families import Family, GaussianLocationScale, Ordinal, ZeroInflatedPoisson
from ahofm.families.survival import FailureTime

OTHER = "other"
"""The link of a family whose mean exports do not know: its page shows linear predictors."""


def known_mean(family: Family) -> Mean | None:
    """How linear predictors become means; None where exports do not know it."""
    try:
        return mean_of(family)
    except TypeError:
        return None


def response(family: Family) -> dict[str, Any]:
    """What is predicted: a mean, a median of times, an expected level.

    ``parts`` says what each linear predictor is for, where that is not the link of the mean; ``levels`` are ordered
    ones, whose probabilities the page shows.
    """
    if isinstance(family, FailureTime):
        return {"name": "median", "parts": [], "levels": []}
    if isinstance(family, Ordinal):
        return {"name": "expected level", "parts": [], "levels": list(family.categories)}
    parts = {ZeroInflatedPoisson: ["count", "zeros"], GaussianLocationScale: ["identity", "deviation"]}
    own = next((names for kind, names in parts.items() if isinstance(family, kind)), [])
    return {"name": "mean", "parts": own, "levels": []}


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
