"""The band of a model as the page evaluates it: standard errors of the linear predictors of any row.

The page needs derivatives J of a linear predictor by the band's coordinates, from their values at the codes of a row,
and the variance ``J V J' = |M J'|^2`` with M the inverse of the band's root. Tables and M are kept in 16 bits with a
scale per row, a relative error of 2^-16 of the largest entry: multiplying by M loses no more than that.
"""

from __future__ import annotations

import base64
import gzip
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.columns.piecewise import line_ends
from ahofm.export.packed import Packer
from ahofm.model import Band, Model
from ahofm.model.beyond import regression_on_column
from ahofm.orders import PRODUCT, Orders

_MOST, _MOST_IN_MEMORY = 600_000, 8_000_000
"""Entries of a band that a page carries: 1.2 MB that are not compressed, and 16 MB when they are read. Runs of equal
entries, as columns of many levels have them, count once for the first. A page of a larger band has no interval."""

_LARGEST = 32_767


@dataclass
class ShortPacker:
    """Rows of numbers one after another, 16 bits each, with a scale per row."""

    parts: list[NDArray[np.int16]] = field(default_factory=list)
    size: int = 0

    def put(self, rows: list[Floats]) -> dict[str, Any]:
        """Where rows of any lengths begin, and the number that one unit of each is."""
        scales = [float(np.abs(row).max(initial=0.0)) / _LARGEST for row in rows]
        found = {"at": self.size, "scales": scales}
        for row, scale in zip(rows, scales, strict=True):
            self.parts.append(np.round(row / (scale or 1.0)).astype("<i2"))
            self.size += len(row)
        return found

    def text(self) -> str:
        """All of it, compressed, in base 64."""
        packed = gzip.compress(np.concatenate([np.zeros(0, dtype="<i2"), *self.parts]).tobytes(), mtime=0)
        return base64.b64encode(packed).decode("ascii")


def packed_band(model: Model, packer: Packer) -> dict[str, Any] | None:
    """What standard errors of a row take; None without a band, and for one that is too large for a page."""
    band = model.band
    if band is None or _too_large(band):
        return None
    short = ShortPacker()
    columns = [
        {
            "edges": None if book.edges is None else packer.put(book.edges),
            "codes": book.n_codes,
            "mains": short.put(list(main.T)),
            "factors": short.put(list(factor.T)),
            "line": _line(model, j, main),
        }
        for j, (book, main, factor) in enumerate(zip(model.encoder.codebooks, band.mains, band.factors, strict=True))
    ]
    predictors = [
        _predictor(band, k, packer, short) | {"lines": [j for j, slope in own.end_slopes.items() if slope]}
        for k, own in enumerate(model.linear_predictors)
    ]
    return {"columns": columns, "predictors": predictors, "numbers": short.text()}


def _line(model: Model, j: int, main: Floats) -> dict[str, Any] | None:
    """Of a column that goes on as a line: its range, where lines end, and slopes of the band's main effects."""
    book = model.encoder.codebooks[j]
    if book.clamped_range is None or not any(own.end_slopes.get(j) for own in model.linear_predictors):
        return None
    return {
        "range": list(book.clamped_range),
        "ends": list(line_ends(*book.clamped_range)),
        "slopes": regression_on_column(book, main)[0].tolist(),
    }


def _too_large(band: Band) -> bool:
    tables = [*band.mains, *band.factors]
    roots = sum(len(root) * (len(root) + 1) // 2 for root in band.roots)
    if roots + sum(table.size for table in tables) > _MOST_IN_MEMORY:
        return True
    return int(roots + sum(table.shape[1] + np.count_nonzero(np.diff(table, axis=0)) for table in tables)) > _MOST


def _predictor(band: Band, k: int, packer: Packer, short: ShortPacker) -> dict[str, Any]:
    root = band.roots[k]
    inverse = scipy.linalg.solve_triangular(root, np.eye(len(root)), lower=True, check_finite=False)
    loadings, means = band.loadings_of(k), band.means_of(k)
    orders = Orders(band.ranks)
    return {
        "inverse": short.put([row[: i + 1] for i, row in enumerate(inverse)]),
        "shift": packer.put((band.row_shifts or band.shifts)[k]),
        "theta": packer.put(band.thetas[k]),
        "uncorrelated": packer.put(band.uncorrelated[k]) if band.uncorrelated and len(band.uncorrelated[k]) else None,
        "random_effects": {
            str(j): packer.put(own) for j, own in (band.random_effects[k] if band.random_effects else {}).items()
        },
        "correlated": list(band.correlated[k]) if band.correlated else None,
        "width": float(band.widths[k]) if band.widths else 1.0,
        "groups": [
            {"order": order, "first": part.start, "loadings": loadings[order].tolist()}
            | ({"means": means.tolist()} if order == PRODUCT and means is not None else {})
            for order, part in orders.factor_slices.items()
        ],
    }
