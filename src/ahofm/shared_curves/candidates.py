"""Candidate fits to several classes: what is smooth, how many curves there are, and what keeps them from the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ahofm.orders import Orders
from ahofm.shared_curves.shared_fit import CurveSettings
from ahofm.training.settings import Settings
from ahofm.tuning.classes import FIXED_SWEEPS, LEARNED_RANK, LEARNED_SWEEPS, MORE_CURVES, MORE_CURVES_ROWS

Way: TypeAlias = tuple[CurveSettings, CurveSettings | None]
"""How curves are fitted, and what must be in the race for it to be tried."""


@dataclass(frozen=True)
class ClassCandidate:
    """A candidate.

    Attributes
    ----------
    ranked : bool
        Whether curves are smooth in the ranks of values, not in the values.
    how : CurveSettings or None
        None: main effects alone.
    stage : int
        When it is tried: dear candidates come after cheap ones.
    parent : CurveSettings or None
        Without this one in the race, on the same scale, it is not tried.
    """

    ranked: bool
    how: CurveSettings | None = None
    stage: int = 0
    parent: CurveSettings | None = None

    @property
    def order(self) -> int:
        """Highest order."""
        return 1 if self.how is None else max(self.how.ranks)

    @property
    def name(self) -> str:
        """For people."""
        scale = "of ranks" if self.ranked else "of values"
        if self.how is None:
            return f"main effects {scale}"
        how = "learned" if self.how.learned else "early stopped"
        ranks = " and ".join(f"{rank} of order {order}" for order, rank in self.how.ranks.items())
        return f"{how} curves {scale} ({ranks})"

    def up_to(self, sweeps: int) -> ClassCandidate:
        """With no more sweeps than that."""
        assert self.how is not None
        return replace(self, how=replace(self.how, sweeps=sweeps))


def class_candidates(
    ranks: Mapping[int, int], settings: Settings, *, scales: Sequence[bool], n_rows: int
) -> list[ClassCandidate]:
    """Candidates for factors of these ranks, on each of the scales: the cheapest first."""
    ways = _ways(ranks, settings, n_rows)
    found = [ClassCandidate(ranked) for ranked in scales]
    for stage, several in enumerate(ways):
        for how, parent in several:
            found += [ClassCandidate(ranked, how, stage, parent) for ranked in scales]
    return found


def _ways(
    ranks: Mapping[int, int], settings: Settings, n_rows: int
) -> list[list[tuple[CurveSettings, CurveSettings | None]]]:
    """Ways to fit curves by stage, with those that must be in the race for them to be tried.

    Few sweeps with smoothing parameters as they are, from pairs to more of them; learned smoothing parameters, from
    pairs to all orders.
    """
    if not ranks:
        return []
    given = settings.rank != "auto"
    tempering = None if settings.tempering == "auto" else float(settings.tempering)
    learned = CurveSettings({}, settings.max_iter or LEARNED_SWEEPS, learned=True, tempering=tempering)
    if settings.tol is not None:
        learned = replace(learned, tol=settings.tol)
    fixed = CurveSettings({}, min(settings.max_iter or FIXED_SWEEPS, FIXED_SWEEPS), learned=False)
    orders = Orders(ranks if given else dict.fromkeys(ranks, LEARNED_RANK))
    first = orders.up_to(2) if 2 in orders else orders
    early, learned_first = replace(fixed, ranks=dict(first)), replace(learned, ranks=dict(first))
    stages: list[list[Way]] = [[(early, None)], [(learned_first, None)], []]
    if not given and n_rows >= MORE_CURVES_ROWS:
        stages[1].append((replace(fixed, ranks={2: MORE_CURVES}), early))
    if orders.highest > 2 and 2 in orders:
        share = dict(orders) if given else dict.fromkeys(orders, max(LEARNED_RANK // len(orders), 1))
        stages[2].append((replace(learned, ranks=share), learned_first))
    return stages
