"""Where a fit starts: the best constant, no main effects, small random factors."""

from __future__ import annotations

import re
from math import comb

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.fit.objective import Objective
from ahofm.fit.tuning import INTERACTION_STD


def random_start(objective: Objective, intercepts: Floats, names: tuple[str, ...], seed: int) -> Floats:
    """Coefficients to start from.

    Draws go to the columns in the order of their names (x2 before x10), so that a table with its columns in another
    order starts from the same model; directions that are penalised more start smaller.
    """
    layout, theta = objective.layout, np.zeros(objective.size)
    active = sum(part.size > 0 for part in layout.factors)
    lam = objective.split(objective.lam)
    by_name = sorted(range(len(names)), key=lambda j: _natural(names[j]))
    for k, part in enumerate(objective.split(theta)):
        part[0] = intercepts[k]
        for place, j in enumerate(by_name):
            rng = np.random.default_rng([seed, place, k])
            weight = 1.0 / np.sqrt(1.0 + layout.factor(lam[k], j) / objective.total)
            for order, rank in layout.ranks.items():
                columns = layout.order_slices[order]
                variance = (INTERACTION_STD**2 / (rank * comb(active, order))) ** (1.0 / order)
                size = np.sqrt(variance / np.maximum((weight[:, columns] ** 2).sum(axis=0), 1e-300))
                draws = rng.normal(size=(layout.factors[j].size, rank))
                layout.factor(part, j)[:, columns] = draws * weight[:, columns] * size
    return theta


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """A key that sorts numbers within names by their size."""
    parts = re.split(r"([0-9]+)", name)
    return [(not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]
