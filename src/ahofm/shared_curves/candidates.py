"""Candidate fits of several classes: scale of smooth curves, number of factors, early stopping or learned penalties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ahofm.orders import PRODUCT, Orders
from ahofm.shared_curves.shared_fit import CurveSettings
from ahofm.training.factor_groups import FactorGroups, tries_products
from ahofm.training.settings import Settings
from ahofm.tuning.classes import (
    CLASS_PRODUCT_RANK,
    FIXED_SWEEPS,
    LEARNED_RANK,
    LEARNED_SWEEPS,
    WIDE_CLASS_RANK,
    WIDE_CLASS_ROWS,
)

RacedSettings: TypeAlias = tuple[CurveSettings, CurveSettings | None]
"""Settings of shared curves, and those of the candidate that must be in the race before they are tried."""


@dataclass(frozen=True)
class ClassCandidate:
    """A candidate fit of several classes.

    Attributes
    ----------
    in_ranks : bool
        Whether curves are smooth in the ranks of values, not in the values.
    curve_settings : CurveSettings or None
        How factors are fitted; None: main effects alone.
    stage : int
        Stage of the race in which it is fitted; expensive candidates come later.
    parent : CurveSettings or None
        Candidate of the same scale that must still be in the race; None: no condition.
    """

    in_ranks: bool
    curve_settings: CurveSettings | None = None
    stage: int = 0
    parent: CurveSettings | None = None

    @property
    def order(self) -> int:
        """Highest order."""
        return 1 if self.curve_settings is None else max(self.curve_settings.ranks)

    @property
    def name(self) -> str:
        """Name in summaries."""
        scale = "of ranks" if self.in_ranks else "of values"
        if self.curve_settings is None:
            return f"main effects {scale}"
        if PRODUCT in self.curve_settings.ranks:
            return f"product factors {scale} ({self.curve_settings.ranks[PRODUCT]})"
        kind = "learned" if self.curve_settings.learned else "early stopped"
        ranks = " and ".join(f"{rank} of order {order}" for order, rank in self.curve_settings.ranks.items())
        return f"{kind} curves {scale} ({ranks})"

    def up_to(self, sweeps: int) -> ClassCandidate:
        """The same candidate, stopped after ``sweeps`` sweeps."""
        assert self.curve_settings is not None
        return replace(self, curve_settings=replace(self.curve_settings, sweeps=sweeps))


def class_candidates(
    ranks: Mapping[int, int],
    settings: Settings,
    groups: FactorGroups | None = None,
    *,
    scales: Sequence[bool],
    n_rows: int,
    n_columns: int = 0,
) -> list[ClassCandidate]:
    """All candidates for factors of these ranks, on each of the scales; cheap ones first.

    Product factors are among them where ``n_columns``, those that vary, and the rows are few enough.
    """
    by_stage = _settings_by_stage(ranks, settings, groups or FactorGroups(0), n_rows, n_columns)
    found = [ClassCandidate(in_ranks) for in_ranks in scales]
    for stage, raced in enumerate(by_stage):
        for curve_settings, parent in raced:
            found += [ClassCandidate(in_ranks, curve_settings, stage, parent) for in_ranks in scales]
    return found


def _settings_by_stage(
    ranks: Mapping[int, int], settings: Settings, groups: FactorGroups, n_rows: int, n_columns: int
) -> list[list[tuple[CurveSettings, CurveSettings | None]]]:
    """Settings of shared curves by stage of the race, each with the settings that it depends on.

    Early stopping with fixed smoothing parameters, for pairs and for more of them; learned smoothing parameters, for
    pairs, for all orders, and for product factors.
    """
    if not ranks:
        return []
    given = settings.rank != "auto"
    tempering = None if settings.tempering == "auto" else float(settings.tempering)
    learned = CurveSettings({}, settings.max_iter or LEARNED_SWEEPS, learned=True, tempering=tempering)
    if settings.tol is not None:
        learned = replace(learned, tol=settings.tol)
    fixed = CurveSettings({}, min(settings.max_iter or FIXED_SWEEPS, FIXED_SWEEPS), learned=False)
    orders = Orders(ranks if given else groups.at_least_one(dict.fromkeys(ranks, LEARNED_RANK)))
    first = orders.up_to(2) if 2 in orders else orders
    early, learned_first = replace(fixed, ranks=dict(first)), replace(learned, ranks=dict(first))
    stages: list[list[RacedSettings]] = [[(early, None)], [(learned_first, None)], []]
    if not given and n_rows >= WIDE_CLASS_ROWS:
        stages[1].append((replace(fixed, ranks=groups.at_least_one({2: WIDE_CLASS_RANK})), early))
    if orders.highest > 2 and 2 in orders:
        divided = dict(orders)
        if not given:
            divided = groups.at_least_one(dict.fromkeys(orders, max(LEARNED_RANK // len(orders), 1)))
        stages[2].append((replace(learned, ranks=divided), learned_first))
    if _has_products(settings, groups, n_rows, n_columns):
        stages[2].append((replace(learned, ranks={PRODUCT: CLASS_PRODUCT_RANK}), None))
    return stages


def _has_products(settings: Settings, groups: FactorGroups, n_rows: int, n_columns: int) -> bool:
    """Whether product factors are among the candidates: where all columns may interact, and no prior is given."""
    suits = groups.groups is None and settings.factor_prior == "auto"
    return suits and tries_products(settings, n_columns, n_rows)
