"""Model files of earlier versions: names that have changed, and loadings that factors did not have."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Tensors: TypeAlias = dict[str, NDArray[Any]]

_NEW_TYPES = {
    "Walk": "RandomWalk",
    "WalkBasis": "RandomWalkBasis",
    "Mixed": "SplineIID",
    "MixedBasis": "SplineIIDBasis",
}
_NEW_FIELDS = {
    "Model": {"predictors": "linear_predictors", "strengths": "smoothing_parameters"},
    "Lower": {"predictors": "linear_predictors"},
    "Band": {"freedom": "edf", "loose": "uncorrelated"},
    "Terms": {"level": "centring"},
    "Record": {"share": "fraction"},
}
_NEW_SOLVERS = {"block": "variational", "newton": "subsample"}
"""Names in files of earlier versions, and what they are called now: types, fields by type, solvers."""


def renamed(model: Any, tensors: Tensors) -> tuple[Any, Tensors]:
    """JSON and tensors of an earlier version with present names; a tensor is named by its place in the JSON."""
    places: dict[str, str] = {}

    def changed(value: Any, old: str, new: str) -> Any:
        if isinstance(value, list):
            return [changed(item, f"{old}.{k}", f"{new}.{k}") for k, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        kind = value.get("type")
        if kind in ("numbers", "levels", "triangle"):
            places[old] = new
        names = _NEW_FIELDS.get(kind, {}) if isinstance(kind, str) else {}
        out = {}
        for name, item in value.items():
            now = names.get(name, name)
            out[now] = changed(item, f"{old}.{name}", f"{new}.{now}")
        if isinstance(kind, str):
            out["type"] = _NEW_TYPES.get(kind, kind)
        if kind == "Trace" and isinstance(out.get("solver"), str):
            out["solver"] = _NEW_SOLVERS.get(out["solver"], out["solver"])
        return out

    found = changed(model, "model", "model")
    return found, {places.get(place, place): tensor for place, tensor in tensors.items()}


def add_loadings(model: Any, where: str, tensors: Tensors) -> None:
    """To a model of version 3 or earlier, whose factors have none: loadings of one, which also say its ranks."""
    if not isinstance(model, dict) or not isinstance(model.get("ranks"), dict):
        raise ValueError(f"{where} should have ranks")
    ranks = model.pop("ranks")
    for k, terms in enumerate(model["linear_predictors"]):
        place = f"{where}.linear_predictors.{k}"
        if terms["type"] != "Terms" or "loadings" in terms:
            raise ValueError(f"{place} should be Terms, not {str(terms)[:60]}")
        if tensors[f"{place}.centring.0"].shape != (1 + sum(ranks.values()),):
            raise ValueError(f"{place} has coefficients of other ranks than {str(ranks)[:60]}")
        terms["type"], terms["loadings"] = "Predictor", {order: {"type": "numbers"} for order in ranks}
        tensors |= {f"{place}.loadings.{order}": np.ones(rank) for order, rank in ranks.items()}
    for k, lower in enumerate(model.get("lower", ())):
        add_loadings(lower, f"{where}.lower.{k}", tensors)
