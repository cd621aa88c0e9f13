"""Ensemble members of stacked fits: how many each candidate gets, and the stack in words."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from ahofm.tuning.numerics import SHOWN_WEIGHT

C = TypeVar("C", bound=Hashable)


def copies_of(wanted: Sequence[C], weights: Mapping[C, float], count: int) -> dict[C, int]:
    """Number of ensemble members of each candidate: at least one, the rest in proportion to the stacking weights.

    Parameters
    ----------
    wanted : sequence of candidates
    weights : dict of candidate to stacking weight
        At the highest order; candidates without weight, which lower orders use, have one member.
    count : int
        Number of all members, where there are not more candidates.
    """
    copies = dict.fromkeys(wanted, 1)
    weighted = [candidate for candidate in wanted if weights.get(candidate, 0.0) > 0.0]
    while weighted and sum(copies.values()) < count:
        copies[max(weighted, key=lambda candidate: weights[candidate] / copies[candidate])] += 1
    return copies


def stack_in_words(parts: Sequence[tuple[float, str]]) -> str:
    """Stacking weights and names, largest first; what they lack to 1 is the weight of a constant."""
    texts = [f"{weight:.0%} {name}" for weight, name in sorted(parts, key=lambda part: -part[0])]
    rest = 1.0 - sum(weight for weight, _ in parts)
    return ", ".join([*texts, *([f"{rest:.0%} constant"] if rest > SHOWN_WEIGHT else [])])
