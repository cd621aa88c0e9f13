"""Columns as tables by code, for targets that look rows up: pieces, nodes, missing values and levels alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.columns.piecewise import exponent_of_width, scale_of_exponent
from ahofm.export.description import LevelColumn, Nodes, NumberColumn


@dataclass(frozen=True)
class Lookup:
    """Functions of a code and a number: of row k, ``sum_m powers[k, m] t^m`` with ``t = x * scales[k] - shifts[k]``.

    Attributes
    ----------
    breaks : array of shape (pieces - 1,)
        The code of a number is how many of them are at or below it; of a missing one, the number of the last row. Empty
        for levels, whose code is their place, then that of a missing one, then that of an unseen one.
    scales, shifts : arrays of shape (codes,)
    powers : array of shape (codes, degree + 1, functions)
    """

    breaks: Floats
    scales: Floats
    shifts: Floats
    powers: Floats

    @property
    def missing(self) -> int:
        """The code of a missing number."""
        return len(self.breaks) + 1


def number_lookup(column: NumberColumn) -> Lookup:
    """Pieces, then the missing value."""
    missing = np.zeros((1, *column.values.shape[1:]))
    missing[0, 0] = column.missing
    return Lookup(
        column.breaks,
        np.append(column.scales, 0.0),
        np.append(column.shifts, 0.0),
        np.concatenate([column.values, missing]),
    )


def node_lookup(nodes: Nodes) -> Lookup:
    """Lines between nodes, with a constant before the first and one from the last on; zero where x is missing."""
    left, right, width = nodes.x[:-1], nodes.x[1:], nodes.values.shape[1]
    inner = scale_of_exponent(exponent_of_width(left, right))  # powers of two: products with x have no rounding error
    powers = np.zeros((len(nodes.x) + 2, 2, width))
    powers[0, 0], powers[1:-1, 0] = nodes.values[0], nodes.values
    powers[1:-2, 1] = np.diff(nodes.values, axis=0) / (right * inner - left * inner)[:, np.newaxis]
    scales = np.concatenate([[0.0], inner, [0.0, 0.0]])
    return Lookup(nodes.x, scales, scales * np.concatenate([nodes.x[:1], nodes.x, [0.0]]), powers)


def level_lookup(column: LevelColumn) -> Lookup:
    """Levels, then the missing value, then what training did not have."""
    values = np.vstack([column.values, column.missing, column.unseen])
    zeros = np.zeros(len(values))
    return Lookup(np.empty(0), zeros, zeros, values[:, np.newaxis])
