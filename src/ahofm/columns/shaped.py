"""A column whose effect has a shape: what a monotone, convex or concave column is once it has been fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ahofm.columns.random_walk import RandomWalk

Shape = Literal["increasing", "decreasing", "convex", "concave"]


@dataclass(frozen=True)
class Shaped(RandomWalk):
    """Values at the codes, joined by lines, so that a shape at the codes is one everywhere.

    Fits with ``monotonic_cst`` make such columns.

    Parameters
    ----------
    outside : "auto" or "clamp"
        As the column had it before.
    max_codes : int, optional
    shape : "increasing", "decreasing", "convex" or "concave"
        Of the linear predictor in this column, whatever the values of the others.
    """

    shape: Shape = "increasing"
