"""Which columns share an effect: where rows cannot tell two columns apart, their effects are known together only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ahofm.model import Model

CONCURVITY = 0.8
"""From here on two columns share an effect."""


def shared_effects(model: Model, k: int, columns: Sequence[int] | None = None) -> list[str]:
    """One sentence per pair of columns with concurvity, or per pair that has one of these columns; strongest first."""
    if model.band is None or not model.band.concurvity:
        return []
    names, found = model.encoder.names, model.band.concurvity[k]
    wanted = range(len(names)) if columns is None else columns
    pairs = {(min(i, j), max(i, j)) for i, j in np.argwhere(found >= CONCURVITY).tolist() if {i, j} & set(wanted)}
    said = []
    for a, b in sorted(pairs, key=lambda pair: -max(found[pair], found[pair[::-1]])):
        i, j = (a, b) if found[a, b] >= found[b, a] else (b, a)
        said.append(
            f"columns '{names[i]}' and '{names[j]}' share an effect: a function of '{names[i]}' reproduces "
            f"{found[i, j]:.0%} of the main effect of '{names[j]}' (concurvity); rows can hardly tell how much "
            "is whose, and bands are wide for it: read the two effects together, or drop one of the columns"
        )
    return said
