"""A description as JSON with one array of numbers: what the report page and the scorers carry."""

from __future__ import annotations

import base64
import gzip
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.export.description import Column, Description, Group, LevelColumn
from ahofm.orders import PRODUCT

EVALUATOR = Path(__file__).parent / "evaluator.js"
"""Functions in JavaScript that evaluate what is packed: of the report page, and of modules."""

_LEVEL = 6
"""Of compression: 9 takes up to nine times as long for a hundredth less (reports of wine quality and concrete)."""


@dataclass
class Packer:
    """Arrays one after another; each is known by its place and shape."""

    parts: list[Floats] = field(default_factory=list)
    size: int = 0

    def put(self, array: Any) -> dict[str, Any]:
        """Where an array is."""
        values = np.ascontiguousarray(array, dtype=np.float64)
        self.parts.append(values.ravel())
        self.size += values.size
        return {"at": self.size - values.size, "shape": list(values.shape)}

    def text(self, most_bytes: float = np.inf) -> dict[str, Any]:
        """All of it: compressed, in base 64, with its precision, which is single where doubles take more bytes."""
        numbers = np.concatenate([np.zeros(0), *self.parts])
        double = numbers.nbytes <= most_bytes
        packed = gzip.compress(numbers.astype("<f8" if double else "<f4").tobytes(), _LEVEL, mtime=0)
        return {"bits": 64 if double else 32, "data": base64.b64encode(packed).decode("ascii")}


def packed(description: Description, packer: Packer) -> dict[str, Any]:
    """Everything that an evaluator needs but the numbers themselves, which go to the packer; breaks stay in full."""
    nodes, weights = description.quadrature()
    return {
        "names": list(description.names),
        "mean": description.mean.name,
        "shift": description.mean.shift,
        "thresholds": list(description.mean.thresholds),
        "levels": list(description.mean.levels),
        "classes": None if description.classes is None else list(description.classes),
        "quadrature": [nodes.tolist(), weights.tolist()],
        "curves": [_curve(column, packer) for column in description.columns],
        "linear_predictors": [
            {
                "name": label,
                "at": k,
                "intercept": float(description.intercepts[k]),
                "base": base(description, k),
                "groups": [_group(group, k) for group in description.groups if group.loadings[k].any()],
            }
            for k, label in enumerate(description.labels)
        ],
    }


def base(description: Description, k: int) -> float:
    """The linear predictor without columns: with the constants of its products."""
    products = [group for group in description.groups if group.means is not None]
    constants = [float(group.loadings[k] @ np.prod(np.asarray(group.means), axis=0)) for group in products]
    return float(description.intercepts[k]) + sum(constants)


def _group(group: Group, k: int) -> dict[str, Any]:
    which = np.flatnonzero(group.loadings[k])
    found = {
        "order": group.order,
        "which": (group.first + which).tolist(),
        "loadings": group.loadings[k, which].tolist(),
    }
    if group.order == PRODUCT and group.means is not None:
        found["means"] = group.means[:, which].tolist()
    return found


def _curve(column: Column, packer: Packer) -> dict[str, Any]:
    if isinstance(column, LevelColumn):
        values = np.vstack([column.values, column.missing, column.unseen])
        return {"levels": list(column.levels), "values": packer.put(values)}
    nodes = column.nodes
    return {
        "breaks": column.breaks.tolist(),
        "scales": column.scales.tolist(),
        "shifts": column.shifts.tolist(),
        "values": packer.put(column.values),
        "missing": packer.put(column.missing),
        "start": column.start,
        "period": column.period,
        "nodes": None if nodes is None else {"x": nodes.x.tolist(), "values": packer.put(nodes.values)},
    }
