"""The model as the page evaluates it: the functions of every column, packed into one array of numbers.

A column of numbers is up to two sums: polynomials between breaks, and straight lines between nodes. That is how a
column with a level per code was fitted, and a quarter of the numbers that one set of polynomials would take.
"""

from __future__ import annotations

import base64
import gzip
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.spline_iid import SplineIIDBasis
from ahofm.explain.pure import Pure, purify
from ahofm.families import Bernoulli, Family, Multinomial
from ahofm.kernels import LevelCurves, NumberCurves, column_curves
from ahofm.model import Model, Predictor
from ahofm.orders import PRODUCT

_MOST_BYTES = 2_500_000
"""Of numbers in double precision; more of them are kept in single precision."""


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

    def text(self) -> dict[str, Any]:
        """All of it: compressed, in base 64, with its precision."""
        numbers = np.concatenate([np.zeros(0), *self.parts])
        double = numbers.nbytes <= _MOST_BYTES
        packed = gzip.compress(numbers.astype("<f8" if double else "<f4").tobytes(), mtime=0)
        return {"bits": 64 if double else 32, "data": base64.b64encode(packed).decode("ascii")}


def packed_model(model: Model, packer: Packer) -> list[dict[str, Any]]:
    """Each linear predictor: intercept, loadings of its factors, functions of its columns; breaks in full precision."""
    found = []
    for k in range(len(model.linear_predictors)):
        pure = purify(model, k)
        columns = [_column(pure, j, book, packer) for j, book in enumerate(model.encoder.codebooks)]
        orders = [
            {"order": order, "first": part.start, "loadings": pure.loadings[order].tolist()}
            | (_products(pure.linear_predictor) if order == PRODUCT else {})
            for order, part in pure.orders.slices.items()
        ]
        found.append({"intercept": pure.intercept, "orders": orders, "columns": columns})
    return found


def _products(linear_predictor: Predictor) -> dict[str, Any]:
    """Constants of product factors, and nodes and weights of the integral that their Shapley values are."""
    means = linear_predictor.product_means
    assert means is not None
    nodes, weights = np.polynomial.legendre.leggauss(-(-len(means) // 2))
    return {"means": means.tolist(), "nodes": (0.5 * (nodes + 1.0)).tolist(), "weights": (0.5 * weights).tolist()}


def _column(pure: Pure, j: int, book: Codebook, packer: Packer) -> dict[str, Any]:
    curve = pure.functions[j]
    if isinstance(curve, LevelCurves):
        return {"levels": packer.put(curve.values), "learns_missing": bool(book.learns_missing)}
    nodes = None
    if isinstance(book.functions, SplineIIDBasis):
        mixed, coef, own = book.functions, pure.linear_predictor.coef[j], pure.linear_predictor
        rows = [*range(mixed.smooth.size), *([book.size - 1] if book.learns_missing else [])]
        smooth = column_curves(replace(book, functions=mixed.smooth), coef[rows], own.centring[j], own.at_neutral(j))
        if not isinstance(smooth, NumberCurves):
            raise TypeError(f"column '{book.name}': a spline is a function of a number")
        curve, values = smooth, coef[mixed.smooth.size : mixed.size]
        nodes = {"x": mixed.levels.tolist(), "values": packer.put(values)}
    return {
        "breaks": curve.breaks.tolist(),
        "scales": curve.scales.tolist(),
        "shifts": curve.shifts.tolist(),
        "values": packer.put(curve.values),
        "missing": packer.put(curve.missing),
        "start": curve.start,
        "period": curve.period,
        "nodes": nodes,
    }


def mean_function(family: Family) -> str:
    """Which function of the page makes means of linear predictors."""
    if isinstance(family, Multinomial):
        return "softmax"
    if isinstance(family, Bernoulli):
        return "logit"
    return str(getattr(family, "link", "identity"))
