"""The best model without columns: where every fit starts, and what deviances are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.families.links import quiet


def best_constant(family: Any, y: Floats, weight: Floats, offset: Floats | None = None) -> Floats:
    """Linear predictors (K,) of a family that fit targets (n,) best, by damped Newton steps from its guess."""
    rows = weight > 0  # a row without weight must not count, not even with an infinite loss
    y, fraction = y[rows].astype(np.float64), weight[rows] / weight.sum(dtype=np.float64)
    shifts = np.zeros((len(y), family.n_eta)) if offset is None else offset[rows].astype(np.float64)

    def at(eta: Floats) -> tuple[float, Floats, Floats]:
        with quiet():
            value, g, h = family.loss(y, eta + shifts)
            return float(fraction @ value), fraction @ g, fraction @ h

    # The smallest or the largest offset keeps all rows inside the link when the mean offset does not.
    guess = np.asarray(family.guess(y, fraction), dtype=np.float64)
    eta = min((guess - shift for shift in (fraction @ shifts, shifts.min(0), shifts.max(0))), key=lambda e: at(e)[0])
    secant = family.n_eta == 1 and family.curvature != "second derivative"  # steps by h alone would be many
    value, g, h = at(eta)
    for _ in range(200):
        step = -g / np.where(h > 0, h, 1.0)
        if not -(g @ step) > 1e-16 * abs(value):
            break
        for _ in range(60):
            new = at(eta + step)
            # A fair part of what the slope promises: h knows no cross terms, and a step that lands as high on the
            # other side would be taken for ever. The last term is rounding.
            if new[0] <= value + 0.2 * (g @ step) + 4e-16 * abs(value):
                break
            step = 0.5 * step
        else:
            break
        bend = (new[1] - g) / step if secant else -np.ones_like(g)
        eta, value, g, h = eta + step, new[0], new[1], np.where(bend > 0, bend, new[2])
    return np.asarray(eta)
