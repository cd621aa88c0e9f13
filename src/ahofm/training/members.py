"""Ensemble members of stacked fits: how many each candidate gets, and the choices that a model records of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from ahofm.model import Choice
from ahofm.orders import PRODUCT
from ahofm.tuning.numerics import SHOWN_WEIGHT

C = TypeVar("C", bound=Hashable)


def members_per_candidate(candidates: Sequence[C], weights: Mapping[C, float], count: int) -> dict[C, int]:
    """Number of ensemble members of each candidate: at least one, the rest in proportion to the stacking weights.

    Parameters
    ----------
    candidates : sequence
        Those with stacking weight at any order.
    weights : dict of candidate to stacking weight
        At the highest order; candidates without weight, which lower orders use, have one member.
    count : int
        Number of all members, where there are not more candidates.
    """
    counts = dict.fromkeys(candidates, 1)
    weighted = [candidate for candidate in candidates if weights.get(candidate, 0.0) > 0.0]
    while weighted and sum(counts.values()) < count:
        counts[max(weighted, key=lambda candidate: weights[candidate] / counts[candidate])] += 1
    return counts


def interactions_choice(stack: Sequence[tuple[float, str]], why: str) -> Choice:
    """Stacking weights and names of candidates, largest first; what they lack to 1 is the weight of a constant.

    Where they exceed 1, their mean is scaled up: their sum is named as a factor of it.
    """
    total = sum(weight for weight, _ in stack)
    factor = total if total > 1.0 + SHOWN_WEIGHT else 1.0
    texts = [f"{weight / factor:.0%} {name}" for weight, name in sorted(stack, key=lambda member: -member[0])]
    rest = [f"{1.0 - total:.0%} constant"] if 1.0 - total > SHOWN_WEIGHT else []
    scaled = f", times {factor:.2g}" if factor > 1.0 else ""
    return Choice("interactions", ", ".join([*texts, *rest]) + scaled, why)


def on_validation_rows(what: str, n_rows: int, values: Iterable[tuple[str, float]]) -> str:
    """Losses of candidates on validation rows, as the reason of a choice: ``what`` they are, and by name."""
    return f"{what} on {n_rows:,} validation rows: " + ", ".join(f"{name} {value:.4g}" for name, value in values)


def rank_choice(ranks: Iterable[tuple[str, int, int]], why: str) -> Choice:
    """Numbers of factors: (text before, rank, order) of each entry."""
    texts = [f"{before}{rank} {'products' if d == PRODUCT else f'at order {d}'}" for before, rank, d in ranks]
    return Choice("rank", ", ".join(texts) or "none", why)
