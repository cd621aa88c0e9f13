"""Which columns may interact, and which columns each factor has.

An interaction is allowed if its columns are in one group of ``interaction_cst`` and contain no set of ``exclude``. The
largest sets of columns whose interactions are all allowed are the groups here; a factor belongs to one group, and has
no function of any other column. Interactions that are not allowed are therefore exactly zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.orders import PRODUCT
from ahofm.training.settings import Settings
from ahofm.tuning.constraints import EQUAL_GROUPS_FRACTION, JOINT_COLUMNS, LEAST_GROUP_RANK, MOST_GROUPS
from ahofm.tuning.products import PRODUCT_COLUMNS, PRODUCT_ROWS

ColumnGroup: TypeAlias = tuple[int, ...]
"""Positions of columns that may interact, ascending."""

NAMED = ("no_interactions", "pairwise")
"""Values of ``interaction_cst`` that are no list of groups."""


@dataclass(frozen=True)
class FactorGroups:
    """Groups of columns that may interact, and the group of each factor.

    Attributes
    ----------
    n_columns : int
    groups : tuple of ColumnGroup, or None
        None: all columns may interact.
    """

    n_columns: int
    groups: tuple[ColumnGroup, ...] | None = None

    def of_order(self, order: int) -> tuple[ColumnGroup, ...]:
        """Groups that have interactions of an order; product factors need two columns."""
        if self.groups is None:
            return (tuple(range(self.n_columns)),)
        return tuple(group for group in self.groups if len(group) >= (2 if order == PRODUCT else order))

    def places(self, order: int, rank: int) -> list[tuple[ColumnGroup, NDArray[np.intp]]]:
        """Each group with those of ``rank`` factors that it has: groups take turns."""
        groups = self.of_order(order)
        return [(group, np.arange(k, rank, len(groups))) for k, group in enumerate(groups[:rank])]

    def left_out(self, order: int, rank: int) -> NDArray[np.bool_] | None:
        """Whether a column has no function in a factor: (columns, rank); None where every column has all."""
        if self.groups is None:
            return None
        found = np.ones((self.n_columns, rank), dtype=bool)
        for group, places in self.places(order, rank):
            found[np.asarray(group)[:, np.newaxis], places] = False
        return found

    def allowed(self) -> NDArray[np.bool_] | None:
        """Whether two columns may interact: (columns, columns); None where all may."""
        if self.groups is None:
            return None
        found = np.zeros((self.n_columns, self.n_columns), dtype=bool)
        for group in self.groups:
            found[np.ix_(group, group)] = True
        return found

    def left_out_of(self, sizes: Floats, order: int) -> NDArray[np.bool_]:
        """Columns (columns, rank) that have no function in factors whose functions have ``sizes`` (columns, rank).

        Each factor, the first ones first, gets the group that keeps most of it, and of equal ones that with the fewest
        factors; every group has one factor at least.
        """
        groups, rank = self.of_order(order), sizes.shape[1]
        members = np.zeros((len(groups), self.n_columns))
        for k, group in enumerate(groups):
            members[k, list(group)] = 1.0
        kept, counts, out = members @ sizes, np.zeros(len(groups), dtype=np.intp), np.ones(sizes.shape, dtype=bool)
        for f in range(rank):
            without = np.flatnonzero(counts == 0)
            some = without if len(without) >= rank - f else np.arange(len(groups))
            best = some[kept[some, f] >= EQUAL_GROUPS_FRACTION * kept[some, f].max()]
            chosen = best[np.argmin(counts[best])]
            counts[chosen] += 1
            out[list(groups[chosen]), f] = False
        return out

    def all_left_out(self, ranks: Mapping[int, int]) -> NDArray[np.bool_] | None:
        """``left_out`` of the factors of all orders side by side."""
        if self.groups is None or not ranks:
            return None
        return np.hstack([np.asarray(self.left_out(order, rank)) for order, rank in ranks.items()])

    def total_rank(self, order: int, rank: int, *, given: bool = False, spectral: bool = False) -> int:
        """Factors of all groups: ``rank`` each, where it was given; otherwise ``rank`` in all, a few for each.

        With ``spectral`` starts pairs of few columns have ``rank`` in all, and one for each group at least: they go to
        the groups that need them (``left_out_of``).
        """
        count = len(self.of_order(order))
        if given or count < 2:
            return count * rank
        if spectral and order == 2 and self.n_columns <= JOINT_COLUMNS:
            return max(rank, count)
        return count * max(rank // count, LEAST_GROUP_RANK)

    def at_least_one(self, ranks: Mapping[int, int]) -> dict[int, int]:
        """Ranks, raised so that every group has a few factors."""
        if self.groups is None:
            return dict(ranks)
        least = {order: LEAST_GROUP_RANK * len(self.of_order(order)) for order in ranks}
        return {order: max(rank, least[order]) for order, rank in ranks.items() if least[order]}


def highest_order(settings: Settings) -> int | None:
    """Highest order that ``interaction_cst`` allows whatever the columns; None: any."""
    return {"no_interactions": 1, "pairwise": 2}.get(str(settings.interaction_cst))


def tries_products(settings: Settings, n_columns: int, n_rows: int) -> bool:
    """Whether candidates may have product factors: no order, rank or shape is given, and the table is small enough."""
    automatic = settings.order in (None, "auto") and settings.rank == "auto" and highest_order(settings) is None
    return automatic and not settings.monotonic_cst and 2 < n_columns <= PRODUCT_COLUMNS and n_rows < PRODUCT_ROWS


def factor_groups(settings: Settings, names: Sequence[str], columns: Sequence[int]) -> FactorGroups:
    """Groups among ``columns``, positions in the table of the columns that vary, by ``names`` of all columns."""
    groups = allowed_groups(settings.interaction_cst, settings.exclude, names)
    if groups is None:
        return FactorGroups(len(columns))
    place = {column: j for j, column in enumerate(columns)}
    varying = _maximal(frozenset(place[j] for j in group if j in place) for group in groups)
    if varying == [frozenset(range(len(columns)))]:
        return FactorGroups(len(columns))
    return FactorGroups(len(columns), tuple(sorted(tuple(sorted(group)) for group in varying if len(group) > 1)))


def allowed_groups(interaction_cst: Any, exclude: Any, names: Sequence[str]) -> list[frozenset[int]] | None:
    """The largest sets of columns whose interactions are all allowed; None where all are.

    As in scikit-learn, columns that no group of ``interaction_cst`` has form a further group.
    """
    groups = [frozenset(range(len(names)))]
    if interaction_cst is not None and interaction_cst not in NAMED:
        given = [_columns_of(group, names, "interaction_cst") for group in _listed(interaction_cst, "interaction_cst")]
        rest = groups[0].difference(*given)
        groups = _maximal([*given, rest])
    elif not exclude:
        return None
    for barred in _listed(() if exclude is None else exclude, "exclude"):
        found = _columns_of([barred] if _is_column(barred) else barred, names, "exclude")
        groups = _maximal(
            part
            for group in groups
            for part in ((group - {column} for column in found) if found <= group else (group,))
        )
        if len(groups) > MOST_GROUPS:
            raise ValueError(
                f"exclude={exclude!r} leaves more than {MOST_GROUPS} groups of columns that may interact; "
                "exclude fewer pairs, columns as a whole, or give the groups as interaction_cst"
            )
    if len(groups) > MOST_GROUPS:
        raise ValueError(f"interaction_cst has {len(groups)} groups of columns; give at most {MOST_GROUPS}")
    return groups


def groups_named(groups: Iterable[Iterable[int]], names: Sequence[str]) -> str:
    """Groups of columns as people read them."""
    return "; ".join(" × ".join(names[j] for j in sorted(group)) for group in groups if len(tuple(group)) > 1) or "none"


def _maximal(groups: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """Sets that are in no other."""
    found = sorted(set(groups), key=lambda group: (-len(group), sorted(group)))
    kept: list[frozenset[int]] = []
    for group in found:
        if group and not any(group <= other for other in kept):
            kept.append(group)
    return kept


def _is_column(value: Any) -> bool:
    return isinstance(value, (str, int, np.integer)) and not isinstance(value, bool)


def _listed(value: Any, argument: str) -> Sequence[Any]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        choices = "None, 'no_interactions', 'pairwise' or " if argument == "interaction_cst" else ""
        raise ValueError(f"{argument} must be {choices}a list of sets of columns, got {value!r}")
    return list(value)


def _columns_of(group: Any, names: Sequence[str], argument: str) -> frozenset[int]:
    """Positions of the columns of one set, given by name or position."""
    if _is_column(group) or isinstance(group, Mapping) or not isinstance(group, Iterable):
        raise ValueError(f"{argument} must have sets of columns, such as {tuple(names[:2])!r}, got {group!r}")
    places = [column_position(column, names, argument) for column in group]
    if not places:
        raise ValueError(f"{argument} has an empty set of columns; leave it out")
    if len(set(places)) < len(places):
        twice = next(names[place] for place in places if places.count(place) > 1)
        remedy = "name it once" + ", or alone to leave it without interactions" * (argument == "exclude")
        raise ValueError(f"{argument} names column {twice!r} twice in one set; {remedy}")
    return frozenset(places)


def column_position(column: Any, names: Sequence[str], argument: str) -> int:
    """Position of a column that is given by name or position."""
    if isinstance(column, str) and column in names:
        return list(names).index(column)
    if _is_column(column) and not isinstance(column, str) and 0 <= column < len(names):
        return int(column)
    some = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
    raise ValueError(
        f"{argument} names column {column!r}, which X does not have; its columns are {some}, "
        f"or positions from 0 to {len(names) - 1}"
    )
